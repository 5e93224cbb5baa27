"""The last look at settled messages: the compiled loop finds what plain torch finds, and so do the updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.fields import FactorGraph, from_factors
from hiddenfield.inference.messages.free_energy import evaluate, negative_free_energy, recheck
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.propagation import make_iteration
from tests.data.strategies import built
from tests.fields.strategies import fields


def random_messages(passing: MessagePassing, seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    start = passing.start()
    noise = torch.randn(start.shape, generator=generator, dtype=start.dtype)
    return passing.normalise(start + spread * noise)


PAIRS: dict[str, Any] = {"most_arity": 2}


@st.composite
def counted_pairs(draw: Any) -> FactorGraph:
    """Draw pairs that stand for several."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    states = draw(st.integers(2, 4))
    scopes = [[0, 1], [1, 2], [2, 2]]
    tables = [generator.normal(size=(states, states)) for _ in scopes]
    counts = {"counts": [2.0, 3.0, 4.0], "factor_counts": [3.0, 1.0, 40.0]}
    return built(from_factors, scopes, tables, [states] * 3, **counts)


@given(
    st.one_of(fields(), fields(scale=100.0), counted_pairs()),
    st.sampled_from([torch.float64, torch.float32]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 1e-3]),
    st.integers(0, 2**31),
)
def test_one_more_update_as_in_torch(
    field: FactorGraph, dtype: torch.dtype, maximise: bool, weighted: bool, spread: float, seed: int
) -> None:
    field = field.to(dtype)
    weights = None
    if weighted:
        weights = tuple(torch.full((group.num_factors,), 0.7, dtype=dtype) for group in field.groups)
    passing = MessagePassing(field, weights, maximise)
    messages = passing.update(random_messages(passing, seed, spread))
    updated = passing.update(messages)
    expected = torch.maximum(passing.residual(messages, updated), passing.disagreement(messages, updated))
    scale = 1 + max(
        [float(g.log_tables.nan_to_num(neginf=0.0).abs().amax()) for g in field.groups], default=0.0
    )
    tolerance = 40 * scale * torch.finfo(dtype).eps * float(passing.port_weight.clamp(min=1).sum() + 1)
    np.testing.assert_allclose(recheck(passing, messages, updated), expected, atol=tolerance, rtol=1e-4)


@given(
    st.one_of(fields(), fields(**PAIRS), counted_pairs()),
    st.sampled_from(["parallel", "sequential", "residual"]),
    st.sampled_from([0.0, 0.4]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_every_schedule_knows_the_parallel_update(
    field: FactorGraph, schedule: str, damping: float, maximise: bool, seed: int
) -> None:
    passing = MessagePassing(field, None, maximise)
    iteration = make_iteration(passing, schedule, "numba", damping, 1e-6)
    state, _ = iteration.step(iteration.start(None))
    before = iteration.messages(state).clone()
    messages = passing.update(random_messages(passing, seed, 1.0))
    np.testing.assert_allclose(iteration.update(messages).exp(), passing.update(messages).exp(), atol=1e-9)
    np.testing.assert_array_equal(iteration.messages(state), before)


@pytest.mark.parametrize("place", range(12))
def test_what_is_not_a_number_is_never_settled(place: int) -> None:
    field = from_factors([[0, 1], [1, 2]], [np.zeros((3, 3))] * 2)
    passing = MessagePassing(field)
    messages = passing.start()
    assert float(recheck(passing, messages, messages)) <= 1e-15
    wrong = messages.clone()
    wrong[place] = torch.nan
    assert not bool((recheck(passing, wrong, messages) <= 1.0).any())
    assert not bool((recheck(passing, messages, wrong) <= 1.0).any())
    field.log_unary[place % 9] = torch.nan
    assert not bool((recheck(passing, messages, messages) <= 1.0).any())


@settings(max_examples=50)
@given(st.one_of(fields(**PAIRS), counted_pairs()), st.integers(0, 2**31))
def test_beliefs_and_free_energy_in_one_pass(field: FactorGraph, seed: int) -> None:
    passing = MessagePassing(field)
    messages = random_messages(passing, seed, 1.0)
    marginals, factors, value = evaluate(passing, messages)
    expected, tables = passing.beliefs(messages)
    np.testing.assert_allclose(marginals, expected, atol=1e-10)
    for found, table in zip(factors, tables, strict=True):
        np.testing.assert_allclose(found, table, atol=1e-10)
    np.testing.assert_allclose(value, negative_free_energy(field, expected, tables), atol=1e-9)
