"""Which files a TU data set consists of, and their bytes, from a folder or out of a zip archive."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hiddenfield.data.files import existing, read_bytes
from hiddenfield.errors import InputError, ReadError

__all__ = ["ZIP_ERRORS", "TextFile", "find_set", "holds_set", "zip_members"]

PARTS = (
    "A",
    "graph_indicator",
    "graph_labels",
    "graph_attributes",
    "node_labels",
    "node_attributes",
    "edge_labels",
    "edge_attributes",
)
NEEDED = ("A", "graph_indicator")

# Everything that the standard library raises on damaged, encrypted or unknown archives.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)

LARGEST_MEMBER = 16 << 30
"""Bytes of one unpacked member beyond which an archive is taken for a mistake or an attack."""


@dataclass(frozen=True)
class TextFile:
    """One text file of a data set: its name for messages, and how to get its bytes."""

    label: str
    read: Callable[[], bytes]


def holds_set(path: Path) -> bool:
    """Say whether a folder or zip archive looks like a TU data set; a damaged archive does, to be refused later."""
    try:
        if path.is_dir():
            names = [entry.name for entry in path.iterdir()]
        elif path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        else:
            return False
    except ZIP_ERRORS:
        return path.suffix.lower() == ".zip" and path.is_file()
    return any(name.endswith(tuple(f"_{part}.txt" for part in NEEDED)) for name in names)


def find_set(path: Path, name: str | None = None) -> dict[str, TextFile]:
    """Return the files of the one data set, or of the one called `name`, by what follows that name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for part in ("A", "graph_indicator", "graph_labels"):
    ...     _ = (folder / f"X_{part}.txt").write_text("")
    >>> sorted(find_set(folder))
    ['A', 'graph_indicator', 'graph_labels']
    """
    path = existing(path)
    members = _folder_members(path) if path.is_dir() else zip_members(path)
    prefix = _choose_prefix(path, list(members), name)
    files = {part: members[f"{prefix}_{part}.txt"] for part in PARTS if f"{prefix}_{part}.txt" in members}
    for part in NEEDED:
        if part not in files:
            raise ReadError(f"the data set has no {prefix}_{part}.txt, which it needs", file=path)
    return files


def _folder_members(folder: Path) -> dict[str, TextFile]:
    def reader(file: Path) -> Callable[[], bytes]:
        return lambda: read_bytes(file)

    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}", file=folder) from None
    return {
        entry.name: TextFile(str(entry), reader(entry)) for entry in entries if entry.name.endswith(".txt")
    }


def zip_members(path: Path) -> dict[str, TextFile]:
    """Return the texts of an archive by their names in it."""

    def reader(name: str, size: int) -> Callable[[], bytes]:
        return lambda: _unpack(path, name, size)

    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(".txt")]
    except ZIP_ERRORS as error:
        raise ReadError(
            f"cannot be opened as a zip archive ({error}); is it complete? Fetch it again", file=path
        ) from None
    members: dict[str, TextFile] = {}
    for entry in entries:
        if entry.filename in members:
            raise ReadError(f"the archive holds {entry.filename!r} twice; keep one", file=path)
        members[entry.filename] = TextFile(
            f"{path}!{entry.filename}", reader(entry.filename, entry.file_size)
        )
    return members


def _unpack(path: Path, name: str, size: int) -> bytes:
    label = f"{path}!{name}"
    if size > LARGEST_MEMBER:
        raise ReadError(
            f"unpacks to {size:,} bytes; unpack it yourself and read the folder if that is right", file=label
        )
    try:
        with zipfile.ZipFile(path) as archive:
            contents = archive.read(name)
    except (*ZIP_ERRORS, MemoryError) as error:
        raise ReadError(
            f"cannot be unpacked ({error}); is the archive complete? Fetch it again", file=label
        ) from None
    if len(contents) != size:
        raise ReadError(
            f"unpacks to {len(contents)} bytes where the archive says {size}; fetch it again", file=label
        )
    return contents


def _choose_prefix(path: Path, members: list[str], name: str | None) -> str:
    """Return what stands before ``_A.txt``, with the folder inside the archive."""
    ending = next(
        (f"_{part}.txt" for part in NEEDED if any(_is_part(m, f"_{part}.txt") for m in members)), None
    )
    if ending is None:
        raise ReadError("there is no file named *_A.txt; expected a data set in the TU format", file=path)
    found = sorted(member.removesuffix(ending) for member in members if _is_part(member, ending))
    chosen = [p for p in found if name is None or name in (p, PurePosixPath(p).name)]
    if len(chosen) == 1:
        return chosen[0]
    choices = ", ".join(found)
    if name is not None and not chosen:
        raise InputError(f"{path}: there is no data set named {name!r}; there are: {choices}")
    raise ReadError(f"holds several data sets ({choices}); choose one with name=", file=path)


def _is_part(member: str, ending: str) -> bool:
    """Whether a member is a part of a data set; copies that macOS adds to archives are not."""
    file = PurePosixPath(member)
    return member.endswith(ending) and not file.name.startswith("._") and "__MACOSX" not in file.parts
