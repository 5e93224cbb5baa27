"""Heads: what predicts a target from sparse rows of counts, linear or with a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone

from hiddenfield.kernels.jaccard import jaccard
from hiddenfield.learning.linear import Linear, fit_linear
from hiddenfield.shapes import Array, Float, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def _rbf(rows: csr_matrix, gamma: float | str) -> Callable[..., Array]:
    from sklearn.metrics.pairwise import rbf_kernel

    if isinstance(gamma, str):  # as scikit-learn's "scale"
        variance = rows.power(2).mean() - rows.mean() ** 2
        gamma = 1.0 / (rows.shape[1] * variance) if variance > 0 else 1.0
    return partial(rbf_kernel, gamma=gamma)


def _linear(rows: csr_matrix, gamma: float | str) -> Callable[..., Array]:
    from sklearn.metrics.pairwise import linear_kernel

    return partial(linear_kernel, dense_output=True)


KERNELS: Mapping[str, Callable[..., Callable[..., Array]]] = {
    "svm_rbf": _rbf,
    "svm_jaccard": lambda rows, gamma: jaccard,
    "svm_linear": _linear,
}
"""Support vector machines by name: from the rows and the width to the kernel.

Kernels are given as functions: libsvm's own products of sparse rows take several times as long.
"""
HELD_OUT = 0.2
"""Of the rows that the penalty of a linear head is chosen on."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted estimator of scikit-learn as a head, and the rows that it was fitted to, where it can be saved.

    Parameters
    ----------
    model
        The estimator.
    classes
        How many there are; None for numbers.
    rows, targets
        Of a support vector machine, whose fit they repeat; None for an estimator from elsewhere.
    """

    model: Any
    classes: int | None
    rows: csr_matrix | None = None
    targets: Float[Array, " rows"] | None = None

    def predict(self, features: Any) -> Float[Array, "rows ..."]:
        """Return numbers, or probabilities of the classes: without such, scores that are brought to sum to one."""
        from scipy.special import softmax

        X: Any = features if self.rows is not None or isinstance(features, np.ndarray) else features.toarray()
        if self.classes is None:
            return np.asarray(self.model.predict(X), np.float64)
        seen = np.asarray(self.model.classes_)
        if hasattr(self.model, "predict_proba"):
            found = np.asarray(self.model.predict_proba(X))
        else:
            scores = (
                np.asarray(self.model.decision_function(X))
                if hasattr(self.model, "decision_function")
                else None
            )
            scores = (
                np.stack([-scores, scores], axis=1) if scores is not None and scores.ndim == 1 else scores
            )
            if scores is None or scores.shape[1] != len(seen):
                scores = np.where(np.asarray(self.model.predict(X))[:, None] == seen, 0.0, -np.inf)
            found = softmax(scores, axis=1)
        spread = np.zeros((len(found), self.classes))
        spread[:, seen] = found
        return spread


Head = Linear | Machine


def fit_head(
    head: Any,
    features: csr_matrix,
    y: Float[Array, " rows"],
    classes: int | None,
    *,
    strength: float = 1.0,
    gamma: Any = "scale",
    seed: int = 0,
) -> Head:
    """Fit a head to rows and one target.

    Parameters
    ----------
    head
        None or ``"linear"`` for ridge or logistic regression whose penalty is chosen on a fifth of the rows; a name of
        `KERNELS` for a support vector machine; or any classifier or regressor of scikit-learn.
    features, y
        Rows, and their numbers or class codes.
    classes
        How many there are; None for numbers.
    strength, gamma
        Of a support vector machine, as ``C`` and ``gamma`` of scikit-learn; the latter of the RBF kernel alone.
    seed
        Of the choice of the fifth.
    """
    from sklearn.svm import SVC, SVR

    if head in (None, "linear"):
        order = np.random.default_rng(seed).permutation(len(y))
        size = int(HELD_OUT * len(y))
        return fit_linear(features, y, np.sort(order[size:]), np.sort(order[:size]), classes)
    answers = y if classes is None else y.astype(int)
    if not isinstance(head, str):
        return Machine(clone(head).fit(features.toarray(), answers), classes)
    options = {"C": strength, "kernel": KERNELS[head](features, gamma)}
    if classes is None:
        model = SVR(**options)
    elif len(np.unique(answers)) > 1:
        model = SVC(**options, break_ties=True)
    else:
        from sklearn.dummy import DummyClassifier

        model = DummyClassifier()
    return Machine(model.fit(features, answers), classes, features, y)


def head_arrays(head: Head) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arrays of a linear head, or the rows that a machine was fitted to, and plain values."""
    if isinstance(head, Linear):
        arrays = {name: getattr(head, name) for name in ("scale", "weights", "intercept")}
        content: dict[str, Any] = {"unit": bool(head.unit), "strength": float(head.strength)}
    else:
        assert head.rows is not None
        assert head.targets is not None
        arrays = {name: getattr(head.rows, name) for name in ("data", "indices", "indptr")}
        arrays["targets"], content = head.targets, {"width": int(head.rows.shape[1])}
    return {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}, content


def head_from_arrays(
    arrays: Mapping[str, Tensor], content: Mapping[str, Any], head: Any, classes: int | None, **options: Any
) -> Head:
    """Return the head that `head_arrays` described; a machine is fitted again, to the same rows."""
    from scipy.sparse import csr_matrix

    own = {name: tensor.numpy() for name, tensor in arrays.items()}
    if "weights" in own:
        return Linear(**own, classes=classes is not None, unit=content["unit"], strength=content["strength"])
    shape = (len(own["targets"]), content["width"])
    rows = csr_matrix((own["data"], own["indices"], own["indptr"]), shape=shape)
    return fit_head(head, rows, own["targets"], classes, **options)
