"""Schedules and back ends of message passing: they agree, step by step and where they settle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.inference import infer
from hiddenfield.inference.messages import propagation
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.propagation import make_iteration, pieces_of, propagate
from hiddenfield.inference.messages.schedules import SCHEDULES
from tests.data.strategies import built
from tests.fields.strategies import field_parts, fields, forests


@st.composite
def counted_fields(draw: Any, **options: Any) -> FactorGraph:
    """Draw a field in which variables and factors stand for several, and scopes may repeat a variable."""
    cards, scopes, tables = draw(field_parts(**options))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    variable = int(generator.integers(len(cards)))
    scopes = [*scopes, [variable, variable]]
    tables = [*tables, generator.normal(size=(cards[variable],) * 2)]
    counts = 2 + generator.integers(3, size=len(cards)).astype(float)
    factor_counts = 1 + generator.integers(4, size=len(scopes)).astype(float)
    return built(
        from_factors, scopes, tables, cards, counts=counts.tolist(), factor_counts=factor_counts.tolist()
    )


SMALL_TABLES: dict[str, Any] = {"most_arity": 2, "zeros": False}


def random_messages(passing: MessagePassing, generator: torch.Generator) -> torch.Tensor:
    start = passing.start()
    return passing.normalise(start + torch.randn(start.shape, generator=generator, dtype=start.dtype))


@given(
    st.one_of(
        fields(),
        counted_fields(),
        fields(**SMALL_TABLES, least_states=2, most_states=2),
        fields(**SMALL_TABLES, least_states=3, most_states=3),
        counted_fields(**SMALL_TABLES, least_states=2, most_states=2),
        fields(scale=100.0),
        fields(scale=100.0, **SMALL_TABLES, least_states=2, most_states=2),
        fields(scale=30.0, **SMALL_TABLES, least_states=4, most_states=4),
    ),
    st.sampled_from([torch.float64, torch.float32]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.4]),
    st.integers(0, 2**31),
)
def test_back_ends_make_the_same_step(
    field: FactorGraph, dtype: torch.dtype, maximise: bool, weighted: bool, damping: float, seed: int
) -> None:
    field = field.to(dtype)
    generator = torch.Generator().manual_seed(seed)
    weights = None
    if weighted:
        weights = tuple(
            0.3 + 0.7 * torch.rand(group.num_factors, generator=generator, dtype=dtype)
            for group in field.groups
        )
    passing = MessagePassing(field, weights, maximise)
    start = random_messages(passing, generator)
    results = []
    for backend in ("torch", "numba"):
        iteration = make_iteration(passing, "parallel", backend, damping, 1e-6)
        state, residual = iteration.step(iteration.start(start))
        results.append((iteration.messages(state).clone(), residual))
    (expected, expected_residual), (messages, residual) = results
    # Log messages: what is far below the largest has the rounding of the tables' own magnitude.
    scale = 1 + max(
        [
            float(g.log_tables[g.log_tables.isfinite()].abs().amax())
            for g in field.groups
            if g.log_tables.isfinite().any()
        ],
        default=0.0,
    )
    tolerance = (2e-5 if dtype == torch.float32 else 1e-12) * scale
    np.testing.assert_allclose(
        messages, expected, atol=tolerance, rtol=1e-5 if dtype == torch.float32 else 1e-12
    )
    # A kernel's residual may be a bound; where message by message only gains are counted, losses are shared out.
    assert bool((4 * residual >= expected_residual - 4 * tolerance).all())


@settings(max_examples=25)
@given(fields(zeros=False, scale=0.3), st.booleans())
def test_schedules_settle_at_the_same_point(field: FactorGraph, damped: bool) -> None:
    damping = 0.2 if damped else 0.0
    expected = infer(field, "loopy_bp", tolerance=1e-11, backend="torch")
    for schedule in SCHEDULES:
        found = infer(field, "loopy_bp", tolerance=1e-11, schedule=schedule, damping=damping)
        np.testing.assert_allclose(found.log_partition, expected.log_partition, atol=1e-8)
        np.testing.assert_allclose(found.log_marginals, expected.log_marginals, atol=1e-8)


@settings(max_examples=8)
@given(counted_fields(zeros=False, scale=0.1))
def test_schedules_settle_at_the_same_point_with_counts(field: FactorGraph) -> None:
    expected = infer(field, "loopy_bp", tolerance=1e-10, backend="torch", damping=0.3)
    for schedule in SCHEDULES:
        found = infer(field, "loopy_bp", tolerance=1e-10, schedule=schedule, damping=0.3)
        np.testing.assert_allclose(found.log_marginals, expected.log_marginals, atol=1e-7)


@settings(max_examples=25)
@given(forests(most_variables=8), st.booleans())
def test_one_sequential_sweep_is_enough_on_a_forest(field: FactorGraph, maximise: bool) -> None:
    _, outcome = propagate(field, maximise=maximise, schedule="sequential", tolerance=1e-12, max_iterations=1)
    assert outcome.residual.max() < 1e-9


@settings(max_examples=25)
@given(forests(most_variables=6))
def test_as_many_parallel_sweeps_as_a_forest_is_wide_are_enough(field: FactorGraph) -> None:
    # A message that can still change depends on a longer path each time; no path has more factors than there are.
    _, outcome = propagate(field, tolerance=1e-12, max_iterations=max(1, field.num_factors))
    assert outcome.residual.max() < 1e-9


@settings(max_examples=12)
@given(st.lists(fields(zeros=False, scale=0.5), min_size=2, max_size=4), st.sampled_from(list(SCHEDULES)))
def test_a_batch_is_as_its_graphs(several: list[FactorGraph], schedule: str) -> None:
    batch = infer(concatenate_fields(several), "loopy_bp", schedule=schedule, tolerance=1e-10)
    states = torch.cat(
        [infer(field, "loopy_bp", schedule=schedule, tolerance=1e-10).log_marginals for field in several]
    )
    np.testing.assert_allclose(batch.log_marginals, states, atol=1e-7)
    assert batch.converged.shape == batch.residual.shape == (len(several),)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shared", [False, True])
def test_a_large_batch_is_worked_through_in_pieces(
    temperature: float, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(3, 3))
    several = []
    for size in generator.integers(2, 7, size=12).tolist():
        tables = [table if shared else generator.normal(size=(3, 3)) for _ in range(size)]
        own = [generator.normal(size=3) for _ in range(size)]
        scopes = [[v, (v + 1) % size] for v in range(size)] if size > 2 else [[0, 1], [0, 1]]
        several.append(from_factors(scopes + [[v] for v in range(size)], tables + own))
    batch = concatenate_fields(several)
    options: dict[str, Any] = {"temperature": temperature, "tolerance": 1e-10, "damping": 0.2}
    whole = infer(batch, "loopy_bp", **options)
    monkeypatch.setattr(propagation, "PIECE", 30)
    parts = infer(batch, "loopy_bp", **options)
    assert len(pieces_of(batch)) > 3
    for name in ("log_marginals", "log_partition"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-7)
    np.testing.assert_allclose(parts.factor_log_marginals[0], whole.factor_log_marginals[0], atol=1e-7)
    np.testing.assert_allclose(parts.extra["messages"], whole.extra["messages"], atol=1e-7)
    assert parts.status == whole.status == "converged"


def test_residuals_are_by_graph() -> None:
    frustrated = 3 * np.array([[-1.0, 1.0], [1.0, -1.0]])
    triangle = from_factors([[0, 1], [1, 2], [2, 0], [0]], [frustrated] * 3 + [np.array([0.1, 0.0])])
    chain = from_factors([[0, 1], [1, 2]], [frustrated] * 2)
    with pytest.warns(match="not converged in 1 of 2 graphs"):
        posterior = infer(concatenate_fields([chain, triangle]), "loopy_bp", max_iterations=50)
    assert posterior.converged.tolist() == [True, False]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    generator = np.random.default_rng(0)
    results = []
    for count in (1, threads):
        torch.set_num_threads(count)
        per_kind = []
        for states in (2, 3, 4):
            scopes = [[v, v + 1] for v in range(9000)]
            table = np.random.default_rng(states).normal(size=(9000, states, states))
            extra = [[0, 5, 7]] if states == 4 else []
            tables = [*table, *(generator.normal(size=(4, 4, 4)) * 0 for _ in extra)]
            field = from_factors(scopes + extra, tables)
            per_kind.append(propagate(field, max_iterations=3, tolerance=1e-12)[1].state)
        results.append(torch.cat(per_kind))
    assert torch.equal(*results)


def test_the_torch_back_end_has_one_schedule() -> None:
    field = from_factors([[0, 1]], [np.zeros((2, 2))])
    with pytest.raises(InputError, match="one message at a time"):
        infer(field, "loopy_bp", schedule="residual", backend="torch")
    with pytest.raises(InputError, match="numba back end is for float32"):
        infer(field.to(torch.float16), "loopy_bp", backend="numba")
    with pytest.raises(InputError, match="unknown schedule 'residul'"):
        infer(field, "loopy_bp", schedule="residul")


def test_a_graph_that_never_settles_takes_no_turns_of_others() -> None:
    generator = np.random.default_rng(0)
    scopes = [[v, u] for v in range(8) for u in range(v)]
    frustrated = [np.array([[a, -a], [-a, a]]) for a in 5 * generator.normal(size=len(scopes))]
    own = list(0.3 * generator.normal(size=(8, 2)))
    wild = from_factors(scopes + [[v] for v in range(8)], frustrated + own)
    calm = from_factors([[0, 1], [1, 2], [2, 0]], list(0.3 * generator.normal(size=(3, 2, 2))))
    with pytest.warns(ConvergenceWarning, match="in 1 of 2 graphs"):
        both = infer(concatenate_fields([wild, calm]), "loopy_bp", schedule="residual", max_iterations=30)
    alone = infer(calm, "loopy_bp", schedule="residual", max_iterations=30)
    assert both.converged.tolist() == [False, True]
    np.testing.assert_allclose(both.marginals[8:], alone.marginals, atol=1e-6)
