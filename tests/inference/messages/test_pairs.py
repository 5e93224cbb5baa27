"""Messages of pairs as they are, and in log space: the same steps, and each where it belongs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.inference import infer
from hiddenfield.inference.messages.pairs import Pairs
from hiddenfield.inference.messages.passing import MessagePassing, MessagePlan
from hiddenfield.inference.messages.schedules import Iteration, Parallel


def hubs(shared: bool, scale: float = 1.0, rows: int = 3, columns: int = 5) -> FactorGraph:
    """Return a field with variables of one to nine factors, every one between a variable of either kind."""
    generator = np.random.default_rng(0)
    scopes = [[hub, 9 + (hub + spoke) % 9] for hub in range(9) for spoke in range(hub + 1)]
    common = scale * generator.normal(size=(rows, columns))
    tables = [common if shared else scale * generator.normal(size=(rows, columns)) for _ in scopes]
    own = [generator.normal(size=rows if v < 9 else columns) for v in range(18)]
    own[4][1] = own[12][0] = -np.inf
    return from_factors(scopes + [[v] for v in range(18)], tables + own)


def multiplied(passing: MessagePassing, damping: float = 0.0, tolerance: float = 1e-9) -> Pairs:
    iteration = Pairs.where_safe(MessagePlan(passing), damping, tolerance)
    assert iteration is not None
    return iteration


def in_log_space(passing: MessagePassing, damping: float = 0.0) -> Parallel:
    return Parallel(MessagePlan(passing), damping, 1e-9)


def steps(iteration: Iteration, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the messages after some steps, and the residuals of all."""
    state, residuals = iteration.start(None), []
    for _ in range(count):
        state, residual = iteration.step(state)
        residuals.append(residual)
    return iteration.messages(state), torch.cat(residuals)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("maximise", [False, True])
@pytest.mark.parametrize(("damping", "weight"), [(0.0, None), (0.3, None), (0.1, 0.6)])
def test_products_and_sums_of_logarithms_make_the_same_steps(
    dtype: torch.dtype, shared: bool, maximise: bool, damping: float, weight: float | None
) -> None:
    field = hubs(shared, 0.5).to(dtype)
    weights = None if weight is None else (torch.full((field.num_factors,), weight, dtype=dtype),)
    passing = MessagePassing(field, weights, maximise)
    (products, residual), (sums, expected) = (
        steps(kind(passing, damping), 4) for kind in (multiplied, in_log_space)
    )
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    np.testing.assert_allclose(products, sums, atol=20 * tolerance)
    np.testing.assert_allclose(residual, expected, atol=tolerance)


ZERO = np.array([[0.0, -np.inf, 0.0], [0.5, 0.0, -np.inf], [-np.inf, 0.0, 1.0]])


@pytest.mark.parametrize("weight", [None, 0.6])
@pytest.mark.parametrize("maximise", [False, True])
def test_hard_zeros_are_multiplied_too(maximise: bool, weight: float | None) -> None:
    field = from_factors([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], [ZERO] * 5).given({0: 1})
    weights = None if weight is None else (torch.full((5,), weight, dtype=torch.float64),)
    passing = MessagePassing(field, weights, maximise)
    (products, _), (sums, _) = (steps(kind(passing), 3) for kind in (multiplied, in_log_space))
    assert bool((products == -torch.inf).any())
    np.testing.assert_allclose(products, sums, atol=1e-12)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (hubs(True, 30.0).to(torch.float32), "tables reach too far"),
        (
            hubs(True).given({0: 0, 9: torch.tensor([-100.0, 0, 0, 0, 0])}).to(torch.float32),
            "so does evidence",
        ),
        (from_factors([[0, 1]], [np.full((3, 3), -np.inf)]), "nothing is possible"),
    ],
)
def test_log_space_is_chosen_where_products_are_not_safe(field: FactorGraph, why: str) -> None:
    assert Pairs.where_safe(MessagePlan(MessagePassing(field)), 0.0, 1e-6) is None, why


def test_log_space_takes_over_when_products_become_too_small() -> None:
    table = np.array([[0.0, -100.0, -100.0], [-100.0, 0.0, -100.0], [-100.0, -100.0, 0.0]])
    spokes = [[0, leaf] for leaf in range(1, 9)]
    own = [np.array([0.0, -30.0, -60.0])[np.roll(range(3), leaf)] for leaf in range(1, 9)]
    field = from_factors(spokes + [[leaf] for leaf in range(1, 9)], [table] * 8 + own)
    passing = MessagePassing(field)
    iteration = multiplied(passing)
    messages, _ = steps(iteration, 4)
    assert iteration.general is None
    steep = MessagePassing(
        field.with_potentials(3 * field.log_unary, [2 * g.log_tables for g in field.groups])
    )
    iteration = multiplied(steep)
    messages, _ = steps(iteration, 4)
    assert iteration.general is not None
    np.testing.assert_allclose(messages, steps(in_log_space(steep), 4)[0], atol=1e-9)


def test_extreme_messages_from_elsewhere_are_not_multiplied() -> None:
    field = hubs(True)
    passing = MessagePassing(field)
    iteration = multiplied(passing)
    iteration.start(passing.start())
    assert iteration.general is None
    far = passing.normalise(torch.randn(passing.start().shape, dtype=torch.float64) * 300)
    iteration.start(far)
    assert iteration.general is not None
    found, expected = (
        infer(field, "loopy_bp", messages=far, tolerance=1e-10),
        infer(field, "loopy_bp", tolerance=1e-10, backend="torch"),
    )
    np.testing.assert_allclose(found.log_marginals, expected.log_marginals, atol=1e-8)


def test_tables_of_factors_in_any_order() -> None:
    generator = np.random.default_rng(1)
    tables = generator.normal(size=(3, 3, 3))
    ring = from_factors([[0, 1], [1, 2], [2, 0]], list(tables))
    group = dataclasses.replace(
        ring.groups[0], log_tables=ring.groups[0].log_tables[[2, 0, 1]], table=torch.tensor([1, 2, 0])
    )
    found = infer(dataclasses.replace(ring, groups=(group,)), "loopy_bp", tolerance=1e-10)
    np.testing.assert_allclose(
        found.log_marginals, infer(ring, "loopy_bp", tolerance=1e-10).log_marginals, atol=1e-9
    )


def test_graphs_that_have_settled_rest_and_wake_when_all_rest() -> None:
    generator = np.random.default_rng(2)
    table = generator.normal(size=(3, 3))
    chain = from_factors([[0, 1], [1, 2]], [table, table])
    rings = [
        from_factors([[v, (v + 1) % size] for v in range(size)], [strength * table] * size)
        for size, strength in ((3, 0.2), (3, 1.5), (5, 1.0))
    ]
    several = [chain, *rings]
    passing = MessagePassing(concatenate_fields(several))
    iteration = multiplied(passing)
    state, rested = iteration.start(passing.start()), False
    for _ in range(200):
        before = state.clone()
        state, residual = iteration.step(state)
        if float(residual.max()) <= 1e-9 / 4:
            break
        if not iteration.moving[0]:
            rested = True
            held = torch.from_numpy(iteration.pairs.place[:2])
            assert torch.equal(state[held], before[held])
    assert rested
    assert iteration.moving.all()
    batch = infer(concatenate_fields(several), "loopy_bp", tolerance=1e-9)
    alone = [infer(field, "loopy_bp", tolerance=1e-9) for field in several]
    np.testing.assert_allclose(batch.log_marginals, torch.cat([p.log_marginals for p in alone]), atol=1e-8)
    assert batch.iterations.tolist() == [int(p.iterations) for p in alone]
