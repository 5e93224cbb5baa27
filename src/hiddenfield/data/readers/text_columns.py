"""Files of tables by columns, through Arrow: CSV and TSV, Parquet, Feather."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import existing, inner_suffix, read_bytes, read_text
from hiddenfield.data.readers.delimited import (
    MISSING,
    as_missing,
    column_names,
    read_table,
    refuse_mixture,
    separator_of,
)
from hiddenfield.errors import InputError, ReadError

NO_VALUE = (*MISSING, "N/A", "n/a", "NULL", "?", ".")
"""Entries that stand for no value in tables of data."""


@dataclass(frozen=True, eq=False)
class FileColumns:
    """Arrow columns of a file by name, and the error for a row, which names the line of a text."""

    columns: Mapping[str, Any]
    rows: int
    refuse: Callable[[str, int], InputError]


def read_columns(
    path: str | Path,
    *,
    header: bool = True,
    separator: str | None = None,
    missing: Collection[str] = NO_VALUE,
) -> FileColumns:
    r"""Read all columns of a file: numbers where all entries of a text column are, texts otherwise, null where missing.

    Raises
    ------
    ReadError
        Naming the line of a row that has too many or too few entries, of a quote that is not closed, or of an entry
        that is no number in a column of numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text("length,sex\n1.5,f\nNA,m\n")
    >>> read_columns(path).columns["length"].to_pylist()
    [1.5, None]
    """
    file = existing(path)
    suffix = inner_suffix(file)
    if suffix in (".parquet", ".pq", ".arrow", ".feather"):
        return _from_arrow(file, suffix)
    return _from_text(file, header, separator, as_missing(missing))


def _from_arrow(file: Path, suffix: str) -> FileColumns:
    import pyarrow
    from pyarrow import feather, parquet

    read = parquet.read_table if suffix in (".parquet", ".pq") else feather.read_table
    try:
        table = read(pyarrow.BufferReader(read_bytes(file)))
    except (pyarrow.ArrowException, OSError) as error:
        raise ReadError(f"cannot be read as {suffix[1:]}: {error}", file=file) from None

    def refuse(message: str, row: int) -> InputError:
        return ReadError(f"row {row}: {message}", file=file)

    names = column_names(table.column_names, file)
    return FileColumns(dict(zip(names, table.columns, strict=True)), table.num_rows, refuse)


def _from_text(file: Path, header: bool, separator: str | None, missing: frozenset[str]) -> FileColumns:
    import pyarrow

    text = read_text(file).rstrip("\n")
    found = separator_of(text, file) if separator is None else separator
    parsed = _parsed(text, found)
    if (
        parsed is None
    ):  # says what is wrong with it, or reads what Arrow does not: an entry with a line end in it
        table = read_table(file, header=header, separator=separator)
        names, lines = list(table.names), table.lines
        columns = [pyarrow.chunked_array([pyarrow.array(table.entries(k))]) for k in range(len(names))]
    else:
        first = next(csv.reader(io.StringIO(text[: text.find("\n") + 1 or None]), delimiter=found))
        names = list(column_names(first, file)) if header else [str(k) for k in range(len(first))]
        columns = parsed.slice(1 if header else 0).columns
        lines = range(2 if header else 1, parsed.num_rows + 1)
        if not len(lines):
            raise ReadError("there are no rows beneath the header", file=file, line=1)

    def refuse(message: str, row: int) -> InputError:
        return ReadError(message, file=file, line=lines[row])

    read = [_column(values, name, missing, refuse) for name, values in zip(names, columns, strict=True)]
    return FileColumns(dict(zip(names, read, strict=True)), len(lines), refuse)


def _parsed(text: str, separator: str) -> Any:
    """Return the entries as texts, or None where Arrow cannot parse them."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    # Arrow takes the end of the file for the end of a quoted entry.
    if not text or "\0" in text or len(separator) != 1 or text.count('"') % 2:
        return None
    first = next(csv.reader([text[: text.find("\n") + 1 or None]], delimiter=separator))
    types = {f"f{k}": pyarrow.string() for k in range(len(first))}
    try:
        parsed = arrow_csv.read_csv(
            pyarrow.BufferReader(text.encode("utf-8")),
            arrow_csv.ReadOptions(autogenerate_column_names=True),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pyarrow.ArrowInvalid:
        return None
    return parsed if parsed.num_columns == len(first) else None


def _column(values: Any, name: str, missing: frozenset[str], refuse: Callable[[str, int], InputError]) -> Any:
    """Return numbers if all entries are, else texts; null where missing."""
    import pyarrow
    from pyarrow import compute

    values = compute.utf8_trim_whitespace(values)
    absent = compute.is_in(values, pyarrow.array(sorted(missing), pyarrow.string()))
    present = compute.if_else(absent, pyarrow.scalar(None, pyarrow.string()), values)
    try:
        return compute.cast(present, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        entries = values.to_pylist()
        refuse_mixture(entries, ~absent.to_numpy(), name, missing, refuse)
        return present
