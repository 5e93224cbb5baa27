"""Packs to files and folders of shards: what stands under the final name is whole, whenever the process dies."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow.encode import batches
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "MANIFEST",
    "MANIFEST_VERSION",
    "SUFFIXES",
    "EncodedShard",
    "encode_shard",
    "write",
    "write_shards",
]

PARQUET = (".parquet",)
IPC = (".arrow", ".feather")
SUFFIXES = PARQUET + IPC

MANIFEST = "_manifest.json"  # other programs skip files whose name begins with an underscore
MANIFEST_VERSION = 1


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
        _suffix(path)
        _write_file(structures, path)
        return
    if isinstance(shard_size, bool) or not isinstance(shard_size, (int, np.integer)) or shard_size < 1:
        raise InputError(f"shard_size must be an integer of at least 1, got {shard_size!r}")
    if path.suffix.lower() in SUFFIXES:
        raise InputError(
            f"shards are written to a folder, and {path.name!r} is the name of a file; leave {path.suffix} out"
        )
    starts = range(0, max(len(structures), 1), int(shard_size))
    write_shards((structures[start : start + int(shard_size)] for start in starts), path)


@dataclass(frozen=True)
class EncodedShard:
    """A shard as the bytes of its Parquet file: what a process that made it sends to the one that writes."""

    contents: bytes
    structures: int


def encode_shard(pack: Structures, number: int) -> EncodedShard:
    """Return shard `number` of a data set, compressed and ready for `write_shards`."""
    sink = io.BytesIO()
    _write_parquet(pack, sink, number)
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
    with _atomic_folder(folder) as temporary:
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


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path.name!r} must end in {', '.join(SUFFIXES)}; for a folder of shards give shard_size="
        )
    return suffix


def _write_file(structures: Structures, path: Path) -> None:
    with _atomic_file(path) as sink:
        if _suffix(path) in PARQUET:
            _write_parquet(structures, sink)
        else:
            _write_ipc(structures, sink)


def _write_parquet(structures: Structures, sink: Any, shard: int | None = None) -> None:
    from pyarrow import parquet

    parts = batches(structures, shard)
    first = next(parts)
    # zstd reads as fast as it compresses well; the checksums let a flipped bit be noticed, which zstd alone does not
    with parquet.ParquetWriter(sink, first.schema, compression="zstd", write_page_checksum=True) as writer:
        for batch in _chained(first, parts):
            writer.write_batch(batch, row_group_size=max(batch.num_rows, 1))


def _write_ipc(structures: Structures, sink: Any) -> None:
    from pyarrow import ipc

    parts = batches(structures)
    first = next(parts)
    with ipc.new_file(sink, first.schema) as writer:
        for batch in _chained(first, parts):
            writer.write_batch(batch)


def _chained(
    first: pyarrow.RecordBatch, rest: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    yield first
    yield from rest


def _hidden_beside(path: Path) -> Path:
    """Return a new hidden name in the same folder, which is made if need be: only there is renaming atomic."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {path.parent} cannot be made: {error.strerror or error}") from None
    return path.parent / f".{path.name}.{secrets.token_hex(6)}.partial"


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


@contextlib.contextmanager
def _atomic_file(path: Path) -> Iterator[Any]:
    """Open a hidden file that takes the final name when the block ends well and disappears when it does not."""
    temporary = _hidden_beside(path)
    with _explained(path):
        try:
            with open(temporary, "xb") as sink:
                yield sink
                _to_disk(sink)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _atomic_folder(folder: Path) -> Iterator[Path]:
    """Make a hidden folder that takes the final name when the block ends well and disappears when it does not."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already and is not an empty folder; remove it or choose another name"
        )
    temporary = _hidden_beside(folder)
    try:
        with _explained(folder):
            temporary.mkdir()
        yield temporary
        with _explained(folder):
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
