"""Graphlets against all sets of nodes, compared by networkx."""

from __future__ import annotations

from itertools import combinations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.kernels import Graphlet, graphlets
from tests.data.strategies import structures


def subgraphs(pack, sizes, use_labels):
    """Return the connected induced subgraphs of one structure, as labelled directed graphs."""
    graph = networkx.DiGraph()
    for node in range(pack.total_nodes):
        graph.add_node(
            node,
            label=tuple(pack.node_labels[node].tolist())
            if use_labels and pack.node_labels is not None
            else (),
        )
    for arc, (i, j) in enumerate(zip(pack.source.tolist(), pack.target.tolist(), strict=True)):
        label = tuple(pack.arc_labels[arc].tolist()) if use_labels and pack.arc_labels is not None else ()
        if i != j:
            graph.add_edge(i, j, label=label)
    parts = (graph.subgraph(nodes) for size in sizes for nodes in combinations(graph, size))
    return [part for part in parts if networkx.is_weakly_connected(part)]


def alike(first, second):
    match = networkx.algorithms.isomorphism.categorical_node_match("label", None)
    arcs = networkx.algorithms.isomorphism.categorical_edge_match("label", None)
    return networkx.is_isomorphic(first, second, node_match=match, edge_match=arcs)


@settings(max_examples=30)
@given(
    structures(max_nodes=6, max_arcs=9, max_structures=2),
    st.lists(st.integers(1, 5), min_size=1, max_size=2, unique=True),
    st.booleans(),
)
def test_all_sets_of_nodes(pack, sizes, use_labels):
    if (
        use_labels
        and pack.total_arcs
        and len({*zip(pack.source.tolist(), pack.target.tolist(), strict=True)}) < pack.total_arcs
    ):
        return  # of parallel arcs one counts
    every = [subgraphs(one, sizes, use_labels) for one in pack]
    expected = [[sum(alike(a, b) for a in x for b in y) for y in every] for x in every]
    kernel = Graphlet(sizes=sizes, use_labels=use_labels).fit(pack)
    assert np.array_equal(kernel.gram(pack), np.array(expected).reshape(len(pack), len(pack)))


def test_numbers_of_kinds():
    """Of graphs of three, four and five nodes 2, 6 and 21 are connected."""
    drawn = [networkx.gnp_random_graph(12, p, seed=k) for p in (0.3, 0.5, 0.7) for k in range(12)]
    pack = hf.data.from_networkx(drawn)
    for size, kinds in ((1, 1), (2, 1), (3, 2), (4, 6), (5, 21)):
        assert Graphlet(sizes=(size,)).fit(pack).transform(pack).shape[1] == kinds


def test_complete_graphs_and_hubs_in_parts(monkeypatch):
    pack = hf.data.from_networkx([networkx.complete_graph(12), networkx.star_graph(90)])
    expected = [[220.0, 0.0], [0.0, 4005.0]]
    assert Graphlet(sizes=(3,)).fit(pack).transform(pack).toarray().tolist() == expected
    monkeypatch.setattr(graphlets, "CHUNK", 80)
    assert Graphlet(sizes=(3,)).fit(pack).transform(pack).toarray().tolist() == expected


def test_a_share_of_the_graphlets_estimates_all():
    pack = hf.data.from_networkx([networkx.gnp_random_graph(16, 0.3, seed=1), networkx.star_graph(12)])
    exact = Graphlet(sizes=(2, 3)).fit(pack)
    counts = exact.transform(pack).toarray()
    every = Graphlet(sizes=(2, 3), share=1.0).fit(pack)
    assert np.array_equal(every.transform(pack).toarray(), counts)
    assert not every.standard_errors(pack).any()
    drawn = []
    for seed in range(40):
        kernel = Graphlet(sizes=(2, 3), share=0.3, random_state=seed)
        kernel.labels_, kernel.columns_ = exact.labels_, exact.columns_
        drawn.append(kernel.transform(pack).toarray())
    spread = np.std(drawn, axis=0, ddof=1)
    assert (np.abs(np.mean(drawn, axis=0) - counts) <= 4 * spread / np.sqrt(40)).all()
    stated = kernel.standard_errors(pack, draws=40)
    assert np.allclose(stated[counts > 20], spread[counts > 20], rtol=0.5)
    assert np.array_equal(kernel.transform(pack[[1, 0]]).toarray(), drawn[-1][[1, 0]])


def test_sizes_that_are_refused():
    for sizes in ((), (3, 6), (0,)):
        with pytest.raises(InputError, match="sizes must be of numbers from 1 to 5"):
            Graphlet(sizes=sizes).fit(hf.data.from_sequences(["A"]))
