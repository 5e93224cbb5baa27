"""Files as readers want them: decompressed, decoded, with one clear error when that fails."""

from __future__ import annotations

import difflib
import gzip
import lzma
import os
import zlib
from pathlib import Path

from hiddenfield.errors import InputError, ReadError

__all__ = ["decode", "existing", "inner_suffix", "read_bytes", "read_text", "write_text"]

COMPRESSIONS = {".gz": gzip.decompress, ".xz": lzma.decompress}


def existing(path: str | Path) -> Path:
    """Return the path of a file or folder that is there."""
    path = Path(path).expanduser()
    if not path.exists():
        near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, near, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; check the name"
        raise ReadError(f"no such file or folder{hint}", file=path)
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
    decompress = COMPRESSIONS.get(path.suffix.lower())
    if decompress is None:
        return contents
    try:
        return decompress(contents)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ReadError(
            f"cannot be decompressed ({error}); is it complete? Fetch it again", file=path
        ) from None


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
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(contents)
        os.replace(partial, path)
    except OSError as error:  # names the file that was asked for, not the one beside it
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
