"""Number equal rows: a hash table that compares rows in full."""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.shapes import Array, Int

__all__ = ["equal_rows", "find_row", "table_size"]


def equal_rows(rows: Array) -> tuple[Int[Array, " rows"], Int[Array, " distinct"]]:
    """Return a number for each row, by first appearance, the same for rows of the same bits; and the first of each.

    Elements are of four or eight bytes. Linear expected time.

    Examples
    --------
    >>> import numpy as np
    >>> equal_rows(np.array([[0.5, 1.0], [2.0, 1.0], [0.5, 1.0]]))
    (array([0, 1, 0], dtype=int32), array([0, 1], dtype=int32))
    """
    count = rows.shape[0]
    number, first = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    if rows.size == 0:
        return number, first[:1]
    found = np.zeros(1, dtype=np.int64)
    words = np.ascontiguousarray(rows.reshape(count, -1)).view(np.int32)
    _equal_rows(words, np.empty(table_size(count), dtype=np.int32), number, first, found)
    return number, first[: found[0]].copy()


def table_size(entries: int) -> int:
    """Return the number of slots for a table of so many entries: a power of two, at least twice as large."""
    return 1 << max(2, (2 * entries - 1).bit_length())


@subroutine(allocates=False)
def find_row(
    words: Array, row: int, width: int, group_row: Array, groups: int, slots: Array, mask: int
) -> int:
    """Return the group of a row; it is `groups`, and is entered, where no row before had these words."""
    code = np.uint64(0x9E3779B97F4A7C15)
    for column in range(width):
        code ^= np.uint64(np.uint32(words[row, column]))
        code *= np.uint64(0xFF51AFD7ED558CCD)
        code ^= code >> np.uint64(32)
    slot = np.int64(code & np.uint64(mask))
    while slots[slot] >= 0:
        group = slots[slot]
        other = group_row[group]
        same = True
        for column in range(width):
            if words[other, column] != words[row, column]:
                same = False
                break
        if same:
            return group
        slot = (slot + 1) & mask
    slots[slot] = groups
    group_row[groups] = row
    return groups


@compiled
def _equal_rows(words: Array, slots: Array, number: Array, first: Array, found: Array) -> None:
    slots[:] = -1
    groups = 0
    for row in range(words.shape[0]):
        group = find_row(words, row, words.shape[1], first, groups, slots, slots.size - 1)
        if group == groups:
            groups += 1
        number[row] = group
    found[0] = groups
