"""Random walk kernels against the product graph, made in full."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.datasets import huckel
from hiddenfield.errors import InputError
from hiddenfield.kernels import GeometricWalk, RandomWalk
from tests.data.strategies import structures
from tests.kernels.test_colours import for_grakel

SOME = settings(max_examples=40)


def product_graph(first, second, use_labels):
    """Return which pairs of nodes there are, and the adjacency of the product of two graphs, parallel arcs counted."""

    def labels(pack, kind):
        table = getattr(pack, f"{kind}_labels")
        count = pack.total_nodes if kind == "node" else pack.total_arcs
        return [tuple(row) for row in table.tolist()] if table is not None and use_labels else [()] * count

    alike = np.array(
        [[float(a == b) for b in labels(second, "node")] for a in labels(first, "node")]
    ).reshape(-1)
    size = second.total_nodes
    matrix = np.zeros((len(alike), len(alike)))
    for i, j, a in zip(first.target.tolist(), first.source.tolist(), labels(first, "arc"), strict=True):
        for k, m, b in zip(
            second.target.tolist(), second.source.tolist(), labels(second, "arc"), strict=True
        ):
            if a == b:
                matrix[i * size + k, j * size + m] += 1
    return alike, alike[:, None] * matrix * alike


def walks(pack, use_labels, value):
    return np.array(
        [[value(*product_graph(x, y, use_labels)) for y in pack] for x in pack], dtype=float
    ).reshape(len(pack), len(pack))


@SOME
@given(structures(), st.integers(0, 3), st.booleans())
def test_walks_of_some_steps(pack, steps, use_labels):
    def value(alike, matrix):
        powers = [np.linalg.matrix_power(matrix, n) @ alike for n in range(steps + 1)]
        return sum(0.5**n * power.sum() for n, power in enumerate(powers))

    kernel = RandomWalk(steps=steps, decay=0.5, use_labels=use_labels).fit(pack)
    assert np.allclose(kernel.gram(pack), walks(pack, use_labels, value), rtol=1e-12)


@SOME
@given(structures(), st.booleans())
def test_walks_of_any_length(pack, use_labels):
    kernel = GeometricWalk(use_labels=use_labels).fit(pack)

    def value(alike, matrix):
        return (
            np.linalg.solve(np.eye(len(alike)) - kernel.decay_ * matrix, alike).sum() if len(alike) else 0.0
        )

    assert np.allclose(kernel.gram(pack), walks(pack, use_labels, value), rtol=1e-9)


def test_walks_without_a_finite_sum_are_refused():
    ring = hf.data.from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3])
    with pytest.raises(
        InputError, match=r"no finite sum with decay 0.25: it must be less than 0.25 for these"
    ):
        GeometricWalk(decay=0.25).fit(ring).gram(ring)
    assert GeometricWalk(decay=0.2).fit(ring).gram(ring)[0, 0] == pytest.approx(9 / (1 - 0.2 * 4))


def test_a_directed_path_has_walks_that_end():
    path = hf.Structures.from_arcs([0, 1], [1, 2], node_ptr=[0, 3])
    assert GeometricWalk(decay=5.0).fit(path).gram(path)[0, 0] == 9 + 5 * 4 + 25


@pytest.mark.skipif(importlib.util.find_spec("grakel") is None, reason="a peer that is not installed")
def test_as_grakel_solves():
    import grakel

    pack = huckel(6)
    expected = grakel.RandomWalk(lamda=0.01, method_type="baseline").fit_transform(
        [(graph, labels) for graph, labels in for_grakel(pack)]
    )
    assert np.allclose(GeometricWalk(decay=0.01, use_labels=False).fit(pack).gram(pack), expected, rtol=1e-6)
