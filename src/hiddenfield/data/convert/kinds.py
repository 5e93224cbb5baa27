"""The kind that a column of numbers looks like, from sums that add up over the parts of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hiddenfield.shapes import Array, Float

FEW = 10
"""Whole numbers of at most so many different values are taken for categories."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers, as far as their kind depends on them; those of several parts can be joined.

    Parameters
    ----------
    count, total, squares
        How many there are, their sum, and the sum of their squares.
    low, high
        The least and the largest.
    odd
        The first that is not a whole number; None where all are.
    distinct
        The different ones, as long as they are few; None where there are more.

    Examples
    --------
    >>> ages = Numbers.of(np.array([31.5, 29.0]))
    >>> ages.kind, Numbers.of(np.arange(5.0)).joined(Numbers.of(np.arange(60.0) % 9)).kind
    ('continuous', 'categorical')
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    odd: float | None = None
    distinct: Float[Array, " values"] | None = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, present: Float[Array, " values"], most: float = FEW) -> Numbers:
        """Look at numbers, none of them missing; different ones are kept up to `most`."""
        if not len(present):
            return cls()
        distinct = np.unique(present)
        with np.errstate(over="ignore", invalid="ignore"):
            odd = distinct[~(np.isfinite(distinct) & (distinct % 1 == 0))]
            sums = float(present.sum()), float(present @ present)
        ends = float(distinct[0]), float(distinct[-1])
        first = float(odd[0]) if len(odd) else None
        return cls(len(present), *sums, *ends, first, distinct if len(distinct) <= most else None)

    def joined(self, other: Numbers, most: float = FEW) -> Numbers:
        """Return what there is of both."""
        both = None
        if self.distinct is not None and other.distinct is not None:
            both = np.union1d(self.distinct, other.distinct)
        return Numbers(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            min(self.low, other.low),
            max(self.high, other.high),
            other.odd if self.odd is None else self.odd,
            both if both is not None and len(both) <= most else None,
        )

    @property
    def kind(self) -> str:
        """The kind that they look like."""
        if not self.count or self.odd is not None:
            return "continuous"
        if self.low >= 0 and self.high <= 1:
            return "binary"
        few = self.distinct is not None and len(self.distinct) <= FEW and self.count >= 3 * len(self.distinct)
        if few and max(-self.low, self.high) < 2**31:
            return "binary" if len(self.distinct) <= 2 else "categorical"  # type: ignore[arg-type]
        mean = self.total / self.count
        return "count" if self.low == 0 and self.squares / self.count - mean**2 <= 10 * mean else "continuous"
