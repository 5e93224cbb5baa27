"""Numbers from text: lines of comma-separated integers or decimals, through pyarrow's CSV reader.

A file that pyarrow refuses, or that holds other characters than numbers need, is read line by line instead: what is
unusual but correct is accepted there, and what is wrong is named with its line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import ReadError
from hiddenfield.shapes import Array, Float, Int

__all__ = ["parse_floats", "parse_integers"]

INTEGER = re.compile(rb"[+-]?[0-9]+")
DECIMAL = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE
)
LINE_END = re.compile(rb"\r\n|\r|\n")

# Of these characters pyarrow accepts no number that the patterns above refuse.
USUAL = b"0123456789+-.eE, \t\r\n"
MOST_COLUMNS = 10_000


def parse_integers(contents: bytes, file: str | Path) -> Int[Array, "rows columns"]:
    r"""Parse lines of comma-separated integers; every line must have as many as the first.

    Blanks around a number are allowed, lines may end with ``\n``, ``\r\n`` or ``\r``, and blank lines may stand at
    the end only. So row r of the result is line r + 1.

    Parameters
    ----------
    contents
        The bytes of the file.
    file
        Its name, for messages.

    Returns
    -------
    (rows, columns) int64. Cost: one pass over the bytes.

    Raises
    ------
    ReadError
        Naming the file and the first line that is wrong; also if there is no number at all.

    Examples
    --------
    >>> parse_integers(b"1, 2\n-3, 4\n", "A.txt").tolist()
    [[1, 2], [-3, 4]]
    >>> parse_integers(b"1, 2\n3, x\n", "A.txt")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: A.txt, line 2: expected an integer, got 'x'
    """
    return _parse(contents, file, np.int64)


def parse_floats(contents: bytes, file: str | Path) -> Float[Array, "rows columns"]:
    r"""Parse lines of comma-separated decimal numbers, each to the double that ``float`` gives.

    ``nan`` and ``inf`` are read as such: whether they are allowed is for the caller to say. Everything else is as in
    `parse_integers`.

    Examples
    --------
    >>> parse_floats(b"0.1, 2\n-3e-5, .5", "attributes.txt").tolist()
    [[0.1, 2.0], [-3e-05, 0.5]]
    >>> parse_floats(b"0.1\n1.2.3\n", "attributes.txt")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: attributes.txt, line 2: expected a number, got '1.2.3'
    """
    return _parse(contents, file, np.float64)


def _parse(contents: bytes, file: str | Path, dtype: Any) -> Array:
    contents = contents.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n") + b"\n"
    first = LINE_END.search(contents)
    columns = contents.count(b",", 0, first.start() if first else 0) + 1
    values = None
    if columns <= MOST_COLUMNS and not contents.translate(None, USUAL):
        values = _parse_fast(contents, columns, dtype)
    return _parse_slowly(contents, file, dtype) if values is None else values


def _parse_fast(contents: bytes, columns: int, dtype: Any) -> Array | None:
    import pyarrow
    from pyarrow import csv

    kind = pyarrow.from_numpy_dtype(dtype)
    names = [str(column) for column in range(columns)]
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(contents),
            csv.ReadOptions(use_threads=False, column_names=names),
            csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, kind), null_values=[], strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        return None
    values = np.empty((table.num_rows, columns), dtype=dtype)
    for column in range(columns):
        values[:, column] = table.column(column).to_numpy()
    return values


def _parse_slowly(contents: bytes, file: str | Path, dtype: Any) -> Array:
    """Parse line by line; the first line that is wrong is named."""
    lines = LINE_END.split(contents[:-1])
    if lines == [b""]:
        raise ReadError("expected numbers, got an empty file; is it complete?", file=file)
    columns = lines[0].count(b",") + 1
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip(b" \t"):
            where = "" if number == 1 else " before others"
            raise ReadError(f"expected numbers, got a blank line{where}; remove it", file=file, line=number)
        fields = line.split(b",")
        row = [_convert(field, dtype is np.int64, file, number) for field in fields[:columns]]
        if len(fields) != columns:
            wanted = f"expected {columns} number{'s' if columns > 1 else ''}, as on the first line"
            came = "more" if len(fields) > columns else len(fields)
            raise ReadError(f"{wanted}, got {came}", file=file, line=number)
        rows.append(row)
    return np.array(rows, dtype=dtype)


def _convert(field: bytes, whole: bool, file: str | Path, line: int) -> int | float:
    field = field.strip(b" \t")
    shown = field[:40].decode("utf-8", errors="backslashreplace") + ("…" if len(field) > 40 else "")
    if not (INTEGER if whole else DECIMAL).fullmatch(field):
        raise ReadError(
            f"expected {'an integer' if whole else 'a number'}, got {shown!r}", file=file, line=line
        )
    if not whole:
        return float(field)
    # Python refuses to convert thousands of digits, and int64 has nineteen.
    value = int(field) if len(field) < 100 else 2**63
    if not -(2**63) <= value < 2**63:
        raise ReadError(f"expected an integer of at most 64 bits, got {shown}", file=file, line=line)
    return value
