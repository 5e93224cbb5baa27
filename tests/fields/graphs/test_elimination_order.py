"""Elimination orders and junction trees: known widths, a plain greedy search, and what makes a junction tree."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.fields import FactorGraph, from_factors
from hiddenfield.fields.graphs.elimination_order import (
    ORDERS,
    Interactions,
    elimination_order,
    interactions,
    interactions_of,
)
from hiddenfield.fields.graphs.junction_tree import JunctionTree, junction_tree, junction_tree_of
from tests.fields.strategies import fields


def graph_of(pairs: Any, count: int, states: int | list[int] = 2) -> Interactions:
    ends = np.array(pairs, np.int64).reshape(-1)
    return interactions_of(2 * np.arange(len(ends) // 2 + 1), ends, np.broadcast_to(states, (count,)))


def plain_costs(joined: dict[int, set[int]], states: list[int], rule: str, node: int) -> tuple[float, float]:
    weight = states if rule == "weighted_min_fill" else [1] * len(states)
    pairs = itertools.combinations(sorted(joined[node]), 2)
    fill = float(sum(weight[a] * weight[b] for a, b in pairs if b not in joined[a]))
    clique = math.log2(states[node]) + sum(math.log2(states[other]) for other in joined[node])
    return (clique, fill) if rule == "min_weight" else (fill, clique)


@given(
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["min_fill", "min_weight", "weighted_min_fill"]),
    st.floats(0.1, 0.9),
)
def test_every_choice_is_a_cheapest_one(count: int, seed: int, rule: str, density: float) -> None:
    random = np.random.default_rng(seed)
    states = random.integers(2, 5, size=count).tolist()
    pairs = [pair for pair in itertools.combinations(range(count), 2) if random.random() < density]
    found = elimination_order(graph_of(pairs, count, states), rule)
    joined: dict[int, set[int]] = {node: set() for node in range(count)}
    for a, b in pairs:
        joined[a].add(b)
        joined[b].add(a)
    width, total = 0, 0.0
    for node in found.order.tolist():
        cheapest = min(plain_costs(joined, states, rule, other) for other in joined)
        np.testing.assert_allclose(plain_costs(joined, states, rule, node), cheapest, atol=1e-9)
        width = max(width, len(joined[node]))
        total += 2 ** sum(math.log2(states[other]) for other in [node, *joined[node]])
        for a, b in itertools.permutations(joined[node], 2):
            joined[a].add(b)
        for other in joined.pop(node):
            joined[other].discard(node)
    assert found.complete
    assert found.width == width
    assert found.total_states == pytest.approx(total)


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize(
    ("pairs", "count", "width"),
    [
        ([], 3, 0),
        ([(i, i + 1) for i in range(30)], 31, 1),
        ([(0, i) for i in range(1, 40)], 40, 1),
        ([(i, (i + 1) % 12) for i in range(12)], 12, 2),
        (list(itertools.combinations(range(7), 2)), 7, 6),
        ([(i, i + 2) for i in range(38)] + [(i, i + 1) for i in range(0, 40, 2)], 40, 2),
    ],
)
def test_known_widths(order: str, pairs: list[tuple[int, int]], count: int, width: int) -> None:
    assert elimination_order(graph_of(pairs, count), order).width == width


def test_best_is_not_worse_than_the_others() -> None:
    random = np.random.default_rng(0)
    pairs = [pair for pair in itertools.combinations(range(40), 2) if random.random() < 0.12]
    graph = graph_of(pairs, 40, random.integers(2, 9, size=40).tolist())
    costs = {order: elimination_order(graph, order).total_states for order in ORDERS}
    assert costs["best"] == min(costs.values())


def test_stages_go_one_after_the_other() -> None:
    graph = graph_of([(i, i + 1) for i in range(9)], 10)
    stage = np.array([1, 0] * 5)
    order = elimination_order(graph, stage=stage).order
    assert np.diff(stage[order]).min() == 0
    assert sorted(order.tolist()) == list(range(10))


def test_search_stops_at_the_limit() -> None:
    found = elimination_order(graph_of(list(itertools.combinations(range(20), 2)), 20), "min_fill", limit=10)
    assert not found.complete
    assert found.log2_largest == 20


def is_junction_tree(tree: JunctionTree, field: FactorGraph) -> None:
    """Check that scopes are covered, separators shared, cliques of a variable connected, and children first."""
    cliques = [set(clique) for clique in tree.cliques]
    for group in field.groups:
        for scope in group.scopes.tolist():
            first = min(scope, key=lambda variable: tree.position[variable])
            assert set(scope) <= cliques[tree.home[first]]
    for number, (clique, above) in enumerate(zip(tree.cliques, tree.parent.tolist(), strict=True)):
        positions = tree.position[clique]
        assert (np.diff(positions) < 0).all()
        if above < 0:
            assert tree.separator_size[number] == 0
        else:
            assert above > number
            assert set(tree.separators[number]) == cliques[number] & cliques[above]
    for variable in range(field.num_variables):
        holders = {number for number, clique in enumerate(cliques) if variable in clique}
        tops = [number for number in holders if tree.parent[number] not in holders]
        assert tops == [tree.home[variable]]


@given(fields(most_variables=9, most_factors=12), st.booleans(), st.sampled_from(sorted(ORDERS)))
def test_junction_trees(field: FactorGraph, merge: bool, order: str) -> None:
    graph = interactions(field)
    tree = junction_tree_of(graph, elimination_order(graph, order).order, merge=merge)
    is_junction_tree(tree, field)
    cliques = [set(clique) for clique in tree.cliques]
    if merge:
        below = [(n, above) for n, above in enumerate(tree.parent.tolist()) if above >= 0]
        assert not any(cliques[above] <= cliques[n] for n, above in below)
    else:
        assert len(cliques) == field.num_variables
    np.testing.assert_allclose(
        np.exp(tree.log_clique_states),
        [math.prod(int(field.cardinalities[v]) for v in clique) for clique in tree.cliques],
    )


def test_junction_tree_of_a_field() -> None:
    field = from_factors([[0, 1, 2], [2, 3], [4]], [np.zeros((2, 3, 2)), np.zeros((2, 2)), np.zeros(2)])
    tree = junction_tree(field)
    assert sorted(map(sorted, tree.cliques)) == [[0, 1, 2], [2, 3], [4]]
    assert "width 2" in repr(tree)


def test_an_order_names_every_variable() -> None:
    with pytest.raises(InputError, match="names each of the 3 variables"):
        junction_tree_of(graph_of([(0, 1)], 3), np.array([0, 1]))
