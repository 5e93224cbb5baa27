"""Mean field: a lower bound that never falls, stationary, and the same on both back ends."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors
from hiddenfield.inference import infer
from hiddenfield.inference.mean_field import mean_field
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field


@settings(max_examples=50)
@given(fields(scale=2.0), st.sampled_from([("sequential", 0.0), ("parallel", 0.5)]), st.integers(1, 3))
def test_lower_bound_with_and_without_hard_zeros(
    field: FactorGraph, schedule: tuple[str, float], starts: int
) -> None:
    posterior = mean_field(field, schedule=schedule[0], damping=schedule[1], starts=starts, max_iterations=50)
    assert -math.inf < posterior.log_partition.item() <= enumerate_field(field).log_partition + 1e-9
    assert posterior.guarantee == "lower bound"


@settings(max_examples=30)
@given(fields(scale=2.0))
def test_bound_rises_by_what_the_trace_says(field: FactorGraph) -> None:
    posterior = mean_field(field, tolerance=1e-9)
    bounds = posterior.trace["elbo"]
    assert len(bounds) == len(posterior.trace["residual"])
    assert all(later >= earlier for earlier, later in itertools.pairwise(bounds))
    for sweeps in {1, len(bounds) - 1} - {0, len(bounds)}:
        early = mean_field(field, tolerance=1e-9, max_iterations=sweeps)
        if early.trace["residual"] == posterior.trace["residual"][:sweeps]:
            np.testing.assert_allclose(early.log_partition.sum(), bounds[sweeps - 1], atol=1e-7)


@given(fields(zeros=False))
def test_marginals_solve_their_equations(field: FactorGraph) -> None:
    posterior = mean_field(field, tolerance=1e-9)
    start = field.state_ptr.tolist()
    q = posterior.log_marginals.exp().numpy()
    for variable in range(field.num_variables):
        total = field.log_unary[start[variable] : start[variable + 1]].numpy().copy()
        for group in field.groups:
            tables = group.expanded().expand(group.num_factors, *group.states).numpy()
            for scope, table in zip(group.scopes.tolist(), tables, strict=True):
                if variable in scope:
                    expected = np.moveaxis(table, scope.index(variable), 0)
                    for other in [v for v in scope if v != variable][::-1]:
                        expected = expected @ q[start[other] : start[other + 1]]
                    total += expected
        weight = np.exp(total - total.max())
        np.testing.assert_allclose(q[start[variable] : start[variable + 1]], weight / weight.sum(), atol=1e-7)


@settings(max_examples=30)
@given(fields(scale=0.3, zeros=False), st.sampled_from(["sequential", "parallel"]))
def test_back_ends_agree(field: FactorGraph, schedule: str) -> None:
    options: dict[str, Any] = {"schedule": schedule, "tolerance": 1e-10}
    kernel = mean_field(field, backend="numba", **options)
    plain = mean_field(field, backend="torch", **options)
    np.testing.assert_allclose(kernel.log_marginals, plain.log_marginals, atol=1e-7)
    np.testing.assert_allclose(kernel.log_partition, plain.log_partition, atol=1e-8)
    if schedule == "sequential":
        np.testing.assert_allclose(plain.trace["elbo"][-1], plain.log_partition.sum(), atol=1e-9)


def test_starts_never_hurt_and_find_the_other_mode() -> None:
    attract = np.array([[2.0, 0.0], [0.0, 2.2]])
    field = from_factors([[0, 1], [1, 2], [2, 0], [0]], [attract] * 3 + [np.array([0.8, 0.0])])
    single, many = mean_field(field), mean_field(field, starts=20, seed=1)
    assert many.log_partition >= single.log_partition
    again = mean_field(field, starts=20, seed=1)
    assert torch.equal(again.log_marginals, many.log_marginals)


def test_symmetric_hard_zeros_are_broken_by_search() -> None:
    unequal = np.where(np.eye(3) > 0, -np.inf, 0.0)
    scopes = [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4]]
    field = from_factors(scopes, [unequal] * len(scopes))
    posterior = mean_field(field)
    assert posterior.log_partition.item() >= 0.0
    assert not posterior.log_marginals.isnan().any()


def test_contradiction_says_so() -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    unequal = np.where(np.eye(2) > 0, -np.inf, 0.0)
    field = from_factors([[0, 1], [1, 2], [2, 0]], [equal, equal, unequal])
    posterior = infer(field, "mean_field")
    assert posterior.log_partition.item() == -math.inf
    assert "no assignment has positive probability" in posterior.status
    assert not posterior.log_marginals.isnan().any()


def test_template_equals_its_ground_field() -> None:
    """A ring of six equal variables as one class that a factor names twice."""
    table = np.array([[0.3, -0.2], [0.1, 0.5]])
    unary = np.array([0.2, 0.0])
    ring = [[i, (i + 1) % 6] for i in range(6)] + [[i] for i in range(6)]
    ground = from_factors(ring, [table] * 6 + [unary] * 6)
    template = from_factors([[0, 0], [0]], [table, unary], counts=[6], factor_counts=[6, 6])
    expected = mean_field(ground, tolerance=1e-10)
    for options in ({}, {"backend": "torch"}, {"schedule": "parallel", "damping": 0.3}):
        found = mean_field(template, tolerance=1e-10, **options)
        np.testing.assert_allclose(found.log_partition, expected.log_partition, atol=1e-8)
        np.testing.assert_allclose(found.marginals[0], expected.marginals[0], atol=1e-7)


def test_self_coupled_classes_do_not_oscillate() -> None:
    """A strongly repulsive class flips at every undamped sweep; the bound must not fall."""
    field = from_factors([[0, 0], [0]], [-4 * np.eye(2), [0.1, 0.0]], counts=[10], factor_counts=[20, 10])
    posterior = mean_field(field)
    assert posterior.converged.all()
    bounds = posterior.trace["elbo"]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(bounds))


def test_graphs_of_a_batch_keep_their_own_best_start() -> None:
    attract = np.array([[2.0, 0.0], [0.0, 2.2]])
    parts = [
        from_factors([[0, 1], [1, 2], [0]], [attract] * 2 + [np.array([h, 0.0])]) for h in (0.8, 0.0, -1.0)
    ]
    batch = mean_field(concatenate_fields(parts), starts=5)
    assert (batch.log_partition >= mean_field(concatenate_fields(parts)).log_partition).all()


@pytest.mark.parametrize(
    "options",
    [{"damping": 0.5}, {"damping": 1.0, "schedule": "parallel"}, {"starts": 0}, {"schedule": "residual"}],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        mean_field(from_factors([[0]], [[0.0, 1.0]]), **options)


def test_not_converged_is_a_warning_with_a_remedy() -> None:
    field = from_factors([[0, 1]], [[[3.0, 0.0], [0.0, 3.0]]]).given({0: [0.3, 0.0]})
    with pytest.warns(ConvergenceWarning, match="raise max_iterations"):
        infer(field, "mean_field", max_iterations=1)


@settings(max_examples=20)
@given(fields(scale=2.0, most_variables=5))
def test_more_starts_are_never_worse(field: FactorGraph) -> None:
    few, many = mean_field(field), mean_field(field, starts=4)
    assert (many.log_partition >= few.log_partition).all()
