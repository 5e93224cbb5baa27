"""Tables that come in parts and need not fit into memory together: one pass that says what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hiddenfield.data.columns import Refuse, as_ids, coded
from hiddenfield.data.convert.kinds import FEW, Numbers
from hiddenfield.data.convert.mixed import _kept, _read, _typed, _wanted_kinds, as_table
from hiddenfield.data.table import DISCRETE, Table, TableColumn
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Bool, Int

MOST_SYMBOLS = 100_000
"""Different texts beyond which a column names rows rather than says what they are like."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What a table in parts holds.

    Parameters
    ----------
    rows
        How many there are.
    missing
        How many cells each column misses.
    observed, counts
        Which columns each pattern of missingness has, and how many rows have it; frequent ones first.
    sample
        Some of the rows, with the columns as all parts have them.
    """

    rows: int
    missing: Int[Array, " columns"]
    observed: Bool[Array, "patterns columns"]
    counts: Int[Array, " patterns"]
    sample: Table


def survey(
    parts: Iterable[Any],
    rows: Int[Array, " rows"],
    *,
    kinds: Mapping[Any, str] | str | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Survey:
    """Pass over the parts of a table once: what its columns hold, what is missing, and some rows.

    Kinds and symbols are those that `hiddenfield.data.as_table` would find if all parts were one table.

    Parameters
    ----------
    parts
        Arrow tables with the same columns.
    rows
        Those of the sample, by number, in increasing order.
    kinds, id, columns, drop
        As in `hiddenfield.data.as_table`.
    """
    seen: dict[str, _Seen] = {}
    patterns: Counter[bytes] = Counter()
    kept_rows, missing, begin = [], np.zeros(0, np.int64), 0
    for part in parts:
        kept = _kept(_read(part, None, True, None, (), id), id, None, columns, drop, None)
        if not seen:
            wanted = _wanted_kinds(kinds, list(kept))
            seen = {name: _Seen(name, wanted.get(name)) for name in kept}
            missing = np.zeros(len(seen), np.int64)
        if list(kept) != list(seen):
            raise InputError(f"row {begin:,} and on have other columns than the first: {list(kept)!r:.300}")
        there = np.stack(
            [seen[name].add(values, _refuse_from(begin)) for name, values in kept.items()], axis=1
        )
        missing += (~there).sum(axis=0)
        found, counts = np.unique(np.packbits(there, axis=1), axis=0, return_counts=True)
        patterns.update({row.tobytes(): int(count) for row, count in zip(found, counts, strict=True)})
        own = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, begin + len(there))]
        kept_rows.append(part.take(own - begin))
        begin += len(there)
    like = [each.column(_refuse_from(0)) for each in seen.values()]
    listed = patterns.most_common()
    packed = np.array([list(row) for row, _ in listed], np.uint8).reshape(len(listed), -1)
    observed = np.unpackbits(packed, axis=1, count=len(seen)).astype(bool)
    sample = as_table(_together(kept_rows), like=like, id=id)
    if sample.ids is None:
        sample = replace(sample, ids=as_ids(rows, len(rows)))
    return Survey(
        begin, missing, observed, np.array([count for _, count in listed]), replace(sample, form=None)
    )


def _together(tables: Sequence[Any]) -> Any:
    import pyarrow

    return pyarrow.concat_tables(tables, promote_options="permissive")


def _refuse_from(begin: int) -> Refuse:
    return lambda message, row: InputError(f"row {begin + row:,}: {message}")


@dataclass(eq=False)
class _Seen:
    """What a column has held so far, of the kind that was asked for."""

    name: str
    kind: str | None
    symbols: Vocabulary | None = None
    declared: bool = False
    numbers: Numbers = field(default_factory=Numbers)

    def add(self, values: Any, refuse: Refuse) -> Bool[Array, " rows"]:
        """Take in another part, and return where it has values."""
        from pyarrow import types

        numbers, vocabulary = coded(values, self.name, refuse)
        there = ~np.isnan(numbers)
        if vocabulary is not None:
            self.declared |= types.is_dictionary(values.type)
            self.symbols = vocabulary if self.symbols is None else self.symbols.union(vocabulary)
        elif there.any():
            if np.isinf(numbers).any():
                raise refuse(
                    f"column {self.name!r} is infinity; correct it", int(np.argmax(np.isinf(numbers)))
                )
            most = MOST_SYMBOLS if self.kind in DISCRETE else FEW
            self.numbers = self.numbers.joined(Numbers.of(numbers[there], most), most)
        lost = self.kind in DISCRETE and self.numbers.distinct is None
        if lost or (self.symbols is not None and len(self.symbols) > MOST_SYMBOLS):
            raise InputError(
                f"column {self.name!r} has more than {MOST_SYMBOLS:,} different values, too many for a category; leave "
                f"it out (drop), or say that it names the rows (id)"
            )
        return there

    def column(self, refuse: Refuse) -> TableColumn:
        """Return what it holds."""
        if self.symbols is not None:
            if self.numbers.count:
                raise InputError(f"column {self.name!r} holds numbers in some parts and texts in others")
            own = self.symbols
            if not self.declared:
                own = Vocabulary.from_values(self.name, list(own.symbols))[0]
            return _typed(self.name, self.kind, np.arange(float(len(own))), own, refuse)[0]
        numbers = self.numbers
        kind = numbers.kind if self.kind is None else self.kind
        some = [numbers.low, numbers.high, *([] if numbers.odd is None else [numbers.odd])]
        values = numbers.distinct if numbers.distinct is not None else np.array(some)
        return _typed(self.name, kind, values, None, refuse)[0]
