"""Columns of an Arrow table as arrays: types and nulls are checked, and what is refused names its row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.errors import ReadError
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Lists", "Source"]


@dataclass(frozen=True)
class Lists:
    """A list column laid flat: how long each row's list is, and the values of all rows."""

    field: str
    lengths: Int[Array, " rows"]
    values: pyarrow.ChunkedArray

    def row_of(self, position: int) -> int:
        """Return the row that a value belongs to."""
        return int(np.searchsorted(np.cumsum(self.lengths), position, side="right"))


@dataclass(frozen=True)
class Source:
    """A table, the file it came from and the number of its first row in it."""

    table: pyarrow.Table
    file: str | Path | None = None
    first_row: int = 0

    def refuse(self, message: str, row: int | None = None) -> ReadError:
        """Return the error for a row, or for the table as a whole."""
        place = "" if row is None else f"row {self.first_row + row}: "
        return ReadError(place + message, file=self.file)

    def lists(self, field: str) -> Lists:
        """Return a list column laid flat; refuse a row without a list."""
        import pyarrow.compute as compute

        column = self.table[field]
        if not is_list(column.type):
            raise self.refuse(f"column {field!r} must hold lists, it holds {column.type}")
        if column.null_count:
            raise self.refuse(f"column {field!r} holds null; every row needs a list", first_null(column))
        lengths = to_numpy(compute.list_value_length(column)).astype(np.int64)
        return Lists(field, lengths, compute.list_flatten(column))

    def small_integers(self, lists: Lists) -> Int[Array, " values"]:
        """Return the values of a list column that must be integers without nulls, as int32.

        Those that do not fit are refused, since no node, arc or code has such a number.
        """
        import pyarrow
        from pyarrow import types

        kind = lists.values.type
        if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)):
            raise self.refuse(f"column {lists.field!r} must hold lists of integers, it holds lists of {kind}")
        self.no_null(lists)
        plain = types.is_integer(kind) and not types.is_uint64(kind)
        values = to_numpy(lists.values if plain else self.cast(lists.values, pyarrow.int64(), lists.field))
        if values.dtype == np.int32:
            return values
        limits = np.iinfo(np.int32)
        if len(values) and (values.min() < limits.min or values.max() > limits.max):
            at = int(np.argmax((values < limits.min) | (values > limits.max)))
            raise self.refuse(f"column {lists.field!r} holds {values[at]}, beyond 32 bits", lists.row_of(at))
        return values.astype(np.int32)

    def no_null(self, lists: Lists) -> None:
        """Refuse a list column with a null among its values."""
        if lists.values.null_count:
            row = lists.row_of(first_null(lists.values))
            raise self.refuse(
                f"column {lists.field!r} holds null within a list; fill it in or drop the row", row
            )

    def cast(self, values: pyarrow.ChunkedArray, kind: Any, field: str) -> pyarrow.ChunkedArray:
        """Convert to another type; refuse what it cannot hold."""
        import pyarrow

        try:
            return values.cast(kind)
        except pyarrow.ArrowException as error:
            raise self.refuse(f"column {field!r} cannot be read as {kind}: {error}") from None

    def expect(self, field: str, kind: Any, what: str) -> None:
        """Refuse a column whose values are of another kind: integer, number or text."""
        from pyarrow import types

        whole = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
        good = {"integer": whole, "number": whole or types.is_floating(kind), "text": is_text(kind)}[what]
        if not good:
            raise self.refuse(f"column {field!r} must hold {what}s, it holds {kind}")


def is_list(kind: Any) -> bool:
    """Say whether a type is one of Arrow's list types."""
    from pyarrow import types

    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def is_text(kind: Any) -> bool:
    """Say whether a type is text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def plain(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Replace dictionary codes by what they stand for; leave any other column as it is."""
    from pyarrow import types

    return values.cast(values.type.value_type) if types.is_dictionary(values.type) else values


def first_null(values: pyarrow.ChunkedArray) -> int:
    """Return the position of the first null."""
    return int(np.argmax(to_numpy(values.is_null())))


def to_numpy(values: Any) -> Array:
    """View a column without nulls as an array, copying where it comes in several chunks or as bits."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray) and values.num_chunks == 1:
        values = values.chunk(0)
    return values.to_numpy(zero_copy_only=False)
