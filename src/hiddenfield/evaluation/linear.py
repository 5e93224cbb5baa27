"""Linear models on sparse counts, with the strength of their penalty chosen on a part of the training set."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.evaluation.ridge import SparseRidge, equal_columns
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["STRENGTHS", "Linear", "fit_linear"]

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
USUAL = 1.0
ITERATIONS = 300
# Rows beyond which the strength is chosen on a part of them.
MOST_TO_CHOOSE_ON = 200_000
# Of ridge regression: errors of prediction are then known to five digits or so (WL-3 of 180,000 molecules); and where
# strengths are compared on many rows, to four.
TOLERANCE, ROUGHLY = 1e-4, 1e-3


@dataclass(frozen=True)
class Linear:
    """A fitted model: features to numbers (N,), or to probabilities of the classes (N, C)."""

    predict: Callable[[csr_matrix], Float[Array, "structures ..."]]
    parameters: int
    strength: float


def fit_linear(
    features: csr_matrix,
    y: Float[Array, " structures"],
    kept: Int[Array, " kept"],
    aside: Int[Array, " aside"],
    classes: int | None = None,
) -> Linear:
    r"""Fit ridge regression or, where a number of classes is given, logistic regression.

    Each strength is tried on the rows `kept` and judged on the rows `aside`, by square error or by log loss; the
    best is fitted again to all rows. A column without an entry in the rows `kept` has the weight 0 there, so that
    columns counted on all rows give nothing away. Without rows `aside` the strength is 1.

    Logistic regression is tried on columns that are divided by their largest entry, and on rows of unit length, as
    normalised kernels have them, then without the columns that have an entry in but one row. Where nearly all are of
    this kind, as the colours of large graphs, they memorise the training rows, and their absence from others shifts
    every prediction to one side.

    Of more than 200,000 rows the strength is chosen on so many, drawn at random in the proportion of `kept` and
    `aside`: as the ratio of two variances, of the noise and of the weights, it does not grow with the rows.

    Equal columns have equal weights at the optimum, so k of them are fitted as one that is :math:`\sqrt k` times as
    long: the same model, sooner. Most Weisfeiler-Lehman colours have equals: those of a rare piece are all where it is.
    See `SparseRidge` for the solver of ridge regression.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> x = np.arange(20.0)
    >>> model = fit_linear(csr_matrix(x[:, None]), 2 * x, np.arange(0, 20, 2), np.arange(1, 20, 2))
    >>> model.strength, model.parameters, model.predict(csr_matrix([[30.0]]))
    (0.01, 2, array([60.]))
    """
    many = len(kept) + len(aside) > MOST_TO_CHOOSE_ON
    if many:
        generator, share = np.random.default_rng(0), MOST_TO_CHOOSE_ON / (len(kept) + len(aside))
        kept, aside = (
            np.sort(generator.permutation(part)[: max(int(share * len(part)), 1)]) for part in (kept, aside)
        )
    choose = len(aside) > 0 and (classes is None or len(np.unique(y[kept])) > 1)
    if classes is None:
        tolerance = ROUGHLY if many else TOLERANCE
        strength = _choose_ridge(features, y, kept, aside, tolerance) if choose else USUAL
        return _ridge(features, y, strength)
    merging = _merge_equal_columns(features)
    strength, unit = USUAL, False
    if choose:
        pairs = [(strength, unit) for unit in (False, True) for strength in STRENGTHS]
        models = (_logistic(features[kept], y[kept], s, merging, classes, rows) for s, rows in pairs)
        losses = [_loss(y[aside], model.predict(features[aside])) for model in models]
        strength, unit = pairs[int(np.argmin(losses))]
    return _logistic(features, y, strength, merging, classes, unit)


def _merge_equal_columns(features: csr_matrix) -> csr_matrix:
    """Return (columns, groups): 1 / sqrt(k) where a column belongs to a group of k columns that are equal."""
    from scipy.sparse import csr_matrix

    group, first = equal_columns(features.tocsc())
    sizes = np.bincount(group, minlength=len(first))
    entries = (1.0 / np.sqrt(sizes[group]), (np.arange(len(group)), group))
    return csr_matrix(entries, shape=(len(group), len(first)))


def _loss(truth: Array, predicted: Array) -> float:
    if predicted.ndim == 1:
        return float(((truth - predicted) ** 2).mean())
    chosen = predicted[np.arange(len(truth)), truth.astype(np.int64)]
    return float(-np.log(np.clip(chosen, 1e-12, None)).mean())


def _choose_ridge(
    features: csr_matrix,
    y: Float[Array, " structures"],
    kept: Int[Array, " kept"],
    aside: Int[Array, " aside"],
    tolerance: float,
) -> float:
    """Return the best strength, each tried from where the one above it ended, the strongest and easiest first."""
    problem, judged, weights = SparseRidge.of(features[kept]), features[aside], None
    losses: dict[float, float] = {}
    for strength in sorted(STRENGTHS, reverse=True):
        weights = problem.solve(y[kept], strength, tolerance, weights)
        every, intercept = problem.expand(y[kept], strength, weights)
        losses[strength] = _loss(y[aside], judged @ every + intercept)
    return min(STRENGTHS, key=losses.__getitem__)


def _ridge(features: csr_matrix, y: Float[Array, " structures"], strength: float) -> Linear:
    problem = SparseRidge.of(features)
    weights, intercept = problem.expand(y, strength, problem.solve(y, strength, TOLERANCE))
    return Linear(lambda new: new @ weights + intercept, features.shape[1] + 1, strength)


def _logistic(
    features: csr_matrix, y: Array, strength: float, merging: csr_matrix, classes: int, unit: bool
) -> Linear:
    """Fit logistic regression, if `unit` to rows of unit length and columns that have entries in two rows or more."""
    from scipy.sparse import diags_array
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler, normalize

    codes = y.astype(np.int64)
    used = np.full(features.shape[1], True)
    scaler = MaxAbsScaler().fit(features)
    if unit:
        used = np.bincount(features.indices, minlength=len(used)) > 1
    chosen = diags_array(used.astype(np.float64))

    def scaled(rows: csr_matrix) -> csr_matrix:
        return (normalize(rows @ chosen) if unit else scaler.transform(rows)) @ merging

    model = LogisticRegression(C=1.0 / strength, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        # With a weak penalty on separable classes the optimum is far away, and stopping early is a penalty of its own.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # That a few structures are of many classes is no reason to take these for numbers.
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        model.fit(scaled(features), codes)

    def predict(new: csr_matrix) -> Array:
        # Classes that did not occur in training have probability 0.
        table = np.zeros((new.shape[0], classes))
        table[:, model.classes_] = model.predict_proba(scaled(new))
        return table

    return Linear(predict, len(model.coef_) * int(used.sum()) + model.intercept_.size, strength)
