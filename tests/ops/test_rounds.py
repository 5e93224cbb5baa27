"""Rounds of messages as one op agree with plain PyTorch in double precision: values and all gradients.

The kernels run on a GPU or, with ``TRITON_INTERPRET=1`` where Triton is installed, in its interpreter:
``TRITON_INTERPRET=1 python -m pytest --noconftest -c /dev/null tests/ops/test_rounds.py``. Needs no other test's
helpers.
"""

from __future__ import annotations

import os
from copy import deepcopy

import numpy as np
import pytest
import torch

from hiddenfield import Structures, Vocabulary
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.ops import Plan, Round, message_rounds, message_rounds_reference
from hiddenfield.ops.rounds import ACTIVATIONS

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
needs_kernels = pytest.mark.skipif(
    not CUDA and os.environ.get("TRITON_INTERPRET") != "1", reason="neither a CUDA device nor the interpreter"
)


def graphs(seed, *, one_way=False, attributes=False, columns=1, labels=True):
    """Return graphs with isolated nodes, loops, a hub, and some of no or one node; larger ones than any tile."""
    random = np.random.default_rng(seed)
    sizes = random.permutation([0, 1, 2, int(random.integers(3, 9)), int(random.integers(70, 100)), 0])
    ptr, pairs = np.concatenate([[0], np.cumsum(sizes)]), set()
    for start, size in zip(ptr, sizes, strict=False):
        for first, second in random.integers(0, max(size, 1), (size + 1, 2)):
            if size:
                pairs.add((start + min(first, second), start + max(first, second)))
        if size > 50:
            pairs |= {(start, start + other) for other in random.integers(1, size, 30)}
    first, second = np.array(sorted(pairs)).T
    words = [Vocabulary(f"kind {column}", (0, 1, 2)) for column in range(columns)]
    options = {"node_ptr": ptr}
    if labels:
        options |= {"node_labels": random.integers(0, 3, (ptr[-1], columns)), "node_vocabularies": words}
    if attributes:
        options["node_attributes"] = random.normal(size=(ptr[-1], 2))
    if not one_way:
        bonds = {
            "edge_labels": random.integers(0, 2, len(first)),
            "edge_vocabularies": [Vocabulary("bond", (0, 1))],
        }
        return Structures.from_edges(first, second, **options, **(bonds if labels else {}))
    back = (first != second) & (random.random(len(first)) < 0.5)
    ends = np.concatenate([first, second[back]]), np.concatenate([second, first[back]])
    return Structures.from_arcs(*ends, **options)


def close(mine, theirs, tolerance):
    for one, other in zip(mine, theirs, strict=True):
        distance = float((one.detach().double() - other.detach()).norm())
        assert distance <= tolerance * max(float(other.detach().norm()), 1e-3)


def loopy(rounds, every):
    """Return the plan of loopy belief propagation."""
    steps = [Round("cavity", number, 0, 0) for number in range(rounds - 1)]
    read = range(rounds) if every else [rounds - 1]
    return Plan(
        (*steps, *(Round("arrivals", number, 1, 1) for number in read)),
        tuple(range(len(steps) + 1, len(steps) + len(read) + 1)),
    )


PLANS = {
    "loopy": loopy(3, False),
    "loopy, all rounds": loopy(3, True),
    "loopy, one round": loopy(1, False),
    "mean field": Plan((Round("senders", 0, 0, 0), Round("senders", 1, 0, 0)), (2,)),
    "mean field, all rounds": Plan((Round("senders", 0, 0, 0), Round("senders", 1, 0, 0)), (0, 1, 2)),
}


def problem(seed, name, dim, one_way, by_kind):
    """Return a topology, parameters and kinds that fit a plan."""
    pack = graphs(seed, one_way=one_way)
    torch.manual_seed(seed)
    arcs, nodes = pack.total_arcs, pack.total_nodes
    rows = [arcs, nodes] if name.startswith("loopy") else [nodes]
    kinds = [torch.randint(0, 5 + k, (count,)) if by_kind else None for k, count in enumerate(rows)]
    constants = [torch.randn(5 + k if by_kind else count, dim) for k, count in enumerate(rows)]
    weights = [0.3 * torch.randn(dim, dim) for _ in rows]
    kinds = [None if kind is None else kind.to(DEVICE) for kind in kinds]
    return pack.to(DEVICE).topology, [part.to(DEVICE) for part in (*weights, *constants)], kinds


def run(op, plan, topology, parameters, kinds, dtype):
    """Return the results and all gradients, for gradients of the results that are drawn."""
    given = [part.to(dtype).requires_grad_() for part in parameters]
    half = len(given) // 2
    results = op(plan, topology, given[:half], given[half:], kinds)
    torch.manual_seed(1)
    drawn = [torch.randn(result.shape).to(DEVICE, dtype) for result in results]
    found = torch.autograd.grad(results, given, drawn, allow_unused=True)
    return results, [torch.zeros_like(g) if f is None else f for f, g in zip(found, given, strict=True)]


@needs_kernels
@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("by_kind", [False, True])
@pytest.mark.parametrize(("name", "dim"), [*((name, 16) for name in PLANS), ("loopy", 20), ("loopy", 128)])
def test_values_and_gradients_agree(name, dim, by_kind, one_way):
    for seed in range(3 if CUDA else 1):
        topology, parameters, kinds = problem(seed, name, dim, one_way, by_kind)
        mine = run(message_rounds, PLANS[name], topology, parameters, kinds, torch.float32)
        exact = run(message_rounds_reference, PLANS[name], topology, parameters, kinds, torch.float64)
        for some, others in zip(mine, exact, strict=True):
            close(some, others, 1e-5)


@needs_kernels
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", PLANS)
def test_other_nonlinearities_agree(name, activation):
    topology, parameters, kinds = problem(1, name, 16, True, name.startswith("loopy"))
    plan = Plan(PLANS[name].rounds, PLANS[name].wanted, activation=activation)
    mine = run(message_rounds, plan, topology, parameters, kinds, torch.float32)
    exact = run(message_rounds_reference, plan, topology, parameters, kinds, torch.float64)
    for some, others in zip(mine, exact, strict=True):
        close(some, others, 2e-5)


@needs_kernels
def test_differentiated_twice():
    topology, parameters, kinds = problem(0, "loopy", 4, False, True)
    second = []
    for op, dtype in ((message_rounds, torch.float32), (message_rounds_reference, torch.float64)):
        given = [part.to(dtype).requires_grad_() for part in parameters]
        (result,) = op(PLANS["loopy"], topology, given[:2], given[2:], kinds)
        first = torch.autograd.grad(result.square().sum(), given, create_graph=True)
        second.append(torch.autograd.grad(sum(part.square().sum() for part in first), given))
    close(*second, 1e-4)


@needs_kernels
def test_the_same_to_the_bit():
    topology, parameters, kinds = problem(0, "loopy", 16, False, True)
    first, second = (
        run(message_rounds, PLANS["loopy"], topology, parameters, kinds, torch.float32) for _ in "ab"
    )
    for some, others in zip(first, second, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


@pytest.mark.skipif(not CUDA, reason="no CUDA device, and the interpreter rounds nothing")
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 0.02), ("bf16", 0.2)])
def test_lower_precisions(precision, tolerance):
    topology, parameters, kinds = problem(0, "loopy", 32, False, True)
    plan = Plan(PLANS["loopy"].rounds, PLANS["loopy"].wanted, precision)
    mine = run(message_rounds, plan, topology, parameters, kinds, torch.float32)
    exact = run(message_rounds_reference, plan, topology, parameters, kinds, torch.float64)
    for some, others in zip(mine, exact, strict=True):
        close(some, others, tolerance)


@needs_kernels
@pytest.mark.parametrize("model", ["loopy_bp", "mean_field"])
@pytest.mark.parametrize(
    ("features", "options"),
    [
        ({"columns": 2}, {}),
        ({"attributes": True}, {"every_round": True}),
        ({"labels": False}, {"rounds": 1}),
        ({"one_way": True}, {"bias": False, "activation": "silu"}),
    ],
)
def test_embeddings_agree_with_their_plain_paths(model, features, options):
    pack = graphs(4, **features)
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), 2, model=model, dim=16, **{"rounds": 3, **options}).to(DEVICE)
    found = []
    for one in (network, deepcopy(network).double()):  # in double precision there are no kernels
        outputs = one(pack.to(DEVICE))
        outputs.square().sum().backward()
        gradients = [p.grad for p in one.parameters() if p.grad is not None]
        found.append((outputs, *gradients))
    close(*found, 1e-4)
