"""Rows of numbers with holes, and which rows miss the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hiddenfield.shapes import Array, Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows in the order of what they miss.

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

    @cached_property
    def which(self) -> Int[Array, " rows"]:
        """The pattern of each row."""
        return np.repeat(np.arange(len(self.observed)), np.diff(self.bounds))


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
        parts = (self.weights, self.labels)
        return Rows(self.values[chosen], *(None if part is None else part[chosen] for part in parts))

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
        """The rows by what they miss; rows of one pattern keep their order."""
        count, dim = self.values.shape
        if self.complete:
            order, bounds, observed = np.arange(count), np.array([0, count]), np.ones((1, dim), bool)
        else:
            packed = np.packbits(~self.missing, axis=1)
            kinds, which, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
            order, bounds = (
                np.argsort(which.reshape(-1), kind="stable"),
                np.concatenate([[0], np.cumsum(counts)]),
            )
            observed = np.unpackbits(kinds, axis=1, count=dim).astype(bool)
        columns = np.ascontiguousarray(np.where(self.missing, 0.0, self.values)[order].T)
        further = (None if each is None else each[order] for each in (self.weights, self.labels))
        return Patterns(order, bounds, observed, columns, *further)
