"""File formats: each module of a package of readers registers its own, and adding one is adding such a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hiddenfield.data.paths import existing, inner_suffix
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError
from hiddenfield.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True)
class Format(Generic[T]):
    """How to recognise, read and perhaps write one file format.

    Parameters
    ----------
    name
        As in ``read(path, format=name)``.
    summary
        One line for tables of formats.
    recognises
        Whether a path (file or folder, which exists) is of this format, from its name and, where that is not
        enough, its first bytes. Must not raise on any file.
    read
        ``read(path, **options)``: the whole file. Keyword options are the format's own and checked by the signature.
    priority
        Formats of higher priority are asked first whether a file is theirs: the more particular ones.
    scan
        Like `read`, part by part, for sets that may be larger than memory.
    write
        ``write(content, path, **options)``, if it can be written.
    suffixes
        Endings of its files' names, in lower case, beneath any compression, if these alone say what is in them.
    """

    name: str
    summary: str
    recognises: Callable[[Path], bool]
    read: Callable[..., T]
    priority: int = 0
    scan: Callable[..., Iterator[T]] | None = None
    write: Callable[..., None] | None = None
    suffixes: tuple[str, ...] = ()

    @classmethod
    def of_suffixes(cls, name: str, summary: str, suffixes: tuple[str, ...], **how: Any) -> Format[T]:
        """Return a format that is recognised by the endings of its files' names."""
        return cls(name, summary, lambda path: inner_suffix(path) in suffixes, suffixes=suffixes, **how)


class Formats(Registry[Format[T]]):
    """The formats of one kind of content, by name."""

    def add(self, entry: Format[T]) -> Format[T]:
        """Register a format and return it."""
        self.register(entry.name, summary=entry.summary)(entry)
        return entry

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in the order in which formats are asked whether a file is theirs."""
        return iter(sorted(super().__iter__(), key=lambda name: -self[name].priority))

    def recognise(self, path: Path) -> Format[T] | None:
        """Return the format of a file or folder, or None if no format takes it for its own."""
        return next((entry for entry in self.values() if entry.recognises(path)), None)


FORMATS: Formats[Structures] = Formats("format", "hiddenfield.data.readers")
"""Every known format of structures by name, in the order in which they are tried."""


# -- read, scan, write: files in and out ---------------------------------------------------------------------


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
