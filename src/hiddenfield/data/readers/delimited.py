"""Delimited text (CSV, TSV): columns of entries with their lines, and columns as numbers, classes or texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow_arrays import to_numpy
from hiddenfield.data.paths import inner_suffix, read_text
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.registry import did_you_mean
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SEPARATORS = (",", "\t", ";")
# Entries that stand for a value that is not known.
MISSING = ("", "NA", "NaN", "nan", "null")

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Integers as one writes them, which fit 64 bits; "1.0" is what other programs make of 1 beside a missing entry.
INTEGER = re.compile(r"(-?[1-9]\d{0,17}|0)(\.0*)?", re.ASCII)
DECIMAL_COMMA = r"^[+-]?\d*,\d+$"


@dataclass(frozen=True)
class Table:
    """Columns of entries, all of one length.

    Attributes
    ----------
    file
        Where they come from.
    names
        Of the columns, all different; ``"0"``, ``"1"``, … where the file has no header.
    columns
        The entries as they stand, without quotes: Arrow arrays of texts.
    lines
        Number of the line in which each row begins, counted from one.
    """

    file: Path
    names: tuple[str, ...]
    columns: Sequence[pyarrow.ChunkedArray]
    lines: Sequence[int]

    def find(self, column: Any, option: str) -> int:
        """Return the position of a column that is given by name or by position, for the named option."""
        if isinstance(column, int) and not isinstance(column, bool):
            if 0 <= column < len(self.names):
                return column
            raise InputError(f"{option}={column}: {self.file} has the columns 0 to {len(self.names) - 1}")
        if column in self.names:
            return self.names.index(column)
        hint = did_you_mean(column, self.names)
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
        return list(self.columns[position].to_pylist())


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
    >>> read_table(path).entries(0)
    ['1,2-ethanediol']
    """
    path = Path(path)
    text = read_text(path).rstrip("\n")
    if not text:
        raise ReadError("the file is empty; expected delimited text", file=path)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ReadError("expected text, got a NUL byte; is this a binary file?", file=path, line=line)
    separator = separator_of(text, path) if separator is None else _checked(separator)
    if not separator.isascii():  # which is all that Arrow takes
        text, separator = text.replace(separator, "\x1f"), "\x1f"
    lines = _row_lines(text, separator, path)
    columns = _parsed(text, separator, lines, header, path)
    if not header:
        return Table(path, tuple(map(str, range(len(columns)))), columns, lines)
    names = column_names([column[0].as_py() for column in columns], path)
    if len(lines) == 1:
        raise ReadError("there are no rows beneath the header", file=path, line=1)
    return Table(path, names, [column.slice(1) for column in columns], lines[1:])


def separator_of(text: str, path: Path) -> str:
    """Return a tab for .tsv; otherwise the one of comma, tab and semicolon that the first line has most of."""
    if SUFFIXES.get(inner_suffix(path)) == "\t":
        return "\t"
    return max(SEPARATORS, key=_first_line(text).count)


def _first_line(text: str) -> str:
    """Return the first line without its quoted entries."""
    return re.sub(r'"[^"]*"', "", text[: text.find("\n")] if "\n" in text else text)


def _checked(separator: str) -> str:
    if len(separator) != 1 or separator in '"\n\r\0':
        raise InputError(
            f"separator must be one character other than a quote or a line end, got {separator!r}"
        )
    return separator


def _row_lines(text: str, separator: str, path: Path) -> Sequence[int]:
    """Return the line on which each row begins; refuse blank lines, and quotes that are not closed or not doubled."""
    if '"' not in text and "\n\n" not in text and not text.startswith("\n"):
        return range(1, text.count("\n") + 2)
    mark = re.escape(separator)
    entry = rf'^(?P<blank>\n)|(?:^|{mark})"(?P<inside>(?:[^"]|"")*+)(?P<end>"?)(?P<more>[^{mark}\n]?)'
    within: set[int] = set()
    for found in re.finditer(entry, text, re.MULTILINE):
        wrong = ""
        if found["blank"]:
            wrong = "the line is blank; remove it (blank lines may stand at the end only)"
        elif not found["end"]:
            wrong = "a quoted entry that begins in this row is never closed"
        elif found["more"]:
            wrong = (
                f"a quoted entry is followed by {found['more']!r}; write a quote within a quoted entry twice"
            )
        if wrong:
            line = text.count("\n", 0, found.end() if found["blank"] else found.start("inside"))
            raise ReadError(wrong, file=path, line=line + (not found["blank"]))
        within.update(place.start() + found.start("inside") for place in re.finditer("\n", found["inside"]))
    breaks = (place.start() for place in re.finditer("\n", text))
    return [1, *(line for line, place in enumerate(breaks, 2) if place not in within)]


def _parsed(
    text: str, separator: str, lines: Sequence[int], header: bool, path: Path
) -> Sequence[pyarrow.ChunkedArray]:
    """Return the columns; every row must have as many entries as the first."""
    import pyarrow
    from pyarrow import csv

    contents, ragged = text.encode() + b"\n", list[Any]()
    first = text.split("\n", lines[1] - 1)[: lines[1] - 1] if len(lines) > 1 else [text]
    types = {f"f{k}": pyarrow.string() for k in range("\n".join(first).count(separator) + 1)}
    block = min(len(contents) + 1, 2**31 - 1)

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        return csv.read_csv(
            pyarrow.BufferReader(contents),
            csv.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=block),
            csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=refuse,
            ),
            csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        ).columns
    except pyarrow.ArrowInvalid as error:
        if not ragged:
            raise ReadError(f"cannot be read as delimited text: {error}", file=path) from None
        row, what = ragged[0], "as the header has" if header else "as the first row has"
        expected = f"expected {row.expected_columns} entries separated by {separator!r}, {what}"
        line = lines[row.number - 1]
        raise ReadError(f"{expected}, got {row.actual_columns}", file=path, line=line) from None


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
    entries: pyarrow.ChunkedArray,
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
    >>> import pyarrow
    >>> columns = [pyarrow.chunked_array([column]) for column in (["1.5", "NA"], ["b", "a"])]
    >>> table = Table(Path("t.csv"), ("t", "u"), columns, [2, 3])
    >>> target_column(columns[0], "t", classes=False, missing=MISSING, refuse=table.refuse)[0]
    array([1.5, nan])
    >>> target_column(columns[1], "u", classes=False, missing=MISSING, refuse=table.refuse)[1]
    Vocabulary('u', 2: 'a', 'b')
    """
    present = without(entries, missing)
    numbers = None if classes else spelled_numbers(present)
    if numbers is None:
        if not classes:
            refuse_mixture(present, name, missing, refuse)
            _refuse_commas(present, name, refuse)
        return _classes(present, name)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        row = int(infinite[0])
        message = f"column {name!r}: {present[row].as_py()!r} is not finite; correct it or mark it as missing"
        raise refuse(message, row)
    return numbers, None


def further_column(entries: pyarrow.ChunkedArray, missing: Collection[str]) -> Array:
    """Return a column that travels along: integers, numbers with NaN for missing ones, or else the texts.

    Examples
    --------
    >>> import pyarrow
    >>> [further_column(pyarrow.chunked_array([each]), MISSING) for each in (["1", "2"], ["1", "NA"])]
    [array([1, 2]), array([ 1., nan])]
    """
    symbols = _symbols(without(entries, ()).to_pylist())
    if symbols and not isinstance(symbols[0], str):
        return np.array(symbols, dtype=np.int64)
    present = without(entries, missing)
    numbers = spelled_numbers(present)
    if numbers is None or present.null_count == len(present) or np.isinf(numbers).any():
        return np.array(entries.to_pylist(), dtype=np.dtypes.StringDType())
    return numbers


def without(entries: pyarrow.ChunkedArray, missing: Collection[str]) -> pyarrow.ChunkedArray:
    """Return the entries without blanks at their ends, null where missing."""
    import pyarrow
    from pyarrow import compute

    stripped = compute.utf8_trim_whitespace(entries)
    # From buffers: pyarrow.array and pyarrow.scalar import pandas where there is one.
    words = [word.encode() for word in missing]
    ends = pyarrow.py_buffer(np.cumsum([0, *map(len, words)], dtype=np.int32))
    known = pyarrow.StringArray.from_buffers(len(words), ends, pyarrow.py_buffer(b"".join(words)))
    return compute.if_else(compute.is_in(stripped, known), pyarrow.nulls(1, pyarrow.string())[0], stripped)


def as_missing(missing: Any) -> frozenset[str]:
    """Return the entries that count as missing."""
    listed = isinstance(missing, Iterable) and not isinstance(missing, str)
    if not listed or not all(isinstance(entry, str) for entry in missing):
        raise InputError(f"missing must be a list of texts such as ['', 'NA'], got {missing!r:.200}")
    return frozenset(missing)


def spelled_numbers(present: pyarrow.ChunkedArray) -> Float[Array, " rows"] | None:
    """Return the numbers that the texts spell, NaN for null; None if any of them spells none."""
    import pyarrow

    try:
        numbers = to_numpy(present.cast(pyarrow.float64()), np.nan)
    except pyarrow.ArrowInvalid:
        return None
    return numbers if np.isnan(numbers).sum() == present.null_count else None


def _classes(present: pyarrow.ChunkedArray, name: str) -> tuple[Float[Array, " rows"], Vocabulary]:
    """Return codes, NaN for null, and their vocabulary: integers if all entries are, otherwise the texts."""
    vocabulary, codes = Vocabulary.from_arrow(name, present, _symbols)
    return np.where(codes < 0, np.nan, codes), vocabulary


def _symbols(values: Sequence[str]) -> list[Symbol]:
    """Return the classes' symbols: integers if all are, otherwise the texts."""
    if values and all(INTEGER.fullmatch(value) for value in values):
        return [int(value.partition(".")[0]) for value in values]
    return list(values)


def _refuse_commas(
    present: pyarrow.ChunkedArray, name: str, refuse: Callable[[str, int], InputError]
) -> None:
    """Refuse a column most of whose entries are numbers or numbers with a decimal comma."""
    from pyarrow import compute

    commas = compute.match_substring_regex(present, DECIMAL_COMMA)
    numbers = compute.or_(commas, compute.match_substring_regex(present, NUMBER))
    if (first := compute.index(commas, True).as_py()) >= 0 and compute.mean(numbers).as_py() > 0.5:
        raise refuse(
            f"column {name!r}: {present[first].as_py()!r:.60} has a comma; write a decimal point, or read the column "
            "as classes",
            first,
        )


def refuse_mixture(
    present: pyarrow.ChunkedArray,
    name: str,
    missing: Collection[str],
    refuse: Callable[[str, int], InputError],
) -> None:
    """Refuse a column of texts most of which are numbers, naming the first that is none."""
    from pyarrow import compute

    is_number = compute.match_substring_regex(present, NUMBER)
    count, total = compute.sum(is_number).as_py() or 0, len(present) - present.null_count
    if 2 * count <= total:
        return
    row = compute.index(is_number, False).as_py()
    known = ", ".join(repr(entry) for entry in sorted(missing))
    raise refuse(
        f"column {name!r} holds numbers in {count} of {total} rows, but {present[row].as_py()!r:.60} here; correct "
        f"it, write one of {known} if it is missing, or read the column as classes",
        row,
    )
