"""Contextual graph Markov models as a classifier and a regressor: a head on top of the fingerprints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import _spread
from hiddenfield.estimators.cgmm import CGMMEncoder, ContextualGraphMarkovModel, under
from hiddenfield.estimators.heads import KERNELS, Machine, fit_head, head_arrays, head_from_arrays
from hiddenfield.estimators.parameters import COUNT, POSITIVE
from hiddenfield.estimators.supervised import PredictsClasses, PredictsNumbers
from hiddenfield.shapes import Array, Float, Int, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FOLDS = 3
"""Parts that the head's criterion is cross-validated over, all of them training structures."""


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMPredictor(ContextualGraphMarkovModel):
    """Base of the estimators that predict targets from fingerprints, each with a head of its own.

    Structures without a target take part in the learning of the layers.

    Parameters
    ----------
    head
        Fitted to the fingerprints: ``"linear"`` for ridge or logistic regression whose penalty is chosen on a fifth of
        the training structures; ``"svm_rbf"``, ``"svm_jaccard"`` or ``"svm_linear"`` for a support vector machine, for
        numbers kernel ridge regression; or any classifier or regressor of scikit-learn. ``"auto"``: ``"svm_jaccard"``
        for classes of at most 5,000 structures, else ``"linear"``.
    strength, gamma
        Of a support vector machine: what an error costs, None for the best of 0.01 to 100 on a fifth of the training
        structures; and the inverse width of the RBF kernel. They are ``C`` and ``gamma`` of scikit-learn.
    select
        What the best start of a layer and the depth are chosen by: ``"likelihood"``, with the depth as given; or
        ``"score"``, that of the head, cross-validated within the training structures.
    patience
        With ``"score"``: layers without a better one after which growth ends.

    Attributes
    ----------
    heads_
        The fitted heads, one for each target.
    task_
        The targets.
    """

    model = "cgmm"

    head: Any = "auto"
    strength: float | None = None
    gamma: Any = "scale"
    select: str = "likelihood"
    patience: int = 2

    _parameter_constraints: ClassVar[dict[str, Any]] = ContextualGraphMarkovModel._parameter_constraints | {
        "head": [StrOptions({"auto", "linear", *KERNELS}), HasMethods(["fit", "predict"])],
        "strength": [POSITIVE, None],
        "gamma": [POSITIVE, StrOptions({"scale"})],
        "select": [StrOptions({"likelihood", "score"})],
        "patience": [COUNT],
    }

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the layers, then the heads.

        Parameters
        ----------
        X
            Structures.
        y
            Targets; None for the structures' own.
        """
        begun = time.perf_counter()
        structures = self._answered(X, self._begin(X), y)
        assert structures.targets is not None
        targets = structures.targets.double().cpu().numpy()
        criterion = partial(self._validated, targets=targets) if self.select == "score" else None
        self._grow(structures, criterion, self.patience)
        self._fit_heads(structures)
        self._learning = time.perf_counter() - begun
        return self

    def by_depth(self, structures: Structures) -> list[Any]:
        """Return an estimator for every number of layers up to all, its heads fitted to so many of them.

        Parameters
        ----------
        structures
            With their targets, whose classes have the codes that they have in `task_`.
        """
        found = [copy(self) for _ in self.stack_.layers]
        for depth, one in enumerate(found, start=1):
            one.stack_ = self.stack_.lowest(depth)
            one._fit_heads(structures)
        return found

    def _fit_heads(self, structures: Structures) -> None:
        assert structures.targets is not None
        features = self.fingerprints(structures.replace(targets=None))
        self.heads_ = []
        for k, answers in enumerate(structures.targets.double().cpu().numpy().T):
            rows = np.flatnonzero(~np.isnan(answers))
            self.heads_.append(self._fit_head(features[rows], answers[rows], k))

    def _fit_head(self, features: csr_matrix, y: Float[Array, " rows"], target: int) -> Any:
        return fit_head(
            self.head,
            features,
            y,
            self._classes(target),
            strength=self.strength,
            gamma=self.gamma,
            seed=self._seed(),
        )

    def _classes(self, target: int) -> int | None:
        """Return how many classes a target has; None for a number."""
        classes = self.task_.columns[target].classes
        return None if classes is None else len(classes)

    def _validated(self, features: csr_matrix, targets: Float[Array, "structures targets"]) -> float:
        """Return minus the mean error of the heads on parts of the training structures that they were not fitted to."""
        return float(np.mean([self._validated_one(features, y, k) for k, y in enumerate(targets.T)]))

    def _validated_one(self, features: csr_matrix, targets: Array, target: int) -> float:
        rows: Int[Array, " rows"] = np.flatnonzero(~np.isnan(targets))
        part = np.random.default_rng(self._seed()).permutation(len(rows)) % min(FOLDS, len(rows))
        errors = np.empty(len(rows))
        for fold in np.unique(part):
            kept, held_out = rows[part != fold], rows[part == fold]
            if not len(kept):
                return 0.0
            found = self._fit_head(features[kept], targets[kept], target).predict(features[held_out])
            if found.ndim == 2:
                errors[part == fold] = found.argmax(axis=1) != targets[held_out]
            else:
                errors[part == fold] = (found - targets[held_out]) ** 2
        return -float(errors.mean() / self.task_.columns[target].scale ** 2)

    def _predictions(self, X: Any) -> list[Float[Array, "members ..."]]:
        """Return for every target what its head predicts: (1, N) or (1, N, classes)."""
        structures = self._read(X)
        features, rows = self.fingerprints(structures), self._rows(X, structures)
        return [_spread(head.predict(features), rows, X)[None] for head in self._fitted("heads_")]

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values; a head of scikit-learn cannot be saved without executing code."""
        arrays, content = super().as_saved()
        described = []
        for k, head in enumerate(self.heads_):
            if isinstance(head, Machine) and head.rows is None:
                raise InputError(
                    f"the head {type(head.model).__name__} cannot be saved; use a head that has a name, or save a "
                    "CGMMEncoder and fit the head to what it returns"
                )
            own, plain = head_arrays(head)
            arrays |= {f"head.{k}.{name}": tensor for name, tensor in own.items()}
            described.append(plain)
        return arrays, content | {"heads": described}

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned."""
        super().from_saved(content, tensors)
        self.heads_ = [
            head_from_arrays(under(f"head.{k}.", tensors), plain, self._classes(k), self.gamma)
            for k, plain in enumerate(content["heads"])
        ]
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMClassifier(PredictsClasses, CGMMPredictor):
    """Predict classes of graphs from counts of hidden states.

    The parameters are those of `ContextualGraphMarkovModel` and of `CGMMPredictor`. Probabilities are those of the
    head; of one without, such as a support vector machine, scores brought to sum to one, which are not calibrated.

    Examples
    --------
    >>> from hiddenfield.estimators import CGMMClassifier
    >>> words = ["GAGA", "TCTC", "GGAA", "TTCC", "AGAG", "CTCT"] * 5
    >>> model = CGMMClassifier(num_states=4, depth=2).fit(words, ["purine", "other"] * 15)
    >>> model.predict(["AGG", "CCT"])
    array(['purine', 'other'], dtype='<U6')
    """


@dataclass(kw_only=True, eq=False, repr=False)
class CGMMRegressor(PredictsNumbers, CGMMPredictor):
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


CGMM = {one.__name__: one for one in (CGMMEncoder, CGMMClassifier, CGMMRegressor)}
"""The estimators by class, for saving."""
