"""Lists of pairs, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.data import Structures, from_edge_lists, to_edge_lists
from hiddenfield.errors import InputError
from tests.data.strategies import structures


@given(structures(features=False, columns=False))
def test_the_round_trip_is_exact(pack: Structures) -> None:
    for directed in (True, False) if pack.symmetric else (True,):
        pairs = to_edge_lists(pack, directed=directed)
        back = from_edge_lists(pairs, num_nodes=pack.num_nodes.tolist(), directed=directed)
        assert back == pack


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6), max_size=4))
def test_edges_keep_their_labels(graphs: list[list[tuple[int, int]]]) -> None:
    """Number the edges through the pack; both arcs of each must carry its number."""
    numbers = iter(range(1000))
    labels = [[next(numbers) for _ in graph] for graph in graphs]
    pack = from_edge_lists(
        graphs, edge_labels=labels, edge_attributes=[[[float(n)] for n in row] for row in labels]
    )
    assert pack.num_nodes.tolist() == [max((max(pair) for pair in graph), default=-1) + 1 for graph in graphs]
    for position, graph in enumerate(graphs):
        one = pack[position]
        words = (
            [] if one.arc_labels is None else one.arc_vocabularies[0].decode(one.arc_labels[:, 0].tolist())
        )
        found = sorted(zip(one.source.tolist(), one.target.tolist(), words, strict=True))
        expected = {(a, b, n) for (a, b), n in zip(graph, labels[position], strict=True)}
        expected |= {(b, a, n) for a, b, n in expected}
        assert found == sorted(expected)
        assert one.arc_attributes.flatten().tolist() == [float(word) for word in words]


def test_kinds_of_lists() -> None:
    pairs = [(0, 1), (1, 2)]
    expected = from_edge_lists([pairs, []])
    for graphs in (
        [np.array(pairs), np.zeros((0, 2), dtype=np.int64)],
        [torch.tensor(pairs), torch.zeros(0, 2)],
        [np.array(pairs, dtype=np.uint8), []],
        [np.array(pairs, dtype=np.uint64), np.zeros((0, 2), dtype=np.uint64)],
        (tuple(pairs), ()),
    ):
        assert from_edge_lists(graphs) == expected
    assert from_edge_lists([pairs], node_labels=[["a", "b", "c", "d"]]).num_nodes.tolist() == [4]
    assert from_edge_lists([]).num_nodes.tolist() == []


@pytest.mark.parametrize(
    ("graphs", "options", "words"),
    [
        (
            [[(0, 1)], [(0, 3)]],
            {"num_nodes": [2, 3]},
            "structure 1: edge 0 ends at node 3, but the structure has nodes 0 to 2",
        ),
        ([[(0, 1), (-1, 0)]], {}, "structure 0: edge 1 starts at node -1"),
        ([[(0, 0)]], {"num_nodes": [0]}, "the structure has no nodes"),
        (
            [[(0, 1, 2)]],
            {},
            "structure 0: edges must hold pairs of integers (rows of 2), got (0, 1, 2) as entry 0",
        ),
        ([[(0, 1), (1,)]], {}, "got (1,) as entry 1"),
        (
            [[(0, 1)], [(0.5, 1)]],
            {},
            "structure 1: edges must hold pairs of integers (rows of 2), got (0.5, 1)",
        ),
        ([[(0, "b")]], {}, "got (0, 'b') as entry 0"),
        ([(0, 1)], {}, "structure 0: edges must hold pairs of integers (rows of 2), got 0 as entry 0"),
        ([[(0, 1)]], {"num_nodes": [2, 2]}, "num_nodes must have one entry for each of 1 structures, got 2"),
        ([[(0, 1)]], {"num_nodes": [-1]}, "structure 0: num_nodes must not be negative"),
        (
            [[(0, 1)]],
            {"edge_labels": [["a", "b"]]},
            "structure 0: edge_labels must have one row for each of 1 edges, got 2",
        ),
        (
            [[(0, 1)]],
            {"node_labels": [["a"]]},
            "structure 0: edge 0 ends at node 1, but the structure has nodes 0 to 0",
        ),
    ],
)
def test_what_is_wrong_is_named(graphs: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        from_edge_lists(graphs, **options)
    assert words in str(caught.value)


def test_one_way_arcs_are_no_edges() -> None:
    pack = from_edge_lists([[], [(0, 1)]], directed=True)
    with pytest.raises(InputError, match="structure 1 has arcs that go one way only"):
        to_edge_lists(pack, directed=False)
