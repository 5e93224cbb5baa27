"""read, scan, write: files in and out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
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
    chosen = FORMATS.recognise(path) if format is None else FORMATS.choose(format)
    if chosen is None:
        raise ReadError(
            f"not recognised as any known format; name one with format=: {', '.join(FORMATS)}",
            file=path,
        )
    _check_options(chosen, options)
    return chosen.read(path, **options)


def scan(path: str | Path, **options: Any) -> Iterator[Structures]:
    """Read pack by pack: every shard or row group of an Arrow or Parquet set in turn, anything else as one pack.

    Memory is bounded by the largest shard, so a set may be larger than memory.
    """
    from hiddenfield.data.readers import arrow

    path = existing(path)
    if options.get("format") == arrow.FORMAT.name or (
        "format" not in options and arrow.FORMAT.recognises(path)
    ):
        options.pop("format", None)
        _check_options(arrow.FORMAT, options)
        return arrow.scan(path, **options)
    return iter([read(path, **options)])


def write(structures: Structures, path: str | Path, **options: Any) -> None:
    """Write a pack to ``.parquet`` or ``.arrow``, atomically: the file is there whole, or not at all."""
    from hiddenfield.data.readers import arrow

    arrow.write(structures, Path(path), **options)


def _check_options(chosen: Format[Structures], options: dict[str, Any]) -> None:
    accepted = inspect.signature(chosen.read).parameters
    for name in options:
        if name not in accepted:
            choices = ", ".join(list(accepted)[1:]) or "none"
            raise InputError(f"format {chosen.name!r} has no option {name!r}; its options are: {choices}")
