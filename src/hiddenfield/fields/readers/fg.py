"""libDAI's factor graphs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_text, write_text
from hiddenfield.fields.build import MOST_PORTS
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import FIELD_FORMATS
from hiddenfield.fields.readers.text import (
    MOST_ENTRIES,
    Words,
    cut,
    ground_tables,
    number_texts,
    read_factors,
)
from hiddenfield.shapes import Array, Float

COMMENT = re.compile(r"#[^\n]*")


def read(path: str | Path) -> FactorGraph:
    """Read a ``.fg`` file.

    The number of factors, then for each: its number of variables, their labels, their numbers of states, the number of
    entries, and the entries as pairs of index and value; the *first* variable runs fastest, entries that are not there
    are 0, and ``#`` begins a comment. Labels need not be contiguous: variables are numbered in the order of their
    labels, and named by them where that makes a difference.
    """
    words = Words(read_text(path), path, comment=COMMENT)
    cards: dict[int, int] = {}
    labels: list[list[int]] = []
    shapes: list[list[int]] = []
    entries: list[tuple[list[int], range]] = []
    budget = MOST_ENTRIES
    for _ in range(words.integer("the number of factors")):
        scope, shape = _scope(words, cards)
        budget -= math.prod(shape)
        if budget < 0:
            words.fail(f"at most {MOST_ENTRIES:,} entries in all tables", got="got more")
        labels.append(scope)
        shapes.append(shape)
        entries.append(_table(words, shape))
    words.end()
    logs = words.logs([place for _, place in entries], "a number of at least 0")
    parts = cut(logs, [[len(indices)] for indices, _ in entries])
    tables = [
        _filled(shape, indices, part)
        for shape, (indices, _), part in zip(shapes, entries, parts, strict=True)
    ]
    number = {label: variable for variable, label in enumerate(sorted(cards))}
    contiguous = len(number) == max(number, default=-1) + 1
    return read_factors(
        path,
        [[number[label] for label in scope] for scope in labels],
        tables,
        [cards[label] for label in number],
        variable_names=[] if contiguous else [str(label) for label in number],
    )


def _scope(words: Words, cards: dict[int, int]) -> tuple[list[int], list[int]]:
    size = words.integer("the number of variables of a factor", 0, MOST_PORTS)
    scope = words.integers(size, "the label of a variable")
    if len(set(scope)) < size:
        words.fail("every variable once in a factor", got=f"got {' '.join(map(str, scope))}")
    shape = words.integers(size, "a number of states", 1, MOST_ENTRIES)
    for label, states in zip(scope, shape, strict=True):
        known = cards.setdefault(label, states)
        if known != states:
            words.fail(f"{known} states of variable {label}, as before", got=f"got {states}")
    if sum(cards.values()) > MOST_ENTRIES:
        words.fail(f"at most {MOST_ENTRIES:,} states in all", got="got more")
    return scope, shape


def _table(words: Words, shape: list[int]) -> tuple[list[int], range]:
    """Return the indices of the entries of a table, and where their values stand."""
    total = math.prod(shape)
    entries = words.integer("the number of entries", 0, total)
    words.need(2 * entries, "an entry")
    begin, end = words.at, words.at + 2 * entries
    indices: dict[int, None] = {}
    for at in range(begin, end, 2):
        words.at = at
        index = words.integer("the index of an entry", 0, total - 1)
        if index in indices:
            words.fail("every index once in a table")
        indices[index] = None
    words.at = end
    return list(indices), range(begin + 1, end, 2)


def _filled(shape: list[int], indices: list[int], logs: Float[Array, " entries"]) -> Float[Array, "*states"]:
    table = np.full(math.prod(shape), -np.inf)
    table[indices] = logs
    return table.reshape(shape, order="F")


def write(field: FactorGraph, path: str | Path) -> None:
    """Write a ``.fg`` file; reading it gives the field again, up to rounding of the logarithms.

    Names that are increasing integers are written as labels, other names have no place in the format. A variable
    without a factor is given one of ones, since the format has variables only through factors.
    """
    factors = ground_tables(field)
    labels = _labels(field)
    cards = field.cardinalities.tolist()
    used = {variable for scope, _ in factors for variable in scope}
    factors += [([v], np.zeros(states)) for v, states in enumerate(cards) if v not in used]
    flats = [table.ravel(order="F") for _, table in factors]
    texts = number_texts(np.concatenate([np.zeros(0), *flats]))
    lines, begin = [str(len(factors))], 0
    for (scope, _), flat in zip(factors, flats, strict=True):
        places = np.flatnonzero(flat > -np.inf).tolist()
        lines += ["", str(len(scope)), " ".join(str(labels[v]) for v in scope)]
        lines += [" ".join(str(cards[v]) for v in scope), str(len(places))]
        lines += [f"{place} {texts[begin + place]}" for place in places]
        begin += len(flat)
    write_text(path, "\n".join([*lines, ""]))


def _labels(field: FactorGraph) -> list[int]:
    names = field.variable_names
    if names and all(name.isascii() and name.isdigit() and len(name) <= 15 for name in names):
        labels = [int(name) for name in names]
        if labels == sorted(set(labels)) and [str(label) for label in labels] == list(names):
            return labels
    return list(range(field.num_variables))


FIELD_FORMATS.add(
    Format.of_suffixes("fg", "libDAI factor graphs", (".fg",), read=read, write=write, priority=1)
)
