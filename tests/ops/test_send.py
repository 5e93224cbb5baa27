"""send and reverse_messages: gather_sum in disguise, so that their laws are what is left to test."""

from __future__ import annotations

import torch
from hypothesis import given, settings, strategies as st
from torch.autograd import gradcheck, gradgradcheck

from hiddenfield.data import from_arcs
from hiddenfield.ops import arc_sum, cavity_sum, reverse_messages, send


@st.composite
def graphs(draw):
    nodes = draw(st.integers(1, 6))
    node = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(node, node), max_size=12))
    both_ways = draw(st.booleans())
    arcs += [(b, a) for a, b in arcs if a != b] if both_ways else []
    return nodes, arcs


def topology_of(graph):
    nodes, arcs = graph
    return from_arcs([a for a, _ in arcs], [b for _, b in arcs], node_ptr=[0, nodes]).topology


def rows(count, seed):
    return torch.randn(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(graphs(), st.integers(0, 100))
def test_each_arc_gets_its_senders_row(graph, seed):
    topology = topology_of(graph)
    values = rows(topology.num_nodes, seed)
    assert torch.equal(send(values, topology), values[topology.source.long()])


@given(graphs(), st.integers(0, 100))
def test_reverse_is_an_involution_with_zeros_where_there_is_none(graph, seed):
    topology = topology_of(graph)
    messages = rows(topology.num_arcs, seed)
    paired = (topology.reverse >= 0).unsqueeze(1)
    once = reverse_messages(messages, topology)
    assert torch.equal(once, torch.where(paired, messages[topology.reverse.long()], 0.0))
    assert torch.equal(reverse_messages(once, topology), torch.where(paired, messages, 0.0))


@given(graphs(), st.integers(0, 100))
def test_the_cavity_is_the_senders_sum_less_the_reverse(graph, seed):
    topology = topology_of(graph)
    messages = rows(topology.num_arcs, seed)
    expected = send(arc_sum(messages, topology), topology) - reverse_messages(messages, topology)
    assert torch.allclose(cavity_sum(messages, topology), expected, atol=1e-12)


@settings(max_examples=25)
@given(graphs(), st.integers(0, 100))
def test_gradients(graph, seed):
    topology = topology_of(graph)
    values = rows(topology.num_nodes, seed).requires_grad_()
    messages = rows(topology.num_arcs, seed).requires_grad_()
    for function, argument in ((send, values), (reverse_messages, messages)):
        if argument.numel():
            assert gradcheck(lambda x, f=function: f(x, topology), (argument,))
            assert gradgradcheck(lambda x, f=function: f(x, topology), (argument,))
