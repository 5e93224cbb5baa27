"""File formats of fields, one module each, and the two functions that choose among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hiddenfield.data.formats import Formats
from hiddenfield.data.paths import existing
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.factor_graph import FactorGraph

FIELD_FORMATS: Formats[FactorGraph] = Formats("format", "hiddenfield.fields.readers")
"""Every known format of fields by name."""


def read(path: str | Path, format: str | None = None) -> FactorGraph:
    r"""Read a field from a file: UAI (``.uai``), libDAI (``.fg``), BIF, XMLBIF or NET, also .gz and .xz.

    Parameters
    ----------
    path
        The file.
    format
        The name of a format; by default the one of the file's suffix.

    Returns
    -------
    FactorGraph
        Tables as logarithms in float64; numbers that no double holds keep their logarithm. Linear in the file.

    Raises
    ------
    ReadError
        If the file is malformed, naming file, line and word.

    Warns
    -----
    RowSumWarning
        Where rows of a Bayesian network's tables do not sum to 1, naming file, line, variable and row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.uai"
    >>> _ = path.write_text("MARKOV\n3\n2 2 2\n2\n2 0 1\n2 1 2\n4\n2 1\n1 2\n4\n2 1\n1 2\n")
    >>> read(path)
    FactorGraph(1 graph, 3 variables of 2 states, 2 factors of up to 2 ports)
    """
    path = existing(path)
    if format is not None:
        return FIELD_FORMATS.choose(format).read(path)
    found = FIELD_FORMATS.recognise(path)
    if found is None:
        raise ReadError(f"not recognised by its suffix; name one with format=: {_listed()}", file=path)
    return found.read(path)


def write(field: FactorGraph, path: str | Path, format: str | None = None, **options: Any) -> None:
    """Write a field to a file whose suffix names the format; reading it gives the same field, up to rounding.

    The file is there whole, or not at all. See the module of the format for its options and for what it cannot hold.
    Linear in the entries of all factors: most formats know no shared tables.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hiddenfield.fields import ising_grid
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "grid.uai"
    >>> write(ising_grid(2, 2), path)
    >>> read(path)
    FactorGraph(1 graph, 4 variables of 2 states, 4 factors of up to 2 ports)
    """
    path = Path(path)
    found = FIELD_FORMATS.recognise(path) if format is None else FIELD_FORMATS.choose(format)
    if found is None or found.write is None:
        raise InputError(
            f"the suffix of {str(path)!r} names no format to write; choose from: {_listed(True)}"
        )
    found.write(field, path, **options)


def _listed(written: bool = False) -> str:
    known = {name: entry for name, entry in FIELD_FORMATS.items() if entry.write or not written}
    return ", ".join(f"{name} ({', '.join(entry.suffixes)})" for name, entry in known.items())
