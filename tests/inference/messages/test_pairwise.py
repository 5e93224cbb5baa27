"""Messages of pairwise fields as they are, and their logarithms: the same steps, and each where it belongs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.inference import infer
from hiddenfield.inference.messages.pairwise import PairwiseMessages
from hiddenfield.inference.messages.passing import MessagePassing


def hubs(shared: bool, scale: float = 1.0, rows: int = 3, columns: int = 5) -> FactorGraph:
    """Return a field with variables of one to nine factors, every one between a variable of either kind."""
    generator = np.random.default_rng(0)
    scopes = [[hub, 9 + (hub + spoke) % 9] for hub in range(9) for spoke in range(hub + 1)]
    common = scale * generator.normal(size=(rows, columns))
    tables = [common if shared else scale * generator.normal(size=(rows, columns)) for _ in scopes]
    own = [generator.normal(size=rows if v < 9 else columns) for v in range(18)]
    own[4][1] = own[12][0] = -np.inf
    return from_factors(scopes + [[v] for v in range(18)], tables + own)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared", [False, True])
def test_products_and_sums_of_logarithms_make_the_same_steps(dtype: torch.dtype, shared: bool) -> None:
    passing = MessagePassing(hubs(shared, 0.5).to(dtype))
    found = []
    for bounded in (True, False):
        iteration = PairwiseMessages(passing, 0.0, 1e-6)
        assert iteration.bounded
        iteration.bounded = bounded
        state = iteration.start(passing.start())
        assert iteration.as_shares == bounded
        residuals = []
        for _ in range(4):
            state, residual = iteration.step(state)
            residuals.append(residual)
        found.append((iteration.messages(state), torch.cat(residuals)))
    (products, exact), (sums, bound) = found
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    np.testing.assert_allclose(products, sums, atol=20 * tolerance)
    # That of logarithms is a bound on the change of a probability.
    assert bool((exact <= 1.5 * bound + tolerance).all())


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (hubs(True, 30.0).to(torch.float32), "tables reach too far"),
        (
            hubs(True).given({0: 0, 9: torch.tensor([-100.0, 0, 0, 0, 0])}).to(torch.float32),
            "so does evidence",
        ),
        (hubs(False).given({3: torch.tensor([-torch.inf] * 3)}), "nothing is possible"),
        (
            from_factors([[0, 1]], [np.array([[0.0, -np.inf, 0.0], [0.0, 0.0, 0.0]])]),
            "a hard zero in a table",
        ),
        (from_factors([[0, 1]], [np.zeros((3, 3))], factor_counts=[2.0]), "a factor counts twice"),
    ],
)
def test_logarithms_are_added_where_products_are_not_safe(field: FactorGraph, why: str) -> None:
    assert not PairwiseMessages(MessagePassing(field), 0.0, 1e-6).bounded, why


def test_messages_from_elsewhere_are_not_multiplied() -> None:
    field = hubs(True)
    passing = MessagePassing(field)
    iteration = PairwiseMessages(passing, 0.0, 1e-6)
    iteration.start(passing.start())
    assert iteration.as_shares
    far = passing.normalise(torch.randn(passing.start().shape, dtype=torch.float64) * 300)
    iteration.start(far)
    assert not iteration.as_shares
    found, expected = (
        infer(field, messages=far, tolerance=1e-10),
        infer(field, tolerance=1e-10, backend="torch"),
    )
    np.testing.assert_allclose(found.log_marginals, expected.log_marginals, atol=1e-8)


def test_tables_of_factors_in_any_order() -> None:
    generator = np.random.default_rng(1)
    tables = generator.normal(size=(3, 3, 3))
    ring = from_factors([[0, 1], [1, 2], [2, 0]], list(tables))
    group = dataclasses.replace(
        ring.groups[0], log_tables=ring.groups[0].log_tables[[2, 0, 1]], table=torch.tensor([1, 2, 0])
    )
    found = infer(dataclasses.replace(ring, groups=(group,)), tolerance=1e-10)
    np.testing.assert_allclose(found.log_marginals, infer(ring, tolerance=1e-10).log_marginals, atol=1e-9)


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
    iteration = PairwiseMessages(passing, 0.0, 1e-9)
    state, rested = iteration.start_uniform(passing), False
    for _ in range(200):
        before = state.clone()
        state, residual = iteration.step(state)
        if float(residual.max()) <= 1e-9 / 4:
            break
        if not iteration.moving[0]:
            rested = True
            held = torch.from_numpy(iteration.place[:2])
            assert torch.equal(state[held], before[held])
    assert rested
    assert iteration.moving.all()
    batch = infer(concatenate_fields(several), tolerance=1e-9)
    alone = [infer(field, tolerance=1e-9) for field in several]
    np.testing.assert_allclose(batch.log_marginals, torch.cat([p.log_marginals for p in alone]), atol=1e-8)
    assert batch.iterations.tolist() == [int(p.iterations) for p in alone]
