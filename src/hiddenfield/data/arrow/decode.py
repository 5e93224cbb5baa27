"""From an Arrow table to a pack: whoever made the table, what comes out has been checked throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.arrow.arrays import first_null, is_list, is_text, plain, to_numpy
from hiddenfield.data.arrow.schema import ATTRIBUTES, Column, Layout, parse_layout
from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import Columns, numbered
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    import pyarrow


def from_arrow(table: pyarrow.Table, *, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from an Arrow table with one row per structure.

    Parameters
    ----------
    table
        With the list columns ``source`` and ``target``: node numbers within each structure, from 0. Everything else
        is optional: ``num_nodes`` (otherwise as many as the node columns have entries, or as the arcs need), ``id``,
        ``reverse``, ``node_label_<name>``, ``arc_label_<name>`` (lists of texts or integers), ``node_attributes``
        (lists of lists of numbers) or ``node_attribute_<name>`` (lists of numbers), the same for arcs,
        ``target_<name>`` and ``node_target_<name>`` (numbers or texts; null is missing). Any other column travels
        along. A table that `to_arrow` made says in its metadata what its codes stand for.
    columns
        The other columns to keep; all of them by default.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        Naming the row, counted from 0.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table(
    ...     {"source": [[0, 1], []], "target": [[1, 0], []], "node_label_atom": [["C", "O"], ["N"]]}
    ... )
    >>> from_arrow(table)
    Structures(2 structures, 3 nodes, 2 arcs; node labels: atom (3))
    """
    layout = parse_layout(table.schema.metadata, table.column_names, None)
    return decode(Source(table), layout, columns)


def decode(source: Source, layout: Layout, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from a table whose layout is known; every failure is a `ReadError` with the file and row."""
    import pyarrow

    try:
        source.table.validate(full=True)
        return _decode(source, _checked_layout(source, layout, columns))
    except ReadError:
        raise
    except InputError as error:
        raise source.refuse(error.reason or str(error), error.structure) from None
    except (pyarrow.ArrowException, NotImplementedError, UnicodeDecodeError) as error:
        raise ReadError(str(error), file=source.file) from None
    except MemoryError:
        raise ReadError("does not fit into memory; is it damaged?", file=source.file) from None


def _decode(source: Source, layout: Layout) -> Structures:
    starts, ends = source.lists("source"), source.lists("target")
    counts = starts.lengths
    ends.check_lengths(counts, "column 'source'")
    start, end = starts.integers(), ends.integers()
    units: dict[str, dict[str, Field]] = {"node": {}, "arc": {}, "structure": {}}
    for feature, columns in layout.features.items():
        opened = source.field if FEATURES[feature] == "structure" else source.lists
        units[FEATURES[feature]] |= {column.field: opened(column.field) for column in columns}
    sizes = _sizes(source, counts, np.maximum(start, end), units["node"])
    for unit, expected, reason in (("node", sizes, "num_nodes"), ("arc", counts, "column 'source'")):
        for field in units[unit].values():
            field.check_lengths(expected, reason)
    node_ptr, arc_ptr = (np.concatenate([[0], np.cumsum(number)]) for number in (sizes, counts))
    rows = {"structure": len(sizes), "node": int(node_ptr[-1]), "arc": int(arc_ptr[-1])}
    features: dict[str, Any] = {
        name: _feature(source, name, columns, units[FEATURES[name]], layout.known, rows[FEATURES[name]])
        for name, columns in layout.features.items()
    }
    return from_arcs(
        start,
        end,
        node_ptr=node_ptr,
        arc_ptr=arc_ptr,
        reverse=_reverse(source, counts, arc_ptr),
        ids=source.field("id").texts() if layout.ids else None,
        columns={column.name: source.field(column.field).further() for column in layout.columns},
        **features,
    )


def _checked_layout(source: Source, layout: Layout, columns: Sequence[str] | None) -> Layout:
    names = source.table.column_names
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise source.refuse(f"column {min(twice)!r} occurs twice; rename one")
    if not {"source", "target"} <= set(names):
        has = ", ".join(names)[:300]
        raise source.refuse(
            f"needs the columns 'source' and 'target' with lists of node numbers, it has: {has}"
        )
    if columns is None:
        return layout
    unknown = set(columns) - {column.name for column in layout.columns}
    if unknown:
        there = ", ".join(column.name for column in layout.columns) or "none"
        raise InputError(f"there is no further column {min(unknown)!r}; there are: {there}")
    return dataclasses.replace(layout, columns=tuple(c for c in layout.columns if c.name in columns))


def _sizes(source: Source, counts: Array, largest: Array, nodes: Mapping[str, Field]) -> Int[Array, " rows"]:
    """Return the number of nodes of each row: given, or as the node columns have it, or as the arcs need it."""
    if "num_nodes" in source.table.column_names:
        field = source.field("num_nodes")
        field.expect("integers")
        field.no_null()
        sizes = to_numpy(field.values.cast("int64"))
        bad = (sizes < 0) | (sizes >= 2**31)
        if bad.any():
            row = int(np.argmax(bad))
            raise source.refuse(f"num_nodes must be from 0 to 2**31 - 1, got {sizes[row]}", row)
        # Without a column that has an entry per node, this number alone would say how much memory is taken.
        if not nodes and int(sizes.sum()) >= 2**31:
            raise source.refuse(
                f"num_nodes adds up to {int(sizes.sum())} nodes that have no feature; split the table"
            )
        return sizes
    if nodes:
        return next(iter(nodes.values())).lengths
    needed = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(needed, np.repeat(np.arange(len(counts)), counts), largest.astype(np.int64) + 1)
    return needed


def _reverse(source: Source, counts: Array, arc_ptr: Array) -> Int[Array, " arcs"] | None:
    """Return the column of reverse arcs, numbered through the pack; None where the table has none."""
    if "reverse" not in source.table.column_names:
        return None
    field = source.lists("reverse")
    field.check_lengths(counts, "column 'source'")
    local = field.integers()
    wrong = (local < -1) | (local >= np.repeat(counts, counts))
    if wrong.any():
        arc = int(np.argmax(wrong))
        row = int(np.searchsorted(arc_ptr, arc, side="right")) - 1
        raise source.refuse(
            f"the reverse of arc {arc - arc_ptr[row]} is {local[arc]}, but the structure has {counts[row]} arcs",
            row,
        )
    return np.where(local < 0, -1, local + np.repeat(arc_ptr[:-1], counts))


def _feature(
    source: Source,
    feature: str,
    columns: Sequence[Column],
    fields: Mapping[str, Field],
    known: bool,
    rows: int,
) -> Columns:
    """Return the columns of one feature, checked; without metadata (not `known`) vocabularies are made."""
    if feature.endswith("labels"):
        for column in columns:
            fields[column.field].no_null()
        return Columns.labels([fields[column.field].codes(column, known) for column in columns], rows)
    names = [column.name for column in columns]
    blocks = [np.zeros((rows, 0), dtype=np.float32)]
    if feature in ATTRIBUTES:
        names = []
        for field in dict.fromkeys(column.field for column in columns):
            block = fields[field].matrix()
            given = [column.name for column in columns if column.field == field]
            if not known and field in ATTRIBUTES:
                given = list(numbered("attribute", block.shape[1]))
            if len(given) != block.shape[1] and rows:
                raise source.refuse(
                    f"column {field!r} has {block.shape[1]} attributes, but {len(given)} are named"
                )
            names += given
            blocks.append(block if rows else np.zeros((0, len(given)), dtype=np.float32))
    if len(set(names)) < len(names):
        raise source.refuse(f"columns must have {len(names)} distinct names, got {names!r:.200}; rename one")
    if feature in ATTRIBUTES:
        matrix = blocks[1] if len(blocks) == 2 else np.concatenate(blocks, axis=1)
        return Columns(torch.from_numpy(matrix), tuple(names), (None,) * len(names))
    return Columns.targets({c.name: fields[c.field].target(c, known) for c in columns}, rows)


# -- columns of a table as arrays: types and nulls are checked, and what is refused names its row ---------------


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

    def field(self, name: str) -> Field:
        """Return a column with one value per row."""
        return Field(self, name, plain(self.table[name]), np.ones(self.table.num_rows, dtype=np.int64))

    def lists(self, name: str) -> Field:
        """Return a list column laid flat; refuse a row without a list."""
        import pyarrow.compute as compute

        column = self.table[name]
        if not is_list(column.type):
            raise self.refuse(f"column {name!r} must hold lists, it holds {column.type}")
        if column.null_count:
            raise self.refuse(f"column {name!r} holds null; every row needs a list", first_null(column))
        lengths = to_numpy(compute.list_value_length(column)).astype(np.int64)
        return Field(self, name, plain(compute.list_flatten(column)), lengths, "lists of ")


@dataclass(frozen=True)
class Field:
    """A column laid flat: the values of all rows one after another, and how many each row has."""

    source: Source
    name: str
    values: pyarrow.ChunkedArray
    lengths: Int[Array, " rows"]
    of: str = ""

    def refuse(self, message: str, wrong: Any = None) -> ReadError:
        """Return the error for the column, or for the row of the first value that is wrong."""
        row = None
        if wrong is not None:
            row = int(np.searchsorted(np.cumsum(self.lengths), int(np.argmax(wrong)), side="right"))
        return self.source.refuse(f"column {self.name!r} {message}", row)

    def check_lengths(self, expected: Array, reason: str) -> None:
        """Refuse a row whose list has another length than is said elsewhere."""
        if not np.array_equal(self.lengths, expected):
            row = int(np.argmax(self.lengths != expected))
            came = f"column {self.name!r} has {self.lengths[row]} entries"
            raise self.source.refuse(f"{came}, but {reason} says {expected[row]}", row)

    def no_null(self, remedy: str = "fill it in or drop the row") -> None:
        """Refuse a null."""
        if self.values.null_count:
            within = " within a list" if self.of else ""
            raise self.refuse(f"holds null{within}; {remedy}", to_numpy(self.values.is_null()))

    def expect(self, what: str) -> None:
        """Refuse values of another kind than integers, numbers, texts, or texts or integers."""
        from pyarrow import types

        kind = self.values.type
        whole = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
        kinds = {"integers": whole, "numbers": whole or types.is_floating(kind), "texts": is_text(kind)}
        if not any(kinds[word] for word in what.split(" or ")):
            raise self.refuse(f"must hold {self.of}{what}, it holds {self.of}{kind}")

    def integers(self) -> Int[Array, " values"]:
        """Return integers without nulls, as int32; no node or arc has a number that does not fit."""
        self.expect("integers")
        self.no_null()
        values = to_numpy(self.values)
        if values.dtype == np.int32:
            return values
        wide = to_numpy(self.values.cast("int64"))
        wrong = wide != wide.astype(np.int32)
        if wrong.any():
            raise self.refuse(f"holds {wide[np.argmax(wrong)]}, beyond 32 bits", wrong)
        return wide.astype(np.int32)

    def codes(self, column: Column, known: bool) -> tuple[Vocabulary, Array]:
        """Return vocabulary and codes, -1 for null.

        With metadata (`known`) the column holds codes, otherwise the symbols, whose sorted vocabulary is made.
        """
        own, values = column.vocabulary, self.values
        if not known or own is None:
            if not len(values):
                return Vocabulary(column.name, ()), np.zeros(0, dtype=np.int32)
            self.expect("texts or integers")
            return Vocabulary.from_arrow(column.name, values)
        self.expect("integers")
        codes = to_numpy(values, -1)
        codes = codes.astype(np.int64) if codes.dtype.kind not in "iu" else codes
        wrong = (codes < 0) | (codes >= len(own))
        if values.null_count:
            wrong &= ~to_numpy(values.is_null())
        if wrong.any():
            came = values[int(np.argmax(wrong))].as_py()
            raise self.refuse(f"holds {came}, which is no code of its {len(own)} symbols", wrong)
        return own, codes

    def matrix(self) -> Float[Array, "rows columns"]:
        """Return numbers, or equally long lists of numbers, as single-precision rows."""
        import pyarrow.compute as compute

        self.no_null()
        flat, width = self, 1
        if is_list(self.values.type):
            widths = to_numpy(compute.list_value_length(self.values))
            width = int(widths[0]) if len(widths) else 0
            wrong = widths != width
            if wrong.any():
                lengths = f"lengths {width} and {widths[np.argmax(wrong)]}"
                raise self.refuse(f"must hold equally long lists, got {lengths}", wrong)
            inner = compute.list_flatten(self.values)
            flat = dataclasses.replace(self, values=inner, lengths=self.lengths * width)
        flat.expect("numbers")
        flat.no_null()
        numbers = to_numpy(flat.values)
        with np.errstate(over="ignore"):
            single = numbers.astype(np.float32)  # a copy: the table's own memory may be a file's
        wrong = ~np.isfinite(single)
        if wrong.any():
            came = numbers[np.argmax(wrong)]
            raise flat.refuse(f"holds {came}; attributes must be finite in single precision", wrong)
        return single.reshape(len(self.values), width)

    def target(self, column: Column, known: bool) -> tuple[Float[Array, " rows"], Vocabulary | None]:
        """Return a target as numbers with NaN for null, and its classes if it has any."""
        if column.vocabulary is not None if known else is_text(self.values.type):
            vocabulary, codes = self.codes(column, known)
            return np.where(codes < 0, np.nan, codes), vocabulary
        self.expect("numbers")
        numbers = np.array(to_numpy(self.values.cast("float64"), np.nan))
        wrong = np.isinf(numbers)
        if wrong.any():
            came = numbers[np.argmax(wrong)]
            raise self.refuse(f"holds {came}; a target must be finite, or null if missing", wrong)
        return numbers, None

    def texts(self) -> Array:
        """Return texts, or integers as texts, without nulls."""
        self.expect("texts or integers")
        self.no_null()
        return to_numpy(self.values.cast("string")).astype(np.dtypes.StringDType())

    def further(self) -> Array:
        """Return a column that merely travels along: texts or numbers of any kind."""
        from pyarrow import types

        kind = self.values.type
        number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if not (number or is_text(kind)):
            raise self.refuse(
                f"holds {kind}, which does not travel with a pack (texts and numbers do); name the columns to keep "
                "with columns="
            )
        self.no_null("fill it in, or name the columns to keep with columns=")
        return self.texts() if is_text(kind) else to_numpy(self.values)
