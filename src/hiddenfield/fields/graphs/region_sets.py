"""Many small sets of variables in two arrays: intersections, containment and counting numbers, vectorised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.errors import TooLargeError
from hiddenfield.limits import check_time
from hiddenfield.ops.equal_rows import Rows, number_rows, ranges
from hiddenfield.shapes import Array, Int

MOST_SHARED = 1 << 26
"""Members that pairs of sets may share, all pairs together: half a gibibyte for each array of them."""


class Sets(Rows):
    """Sets of numbers, one after another: set s is ``values[ptr[s]:ptr[s + 1]]``."""

    @cached_property
    def sizes(self) -> Int[Array, " sets"]:
        """Number of members of each set."""
        return np.diff(self.ptr)

    @cached_property
    def rows(self) -> Int[Array, " members"]:
        """The set of each member."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __getitem__(self, index: Any) -> Sets:
        """Return the chosen sets, in that order."""
        return self.take(np.arange(len(self))[index])

    @classmethod
    def of_lists(cls, lists: Iterable[Sequence[int]]) -> Sets:
        """Make sets of lists of numbers."""
        rows = [np.asarray(numbers, dtype=np.int64).reshape(-1) for numbers in lists]
        sizes = [len(row) for row in rows]
        ptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        return cls(ptr, np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    def positions(self, row: Array, others: Sets, other: Array, width: int) -> Array:
        """Return where the members of ``others[other[k]]`` stand in the set ``self[row[k]]``, one k after another."""
        wanted = others[other]
        at = np.arange(len(self.values)) - self.ptr[self.rows]
        keys = self.rows * width + self.values
        order = np.argsort(keys, kind="stable")
        places = np.searchsorted(keys[order], row[wanted.rows] * width + wanted.values)
        found: Array = at[order][places]
        return found


class Overlaps(NamedTuple):
    """The pairs of sets, one of each of two families, that share members: sorted, with what they share."""

    first: Int[Array, " pairs"]
    second: Int[Array, " pairs"]
    shared: Sets


def overlaps(first: Sets, second: Sets, width: int) -> Overlaps:
    """Return all pairs of sets that share members, by joining on the members; each member once in a set."""
    check_time()
    order = np.argsort(second.values, kind="stable")
    holder = second.rows[order]
    bounds = np.searchsorted(second.values[order], np.arange(width + 1))
    count = (bounds[1:] - bounds[:-1])[first.values]
    if count.sum() > MOST_SHARED:
        raise TooLargeError(
            f"{len(first):,} clusters or regions share {count.sum():,} variables with others, one by one, and "
            f"{MOST_SHARED:,} is the most; take fewer or smaller clusters"
        )
    place, member = ranges(bounds[:-1][first.values], count)
    keys = first.rows[member] * max(len(second), 1) + holder[place]
    members = first.values[member]
    check_time()
    order = np.argsort(keys, kind="stable")
    keys, members = keys[order], members[order]
    heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else order
    found = keys[heads]
    return Overlaps(
        found // max(len(second), 1),
        found % max(len(second), 1),
        Sets(np.append(heads, len(keys)).astype(np.int64), members),
    )


def unique(sets: Sets) -> Sets:
    """Return different sets without repeated members, their members sorted, small sets first."""
    order = np.lexsort((sets.values, sets.rows))
    members, rows = sets.values[order], sets.rows[order]
    fresh = np.ones(len(members), dtype=bool)
    fresh[1:] = (members[1:] != members[:-1]) | (rows[1:] != rows[:-1])
    members, sizes = members[fresh], np.bincount(rows[fresh], minlength=len(sets))
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    tidy = Sets(ptr, members)
    _, first = number_rows(tidy)
    return tidy[first[np.argsort(tidy.sizes[first], kind="stable")]]


def containments(inside: Sets, container: Sets, width: int) -> tuple[Array, Array]:
    """Return all pairs (inside, container) where the one lies in, or equals, the other; sorted."""
    first, second, shared = overlaps(inside, container, width)
    held = shared.sizes == inside.sizes[first]
    return first[held], second[held]


def maximal(sets: Sets, width: int) -> Sets:
    """Return the different sets that lie in no other one, sorted by their least member."""
    candidates = unique(sets)
    first, second = containments(candidates, candidates, width)
    held = np.bincount(first[first != second], minlength=len(candidates)) > 0
    kept = candidates[~held]
    return kept[np.argsort(kept.values[kept.ptr[:-1]], kind="stable")]


def intersections(sets: Sets, width: int) -> Sets:
    """Return all sets that are intersections of two or more of the given ones, but not these themselves.

    Every such intersection is one of a set found before with one of the given sets.
    """
    known = Sets.concatenate([])
    first = sets
    while len(first):
        common = overlaps(first, sets, width)
        sizes = common.shared.sizes
        proper = (sizes < first.sizes[common.first]) & (sizes < sets.sizes[common.second])
        both = Sets.concatenate([known, unique(common.shared[proper])])
        _, distinct = number_rows(both)
        first = both[distinct[distinct >= len(known)]]
        known = Sets.concatenate([known, first])
    return known


def counting_numbers(outer: Sets, inner: Sets, width: int) -> Array:
    r"""Return :math:`c_r = 1 - \sum_{s \supset r} c_s` of the inner regions, those of outer ones being 1."""
    everything = Sets.concatenate([outer, inner])
    counting = np.ones(len(everything))
    small, large = containments(inner, everything, width)
    small = small + len(outer)
    proper = small != large
    small, large = small[proper], large[proper]
    sizes = everything.sizes.copy()
    sizes[: len(outer)] = -1
    for size in np.unique(inner.sizes)[::-1]:
        level = sizes[small] == size
        total = np.bincount(small[level], weights=counting[large[level]], minlength=len(everything))
        counting[sizes == size] = 1 - total[sizes == size]
    return counting[len(outer) :]
