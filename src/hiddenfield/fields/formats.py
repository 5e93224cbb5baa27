"""The file formats of fields: one module of `readers/` each, found through this registry."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from hiddenfield.fields.factor_graph import FactorGraph

__all__ = ["FieldFormat", "field_formats"]

MODULES = ("uai", "fg", "bif")


@dataclass(frozen=True)
class FieldFormat:
    """How to read and write one file format.

    Parameters
    ----------
    name
        As in ``read(path, format=name)``.
    summary
        One line for tables of formats.
    suffixes
        Endings of its files' names, in lower case, beneath any compression.
    read, write
        ``read(path)`` and ``write(field, path, **options)``.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    read: Callable[..., FactorGraph]
    write: Callable[..., None]


def field_formats() -> dict[str, FieldFormat]:
    """Return every known format of fields by name."""
    found = [importlib.import_module(f"hiddenfield.fields.readers.{module}").FORMAT for module in MODULES]
    return {entry.name: entry for entry in found}
