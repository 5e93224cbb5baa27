"""Rows of integers, each of its own length, and numbers that are equal exactly where rows are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.ops.compile import PARALLEL_WORK, compiled, prange
from hiddenfield.shapes import Array, Int

__all__ = ["Rows", "number_rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows packed end to end: row r is ``values[ptr[r]:ptr[r + 1]]``."""

    ptr: Int[Array, " rows+1"]
    values: Int[Array, " entries"]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ptr) - 1

    @classmethod
    def of_table(cls, table: Int[Array, "rows columns"]) -> Rows:
        """Take the rows of a matrix; it may have no columns."""
        count, width = table.shape
        return cls(
            np.arange(count + 1, dtype=np.int64) * width, table.astype(np.int64, copy=False).reshape(-1)
        )

    def take(self, chosen: Int[Array, " chosen"]) -> Rows:
        """Return some of the rows, in that order."""
        lengths = np.diff(self.ptr)[chosen]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = np.empty(ptr[-1], dtype=np.int64)
        _copy_rows(self.ptr, self.values, chosen, ptr, values, work=len(values))
        return Rows(ptr, values)

    def followed_by(self, other: Rows) -> Rows:
        """Return these rows, then the others."""
        ptr = np.concatenate([self.ptr, self.ptr[-1] + other.ptr[1:]])
        return Rows(ptr, np.concatenate([self.values, other.values]))


def number_rows(rows: Rows) -> tuple[Int[Array, " rows"], Int[Array, " distinct"]]:
    """Give equal rows equal numbers and different rows different ones, counted by first appearance.

    A hash says only where to look; rows are compared entry by entry, so that no two different ones can be confused.

    Returns
    -------
    numbers
        (rows,), from 0.
    first
        (distinct,), for every number the first row that has it; rising.

    Notes
    -----
    Expected O(rows + entries) time; O(rows) memory beside the input. Rows are shared out among threads by their hash;
    the result does not depend on how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> number_rows(Rows(np.array([0, 2, 3, 5]), np.array([7, 8, 7, 7, 8])))
    (array([0, 1, 0]), array([0, 1]))
    """
    hashes = np.empty(len(rows), dtype=np.int64)
    _hash_rows(rows.ptr, rows.values, hashes, work=len(rows.values))
    parts = 1 if len(rows) < PARALLEL_WORK else 1 << (torch.get_num_threads() - 1).bit_length()
    equal, numbers = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    _find_first(rows.ptr, rows.values, hashes, parts, equal, work=len(rows))
    leading = equal == np.arange(len(rows))
    _look_up(np.cumsum(leading) - 1, equal, numbers, work=len(rows))
    return numbers, np.flatnonzero(leading)


@compiled
def _copy_rows(ptr: Array, values: Array, chosen: Array, new_ptr: Array, out: Array) -> None:
    for row in prange(chosen.size):
        for k in range(new_ptr[row + 1] - new_ptr[row]):
            out[new_ptr[row] + k] = values[ptr[chosen[row]] + k]


@compiled
def _look_up(table: Array, places: Array, out: Array) -> None:
    for row in prange(places.size):
        out[row] = table[places[row]]


@compiled
def _hash_rows(ptr: Array, values: Array, out: Array) -> None:
    for row in prange(ptr.size - 1):
        # Products that wrap around, and shifts that bring the high bits down to where a table looks.
        mixed = np.int64(0x1234567) + (ptr[row + 1] - ptr[row])
        for place in range(ptr[row], ptr[row + 1]):
            mixed = (mixed ^ values[place]) * np.int64(-7046029254386353131)
            mixed = mixed ^ (mixed >> np.int64(29))
        out[row] = mixed


@compiled
def _find_first(ptr: Array, values: Array, hashes: Array, parts: int, out: Array) -> None:
    """Write for every row the first row that equals it; of all rows a part takes those whose hash is its own."""
    for part in prange(parts):
        size = 1024
        table = np.full(size, -1, dtype=np.int64)
        count = 0
        for row in range(ptr.size - 1):
            # The high bits say which part, the low bits where in its table.
            if (hashes[row] >> np.int64(48)) & (parts - 1) != part:
                continue
            if 2 * count >= size:
                old = table
                size *= 4
                table = np.full(size, -1, dtype=np.int64)
                for place in range(old.size):
                    if old[place] >= 0:
                        slot = hashes[old[place]] & (size - 1)
                        while table[slot] >= 0:
                            slot = (slot + 1) & (size - 1)
                        table[slot] = old[place]
            length = ptr[row + 1] - ptr[row]
            slot = hashes[row] & (size - 1)
            found = -1
            while table[slot] >= 0 and found < 0:
                other = table[slot]
                same = hashes[other] == hashes[row] and ptr[other + 1] - ptr[other] == length
                place = 0
                while same and place < length:
                    same = values[ptr[other] + place] == values[ptr[row] + place]
                    place += 1
                if same:
                    found = other
                else:
                    slot = (slot + 1) & (size - 1)
            if found < 0:
                table[slot] = row
                found = row
                count += 1
            out[row] = found
