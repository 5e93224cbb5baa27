"""The kernels of message passing between pairs give what plain PyTorch gives.

They run on a GPU or, with ``TRITON_INTERPRET=1`` where Triton is installed, in its interpreter:
``TRITON_INTERPRET=1 python -m pytest --noconftest -c /dev/null tests/inference/messages/test_triton_pairs.py``. Needs
no other test's helpers.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from hiddenfield.fields import FactorGraph, from_factors
from hiddenfield.inference import infer
from hiddenfield.inference.messages.passing import MessagePassing, change, largest

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
pytestmark = pytest.mark.skipif(
    not CUDA and os.environ.get("TRITON_INTERPRET") != "1", reason="neither a CUDA device nor the interpreter"
)


def draw(
    seed: int, dtype: torch.dtype, *, variables: int = 40, most: int = 4, zeros: bool = False
) -> FactorGraph:
    """Draw a field of pairs of mixed cardinalities, some of which share tables; one variable has no factor."""
    rng = np.random.default_rng(seed)
    cards = rng.choice([1, most], variables, p=[0.2, 0.8])
    scopes = [sorted(rng.choice(variables - 1, 2, replace=False)) for _ in range(2 * variables)]
    tables = [rng.normal(size=(cards[first], cards[second])) for first, second in scopes]
    shared: dict[tuple[int, int], np.ndarray] = {}
    for number in range(0, len(tables), 2):
        tables[number] = shared.setdefault(tables[number].shape, tables[number])
    scopes += [[variable] for variable in range(variables)]
    tables += [rng.normal(size=card) for card in cards]
    if zeros:
        for table in (table for table in tables if table.size > 2):
            table.flat[rng.integers(table.size)] = -np.inf
    field = from_factors([list(map(int, scope)) for scope in scopes], tables, cards.tolist())
    return field.to(DEVICE, dtype)


def start(passing: MessagePassing, seed: int, zeros: bool) -> torch.Tensor:
    """Return random normalised messages, some states of which are excluded."""
    generator = torch.Generator().manual_seed(seed)
    messages = torch.randn(passing.start().shape, generator=generator, dtype=torch.float64)
    if zeros:
        messages[torch.rand(len(messages), generator=generator) < 0.1] = -np.inf
    return passing.normalise(messages.to(passing.start()))


# Every kind of kernel is compiled anew, which takes a second: each option with each other once, not all of them.
@pytest.mark.parametrize(
    ("dtype", "zeros", "most", "weighted", "maximise", "damping"),
    [
        (torch.float64, True, 3, False, False, 0.0),
        (torch.float64, True, 3, True, True, 0.3),
        (torch.float32, True, 3, True, False, 0.3),
        (torch.float32, False, 3, False, True, 0.0),
        (torch.float64, False, 40, True, False, 0.0),
    ],
)
def test_update(
    dtype: torch.dtype, zeros: bool, most: int, weighted: bool, maximise: bool, damping: float
) -> None:
    from hiddenfield.inference.messages.triton_pairs import suits, update_pairs

    field = draw(most, dtype, most=most, zeros=zeros)
    weights = None
    if weighted:
        weights = tuple(0.2 + 0.8 * torch.rand(group.num_factors).to(DEVICE, dtype) for group in field.groups)
    passing = MessagePassing(field, weights, maximise)
    assert suits(passing)
    messages = start(passing, 7, zeros)
    found, moved = update_pairs(passing, messages, damping)
    new, port = passing.update(messages), field.wiring.message_port
    ports = len(field.wiring.port_variable)
    wanted = torch.zeros(ports, dtype=dtype, device=DEVICE).scatter_reduce(
        0, port, change(messages, new), "amax"
    )
    if damping:
        new = passing.normalise(damping * messages + (1 - damping) * new)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    if damping:
        tolerance = max(tolerance, 1e-6)  # a number reaches a kernel in single precision
    torch.testing.assert_close(moved, wanted, atol=tolerance, rtol=0)
    torch.testing.assert_close(found.exp(), new.exp(), atol=tolerance, rtol=0)
    finite = new > -20
    torch.testing.assert_close(found[finite], new[finite], atol=10 * tolerance, rtol=10 * tolerance)
    worst = largest(moved, field.wiring.port_graph, field.num_graphs)
    assert worst.shape == (1,)


def test_a_hub_and_a_message_that_is_no_number() -> None:
    from hiddenfield.inference.messages.triton_pairs import relative_totals, update_pairs

    spokes = [[0, number] for number in range(1, 200)]
    field = from_factors(spokes, [np.log([[2.0, 1.0], [1.0, 3.0]])] * len(spokes)).to(DEVICE)
    passing = MessagePassing(field)
    messages = start(passing, 1, False)
    torch.testing.assert_close(relative_totals(passing, messages), passing.relative_totals(messages))
    messages[3] = torch.nan
    assert torch.isinf(update_pairs(passing, messages, 0.0)[1]).any()


@pytest.mark.skipif(not CUDA, reason="no CUDA device")
@pytest.mark.parametrize("method", ["loopy_bp", "tree_reweighted"])
@pytest.mark.parametrize("options", [{}, {"damping": 0.4}])
def test_inference_agrees_with_plain_torch(method: str, options: dict[str, float]) -> None:
    field = draw(3, torch.float64)
    here, plain = infer(field, method, **options), infer(field, method, backend="torch", **options)
    assert bool(here.converged.all()) == bool(plain.converged.all())
    torch.testing.assert_close(here.marginals, plain.marginals, atol=1e-5, rtol=0)
    torch.testing.assert_close(here.log_partition, plain.log_partition, atol=1e-4, rtol=0)
