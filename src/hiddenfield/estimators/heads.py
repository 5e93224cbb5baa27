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
"""Of the rows that the penalty or strength of a head is chosen on."""
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Of a support vector machine: what an error may cost."""
MOST_COMPARED = 5_000
"""Structures up to which all pairs are compared where there is another way."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted estimator of scikit-learn as a head, and what it was fitted to, where it can be saved.

    Parameters
    ----------
    model
        The estimator.
    classes
        How many there are; None for numbers.
    name, kernel, rows, targets, strength
        Of a machine of `KERNELS`: its name and kernel, the rows that it was fitted to, which are compared with new
        ones, and what an error costs. Empty for an estimator from elsewhere.
    """

    model: Any
    classes: int | None
    name: str = ""
    kernel: Callable[..., Array] | None = None
    rows: csr_matrix | None = None
    targets: Float[Array, " rows"] | None = None
    strength: float = 1.0

    def predict(self, features: Any) -> Float[Array, "rows ..."]:
        """Return numbers, or probabilities of the classes: without such, scores that are brought to sum to one."""
        from scipy.special import softmax

        X: Any = features
        if self.kernel is not None:
            X = self.kernel(features, self.rows)
        elif not isinstance(features, np.ndarray):
            X = features.toarray()
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


def fit_machine(
    gram: Float[Array, "rows rows"],
    y: Float[Array, " rows"],
    classes: int | None,
    strength: float | None = None,
    seed: int = 0,
) -> tuple[Any, float]:
    """Fit a support vector machine, or for numbers kernel ridge regression, to similarities of rows.

    Returns
    -------
    model, strength
        The estimator, and what an error costs; where that is not given, the best of `STRENGTHS` on a fifth of the rows.
    """
    chosen = STRENGTHS[2] if strength is None else strength
    held_out, kept = np.split(np.random.default_rng(seed).permutation(len(y)), [int(HELD_OUT * len(y))])
    if strength is None and len(held_out):
        errors = []
        for one in STRENGTHS:
            machine = Machine(_machine(gram[np.ix_(kept, kept)], y[kept], classes, one), classes)
            found = machine.predict(gram[np.ix_(held_out, kept)])
            wrong = found.argmax(axis=1) != y[held_out] if classes is not None else (found - y[held_out]) ** 2
            errors.append(wrong.mean())
        chosen = STRENGTHS[int(np.argmin(errors))]
    return _machine(gram, y, classes, chosen), chosen


def _machine(gram: Array, y: Array, classes: int | None, strength: float) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.dummy import DummyClassifier
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if classes is None:
        ridge = KernelRidge(alpha=1 / strength, kernel="precomputed")
        return TransformedTargetRegressor(ridge, transformer=StandardScaler()).fit(gram, y)
    codes = y.astype(int)
    several = len(np.unique(codes)) > 1
    machine = SVC(C=strength, kernel="precomputed", break_ties=True) if several else DummyClassifier()
    return machine.fit(gram, codes)


def fit_head(
    head: Any,
    features: csr_matrix,
    y: Float[Array, " rows"],
    classes: int | None,
    *,
    strength: float | None = None,
    gamma: Any = "scale",
    seed: int = 0,
) -> Head:
    """Fit a head to rows and one target.

    Parameters
    ----------
    head
        ``"linear"`` for ridge or logistic regression whose penalty is chosen on a fifth of the rows; a name of
        `KERNELS`, see `fit_machine`; any classifier or regressor of scikit-learn; or ``"auto"``: ``"svm_jaccard"`` for
        classes of at most 5,000 rows, else ``"linear"``.
    features, y
        Rows, and their numbers or class codes.
    classes
        How many there are; None for numbers.
    strength, gamma
        Of a support vector machine, as ``C`` and ``gamma`` of scikit-learn; the latter of the RBF kernel alone.
    seed
        Of the choice of the fifth.
    """
    if isinstance(head, str) and head == "auto":
        head = "svm_jaccard" if classes is not None and len(y) <= MOST_COMPARED else "linear"
    if not isinstance(head, str):
        return Machine(clone(head).fit(features.toarray(), y if classes is None else y.astype(int)), classes)
    if head == "linear":
        order = np.random.default_rng(seed).permutation(len(y))
        size = int(HELD_OUT * len(y))
        return fit_linear(features, y, np.sort(order[size:]), np.sort(order[:size]), classes)
    kernel = KERNELS[head](features, gamma)
    model, strength = fit_machine(kernel(features, features), y, classes, strength, seed)
    return Machine(model, classes, head, kernel, features, y, strength)


def head_arrays(head: Head) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arrays of a linear head, or the rows that a machine was fitted to, and plain values."""
    if isinstance(head, Linear):
        arrays = {name: getattr(head, name) for name in ("scale", "weights", "intercept")}
        content: dict[str, Any] = {"unit": bool(head.unit), "strength": float(head.strength)}
    else:
        assert head.rows is not None
        assert head.targets is not None
        arrays = {name: getattr(head.rows, name) for name in ("data", "indices", "indptr")}
        arrays["targets"] = head.targets
        content = {"width": int(head.rows.shape[1]), "name": head.name, "strength": float(head.strength)}
    return {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}, content


def head_from_arrays(
    arrays: Mapping[str, Tensor], content: Mapping[str, Any], classes: int | None, gamma: Any
) -> Head:
    """Return the head that `head_arrays` described; a machine is fitted again, to the same rows."""
    from scipy.sparse import csr_matrix

    own = {name: tensor.numpy() for name, tensor in arrays.items()}
    if "weights" in own:
        return Linear(**own, classes=classes is not None, unit=content["unit"], strength=content["strength"])
    shape = (len(own["targets"]), content["width"])
    rows = csr_matrix((own["data"], own["indices"], own["indptr"]), shape=shape)
    return fit_head(content["name"], rows, own["targets"], classes, strength=content["strength"], gamma=gamma)
