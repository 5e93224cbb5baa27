"""Many small sets of variables in two arrays: intersections, containment and counting numbers, vectorised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.shapes import Array, Int

__all__ = ["Sets", "containments", "counting_numbers", "intersections", "maximal"]


@dataclass(frozen=True, eq=False)
class Sets:
    """Sets of numbers, one after another: set s is ``members[ptr[s]:ptr[s + 1]]``.

    Examples
    --------
    >>> sets = Sets.of_lists([[3, 1], [2]])
    >>> len(sets), sets.sizes, sets.rows
    (2, array([2, 1]), array([0, 0, 1]))
    """

    ptr: Int[Array, " sets+1"]
    members: Int[Array, " members"]

    def __len__(self) -> int:
        """Return the number of sets."""
        return len(self.ptr) - 1

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
        chosen = np.arange(len(self))[index]
        sizes = self.sizes[chosen]
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], sizes)
        return Sets(ptr, self.members[np.repeat(self.ptr[:-1][chosen], sizes) + within])

    @classmethod
    def of_lists(cls, lists: Iterable[Sequence[int]]) -> Sets:
        """Make sets of lists of numbers."""
        rows = [np.asarray(numbers, dtype=np.int64).reshape(-1) for numbers in lists]
        sizes = [len(row) for row in rows]
        ptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        return cls(ptr, np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    @classmethod
    def of_matrix(cls, matrix: Int[Array, "sets size"]) -> Sets:
        """Make a set of each row."""
        rows, size = matrix.shape
        return cls(np.arange(rows + 1) * size, np.ascontiguousarray(matrix, dtype=np.int64).reshape(-1))

    @classmethod
    def concatenate(cls, parts: Sequence[Sets]) -> Sets:
        """Join sets end to end."""
        sizes = np.concatenate([np.zeros(0, dtype=np.int64), *(part.sizes for part in parts)])
        members = np.concatenate([np.zeros(0, dtype=np.int64), *(part.members for part in parts)])
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), members)

    def incidence(self, width: int) -> Any:
        """Return the sparse matrix (sets, width) with a 1 at each member."""
        from scipy.sparse import csr_matrix

        ones = np.ones(len(self.members))
        matrix = csr_matrix((ones, self.members, self.ptr), shape=(len(self), width))
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return matrix

    def positions(self, row: Array, others: Sets, other: Array, width: int) -> Array:
        """Return where the members of ``others[other[k]]`` stand in the set ``self[row[k]]``, one k after another."""
        wanted = others[other]
        at = np.arange(len(self.members)) - self.ptr[self.rows]
        keys = self.rows * width + self.members
        order = np.argsort(keys, kind="stable")
        places = np.searchsorted(keys[order], row[wanted.rows] * width + wanted.members)
        found: Array = at[order][places]
        return found


def _unique(sets: Sets) -> Sets:
    """Return different sets, their members sorted, small ones first."""
    order = np.lexsort((sets.members, sets.rows))
    members = sets.members[order]
    fresh = np.ones(len(members), dtype=bool)
    fresh[1:] = (members[1:] != members[:-1]) | (np.diff(sets.rows[order]) != 0)
    sizes = np.bincount(sets.rows[order][fresh], minlength=len(sets))
    members, ptr = members[fresh], np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        parts.append(Sets.of_matrix(np.unique(members[ptr[which][:, None] + np.arange(size)], axis=0)))
    return Sets.concatenate(parts)


def _overlaps(first: Sets, second: Sets, width: int) -> tuple[Array, Array, Array]:
    """Return the pairs of sets that share members, and how many."""
    shared = (first.incidence(width) @ second.incidence(width).T).tocoo()
    order = np.lexsort((shared.col, shared.row))
    return (
        shared.row[order].astype(np.int64),
        shared.col[order].astype(np.int64),
        shared.data[order].round().astype(np.int64),
    )


def containments(inside: Sets, container: Sets, width: int) -> tuple[Array, Array]:
    """Return all pairs (inside, container) where the one lies in, or equals, the other; sorted."""
    first, second, shared = _overlaps(inside, container, width)
    sizes = np.bincount(inside.incidence(width).nonzero()[0], minlength=len(inside))
    held = shared == sizes[first]
    return first[held], second[held]


def maximal(sets: Sets, width: int) -> Sets:
    """Return the different sets that lie in no other one, in the order in which they came."""
    unique = _unique(sets)
    first, second = containments(unique, unique, width)
    held = np.bincount(first[first != second], minlength=len(unique)) > 0
    kept = unique[~held]
    return kept[np.lexsort((kept.members[kept.ptr[:-1]],))]


def intersections(sets: Sets, width: int) -> Sets:
    """Return all sets that are intersections of two or more of the given ones, but not these themselves."""
    everything, new = sets, sets
    while len(new):
        first, second, shared = _overlaps(new, everything, width)
        proper = (shared < new.sizes[first]) & (shared < everything.sizes[second])
        common = (
            new.incidence(width)[first[proper]].multiply(everything.incidence(width)[second[proper]]).tocsr()
        )
        common.sort_indices()
        found = _unique(Sets(common.indptr.astype(np.int64), common.indices.astype(np.int64)))
        same, _ = _equal(found, everything, width)
        fresh = np.ones(len(found), dtype=bool)
        fresh[same] = False
        new = found[fresh]
        everything = Sets.concatenate([everything, new])
    return everything[len(sets) :]


def _equal(first: Sets, second: Sets, width: int) -> tuple[Array, Array]:
    one, other = containments(first, second, width)
    same = first.sizes[one] == second.sizes[other]
    return one[same], other[same]


def counting_numbers(outer: Sets, inner: Sets, width: int) -> Array:
    r"""Return :math:`c_r = 1 - \sum_{s \supset r} c_s` of the inner regions, those of outer ones being 1."""
    everything = Sets.concatenate([outer, inner])
    counting = np.ones(len(everything))
    small, large = containments(inner, everything, width)
    small = small + len(outer)
    proper = small != large
    small, large = small[proper], large[proper]
    for size in np.unique(inner.sizes)[::-1]:
        level = everything.sizes[small] == size
        total = np.bincount(small[level], weights=counting[large[level]], minlength=len(everything))
        here = np.flatnonzero(everything.sizes == size)
        here = here[here >= len(outer)]
        counting[here] = 1 - total[here]
    return counting[len(outer) :]
