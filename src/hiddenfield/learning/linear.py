"""Linear models on sparse counts, with the strength of their penalty chosen on a part of the training set.

Ridge regression is for far more columns than rows. scikit-learn's ``Ridge(solver="sparse_cg")`` gives the same answer,
but has no preconditioner: with 90,000 molecules, WL-3 and a strength of 0.01 it had not ended after twice the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.shapes import Array, Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
USUAL = 1.0
ITERATIONS = 300
# Rows beyond which the strength is chosen on a part of them.
MOST_TO_CHOOSE_ON = 200_000
# Of ridge regression: errors of prediction are then known to five digits or so (WL-3 of 180,000 molecules); and where
# strengths are compared on many rows, to four.
TOLERANCE, ROUGHLY = 1e-4, 1e-3
# Steps of its conjugate gradients, at most.
DESCENT_STEPS = 1000
# The longest columns are solved together in the preconditioner; their products are estimated from at most so many rows.
TOGETHER, LOOKED_AT = 500, 20_000
# Pieces with equally many entries into which a product is cut, to be shared out among threads.
PIECES = 64
# Score of a class that did not occur in training: its probability is 0.
NEVER = -1e9


@dataclass(frozen=True, eq=False)
class Linear:
    r"""A fitted model: features to numbers (N,), or to probabilities of the classes (N, C).

    With :math:`z = x \odot a`, divided by its length if `unit`, it predicts :math:`z^\top W + b`, for classes the
    softmax of that.

    Parameters
    ----------
    scale
        a, one factor for each column.
    weights, intercept
        W and b, of one output or of one for each class.
    classes
        Whether outputs are classes.
    unit
        Whether rows are brought to unit length.
    strength
        Of the penalty.
    """

    scale: Float[Array, " columns"]
    weights: Float[Array, "columns outputs"]
    intercept: Float[Array, " outputs"]
    classes: bool
    unit: bool
    strength: float

    @property
    def parameters(self) -> int:
        """Number of weights: of a binary target for one class only."""
        outputs = self.weights.shape[1]
        return (int((self.scale != 0).sum()) + 1) * (outputs - 1 if outputs == 2 else outputs)

    def predict(self, features: csr_matrix) -> Float[Array, "structures ..."]:
        """Return numbers (N,), or probabilities (N, C)."""
        from scipy.sparse import diags_array

        rows = features @ diags_array(self.scale)
        if self.unit and rows.shape[0]:
            from sklearn.preprocessing import normalize

            rows = normalize(rows)
        outputs = rows @ self.weights + self.intercept
        return softmax(outputs, axis=1) if self.classes else outputs[:, 0]


def fit_linear(
    features: csr_matrix,
    y: Float[Array, " structures"],
    kept: Int[Array, " kept"],
    held_out: Int[Array, " held_out"],
    classes: int | None = None,
    *,
    like: Linear | None = None,
) -> Linear:
    r"""Fit ridge regression or, where a number of classes is given, logistic regression.

    Each strength is tried on the rows `kept` and judged on the held-out rows, by square error or by log loss; the
    best is fitted again to all rows. A column without an entry in the rows `kept` has the weight 0 there, so that
    columns counted on all rows give nothing away. Without held-out rows the strength is 1. Where another model is given
    as `like`, nothing is tried: the strength is the same.

    Logistic regression is tried on columns that are divided by their largest entry, and on rows of unit length, as
    normalised kernels have them, then without the columns that have an entry in but one row. Where nearly all are of
    this kind, as the colours of large graphs, they memorise the training rows, and their absence from others shifts
    every prediction to one side.

    Of more than 200,000 rows the strength is chosen on so many, drawn at random in the proportion of `kept` and
    `held_out`: as the ratio of two variances, of the noise and of the weights, it does not grow with the rows.

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
    if like is not None and classes is None:
        return _ridge(features, y, like.strength)
    if like is not None:
        assert classes is not None
        return _logistic(features, y, like.strength, _merge_equal_columns(features), classes, like.unit)
    many = len(kept) + len(held_out) > MOST_TO_CHOOSE_ON
    if many:
        generator, share = np.random.default_rng(0), MOST_TO_CHOOSE_ON / (len(kept) + len(held_out))
        kept, held_out = (
            np.sort(generator.permutation(part)[: max(int(share * len(part)), 1)])
            for part in (kept, held_out)
        )
    choose = len(held_out) > 0 and (classes is None or len(np.unique(y[kept])) > 1)
    if classes is None:
        tolerance = ROUGHLY if many else TOLERANCE
        strength = _choose_ridge(features, y, kept, held_out, tolerance) if choose else USUAL
        return _ridge(features, y, strength)
    merging = _merge_equal_columns(features)
    strength, unit = USUAL, False
    if choose:
        pairs = [(strength, unit) for unit in (False, True) for strength in STRENGTHS]
        models = (_logistic(features[kept], y[kept], s, merging, classes, rows) for s, rows in pairs)
        losses = [_loss(y[held_out], model.predict(features[held_out])) for model in models]
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
    held_out: Int[Array, " held_out"],
    tolerance: float,
) -> float:
    """Return the best strength, each tried from where the one above it ended, the strongest and easiest first."""
    problem, judged, weights = SparseRidge.of(features[kept]), features[held_out], None
    losses: dict[float, float] = {}
    for strength in sorted(STRENGTHS, reverse=True):
        weights = problem.solve(y[kept], strength, tolerance, weights)
        every, intercept = problem.expand(y[kept], strength, weights)
        losses[strength] = _loss(y[held_out], judged @ every + intercept)
    return min(STRENGTHS, key=losses.__getitem__)


def _ridge(features: csr_matrix, y: Float[Array, " structures"], strength: float) -> Linear:
    problem = SparseRidge.of(features)
    weights, intercept = problem.expand(y, strength, problem.solve(y, strength, TOLERANCE))
    scale = np.ones(features.shape[1])
    return Linear(
        scale, weights[:, None], np.array([intercept]), classes=False, unit=False, strength=strength
    )


def _logistic(
    features: csr_matrix, y: Array, strength: float, merging: csr_matrix, classes: int, unit: bool
) -> Linear:
    """Fit logistic regression, if `unit` to rows of unit length and columns that have entries in two rows or more."""
    from scipy.sparse import diags_array
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler, normalize

    codes = y.astype(np.int64)
    weights, intercept = np.zeros((features.shape[1], classes)), np.full(classes, NEVER)
    if len(np.unique(codes)) < 2:
        intercept[codes[0]] = 0.0
        return Linear(np.zeros(len(weights)), weights, intercept, classes=True, unit=unit, strength=strength)
    if unit:
        scale = (np.bincount(features.indices, minlength=features.shape[1]) > 1).astype(np.float64)
    else:
        scale = 1.0 / MaxAbsScaler().fit(features).scale_
    rows = features @ diags_array(scale)
    model = LogisticRegression(C=1.0 / strength, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        # With a weak penalty on separable classes the optimum is far away, and stopping early is a penalty of its own.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # That a few structures are of many classes is no reason to take these for numbers.
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        model.fit((normalize(rows) if unit else rows) @ merging, codes)
    two = len(model.classes_) == 2  # scikit-learn has the second one's score alone
    intercept[model.classes_[0]] = 0.0
    weights[:, model.classes_[1:] if two else model.classes_] = merging @ model.coef_.T
    intercept[model.classes_[1:] if two else model.classes_] = model.intercept_
    return Linear(scale, weights, intercept, classes=True, unit=unit, strength=strength)


# -- ridge regression --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SparseRidge:
    r"""Rows that are prepared for :math:`\min_{w,b} \sum_n (y_n - w^\top x_n - b)^2 + \lambda |w|^2`.

    Two things make the problem smaller and leave its solution as it is.

    A column with an entry in one row only has a best weight that follows from the row's error :math:`e_n`,
    :math:`w_c = x_{nc} e_n / (\lambda + s_n)`, where :math:`s_n` is the sum of squares of all such entries of the row.
    Put in, it leaves the weight :math:`\lambda / (\lambda + s_n)` on the row's square error, and the column is gone.
    Of Weisfeiler-Lehman colours of six rounds these are nine tenths.

    Equal columns have equal weights, so k of them are fitted as one that is :math:`\sqrt k` times as long.

    Parameters
    ----------
    by_row
        (rows, groups): the columns that are left.
    by_column
        The same, transposed.
    shared
        For every column whether it has entries in several rows.
    lone
        (rows, lone columns): the others.
    lone_squares
        (rows,) s.
    group
        For every shared column that of `by_row`.
    lengths
        (groups,) the square roots of k.
    """

    by_row: csr_matrix
    by_column: csr_matrix
    shared: Bool[Array, " columns"]
    lone: csr_matrix
    lone_squares: Float[Array, " rows"]
    group: Int[Array, " shared"]
    lengths: Float[Array, " groups"]

    @classmethod
    def of(cls, features: csr_matrix) -> SparseRidge:
        """Prepare rows, which must have no two entries of one column: a few passes over the entries."""
        shared = np.bincount(features.indices, minlength=features.shape[1]) > 1
        lone, left = features[:, ~shared], features[:, shared].tocsc()
        lone_squares = np.asarray(lone.power(2).sum(axis=1), dtype=np.float64).reshape(-1)
        group, first = equal_columns(left)
        lengths = np.sqrt(np.bincount(group, minlength=len(first)))
        left = left[:, first].astype(np.float64)
        left.data *= np.repeat(lengths, np.diff(left.indptr))
        return cls(left.tocsr(), left.T.tocsr(), shared, lone, lone_squares, group, lengths)

    # Products with a small block are not worth the threads that BLAS would start for them.
    @threadpool_limits.wrap(limits=1, user_api="blas")
    def solve(
        self,
        y: Float[Array, " rows"],
        strength: float,
        tolerance: float,
        start: Float[Array, " groups"] | None = None,
    ) -> Float[Array, " groups"]:
        r"""Return the weights of the groups, by conjugate gradients.

        The preconditioner is the inverse diagonal and, among the 500 longest columns, the inverse of their own block.
        It ends where the residual, in the norm of the preconditioner, is `tolerance` times that of weights 0.

        Parameters
        ----------
        y
            Targets.
        strength
            :math:`\lambda`, positive.
        tolerance
            Of the residual.
        start
            Weights to start from, such as those of a strength nearby.
        """
        share = strength / (strength + self.lone_squares)
        total = share.sum()
        mean = _product(self.by_column, share) / total

        def across(weights: Float[Array, " groups"]) -> Float[Array, " groups"]:
            errors = share * (_product(self.by_row, weights) - mean @ weights)
            return _product(self.by_column, errors) - mean * errors.sum() + strength * weights

        precondition = _preconditioner(self, share, mean, strength)
        aim = _product(self.by_column, share * (y - share @ y / total))
        weights = np.zeros(len(aim)) if start is None else start.copy()
        residual = aim - across(weights) if start is not None else aim.copy()
        goal = tolerance**2 * float(aim @ precondition(aim))
        step = precondition(residual)
        left = float(residual @ step)
        for _ in range(DESCENT_STEPS):
            if left <= goal:
                break
            image = across(step)
            stretch = float(step @ image)
            if stretch <= 0.0:  # rounding is all that is left
                break
            size = left / stretch
            weights += size * step
            residual -= size * image
            scaled = precondition(residual)
            left, before = float(residual @ scaled), left
            step = scaled + (left / before) * step
        return weights

    def expand(
        self, y: Float[Array, " rows"], strength: float, weights: Float[Array, " groups"]
    ) -> tuple[Float[Array, " columns"], float]:
        """Return the weights of all columns, lone ones too, and the intercept."""
        share = strength / (strength + self.lone_squares)
        errors = y - _product(self.by_row, weights)
        intercept = float(share @ errors / share.sum())
        of_row = (errors - intercept) / (strength + self.lone_squares)
        every = np.empty(len(self.shared))
        every[self.shared] = (weights / self.lengths)[self.group]
        every[~self.shared] = self.lone.T @ of_row
        return every, intercept


def _preconditioner(
    ridge: SparseRidge, share: Float[Array, " rows"], mean: Float[Array, " groups"], strength: float
) -> Callable[[Float[Array, " groups"]], Float[Array, " groups"]]:
    """Return the product with the inverse diagonal and, among the longest columns, the inverse of their own block."""
    from scipy.linalg import cho_solve

    by_column = ridge.by_column
    # What rounding leaves of a constant column, less its mean, may be below 0.
    lengths = np.maximum(_product(by_column.power(2), share) - share.sum() * mean**2, 0.0)
    longest = np.sort(np.argsort(-lengths, kind="stable")[:TOGETHER])
    every = -(-len(share) // LOOKED_AT)
    some, weight = ridge.by_row[::every][:, longest].toarray(), share[::every]
    some -= weight @ some / weight.sum()
    block = every * (some.T * weight) @ some + strength * np.eye(len(longest))
    try:
        factor = np.linalg.cholesky(block)
    except np.linalg.LinAlgError:
        # Columns so long, and so nearly dependent, that rounding outweighs the strength.
        longest, factor = longest[:0], np.zeros((0, 0))

    def precondition(vector: Float[Array, " groups"]) -> Float[Array, " groups"]:
        result = vector / (lengths + strength)
        if len(longest):
            result[longest] = cho_solve((factor, True), vector[longest], check_finite=False)
        return result

    return precondition


def equal_columns(columns: csc_matrix) -> tuple[Int[Array, " columns"], Int[Array, " groups"]]:
    """Return the group of every column, equal exactly where columns are, and of every group its first column.

    Examples
    --------
    >>> from scipy.sparse import csc_matrix
    >>> equal_columns(csc_matrix([[1.0, 2.0, 1.0], [0.0, 3.0, 0.0]]))
    (array([0, 1, 0]), array([0, 1]))
    """
    columns.sort_indices()
    # A row of (place, bits of the value) pairs, end to end.
    pairs = np.empty((columns.nnz, 2), dtype=np.int64)
    pairs[:, 0] = columns.indices
    pairs[:, 1] = np.ascontiguousarray(columns.data, dtype=np.float64).view(np.int64)
    return number_rows(Rows(2 * columns.indptr.astype(np.int64), pairs.reshape(-1)))


def _product(matrix: csr_matrix, vector: Float[Array, " columns"]) -> Float[Array, " rows"]:
    """Multiply, on several threads where they are allowed; the result does not depend on how many there are."""
    out = np.empty(matrix.shape[0])
    # Columns of counts have very different numbers of entries: pieces are cut by these.
    bounds = np.searchsorted(matrix.indptr, np.linspace(0, matrix.nnz, PIECES + 1))
    bounds[0], bounds[-1] = 0, matrix.shape[0]
    _multiply(matrix.indptr, matrix.indices, matrix.data, vector, bounds, out, work=matrix.nnz)
    return out


@compiled
def _multiply(indptr: Array, indices: Array, data: Array, vector: Array, bounds: Array, out: Array) -> None:
    for piece in prange(bounds.size - 1):
        for row in range(bounds[piece], bounds[piece + 1]):
            total = 0.0
            for place in range(indptr[row], indptr[row + 1]):
                total += data[place] * vector[indices[place]]
            out[row] = total
