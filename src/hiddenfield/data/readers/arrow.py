"""Arrow: packs as Parquet or Arrow IPC files, one row per structure, or folders of either."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from hiddenfield.data.arrow.decode import Source, decode, from_arrow
from hiddenfield.data.arrow.schema import Layout, parse_layout, united_words
from hiddenfield.data.arrow.write import MANIFEST, MANIFEST_VERSION, SUFFIXES, to_arrow, write, write_shards
from hiddenfield.data.build import concatenate
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import UNREADABLE, existing, first_bytes
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import ReadError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FORMAT", "from_arrow", "read", "scan", "to_arrow", "write", "write_shards"]

PARQUET_MAGIC, IPC_MAGIC = b"PAR1", b"ARROW1"


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
        table = _guarded(shard.file, lambda file: _open(file).read_all())
        packs.append(decode(Source(table, shard.file), shard.layout, columns))
    return concatenate(packs)


def scan(path: str | Path, *, columns: Sequence[str] | None = None) -> Iterator[Structures]:
    """Read pack by pack, one for each row group or record batch, so that a set may be larger than memory.

    All packs of a set that this library wrote have the same vocabularies, the union of those of its files.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 4], [1, 5], node_ptr=[0, 2, 3, 4, 6])
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "set"
    >>> write(pack, folder, shard_size=3)
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
    for number in range(max(opened.groups, 1)):
        # A file without a single group still has its schema: an empty pack.
        table = _guarded(
            shard.file, lambda _, n=number: opened.read(n) if opened.groups else opened.read_all()
        )
        yield decode(Source(table, shard.file, first), shard.layout, columns)
        first += table.num_rows


@dataclass(frozen=True)
class _File:
    """An opened Parquet or IPC file: its row groups or record batches, one by one or all together."""

    metadata: Mapping[bytes, bytes] | None
    names: list[str]
    rows: int
    groups: int
    read: Callable[[int], pyarrow.Table]
    read_all: Callable[[], pyarrow.Table]


def _open(file: Path) -> _File:
    import pyarrow
    from pyarrow import ipc, parquet

    with open(file, "rb") as raw:
        magic = raw.read(len(IPC_MAGIC))
    if magic.startswith(PARQUET_MAGIC):
        opened = parquet.ParquetFile(file, memory_map=True, page_checksum_verification=True)
        schema, rows, groups = opened.schema_arrow, opened.metadata.num_rows, opened.num_row_groups
        return _File(schema.metadata, schema.names, rows, groups, opened.read_row_group, opened.read)
    if magic == IPC_MAGIC:
        reader = ipc.open_file(pyarrow.memory_map(str(file)))
        groups = reader.num_record_batches
        rows = sum(reader.get_batch(number).num_rows for number in range(groups))

        def read(number: int) -> pyarrow.Table:
            return pyarrow.Table.from_batches([reader.get_batch(number)])

        return _File(reader.schema.metadata, reader.schema.names, rows, groups, read, reader.read_all)
    raise ReadError(
        "is neither a Parquet nor an Arrow IPC file; is it complete? Fetch or write it anew", file=file
    )


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
            f"cannot be read: {reason[:300]}; is it complete? Fetch or write it anew", file=file
        ) from None


def _shards(path: Path) -> list[Shard]:
    """Return the files of a set with layouts that agree; a set whose manifest and files differ is refused."""
    if not path.is_dir():
        return [_describe(path)]
    names, manifest = [file.name for file in _data_files(path)], path / MANIFEST
    if manifest.is_file():
        listed = _read_manifest(manifest)
        for name in sorted(set(names) - set(listed)):
            raise ReadError(
                f"is no shard of this set, whose {MANIFEST} does not list it; move it away", file=path / name
            )
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
    opened = _guarded(file, _open)
    return Shard(file, parse_layout(opened.metadata, opened.names, file), opened.rows)


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
        version = described["hiddenfield"]
        if isinstance(version, int) and version > MANIFEST_VERSION:
            raise ReadError(
                f"is of version {version}, and this library reads up to {MANIFEST_VERSION}; upgrade it",
                file=manifest,
            )
        shards = msgspec.convert(described["shards"], list[_Listed])
    except (OSError, LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError("is damaged; fetch the set again", file=manifest) from None
    listed = {shard.file: shard.structures for shard in shards if PurePath(shard.file).name == shard.file}
    if version != MANIFEST_VERSION or not len(listed) == len(shards) > 0:
        raise ReadError("is damaged; fetch the set again", file=manifest)
    return listed


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
