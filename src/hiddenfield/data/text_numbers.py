r"""Numbers from text: lines of comma-separated integers or decimals, parsed from the bytes by a compiled kernel.

The kernel does what it can do exactly and stops at every field that it cannot; Python then converts that field
or names its line. A decimal :math:`m \cdot 10^e` with a short :math:`m` and a small :math:`|e|` is one exact
product or quotient of two doubles. A longer one is the product of two unevaluated sums of two doubles, whose
relative error is below :math:`2^{-95}`; it is taken only if every number within that error rounds to the same
double, so that the result is always the one that Python's ``float`` gives.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import ReadError
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float, Int

__all__ = ["parse_floats", "parse_integers"]

INTEGER = re.compile(rb"[+-]?[0-9]+")
DECIMAL = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE
)
FIELD_END = re.compile(rb"[,\r\n]")

# What `_fill` reports when it stops.
DONE, FIELD, TOO_MANY, TOO_FEW, BLANK = range(5)

LARGEST_POWER = 250  # 10**±250 times 10**18, and the rounding errors of the product, are all normal doubles


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
    contents = contents.removeprefix(b"\xef\xbb\xbf")
    buffer = np.frombuffer(contents, dtype=np.uint8)
    columns, capacity = _shape(contents, buffer, file)
    values = np.empty((capacity, columns), dtype=dtype)
    high, low = _powers_of_ten()
    state = np.zeros(4, dtype=np.int64)  # where to go on: byte, row, column; and why it stopped
    while True:
        _fill(buffer, state, high, low, dtype is np.int64, values, work=0)
        at, row, column, status = state.tolist()
        if status == DONE:
            return values[:row]
        if status != FIELD:
            raise ReadError(_structural(status, column, columns), file=file, line=row + 1)
        end = match.start() if (match := FIELD_END.search(contents, at)) else len(contents)
        values[row, column] = _convert(contents[at:end], dtype is np.int64, file, row + 1)
        state[0], state[3] = end, FIELD  # go on behind the field, whose value is there now


def _shape(contents: bytes, buffer: Array, file: str | Path) -> tuple[int, int]:
    """Return the columns of the first line, and the most rows that there can be."""
    ends = re.search(rb"[\r\n]", contents)
    first = contents if ends is None else contents[: ends.start()]
    if not first.strip(b" \t"):
        if not contents.strip():
            raise ReadError("expected numbers, got an empty file; is it complete?", file=file)
        raise ReadError("expected numbers, got a blank line; remove it", file=file, line=1)
    rows = int(np.count_nonzero(buffer == 10)) + 1
    if b"\r" in contents:
        rows += contents.count(b"\r") - contents.count(b"\r\n")
    columns = first.count(b",") + 1
    # A number takes two bytes at least, so a long first line in front of many short ones reserves no memory.
    return columns, min(rows, len(contents) // (2 * columns) + 2)


def _structural(status: int, column: int, columns: int) -> str:
    wanted = f"expected {columns} number{'s' if columns > 1 else ''}, as on the first line"
    if status == BLANK:
        return "expected numbers, got a blank line before others; remove it"
    return f"{wanted}, got {'more' if status == TOO_MANY else column + 1}"


def _convert(field: bytes, whole: bool, file: str | Path, line: int) -> int | float:
    """Convert a field that the kernel left, or say why that cannot be done."""
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


@lru_cache(maxsize=1)
def _powers_of_ten() -> tuple[Float[Array, " powers"], Float[Array, " powers"]]:
    """Return 10**e for e from -250 to 250 as sums of two doubles, the second below half a unit of the first."""
    exact = [Fraction(10) ** exponent for exponent in range(-LARGEST_POWER, LARGEST_POWER + 1)]
    high = [float(power) for power in exact]
    low = [float(power - Fraction(first)) for power, first in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)


@compiled
def _fill(buffer: Array, state: Array, high: Array, low: Array, whole: bool, values: Array) -> None:
    size, columns = buffer.size, values.shape[1]
    at, row, column, converted = state[0], state[1], state[2], state[3] == 1
    while True:
        if not converted:
            while at < size and (buffer[at] == 32 or buffer[at] == 9):
                at += 1
            if column == 0 and (at == size or buffer[at] == 10 or buffer[at] == 13):
                while at < size and (
                    buffer[at] == 10 or buffer[at] == 13 or buffer[at] == 32 or buffer[at] == 9
                ):
                    at += 1
                state[0], state[1], state[2], state[3] = at, row, 0, 0 if at == size else 4
                return
            # -- one field: sign, digits, point, digits, exponent
            start = at
            negative = at < size and buffer[at] == 45
            if at < size and (buffer[at] == 45 or buffer[at] == 43):
                at += 1
            mantissa, significant, exponent = np.int64(0), 0, 0
            digits, truncated = 0, False
            point = False
            while at < size:
                digit = np.int64(buffer[at]) - 48
                if 0 <= digit <= 9:
                    digits += 1
                    if significant < 18:
                        mantissa = mantissa * 10 + digit
                        if mantissa > 0:
                            significant += 1
                        if point:
                            exponent -= 1
                    else:
                        truncated = truncated or whole or bool(digit > 0)
                        if not point:
                            exponent += 1
                elif digit == -2 and not point and not whole:
                    point = True
                else:
                    break
                at += 1
            good = digits > 0
            if good and not whole and at < size and (buffer[at] == 101 or buffer[at] == 69):
                at += 1
                falling = at < size and buffer[at] == 45
                if at < size and (buffer[at] == 45 or buffer[at] == 43):
                    at += 1
                power, good = 0, False
                while at < size and 48 <= buffer[at] <= 57:
                    good = True
                    if power < 100000:
                        power = power * 10 + int(buffer[at]) - 48
                    at += 1
                exponent = exponent - power if falling else exponent + power
            while at < size and (buffer[at] == 32 or buffer[at] == 9):
                at += 1
            good = good and (at == size or buffer[at] == 44 or buffer[at] == 10 or buffer[at] == 13)
            # -- its value
            if whole:
                good = good and not truncated
                if good:
                    values[row, column] = -mantissa if negative else mantissa
            elif good:
                value = np.float64(mantissa)
                if mantissa != 0 and (
                    truncated or mantissa > 9007199254740992 or exponent < -22 or exponent > 22
                ):
                    good = -250 <= exponent <= 250
                    if good:
                        # (value + rest) * (power + small), with Dekker's exact product of value and power
                        rest = np.float64(mantissa - np.int64(value))
                        first, small = high[exponent + 250], low[exponent + 250]
                        product = value * first
                        split = 134217729.0 * value
                        value_high = split - (split - value)
                        value_low = value - value_high
                        split = 134217729.0 * first
                        first_high = split - (split - first)
                        first_low = first - first_high
                        error = value_high * first_high - product
                        error = error + value_high * first_low + value_low * first_high
                        error = error + value_low * first_low
                        error = error + (value * small + rest * first)
                        total = product + error
                        error = error - (total - product)
                        # 18 digits kept of more: the rest is below 1e-17 of the number, less than 2**-56
                        bound = total * (2.0**-56 if truncated else 2.0**-95)
                        good = total + (error + bound) == total and total + (error - bound) == total
                        value = total
                elif exponent < 0 and mantissa != 0:
                    value = value / high[250 - exponent]
                elif mantissa != 0:
                    value = value * high[250 + exponent]
                if good:
                    values[row, column] = -value if negative else value
            if not good:
                state[0], state[1], state[2], state[3] = start, row, column, 1
                return
        converted = False
        # -- what follows the field
        if at < size and buffer[at] == 44:
            if column + 1 == columns:
                state[1], state[2], state[3] = row, column, 2
                return
            column += 1
            at += 1
            continue
        if column + 1 < columns:
            state[1], state[2], state[3] = row, column, 3
            return
        row += 1
        column = 0
        if at < size:
            at += 2 if buffer[at] == 13 and at + 1 < size and buffer[at + 1] == 10 else 1
