"""The estimators on structures: StructureClassifier, StructureRegressor, StructureEncoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils._param_validation import StrOptions

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.estimators.inputs import rows_read
from hiddenfield.estimators.parameters import COMMON, OF_CLASSES, OF_NUMBERS, OF_PREDICTIONS
from hiddenfield.estimators.targets import Answers, as_classes, as_numbers, as_task, attach
from hiddenfield.shapes import Array, Float, Shaped

TYPES: dict[str, Any] = {"bool": bool, "int": np.int64, "float": np.float64, "str": str, "mixed": object}


class PredictsClasses(ClassifierMixin):  # type: ignore[misc]
    """What classifiers of structures have in common, given `_predictions`: probabilities of each target's classes."""

    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        return as_classes(structures, columns)

    @property
    def classes_(self) -> Any:
        """The classes, in the order of the columns of `predict_proba`."""
        columns = self._fitted("task_").columns
        listed = [
            class_array(column.vocabulary.symbols, kind)
            for column, kind in zip(columns, self.target_kinds_, strict=True)
        ]
        return listed[0] if self.single_target_ else listed

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, (structures, classes); with several targets a list of such arrays.

        Those of an ensemble are averaged. They sum to one, but are calibrated only as far as the loss makes them so.
        """
        averages = [members.mean(axis=0) for members in self._predictions(X)]
        return averages[0] if self.single_target_ else averages

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of `predict_proba`, in the same form."""
        found = self.predict_proba(X)
        return _log(found) if self.single_target_ else [_log(each) for each in found]

    def decision_function(self, X: Any) -> Any:
        """Return scores whose order is that of the probabilities.

        Of two classes the log odds of the second, (structures,), above 0 where it is predicted; of more the logarithms
        of the probabilities, (structures, classes). Of several targets with two classes each (structures, targets), of
        others a list.
        """
        found = self.predict_log_proba(X)
        scores = [
            each[:, 1] - each[:, 0] if each.shape[1] == 2 else each
            for each in ([found] if self.single_target_ else found)
        ]
        if self.single_target_:
            return scores[0]
        return np.stack(scores, axis=1) if all(score.ndim == 1 for score in scores) else scores

    def predict(self, X: Any) -> Shaped[Array, "*shape"]:
        """Return the most probable class of every structure, (structures,) or (structures, targets), as y was."""
        probabilities = self.predict_proba(X)
        if self.single_target_:
            return _most_probable(self.classes_, probabilities)
        columns = [_most_probable(*pair) for pair in zip(self.classes_, probabilities, strict=True)]
        if len({column.dtype.kind for column in columns}) > 1:
            columns = [column.astype(object) for column in columns]
        return np.stack(columns, axis=1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all entries of y that are not missing.

        With ``y=None`` the structures' own targets are the truth.
        """
        predicted, columns, weights, _ = _compared(self, X, y, sample_weight)
        right = total = 0.0
        for column, own in zip(columns, predicted, strict=True):
            same = np.asarray(column.values[column.present] == own[column.present], dtype=bool)
            right += float(weights[column.present][same].sum())
            total += float(weights[column.present].sum())
        if not total:
            raise InputError("y is missing for every structure; there is nothing to compare with")
        return right / total


class PredictsNumbers(RegressorMixin):  # type: ignore[misc]
    """What regressors of structures have in common, given `_predictions`: numbers of each target."""

    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        return as_numbers(structures, columns)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted numbers, (structures,) or (structures, targets), as y was.

        Parameters
        ----------
        X
            Structures.
        return_std
            Whether the standard deviation over the members of the ensemble comes too. It tells how much the networks
            disagree, which is not the error to expect: measure that on a held-out set.
        """
        members = np.stack(self._predictions(X), axis=-1)
        if return_std and len(members) < 2:
            raise InputError("one network has no spread; fit with ensemble=2 or more")
        members = members[..., 0] if self.single_target_ else members
        return (members.mean(axis=0), members.std(axis=0, ddof=1)) if return_std else members.mean(axis=0)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, the mean over the targets; missing entries do not count.

        With ``y=None`` the structures' own targets are the truth.
        """
        from sklearn.metrics import r2_score

        predicted, columns, weights, structures = _compared(self, X, y, sample_weight)
        truth = as_numbers(structures, columns).targets
        assert truth is not None
        scores = []
        for column, own in zip(truth.cpu().numpy().T, predicted, strict=True):
            present = ~np.isnan(column)
            scores.append(r2_score(column[present], own[present], sample_weight=weights[present]))
        return float(np.mean(scores))


@dataclass(kw_only=True, eq=False, repr=False)
class StructureClassifier(PredictsClasses, StructureEstimator):
    """Predict classes from structures: embedded inference, trained end to end.

    The parameters, X and y are described in `StructureEstimator`. Classes are text, integers or truth values, and are
    given back as such.

    Parameters
    ----------
    class_weight
        Weight of each class in the loss: None for equal ones, ``"balanced"`` for the inverse of the frequencies, or a
        mapping from classes to weights.
    counts
        Whether linear models and forests on counted Weisfeiler-Lehman colours are fitted beside each network, and
        averaged with it, with weights chosen on held-out structures; see `hiddenfield.estimators.counting`. ``"auto"``:
        where structures are held out, structures times targets are at most 50,000, and classes have no weights.

    Attributes
    ----------
    classes_
        The classes that occurred, sorted; with several targets a list of them.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureClassifier
    >>> words = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"]
    >>> model = StructureClassifier(dim=8, epochs=5, validation_fraction=0, random_state=0)
    >>> model.fit(words, ["short", "long", "short", "short", "long", "long"]).classes_
    array(['long', 'short'], dtype='<U5')
    >>> model.predict_proba(["CAT"]).shape
    (1, 2)
    """

    class_weight: str | Mapping[Any, float] | None = None
    counts: bool | str = "auto"

    _parameter_constraints = COMMON | OF_CLASSES | OF_PREDICTIONS


@dataclass(kw_only=True, eq=False, repr=False)
class StructureRegressor(PredictsNumbers, StructureEstimator):
    """Predict numbers from structures: embedded inference, trained end to end.

    The parameters, X and y are described in `StructureEstimator`; targets and predictions are in the user's units.

    Parameters
    ----------
    loss
        ``"square"``, ``"absolute"`` or ``"huber"``, of targets with mean 0 and scale 1.
    counts
        Whether linear models and forests on counted Weisfeiler-Lehman colours are fitted beside each network, and
        averaged with it, with weights chosen on held-out structures; see `hiddenfield.estimators.counting`. ``"auto"``:
        where structures are held out, structures times targets are at most 50,000, and the loss is the square.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"]
    >>> model = StructureRegressor(dim=8, epochs=5, validation_fraction=0, random_state=0)
    >>> model.fit(words, [2.0, 7.0, 3.0, 1.0, 4.0, 4.0]).predict(["CAT", "GATA"]).shape
    (2,)
    """

    loss: str = "square"
    counts: bool | str = "auto"

    _parameter_constraints = COMMON | OF_NUMBERS | OF_PREDICTIONS


@dataclass(kw_only=True, eq=False, repr=False)
class StructureEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StructureEstimator):  # type: ignore[misc]
    """Turn structures into vectors that were learned for a target; a transformer for pipelines.

    It is fitted as `StructureRegressor` or `StructureClassifier` is, and gives what their networks see before the
    head: the pooled node embeddings, by default of one network and its last round. The parameters, X and y are
    described in `StructureEstimator`.

    Parameters
    ----------
    task
        ``"regression"`` or ``"classification"``; ``"auto"`` takes targets for classes if every one of them holds text,
        truth values, or at most ten different whole numbers.
    loss, class_weight
        As in `StructureRegressor` and `StructureClassifier`.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureEncoder
    >>> encoder = StructureEncoder(dim=8, epochs=5, validation_fraction=0, random_state=0)
    >>> encoder.fit_transform(["GA", "GATTACA", "TTT", ""], [2.5, 7.5, 3.5, 0.5]).shape
    (4, 8)
    """

    every_round: bool | str = False
    ensemble: int | str = 1
    task: str = "auto"
    loss: str = "square"
    class_weight: str | Mapping[Any, float] | None = None

    _parameter_constraints = (
        COMMON | OF_NUMBERS | OF_CLASSES | {"task": [StrOptions({"auto", "regression", "classification"})]}
    )

    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        return as_task(structures, columns, self.task)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: vectors are in the precision of the network, whatever that of X."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def transform(self, X: Any) -> Any:
        """Return one vector per structure, as `embed` does."""
        return self.embed(X)

    @property
    def _n_features_out(self) -> int:
        return sum(network.width for network in self._fitted("networks_"))


def _log(probabilities: Float[Array, "structures classes"]) -> Float[Array, "structures classes"]:
    """Return logarithms; of a probability that is 0 in floating point that of the smallest number."""
    return np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))


def _most_probable(
    classes: Shaped[Array, " classes"], probabilities: Float[Array, "structures classes"]
) -> Shaped[Array, " structures"]:
    """Return the class of every structure; where there are no probabilities NaN for a number, None for a text."""
    missing = np.isnan(probabilities).any(axis=1)
    found = classes[np.where(missing, 0, probabilities.argmax(axis=1))]
    if not missing.any():
        return found
    number = found.dtype.kind in "iuf"
    found = found.astype(np.float64 if number else object)
    found[missing] = np.nan if number else None
    return found


def _compared(
    model: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Shaped[Array, "targets structures"], list[Answers], Float[Array, " structures"], Structures]:
    """Return what a model predicts, the columns of the truth, the weights, and the structures."""
    predicted = np.atleast_2d(np.transpose(model.predict(X)))
    structures = model.reading_.convert(X)
    rows = rows_read(X, structures)
    columns, _ = attach(structures, y, rows, None if rows is None else len(X))
    if len(columns) != len(predicted):
        raise InputError(f"the model predicts {len(predicted)} targets, but y has {len(columns)} columns")
    weights = np.asarray(
        np.ones(predicted.shape[1]) if sample_weight is None else sample_weight, dtype=np.float64
    )
    if rows is not None:
        predicted, weights = predicted[:, rows], weights[rows]
    return predicted, columns, weights, structures


def class_array(symbols: tuple[Any, ...], kind: str) -> Shaped[Array, " classes"]:
    """Return the classes as an array of the type in which they were given."""
    return np.array(symbols, dtype=object).astype(TYPES[kind])
