"""Columns of an Arrow table as arrays and features: types and nulls are checked, and what is refused names its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.arrow.schema import ATTRIBUTES, Column
from hiddenfield.data.columns import Columns, numbered
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import ReadError
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    import pyarrow


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


# -- labels, attributes, targets, ids and further columns ----------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Reads the features of one table; `lists` are the columns with one entry per node or arc.

    With metadata (`known`) a column of labels or classes holds codes; otherwise it holds the symbols themselves,
    whose sorted vocabulary is made.
    """

    source: Source
    known: bool
    lists: Mapping[str, Lists]

    def read(self, feature: str, columns: Sequence[Column], rows: int) -> Columns:
        """Return the columns of one feature, checked."""
        if feature.endswith("labels"):
            return Columns.labels([self._labels(column) for column in columns], rows)
        if feature.endswith("attributes"):
            names, matrix = self._attributes(columns, rows)
            self._check_distinct(names)
            return Columns(torch.from_numpy(matrix), tuple(names), (None,) * len(names))
        self._check_distinct([column.name for column in columns])
        return Columns.targets({column.name: self._target(column) for column in columns}, rows)

    def _check_distinct(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise self.source.refuse(
                f"columns must have {len(names)} distinct names, got {list(names)!r:.200}; rename one"
            )

    def _labels(self, column: Column) -> tuple[Vocabulary, Array]:
        lists = self.lists[column.field]
        self.source.no_null(lists)
        return self._codes(column, lists.values, lists.row_of)

    def _codes(
        self, column: Column, values: pyarrow.ChunkedArray, row_of: Callable[[int], int]
    ) -> tuple[Vocabulary, Array]:
        """Return the vocabulary and codes with -1 for null; refuse a code that the vocabulary lacks."""
        if not self.known or column.vocabulary is None:
            return self._encoded(column, plain(values))
        self.source.expect(column.field, values.type, "integer")
        codes = to_numpy(values.fill_null(-1) if values.null_count else values)
        codes = codes.astype(np.int64) if codes.dtype.kind not in "iu" else codes
        own = column.vocabulary
        if values.null_count or (len(codes) and (codes.min() < 0 or codes.max() >= len(own))):
            wrong = ((codes < 0) | (codes >= len(own))) & ~to_numpy(values.is_null())
            if wrong.any():
                at = int(np.argmax(wrong))
                raise self.source.refuse(
                    f"column {column.field!r} holds {values[at].as_py()}, which is no code of its {len(own)} symbols",
                    row_of(at),
                )
        return own, codes

    def _encoded(self, column: Column, values: pyarrow.ChunkedArray) -> tuple[Vocabulary, Array]:
        from pyarrow import types

        kind = values.type
        if not len(values):
            return Vocabulary(column.name, ()), np.zeros(0, dtype=np.int32)
        if not (is_text(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise self.source.refuse(f"column {column.field!r} must hold texts or integers, it holds {kind}")
        encoded = values.dictionary_encode().unify_dictionaries()
        vocabulary, rank = Vocabulary.from_values(column.name, encoded.chunk(0).dictionary.to_pylist())
        positions = np.concatenate([to_numpy(chunk.indices.fill_null(-1)) for chunk in encoded.chunks])
        return vocabulary, np.append(rank, np.int32(-1))[positions]

    def _attributes(
        self, columns: Sequence[Column], rows: int
    ) -> tuple[list[str], Float[Array, "rows columns"]]:
        """Return the names of all attributes, and their values side by side."""
        names: list[str] = []
        blocks = [np.zeros((rows, 0), dtype=np.float32)] if not columns else []
        for field in dict.fromkeys(column.field for column in columns):
            block = self._matrix(self.lists[field])
            given = [column.name for column in columns if column.field == field]
            if not self.known and field in ATTRIBUTES:
                given = list(numbered("attribute", block.shape[1]))
            if len(given) != block.shape[1] and block.shape[0]:
                raise self.source.refuse(
                    f"column {field!r} has {block.shape[1]} attributes, but {len(given)} are named"
                )
            names += given
            blocks.append(block if block.shape[0] else np.zeros((0, len(given)), dtype=np.float32))
        return names, blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _matrix(self, lists: Lists) -> Float[Array, "rows columns"]:
        """Return lists of numbers, or of equally long lists of numbers, as single-precision rows."""
        import pyarrow.compute as compute

        self.source.no_null(lists)
        values, width = lists.values, 1
        if is_list(values.type):
            widths = to_numpy(compute.list_value_length(values))
            width = int(widths[0]) if len(widths) else 0
            if (widths != width).any():
                at = int(np.argmax(widths != width))
                raise self.source.refuse(
                    f"column {lists.field!r} must hold equally long lists, got lengths {width} and {widths[at]}",
                    lists.row_of(at),
                )
            values = compute.list_flatten(values)
        self.source.expect(lists.field, values.type, "number")
        if values.null_count:
            row = lists.row_of(first_null(values) // max(width, 1))
            raise self.source.refuse(
                f"column {lists.field!r} holds null within a list; fill it in or drop the row", row
            )
        numbers = to_numpy(values)
        with np.errstate(over="ignore"):
            single = numbers.astype(np.float32)  # a copy: the table's own memory may be a file's
        if not np.isfinite(single).all():
            at = int(np.argmin(np.isfinite(single)))
            raise self.source.refuse(
                f"column {lists.field!r} holds {numbers[at]}; attributes must be finite in single precision",
                lists.row_of(at // width),
            )
        return single.reshape(-1, width) if width else np.zeros((len(lists.values), 0), dtype=np.float32)

    def _target(self, column: Column) -> tuple[Float[Array, " rows"], Vocabulary | None]:
        """Return a target as numbers with NaN for null, and its classes if it has any."""
        lists = self.lists.get(column.field)
        values = self.source.table[column.field] if lists is None else lists.values
        row_of = int if lists is None else lists.row_of
        if column.vocabulary is not None if self.known else is_text(plain(values).type):
            vocabulary, codes = self._codes(column, values, row_of)
            return np.where(codes < 0, np.nan, codes), vocabulary
        self.source.expect(column.field, values.type, "number")
        numbers = to_numpy(self.source.cast(values, "float64", column.field)).astype(np.float64)
        if np.isinf(numbers).any():
            at = int(np.argmax(np.isinf(numbers)))
            raise self.source.refuse(
                f"column {column.field!r} holds {numbers[at]}; a target must be finite, or null if missing",
                row_of(at),
            )
        return numbers, None

    def ids(self) -> Array:
        """Return the ids as texts."""
        from pyarrow import types

        column = self.source.table["id"]
        return self._texts("id", plain(column.cast("string") if types.is_integer(column.type) else column))

    def _texts(self, field: str, column: pyarrow.ChunkedArray) -> Array:
        self.source.expect(field, column.type, "text")
        if column.null_count:
            raise self.source.refuse(
                f"column {field!r} holds null; fill it in or drop the row", first_null(column)
            )
        return to_numpy(column).astype(np.dtypes.StringDType())

    def further(self, field: str) -> Array:
        """Return a column that merely travels along: texts or numbers of any kind."""
        from pyarrow import types

        values = plain(self.source.table[field])
        kind = values.type
        if is_text(kind):
            return self._texts(field, values)
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise self.source.refuse(
                f"column {field!r} holds {kind}, which does not travel with a pack (texts and numbers do); name the "
                "columns to keep with columns="
            )
        if values.null_count:
            raise self.source.refuse(
                f"column {field!r} holds null; fill it in, or name the columns to keep with columns=",
                first_null(values),
            )
        return to_numpy(values)
