"""The Arrow form of a pack, one row per structure: its layout, and writing it as tables, files and folders of shards.

`Layout` says which field of a table holds what; it travels as JSON under the key ``hiddenfield`` of the schema's
metadata. A table without that key is laid out by the names of its fields alone.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from hiddenfield.data.columns import union
from hiddenfield.data.paths import atomic
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, MissingDependencyError, ReadError, checked_integer
from hiddenfield.registry import choose
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import pyarrow

KEY = "hiddenfield"
VERSION = 1

TOPOLOGY = ("id", "num_nodes", "source", "target", "reverse")
# What the fields of a feature's columns begin with, in the order in which a table has them.
PREFIXES = {
    "node_labels": "node_label_",
    "node_attributes": "node_attribute_",
    "arc_labels": "arc_label_",
    "arc_attributes": "arc_attribute_",
    "targets": "target_",
    "node_targets": "node_target_",
}
PARTS = (*PREFIXES, "columns")
ATTRIBUTES = ("node_attributes", "arc_attributes")  # the fields that hold all columns of these features

PARQUET = (".parquet",)
IPC = (".arrow", ".feather")
SUFFIXES = PARQUET + IPC

MANIFEST = "_manifest.json"  # other programs skip files whose name begins with an underscore
MANIFEST_VERSION = 1

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 23
"""Structures, and nodes or arcs, of one record batch or row group: what `scan` holds in memory at a time."""


# -- which field holds what ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column of a pack: its name, the table's field that holds it, and its vocabulary where it holds codes."""

    name: str
    field: str
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True)
class Layout:
    """Which fields of a table hold what: the columns of each of `PARTS` that the pack has, the features and the others.

    `known` says whether the layout comes from metadata; without, vocabularies are made from what the fields hold.
    `shard` is the number of the file within a folder of shards.
    """

    ids: bool
    parts: Mapping[str, tuple[Column, ...]]
    known: bool = True
    shard: int | None = None

    @property
    def features(self) -> dict[str, tuple[Column, ...]]:
        """The columns of the features alone."""
        return {part: columns for part, columns in self.parts.items() if part != "columns"}

    def to_json(self) -> bytes:
        """Return the value of the metadata's key."""
        parts = {part: self.parts.get(part) for part in PARTS}
        return msgspec.json.encode({"version": VERSION, "ids": self.ids, **parts, "shard": self.shard})

    @classmethod
    def of_pack(cls, pack: Structures, shard: int | None = None) -> Layout:
        """Return the layout in which a pack is written; every column has a field of its own, whatever it is called.

        Attributes alone share one field for all their columns, a list of vectors.
        """
        taken = {*TOPOLOGY, *ATTRIBUTES}

        def free(wanted: str) -> str:
            names = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
            taken.add(name := next(name for name in names if name not in taken))
            return name

        parts = {}
        for part in (part for part in PREFIXES if part in pack.features):
            columns = pack.features[part]
            parts[part] = tuple(
                Column(name, part if part in ATTRIBUTES else free(PREFIXES[part] + name), vocabulary)
                for name, vocabulary in zip(columns.names, columns.vocabularies, strict=True)
            )
        parts["columns"] = tuple(Column(name, free(name)) for name in pack.columns)
        return cls(pack.ids is not None, parts, shard=shard)

    @classmethod
    def of_names(cls, fields: Sequence[str]) -> Layout:
        """Lay out a table that came without metadata by the names of its fields.

        Examples
        --------
        >>> layout = Layout.of_names(["source", "target", "node_label_atom", "target_pce", "smiles"])
        >>> {part: columns[0].name for part, columns in layout.parts.items()}
        {'node_labels': 'atom', 'targets': 'pce', 'columns': 'smiles'}
        """
        found: dict[str, list[Column]] = {part: [] for part in PARTS}
        for name in fields:
            if name in ATTRIBUTES:
                found[name].append(Column("", name))
            elif name not in TOPOLOGY:
                part = next((part for part, prefix in PREFIXES.items() if name.startswith(prefix)), "columns")
                found[part].append(Column(name.removeprefix(PREFIXES.get(part, "")), name))
        return cls("id" in fields, {part: tuple(own) for part, own in found.items() if own}, known=False)

    @classmethod
    def of_table(
        cls, metadata: Mapping[bytes, bytes] | None, fields: Sequence[str], file: str | Path | None = None
    ) -> Layout:
        """Return the layout that a schema's metadata holds, or the one that follows from the fields' names.

        A version from the future and metadata that are not what `to_json` writes are refused.
        """
        if not metadata or KEY.encode() not in metadata:
            return cls.of_names(fields)
        try:
            described = json.loads(metadata[KEY.encode()])
            check_version(described["version"], VERSION, "the format", file)
            given = {part: () if described[part] is None else described[part] for part in PARTS}
            parts = msgspec.convert(given, dict[str, tuple[Column, ...]])
            told = described["ids"], described.get("shard")
            ids, shard = msgspec.convert(told, tuple[bool, int | None])
        except ReadError:
            raise
        except (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            cause = f"{type(error).__name__}: {error}"
            raise ReadError(
                f"its metadata {KEY!r} are damaged ({cause}); write it again", file=file
            ) from None
        spoken = {column.field for columns in parts.values() for column in columns}
        for missing in sorted((spoken | {"id"} if ids else spoken) - set(fields)):
            raise ReadError(
                f"the metadata name a column {missing!r} that is not there; write it again", file=file
            )
        parts["columns"] += tuple(Column(name, name) for name in fields if name not in {*spoken, *TOPOLOGY})
        if len({column.name for column in parts["columns"]}) < len(parts["columns"]):
            raise ReadError(f"its metadata {KEY!r} name a further column twice; write it again", file=file)
        there = {part: parts[part] for part in PARTS if part == "columns" or described[part] is not None}
        return cls("id" in fields, there, shard=shard)


def check_version(version: Any, known: int, what: str, file: str | Path | None) -> None:
    """Refuse a version from the future; one that is no version is an `InputError`."""
    if isinstance(version, int) and version > known:
        raise ReadError(
            f"written in version {version} of {what}, and this library reads up to {known}; upgrade it",
            file=file,
        )
    if version != known:
        raise InputError(f"the version must be an integer from 1, got {version!r}")


def united_words(layouts: Sequence[Layout]) -> dict[str, list[Vocabulary | None]]:
    """Return the vocabularies that the columns of several files have together, by feature, in the files' order.

    Nothing where the files have other columns: putting the packs end to end then says what differs.
    """

    def shape(layout: Layout) -> dict[str, Any]:
        return {
            part: [(c.name, c.vocabulary is None) for c in columns]
            for part, columns in layout.features.items()
        }

    if any(shape(layout) != shape(layouts[0]) for layout in layouts):
        return {}
    return {
        part: [union([layout.parts[part][k].vocabulary for layout in layouts]) for k in range(len(columns))]
        for part, columns in layouts[0].features.items()
        if any(column.vocabulary is not None for column in columns)
    }


# -- files and folders ---------------------------------------------------------------------------------------


def write(structures: Structures, path: str | Path, *, shard_size: int | None = None) -> None:
    """Write a pack to a Parquet or Arrow IPC file, or to a folder of Parquet shards.

    The file or folder appears under its name when it is complete; until then, and for ever if the process dies, the
    data are under a hidden name beside it. An existing file is replaced, an existing folder with anything in it is
    not. Missing parent folders are made.

    Parameters
    ----------
    structures
        What to write.
    path
        Ends in ``.parquet`` (compressed, for keeping and for other programs) or ``.arrow`` or ``.feather``
        (uncompressed, read back without parsing).
    shard_size
        Structures in a shard; `path` is then a folder.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0], [1], node_ptr=[0, 2, 3])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pack.parquet"
    >>> write(pack, path)
    >>> hf.read(path) == pack
    True
    """
    path = Path(path).expanduser()
    if shard_size is None:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(
                f"{path.name!r} must end in {', '.join(SUFFIXES)}; for a folder of shards give shard_size="
            )
        with _explained(path), atomic(path) as temporary, open(temporary, "xb") as sink:
            _write_batches(batches(structures), sink, parquet=path.suffix.lower() in PARQUET)
            _to_disk(sink)
        return
    size = checked_integer(shard_size, "shard_size", 1)
    if path.suffix.lower() in SUFFIXES:
        raise InputError(
            f"shards are written to a folder, and {path.name!r} is the name of a file; leave {path.suffix} out"
        )
    starts = range(0, max(len(structures), 1), size)
    write_shards((structures[start : start + size] for start in starts), path)


@dataclass(frozen=True)
class EncodedShard:
    """A shard as the bytes of its Parquet file: what a process that made it sends to the one that writes."""

    contents: bytes
    structures: int


def encode_shard(pack: Structures, number: int) -> EncodedShard:
    """Return shard `number` of a data set, compressed and ready for `write_shards`."""
    sink = io.BytesIO()
    _write_batches(batches(pack, number), sink, parquet=True)
    return EncodedShard(sink.getvalue(), len(pack))


def write_shards(packs: Iterable[Structures | EncodedShard], folder: str | Path) -> int:
    """Write packs, one after another, as the Parquet shards of one data set; return how many structures there are.

    Memory is bounded by the largest pack, so the set may be larger than memory. The shards are
    ``part-00000.parquet`` and so on; a manifest lists them with the structures in each, so that a shard that is
    missing, foreign or cut short is noticed when the folder is read. The folder appears when all is written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hiddenfield as hf
    >>> packs = (hf.data.from_edges([0], [1], node_ptr=[0, size]) for size in (2, 3, 4))
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "set"
    >>> write_shards(packs, folder)
    3
    >>> hf.read(folder).num_nodes.tolist()
    [2, 3, 4]
    """
    folder = Path(folder).expanduser()
    shards: list[dict[str, Any]] = []
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already and is not an empty folder; remove it or choose another name"
        )
    with atomic(folder) as temporary:
        with _explained(folder):
            temporary.mkdir()
        for number, pack in enumerate(packs):
            name = f"part-{number:05d}.parquet"
            shard = pack if isinstance(pack, EncodedShard) else encode_shard(pack, number)
            with _explained(folder), open(temporary / name, "xb") as sink:
                sink.write(shard.contents)
                _to_disk(sink)
            shards.append({"file": name, "structures": shard.structures})
        if not shards:
            raise InputError(
                "write_shards needs at least one pack, got none; an empty pack keeps the features' names"
            )
        manifest = {"hiddenfield": MANIFEST_VERSION, "shards": shards}
        with _explained(folder):
            (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return sum(shard["structures"] for shard in shards)


def _write_batches(parts: Iterator[pyarrow.RecordBatch], sink: Any, *, parquet: bool) -> None:
    from pyarrow import ipc, parquet as files

    first = next(parts)
    # zstd reads as fast as it compresses well; the checksums let a flipped bit be noticed, which zstd alone does not
    options = {"compression": "zstd", "write_page_checksum": True}
    opened = (
        files.ParquetWriter(sink, first.schema, **options) if parquet else ipc.new_file(sink, first.schema)
    )
    with opened as writer:
        for batch in itertools.chain([first], parts):
            writer.write_batch(batch, **({"row_group_size": max(batch.num_rows, 1)} if parquet else {}))


def _to_disk(sink: Any) -> None:
    sink.flush()
    os.fsync(sink.fileno())


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say which file or folder could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


# -- packs as tables ---------------------------------------------------------------------------------------


def to_table(structures: Structures, kind: Literal["arrow", "pandas"] = "arrow") -> Any:
    """Return a pack as a table with one row per structure; the inverse of `from_table`.

    Parameters
    ----------
    structures
        Any pack.
    kind
        ``"arrow"``: a pyarrow Table. ``"pandas"``: a DataFrame whose columns are backed by Arrow, so that nothing is
        converted; what the codes stand for is kept in ``frame.attrs["hiddenfield"]``, which selecting rows keeps.

    Returns
    -------
    pyarrow.Table or pandas.DataFrame
        Cost: one pass over the arrays, batch by batch; nothing loops over structures.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4], targets=[0.5, 1.5])
    >>> table = to_table(pack)
    >>> table.column_names
    ['num_nodes', 'source', 'target', 'reverse', 'target_target']
    >>> table["source"].to_pylist()
    [[1, 0, 2, 1], []]
    >>> frame = to_table(pack, "pandas")
    >>> frame["target_target"].mean(), hf.data.from_table(frame[frame["num_nodes"] > 1]) == pack[:1]
    (1.0, True)
    """
    import pyarrow

    convert = choose("kind of table", {"arrow": lambda table: table, "pandas": _to_pandas}, kind)
    parts = list(batches(structures))
    return convert(pyarrow.Table.from_batches(parts, schema=parts[0].schema))


def _to_pandas(table: Any) -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError.for_extra("pandas", "pandas", "a data frame") from None
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    frame.attrs[KEY] = table.schema.metadata[KEY.encode()].decode()
    return frame


def as_arrow(table: Any) -> Any:
    """Return a pyarrow Table of a data frame, or of whatever exports Arrow data."""
    import pyarrow

    if isinstance(table, pyarrow.Table):
        return table
    # A data frame can only come from pandas if pandas has been imported.
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and isinstance(table, pandas.DataFrame):
            converted = pyarrow.Table.from_pandas(table, preserve_index=False)
            described = table.attrs.get(KEY)
            metadata = {KEY: described} if isinstance(described, str) else None
            return converted.replace_schema_metadata(metadata)
        if isinstance(table, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([table])
        if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            return pyarrow.table(table)
    except (pyarrow.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"the table cannot be converted to Arrow: {error}") from None
    raise InputError(
        f"expected an Arrow table, a pandas DataFrame or another table that exports Arrow data, "
        f"got {type(table).__name__}"
    )


def batches(structures: Structures, shard: int | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the pack as record batches of bounded size; at least one, so that an empty pack keeps its schema."""
    import pyarrow

    pack = structures.to("cpu")
    layout = Layout.of_pack(pack, shard)
    node_ptr, arc_ptr = pack.node_ptr.numpy().astype(np.int64), pack.arc_ptr.numpy().astype(np.int64)
    start = 0
    while True:
        end = _batch_end(start, node_ptr, arc_ptr)
        try:
            fields = _fields(pack, layout, slice(start, end), node_ptr, arc_ptr)
            schema = pyarrow.schema(
                [(name, array.type) for name, array in fields.items()], metadata={KEY: layout.to_json()}
            )
            batch = pyarrow.RecordBatch.from_arrays(list(fields.values()), schema=schema)
        except (pyarrow.ArrowException, UnicodeEncodeError, TypeError) as error:
            raise InputError(f"the pack cannot be expressed in Arrow: {error}") from None
        yield batch
        start = end
        if start >= len(pack):
            return


def _batch_end(start: int, node_ptr: Array, arc_ptr: Array) -> int:
    """Return the end of the batch that begins at a structure: one structure at least, else within the limits."""
    count = len(node_ptr) - 1
    by_nodes = int(np.searchsorted(node_ptr, node_ptr[start] + BATCH_VALUES, side="right")) - 1
    by_arcs = int(np.searchsorted(arc_ptr, arc_ptr[start] + BATCH_VALUES, side="right")) - 1
    end = min(count, start + BATCH_ROWS, max(start + 1, min(by_nodes, by_arcs)))
    if max(node_ptr[end] - node_ptr[start], arc_ptr[end] - arc_ptr[start]) >= 2**31:
        raise InputError(
            f"structure {start} has 2**31 nodes or arcs or more, which Arrow's lists cannot hold"
        )
    return end


def _fields(
    pack: Structures, layout: Layout, rows: slice, node_ptr: Array, arc_ptr: Array
) -> dict[str, pyarrow.Array]:
    import pyarrow

    node_bounds, arc_bounds = node_ptr[rows.start : rows.stop + 1], arc_ptr[rows.start : rows.stop + 1]
    nodes, arcs = slice(node_bounds[0], node_bounds[-1]), slice(arc_bounds[0], arc_bounds[-1])
    sizes, num_arcs = np.diff(node_bounds), np.diff(arc_bounds)
    first_node, first_arc = np.repeat(node_bounds[:-1], num_arcs), np.repeat(arc_bounds[:-1], num_arcs)
    reverse = pack.reverse.numpy()[arcs]
    by_node, by_arc = (_array(bounds - bounds[0], np.int32) for bounds in (node_bounds, arc_bounds))
    lists = pyarrow.ListArray.from_arrays
    fields: dict[str, pyarrow.Array] = {}
    if pack.ids is not None:
        fields["id"] = _array(pack.ids[rows])
    fields["num_nodes"] = _array(sizes, np.int32)
    fields["source"] = lists(by_arc, _array(pack.source.numpy()[arcs] - first_node, np.int32))
    fields["target"] = lists(by_arc, _array(pack.target.numpy()[arcs] - first_node, np.int32))
    fields["reverse"] = lists(by_arc, _array(np.where(reverse < 0, -1, reverse - first_arc), np.int32))
    chosen = {"node": (nodes, by_node), "arc": (arcs, by_arc), "structure": (rows, None)}
    for part, columns in layout.features.items():
        where, offsets = chosen[FEATURES[part]]
        values = pack.features[part].values.numpy()[where]
        if part in ATTRIBUTES and columns:
            flat = _array(values.reshape(-1), np.float32)
            fields[part] = lists(offsets, pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1]))
            continue
        for column, own in zip(columns, values.T, strict=True):
            missing = np.isnan(own)
            plain = own if column.vocabulary is None else np.where(missing, 0, own).astype(np.int32)
            array = _array(plain, mask=missing if part.endswith("targets") else None)
            fields[column.field] = array if offsets is None else lists(offsets, array)
    for column in layout.parts["columns"]:
        fields[column.field] = _array(pack.columns[column.name][rows], what=f"column {column.name!r}")
    return fields


def _array(
    values: Array, dtype: Any = None, *, mask: Array | None = None, what: str = "ids"
) -> pyarrow.Array:
    """Return texts or numbers in Arrow, null where masked."""
    import pyarrow

    if values.dtype.kind != "T":
        native = values.dtype.newbyteorder("=") if dtype is None else dtype
        return pyarrow.array(np.ascontiguousarray(values, dtype=native), mask=mask)
    texts = pyarrow.array(values.tolist(), type=pyarrow.string())
    if texts.null_count:
        raise InputError(f"{what}: a text is missing; fill it in before writing")
    return texts
