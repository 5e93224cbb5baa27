"""Counts of coloured arcs and shortest paths against plain Python."""

from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

import hiddenfield as hf
from hiddenfield.datasets import huckel
from hiddenfield.kernels import ShortestPath, WLAssignment, WLEdge, WLShortestPath, WLSubtree, base, colours
from tests.data.strategies import structures
from tests.kernels.test_weisfeiler_lehman import colours_in_plain_python


def gram_of(counts):
    return np.array([[sum(n * b[c] for c, n in a.items()) for b in counts] for a in counts]).reshape(
        len(counts), len(counts)
    )


def distances(pack):
    """Return the length of the shortest path between all pairs of nodes of a pack, by relaxing."""
    far = np.full((pack.total_nodes,) * 2, np.inf)
    np.fill_diagonal(far, 0)
    far[pack.source.numpy(), pack.target.numpy()] = np.where(pack.source == pack.target, 0, 1)
    for node in range(len(far)):
        far = np.minimum(far, far[:, [node]] + far[[node]])
    return far


def paths_in_plain_python(pack, every, longest=np.inf):
    far = distances(pack)
    return [
        Counter(
            (t, own[i], own[j], far[i, j])
            for t, own in enumerate(every)
            for i in range(first, last)
            for j in range(first, last)
            if far[i, j] <= longest and np.isfinite(far[i, j])
        )
        for first, last in pairwise(pack.node_ptr.tolist())
    ]


@settings(max_examples=30)
@given(structures(max_nodes=6, max_arcs=9), st.sampled_from([None, 0, 1, 2]))
def test_shortest_paths(pack, longest):
    every = colours_in_plain_python(pack, 0, True)
    expected = paths_in_plain_python(pack, every, np.inf if longest is None else longest)
    assert np.array_equal(ShortestPath(max_length=longest).fit(pack).gram(pack), gram_of(expected))


@settings(max_examples=30)
@given(structures(max_nodes=6, max_arcs=9), st.integers(0, 2), st.booleans())
def test_shortest_paths_between_colours(pack, rounds, use_arc_labels):
    expected = paths_in_plain_python(pack, colours_in_plain_python(pack, rounds, use_arc_labels))
    kernel = WLShortestPath(rounds=rounds, use_arc_labels=use_arc_labels).fit(pack)
    assert np.array_equal(kernel.gram(pack), gram_of(expected))


@settings(max_examples=30)
@given(structures(max_nodes=6, max_arcs=9), st.integers(0, 2), st.booleans())
def test_arcs_between_colours(pack, rounds, use_arc_labels):
    every = colours_in_plain_python(pack, rounds, use_arc_labels)
    ends = list(zip(pack.source.tolist(), pack.target.tolist(), strict=True))
    labels = (
        [tuple(row) for row in pack.arc_labels.tolist()]
        if use_arc_labels and pack.arc_labels is not None
        else [()] * len(ends)
    )
    expected = [
        Counter(
            (t, own[i], own[j], label)
            for t, own in enumerate(every)
            for (i, j), label in zip(ends, labels, strict=True)
            if first <= i < last
        )
        for first, last in pairwise(pack.node_ptr.tolist())
    ]
    kernel = WLEdge(rounds=rounds, use_arc_labels=use_arc_labels).fit(pack)
    assert np.array_equal(kernel.gram(pack), gram_of(expected))


@settings(max_examples=30)
@given(structures(max_nodes=5, max_arcs=8), st.integers(0, 2))
def test_assignments_of_nodes(pack, rounds):
    every = colours_in_plain_python(pack, rounds, True)
    bounds = list(pairwise(pack.node_ptr.tolist()))
    expected = np.zeros((len(pack), len(pack)))
    for (x, (a, b)), (y, (c, d)) in product(enumerate(bounds), repeat=2):
        alike = np.array([[sum(own[i] == own[j] for own in every) for j in range(c, d)] for i in range(a, b)])
        if alike.size:
            expected[x, y] = alike[linear_sum_assignment(alike, maximize=True)].sum()
    assert np.array_equal(WLAssignment(rounds=rounds).fit(pack).gram(pack), expected)


def test_paths_are_listed_in_parts(monkeypatch):
    pack = hf.data.from_sequences(["GATTACA", "CAT", "", "TACCAT"])
    whole = ShortestPath().fit(pack).gram(pack)
    monkeypatch.setattr(colours, "CHUNK", 10)
    assert len(list(colours.shortest_paths(pack))) > 3
    assert np.array_equal(ShortestPath().fit(pack).gram(pack), whole)


def test_rows_too_long_to_pack_are_told_apart():
    keys = np.array([[0, 2**40, 2**40], [1, 2**40, 2**40], [0, 2**40, 2**40]])
    counts, rows = base.tally([(np.zeros(3, dtype=np.int64), keys)], 1, None)
    assert counts.toarray().tolist() == [[2.0, 1.0]]
    assert len(rows) == 2


def for_grakel(pack):
    """Return connected graphs as GraKeL takes them: neighbours and labels by node."""
    ends = list(zip(pack.source.tolist(), pack.target.tolist(), strict=True))
    labels = [str(row) for row in pack.node_labels.tolist()]
    return [
        (
            {i: [k for j, k in ends if j == i] for i in range(first, last)},
            {i: labels[i] for i in range(first, last)},
        )
        for first, last in pairwise(pack.node_ptr.tolist())
    ]


@pytest.mark.skipif(importlib.util.find_spec("grakel") is None, reason="a peer that is not installed")
def test_as_grakel_counts():
    """Its shortest paths have a length of at least 1."""
    import grakel

    pack = huckel(12)
    graphs = for_grakel(pack)
    paths = ShortestPath().fit(pack).gram(pack) - ShortestPath(max_length=0).fit(pack).gram(pack)
    assert np.allclose(paths, grakel.ShortestPath(with_labels=True).fit_transform(graphs))
    subtrees = WLSubtree(rounds=3, use_arc_labels=False).fit(pack).gram(pack)
    assert np.allclose(subtrees, grakel.WeisfeilerLehman(n_iter=3).fit_transform(graphs))
