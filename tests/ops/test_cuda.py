"""The Triton kernels against the references, on the GPU; runs alone, as ``tests/embedding/test_cuda.py`` does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiddenfield import Structures
from hiddenfield.fields.graphs.cycles import Relation
from hiddenfield.ops import (
    RowBlocks,
    arc_sum,
    block_outer,
    block_product,
    cavity_sum,
    cavity_sum_reference,
    gather_sum,
    gather_sum_reference,
    segment_repeat,
    segment_sum,
    segment_sum_reference,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def random_pack(seed, nodes=200, arcs=900, both_ways=True):
    random = np.random.default_rng(seed)
    ends = random.integers(0, nodes, (arcs, 2)) if nodes else np.zeros((0, 2), dtype=np.int64)
    if both_ways:
        return Structures.from_edges(ends[:, 0], ends[:, 1], node_ptr=[0, nodes])
    return Structures.from_arcs(ends[:, 0], ends[:, 1], node_ptr=[0, nodes])


def close(mine, theirs, dtype):
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.06}[dtype]
    assert torch.allclose(mine.double(), theirs.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(
    ("nodes", "arcs", "dim"), [(200, 900, 64), (50, 0, 3), (1, 5, 1), (300, 2000, 130), (40, 90, 0)]
)
@pytest.mark.parametrize("rectify", [True, False])
def test_sums(dtype, both_ways, nodes, arcs, dim, rectify):
    topology = random_pack(nodes + arcs, nodes, arcs, both_ways).to("cuda").topology
    torch.manual_seed(0)
    values = torch.randn(topology.num_nodes, dim, device="cuda", dtype=dtype)
    messages = torch.randn(topology.num_arcs, dim, device="cuda", dtype=dtype)
    exact_values, exact_messages = values.double(), messages.double()
    for constant in (None, "given"):
        on_nodes = None if constant is None else torch.randn_like(values)
        on_arcs = None if constant is None else torch.randn_like(messages)
        as_double = None if on_nodes is None else on_nodes.double()
        close(
            gather_sum(values, topology, on_nodes, rectify=rectify),
            gather_sum_reference(exact_values, topology, as_double, rectify),
            dtype,
        )
        as_double = None if on_arcs is None else on_arcs.double()
        close(
            cavity_sum(messages, topology, on_arcs, rectify=rectify),
            cavity_sum_reference(exact_messages, topology, False, as_double, rectify),
            dtype,
        )
    close(arc_sum(messages, topology), segment_sum_reference(exact_messages, topology.in_ptr), dtype)


@pytest.mark.parametrize("both_ways", [True, False])
def test_gradients(both_ways):
    topology = random_pack(5, 12, 30, both_ways).to("cuda").topology
    values = torch.randn(topology.num_nodes, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    messages = torch.randn(topology.num_arcs, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    constant = torch.randn_like(messages).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: gather_sum(x, topology), (values,))
    assert torch.autograd.gradcheck(
        lambda m, c: cavity_sum(m, topology, c, rectify=True), (messages, constant)
    )
    assert torch.autograd.gradgradcheck(lambda m: cavity_sum(m, topology), (messages,))
    assert torch.autograd.gradcheck(lambda m: segment_sum(m, topology.in_ptr), (messages,))


def test_hard_zeros_and_repeated_runs():
    topology = random_pack(1).to("cuda").topology
    messages = torch.randn(topology.num_arcs, 8, device="cuda")
    messages[torch.rand_like(messages) < 0.1] = -torch.inf
    first = cavity_sum(messages, topology)
    assert torch.equal(first, cavity_sum(messages, topology))
    assert not first.isnan().any()
    close(first.exp(), cavity_sum_reference(messages, topology).exp(), torch.float32)


def test_a_hub_falls_back():
    leaves = torch.arange(1, 2000)
    star = Structures.from_edges(torch.zeros_like(leaves), leaves, node_ptr=[0, 2000]).to("cuda")
    messages = torch.randn(star.total_arcs, 4, device="cuda", dtype=torch.float64)
    assert star.longest_range == 1999
    close(cavity_sum(messages, star.topology), cavity_sum_reference(messages, star.topology), torch.float64)


def test_long_and_short_segments():
    for bounds in ([0, 3, 3, 5000], [0, 0], [0, 5, 7, 7, 8]):
        ptr = torch.tensor(bounds, device="cuda")
        rows = torch.randn(bounds[-1], 5, device="cuda", dtype=torch.float64)
        close(segment_sum(rows, ptr), segment_sum_reference(rows, ptr), torch.float64)
        values = torch.randn(len(bounds) - 1, 5, device="cuda")
        assert torch.equal(
            segment_repeat(values, ptr, bounds[-1]), torch.repeat_interleave(values, ptr.diff(), dim=0)
        )


def test_relations_are_cut_on_the_device():
    relation = Relation(*(torch.tensor(x) for x in ([0, 1, 3], [0, 4, 7], [0, 3, 3, 5], [0, 1, 2, 4, 6])))
    here, there = relation[[1, 0, 1]], relation.to("cuda")[[1, 0, 1]]
    for name in ("row_ptr", "source_ptr", "in_ptr", "source"):
        assert torch.equal(getattr(here, name), getattr(there, name).cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (1, 1), (7, 130), (256, 3), (20, 64)])
@pytest.mark.parametrize("counts", [[1500] * 10, [0, 3, 0, 64, 65, 1], [5000, 1], [0]])
def test_products_of_blocks(dtype, inputs, outputs, counts):
    torch.manual_seed(0)
    ptr = torch.tensor(np.cumsum([0, *counts]), device="cuda", dtype=torch.int32)
    blocks = RowBlocks(ptr, sum(counts))
    rows = torch.randn(sum(counts), inputs, device="cuda", dtype=dtype)
    left = torch.randn(sum(counts), outputs, device="cuda", dtype=dtype)
    weight = torch.randn(len(counts), inputs, outputs, device="cuda", dtype=dtype).transpose(1, 2)
    on_host = RowBlocks(ptr.cpu(), sum(counts))
    exact = block_product(rows.double().cpu(), weight.double().cpu(), on_host)
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}[dtype]

    def near(mine, theirs):
        scale = float(theirs.abs().max()) if theirs.numel() else 1.0
        assert torch.allclose(mine.double().cpu(), theirs, rtol=0, atol=tolerance * max(scale, 1.0))

    near(block_product(rows, weight, blocks), exact)
    near(block_outer(left, rows, blocks), block_outer(left.double().cpu(), rows.double().cpu(), on_host))
