"""How fast and how accurate are the sums of message passing, compared with the usual PyTorch formulation?

``gather_sum`` (each node sums the values of its neighbours) and ``cavity_sum`` (each arc sums the messages into its
sender, except the one along the same edge), forward and backward, on disjoint unions of molecule-like graphs (30
nodes, 64 arcs), float32 rows of 64, from 100 arcs to 10 million, on one thread and on two. Compared with
``index_select`` and ``zeros.index_add_`` with int64 indices, which is what PyG's scatter does. The two alternate;
best of several runs. The error is the largest difference from the same formulation in float64, of result and
gradient. Sizes that do not fit into free memory are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.environment import main, side_by_side
from hiddenfield.ops import Topology, cavity_sum, gather_sum, match_reverse

NODES, DIM = 30, 64
ROWS_ALIVE = {"gather_sum": 4, "cavity_sum": 10}  # rows of DIM floats an arc that the rival holds at its peak


def molecules(num_arcs: int, seed: int = 0) -> Topology:
    """Return copies of one molecule-like graph, a tree with three ring closures, up to about `num_arcs` arcs."""
    random = np.random.default_rng(seed)
    parent = [int(node - 1 - random.integers(0, min(node, 3))) for node in range(1, NODES)]
    edges = {(child, above) for child, above in enumerate(parent, start=1)} | {(9, 4), (17, 12), (27, 22)}
    arcs = np.array(sorted(edges | {(second, first) for first, second in edges}))
    copies = max(1, round(num_arcs / len(arcs)))
    offset = NODES * np.arange(copies)[:, None]
    target, source = ((arcs[:, column] + offset).ravel() for column in range(2))
    in_ptr = torch.from_numpy(np.searchsorted(target, np.arange(NODES * copies + 1)).astype(np.int32))
    sources = torch.from_numpy(source.astype(np.int32))
    return Topology(sources, in_ptr, match_reverse(sources, in_ptr), symmetric=True)


def rivals(topology: Topology) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return the usual formulation of both ops."""
    source, target = topology.source.long(), topology.target.long()
    reverse = topology.reverse.long()
    nodes = topology.num_nodes

    def gather(values: Tensor) -> Tensor:
        return values.new_zeros(nodes, DIM).index_add_(0, target, values.index_select(0, source))

    def cavity(messages: Tensor) -> Tensor:
        total = messages.new_zeros(nodes, DIM).index_add_(0, target, messages)
        return total.index_select(0, source) - messages.index_select(0, reverse)

    return {"gather_sum": gather, "cavity_sum": cavity}


def both_ways(function: Callable[[Tensor], Tensor], values: Tensor, gradient: Tensor) -> Callable[[], Any]:
    """Return a call that runs forward and backward and gives both results."""

    def call() -> tuple[Tensor, Tensor]:
        values.grad = None
        out = function(values)
        out.backward(gradient)
        return out.detach(), values.grad

    return call


def error(function: Callable[[], Any], exact: Callable[[], Any]) -> float:
    """Return the greatest difference of result and gradient."""
    return max(float((a.double() - b).abs().max()) for a, b in zip(function(), exact(), strict=True))


def measure(num_arcs: int, op: str, threads: int, repeats: int) -> dict[str, Any]:
    """Time one op at one size and compare it with float64."""
    torch.set_num_threads(threads)
    topology = molecules(num_arcs)
    ours = {"gather_sum": gather_sum, "cavity_sum": cavity_sum}[op]
    rival = rivals(topology)[op]
    rows = topology.num_nodes if op == "gather_sum" else topology.num_arcs
    random = torch.Generator().manual_seed(0)
    values = torch.randn(rows, DIM, generator=random).requires_grad_()
    gradient = torch.randn(rows, DIM, generator=random)
    call = both_ways(lambda x: ours(x, topology), values, gradient)
    usual = both_ways(rival, values, gradient)
    seconds = side_by_side({"rival": usual, "ours": call}, repeats)
    row = {
        "op": op,
        "arcs": topology.num_arcs,
        "threads": threads,
        "PyTorch (µs)": seconds["rival"] * 1e6,
        "hiddenfield (µs)": seconds["ours"] * 1e6,
        "ratio": seconds["rival"] / seconds["ours"],
        "error": None,
        "PyTorch's error": None,
    }
    if topology.num_arcs <= 300_000:
        exact = both_ways(rival, values.detach().double().requires_grad_(), gradient.double())
        row |= {"error": error(call, exact), "PyTorch's error": error(usual, exact)}
    return row


def run(quick: bool = False) -> dict[str, Any]:
    """Measure every op, size and number of threads; sizes that do not fit the free memory are left out."""
    before = torch.get_num_threads()
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    sizes = (
        [100, 1_000, 10_000]
        if quick
        else [100, 300, 1_000, 10_000, 100_000, 250_000, 1_000_000, 3_000_000, 10_000_000]
    )
    rows = []
    for op in ("gather_sum", "cavity_sum"):
        for threads in (1, 2):
            for size in sizes:
                if size * ROWS_ALIVE[op] * DIM * 4 < free:
                    repeats = int(np.clip(2_000_000 // size, 3, 500))
                    rows.append(measure(size, op, threads, repeats))
    torch.set_num_threads(before)
    return {"question": "forward and backward of gather_sum and cavity_sum", "dim": DIM, "rows": rows}


if __name__ == "__main__":
    main(run)
