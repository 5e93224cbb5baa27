"""The file formats of fields: each module of `readers/` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.registry import Registry

__all__ = ["FORMATS", "FieldFormat"]


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


FORMATS: Registry[FieldFormat] = Registry("format", "hiddenfield.fields.readers")
"""Every known format of fields by name."""
