"""Arrow: packs from tables, from Parquet and Arrow IPC files, one row per structure, and from folders of these."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hiddenfield.data.arrow_arrays import first_null, is_list, is_text, plain, to_numpy
from hiddenfield.data.arrow_tables import (
    ATTRIBUTES,
    MANIFEST,
    MANIFEST_VERSION,
    SUFFIXES,
    Column,
    Layout,
    as_arrow,
    check_version,
    united_words,
)
from hiddenfield.data.build import concatenate, from_arcs
from hiddenfield.data.columns import coded, numbered
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import UNREADABLE, existing, first_bytes
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    import pyarrow

PARQUET_MAGIC, IPC_MAGIC = b"PAR1", b"ARROW1"


def from_table(table: Any, *, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from a table with one row per structure.

    Parameters
    ----------
    table
        A pyarrow Table or RecordBatch, a pandas DataFrame, or anything else that exports Arrow data (polars, DuckDB
        results), with the list columns ``source`` and ``target``: node numbers within each structure, from 0. All else
        is optional: ``num_nodes`` (otherwise as many as the node columns have entries, or as the arcs need), ``id``,
        ``reverse``, ``node_label_<name>``, ``arc_label_<name>`` (lists of texts or integers), ``node_attributes``
        (lists of lists of numbers) or ``node_attribute_<name>`` (lists of numbers), the same for arcs,
        ``target_<name>`` and ``node_target_<name>`` (numbers or texts; null is missing). Any other column of numbers or
        texts travels along.
    columns
        The other columns to keep; all of them by default.

    Returns
    -------
    Structures
        Checked throughout. A table that `to_table` made comes back exactly; where it lost its metadata on the
        way, codes are taken for the symbols.

    Raises
    ------
    ReadError
        Naming the row, counted from 0, and the column.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table(
    ...     {"source": [[0, 1], []], "target": [[1, 0], []], "node_label_atom": [["C", "O"], ["N"]]}
    ... )
    >>> from_table(table)
    Structures(2 structures, 3 nodes, 2 arcs; node labels: atom (3))
    """
    table = as_arrow(table)
    return decode(Source(table), Layout.of_table(table.schema.metadata, table.column_names), columns)


# -- files and folders -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """One file: how its rows become a pack, and how many there are."""

    file: Path
    layout: Layout
    rows: int


def read(path: str | Path, *, columns: Sequence[str] | None = None) -> Structures:
    """Read a pack from a Parquet or Arrow IPC file, or from a folder of them.

    An IPC file is mapped into memory, so that reading is one pass of checking and of numbering the nodes. Files of a
    folder are put end to end in the order of the manifest, or of their names where there is none; vocabularies that
    differ are united.

    Parameters
    ----------
    path
        ``.parquet``, ``.arrow`` or ``.feather``, whoever wrote it, or a folder of such files.
    columns
        The further columns to keep; all of them by default.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        Naming the file and the row, counted from 0, or the shard that is missing.
    """
    packs = []
    for shard in _shards(existing(path)):
        table = _guarded(shard.file, _read_whole)
        packs.append(decode(Source(table, shard.file), shard.layout, columns))
    return concatenate(packs)


def _read_whole(file: Path) -> pyarrow.Table:
    import pyarrow

    return pyarrow.concat_tables([part() for part in _open(file).parts])


def scan(path: str | Path, *, columns: Sequence[str] | None = None) -> Iterator[Structures]:
    """Read pack by pack, one for each row group or record batch, so that a set may be larger than memory.

    All packs of a set that this library wrote have the same vocabularies, the union of those of its files.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 4], [1, 5], node_ptr=[0, 2, 3, 4, 6])
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "set"
    >>> hf.write(pack, folder, shard_size=3)
    >>> [len(part) for part in scan(folder)]
    [3, 1]
    """
    shards = _shards(existing(path))
    words = united_words([shard.layout for shard in shards])
    return (_recoded(pack, words) for shard in shards for pack in _scan_file(shard, columns))


def _recoded(pack: Structures, words: Mapping[str, Sequence[Vocabulary | None]]) -> Structures:
    """Return the pack in the vocabularies of its whole set; a column that came without any keeps its own."""
    features = dict(pack.features)
    for name, known in words.items():
        own = features[name].vocabularies
        features[name] = features[name].recoded(
            [b if a is None else a for a, b in zip(known, own, strict=True)]
        )
    return pack.replace(features=features)


def _scan_file(shard: Shard, columns: Sequence[str] | None) -> Iterator[Structures]:
    opened = _guarded(shard.file, _open)
    first = 0
    for part in opened.parts:
        table = _guarded(shard.file, lambda _, part=part: part())
        yield decode(Source(table, shard.file, first), shard.layout, columns)
        first += table.num_rows


@dataclass(frozen=True)
class _File:
    """An opened Parquet or IPC file: what gives its row groups or record batches, one by one."""

    schema: pyarrow.Schema
    rows: int
    parts: Sequence[Callable[[], pyarrow.Table]]


def _open(file: Path) -> _File:
    import pyarrow
    from pyarrow import ipc, parquet

    with open(file, "rb") as raw:
        magic = raw.read(len(IPC_MAGIC))
    if magic.startswith(PARQUET_MAGIC):
        opened = parquet.ParquetFile(file, memory_map=True, page_checksum_verification=True)
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
        parts = [partial(opened.read_row_group, number) for number in range(opened.num_row_groups)]
    elif magic == IPC_MAGIC:
        reader = ipc.open_file(pyarrow.memory_map(str(file)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        schema, rows = reader.schema, sum(batch.num_rows for batch in batches)
        parts = [partial(pyarrow.Table.from_batches, [batch]) for batch in batches]
    else:
        raise ReadError(
            "is neither a Parquet nor an Arrow IPC file; is it complete? fetch or write it again", file=file
        )
    # A file without a single group still has its schema: an empty pack.
    return _File(schema, rows, parts or [schema.empty_table])


def _guarded(file: Path, action: Any) -> Any:
    """Do something with a file; whatever pyarrow raises on a damaged one becomes one error that names it."""
    import pyarrow

    try:
        return action(file)
    except ReadError:
        raise
    except (pyarrow.ArrowException, *UNREADABLE, MemoryError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ReadError(
            f"cannot be read: {reason[:300]}; is it complete? fetch or write it again", file=file
        ) from None


def _shards(path: Path) -> list[Shard]:
    """Return the files of a set with layouts that agree; a set whose manifest and files differ is refused."""
    if not path.is_dir():
        return [_describe(path)]
    names, manifest = [file.name for file in _data_files(path)], path / MANIFEST
    if manifest.is_file():
        listed = _read_manifest(manifest)
        for name in sorted(set(names) - set(listed)):
            raise ReadError(f"is not listed in {MANIFEST}; move it out of the folder", file=path / name)
        return [_expect(path / name, rows) for name, rows in listed.items()]
    if not names:
        raise ReadError(f"holds no file that ends in {', '.join(SUFFIXES)}", file=path)
    shards = [_describe(path / name) for name in names]
    if any(shard.layout.shard is not None for shard in shards):
        raise ReadError(
            f"holds shards but no {MANIFEST}: it was not copied completely; fetch it again", file=path
        )
    return shards


def _describe(file: Path) -> Shard:
    opened, names = _guarded(file, lambda file: ((opened := _open(file)), opened.schema.names))
    return Shard(file, Layout.of_table(opened.schema.metadata, names, file), opened.rows)


def _expect(file: Path, rows: int) -> Shard:
    if not file.is_file():
        raise ReadError(f"this shard, which {MANIFEST} lists, is missing; fetch it again", file=file)
    shard = _describe(file)
    if shard.rows != rows:
        raise ReadError(f"has {shard.rows} rows where {MANIFEST} says {rows}; fetch it again", file=file)
    return shard


@dataclass(frozen=True)
class _Listed:
    file: str
    structures: int


def _read_manifest(manifest: Path) -> dict[str, int]:
    """Return the file names of the shards, with the rows that each has."""
    try:
        described = json.loads(manifest.read_text(encoding="utf-8"))
        check_version(described["hiddenfield"], MANIFEST_VERSION, "such a list", manifest)
        shards = msgspec.convert(described["shards"], list[_Listed])
        listed = {shard.file: shard.structures for shard in shards if PurePath(shard.file).name == shard.file}
        if len(listed) == len(shards) > 0:
            return listed
    except ReadError:
        raise
    except (OSError, LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        pass
    raise ReadError("is damaged; fetch the set again", file=manifest)


def _data_files(folder: Path) -> list[Path]:
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in SUFFIXES and not entry.name.startswith((".", "_")) and entry.is_file()
    )


def _recognises(path: Path) -> bool:
    try:
        if path.is_dir():
            return (path / MANIFEST).is_file() or bool(_data_files(path))
        magic = first_bytes(path, len(IPC_MAGIC))
        return path.suffix.lower() in SUFFIXES or magic.startswith((PARQUET_MAGIC, IPC_MAGIC))
    except OSError:
        return False


SUMMARY = "Parquet and Arrow IPC files, one row per structure, and folders of them"
FORMAT = FORMATS.add(Format("arrow", SUMMARY, _recognises, read, scan=scan, priority=90))


# -- from a table to a pack: whoever made the table, what comes out has been checked throughout ---------------


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
    options: dict[str, Any] = {}
    for feature, columns in layout.features.items():
        unit = FEATURES[feature]
        options |= _feature(feature, columns, units[unit], layout.known, rows[unit])
    if "reverse" in source.table.column_names:
        field = source.lists("reverse")
        field.check_lengths(counts, "column 'source'")
        local = field.integers()
        options["reverse"] = np.where(local == -1, -1, local + np.repeat(arc_ptr[:-1], counts))
    return from_arcs(
        start,
        end,
        node_ptr=node_ptr,
        arc_ptr=arc_ptr,
        ids=source.field("id").texts() if layout.ids else None,
        columns={
            column.name: source.field(column.field).further() for column in layout.parts.get("columns", ())
        },
        **options,
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
    further = layout.parts.get("columns", ())
    unknown = set(columns) - {column.name for column in further}
    if unknown:
        there = ", ".join(column.name for column in further) or "none"
        raise InputError(f"there is no further column {min(unknown)!r}; there are: {there}")
    kept = tuple(column for column in further if column.name in columns)
    return dataclasses.replace(layout, parts={**layout.parts, "columns": kept})


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


def _feature(
    feature: str, columns: Sequence[Column], fields: Mapping[str, Field], known: bool, rows: int
) -> dict[str, Any]:
    """Return one feature as `from_arcs` takes and checks it; without metadata (not `known`) vocabularies are made."""
    if feature in ATTRIBUTES:
        names, blocks = list[str](), [np.zeros((rows, 0))]
        for field in dict.fromkeys(column.field for column in columns):
            block = fields[field].matrix()
            given = [column.name for column in columns if column.field == field]
            given = given if known or field not in ATTRIBUTES else list(numbered("attribute", block.shape[1]))
            blocks.append(block if rows else np.zeros((0, len(given))))
            names += given
        matrix = blocks[1] if len(blocks) == 2 else np.concatenate(blocks, axis=1)
        return {feature: matrix, f"{feature.removesuffix('s')}_names": names}
    if feature.endswith("labels"):
        found, what = [fields[c.field].labels(c, known) for c in columns], feature.removesuffix("_labels")
    else:
        found, what = [fields[c.field].target(c, known) for c in columns], feature.removesuffix("s")
    matrix = np.stack([own for own, _ in found], axis=1) if found else np.zeros((rows, 0), np.int32)
    options: dict[str, Any] = {feature: matrix, f"{what}_vocabularies": [words for _, words in found]}
    if feature.endswith("targets"):
        options[f"{what}_names"] = [column.name for column in columns]
    return options


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

    def labels(self, column: Column, known: bool) -> tuple[Array, Vocabulary | None]:
        """Return codes and their vocabulary: those that the metadata tell, or made of the symbols."""
        self.no_null()
        if known and column.vocabulary is not None:
            return self.integers(), column.vocabulary
        if not len(self.values):
            return np.zeros(0, dtype=np.int32), Vocabulary(column.name, ())
        self.expect("texts or integers")
        return Vocabulary.from_arrow(column.name, self.values)[::-1]

    def target(self, column: Column, known: bool) -> tuple[Array, Vocabulary | None]:
        """Return a target as numbers or codes with NaN for null, and its classes if it has any."""
        if known and column.vocabulary is not None:
            self.expect("integers")
        else:
            self.expect("numbers" if known else "texts or numbers")
        numbers, words = coded(self.values, column.name)
        return numbers, column.vocabulary if known else words

    def matrix(self) -> Array:
        """Return numbers, or equally long lists of numbers, as rows."""
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
        return to_numpy(flat.values).reshape(len(self.values), width)

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
                f"holds {kind}, which cannot be a further column (texts and numbers can); name the columns to keep "
                "with columns="
            )
        self.no_null("fill it in, or name the columns to keep with columns=")
        return self.texts() if is_text(kind) else to_numpy(self.values)
