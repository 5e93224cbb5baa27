"""Random small fields: mixed cardinalities and arities, hard zeros, repeated factors, loose parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from hiddenfield.fields import FactorGraph, from_factors
from tests.data.strategies import built

__all__ = ["FieldParts", "field_parts", "fields", "forests"]

FieldParts = tuple[list[int], list[list[int]], list[np.ndarray]]


@st.composite
def field_parts(
    draw: Any,
    *,
    most_variables: int = 6,
    most_factors: int = 8,
    most_arity: int = 4,
    most_states: int = 4,
    least_states: int = 1,
    zeros: bool = True,
    scale: float = 1.0,
    tree: bool = False,
) -> FieldParts:
    """Draw cardinalities, scopes and log tables; with `zeros` some entries are -inf, but one assignment is possible."""
    variables = draw(st.integers(1, most_variables))
    cards = draw(st.lists(st.integers(least_states, most_states), min_size=variables, max_size=variables))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if tree:
        scopes = _tree_scopes(generator, variables, most_arity)
        scopes += [[int(v)] for v in generator.permutation(variables)[: draw(st.integers(0, variables))]]
    else:
        count = draw(st.integers(0, most_factors))
        scopes = [
            generator.permutation(variables)[
                : generator.integers(0 if most_arity > 2 else 1, most_arity + 1)
            ].tolist()
            for _ in range(count)
        ]
        if scopes and draw(st.booleans()):
            scopes.append(list(scopes[0]))
    possible = [int(generator.integers(card)) for card in cards]
    tables = []
    for scope in scopes:
        table = np.asarray(scale * generator.normal(size=[cards[v] for v in scope]))
        if zeros and draw(st.booleans()):
            table[generator.random(table.shape) < 0.3] = -np.inf
            state = tuple(possible[v] for v in scope)
            table[state] = generator.normal() if np.isinf(table[state]) else table[state]
        tables.append(table)
    return cards, scopes, tables


def fields(**options: Any) -> st.SearchStrategy[FactorGraph]:
    """Draw a field; see `field_parts` for the options."""
    return field_parts(**options).map(lambda parts: built(from_factors, parts[1], parts[2], parts[0]))


def forests(**options: Any) -> st.SearchStrategy[FactorGraph]:
    """Draw a field without cycles."""
    return fields(tree=True, **options)


def _tree_scopes(generator: np.random.Generator, variables: int, most_arity: int) -> list[list[int]]:
    """Join unconnected variables by factors until few parts are left: each new factor touches a part at most once."""
    part = np.arange(variables)
    scopes = []
    for _ in range(variables):
        parts = np.unique(part)
        size = min(int(generator.integers(2, most_arity + 1)), len(parts))
        if size < 2 or generator.random() < 0.1:
            break
        chosen = generator.permutation(parts)[:size]
        scope = [int(generator.choice(np.flatnonzero(part == p))) for p in chosen]
        part[np.isin(part, chosen)] = chosen[0]
        scopes.append(scope)
    return scopes
