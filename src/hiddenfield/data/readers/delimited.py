"""Delimited text (CSV, TSV): columns of entries with their lines, and columns as numbers, classes or texts."""

from __future__ import annotations

import csv
import difflib
import io
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
QUOTED = re.compile(r'"(?:[^"]|"")*"')
LONGEST_ROW = 1 << 24  # bytes of a row that Arrow parses; what is longer is read more slowly


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
    columns, lines = _parsed(text, separator) or _careful(text, separator, header, path)
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


def _parsed(text: str, separator: str) -> tuple[list[pyarrow.ChunkedArray], Sequence[int]] | None:
    """Return columns and lines as Arrow parses them; None where it would not parse them, or with less care."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    contents = text.encode()
    if (
        text.startswith("\n")
        or "\n\n" in text
        or not separator.isascii()
        or not _well_quoted(contents, separator)
    ):
        return None
    width = _first_line(text).count(separator) + 1
    types = {f"f{k}": pyarrow.string() for k in range(width)}
    try:
        parsed = arrow_csv.read_csv(
            pyarrow.BufferReader(contents),
            arrow_csv.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=LONGEST_ROW),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pyarrow.ArrowInvalid:
        return None
    return (parsed.columns, range(1, parsed.num_rows + 1)) if parsed.num_columns == width else None


def _well_quoted(contents: bytes, separator: str) -> bool:
    """Whether quotes stand around whole entries within a line, or doubled within such."""
    if b'"' not in contents:
        return True
    signs = np.frombuffer(b"\n" + contents + b"\n", np.uint8)
    quotes, breaks = np.flatnonzero(signs == ord('"')), np.flatnonzero(signs == ord("\n"))
    if len(quotes) % 2 or (np.searchsorted(quotes, breaks) % 2).any():
        return False
    beside = signs[np.concatenate([quotes[0::2] - 1, quotes[1::2] + 1])]
    return bool(np.isin(beside, [ord(separator), ord("\n"), ord('"')]).all())


def _careful(
    text: str, separator: str, header: bool, path: Path
) -> tuple[list[pyarrow.ChunkedArray], Sequence[int]]:
    """Return columns and lines, or say what is wrong and where."""
    import pyarrow

    rows, lines = _quoted(text, separator, path) if '"' in text else _plain(text, separator)
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise ReadError(_ragged(row, width, separator, header), file=path, line=line)
    return [pyarrow.chunked_array([column], pyarrow.string()) for column in zip(*rows, strict=True)], lines


def _plain(text: str, separator: str) -> tuple[list[list[str]], range]:
    """Split text that has no quotes, without the limit of `csv` on an entry's length."""
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
