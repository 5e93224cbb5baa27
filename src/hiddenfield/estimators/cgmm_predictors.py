"""Contextual graph Markov models as a classifier and a regressor: a head on top of the fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import _spread
from hiddenfield.estimators.cgmm import CGMMEncoder, ContextualGraphMarkovModel
from hiddenfield.estimators.inputs import rows_read
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.estimators.supervised import _most_probable, class_array
from hiddenfield.estimators.targets import as_classes, as_numbers, attach
from hiddenfield.learning.linear import Linear, fit_linear
from hiddenfield.shapes import Array, Float, Int, Shaped, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FOLDS = 3
"""Parts that the head's criterion is cross-validated over, all of them training structures."""
ASIDE = 0.2
"""Of the structures that the penalty of the default head is chosen on."""


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMPredictor(ContextualGraphMarkovModel):
    """Base of the estimators that predict one target from fingerprints.

    Structures without a target take part in the learning of the layers.

    Parameters
    ----------
    head
        Any classifier or regressor of scikit-learn, fitted to the fingerprints; None for ridge or logistic
        regression whose penalty is chosen on a fifth of the training structures.
    select
        What the best start of a layer and the depth are chosen by: ``"likelihood"``, with the depth as given; or
        ``"score"``, that of the head, cross-validated within the training structures.
    patience
        With ``"score"``: layers without a better one after which growth ends.

    Attributes
    ----------
    head_
        The fitted head.
    """

    head: Any = None
    select: str = "likelihood"
    patience: int = 2

    _parameter_constraints: ClassVar[dict[str, Any]] = ContextualGraphMarkovModel._parameter_constraints | {
        "head": [HasMethods(["fit", "predict"]), None],
        "select": [StrOptions({"likelihood", "score"})],
        "patience": [COUNT],
    }

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the layers, then the head.

        Parameters
        ----------
        X
            Structures.
        y
            One target for each; None for the structures' own.
        """
        structures = self._begin(X)
        columns, _ = attach(structures, y, rows_read(X, structures), None if y is None else len(X))
        if len(columns) != 1:
            raise InputError(f"{type(self).__name__} predicts one target, got {len(columns)}")
        structures = self._with_targets(structures, columns)
        assert structures.targets is not None
        targets = structures.targets[:, 0].double().cpu().numpy()
        rows = np.flatnonzero(~np.isnan(targets))
        if not len(rows):
            raise InputError("y is missing for every structure; there is nothing to learn from")
        self._keep_target(structures, columns[0].kind)
        criterion = partial(self._validated, targets=targets, rows=rows) if self.select == "score" else None
        self._grow(structures, criterion, self.patience)
        features = self.fingerprints(structures.replace(targets=None))
        self.head_ = self._fit_head(features[rows], targets[rows])
        return self

    def _with_targets(self, structures: Structures, columns: Any) -> Structures:
        return as_numbers(structures, columns)

    def _keep_target(self, structures: Structures, kind: str) -> None:
        """Keep what predictions are given back as."""

    @property
    def _num_classes(self) -> int | None:
        """How many classes there are; None for numbers."""
        return None

    def _fit_head(self, features: csr_matrix, y: Float[Array, " rows"]) -> Any:
        if self.head is not None:
            return clone(self.head).fit(features.toarray(), y if self._num_classes is None else y.astype(int))
        order = np.random.default_rng(self._seed()).permutation(len(y))
        size = int(ASIDE * len(y))
        return fit_linear(features, y, np.sort(order[size:]), np.sort(order[:size]), self._num_classes)

    def _apply(self, head: Any, features: csr_matrix, method: str = "predict") -> Float[Array, "rows ..."]:
        if isinstance(head, Linear):
            return head.predict(features)
        return np.asarray(getattr(head, method)(features.toarray()), np.float64)

    def _validated(self, features: csr_matrix, targets: Array, rows: Int[Array, " rows"]) -> float:
        """Return minus the mean error of the head on parts of the training structures that it was not fitted to."""
        part = np.random.default_rng(self._seed()).permutation(len(rows)) % min(FOLDS, len(rows))
        errors = np.empty(len(rows))
        for fold in np.unique(part):
            kept, aside = rows[part != fold], rows[part == fold]
            if not len(kept):
                return 0.0
            found = self._apply(self._fit_head(features[kept], targets[kept]), features[aside])
            if self._num_classes is None:
                errors[part == fold] = (found - targets[aside]) ** 2
            else:
                errors[part == fold] = (found.argmax(axis=1) if found.ndim == 2 else found) != targets[aside]
        return -float(errors.mean())

    def _predicted(self, X: Any, method: str = "predict") -> Float[Array, "rows ..."]:
        check_is_fitted(self, "stack_")
        structures = self.reading_.convert(X)
        found = self._apply(self.head_, self.fingerprints(structures), method)
        return _spread(found, rows_read(X, structures), X)

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values; a head of scikit-learn cannot be saved without executing code."""
        if not isinstance(self.head_, Linear):
            raise InputError(
                f"the head {type(self.head_).__name__} cannot be saved; use the default head, or save a CGMMEncoder "
                "and fit the head to what it returns"
            )
        arrays, content = super().as_saved()
        for name in ("scale", "weights", "intercept"):
            arrays[f"head.{name}"] = torch.from_numpy(np.array(getattr(self.head_, name)))
        return arrays, content | {"unit": bool(self.head_.unit), "strength": float(self.head_.strength)}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned."""
        super().from_saved(content, tensors)
        own = {name: tensors[f"head.{name}"].numpy() for name in ("scale", "weights", "intercept")}
        classes = isinstance(self, ClassifierMixin)
        self.head_ = Linear(**own, classes=classes, unit=content["unit"], strength=content["strength"])
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMClassifier(ClassifierMixin, CGMMPredictor):  # type: ignore[misc]
    """Predict classes of graphs from counts of hidden states.

    The parameters are those of `ContextualGraphMarkovModel` and of `CGMMPredictor`.

    Examples
    --------
    >>> from hiddenfield.estimators import CGMMClassifier
    >>> words = ["GAGA", "TCTC", "GGAA", "TTCC", "AGAG", "CTCT"] * 5
    >>> model = CGMMClassifier(num_states=4, depth=2).fit(words, ["purine", "other"] * 15)
    >>> model.predict(["AGG", "CCT"])
    array(['purine', 'other'], dtype='<U6')
    """

    def _with_targets(self, structures: Structures, columns: Any) -> Structures:
        return as_classes(structures, columns)

    def _keep_target(self, structures: Structures, kind: str) -> None:
        (words,) = structures.target_vocabularies
        assert words is not None
        self.classes_ = class_array(words.symbols, kind)
        self.target_kind_ = kind

    @property
    def _num_classes(self) -> int:
        return len(self.classes_)

    def predict_proba(self, X: Any) -> Float[Array, "structures classes"]:
        """Return the probabilities of the classes; a head of scikit-learn must offer them."""
        found = self._predicted(X, "predict_proba")
        if isinstance(self.head_, Linear) or found.shape[1] == len(self.classes_):
            return found
        spread = np.zeros((len(found), len(self.classes_)))
        spread[:, self.head_.classes_] = found
        return spread

    def predict(self, X: Any) -> Shaped[Array, " structures"]:
        """Return the class of every structure."""
        found = self._predicted(X)
        if found.ndim == 1:
            found = np.where(
                np.isnan(found)[:, None], np.nan, found[:, None] == np.arange(len(self.classes_))
            )
        return _most_probable(self.classes_, found)

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values."""
        arrays, content = super().as_saved()
        return arrays, content | {"classes": self.classes_.tolist(), "target_kind": self.target_kind_}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned."""
        super().from_saved(content, tensors)
        self.target_kind_ = content["target_kind"]
        self.classes_ = class_array(tuple(content["classes"]), self.target_kind_)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMRegressor(RegressorMixin, CGMMPredictor):  # type: ignore[misc]
    """Predict numbers from counts of hidden states in graphs.

    The parameters are those of `ContextualGraphMarkovModel` and of `CGMMPredictor`.

    Examples
    --------
    >>> from hiddenfield.estimators import CGMMRegressor
    >>> words = ["GATTACA", "CAT", "TAGA", "CC", "GATTA", "A"] * 5
    >>> model = CGMMRegressor(num_states=2, depth=1).fit(words, [7.0, 3.0, 4.0, 2.0, 5.0, 1.0] * 5)
    >>> model.predict(["TAG", "CATTAG"]).round()
    array([3., 6.])
    """

    def predict(self, X: Any) -> Float[Array, " structures"]:
        """Return the number of every structure."""
        return self._predicted(X)


CGMM = {one.__name__: one for one in (CGMMEncoder, CGMMClassifier, CGMMRegressor)}
"""The estimators by class, for saving."""
