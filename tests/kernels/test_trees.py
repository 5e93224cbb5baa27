"""Kernels of trees, and of common subtrees, against their definitions."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import TooLargeError
from hiddenfield.kernels import CommonSubtrees, PartialTree, SubsetTree
from tests.data.strategies import structures
from tests.kernels.test_conformance import trees

SOME = settings(max_examples=30)


def nodes_of(tree):
    """Return the label and the children of every node, in order."""
    parent = hf.data.to_parents(tree)[0].tolist()
    labels = [tuple(row) for row in tree.node_labels.tolist()]
    return [(label, [k for k, up in enumerate(parent) if up == node]) for node, label in enumerate(labels)]


def gram_of(pack, common):
    def value(x, y):
        return sum(common(x, y, i, j) for i in range(len(x)) for j in range(len(y)))

    found = [nodes_of(tree) if tree.total_nodes else [] for tree in pack]
    return np.array([[value(x, y) for y in found] for x in found], dtype=float).reshape(
        len(found), len(found)
    )


@SOME
@given(trees(), st.sampled_from([1.0, 0.5]))
def test_fragments_of_whole_productions(pack, decay):
    def common(x, y, i, j):
        (label, below), (other, others) = x[i], y[j]
        if not below or label != other or [x[c][0] for c in below] != [y[c][0] for c in others]:
            return 0.0
        return decay * np.prod([1 + common(x, y, c, d) for c, d in zip(below, others, strict=True)])

    kernel = SubsetTree(decay=decay).fit(pack)
    assert np.allclose(kernel.gram(pack), gram_of(pack, common))


@SOME
@given(trees(), st.sampled_from([1.0, 0.5]))
def test_fragments_of_parts_of_productions(pack, decay):
    def common(x, y, i, j):
        (label, below), (other, others) = x[i], y[j]
        if label != other:
            return 0.0
        total = decay**2
        for size in range(1, min(len(below), len(others)) + 1):
            for first in combinations(range(len(below)), size):
                for second in combinations(range(len(others)), size):
                    spans = first[-1] - first[0] + second[-1] - second[0] + 2
                    pairs = zip(first, second, strict=True)
                    total += decay**spans * np.prod([common(x, y, below[a], others[b]) for a, b in pairs])
        return 0.7 * total

    kernel = PartialTree(decay=decay, vertical=0.7).fit(pack)
    assert np.allclose(kernel.gram(pack), gram_of(pack, common))


def labels_of(pack, kind):
    table = getattr(pack, f"{kind}_labels")
    count = pack.total_nodes if kind == "node" else pack.total_arcs
    return [()] * count if table is None else [tuple(row) for row in table.tolist()]


@SOME
@given(structures(max_nodes=4, max_arcs=5, max_structures=3), st.integers(0, 2))
def test_common_subtrees(pack, depth):
    def relations(first, second):
        """All one-to-one relations between two lists."""
        for size in range(min(len(first), len(second)) + 1):
            for some in combinations(first, size):
                for others in permutations(second, size):
                    yield list(zip(some, others, strict=True))

    def grown(x, y, i, j, t):
        if x["nodes"][i] != y["nodes"][j]:
            return 0.0
        if t == 0:
            return 1.0
        total = 0.0
        for relation in relations(x["into"][i], y["into"][j]):
            if all(a[1] == b[1] for a, b in relation):
                total += np.prod([0.5 * grown(x, y, a[0], b[0], t - 1) for a, b in relation])
        return total

    found = []
    for one in pack:
        arcs = list(zip(one.source.tolist(), labels_of(one, "arc"), one.target.tolist(), strict=True))
        into = [
            [(source, label) for source, label, end in arcs if end == node] for node in range(one.total_nodes)
        ]
        found.append({"nodes": labels_of(one, "node"), "into": into})
    expected = [
        [
            sum(grown(x, y, i, j, depth) for i in range(len(x["nodes"])) for j in range(len(y["nodes"])))
            for y in found
        ]
        for x in found
    ]
    gram = CommonSubtrees(depth=depth, decay=0.5).fit(pack).gram(pack)
    assert np.allclose(gram, np.array(expected, dtype=float).reshape(gram.shape))


def test_nodes_of_many_neighbours_are_refused():
    star = hf.data.from_edges([0] * 17, list(range(1, 18)), node_ptr=[0, 18])
    with pytest.raises(
        TooLargeError, match=r"a node of structure 0 has 17 arcs into it.*up to 16; use wl_subtree"
    ):
        CommonSubtrees().fit(star).gram(star)
