"""Rows packed end to end, and numbers of equal ones, compared in full so that no two different ones can be confused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hiddenfield.shapes import Array, Int

Packed = TypeVar("Packed", bound="Rows")


def ranges(
    start: Int[Array, " ranges"], length: Int[Array, " ranges"]
) -> tuple[Int[Array, " places"], Int[Array, " places"]]:
    """Return the integers of ranges of these starts and lengths, end to end, and the range of each.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    (array([5, 6, 0, 1, 2]), array([0, 0, 1, 1, 1]))
    """
    owner = np.repeat(np.arange(len(length)), length)
    return np.arange(len(owner)) + (start - np.cumsum(length) + length)[owner], owner


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows packed end to end: row r is ``values[ptr[r]:ptr[r + 1]]``."""

    ptr: Int[Array, " row_bounds"]
    values: Int[Array, " entries"]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ptr) - 1

    @classmethod
    def of_table(cls: type[Packed], table: Int[Array, "rows columns"]) -> Packed:
        """Take the rows of a matrix; it may have no columns."""
        count, width = table.shape
        return cls(
            np.arange(count + 1, dtype=np.int64) * width, table.astype(np.int64, copy=False).reshape(-1)
        )

    @classmethod
    def concatenate(cls: type[Packed], parts: Sequence[Rows]) -> Packed:
        """Join rows end to end."""
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.ptr) for part in parts)])
        values = np.concatenate([np.zeros(0, np.int64), *(part.values for part in parts)])
        return cls(np.cumsum(sizes), values)

    def take(self: Packed, chosen: Int[Array, " chosen"]) -> Packed:
        """Return some of the rows, in that order."""
        lengths = np.diff(self.ptr)[chosen]
        entries, _ = ranges(self.ptr[:-1][chosen], lengths)
        return type(self)(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), self.values[entries])


def number_rows(rows: Rows) -> tuple[Int[Array, " rows"], Int[Array, " distinct"]]:
    """Give equal rows equal numbers and different rows different ones, counted by first appearance.

    Returns
    -------
    numbers
        (rows,), from 0.
    first
        (distinct,), for every number the first row that has it; rising.

    Notes
    -----
    Expected O(rows + entries) time; O(rows) memory beside the input.

    Examples
    --------
    >>> import numpy as np
    >>> number_rows(Rows(np.array([0, 2, 3, 5]), np.array([7, 8, 7, 7, 8])))
    (array([0, 1, 0]), array([0, 1]))
    """
    import pyarrow

    bounds, content = 8 * rows.ptr.astype(np.int64), np.ascontiguousarray(rows.values, dtype=np.int64)
    if (np.diff(rows.ptr) == 1).all():  # numbers are looked up in a half to a third of the time
        keys = pyarrow.array(content[rows.ptr[0] :][: len(rows)])
    else:
        buffers = [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(content)]
        keys = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(rows), buffers)
    numbers = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.empty(numbers.max(initial=-1) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(rows))[::-1]
    return numbers, first


def equal_rows(rows: Array) -> tuple[Int[Array, " rows"], Int[Array, " distinct"]]:
    """Return what `number_rows` does for the rows of a matrix or stack of tables, the same for rows of the same bits.

    Elements are of four or eight bytes.

    Examples
    --------
    >>> import numpy as np
    >>> equal_rows(np.array([[0.5, 1.0], [2.0, 1.0], [0.5, 1.0]]))
    (array([0, 1, 0]), array([0, 1]))
    """
    words = np.ascontiguousarray(rows.reshape(len(rows), -1 if rows.size else 0))
    return number_rows(Rows.of_table(words.view(np.int64 if words.itemsize == 8 else np.int32)))
