"""Number equal rows, compared in full, so that no two different ones can be confused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.shapes import Array, Int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows packed end to end: row r is ``values[ptr[r]:ptr[r + 1]]``."""

    ptr: Int[Array, " row_bounds"]
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
        entries = np.arange(ptr[-1]) + np.repeat(self.ptr[chosen] - ptr[:-1], lengths)
        return Rows(ptr, self.values[entries])

    def followed_by(self, other: Rows) -> Rows:
        """Return these rows, then the others."""
        ptr = np.concatenate([self.ptr, self.ptr[-1] + other.ptr[1:]])
        return Rows(ptr, np.concatenate([self.values, other.values]))


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
