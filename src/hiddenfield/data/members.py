"""A file, a folder of files or a zip of files, each as the contents of its members; and a cheap look inside."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from hiddenfield.data.files import COMPRESSIONS, existing, inner_suffix, read_bytes
from hiddenfield.errors import ReadError

__all__ = ["first_bytes", "holds", "members"]

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
)


def first_bytes(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, decompressed; nothing if it cannot be read. Reads no further than needed."""
    if not path.is_file():
        return b""  # Not a folder; and a pipe would wait for somebody to write.
    try:
        with _opened(path) as file:
            return file.read(size)
    except UNREADABLE:
        return b""


def _opened(path: Path) -> io.BufferedIOBase:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if suffix == ".xz" else path.open("rb")


def members(path: str | Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and decompressed contents of the file, or of every file with that suffix in the folder or zip.

    Folders and zips are searched to any depth, in the order of the names, which are relative to them.
    """
    path = existing(path)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and inner_suffix(p) == suffix)
        if not files:
            raise ReadError(f"the folder holds no file whose name ends in {suffix}", file=path)
        for file in files:
            yield file.relative_to(path).as_posix(), read_bytes(file)
    elif path.suffix.lower() == ".zip":
        yield from _zipped(path, suffix)
    else:
        yield path.name, read_bytes(path)


def _zipped(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if inner_suffix(Path(name)) == suffix)
            if not names:
                raise ReadError(f"the zip holds no file whose name ends in {suffix}", file=path)
            for name in names:
                contents = archive.read(name)
                decompress = COMPRESSIONS.get(Path(name).suffix.lower())
                yield name, contents if decompress is None else decompress(contents)
    except ReadError:
        raise
    except UNREADABLE as error:
        raise ReadError(f"cannot be unpacked ({error}); is it complete? Fetch it again", file=path) from None


def holds(path: Path, suffix: str) -> bool:
    """Say whether a path is a file of that suffix, or a folder or zip that has one. Never raises."""
    try:
        if path.is_dir():
            return any(inner_suffix(p) == suffix for p in path.iterdir())
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                return any(inner_suffix(Path(name)) == suffix for name in archive.namelist())
        return inner_suffix(path) == suffix
    except UNREADABLE:
        return False
