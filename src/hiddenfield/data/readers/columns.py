"""A column of text entries to numbers, classes or texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Float

__all__ = ["MISSING", "as_missing", "further_column", "target_column"]

# Entries that stand for a value that is not known.
MISSING = ("", "NA", "NaN", "nan", "null")

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Integers as one writes them, which fit 64 bits; "1.0" is what other programs make of 1 beside a missing entry.
INTEGER = re.compile(r"(-?[1-9]\d{0,17}|0)(\.0*)?", re.ASCII)


def target_column(
    entries: Sequence[str],
    name: str,
    *,
    classes: bool,
    missing: Collection[str],
    file: Path,
    lines: Sequence[int],
) -> tuple[Float[Array, " rows"], Vocabulary | None]:
    """Return a column of numbers, or of class codes with their vocabulary; NaN where an entry is missing.

    A column whose entries are all numbers holds numbers, unless `classes`. Otherwise it holds classes; but if more
    than half of its entries are numbers, the others are taken for mistakes and refused.

    Examples
    --------
    >>> target_column(["1.5", "NA"], "t", classes=False, missing=MISSING, file=Path("t.csv"), lines=[2, 3])[0]
    array([1.5, nan])
    >>> target_column(["b", "a"], "t", classes=False, missing=MISSING, file=Path("t.csv"), lines=[2, 3])[1]
    Vocabulary('t', 2: 'a', 'b')
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
            raise ReadError(message, file=file, line=lines[row])
        return result, None
    if not classes:
        _refuse_mixture(entries, present, name, missing, file, lines)
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
    if isinstance(missing, str) or not all(isinstance(entry, str) for entry in missing):
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


def _refuse_mixture(
    entries: Sequence[str],
    present: Array,
    name: str,
    missing: Collection[str],
    file: Path,
    lines: Sequence[int],
) -> None:
    is_number = np.array([NUMBER.fullmatch(entry) is not None for entry in entries], dtype=bool) & present
    count, total = int(is_number.sum()), int(present.sum())
    if 2 * count <= total:
        return
    row = int(np.argmax(present & ~is_number))
    known = ", ".join(repr(entry) for entry in sorted(missing))
    raise ReadError(
        f"column {name!r} holds numbers in {count} of {total} rows, but {entries[row]!r:.60} here; correct it, write "
        f"one of {known} if it is missing, or read the column as classes",
        file=file,
        line=lines[row],
    )
