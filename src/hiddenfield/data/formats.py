"""File formats: each module of a package of readers registers its own, and adding one is adding such a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hiddenfield.data.paths import existing, first_bytes, inner_suffix, read_bytes
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


# -- read, scan: files in -------------------------------------------------------------------------------------


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
    chosen = _chosen(path, format, options)
    return chosen.read(path, **checked_options(chosen.read, options))


def scan(path: str | Path, format: str | None = None, **options: Any) -> Iterator[Structures]:
    """Read pack by pack: shards of an Arrow or Parquet set, a table of molecules by 10,000, anything else as one pack.

    Memory is bounded by the largest part, so a set may be larger than memory; of a table the text is kept.
    """
    path = existing(path)
    chosen = _chosen(path, format, options)
    options = checked_options(chosen.read, options)
    return iter([chosen.read(path, **options)]) if chosen.scan is None else chosen.scan(path, **options)


def _chosen(path: Path, format: str | None, options: Mapping[str, Any]) -> Format[Structures]:
    """Return the format that is named, or else that of the file; refuse options that it does not have."""
    chosen = FORMATS.recognise(path) if format is None else FORMATS.choose(format)
    if chosen is None:
        if path.is_file() and not first_bytes(path).strip() and not read_bytes(path).strip():
            raise ReadError("the file is empty; is it complete?", file=path)
        known = ", ".join(FORMATS)
        raise ReadError(f"not recognised as any known format; name one with format=: {known}", file=path)
    accepted = list(inspect.signature(chosen.read).parameters)[1:]
    for name in options:
        if name not in accepted:
            choices = ", ".join(accepted) or "none"
            raise InputError(f"format {chosen.name!r} has no option {name!r}; its options are: {choices}")
    return chosen


# -- values of options --------------------------------------------------------------------------------------


def checked_options(read: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a reader as its signature wants them: a single text is a list of one, a number is text.

    A command line and a file of settings know numbers, texts and lists, and not which of them an option takes. What
    cannot be meant is an `InputError`.

    Examples
    --------
    >>> from collections.abc import Sequence
    >>> def read(path, *, extra: Sequence[str] = (), num_workers: int | None = None): ...
    >>> checked_options(read, {"extra": "charge"})
    {'extra': ['charge']}
    >>> checked_options(read, {"num_workers": "x"})
    Traceback (most recent call last):
    hiddenfield.errors.InputError: the option num_workers must be a whole number or none, got 'x'
    """
    kinds = get_type_hints(read)
    return {name: _checked(name, value, kinds.get(name, Any)) for name, value in options.items()}


def _checked(name: str, value: Any, kind: Any) -> Any:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for each in kinds:
        found = _as_kind(value, each, len(kinds) > 1)
        if found is not None or (value is None and each in (Any, NoneType)):
            return found
    words = " or ".join(_in_words(each) for each in kinds)
    raise InputError(f"the option {name} must be {words}, got {value!r:.100}")


def _as_kind(value: Any, kind: Any, one_of_several: bool) -> Any:
    """Return a value as one of a kind; None where it is none."""
    if kind is Any:
        return value
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if get_origin(kind) is Sequence:
        listed = list(value) if isinstance(value, (list, tuple, range, set, frozenset)) else [value]
        texts = [_as_kind(entry, get_args(kind)[0], False) for entry in listed]
        return None if None in texts else texts
    if kind is str and not one_of_several and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind is int and isinstance(value, bool):
        return None
    return value if isinstance(kind, type) and isinstance(value, kind) else None


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    names = {bool: "true or false", int: "a whole number", str: "a text", Path: "a path", NoneType: "none"}
    return "a list of texts" if get_origin(kind) is Sequence else names.get(kind, str(kind))
