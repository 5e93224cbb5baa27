"""Writing packs: as Arrow tables, as files, and as folders of shards that appear whole or not at all."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow.schema import ATTRIBUTES, KEY, Column, Layout, layout_of_pack
from hiddenfield.data.paths import atomic
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.errors import InputError, checked_integer
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import pyarrow

PARQUET = (".parquet",)
IPC = (".arrow", ".feather")
SUFFIXES = PARQUET + IPC

MANIFEST = "_manifest.json"  # other programs skip files whose name begins with an underscore
MANIFEST_VERSION = 1

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 23
"""Structures, and nodes or arcs, of one record batch or row group: what `scan` holds in memory at a time."""


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


def to_arrow(structures: Structures) -> pyarrow.Table:
    """Return a pack as an Arrow table, one row per structure; `from_arrow` gives the same pack back.

    Cost: one pass over the arrays, batch by batch; nothing loops over structures.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4], node_labels=["C", "C", "O", "N"])
    >>> table = to_arrow(pack)
    >>> table.column_names
    ['num_nodes', 'source', 'target', 'reverse', 'node_label_label']
    >>> table["source"].to_pylist()
    [[1, 0, 2, 1], []]
    """
    import pyarrow

    parts = list(batches(structures))
    return pyarrow.Table.from_batches(parts, schema=parts[0].schema)


def batches(structures: Structures, shard: int | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the pack as record batches of bounded size; at least one, so that an empty pack keeps its schema."""
    import pyarrow

    pack = structures.to("cpu")
    layout = layout_of_pack(pack, shard)
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
    by_node = pyarrow.array((node_bounds - node_bounds[0]).astype(np.int32))
    by_arc = pyarrow.array((arc_bounds - arc_bounds[0]).astype(np.int32))

    lists = pyarrow.ListArray.from_arrays
    fields: dict[str, pyarrow.Array] = {}
    if pack.ids is not None:
        fields["id"] = _plain(pack.ids[rows], "ids")
    fields["num_nodes"] = pyarrow.array(sizes.astype(np.int32))
    fields["source"] = lists(by_arc, _int32(pack.source.numpy()[arcs] - first_node))
    fields["target"] = lists(by_arc, _int32(pack.target.numpy()[arcs] - first_node))
    fields["reverse"] = lists(by_arc, _int32(np.where(reverse < 0, -1, reverse - first_arc)))
    chosen = {"node": (nodes, by_node), "arc": (arcs, by_arc), "structure": (rows, None)}
    for part, columns in layout.features.items():
        if not columns:
            continue
        where, offsets = chosen[FEATURES[part]]
        values = pack.features[part].values.numpy()[where]
        if part in ATTRIBUTES:
            flat = pyarrow.array(np.ascontiguousarray(values, dtype=np.float32).reshape(-1))
            fields[part] = lists(offsets, pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1]))
            continue
        for k, column in enumerate(columns):
            array = _int32(values[:, k]) if part.endswith("labels") else _target(values[:, k], column)
            fields[column.field] = array if offsets is None else lists(offsets, array)
    for column in layout.columns:
        fields[column.field] = _plain(pack.columns[column.name][rows], f"column {column.name!r}")
    return fields


def _int32(values: Array) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(np.ascontiguousarray(values, dtype=np.int32))


def _target(values: Array, column: Column) -> pyarrow.Array:
    """Return a target with null where it is missing: numbers as doubles, classes as codes."""
    import pyarrow

    missing = np.isnan(values)
    if column.vocabulary is None:
        return pyarrow.array(np.ascontiguousarray(values), mask=missing)
    return pyarrow.array(np.where(missing, 0, values).astype(np.int32), mask=missing)


def _plain(values: Array, what: str) -> pyarrow.Array:
    """Return texts or numbers as they are."""
    import pyarrow

    if values.dtype.kind == "T":
        texts = pyarrow.array(values.tolist(), type=pyarrow.string())
        if texts.null_count:
            raise InputError(f"{what}: a text is missing; fill it in before writing")
        return texts
    return pyarrow.array(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")))
