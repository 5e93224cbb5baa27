"""What was read slowly once is kept as an Arrow file, with a record of what it was made from."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import existing, write_text
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError, SkippedInputWarning

__all__ = ["cached"]

# To be raised when readers change what they make of the same file.
VERSION = 2

Outcome = tuple[Structures, SkippedInputWarning | None]


def cached(source: Path, cache: Path, options: dict[str, Any], build: Callable[[], Outcome]) -> Outcome:
    """Return what `build` gives, from the cache if that was made of the same file with the same options.

    The record lies beside the cache, in ``<cache>.json``: a hash of the source, the options, RDKit's version, and
    size and time of the cache itself. If anything differs, or the cache cannot be read, it is built and written anew.

    Parameters
    ----------
    source
        The file that `build` reads.
    cache
        The Arrow file.
    options
        Everything else that the result depends on, in terms that JSON knows.
    build
        Gives the pack, and the warning of what was left out; the latter comes with the cached pack, too.
    """
    from hiddenfield.data.readers import arrow

    cache = cache.expanduser()
    if cache.suffix.lower() != ".arrow":
        raise InputError(f"a cache must end in .arrow, got {str(cache)!r}")
    stamp = _stamp(source, options)
    skipped = _record_of(cache, stamp)
    if skipped is not None:
        try:
            return arrow.read(cache), _warning(skipped)
        except ReadError:
            pass  # damaged since: build it anew
    pack, warning = build()
    record = cache.with_name(cache.name + ".json")
    record.unlink(missing_ok=True)  # so that a crash leaves no record of another file
    arrow.write(pack, cache)
    skipped = {} if warning is None else _plain(warning)
    contents = {"stamp": stamp, "cache": _identity(cache), "skipped": skipped}
    write_text(record, json.dumps(contents))
    return pack, warning


def _stamp(source: Path, options: dict[str, Any]) -> str:
    """Return a text that differs whenever the result might."""
    try:
        with existing(source).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(f"cannot be opened: {error.strerror or error}", file=source) from None
    try:
        rdkit = importlib.metadata.version("rdkit")
    except importlib.metadata.PackageNotFoundError:
        rdkit = ""
    facts = {"version": VERSION, "source": digest, "name": source.name, "rdkit": rdkit, "options": options}
    return json.dumps(facts, sort_keys=True, default=repr)


def _identity(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _record_of(cache: Path, stamp: str) -> dict[str, Any] | None:
    """Return what was left out of the cache, if it is the one that the stamp asks for; otherwise None."""
    try:
        record = json.loads(cache.with_name(cache.name + ".json").read_text(encoding="utf-8"))
        if record["stamp"] != stamp or record["cache"] != _identity(cache):
            return None
        return dict(record["skipped"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _warning(skipped: dict[str, Any]) -> SkippedInputWarning | None:
    return SkippedInputWarning(**skipped) if skipped else None


def _plain(warning: SkippedInputWarning) -> dict[str, Any]:
    return {
        "message": str(warning),
        "positions": list(warning.positions),
        "reasons": list(warning.reasons),
        "ids": None if warning.ids is None else list(warning.ids),
    }
