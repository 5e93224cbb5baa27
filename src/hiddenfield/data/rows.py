"""Rows of numbers with holes, and which rows miss the same columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.shapes import Array, Bool, Float, Int

CHUNK = 8192
"""Rows in a part, so that what lies between two products stays in the cache."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows in the order of what they miss, patterns of many rows first.

    Parameters
    ----------
    order
        Positions of the rows, pattern after pattern.
    bounds
        Rows ``order[bounds[p] : bounds[p + 1]]`` have pattern p.
    observed
        Which columns each pattern has.
    columns
        The values in this order, column after column, with 0 for what is missing.
    weights, labels
        Those of the rows, in this order.
    """

    order: Int[Array, " rows"]
    bounds: Int[Array, " pattern_bounds"]
    observed: Bool[Array, "patterns columns"]
    columns: Float[Array, "columns rows"]
    weights: Float[Array, " rows"] | None = None
    labels: Int[Array, " rows"] | None = None

    def __len__(self) -> int:
        """Return the number of patterns."""
        return len(self.observed)

    @property
    def counts(self) -> Int[Array, " patterns"]:
        """How many rows have each pattern."""
        return np.diff(self.bounds)

    @cached_property
    def which(self) -> Int[Array, " rows"]:
        """The pattern of each row."""
        return np.repeat(np.arange(len(self.observed)), self.counts)

    def within(self, chosen: slice) -> tuple[Int[Array, " pattern_bounds"], Bool[Array, "patterns columns"]]:
        """Return bounds and observed columns of the patterns that some rows have, counted from the first of these."""
        which = self.which[chosen]
        first, last = which[0], which[-1] + 1
        bounds = np.clip(self.bounds[first : last + 1] - chosen.start, 0, len(which))
        return bounds, self.observed[first:last]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of numbers; NaN is a hole.

    Parameters
    ----------
    values
        The numbers.
    weights
        How many times each row counts; None for once.
    labels
        The component that each row is known to be of, or -1; None for unknown throughout.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan]]))
    >>> rows.patterns.order.tolist(), rows.patterns.bounds.tolist(), rows.patterns.observed.tolist()
    ([0, 2, 1], [0, 2, 3], [[True, False], [True, True]])
    """

    values: Float[Array, "rows columns"]
    weights: Float[Array, " rows"] | None = None
    labels: Int[Array, " rows"] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: slice | Array) -> Rows:
        """Return some of the rows."""
        parts = {"weights": self.weights, "labels": self.labels}
        own = {name: None if part is None else part[chosen] for name, part in parts.items()}
        return replace(self, values=self.values[chosen], **own)

    @cached_property
    def _blocks(self) -> dict[tuple[int, ...], Rows]:
        return {}

    def block(self, columns: tuple[int, ...]) -> Rows:
        """Return some columns, always the same rows, so that what is cached there is found again."""
        if columns not in self._blocks:
            self._blocks[columns] = Rows(self.values[:, columns])
        return self._blocks[columns]

    @cached_property
    def parts(self) -> list[tuple[slice, Rows]]:
        """The rows, `CHUNK` at a time."""
        places = [slice(begin, begin + CHUNK) for begin in range(0, len(self), CHUNK)]
        return [(place, self[place]) for place in places]

    @cached_property
    def _indicators(self) -> dict[tuple[int, ...], Any]:
        return {}

    def indicators(self, sizes: tuple[int, ...]) -> Any:
        """Return columns of codes, of so many symbols each, as a sparse matrix of ones.

        It has a row for each row, and for each column its symbols and one more, for missing.
        """
        from scipy.sparse import csr_matrix

        if sizes not in self._indicators:
            starts = np.cumsum([0, *(size + 1 for size in sizes)])
            codes = (np.where(self.missing, sizes, self.values) + starts[:-1]).astype(np.int32).reshape(-1)
            given = (np.ones(len(codes)), codes, np.arange(len(self) + 1, dtype=np.int32) * len(sizes))
            self._indicators[sizes] = csr_matrix(given, (len(self), int(starts[-1])))
        return self._indicators[sizes]

    @cached_property
    def missing(self) -> Bool[Array, "rows columns"]:
        """Where the holes are."""
        return np.isnan(self.values)

    @cached_property
    def complete(self) -> bool:
        """Whether there are none."""
        return not self.missing.any()

    @cached_property
    def patterns(self) -> Patterns:
        """The rows by what they miss: frequent patterns first, then those with more columns; otherwise in order."""
        count, dim = self.values.shape
        if self.complete:
            order, bounds, observed = np.arange(count), np.array([0, count]), np.ones((1, dim), bool)
        else:
            packed = np.packbits(~self.missing, axis=1)
            kinds, which, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
            observed = np.unpackbits(kinds, axis=1, count=dim).astype(bool)
            rank = np.lexsort((*~observed.T, -counts))
            observed, bounds = observed[rank], np.concatenate([[0], np.cumsum(counts[rank])])
            order = np.argsort(np.argsort(rank)[which.reshape(-1)], kind="stable")
        columns = np.ascontiguousarray(np.where(self.missing, 0.0, self.values)[order].T)
        further = (None if each is None else each[order] for each in (self.weights, self.labels))
        return Patterns(order, bounds, observed, columns, *further)
