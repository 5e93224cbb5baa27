"""Topology: what it derives, what it refuses."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.ops import Topology, match_reverse_reference

ONE_WAY = (torch.tensor([1, 0, 1, 2]), torch.tensor([0, 1, 3, 4]))  # 1->0, 0->1, 1->1, 2->2 with node 2 alone


@st.composite
def topologies(draw):
    nodes = draw(st.integers(1, 6))
    node = st.integers(0, nodes - 1)
    arcs = sorted(draw(st.lists(st.tuples(node, node), max_size=20)))
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    target = torch.tensor([arc[0] for arc in arcs], dtype=torch.int64)
    source = torch.tensor([arc[1] for arc in arcs], dtype=dtype)
    in_ptr = torch.searchsorted(target, torch.arange(nodes + 1)).to(dtype)
    reverse = match_reverse_reference(source, in_ptr)
    return Topology(source, in_ptr, reverse, symmetric=bool((reverse >= 0).all()))


def pairs(topology):
    return sorted(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


@given(topologies())
def test_transpose_turns_every_arc_round(topology):
    turned = topology.transpose
    topology.validate()
    turned.validate()
    assert pairs(turned) == sorted((target, source) for source, target in pairs(topology))
    assert (turned is topology) == topology.symmetric
    assert int((turned.reverse >= 0).sum()) == int((topology.reverse >= 0).sum())
    assert pairs(turned.transpose) == pairs(topology)


@given(topologies())
def test_outgoing_arcs_are_grouped_by_sender(topology):
    order, out_ptr = topology.outgoing
    assert sorted(order.tolist()) == list(range(topology.num_arcs))
    for node in range(topology.num_nodes):
        group = order[int(out_ptr[node]) : int(out_ptr[node + 1])].long()
        assert (topology.source[group] == node).all()


def test_sizes_and_defaults():
    topology = Topology(*ONE_WAY)
    assert (topology.num_nodes, topology.num_arcs, topology.num_sources) == (3, 4, 3)
    assert topology.target.tolist() == [0, 1, 1, 2]
    assert topology.target.dtype == topology.source.dtype
    assert not topology.symmetric
    assert topology.to("cpu") is topology


def test_it_survives_pickling():
    topology = Topology(*ONE_WAY)
    again = pickle.loads(pickle.dumps(topology))
    assert pairs(again) == pairs(topology)
    assert pairs(again.transpose) == pairs(topology.transpose)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"source": torch.tensor([0.0])}, "source must be a vector of int32 or int64.*float32"),
        ({"source": torch.tensor([[0]])}, r"source must be a vector.*shape \(1, 1\)"),
        ({"source": [0]}, "source must be a tensor, got list"),
        ({"in_ptr": torch.tensor([], dtype=torch.int64)}, r"nodes \+ 1 numbers"),
        ({"in_ptr": torch.tensor([0, 1, 3])}, "last number of in_ptr must be the number of arcs, 4, got 3"),
        ({"in_ptr": torch.tensor([0, 4], device="meta")}, "in_ptr is on meta"),
        ({"reverse": torch.tensor([0])}, "one number for each of the 4 arcs, got 1"),
        ({"num_sources": 9, "symmetric": True}, "num_sources=9 and 3 nodes"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(arguments, text):
    with pytest.raises(InputError, match=text):
        Topology(**{"source": ONE_WAY[0], "in_ptr": ONE_WAY[1], **arguments})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"source": torch.tensor([1, 0, 3, 2])}, "arc 2 reads from row 3, but there are 3 rows"),
        ({"source": torch.tensor([1, 0, -1, 2])}, "arc 2 reads from row -1"),
        ({"in_ptr": torch.tensor([0, 3, 2, 4])}, "node 1 has a negative number of arcs into it, -1"),
        (
            {"in_ptr": torch.tensor([1, 1, 3, 4])},
            "in_ptr must go from 0 to the number of arcs, 4, got 1 to 4",
        ),
        ({"reverse": torch.tensor([1, 0, 2, 4])}, "arc 3 has reverse 4, but there are 4 arcs"),
        ({"reverse": torch.tensor([1, 0, 2, -2])}, "arc 3 has reverse -2"),
        (
            {"reverse": torch.tensor([2, 0, 2, 3])},
            "arc 0 has reverse 2, which does not join the same two nodes",
        ),
        ({"reverse": torch.tensor([1, -1, 2, 3])}, "arc 0 has reverse 1, whose own reverse is another"),
        (
            {"reverse": torch.tensor([1, 0, -1, 3])},
            "arc 2 is a self-loop and must be its own reverse, got -1",
        ),
        ({"reverse": torch.tensor([1, 0, 2, -1]), "symmetric": True}, "symmetric=True promises a reverse"),
    ],
)
def test_validate_names_the_first_bad_arc(arguments, text):
    topology = Topology(**{"source": ONE_WAY[0], "in_ptr": ONE_WAY[1], **arguments})
    with pytest.raises(InputError, match=text):
        topology.validate()
