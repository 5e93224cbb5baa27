"""Rows with holes as linear Gaussian models take them: by pattern of missingness, as few as have the same moments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Int

# Rows times squared factors in a block of the E step: what lies in the cache and in memory at a time.
BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Moments:
    r"""Rows by pattern of missingness, or fewer rows with the same moments.

    All that the E step of a linear Gaussian model needs of the rows with one pattern are their second moments, so rows
    can be replaced by as many as there are observed columns, and one more: with :math:`A = [1\ x]` and
    :math:`A = QR`, the rows of :math:`R` have the same moments. The first column is then no longer 1, which is `unit`.

    Parameters
    ----------
    rows
        Numbers, 0 where there is a hole.
    unit
        What stands for the number 1 in each row; the square root of its weight where rows are weighted.
    pattern
        Of each row, in ascending order.
    observed
        1 for the columns that a pattern has, 0 for those that it lacks.
    count
        Sum of the weights of the rows of each pattern.
    """

    rows: Float[Array, "rows columns"]
    unit: Float[Array, " rows"]
    pattern: Int[Array, " rows"]
    observed: Float[Array, "patterns columns"]
    count: Float[Array, " patterns"]

    def compressed(self) -> Moments:
        """Replace the rows of each pattern that has many by fewer with the same moments."""
        sizes = np.bincount(self.pattern, minlength=len(self.observed))
        many = sizes > self.observed.sum(axis=1) + 1
        kept = ~many[self.pattern]
        parts, owners = [np.column_stack([self.unit, self.rows])[kept]], [self.pattern[kept]]
        ends = np.cumsum(sizes)
        for place in np.flatnonzero(many):
            own = slice(ends[place] - sizes[place], ends[place])
            columns = np.flatnonzero(self.observed[place])
            extended = np.column_stack([self.unit[own], self.rows[own][:, columns]])
            triangle: Any = np.linalg.qr(extended, mode="r")
            part = np.zeros((len(triangle), self.rows.shape[1] + 1))
            part[:, 0], part[:, columns + 1] = triangle[:, 0], triangle[:, 1:]
            parts.append(part)
            owners.append(np.full(len(part), place))
        every, owner = np.concatenate(parts), np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return replace(self, rows=every[order, 1:], unit=every[order, 0], pattern=owner[order])

    def blocks(self, num_factors: int) -> Iterator[Moments]:
        """Cut into parts of whole patterns, small enough for a matrix of factors per row."""
        most = max(1, BLOCK // (num_factors + 1) ** 2)
        ends = np.searchsorted(self.pattern, np.arange(len(self.observed)), side="right")
        first = start = 0
        while first < len(self.observed):
            last = max(first + 1, int(np.searchsorted(ends, start + most, side="right")))
            rows = slice(start, ends[last - 1])
            yield Moments(
                self.rows[rows],
                self.unit[rows],
                self.pattern[rows] - first,
                self.observed[first:last],
                self.count[first:last],
            )
            first, start = last, int(ends[last - 1])


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorRows(Rows):
    """Rows of numbers with holes, as deviations from a centre."""

    centre: Float[Array, " columns"]

    def by_pattern(self, weights: Float[Array, " rows"] | None = None) -> Moments:
        """Return the rows sorted by pattern of missingness."""
        patterns, pattern = self.patterns, self.patterns.which
        observed = patterns.observed.astype(np.float64)
        share = np.ones(len(pattern)) if weights is None else weights[patterns.order]
        unit = np.sqrt(share)
        rows = (patterns.columns.T - self.centre * observed[pattern]) * unit[:, None]
        return Moments(rows, unit, pattern, observed, np.bincount(pattern, share, len(patterns)))

    @cached_property
    def weighted(self) -> Moments:
        """All rows, weighted."""
        return self.by_pattern(self.weights)

    @cached_property
    def moments(self) -> Moments:
        """As few rows as have the same moments."""
        return self.weighted.compressed()


def rows_with_moments(
    covariance: Float[Array, "columns columns"], mean: Float[Array, " columns"], count: float
) -> Rows:
    """Return weighted rows that have this mean and covariance (that by 1 / count), and count as so many.

    Examples
    --------
    >>> rows = rows_with_moments(np.array([[4.0, 1.0], [1.0, 2.0]]), np.array([5.0, 0.0]), 10.0)
    >>> np.cov(rows.values.T, aweights=rows.weights, bias=True).round(6).tolist(), float(rows.weights.sum())
    ([[4.0, 1.0], [1.0, 2.0]], 10.0)
    """
    values, vectors = np.linalg.eigh(covariance)
    if values[0] < -1e-8 * values[-1]:
        raise InputError(
            f"a covariance matrix has no negative eigenvalue; the smallest of this one is {values[0]:.3g}"
        )
    size = len(covariance)
    away = (vectors * np.sqrt(size * np.maximum(values, 0.0))).T
    return Rows(np.concatenate([mean + away, mean - away]), np.full(2 * size, count / (2 * size)))
