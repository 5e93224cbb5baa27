"""Columns of a table from what came: as numbers or symbols, then of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.arrow.arrays import to_numpy
from hiddenfield.data.table import DISCRETE, TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, UnknownSymbolError
from hiddenfield.shapes import Array, Float

FEW = 10
"""Whole numbers of at most so many different values are taken for categories."""

Refuse = Callable[[str, int], InputError]
"""Makes the error of a message and a row, which names the row."""


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column as numbers with NaN, or as symbols with codes (-1 where missing)."""

    numbers: Float[Array, " rows"] | None = None
    vocabulary: Vocabulary | None = None
    codes: Array | None = None


def raw_column(values: Any, name: str, refuse: Refuse) -> RawColumn:
    """Read a column of any type as numbers or as symbols."""
    if hasattr(values, "combine_chunks"):
        return _of_arrow(values, name)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        return RawColumn(values.astype(np.float64))
    entries = values.tolist() if isinstance(values, np.ndarray) else list(values)
    codes = np.full(len(entries), -1, np.int32)
    present = [row for row, entry in enumerate(entries) if not _absent(entry)]
    given = [entries[row] for row in present]
    if all(isinstance(entry, (int, float, np.number, np.bool_)) for entry in given):
        numbers = np.full(len(entries), np.nan)
        numbers[present] = given
        return RawColumn(numbers)
    try:
        vocabulary, codes[present] = Vocabulary.from_values(name, given)
    except InputError:
        odd = next(row for row in present if not isinstance(entries[row], (str, int, np.integer, np.bool_)))
        kind = type(entries[odd]).__name__
        raise refuse(
            f"column {name!r}: expected numbers or symbols (texts or integers), got {entries[odd]!r:.60}, a {kind}",
            odd,
        ) from None
    return RawColumn(None, vocabulary, codes)


def _absent(entry: Any) -> bool:
    """Say whether an entry is None, NaN or the missing value of pandas."""
    if entry is None:
        return True
    equal = entry == entry
    return not equal if isinstance(equal, (bool, np.bool_)) else True


def _of_arrow(values: Any, name: str) -> RawColumn:
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_null(kind):
        return RawColumn(np.full(len(values), np.nan))
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(pyarrow.uint8() if types.is_boolean(kind) else kind).cast(
            pyarrow.float64(), safe=False
        )
        return RawColumn(np.array(to_numpy(numbers, np.nan)))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return RawColumn(None, *Vocabulary.from_arrow(name, values.cast(pyarrow.large_string())))
    if types.is_dictionary(kind):  # categories, in the order in which they were declared
        declared = values.unify_dictionaries().combine_chunks()
        symbols = declared.dictionary.to_pylist()
        if any(not isinstance(symbol, (str, int)) for symbol in symbols):
            symbols = [str(symbol) for symbol in symbols]
        codes = to_numpy(declared.indices, -1).astype(np.int32)
        return RawColumn(None, Vocabulary(name, tuple(symbols)), codes)
    raise InputError(
        f"column {name!r} holds {kind}; expected numbers, texts or categories: convert it, or leave it out with "
        f"drop=[{name!r}]"
    )


def typed_column(raw: RawColumn, name: str, kind: str | None, refuse: Refuse) -> tuple[TableColumn, Array]:
    """Return a column of the kind that was asked for, or of the one that it looks like."""
    if raw.numbers is None:
        vocabulary, codes = raw.vocabulary, raw.codes
        assert vocabulary is not None
        assert codes is not None
        if kind not in (None, *DISCRETE):
            numbers = _spelled_numbers(vocabulary, codes, name, str(kind), refuse)
            return typed_column(RawColumn(numbers), name, kind, refuse)
        return _symbols(name, kind, vocabulary, np.where(codes < 0, np.nan, codes), refuse)
    numbers = raw.numbers
    present = ~np.isnan(numbers)
    kind = _recognised(numbers[present]) if kind is None else kind
    if kind == "continuous":
        return TableColumn(name, kind), numbers
    odd = present & ((numbers % 1 != 0) | (numbers < 0) & (kind == "count"))
    if odd.any():
        row = int(np.argmax(odd))
        takes = "whole numbers from 0 up" if kind == "count" else "texts and whole numbers"
        raise refuse(f"column {name!r} is {kind}, which takes {takes}, but holds {numbers[row]:g}", row)
    if kind == "count":
        return TableColumn(name, kind), numbers
    result = np.full(len(numbers), np.nan)
    vocabulary, result[present] = Vocabulary.from_values(name, numbers[present].astype(np.int64))
    if set(vocabulary.symbols) <= {0, 1}:  # also where only one of them occurs
        vocabulary, result = Vocabulary(name, (0, 1)), numbers
    return _symbols(name, kind, vocabulary, result, refuse)


def _symbols(
    name: str, kind: str | None, vocabulary: Vocabulary, values: Array, refuse: Refuse
) -> tuple[TableColumn, Array]:
    if kind == "binary" and len(vocabulary) > 2:
        third = int(np.argmax(values >= 2))
        raise refuse(
            f"column {name!r} is to be binary, but has {len(vocabulary)} symbols: {vocabulary}", third
        )
    kind = ("binary" if len(vocabulary) <= 2 else "categorical") if kind is None else kind
    return TableColumn(name, kind, vocabulary), values


def _recognised(present: Float[Array, " values"]) -> str:
    """Return the kind that numbers look like."""
    if not len(present) or not np.isfinite(present).all() or (present % 1 != 0).any():
        return "continuous"
    distinct = len(np.unique(present))
    if present.min() >= 0 and present.max() <= 1:
        return "binary"
    if distinct <= FEW and len(present) >= 3 * distinct and np.abs(present).max() < 2**31:
        return "binary" if distinct <= 2 else "categorical"
    if present.min() == 0 and present.var() <= 10 * present.mean():
        return "count"
    return "continuous"


def _spelled_numbers(vocabulary: Vocabulary, codes: Array, name: str, kind: str, refuse: Refuse) -> Array:
    numbers = np.full(len(vocabulary) + 1, np.nan)
    for code, symbol in enumerate(vocabulary.symbols):
        try:
            numbers[code] = float(symbol)
        except ValueError:
            if not (codes == code).any():
                continue
            row = int(np.argmax(codes == code))
            raise refuse(f"column {name!r} is {kind}, but holds {symbol!r:.60}", row) from None
    return numbers[codes]


def column_as_before(raw: RawColumn, column: TableColumn, unseen: str, refuse: Refuse) -> Array:
    """Return a column as that of an earlier table of the same kind: codes in the same vocabulary."""
    if column.vocabulary is None:
        if raw.numbers is None:
            assert raw.vocabulary is not None
            assert raw.codes is not None
            return _spelled_numbers(raw.vocabulary, raw.codes, column.name, column.kind, refuse)
        if column.kind == "count":
            return typed_column(raw, column.name, "count", refuse)[1]
        return raw.numbers
    if raw.numbers is not None:
        present = ~np.isnan(raw.numbers)
        symbols, inverse = np.unique(raw.numbers[present], return_inverse=True)
        own: list[Any] = [int(symbol) if symbol % 1 == 0 else float(symbol) for symbol in symbols.tolist()]
        codes = np.full(len(raw.numbers), -1)
        codes[present] = inverse
    else:
        assert raw.vocabulary is not None
        assert raw.codes is not None
        own, codes = list(raw.vocabulary.symbols), raw.codes
    known: dict[Any, float] = {symbol: float(code) for code, symbol in enumerate(column.vocabulary.symbols)}
    texts = {
        str(symbol): code for symbol, code in known.items()
    }  # a number that came as a text, or the reverse
    mapped: Array = np.array([known.get(symbol, texts.get(str(symbol), np.nan)) for symbol in own] + [np.nan])
    values: Array = mapped[codes]
    if unseen == "error" and (strange := (codes >= 0) & np.isnan(values)).any():
        row = int(np.argmax(strange))
        error = refuse(
            f"column {column.name!r}: {own[codes[row]]!r} was not among the symbols when the model was fitted "
            f"({column.vocabulary}); correct it, or take it for missing with unseen='missing'",
            row,
        )
        raise UnknownSymbolError(str(error))
    return values


def refuse_infinite(matrix: Float[Array, "rows columns"], names: Sequence[str], refuse: Refuse) -> None:
    """Refuse infinity, naming its cell."""
    if np.isinf(matrix).any():
        row, column = (int(place) for place in np.argwhere(np.isinf(matrix))[0])
        raise refuse(
            f"column {names[column]!r} is infinity ({matrix[row, column]}); correct it, or mark it as missing",
            row,
        )
