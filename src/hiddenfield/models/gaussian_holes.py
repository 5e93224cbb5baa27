r"""Gaussians of rows with holes: distances and conditional moments, exact, by compiled loops over patterns.

With o what a row has, m what it misses and :math:`\Lambda = \Sigma^{-1}`:

.. math::

    E[x_m \mid x_o] = \mu_m - \Lambda_{mm}^{-1} \Lambda_{mo} (x_o - \mu_o), \qquad
    \mathrm{Cov}[x_m \mid x_o] = \Lambda_{mm}^{-1}, \qquad
    \log |\Sigma_{oo}| = \log |\Sigma| + \log |\Lambda_{mm}|

and the distance of what a row has is that of the row so filled. Only what is missing is factorised, for each pattern
and Gaussian, so that rows which all miss something else cost little more; the rest is done for rows side by side, in
strips that stay in the cache. The loops are split among threads by Gaussian: results do not depend on their number.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.data.rows import Patterns
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array, Float

STRIP = 128
"""Rows that are worked on side by side."""


@subroutine(allocates=False, fast=True)
def _fill_rows(
    columns: Array,
    begin: int,
    first: int,
    end: int,
    observed: Array,
    mean: Array,
    precision: Array,
    noise: Array,
    lost: Array,
    factor: Array,
    work: Array,
    filled: Array,
) -> int:
    r"""Write the deviations of rows of one pattern from the mean, what is missing filled in; return how much that is.

    `lost` gets the numbers of the missing columns, `factor` the Cholesky factor R of their precision. What is missing
    is :math:`R^{-\top} (R^{-1} b + e)` with standard normal e where there is noise.
    """
    count = 0
    for d in range(observed.size):
        if observed[d]:
            for n in range(first, end):
                filled[d, n] = columns[d, begin + n] - mean[d]
        else:
            lost[count] = d
            count += 1
    for i in range(count):
        for n in range(first, end):
            work[i, n] = 0.0
        for d in range(observed.size):
            if observed[d]:
                weight = precision[lost[i], d]
                for n in range(first, end):
                    work[i, n] -= weight * filled[d, n]
        for j in range(i + 1):
            total = precision[lost[i], lost[j]]
            for t in range(j):
                total -= factor[i, t] * factor[j, t]
            factor[i, j] = np.sqrt(total) if i == j else total / factor[j, j]
            if j < i:
                for n in range(first, end):
                    work[i, n] -= factor[i, j] * work[j, n]
        scale = 1.0 / factor[i, i]
        for n in range(first, end):
            work[i, n] *= scale
    for i in range(count - 1, -1, -1):
        scale = 1.0 / factor[i, i]
        if noise.size:
            for n in range(first, end):
                work[i, n] += noise[lost[i], begin + n]
        for j in range(i + 1, count):
            for n in range(first, end):
                work[i, n] -= factor[j, i] * filled[lost[j], n]
        for n in range(first, end):
            filled[lost[i], n] = scale * work[i, n]
    return count


@subroutine(allocates=False, fast=True)
def _add_inverse(factor: Array, lost: Array, count: int, weight: float, second: Array) -> None:
    """Add the conditional covariance of what is missing, weighted; the factor becomes its inverse."""
    for j in range(count):
        factor[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, count):
            total = 0.0
            for t in range(j, i):
                total -= factor[i, t] * factor[t, j]
            factor[i, j] = total / factor[i, i]
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for t in range(i, count):
                total += factor[t, i] * factor[t, j]
            second[lost[i], lost[j]] += weight * total


@subroutine(allocates=False, fast=True)
def _fill_strip(
    columns: Array,
    begin: int,
    size: int,
    p: int,
    bounds: Array,
    observed: Array,
    mean: Array,
    precision: Array,
    noise: Array,
    weights: Array,
    lost: Array,
    factor: Array,
    work: Array,
    filled: Array,
    log_dets: Array,
    second: Array,
    out: Array,
) -> int:
    """Fill the rows of a strip, pattern after pattern from `p`; return the pattern that the next strip begins with.

    Arrays that are not empty get more: `log_dets` the log determinant of the precision of what each pattern misses,
    `second` the conditional covariances, weighted, `out` the values that were filled in, weighted.
    """
    first = 0
    while first < size:
        end = min(size, bounds[p + 1] - begin)
        count = _fill_rows(
            columns, begin, first, end, observed[p], mean, precision, noise, lost, factor, work, filled
        )
        if log_dets.size:
            log_dets[p] = 0.0
            for i in range(count):
                log_dets[p] += 2.0 * np.log(factor[i, i])
        if second.size:
            total = 0.0
            for n in range(begin + first, begin + end):
                total += weights[n]
            _add_inverse(factor, lost, count, total, second)
        if out.size:
            for i in range(count):
                d = lost[i]
                for n in range(first, end):
                    out[d, begin + n] += weights[begin + n] * (mean[d] + filled[d, n])
        first = end
        if begin + end == bounds[p + 1]:
            p += 1
    return p


@compiled(fast=True)
def _distances(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    precisions: Array,
    roots: Array,
    strip: int,
    squares: Array,
    log_dets: Array,
) -> None:
    """Write the squared distance of each row and the log determinant of what each pattern misses."""
    for k in prange(means.shape[0]):
        dim, rows = columns.shape
        mean, precision, none, nothing = means[k], precisions[k], np.empty((0, 0)), np.empty(0)
        lost, factor, white = np.empty(dim, np.int64), np.zeros((dim, dim)), np.empty(strip)
        work, filled, p = np.empty((dim, strip)), np.empty((dim, strip)), 0
        for begin in range(0, rows, strip):
            size = min(strip, rows - begin)
            p = _fill_strip(
                columns, begin, size, p, bounds, observed, mean, precision, none, nothing,
                lost, factor, work, filled, log_dets[k], none, none,
            )  # fmt: skip
            for n in range(size):
                squares[k, begin + n] = 0.0
            for i in range(dim):
                for n in range(size):
                    white[n] = 0.0
                for j in range(i + 1):
                    weight = roots[k, i, j]
                    for n in range(size):
                        white[n] += weight * filled[j, n]
                for n in range(size):
                    squares[k, begin + n] += white[n] * white[n]


@compiled(fast=True, reorder=True)
def _moments(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    precisions: Array,
    weights: Array,
    scaled: Array,
    noise: Array,
    strip: int,
    first: Array,
    second: Array,
) -> None:
    """Add the expected deviations from the means and their products (its lower half), or those of what is drawn."""
    for k in prange(means.shape[0]):
        dim, rows = columns.shape
        mean, precision, none, nothing = means[k], precisions[k], np.empty((0, 0)), np.empty(0)
        lost, factor, heavy = np.empty(dim, np.int64), np.zeros((dim, dim)), np.empty(strip)
        work, filled, p = np.empty((dim, strip)), np.empty((dim, strip)), 0
        spread = none if noise.size else second[k]
        for begin in range(0, rows, strip):
            size = min(strip, rows - begin)
            p = _fill_strip(
                columns, begin, size, p, bounds, observed, mean, precision, noise, weights[k],
                lost, factor, work, filled, nothing, spread, none,
            )  # fmt: skip
            for i in range(dim):
                # Sums by themselves: beside a store LLVM chooses by the addresses whether it adds in vectors.
                for n in range(size):
                    heavy[n] = scaled[k, begin + n] * filled[i, n]
                total = 0.0
                for n in range(size):
                    total += heavy[n]
                first[k, i] += total
                for j in range(i + 1):
                    total = 0.0
                    for n in range(size):
                        total += heavy[n] * filled[j, n]
                    second[k, i, j] += total


@compiled(fast=True)
def _fill(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    precisions: Array,
    weights: Array,
    noise: Array,
    strip: int,
    out: Array,
) -> None:
    """Add conditional means or draws, weighted, to what is missing."""
    dim, rows = columns.shape
    lost, factor, none, nothing = (
        np.empty(dim, np.int64),
        np.zeros((dim, dim)),
        np.empty((0, 0)),
        np.empty(0),
    )
    work, filled = np.empty((dim, strip)), np.empty((dim, strip))
    for k in range(means.shape[0]):
        p = 0
        for begin in range(0, rows, strip):
            p = _fill_strip(
                columns, begin, min(strip, rows - begin), p, bounds, observed, means[k], precisions[k],
                noise, weights[k], lost, factor, work, filled, nothing, none, out,
            )  # fmt: skip


NOTHING = np.zeros((0, 0))


def distances(
    patterns: Patterns,
    means: Float[Array, "components columns"],
    covariances: Float[Array, "components columns columns"],
) -> tuple[Float[Array, "components rows"], Float[Array, "components patterns"]]:
    r"""Return the squared Mahalanobis distance of what each row has, and :math:`\log |\Sigma_{oo}|` of each pattern.

    Rows are in the order of the patterns. Costs :math:`O(m^3)` for each pattern and Gaussian and
    :math:`O(D^2)` for each row and Gaussian.
    """
    count, rows = len(means), patterns.columns.shape[1]
    squares, log_dets = np.empty((count, rows)), np.empty((count, len(patterns.observed)))
    roots, precisions = _invert(covariances)
    given = (patterns.columns, patterns.bounds, patterns.observed, means, precisions)
    _distances(*given, roots, STRIP, squares, log_dets, work=rows * count * len(patterns.columns))
    log_dets -= 2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)[:, None]
    return squares, log_dets


def _invert(covariances: Float[Array, "components columns columns"]) -> tuple[Array, Array]:
    """Return the inverses of the Cholesky factors, and the precisions."""
    roots = np.linalg.inv(np.linalg.cholesky(covariances))
    return roots, roots.swapaxes(1, 2) @ roots


def moments(
    patterns: Patterns,
    means: Float[Array, "components columns"],
    covariances: Float[Array, "components columns columns"],
    weights: Float[Array, "components rows"],
    scaled: Float[Array, "components rows"] | None = None,
    noise: Float[Array, "columns rows"] | None = None,
) -> tuple[Float[Array, "components columns"], Float[Array, "components columns columns"]]:
    r"""Return the expected sums of :math:`x - \mu_k` and :math:`(x - \mu_k)(x - \mu_k)^\top`, weighted.

    Parameters
    ----------
    patterns, means, covariances
        The rows and the Gaussians; rows are in the order of the patterns.
    weights
        Of each row, for each Gaussian.
    scaled
        Weights of the sums, where these are others; conditional covariances count by `weights` always.
    noise
        Standard normal numbers, with which what is missing is drawn instead; None for its expectation.
    """
    count, dim = means.shape
    first, second = np.zeros((count, dim)), np.zeros((count, dim, dim))
    given = (patterns.columns, patterns.bounds, patterns.observed, means, _invert(covariances)[1])
    options = (weights if scaled is None else scaled, NOTHING if noise is None else noise, STRIP)
    _moments(*given, weights, *options, first, second, work=weights.size * dim)
    return first, second + np.tril(second, -1).swapaxes(1, 2)


def fill(
    patterns: Patterns,
    means: Float[Array, "components columns"],
    covariances: Float[Array, "components columns columns"],
    weights: Float[Array, "components rows"],
    noise: Float[Array, "columns rows"] | None = None,
) -> Float[Array, "rows columns"]:
    """Return the rows with what is missing filled by its conditional mean, averaged over the Gaussians by `weights`.

    With `noise` by a draw given each Gaussian; rows keep the order of the patterns.
    """
    out = np.where(patterns.observed[patterns.which].T, patterns.columns, 0.0)
    given = (patterns.columns, patterns.bounds, patterns.observed, means, _invert(covariances)[1])
    _fill(*given, weights, NOTHING if noise is None else noise, STRIP, out, work=0)
    return out.T
