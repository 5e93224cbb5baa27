r"""Gaussians of rows with holes: distances and conditional moments, exact, by compiled loops over patterns.

With o what a row has and m what it misses, :math:`L L^\top = \Sigma_{oo}` and :math:`W = L^{-1} \Sigma_{om}`:

.. math::

    z = L^{-1} (x_o - \mu_o), \qquad E[x_m \mid x_o] = \mu_m + W^\top z, \qquad
    \mathrm{Cov}[x_m \mid x_o] = \Sigma_{mm} - W^\top W

Each pattern is factorised once for each Gaussian, and its rows are worked on side by side, in `STRIP`s that stay in
the cache. The loops are split among threads by Gaussian, so that results do not depend on their number.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.data.rows import Patterns
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array, Float

STRIP = 128


@subroutine(allocates=False)
def _factorise(covariance: Array, seen: Array, factor: Array) -> None:
    """Write the Cholesky factor of the covariance of the columns `seen`, in their order.

    With what is observed first, its upper left block is L, the lower left one W', and the lower right one the factor of
    the conditional covariance of what is missing.
    """
    count = seen.size
    for i in range(count):
        for j in range(i + 1):
            total = covariance[seen[i], seen[j]]
            for t in range(j):
                total -= factor[i, t] * factor[j, t]
            if i == j:
                factor[i, i] = np.sqrt(total) if total > 0.0 else 0.0
            else:
                factor[i, j] = total / factor[j, j] if factor[j, j] > 0.0 else 0.0


@subroutine(allocates=False)
def _arrange(observed: Array, seen: Array) -> int:
    """Write the numbers of observed columns, then those of missing ones; return how many are observed."""
    count = 0
    for d in range(observed.size):
        if observed[d]:
            seen[count] = d
            count += 1
    rest = count
    for d in range(observed.size):
        if not observed[d]:
            seen[rest] = d
            rest += 1
    return count


@subroutine(allocates=False, fast=True)
def _whiten(
    columns: Array, begin: int, end: int, mean: Array, seen: Array, count: int, factor: Array, z: Array
) -> None:
    """Write z of the rows from `begin` to `end`, side by side."""
    for i in range(count):
        d, scale = seen[i], 1.0 / factor[i, i]
        for n in range(end - begin):
            z[i, n] = columns[d, begin + n] - mean[d]
        for j in range(i):
            weight = factor[i, j]
            for n in range(end - begin):
                z[i, n] -= weight * z[j, n]
        for n in range(end - begin):
            z[i, n] *= scale


@compiled(fast=True)
def _distances(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    covariances: Array,
    strip: int,
    squares: Array,
    log_dets: Array,
) -> None:
    """Write the squared distance of each row and the log determinant of each pattern."""
    for k in prange(means.shape[0]):
        dim = columns.shape[0]
        factor, seen, z = np.zeros((dim, dim)), np.empty(dim, np.int64), np.empty((dim, strip))
        for p in range(bounds.size - 1):
            count = _arrange(observed[p], seen)
            _factorise(covariances[k], seen[:count], factor)
            log_det = 0.0
            for i in range(count):
                log_det += 2.0 * np.log(factor[i, i])
            log_dets[k, p] = log_det
            for begin in range(bounds[p], bounds[p + 1], strip):
                end = min(begin + strip, bounds[p + 1])
                _whiten(columns, begin, end, means[k], seen, count, factor, z)
                for n in range(end - begin):
                    squares[k, begin + n] = 0.0
                for i in range(count):
                    for n in range(end - begin):
                        squares[k, begin + n] += z[i, n] * z[i, n]


@compiled(fast=True, reorder=True)
def _moments(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    covariances: Array,
    weights: Array,
    scaled: Array,
    noise: Array,
    strip: int,
    first: Array,
    second: Array,
) -> None:
    """Add the expected deviations from the means and their products, or those of what is drawn."""
    for k in prange(means.shape[0]):
        dim = columns.shape[0]
        factor, seen, z = np.zeros((dim, dim)), np.empty(dim, np.int64), np.empty((dim, strip))
        filled, heavy = np.empty((dim, strip)), np.empty(strip)
        for p in range(bounds.size - 1):
            total = 0.0
            for n in range(bounds[p], bounds[p + 1]):
                total += weights[k, n]
            if total == 0.0:
                continue
            count = _arrange(observed[p], seen)
            _factorise(covariances[k], seen, factor)
            for begin in range(bounds[p], bounds[p + 1], strip):
                end = min(begin + strip, bounds[p + 1])
                _whiten(columns, begin, end, means[k], seen, count, factor, z)
                for i in range(count, dim):
                    for n in range(end - begin):
                        z[i, n] = noise[seen[i], begin + n] if noise.size else 0.0
                _unwhiten(columns, begin, end, means[k], seen, count, factor, z, filled)
                for i in range(dim):
                    for n in range(end - begin):
                        heavy[n] = scaled[k, begin + n] * filled[i, n]
                    above = 0.0
                    for n in range(end - begin):
                        above += heavy[n]
                    first[k, seen[i]] += above
                    for j in range(i + 1):
                        above = 0.0
                        for n in range(end - begin):
                            above += heavy[n] * filled[j, n]
                        second[k, seen[i], seen[j]] += above
                        if i != j:
                            second[k, seen[j], seen[i]] += above
            if not noise.size:
                for i in range(count, dim):
                    for j in range(count, dim):
                        above = 0.0
                        for t in range(count, min(i, j) + 1):
                            above += factor[i, t] * factor[j, t]
                        second[k, seen[i], seen[j]] += total * above


@subroutine(allocates=False, fast=True)
def _unwhiten(
    columns: Array,
    begin: int,
    end: int,
    mean: Array,
    seen: Array,
    count: int,
    factor: Array,
    z: Array,
    filled: Array,
) -> None:
    """Write the deviations from the mean, those of missing columns as z implies."""
    for i in range(count):
        for n in range(end - begin):
            filled[i, n] = columns[seen[i], begin + n] - mean[seen[i]]
    for i in range(count, seen.size):
        for n in range(end - begin):
            filled[i, n] = 0.0
        for j in range(i + 1):
            weight = factor[i, j]
            if j >= count and weight == 0.0:
                continue
            for n in range(end - begin):
                filled[i, n] += weight * z[j, n]


@compiled(fast=True)
def _fill(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    covariances: Array,
    weights: Array,
    noise: Array,
    strip: int,
    out: Array,
) -> None:
    """Add conditional means or draws, weighted, to what is missing."""
    dim = columns.shape[0]
    factor, seen, z = np.zeros((dim, dim)), np.empty(dim, np.int64), np.empty((dim, strip))
    filled = np.empty((dim, strip))
    for p in range(bounds.size - 1):
        count = _arrange(observed[p], seen)
        for k in range(means.shape[0]):
            _factorise(covariances[k], seen, factor)
            for begin in range(bounds[p], bounds[p + 1], strip):
                end = min(begin + strip, bounds[p + 1])
                _whiten(columns, begin, end, means[k], seen, count, factor, z)
                for i in range(count, dim):
                    for n in range(end - begin):
                        z[i, n] = noise[seen[i], begin + n] if noise.size else 0.0
                _unwhiten(columns, begin, end, means[k], seen, count, factor, z, filled)
                for i in range(count, dim):
                    for n in range(begin, end):
                        out[seen[i], n] += weights[k, n] * (means[k, seen[i]] + filled[i, n - begin])


NOTHING = np.zeros((0, 0))


def distances(
    patterns: Patterns,
    means: Float[Array, "components columns"],
    covariances: Float[Array, "components columns columns"],
) -> tuple[Float[Array, "components rows"], Float[Array, "components patterns"]]:
    r"""Return the squared Mahalanobis distance of what each row has, and :math:`\log |\Sigma_{oo}|` of each pattern.

    Rows are in the order of the patterns. Costs :math:`O(D^3)` for each pattern and Gaussian and :math:`O(D^2)` for
    each row and Gaussian.
    """
    count, rows = len(means), patterns.columns.shape[1]
    squares, log_dets = np.empty((count, rows)), np.empty((count, len(patterns.observed)))
    given = (patterns.columns, patterns.bounds, patterns.observed, means, np.ascontiguousarray(covariances))
    _distances(*given, STRIP, squares, log_dets, work=rows * count * len(patterns.columns))
    return squares, log_dets


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
    given = (patterns.columns, patterns.bounds, patterns.observed, means, np.ascontiguousarray(covariances))
    options = (weights if scaled is None else scaled, NOTHING if noise is None else noise, STRIP)
    _moments(*given, weights, *options, first, second, work=weights.size * dim)
    return first, second


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
    given = (patterns.columns, patterns.bounds, patterns.observed, means, np.ascontiguousarray(covariances))
    _fill(*given, weights, NOTHING if noise is None else noise, STRIP, out, work=0)
    return out.T
