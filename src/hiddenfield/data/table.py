"""`Table`: columns of mixed kinds with holes, their patterns of missingness, and their distinct rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.data.columns import distinct_rows
from hiddenfield.data.rows import Patterns, Rows
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

KINDS: Mapping[str, str] = {
    "continuous": "real numbers",
    "count": "whole numbers from 0 up",
    "binary": "one of two symbols",
    "categorical": "one of several symbols, in an order if they have one",
}
"""The kinds of columns."""

DISCRETE = ("binary", "categorical")


@dataclass(frozen=True)
class TableColumn:
    """What a column of a table holds: its name, one of `KINDS`, and the symbols of a binary or categorical one."""

    name: str
    kind: str
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        choose("kind of column", KINDS, self.kind)
        if (self.kind in DISCRETE) != (self.vocabulary is not None):
            raise InputError(
                f"column {self.name!r}: binary and categorical columns have a vocabulary, no others do"
            )

    @property
    def num_states(self) -> int:
        """How many symbols there are; 0 for numbers."""
        return 0 if self.vocabulary is None else len(self.vocabulary)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        symbols = None if self.vocabulary is None else list(self.vocabulary.symbols)
        return {"name": self.name, "kind": self.kind, "symbols": symbols}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableColumn:
        """Return the column that `as_dict` described."""
        name, symbols = plain["name"], plain["symbols"]
        return cls(name, plain["kind"], None if symbols is None else Vocabulary(name, tuple(symbols)))

    def __str__(self) -> str:
        """Name it, with its kind and some symbols."""
        if self.vocabulary is None:
            return f"{self.name}: {self.kind}"
        symbols = [str(symbol) for symbol in self.vocabulary.symbols]
        listed = ", ".join(symbols[:6]) + (", …" if len(symbols) > 6 else "")
        return f"{self.name}: {self.kind} ({len(symbols)}: {listed})"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers and symbols, any of which may be missing.

    Parameters
    ----------
    values
        Float64: numbers, or codes into the column's vocabulary; NaN where missing.
    columns
        What each column holds.
    ids
        One text for each row, or None.
    weights
        How much each row counts, or None for 1.
    form
        Makes the type that the table came as, of a table; None for a dict of columns.

    Examples
    --------
    >>> from hiddenfield.data import as_table
    >>> table = as_table({"age": [31.5, None, 42.0], "sex": ["f", "m", None]})
    >>> print(table.describe())
    3 rows, 2 columns, 2 of 6 cells missing
      age: continuous, 1 missing
      sex: binary (2: f, m), 1 missing
    >>> table.patterns().observed.tolist()
    [[True, True], [False, True], [True, False]]
    """

    values: Float[Array, "rows columns"]
    columns: tuple[TableColumn, ...]
    ids: Array | None = None
    weights: Float[Array, " rows"] | None = None
    form: Callable[[Table], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rows, width = self.values.shape
        if width != len(self.columns) or len(set(self.names)) != width:
            raise InputError(f"{width} columns need as many distinct names, got {list(self.names)!r:.300}")
        for what, given in (("ids", self.ids), ("weights", self.weights)):
            if given is not None and given.shape != (rows,):
                raise InputError(f"{what} must have one entry for each of {rows} rows, got {given.shape}")
        if self.weights is not None and not (np.isfinite(self.weights) & (self.weights >= 0)).all():
            row = int(np.argmin(np.isfinite(self.weights) & (self.weights >= 0)))
            raise InputError(f"weights must be finite and not negative, got {self.weights[row]} in row {row}")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.kind for column in self.columns)

    @cached_property
    def missing(self) -> Bool[Array, "rows columns"]:
        """Which cells are missing."""
        return np.isnan(self.values)

    def row_weights(self) -> Float[Array, " rows"]:
        """Return the weights, 1 where none were given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def take(self, rows: Any) -> Table:
        """Return some of the rows: a slice, a mask or their numbers. They are given back as columns by name."""
        ids, weights = (None if each is None else each[rows] for each in (self.ids, self.weights))
        return Table(self.values[rows], self.columns, ids, weights)

    def select(self, names: Sequence[str]) -> Table:
        """Return the named columns, in that order."""
        for name in names:
            choose("column", dict.fromkeys(self.names), name)
        places = [self.names.index(name) for name in names]
        columns = tuple(self.columns[place] for place in places)
        return Table(self.values[:, places], columns, self.ids, self.weights)

    def with_values(self, values: Float[Array, "rows columns"]) -> Table:
        """Return the table with other cells, as imputation makes them."""
        return replace(self, values=values)

    def codes(self) -> Int[Array, "rows columns"]:
        """Return the codes of a table of symbols, -1 where missing."""
        for column in self.columns:
            if column.vocabulary is None:
                raise InputError(
                    f"column {column.name!r} holds {KINDS[column.kind]}, not symbols; cut it into intervals before, "
                    f"or say that it is categorical (kinds={{{column.name!r}: 'categorical'}})"
                )
        return np.where(self.missing, -1, self.values).astype(np.int32)

    def patterns(self) -> Patterns:
        """Return the distinct patterns of missingness, the most frequent first."""
        return Rows(self.values).patterns

    def distinct(self) -> tuple[Table, Int[Array, " rows"]]:
        """Return the distinct rows, weighted by the sum of the weights of those alike, and for each row its own.

        Examples
        --------
        >>> from hiddenfield.data import as_table
        >>> table, number = as_table({"a": ["x", "y", "x"], "b": [None, "u", None]}).distinct()
        >>> table.to_dict(), table.weights.tolist(), number.tolist()
        ({'a': ['x', 'y'], 'b': [None, 'u']}, [2.0, 1.0], [0, 1, 0])
        """
        codes, sizes = np.zeros(self.values.shape, np.int64), []
        for j, column in enumerate(self.columns):
            if column.vocabulary is not None:
                codes[:, j] = np.where(self.missing[:, j], 0, self.values[:, j] + 1)
                sizes.append(column.num_states + 1)
            else:
                found, codes[:, j] = np.unique(self.values[:, j], return_inverse=True)
                sizes.append(len(found))
        rows, number = (each.numpy() for each in distinct_rows(torch.from_numpy(codes), sizes))
        first = np.full(len(rows), len(self), np.int64)
        np.minimum.at(first, number, np.arange(len(self)))
        weights = np.bincount(number, weights=self.weights, minlength=len(rows)).astype(np.float64)
        return Table(self.values[first], self.columns, None, weights), number

    def decoded(self, column: int) -> list[Any]:
        """Return a column as numbers or symbols, None where missing; whole numbers of a count are integers."""
        described, values, absent = self.columns[column], self.values[:, column], self.missing[:, column]
        if described.vocabulary is not None:
            symbols = described.vocabulary.symbols
            return [None if gone else symbols[int(code)] for code, gone in zip(values, absent, strict=True)]
        whole = described.kind == "count" and bool((values[~absent] % 1 == 0).all())
        return [
            None if gone else int(number) if whole else float(number)
            for number, gone in zip(values, absent, strict=True)
        ]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of numbers and symbols, None where missing."""
        return {name: self.decoded(column) for column, name in enumerate(self.names)}

    def restore(self) -> Any:
        """Return the table as the type that it came as: a data frame, an array, a list of rows, or a dict."""
        return self.to_dict() if self.form is None else self.form(self)

    def describe(self) -> str:
        """Say what each column was taken for, and how much of it is missing."""
        return described(self.columns, len(self), self.missing.sum(axis=0))

    def __repr__(self) -> str:
        """Count the columns of each kind."""
        kinds = ", ".join(f"{self.kinds.count(kind)} {kind}" for kind in KINDS if kind in self.kinds)
        return f"Table({len(self):,} rows; columns: {kinds or 'none'}; {int(self.missing.sum()):,} cells missing)"


def described(columns: Sequence[TableColumn], rows: int, missing: Int[Array, " columns"]) -> str:
    """Say what each column was taken for, and how many of its cells are missing."""
    cells = f"{int(missing.sum()):,} of {rows * len(columns):,} cells missing"
    lines = [f"{rows:,} rows, {len(columns)} columns, {cells}"]
    for column, count in zip(columns, missing, strict=True):
        lines.append(f"  {column}" + (f", {count:,} missing" if count else ""))
    return "\n".join(lines)
