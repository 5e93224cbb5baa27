"""networkx graphs: exact round trips, and every kind of graph by hand."""

from __future__ import annotations

import networkx
import pytest
import torch
from hypothesis import given

from hiddenfield.data import Structures, from_edges, from_networkx, to_networkx
from hiddenfield.errors import InputError, UnknownSymbolError
from tests.data.strategies import structures


@given(structures())
def test_the_round_trip_is_exact(pack: Structures) -> None:
    assert from_networkx(to_networkx(pack), like=pack) == pack


@given(structures(columns=False))
def test_directed_graphs_also_come_back(pack: Structures) -> None:
    assert from_networkx(to_networkx(pack, directed=True), like=pack) == pack


@given(structures(symmetric=True))
def test_a_symmetric_pack_becomes_undirected(pack: Structures) -> None:
    graphs = to_networkx(pack)
    assert not any(graph.is_directed() for graph in graphs)
    assert [len(graph) for graph in graphs] == pack.num_nodes.tolist()
    assert [graph.number_of_edges() for graph in graphs] == pack.num_edges.tolist()


@given(structures(symmetric=False, features=False))
def test_arcs_agree_one_by_one(pack: Structures) -> None:
    for position, graph in enumerate(to_networkx(pack, directed=True)):
        one = pack[position]
        arcs = sorted(zip(one.source.tolist(), one.target.tolist(), strict=True))
        assert sorted(graph.edges()) == arcs


def test_the_four_kinds_of_graph() -> None:
    ends = [(0, 1), (0, 1), (1, 0), (2, 2)]
    for kind, arcs in (
        (networkx.Graph, 3),
        (networkx.DiGraph, 3),
        (networkx.MultiGraph, 7),
        (networkx.MultiDiGraph, 4),
    ):
        graph = kind()
        graph.add_nodes_from([0, 1, 2, 3])
        graph.add_edges_from(ends)
        pack = from_networkx(graph)
        assert pack.num_nodes.tolist() == [4]
        assert pack.total_arcs == arcs, kind
        assert isinstance(to_networkx(pack, directed=graph.is_directed())[0], kind)


def test_parallel_edges_keep_their_own_reverse() -> None:
    graph = networkx.MultiGraph([(0, 1, {"bond": "b"}), (1, 0, {"bond": "a"}), (0, 1, {"bond": "b"})])
    pack = from_networkx(graph, edge_label="bond")
    assert pack.symmetric
    reverse = pack.reverse.long()
    assert torch.equal(pack.arc_labels, pack.arc_labels[reverse])
    assert torch.equal(reverse[reverse], torch.arange(6))


def test_nodes_are_numbered_as_they_were_added() -> None:
    graph = networkx.DiGraph()
    graph.add_nodes_from(["z", "a"])
    graph.add_edge("a", "z")
    pack = from_networkx(graph, node_name="who")
    assert (pack.source.tolist(), pack.target.tolist()) == ([1], [0])
    assert pack.node_vocabularies[0].decode(pack.node_labels[:, 0].tolist()) == ["z", "a"]


def test_targets_are_classes_numbers_or_missing() -> None:
    graphs = [networkx.path_graph(2) for _ in range(3)]
    graphs[0].graph.update(kind="ring", value=1)
    graphs[1].graph.update(kind=None, value=float("nan"))
    graphs[0].nodes[1]["role"] = "end"
    pack = from_networkx(graphs, target=["kind", "value"], node_target="role")
    assert pack.target_vocabularies[0].symbols == ("ring",)
    assert pack.targets.isnan().tolist() == [[False, False], [True, True], [True, True]]
    assert int((~pack.node_targets.isnan()).sum()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"node_label": "element"}, "graph 1: node 0 has no attribute 'element'; it has 'mass'"),
        ({"edge_label": "bond"}, "graph 0: edge (0, 1) has no attribute 'bond'; it has none"),
        ({"target": "yield"}, "no graph or node has the target 'yield'"),
        ({"column": "name"}, "graph 0 has no graph attribute 'name'; it has none"),
        (
            {"node_attribute": "mass"},
            "node attribute 'mass' must hold one number for every node, got 'heavy'",
        ),
    ],
)
def test_what_is_not_there_is_named(options: dict[str, str], words: str) -> None:
    graphs = [networkx.path_graph(2), networkx.path_graph(1)]
    networkx.set_node_attributes(graphs[0], "C", "element")
    networkx.set_node_attributes(graphs[0], 12.0, "mass")
    networkx.set_node_attributes(graphs[1], "heavy", "mass")
    with pytest.raises(InputError) as caught:
        from_networkx(graphs, **options)
    assert words in str(caught.value)


def test_refusals() -> None:
    with pytest.raises(InputError, match="graph 1 is directed and graph 0 is not"):
        from_networkx([networkx.Graph(), networkx.DiGraph()])
    with pytest.raises(InputError, match="got list as entry 0"):
        from_networkx([[(0, 1)]])
    pack = from_edges(
        [0], [1], node_ptr=[0, 2], node_labels={"x": ["a", "b"]}, node_attributes=[[0.0], [1.0]]
    )
    with pytest.raises(InputError, match="two columns of the nodes are called 'x'"):
        to_networkx(pack.replace(node_attribute_names=("x",)))
    with pytest.raises(InputError, match="not both"):
        from_networkx([], node_label="x", like=pack)
    graph = networkx.Graph()
    graph.add_node(0, x="c", attribute=0.0)
    with pytest.raises(UnknownSymbolError, match="'c'"):
        from_networkx(graph, like=pack)
    one_way = Structures.from_arcs([0], [1], node_ptr=[0, 2])
    with pytest.raises(InputError, match="structure 0 has an arc without a reverse"):
        to_networkx(one_way, directed=False)
