"""File formats: each module of a package of readers registers its own, and adding one is adding such a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hiddenfield.data.paths import inner_suffix
from hiddenfield.data.structures import Structures
from hiddenfield.registry import Registry

__all__ = ["FORMATS", "Format", "Formats"]

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
