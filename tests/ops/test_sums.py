"""gather_sum, arc_sum and cavity_sum: against their references, plain Python, and the laws that they obey."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.ops import (
    Topology,
    arc_sum,
    cavity_sum,
    cavity_sum_reference,
    gather_sum,
    gather_sum_reference,
    match_reverse_reference,
    segment_sum_reference,
)

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device: nothing to compare with"
)


@st.composite
def topologies(draw, index_dtypes=(torch.int32, torch.int64), most_nodes=7, most_arcs=40):
    """Draw a multigraph: loops, parallel arcs, one-way arcs, isolated nodes; also no arcs and no nodes."""
    nodes = draw(st.integers(0, most_nodes))
    node = st.integers(0, max(nodes - 1, 0))
    arcs = draw(st.lists(st.tuples(node, node), max_size=most_arcs if nodes else 0))
    if draw(st.booleans()):
        arcs = arcs + [(target, source) for source, target in arcs if source != target]
    return build(nodes, arcs, draw(st.sampled_from(index_dtypes)))


def build(nodes, arcs, dtype=torch.int64):
    """Build a topology from pairs (source, target)."""
    arcs = sorted(arcs, key=lambda arc: (arc[1], arc[0]))
    source = torch.tensor([arc[0] for arc in arcs], dtype=dtype)
    target = torch.tensor([arc[1] for arc in arcs], dtype=torch.int64)
    in_ptr = torch.searchsorted(target, torch.arange(nodes + 1)).to(dtype)
    reverse = match_reverse_reference(source, in_ptr)
    return Topology(source, in_ptr, reverse, symmetric=bool((reverse >= 0).all()))


@st.composite
def matrices(draw, rows, dims=(0, 1, 3, 64)):
    """Draw a matrix of random numbers, contiguous or not."""
    dim = draw(st.sampled_from(dims))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    layout = draw(st.sampled_from(["contiguous", "transposed", "strided"]))
    if layout == "transposed":
        return torch.randn(dim, rows, generator=random, dtype=dtype).T
    if layout == "strided":
        return torch.randn(2 * rows, dim + 1, generator=random, dtype=dtype)[::2, 1:]
    return torch.randn(rows, dim, generator=random, dtype=dtype)


def close(first, second):
    assert first.dtype == second.dtype
    torch.testing.assert_close(first, second, rtol=TOLERANCE[first.dtype], atol=10 * TOLERANCE[first.dtype])


def gradients(function, values, seed=0):
    """Return result and gradient for a fixed random cotangent."""
    values = values.detach().clone().requires_grad_()
    out = function(values)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    return out.detach(), torch.autograd.grad(out, values, cotangent)[0]


@given(st.data())
def test_gather_sum_agrees_with_the_reference(data):
    topology = data.draw(topologies())
    values = data.draw(matrices(topology.num_sources))
    for ours, theirs in zip(
        gradients(lambda x: gather_sum(x, topology), values),
        gradients(lambda x: gather_sum_reference(x, topology), values),
        strict=True,
    ):
        close(ours, theirs)


@given(st.data())
def test_cavity_sum_agrees_with_the_reference(data):
    topology = data.draw(topologies())
    messages = data.draw(matrices(topology.num_arcs))
    for ours, theirs in zip(
        gradients(lambda x: cavity_sum(x, topology), messages),
        gradients(lambda x: cavity_sum_reference(x, topology), messages),
        strict=True,
    ):
        close(ours, theirs)


@given(st.data(), st.booleans(), st.booleans())
def test_a_cavity_with_a_constant_rectified_agrees_with_the_reference(data, add, rectify):
    topology = data.draw(topologies())
    messages = data.draw(matrices(topology.num_arcs))
    random = torch.Generator().manual_seed(0)
    constant = torch.randn(messages.shape, generator=random, dtype=messages.dtype) if add else None
    for ours, theirs in zip(
        gradients(lambda x: cavity_sum(x, topology, constant, rectify=rectify), messages),
        gradients(lambda x: cavity_sum_reference(x, topology, False, constant, rectify), messages),
        strict=True,
    ):
        close(ours, theirs)


def with_kinds(op, topology, rectify, shared):
    """Return `op` as a function of messages and constant, with the row that each arc has of each."""
    random = torch.Generator().manual_seed(1)
    kinds = [torch.randint(3, (topology.num_arcs,), generator=random) if share else None for share in shared]
    if op is cavity_sum:
        named = {"message_kind": kinds[0], "constant_kind": kinds[1]}
        return lambda m, c: op(m, topology, c, rectify=rectify, **named)
    return lambda m, c: op(m, topology, False, c, rectify, *kinds)


@given(topologies(), st.booleans(), st.tuples(st.booleans(), st.booleans()), st.sampled_from([1, 64]))
def test_a_cavity_of_shared_rows_agrees_with_the_reference(topology, rectify, shared, dim):
    random = torch.Generator().manual_seed(0)
    rows = [3 if share else topology.num_arcs for share in shared]
    values = [torch.randn(n, dim, generator=random, requires_grad=True) for n in rows]
    cotangent = torch.randn(topology.num_arcs, dim, generator=random)
    results = []
    for op in (cavity_sum, cavity_sum_reference):
        out = with_kinds(op, topology, rectify, shared)(*values)
        results.append([out, *torch.autograd.grad(out, values, cotangent)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@given(st.data())
def test_arc_sum_agrees_with_the_reference(data):
    topology = data.draw(topologies())
    messages = data.draw(matrices(topology.num_arcs))
    close(arc_sum(messages, topology), segment_sum_reference(messages, topology.in_ptr))


@given(st.data())
def test_sums_are_what_plain_python_adds(data):
    topology = data.draw(topologies())
    values = data.draw(matrices(topology.num_nodes, dims=(2,)))
    messages = data.draw(matrices(topology.num_arcs, dims=(2,)))
    source, target = topology.source.tolist(), topology.target.tolist()
    arcs = range(topology.num_arcs)
    summed = values.new_zeros(topology.num_nodes, 2)
    left = messages.new_zeros(topology.num_arcs, 2)
    for arc in arcs:
        summed[target[arc]] += values[source[arc]]
        for other in arcs:
            if target[other] == source[arc] and other != int(topology.reverse[arc]):
                left[arc] += messages[other]
    close(gather_sum(values, topology), summed)
    close(cavity_sum(messages, topology), left)


@given(st.data())
def test_cavity_sum_is_the_gathered_sum_less_the_reverse(data):
    topology = data.draw(topologies())
    messages = data.draw(matrices(topology.num_arcs))
    incoming = arc_sum(messages, topology)
    expected = incoming[topology.source.long()]
    paired = torch.nonzero(topology.reverse >= 0).flatten()
    expected[paired] -= messages[topology.reverse[paired].long()]
    close(cavity_sum(messages, topology), expected)


@given(topologies(), st.integers(0, 2**31))
def test_gather_sum_is_equivariant_under_renumbering(topology, seed):
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(topology.num_nodes, generator=random)
    values = torch.randn(topology.num_nodes, 3, generator=random, dtype=torch.float64)
    pairs = zip(order[topology.source.long()].tolist(), order[topology.target.long()].tolist(), strict=True)
    renumbered = build(topology.num_nodes, list(pairs))
    moved = torch.empty_like(values)
    moved[order] = values
    close(gather_sum(moved, renumbered)[order], gather_sum(values, topology))


@given(topologies(), st.integers(0, 2**31))
def test_gathering_over_the_transpose_is_the_adjoint(topology, seed):
    random = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, topology.num_nodes, 3, generator=random, dtype=torch.float64)
    there = (gather_sum(first, topology) * second).sum()
    back = (first * gather_sum(second, topology.transpose)).sum()
    close(there, back)


@given(st.data())
def test_hard_zeros_pass_through_a_cavity(data):
    topology = data.draw(topologies())
    messages = data.draw(matrices(topology.num_arcs, dims=(3,)))
    hard = data.draw(st.lists(st.booleans(), min_size=topology.num_arcs, max_size=topology.num_arcs))
    hard = torch.tensor(hard, dtype=torch.bool)
    messages = messages.clone()
    messages[hard] = -torch.inf
    out = cavity_sum(messages, topology)
    assert not out.isnan().any()
    close(out, cavity_sum_reference(messages, topology))
    source, target = topology.source.tolist(), topology.target.tolist()
    for arc in range(topology.num_arcs):
        others = [
            b for b in range(topology.num_arcs) if target[b] == source[arc] and b != topology.reverse[arc]
        ]
        assert bool(out[arc, 0] == -torch.inf) == any(bool(hard[b]) for b in others)
    _, gradient = gradients(lambda x: cavity_sum(x, topology), messages)
    assert gradient.isfinite().all()


def test_a_large_message_does_not_drown_a_small_one():
    star = build(6, [(leaf, 0) for leaf in range(1, 6)] + [(0, leaf) for leaf in range(1, 6)])
    messages = torch.full((10, 1), 0.25)
    messages[0] = 1e9  # from the first leaf
    assert cavity_sum(messages, star)[star.reverse[0]].item() == 1.0


SMALL = {
    "mixed": build(5, [(0, 1), (1, 0), (1, 2), (2, 2), (2, 2), (3, 1), (0, 1), (0, 1), (2, 1), (4, 1)]),
    "symmetric": build(4, [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1), (3, 3)]),
    "one way": build(3, [(0, 1), (0, 2), (1, 2)]),
    "no arcs": build(3, []),
    "no nodes": build(0, []),
}


@pytest.mark.parametrize("op", [gather_sum, arc_sum, cavity_sum])
@pytest.mark.parametrize("name", SMALL)
def test_first_and_second_derivatives(op, name):
    topology = SMALL[name]
    rows = topology.num_sources if op is gather_sum else topology.num_arcs
    values = torch.randn(
        rows, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: op(x, topology), values)
    assert torch.autograd.gradgradcheck(lambda x: op(x, topology), values)


@pytest.mark.parametrize("shared", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_derivatives_of_a_cavity_of_shared_rows(name, rectify, shared):
    topology = SMALL[name]
    random = torch.Generator().manual_seed(0)
    rows = [3 if share else topology.num_arcs for share in shared]
    values = [torch.randn(n, 2, generator=random, dtype=torch.float64, requires_grad=True) for n in rows]
    function = with_kinds(cavity_sum, topology, rectify, shared)
    assert torch.autograd.gradcheck(function, values)
    assert torch.autograd.gradgradcheck(function, values)


def test_one_of_messages_and_constant_may_need_no_gradient():
    topology = SMALL["mixed"]
    random = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 10, 3, generator=random)
    for rectify in (False, True):
        function = with_kinds(cavity_sum, topology, rectify, (False, False))
        both = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        function(*both).sum().backward()
        for place in range(2):
            one = [first.clone(), second.clone()]
            one[place].requires_grad_()
            function(*one).sum().backward()
            assert torch.equal(one[place].grad, both[place].grad)
            assert one[1 - place].grad is None


def test_more_senders_than_receivers():
    wide = Topology(torch.tensor([4, 0, 3]), torch.tensor([0, 2, 3]), num_sources=5)
    values = torch.arange(5.0).unsqueeze(1).requires_grad_()
    out = gather_sum(values, wide)
    assert out.flatten().tolist() == [4, 3]
    out.sum().backward()
    assert values.grad.flatten().tolist() == [1, 0, 0, 1, 1]
    assert torch.autograd.gradgradcheck(
        lambda x: gather_sum(x, wide), values.detach().double().requires_grad_()
    )


@pytest.mark.parametrize("op", [gather_sum, cavity_sum, arc_sum])
def test_threads_do_not_change_a_bit(op):
    random = torch.Generator().manual_seed(0)
    nodes, arcs = 3_000, 20_000
    pairs = torch.randint(nodes, (2, arcs), generator=random)
    pairs[:, :2_000][0] = 7  # one node of many arcs, most of them one way
    topology = build(nodes, list(zip(*pairs.tolist(), strict=True)))
    values = torch.randn(nodes if op is gather_sum else arcs, 16, generator=random)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(gradients(lambda x: op(x, topology), values))
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_threads_do_not_change_a_bit_of_shared_rows():
    random = torch.Generator().manual_seed(0)
    pairs = torch.randint(3_000, (2, 10_000), generator=random).tolist()
    topology = build(3_000, [*zip(*pairs, strict=True), *zip(*reversed(pairs), strict=True)])
    values = torch.randn(3, 16, generator=random)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        function = with_kinds(cavity_sum, topology, True, (True, True))
        results.append(gradients(lambda x, f=function: f(x, x), values))
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.bad_input
def test_bad_kinds_are_refused():
    topology = SMALL["mixed"]
    with pytest.raises(InputError, match="the kind of each of the 10 arcs is needed, got 9"):
        cavity_sum(torch.zeros(3, 2), topology, message_kind=torch.zeros(9, dtype=torch.int64))
    with pytest.raises(InputError, match="kind must be a vector of int32 or int64"):
        cavity_sum(torch.zeros(3, 2), topology, message_kind=torch.zeros(10))


@needs_cuda
@given(st.data())
def test_devices_agree(data):
    topology = data.draw(topologies())
    moved = topology.to("cuda")
    values = data.draw(matrices(topology.num_nodes))
    messages = data.draw(matrices(topology.num_arcs))
    close(gather_sum(values.cuda(), moved).cpu(), gather_sum(values, topology))
    close(arc_sum(messages.cuda(), moved).cpu(), arc_sum(messages, topology))
    close(cavity_sum(messages.cuda(), moved).cpu(), cavity_sum(messages, topology))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_floats_run_on_the_reference(dtype):
    topology = SMALL["mixed"]
    values = torch.arange(5, dtype=dtype).unsqueeze(1)
    assert torch.equal(gather_sum(values, topology), gather_sum(values.float(), topology).to(dtype))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("values", "text"),
    [
        (torch.zeros(4, 2), r"shape \(5, dim\).*got \(4, 2\)"),
        (torch.zeros(5), r"shape \(5, dim\).*got \(5,\)"),
        (torch.zeros(5, 2, dtype=torch.int64), "floating-point.*int64"),
        (torch.zeros(5, 2, device="meta"), "on meta and the indices are on cpu"),
        ([[0.0]], "must be a tensor, got list"),
    ],
)
def test_bad_values_are_refused(values, text):
    with pytest.raises(InputError, match=text):
        gather_sum(values, SMALL["mixed"])


def test_bad_messages_are_refused():
    topology = SMALL["mixed"]
    for op in (cavity_sum, arc_sum):
        with pytest.raises(
            InputError, match=r"messages must have shape \(10, dim\), one row for each of the 10 arcs"
        ):
            op(torch.zeros(5, 2), topology)
    bare = Topology(topology.source, topology.in_ptr)
    with pytest.raises(InputError, match="needs a topology with reverse"):
        cavity_sum(torch.zeros(10, 2), bare)
