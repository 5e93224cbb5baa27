"""Spanning-tree probabilities: against dense pseudo-inverses, and sampled forests in their polytope."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.fields.graphs import spanning_trees
from hiddenfield.fields.graphs.spanning_trees import (
    forest_average,
    greedy_forest,
    spanning_tree_probabilities,
)


def multigraph(seed: int, nodes: int, edges: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, nodes, edges), rng.integers(0, nodes, edges), rng.random(edges) + 0.2


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 25))
def test_resistances_as_of_the_pseudo_inverse(seed: int, nodes: int, edges: int) -> None:
    first, second, weight = multigraph(seed, nodes, edges)
    laplacian = np.zeros((nodes, nodes))
    for i, j, w in zip(first, second, weight, strict=True):
        laplacian[[i, j, i, j], [i, j, j, i]] += [w, w, -w, -w] if i != j else 0
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    expected = weight * (inverse[first, first] + inverse[second, second] - 2 * inverse[first, second])
    np.testing.assert_allclose(spanning_tree_probabilities(nodes, first, second, weight), expected, atol=1e-8)


@given(seed=st.integers(0, 10**6), nodes=st.integers(2, 30), edges=st.integers(1, 40))
def test_large_parts_are_sampled_and_still_trees(seed: int, nodes: int, edges: int) -> None:
    first, second, _ = multigraph(seed, nodes, edges)
    exact = spanning_tree_probabilities(nodes, first, second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spanning_trees, "LARGEST_EXACT", 4)
        sampled = spanning_tree_probabilities(nodes, first, second)
    assert sampled.sum() == pytest.approx(exact.sum(), abs=1e-8)
    assert (sampled[first != second] > 0).all()
    np.testing.assert_allclose(sampled[exact > 1 - 1e-9], 1.0)


def test_greedy_forest_takes_the_heaviest_tree() -> None:
    pointer, ends = np.arange(0, 9, 2), np.array([0, 1, 1, 2, 2, 0, 2, 3])
    assert greedy_forest(4, pointer, ends, np.array([2, 1, 0, 3])).tolist() == [0, 1, 1, 1]


def test_hyperedges_that_share_two_nodes_exclude_each_other() -> None:
    average = forest_average(4, np.array([0, 3, 6, 8]), np.array([0, 1, 2, 1, 2, 3, 0, 3]), samples=50)
    assert average[0] + average[1] <= 1
    assert (average > 0).all()
