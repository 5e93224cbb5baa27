"""The file formats that `hiddenfield.read` knows: one module of `readers/` each, found through this registry."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hiddenfield.data.structures import Structures

__all__ = ["Format", "formats"]

# In the order in which they are asked whether a file is theirs: the most particular first.
MODULES = ("arrow", "tu", "neighbours", "xml", "graphml", "fasta", "inex", "sexpr", "table", "edge_list")


@dataclass(frozen=True)
class Format:
    """How to recognise and read one file format.

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
        ``read(path, **options)``: the whole file as one pack. Keyword options are the format's own and checked by
        the signature.
    """

    name: str
    summary: str
    recognises: Callable[[Path], bool]
    read: Callable[..., Structures]


def formats() -> dict[str, Format]:
    """Return every known format by name, in the order in which they are tried."""
    found = [importlib.import_module(f"hiddenfield.data.readers.{module}").FORMAT for module in MODULES]
    return {entry.name: entry for entry in found}
