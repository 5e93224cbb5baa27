"""Which column of a table holds the structures, and of what kind they are."""

from __future__ import annotations

import re
from typing import Any

from hiddenfield.data.readers.delimited import Table
from hiddenfield.errors import InputError

__all__ = ["listed", "structure_columns", "structure_kind"]

KINDS = ("smiles", "sequence")
# What occurs in SMILES of more than the simplest molecules, and in no sequence of letters.
SMILES_SIGNS = re.compile(r"[=#()\[\]@/\\+0-9]")


def listed(columns: Any) -> list[Any]:
    """Return what an option names as a list: one column, several, or none."""
    if columns is None:
        return []
    return list(columns) if isinstance(columns, (list, tuple, range)) else [columns]


def structure_columns(table: Table, structure: Any) -> list[int]:
    """Return the positions of the columns that hold the structures."""
    if structure is not None:
        columns = [table.find(column, "structure") for column in listed(structure)]
        if not columns or len(set(columns)) != len(columns):
            raise InputError(
                f"structure must name one column, or several different ones, got {structure!r:.200}"
            )
        return columns
    speaking = {k: name for k, name in enumerate(table.names) if _kind_of_name(name) is not None}
    exact = {k: name for k, name in speaking.items() if name.lower() in KINDS}
    found = exact if len(exact) == 1 else speaking
    if len(found) == 1:
        return list(found)
    if found:
        raise InputError(
            f"{table.file} has several columns of structures: {', '.join(map(repr, found.values()))}; "
            f"choose one with structure="
        )
    raise InputError(
        f"no column of {table.file} is called smiles or sequence; it has {table.listing()}. Choose one with "
        f"structure=, and if the file has no header, read it with header=None"
    )


def _kind_of_name(name: str) -> str | None:
    """Return the kind of structures that a column's name speaks of."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    if any(word in ("smi", "smile") or word.endswith("smiles") for word in words):
        return "smiles"
    if words[-1] in ("sequence", "sequences", "seq") or re.fullmatch(r"\d+mer", words[-1]):
        return "sequence"
    return None


def structure_kind(table: Table, columns: list[int], kind: str | None) -> str:
    """Return the kind that is asked for, or that the column's name or else its entries show."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind must be 'smiles' or 'sequence', got {kind!r}")
    if len(columns) > 1:
        if kind == "smiles":
            raise InputError(f"SMILES stand in one column, but structure names {len(columns)}")
        return "sequence"
    kind = kind or _kind_of_name(table.names[columns[0]])
    if kind is not None:
        return kind
    signs = any(SMILES_SIGNS.search(entry) for entry in table.entries(columns[0]))
    return "smiles" if signs else "sequence"
