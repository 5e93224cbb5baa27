"""Delimited text (CSV, TSV): rows of entries with their lines, and columns as numbers, classes or texts."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import inner_suffix, read_text
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Float

SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SEPARATORS = (",", "\t", ";")
# Entries that stand for a value that is not known.
MISSING = ("", "NA", "NaN", "nan", "null")

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Integers as one writes them, which fit 64 bits; "1.0" is what other programs make of 1 beside a missing entry.
INTEGER = re.compile(r"(-?[1-9]\d{0,17}|0)(\.0*)?", re.ASCII)
QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Table:
    """Rows of entries, all of one width.

    Attributes
    ----------
    file
        Where they come from.
    names
        Of the columns, all different; ``"0"``, ``"1"``, … where the file has no header.
    rows
        The entries as they stand, without quotes.
    lines
        Number of the line in which each row begins, counted from one.
    """

    file: Path
    names: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]

    def find(self, column: Any, option: str) -> int:
        """Return the position of a column that is given by name or by position, for the named option."""
        if isinstance(column, int) and not isinstance(column, bool):
            if 0 <= column < len(self.names):
                return column
            raise InputError(f"{option}={column}: {self.file} has the columns 0 to {len(self.names) - 1}")
        if column in self.names:
            return self.names.index(column)
        close = difflib.get_close_matches(str(column), self.names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"{option}={column!r}: no such column in {self.file}{hint}; it has {self.listing()}")

    def refuse(self, message: str, row: int) -> ReadError:
        """Return the error for a row, which names its line."""
        return ReadError(message, file=self.file, line=self.lines[row])

    def listing(self, most: int = 20) -> str:
        """Name the columns in a message."""
        shown = ", ".join(f"{name!r:.60}" for name in self.names[:most])
        more = f", … ({len(self.names)} in all)" if len(self.names) > most else ""
        return f"the columns {shown}{more}"

    def entries(self, position: int) -> list[str]:
        """Return one column."""
        return [row[position] for row in self.rows]


def read_table(path: str | Path, *, header: bool = True, separator: str | None = None) -> Table:
    r"""Read a whole file of delimited text.

    Entries may stand in double quotes, within which a separator or a line end is part of the entry and ``""`` is a
    quote. Lines may end in ``\n``, ``\r\n`` or ``\r``. Blank lines are allowed at the end only, so that none can
    stand for a row of missing entries.

    Parameters
    ----------
    path
        The file, possibly .gz or .xz.
    header
        Whether the first row names the columns.
    separator
        One character. By default a tab for .tsv; otherwise the one of comma, tab and semicolon that the first line
        has most of.

    Raises
    ------
    ReadError
        Naming the line, if rows differ in width, a quote is never closed, a column name occurs twice, or there
        are no rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text('name,smiles\n"1,2-ethanediol",OCCO\n')
    >>> read_table(path).rows
    [['1,2-ethanediol', 'OCCO']]
    """
    path = Path(path)
    text = read_text(path).rstrip("\n")
    if not text:
        raise ReadError("the file is empty; expected delimited text", file=path)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ReadError("expected text, got a NUL byte; is this a binary file?", file=path, line=line)
    separator = separator_of(text, path) if separator is None else _checked(separator)
    rows, lines = _quoted(text, separator, path) if '"' in text else _plain(text, separator)
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise ReadError(_ragged(row, width, separator, header), file=path, line=line)
    if not header:
        return Table(path, tuple(str(position) for position in range(width)), rows, lines)
    names = column_names(rows[0], path)
    if len(rows) == 1:
        raise ReadError("there are no rows beneath the header", file=path, line=1)
    return Table(path, names, rows[1:], lines[1:])


def separator_of(text: str, path: Path) -> str:
    """Return a tab for .tsv; otherwise the one of comma, tab and semicolon that the first line has most of."""
    if SUFFIXES.get(inner_suffix(path)) == "\t":
        return "\t"
    first = re.sub(r'"[^"]*"', "", text[: text.find("\n")] if "\n" in text else text)
    return max(SEPARATORS, key=first.count)


def _checked(separator: str) -> str:
    if len(separator) != 1 or separator in '"\n\r\0':
        raise InputError(
            f"separator must be one character other than a quote or a line end, got {separator!r}"
        )
    return separator


def _plain(text: str, separator: str) -> tuple[list[list[str]], range]:
    """Split text that has no quotes: several times as fast as `csv`, and without its limit on an entry's length."""
    lines = text.split("\n")
    return [line.split(separator) if line else [] for line in lines], range(1, len(lines) + 1)


def _quoted(text: str, separator: str, path: Path) -> tuple[list[list[str]], list[int]]:
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=separator, strict=True)
    line = 1
    try:
        for row in reader:
            rows.append(row)
            lines.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        rest = "\n".join(text.split("\n")[line - 1 :])
        raise ReadError(_quoting(rest, error), file=path, line=line) from None
    return rows, lines


def _quoting(rest: str, error: csv.Error) -> str:
    """Say what is wrong with the quotes of a row, from the text that begins with it."""
    if '"' in QUOTED.sub("", rest):
        return "a quoted entry that begins in this row is never closed"
    if max(map(len, QUOTED.findall(rest)), default=0) > csv.field_size_limit():
        limit = f"longer than {csv.field_size_limit():,} characters"
        return f"an entry that begins in this row is {limit}: close its quote, or write such a file without quotes"
    return f"{error}; write a quote within a quoted entry twice"


def _ragged(row: Sequence[str], width: int, separator: str, header: bool) -> str:
    if not row:
        return "the line is blank; remove it (blank lines may stand at the end only)"
    what = "as the header has" if header else "as the first row has"
    return f"expected {width} entries separated by {separator!r}, {what}, got {len(row)}"


def column_names(row: Sequence[str], path: Path) -> tuple[str, ...]:
    """Return the names in a header, which must differ."""
    names = tuple(name.strip() for name in row)
    if len(set(names)) != len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise ReadError(
            f"the column name {twice!r} occurs twice; if the file has no header, read it with header=False",
            file=path,
            line=1,
        )
    return names


# -- a column of entries to numbers, classes or texts ------------------------------------------------------


def target_column(
    entries: Sequence[str],
    name: str,
    *,
    classes: bool,
    missing: Collection[str],
    refuse: Callable[[str, int], ReadError],
) -> tuple[Float[Array, " rows"], Vocabulary | None]:
    """Return a column of numbers, or of class codes with their vocabulary; NaN where an entry is missing.

    A column whose entries are all numbers holds numbers, unless `classes`. Otherwise it holds classes; but if more
    than half of its entries are numbers, the others are taken for mistakes and refused: `refuse` makes the error of a
    message and a row.

    Examples
    --------
    >>> table = Table(Path("t.csv"), ("t", "u"), [["1.5", "b"], ["NA", "a"]], [2, 3])
    >>> target_column(table.entries(0), "t", classes=False, missing=MISSING, refuse=table.refuse)[0]
    array([1.5, nan])
    >>> target_column(table.entries(1), "u", classes=False, missing=MISSING, refuse=table.refuse)[1]
    Vocabulary('u', 2: 'a', 'b')
    """
    entries = [entry.strip() for entry in entries]
    present = np.array([entry not in missing for entry in entries], dtype=bool)
    values = [entry for entry, there in zip(entries, present, strict=True) if there]
    result = np.full(len(entries), np.nan)
    numbers = None if classes else _numbers(values)
    if numbers is not None:
        result[present] = numbers
        infinite = np.flatnonzero(np.isinf(result))
        if len(infinite):
            row = int(infinite[0])
            message = f"column {name!r}: {entries[row]!r} is not finite; correct it or mark it as missing"
            raise refuse(message, row)
        return result, None
    if not classes:
        refuse_mixture(entries, present, name, missing, refuse)
    vocabulary, result[present] = Vocabulary.from_values(name, _symbols(values))
    return result, vocabulary


def further_column(entries: Sequence[str], missing: Collection[str]) -> Array:
    """Return a column that travels along: integers, numbers with NaN for missing ones, or else the texts.

    Examples
    --------
    >>> further_column(["1", "2"], MISSING), further_column(["1", "NA"], MISSING)
    (array([1, 2]), array([ 1., nan]))
    """
    stripped = [entry.strip() for entry in entries]
    symbols = _symbols(stripped)
    if symbols and not isinstance(symbols[0], str):
        return np.array(symbols, dtype=np.int64)
    present = np.array([entry not in missing for entry in stripped], dtype=bool)
    numbers = _numbers([entry for entry, there in zip(stripped, present, strict=True) if there])
    if numbers is None or not present.any() or np.isinf(numbers).any():
        return np.array(entries, dtype=np.dtypes.StringDType())
    result = np.full(len(entries), np.nan)
    result[present] = numbers
    return result


def as_missing(missing: Any) -> frozenset[str]:
    """Return the entries that count as missing."""
    listed = isinstance(missing, Iterable) and not isinstance(missing, str)
    if not listed or not all(isinstance(entry, str) for entry in missing):
        raise InputError(f"missing must be a list of texts such as ['', 'NA'], got {missing!r:.200}")
    return frozenset(missing)


def _numbers(values: Sequence[str]) -> Float[Array, " rows"] | None:
    """Return the numbers that the texts spell, or None if any of them spells none."""
    # Python's float, which numpy uses, also reads digit groups (1_000), other scripts' digits, and words.
    joined = "\n".join(values)
    if "_" in joined or not joined.isascii():
        return None
    try:
        numbers = np.array(values, dtype=np.float64)
    except ValueError:
        return None
    words = np.flatnonzero(~np.isfinite(numbers))
    return numbers if all(np.isinf(numbers[k]) for k in words) else None


def _symbols(values: Sequence[str]) -> list[Symbol]:
    """Return the classes' symbols: integers if all are, otherwise the texts."""
    if values and all(INTEGER.fullmatch(value) for value in values):
        return [int(value.partition(".")[0]) for value in values]
    return list(values)


def refuse_mixture(
    entries: Sequence[str],
    present: Array,
    name: str,
    missing: Collection[str],
    refuse: Callable[[str, int], InputError],
) -> None:
    """Refuse a column of texts most of which are numbers, naming the first that is none."""
    is_number = np.array([NUMBER.fullmatch(entry) is not None for entry in entries], dtype=bool) & present
    count, total = int(is_number.sum()), int(present.sum())
    if 2 * count <= total:
        return
    row = int(np.argmax(present & ~is_number))
    known = ", ".join(repr(entry) for entry in sorted(missing))
    raise refuse(
        f"column {name!r} holds numbers in {count} of {total} rows, but {entries[row]!r:.60} here; correct it, write "
        f"one of {known} if it is missing, or read the column as classes",
        row,
    )
