"""Files, folders and archives as readers want them: decompressed, decoded, with one clear error when that fails."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import secrets
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiddenfield.errors import InputError, ReadError
from hiddenfield.machine import available_memory
from hiddenfield.registry import did_you_mean

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
PIECE = 1 << 24

# Everything that the standard library raises on damaged, encrypted or unknown files and archives.
UNREADABLE = (
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

LARGEST = 16 << 30
"""Bytes of one unpacked file beyond which it is taken for a mistake or an attack."""


def existing(path: str | Path) -> Path:
    """Return the path of a file or folder that is there."""
    path = Path(path).expanduser()
    if not path.exists():
        if path.is_symlink():
            raise ReadError(f"is a link to {os.readlink(path)}, which does not exist", file=path)
        near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ReadError(
            f"no such file or folder{did_you_mean(path.name, near) or '; check the name'}", file=path
        )
    return path


def inner_suffix(path: Path) -> str:
    """Return the suffix beneath any compression, in lower case: ``.csv`` of ``data.csv.xz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_bytes(path: str | Path) -> bytes:
    """Return a file's contents, decompressed if its name ends in .gz or .xz."""
    path = existing(path)
    if path.is_dir():
        raise ReadError("expected a file, got a folder", file=path)
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}", file=path) from None
    if path.suffix.lower() not in COMPRESSIONS:
        return contents
    try:
        return _decompress(contents, path.suffix.lower(), path)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ReadError(
            f"cannot be decompressed ({error}); is it complete? Fetch it again", file=path
        ) from None


def _decompress(contents: bytes, suffix: str, label: str | Path) -> bytes:
    """Decompress piece by piece, and refuse what would not fit into memory."""
    limit, total, pieces = most_unpacked(), 0, list[bytes]()
    with COMPRESSIONS[suffix](io.BytesIO(contents)) as file:
        while piece := file.read(PIECE):
            pieces.append(piece)
            total += len(piece)
            if total > limit:
                raise ReadError(_too_large(total, len(contents), "more than "), file=label)
    return b"".join(pieces)


def most_unpacked() -> int:
    """Return how many bytes a file may unpack to: half of the memory that is free, and at most `LARGEST`."""
    return int(min(LARGEST, available_memory() / 2))


def _too_large(unpacked: int, packed: int, more: str = "") -> str:
    return (
        f"{packed:,} bytes unpack to {more}{unpacked:,}, more than half of the free memory, or than 16 GiB; "
        f"unpack it and cut it into parts if that size is right"
    )


def read_text(path: str | Path) -> str:
    r"""Return a text file's contents with ``\n`` line ends; UTF-8 only, with or without a byte-order mark."""
    return decode(read_bytes(path), path)


def decode(contents: bytes, path: str | Path) -> str:
    r"""Decode UTF-8 strictly, naming the line of the first bad byte; ``\r\n`` and ``\r`` become ``\n``."""
    try:
        text = contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = contents[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
        byte = contents[error.start]
        raise ReadError(
            f"expected UTF-8 text, got byte 0x{byte:02x}; convert the file to UTF-8", file=path, line=line
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8, compressed if the name ends in .gz or .xz; the file is there whole, or not at all.

    Also where several processes write the same file.
    """
    path = Path(path).expanduser()
    contents = text.encode("utf-8")
    suffix = path.suffix.lower()
    if suffix == ".gz":
        contents = gzip.compress(contents, mtime=0)  # no time: the same text gives the same file
    elif suffix == ".xz":
        contents = lzma.compress(contents)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    with atomic(path) as partial:
        partial.write_bytes(contents)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a hidden name beside a path, under which to make a file or folder.

    It takes the final name when the block ends well, and is removed when it does not. Missing parent folders are made.
    An error of the operating system, such as a full disk, names the path that was asked for, not the hidden one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {path.parent} cannot be made: {error.strerror or error}") from None
    # In the same folder, since only there is renaming atomic.
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.partial"
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        elsewhere = error.filename is not None and not str(error.filename).startswith(str(temporary))
        if error.errno is None or elsewhere:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


# -- a look inside, and files of folders and archives ------------------------------------------------------


def first_bytes(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, decompressed; nothing if it cannot be read. Reads no further than needed."""
    if not path.is_file():
        return b""  # Not a folder; and a pipe would wait for somebody to write.
    try:
        with COMPRESSIONS.get(path.suffix.lower(), open)(path, "rb") as file:
            return bytes(file.read(size))
    except UNREADABLE:
        return b""


@dataclass(frozen=True)
class Member:
    """One file of a folder or archive: its name for messages, and how to get its contents, decompressed."""

    label: str
    read: Callable[[], bytes]

    def refuse(self, message: str, line: int | None = None) -> ReadError:
        """Return the error that names the file and perhaps the line."""
        return ReadError(message, file=self.label, line=line)


def folder_members(folder: Path, suffix: str, *, deep: bool = False) -> dict[str, Member]:
    """Return the files with that suffix by their names in the folder; if `deep`, of folders within, too."""

    def member(file: Path) -> Member:
        return Member(str(file), lambda: read_bytes(file))

    try:
        files = sorted(folder.rglob("*") if deep else folder.iterdir())
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}", file=folder) from None
    chosen = [file for file in files if inner_suffix(file) == suffix and file.is_file()]
    return {file.relative_to(folder).as_posix(): member(file) for file in chosen}


def zip_members(path: Path, suffix: str) -> dict[str, Member]:
    """Return the files with that suffix by their names in the archive."""
    try:
        archive = zipfile.ZipFile(path)
        entries = [entry for entry in archive.infolist() if inner_suffix(Path(entry.filename)) == suffix]
    except UNREADABLE as error:
        raise ReadError(
            f"cannot be opened as a zip archive ({error}); is it complete? Fetch it again", file=path
        ) from None

    def member(entry: zipfile.ZipInfo) -> Member:
        label = f"{path}!{entry.filename}"
        return Member(label, lambda: _unpack(archive, entry, label))

    found: dict[str, Member] = {}
    for entry in entries:
        if entry.filename in found:
            raise ReadError(f"the archive holds {entry.filename!r} twice; keep one", file=path)
        found[entry.filename] = member(entry)
    return found


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, label: str) -> bytes:
    size, suffix = entry.file_size, Path(entry.filename).suffix.lower()
    if size > most_unpacked():
        raise ReadError(_too_large(size, entry.compress_size), file=label)
    try:
        with archive.open(entry) as source:
            contents = source.read(size + 1)  # no more than the archive says, whatever it holds
        unpacked = _decompress(contents, suffix, label) if suffix in COMPRESSIONS else contents
    except ReadError:
        raise
    except (*UNREADABLE, MemoryError) as error:
        raise ReadError(
            f"cannot be unpacked ({error}); is the archive complete? Fetch it again", file=label
        ) from None
    if len(contents) != size:
        raise ReadError(
            f"unpacks to {len(contents)} bytes where the archive says {size}; fetch it again", file=label
        )
    return unpacked


def members(path: str | Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and decompressed contents of the file, or of every file with that suffix in the folder or zip.

    Folders and zips are searched to any depth, in the order of the names, which are relative to them.
    """
    path = existing(path)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        yield path.name, read_bytes(path)
        return
    found = folder_members(path, suffix, deep=True) if path.is_dir() else zip_members(path, suffix)
    if not found:
        kind = "folder" if path.is_dir() else "zip"
        raise ReadError(f"the {kind} holds no file whose name ends in {suffix}", file=path)
    for name in sorted(found):
        yield name, found[name].read()


def names_within(path: Path) -> list[str] | None:
    """Return the names of the files in a folder or zip, none for any other path; None if it cannot be read."""
    try:
        if path.is_dir():
            return [entry.name for entry in path.iterdir()]
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.namelist()
    except UNREADABLE:
        return None
    return []


def holds(path: Path, suffix: str) -> bool:
    """Say whether a path is a file of that suffix, or a folder or zip that has one. Never raises."""
    names = names_within(path) if path.is_dir() or path.suffix.lower() == ".zip" else [path.name]
    return any(inner_suffix(Path(name)) == suffix for name in names or ())
