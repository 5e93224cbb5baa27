"""Cycles and spanning trees against networkx and enumeration."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.data import from_arcs, from_edges
from hiddenfield.errors import InputError
from hiddenfield.fields.graphs.cycles import short_cycles
from hiddenfield.fields.graphs.spanning_trees import edge_appearance


def pack_of(graphs):
    offsets = np.cumsum([0] + [graph.number_of_nodes() for graph in graphs])
    ends = [(a + at, b + at) for graph, at in zip(graphs, offsets, strict=False) for a, b in graph.edges]
    return from_edges([a for a, _ in ends], [b for _, b in ends], node_ptr=offsets)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from([0.3, 0.5, 0.8])), max_size=3), st.integers(3, 8)
)
def test_cycles_are_those_of_networkx(shapes, longest):
    graphs = [nx.gnp_random_graph(n, p, seed=n) for n, p in shapes]
    cycles = short_cycles(pack_of(graphs), longest)
    offset = 0
    for number, graph in enumerate(graphs):
        mine = [
            frozenset((cycles.node[cycles.ptr[c] : cycles.ptr[c + 1]] - offset).tolist())
            for c in range(cycles.cycle_ptr[number], cycles.cycle_ptr[number + 1])
        ]
        expected = {frozenset(c) for c in nx.chordless_cycles(graph, longest) if len(c) > 2}
        assert set(mine) == expected
        assert len(mine) == len(expected)
        offset += graph.number_of_nodes()


def test_consecutive_nodes_of_a_cycle_are_joined():
    graph = nx.petersen_graph()
    cycles = short_cycles(pack_of([graph]), 6)
    assert len(cycles.ptr) - 1 == 12 + 10
    for c in range(len(cycles.ptr) - 1):
        path = cycles.node[cycles.ptr[c] : cycles.ptr[c + 1]].tolist()
        assert all(graph.has_edge(a, b) for a, b in zip(path, path[1:] + path[:1], strict=True))


def test_loops_parallel_edges_and_one_way_arcs_make_no_cycle():
    assert len(short_cycles(from_edges([0, 0, 1], [1, 1, 1], node_ptr=[0, 2])).node) == 0
    assert len(short_cycles(from_arcs([0, 1, 2], [1, 2, 0], node_ptr=[0, 3])).node) == 0
    doubled = from_edges([0, 1, 2, 2], [1, 2, 0, 0], node_ptr=[0, 3])
    assert short_cycles(doubled).node.tolist() == [0, 1, 2]


def test_too_many_cycles_name_the_structure():
    with pytest.raises(InputError, match="structure 1 has more than 50 cycles of up to 4"):
        short_cycles(pack_of([nx.path_graph(3), nx.complete_bipartite_graph(6, 6)]), 4, most=50)


@pytest.mark.bad_input
@pytest.mark.parametrize("longest", [2, True, 4.0])
def test_bad_length(longest):
    with pytest.raises(InputError, match="at least 3 nodes"):
        short_cycles(pack_of([nx.path_graph(3)]), longest)


@given(st.integers(2, 6), st.sampled_from([0.5, 0.9]), st.integers(0, 50))
def test_appearance_is_the_share_of_spanning_trees(size, probability, seed):
    graph = nx.gnp_random_graph(size, probability, seed=seed)
    pack = pack_of([nx.path_graph(2), graph])
    appearance = edge_appearance(pack).numpy()
    first = int(pack.arc_ptr[1])
    for part in nx.connected_components(graph):
        trees = list(nx.SpanningTreeIterator(graph.subgraph(part))) if len(part) > 1 else []
        for arc in range(first, pack.total_arcs):
            a, b = int(pack.source[arc]) - 2, int(pack.target[arc]) - 2
            if a in part:
                share = np.mean([tree.has_edge(a, b) for tree in trees])
                assert appearance[arc] == pytest.approx(share, abs=1e-5)
    components = nx.number_connected_components(graph)
    assert appearance[first:].sum() / 2 == pytest.approx(size - components, abs=1e-4)
