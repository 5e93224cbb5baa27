"""Vocabulary: the symbols that categorical codes stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.arrow_arrays import to_numpy
from hiddenfield.errors import InputError, UnknownSymbolError
from hiddenfield.registry import did_you_mean
from hiddenfield.shapes import Array, Int, Shaped

Symbol = str | int

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
SMALL_RANGE = 1 << 16  # integers within such a range are counted instead of sorted


@dataclass(frozen=True)
class Vocabulary:
    """An ordered set of symbols, with a name; code k stands for ``symbols[k]``.

    It travels with the data and with a saved model, so that the same symbol has the same code everywhere.

    Parameters
    ----------
    name
        What the symbols are, for example ``"element"``.
    symbols
        Distinct strings or integers.

    Examples
    --------
    >>> bases = Vocabulary("base", ("A", "C", "G", "T"))
    >>> bases.encode(["G", "A"])
    array([2, 0], dtype=int32)
    >>> bases.decode([3, 1])
    ['T', 'C']
    >>> bases.encode(["A", "U"])
    Traceback (most recent call last):
    hiddenfield.errors.UnknownSymbolError: base 'U' at position 1 is not in the vocabulary of 4: 'A', 'C', 'G', 'T'; \
encode it with a vocabulary that has it, or replace it before
    """

    name: str
    symbols: tuple[Symbol, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"a vocabulary's name must be a string, got {self.name!r}")
        symbols = tuple(_plain(symbol, self.name) for symbol in self.symbols)
        object.__setattr__(self, "symbols", symbols)
        if len(self._codes) != len(symbols):
            seen: set[Symbol] = set()
            twice = next(s for s in symbols if s in seen or seen.add(s))  # type: ignore[func-returns-value]
            raise InputError(
                f"the symbols of vocabulary {self.name!r} must be distinct; {twice!r} occurs twice"
            )

    @cached_property
    def _codes(self) -> dict[Symbol, int]:
        return {symbol: code for code, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        """Return the number of symbols."""
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        """Say whether the symbol is known."""
        return symbol in self._codes

    def __repr__(self) -> str:
        """Name and the first symbols."""
        return f"Vocabulary({self.name!r}, {len(self)}: {_listing(self.symbols)})"

    @classmethod
    def from_values(cls, name: str, values: Sequence[Any] | Array) -> tuple[Vocabulary, Int[Array, " rows"]]:
        """Build the vocabulary of the values that occur, sorted (integers first), and their codes.

        Examples
        --------
        >>> vocabulary, codes = Vocabulary.from_values("atom", ["O", "C", "O"])
        >>> vocabulary.symbols, codes
        (('C', 'O'), array([1, 0, 1], dtype=int32))
        """
        distinct, inverse = _distinct(values, name)
        order = sorted(range(len(distinct)), key=lambda k: (isinstance(distinct[k], str), distinct[k]))
        rank = np.empty(len(distinct), dtype=np.int32)
        rank[order] = np.arange(len(distinct), dtype=np.int32)
        return cls(name, tuple(distinct[k] for k in order)), rank[inverse]

    @classmethod
    def from_arrow(
        cls, name: str, values: Any, read: Callable[[list[Any]], Sequence[Any]] = list
    ) -> tuple[Vocabulary, Int[Array, " rows"]]:
        """Do the same for an Arrow column, whose nulls have the code -1; `read` makes symbols of its entries.

        Examples
        --------
        >>> import pyarrow
        >>> vocabulary, codes = Vocabulary.from_arrow("atom", pyarrow.chunked_array([["O", None], ["C"]]))
        >>> vocabulary.symbols, codes.tolist()
        (('C', 'O'), [1, -1, 0])
        """
        encoded = values.dictionary_encode().unify_dictionaries().combine_chunks()
        vocabulary, rank = cls.from_values(name, read(encoded.dictionary.to_pylist()))
        return vocabulary, np.append(rank, np.int32(-1))[to_numpy(encoded.indices, -1)]

    def encode(self, values: Sequence[Any] | Array) -> Int[Array, " rows"]:
        """Return the code of every value; an unknown one is an `UnknownSymbolError` that names it."""
        distinct, inverse = _distinct(values, self.name)
        codes = np.array([self._codes.get(symbol, -1) for symbol in distinct], dtype=np.int32)
        result = codes[inverse]
        if (codes < 0).any():
            position = int(np.argmax(result < 0))
            raise UnknownSymbolError(self._unknown(distinct[inverse[position]], position))
        return result

    def decode(self, codes: Iterable[int] | Array) -> list[Symbol]:
        """Return the symbol of every code."""
        array = np.asarray(codes if isinstance(codes, np.ndarray) else list(codes), dtype=np.int64)
        if array.size and (array.min() < 0 or array.max() >= len(self)):
            bad = array[(array < 0) | (array >= len(self))][0]
            raise InputError(f"codes of vocabulary {self.name!r} must lie in 0 to {len(self) - 1}, got {bad}")
        return [self.symbols[code] for code in array]

    def union(self, other: Vocabulary) -> Vocabulary:
        """Return this vocabulary followed by what only the other one has."""
        return Vocabulary(self.name, self.symbols + tuple(s for s in other.symbols if s not in self._codes))

    def recode_to(self, other: Vocabulary) -> Int[Array, " symbols"]:
        """Return, for each of the own codes, the code of the same symbol in the other, or -1."""
        return np.array([other._codes.get(symbol, -1) for symbol in self.symbols], dtype=np.int32)

    def _unknown(self, symbol: Symbol, position: int) -> str:
        hint = did_you_mean(symbol, self.symbols) if len(self) > 8 else ""
        return (
            f"{self.name} {symbol!r} at position {position} is not in the vocabulary of {len(self)}: "
            f"{_listing(self.symbols)}{hint}; encode it with a vocabulary that has it, or replace it before"
        )


def _listing(symbols: Sequence[Symbol], most: int = 8) -> str:
    shown = ", ".join(repr(symbol) for symbol in symbols[:most])
    return shown + (", …" if len(symbols) > most else "")


def _plain(value: Any, name: str) -> Symbol:
    """Return a plain str or int; anything else is refused, since it could not be saved and read back equal."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer, np.bool_)):
        return int(value)
    raise InputError(
        f"symbols of {name!r} must be strings or integers, got {value!r} of type {type(value).__name__}"
    )


def _distinct(values: Sequence[Any] | Array, name: str) -> tuple[list[Symbol], Shaped[Array, " rows"]]:
    """Return the distinct symbols, in any order, and for each value the number of its symbol."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubUST":
        if values.ndim != 1:
            raise InputError(f"values of {name!r} must be one-dimensional, got shape {values.shape}")
        if len(values) and np.can_cast(values.dtype, np.int64):
            low, high = int(values.min()), int(values.max())
            if high - low < SMALL_RANGE:
                shifted = values.astype(np.int64) - low
                occurs = np.bincount(shifted) > 0
                return list((np.flatnonzero(occurs) + low).tolist()), (np.cumsum(occurs) - 1)[shifted]
        distinct, inverse = np.unique(values, return_inverse=True)
        return [_plain(value, name) for value in distinct.tolist()], inverse.reshape(-1)
    numbers: dict[Symbol, int] = {}
    inverse = np.empty(len(values), dtype=np.int64)
    for position, value in enumerate(values):
        plain = value if type(value) is str else _plain(value, name)
        inverse[position] = numbers.setdefault(plain, len(numbers))
    return list(numbers), inverse


def symbols_of(texts: Sequence[str]) -> list[str] | list[int]:
    """Return the texts as integers if every one is the plain decimal form of one, otherwise as they are.

    Examples
    --------
    >>> symbols_of(["3", "-1"]), symbols_of(["3", "03"])
    ([3, -1], ['3', '03'])
    """
    if all(INTEGER.fullmatch(text) for text in set(texts)):
        return [int(text) for text in texts]
    return list(texts)
