"""read, scan, write: files in and out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import existing
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError

__all__ = ["read", "scan", "write"]


def read(path: str | Path, format: str | None = None, **options: Any) -> Structures:
    r"""Read structures from a file or folder.

    Parameters
    ----------
    path
        A file, possibly .gz or .xz, or a folder (of the TU text files, or of Parquet shards).
    format
        The name of a format; by default it is recognised from the file.
    options
        The format's own, for example ``structure="smiles", target="pce"`` for a table; see the page of readers.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        If the file is malformed, naming file and line.

    Examples
    --------
    >>> import hiddenfield as hf, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "proteins.fasta"
    >>> _ = path.write_text(">first\nMKV\n>second\nMA\n")
    >>> hf.read(path)
    Structures(2 structures, 5 nodes, 6 arcs; node labels: symbol (4))
    """
    path = existing(path)
    return _chosen(path, format, options).read(path, **options)


def scan(path: str | Path, format: str | None = None, **options: Any) -> Iterator[Structures]:
    """Read pack by pack: every shard or row group of an Arrow or Parquet set in turn, anything else as one pack.

    Memory is bounded by the largest shard, so a set may be larger than memory.
    """
    path = existing(path)
    chosen = _chosen(path, format, options)
    return iter([chosen.read(path, **options)]) if chosen.scan is None else chosen.scan(path, **options)


def write(structures: Structures, path: str | Path, **options: Any) -> None:
    """Write a pack to ``.parquet`` or ``.arrow``, atomically: the file is there whole, or not at all."""
    from hiddenfield.data.readers import arrow

    arrow.write(structures, Path(path), **options)


def _chosen(path: Path, format: str | None, options: Mapping[str, Any]) -> Format[Structures]:
    """Return the format that is named, or else that of the file; refuse options that it does not have."""
    chosen = FORMATS.recognise(path) if format is None else FORMATS.choose(format)
    if chosen is None:
        known = ", ".join(FORMATS)
        raise ReadError(f"not recognised as any known format; name one with format=: {known}", file=path)
    accepted = list(inspect.signature(chosen.read).parameters)[1:]
    for name in options:
        if name not in accepted:
            choices = ", ".join(accepted) or "none"
            raise InputError(f"format {chosen.name!r} has no option {name!r}; its options are: {choices}")
    return chosen
