"""Hypothesis strategies for packs: ``from tests.data.strategies import structures``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hiddenfield.data import Structures, Vocabulary, from_arcs

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Every character that UTF-8 can hold, but mostly few of them, so that equal texts occur.
TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "C", "é", "a b", "0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def vocabularies(draw: Draw, name: str, min_size: int = 1) -> Vocabulary:
    """A vocabulary of integers, of texts or of both, in any order, perhaps with symbols that are never used."""
    symbols = draw(
        st.one_of(
            st.lists(st.integers(-3, 3), min_size=min_size, max_size=4, unique=True),
            st.lists(TEXTS, min_size=min_size, max_size=4, unique=True),
            st.lists(st.one_of(st.integers(-3, 3), TEXTS), min_size=min_size, max_size=4, unique=True),
        )
    )
    return built(Vocabulary, name, tuple(symbols))


@st.composite
def structures(
    draw: Draw,
    *,
    max_structures: int = 4,
    max_nodes: int = 4,
    max_arcs: int = 6,
    symmetric: bool | None = None,
    features: bool = True,
    columns: bool = True,
) -> Structures:
    """An arbitrary valid pack, whose reverses are those that `from_arcs` finds.

    There are packs of none, structures without nodes, isolated nodes, loops, parallel arcs, one-way arcs; any number
    of label columns with vocabularies that may hold more than occurs, attributes, targets with missing entries and
    classes, ids and further columns; each of them may be absent.

    Parameters
    ----------
    symmetric
        Whether every arc has a reverse of the same labels and attributes; by default either.
    features, columns
        Whether there may be labels, attributes and targets; ids and further columns.
    """
    sizes = draw(st.lists(st.integers(0, max_nodes), max_size=max_structures))
    if symmetric is None:
        symmetric = draw(st.booleans())
    pairs, counts = [], []
    for size in sizes:
        ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)) if size else st.nothing()
        drawn = draw(st.lists(ends, max_size=max_arcs if size else 0))
        pairs += drawn
        counts.append(len(drawn))
    edges = len(pairs)
    node_ptr, owner = np.cumsum([0, *sizes]), np.repeat(np.arange(len(sizes)), counts)
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2) + node_ptr[:-1][owner][:, None]
    if symmetric:
        ends.sort(axis=1)  # so that parallel edges stand in one order both ways, and each meets itself
    back = np.flatnonzero(ends[:, 0] != ends[:, 1]) if symmetric else np.zeros(0, dtype=np.int64)
    of_arc = np.concatenate([np.arange(edges), back])
    options: dict[str, Any] = {}
    if features:
        options |= draw(_features("node", sum(sizes)))
        options |= {name: _taken(values, of_arc) for name, values in draw(_features("arc", edges)).items()}
        options |= draw(_targets("target", len(sizes)))
        options |= draw(_targets("node_target", sum(sizes)))
    if columns:
        options |= draw(_columns(len(sizes)))
    source, target = np.concatenate([ends, ends[back, ::-1]]).T
    return built(from_arcs, source, target, node_ptr=node_ptr, **options)


def built(build: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call something of the package within a strategy.

    The type checker picks the entries of a list that it looks at with the `random` module, which hypothesis forbids
    strategies to use; so the state of that module is put back.
    """
    state = random.getstate()
    try:
        return build(*arguments, **options)
    finally:
        random.setstate(state)


def _taken(values: Any, rows: np.ndarray) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else values


@st.composite
def _features(draw: Draw, kind: str, rows: int) -> dict[str, Any]:
    options: dict[str, Any] = {}
    width = draw(st.integers(0, 2))
    if width:
        words = [draw(vocabularies(f"{kind} label {k}")) for k in range(width)]
        codes = [
            draw(st.lists(st.integers(0, len(word) - 1), min_size=rows, max_size=rows)) for word in words
        ]
        options[f"{kind}_labels"] = np.array(codes, dtype=np.int32).T.reshape(rows, width)
        options[f"{kind}_vocabularies"] = words
    width = draw(st.integers(0, 2))
    if width:
        values = draw(st.lists(NUMBERS, min_size=rows * width, max_size=rows * width))
        options[f"{kind}_attributes"] = np.array(values, dtype=np.float32).reshape(rows, width)
        options[f"{kind}_attribute_names"] = [f"{kind} attribute {k}" for k in range(width)]
    return options


@st.composite
def _targets(draw: Draw, kind: str, rows: int) -> dict[str, Any]:
    width = draw(st.integers(0, 2))
    if not width:
        return {}
    words, columns = [], []
    for k in range(width):
        word = draw(st.one_of(st.none(), vocabularies(f"{kind} {k}")))
        value = st.floats(allow_nan=True, allow_infinity=False)
        if word is not None:
            value = st.one_of(st.just(np.nan), st.integers(0, len(word) - 1).map(float))
        words.append(word)
        columns.append(draw(st.lists(value, min_size=rows, max_size=rows)))
    return {
        f"{kind}s": np.array(columns, dtype=np.float64).T.reshape(rows, width),
        f"{kind}_names": [f"{kind} {k}" for k in range(width)],
        f"{kind}_vocabularies": words,
    }


@st.composite
def _columns(draw: Draw, rows: int) -> dict[str, Any]:
    texts = st.lists(TEXTS, min_size=rows, max_size=rows)
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["ids"] = np.array(draw(texts), dtype=np.dtypes.StringDType())
    if draw(st.booleans()):
        options["columns"] = {
            "text column": np.array(draw(texts), dtype=np.dtypes.StringDType()),
            "number column": np.array(
                draw(st.lists(st.integers(-9, 9), min_size=rows, max_size=rows)), dtype=np.int64
            ),
        }
    return options
