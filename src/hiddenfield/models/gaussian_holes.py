r"""Gaussians of rows with holes: conditional expectations and covariances, exact, by compiled loops over patterns.

With o what a row has, m what it misses and :math:`\Lambda = \Sigma^{-1}`:

.. math::

    E[x_m \mid x_o] = \mu_m - \Lambda_{mm}^{-1} \Lambda_{mo} (x_o - \mu_o), \qquad
    \mathrm{Cov}[x_m \mid x_o] = \Lambda_{mm}^{-1}, \qquad
    \log |\Sigma_{oo}| = \log |\Sigma| + \log |\Lambda_{mm}|

and the distance of what a row has is that of the row so filled. Only what is missing is factorised, for each pattern
and Gaussian, so that rows which all miss something else cost little more. The loops are split among threads by
Gaussian: results do not depend on their number.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array, Bool, Float, Int


@subroutine(allocates=False, fast=True)
def _factorise(observed: Array, precision: Array, lost: Array, factor: Array) -> int:
    """Write the numbers of the missing columns and the Cholesky factor of their precision; return how many they are."""
    count = 0
    for d in range(observed.size):
        if not observed[d]:
            lost[count] = d
            for j in range(count + 1):
                total = precision[d, lost[j]]
                for t in range(j):
                    total -= factor[count, t] * factor[j, t]
                factor[count, j] = np.sqrt(total) if j == count else total / factor[j, j]
            count += 1
    return count


@compiled(fast=True)
def _fill(
    columns: Array,
    bounds: Array,
    observed: Array,
    means: Array,
    precisions: Array,
    noise: Array,
    filled: Array,
    log_dets: Array,
) -> None:
    r"""Write deviations from the means, what is missing filled in, and log determinants of its precision by pattern.

    With R the Cholesky factor of that precision, what is missing is :math:`R^{-\top} (R^{-1} b + e)`, with standard
    normal e where there is noise.
    """
    for k in prange(means.shape[0]):
        dim, rows = columns.shape
        lost, factor, work = np.empty(dim, np.int64), np.empty((dim, dim)), np.empty((dim, rows))
        for p in range(observed.shape[0]):
            first, end = bounds[p], bounds[p + 1]
            count = _factorise(observed[p], precisions[k], lost, factor)
            log_dets[k, p] = 0.0
            for d in range(dim):
                if observed[p, d]:
                    for n in range(first, end):
                        filled[k, d, n] = columns[d, n] - means[k, d]
            for i in range(count):
                log_dets[k, p] += 2.0 * np.log(factor[i, i])
                for n in range(first, end):
                    work[i, n] = 0.0
                for d in range(dim):
                    if observed[p, d]:
                        weight = precisions[k, lost[i], d]
                        for n in range(first, end):
                            work[i, n] -= weight * filled[k, d, n]
                for j in range(i):
                    for n in range(first, end):
                        work[i, n] -= factor[i, j] * work[j, n]
                scale = 1.0 / factor[i, i]
                for n in range(first, end):
                    work[i, n] *= scale
            for i in range(count - 1, -1, -1):
                scale = 1.0 / factor[i, i]
                if noise.size:
                    for n in range(first, end):
                        work[i, n] += noise[lost[i], n]
                for j in range(i + 1, count):
                    for n in range(first, end):
                        work[i, n] -= factor[j, i] * filled[k, lost[j], n]
                for n in range(first, end):
                    filled[k, lost[i], n] = scale * work[i, n]


@compiled(fast=True)
def _covariances(bounds: Array, observed: Array, precisions: Array, weights: Array, second: Array) -> None:
    """Add the conditional covariances of what is missing, weighted: their lower halves."""
    for k in prange(len(weights)):
        dim = observed.shape[1]
        lost, factor = np.empty(dim, np.int64), np.empty((dim, dim))
        for p in range(observed.shape[0]):
            weight = 0.0
            for n in range(bounds[p], bounds[p + 1]):
                weight += weights[k, n]
            count = _factorise(observed[p], precisions[k], lost, factor)
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
                    second[k, lost[i], lost[j]] += weight * total


def fill(
    columns: Float[Array, "columns rows"],
    bounds: Int[Array, " pattern_bounds"],
    observed: Bool[Array, "patterns columns"],
    means: Float[Array, "components columns"],
    precisions: Float[Array, "components columns columns"],
    noise: Float[Array, "columns rows"] | None = None,
) -> tuple[Float[Array, "components columns rows"], Float[Array, "components patterns"]]:
    r"""Return deviations from each mean, holes at their conditional expectation, and :math:`\log |\Lambda_{mm}|`.

    With `noise`, standard normal numbers, holes are drawn. Costs :math:`O(m^3)` for each pattern and Gaussian and
    :math:`O(m D)` for each row and Gaussian.
    """
    filled = np.empty((len(means), *columns.shape))
    log_dets = np.empty((len(means), len(observed)))
    given = (columns, bounds, observed, means, precisions, np.zeros((0, 0)) if noise is None else noise)
    _fill(*given, filled, log_dets, work=filled.size)
    return filled, log_dets


def covariances(
    bounds: Int[Array, " pattern_bounds"],
    observed: Bool[Array, "patterns columns"],
    precisions: Float[Array, "components columns columns"],
    weights: Float[Array, "components rows"],
) -> Float[Array, "components columns columns"]:
    """Return the sums of the conditional covariances of what rows miss, weighted."""
    found = np.zeros_like(precisions)
    _covariances(bounds, observed, precisions, weights, found, work=weights.size * len(observed[0]))
    return found + np.tril(found, -1).swapaxes(1, 2)
