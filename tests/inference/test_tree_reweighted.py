"""Tree-reweighted propagation: an upper bound at every moment, weights in the spanning-tree polytope."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, ising_grid
from hiddenfield.fields.graphs.spanning_trees import tree_weights
from hiddenfield.inference import infer, map_state
from hiddenfield.inference.messages.free_energy import negative_free_energy
from hiddenfield.inference.tree_reweighted import tree_reweighted
from tests.fields.strategies import fields, forests
from tests.inference.oracle import enumerate_field


def ising_cycle(size: int, coupling: float = 1.0, **options: Any) -> FactorGraph:
    table = coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    ring = [[i, (i + 1) % size] for i in range(size)]
    return from_factors([*ring, [0]], [table] * size + [np.array([0.3, 0.0])], **options)


@settings(max_examples=40)
@given(fields(scale=2.0, most_arity=3), st.sampled_from([0, 1, 4, 60]))
def test_upper_bound_at_every_iteration(field: FactorGraph, iterations: int) -> None:
    posterior = tree_reweighted(field, max_iterations=iterations, samples=10)
    assert posterior.guarantee in ("upper bound", "exact")
    assert posterior.log_partition.item() >= enumerate_field(field).log_partition - 1e-9


@settings(max_examples=30)
@given(forests())
def test_exact_on_forests(field: FactorGraph) -> None:
    truth = enumerate_field(field)
    posterior = infer(field, "tree_reweighted", damping=0.0, tolerance=1e-10)
    assert posterior.guarantee == "exact"
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-7)
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=1e-7)


@settings(max_examples=20)
@given(fields(zeros=False, most_arity=3))
def test_bound_at_a_fixed_point_is_its_free_energy(field: FactorGraph) -> None:
    posterior = tree_reweighted(field, tolerance=1e-10, max_iterations=400, samples=10)
    if posterior.converged.all():
        value = negative_free_energy(
            field, posterior.log_marginals, posterior.factor_log_marginals, posterior.extra["weights"]
        )
        np.testing.assert_allclose(posterior.log_partition, value, atol=1e-6)


def test_weights_of_one_are_belief_propagation() -> None:
    field = ising_cycle(4)
    ones = [torch.ones(group.num_factors, dtype=field.dtype) for group in field.groups]
    posterior = tree_reweighted(field, weights=ones, tolerance=1e-10)
    bethe = infer(field, "loopy_bp", tolerance=1e-10)
    np.testing.assert_allclose(posterior.log_marginals, bethe.log_marginals, atol=1e-8)
    np.testing.assert_allclose(posterior.log_partition, bethe.log_partition, atol=1e-7)
    assert posterior.guarantee == "estimate"
    ours = tree_reweighted(field, tolerance=1e-10)
    assert abs(ours.log_partition - bethe.log_partition).item() > 1e-3


@settings(max_examples=30)
@given(fields(zeros=False, most_arity=2, least_states=2, most_variables=5))
def test_pairwise_weights_are_shares_of_spanning_trees(field: FactorGraph) -> None:
    edges = [tuple(scope) for group in field.groups for scope in group.scopes.tolist()]
    weights = [weight for group in tree_weights(field) for weight in group.tolist()]
    forests_found = list(_maximal_forests(field.num_variables, edges))
    for number, weight in enumerate(weights):
        assert weight == pytest.approx(np.mean([number in forest for forest in forests_found]), abs=1e-9)


def _maximal_forests(nodes: int, edges: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    def acyclic(chosen: tuple[int, ...]) -> bool:
        part = list(range(nodes))
        for edge in chosen:
            a, b = part[edges[edge][0]], part[edges[edge][1]]
            if a == b:
                return False
            part = [a if p == b else p for p in part]
        return True

    for size in range(len(edges), -1, -1):
        found = [chosen for chosen in itertools.combinations(range(len(edges)), size) if acyclic(chosen)]
        if found:
            return found
    return [()]


def test_hyperforest_weights_are_averages_of_acyclic_sets() -> None:
    """Two factors that share two variables are never together, and each factor is covered."""
    tables = [np.zeros((2, 2, 2))] * 3 + [np.zeros((2, 2))]
    field = from_factors([[0, 1, 2], [1, 2, 3], [3, 4, 5], [0, 3]], tables)
    triples, pairs = tree_weights(field)
    assert triples[:2].sum() <= 1 + 1e-12
    assert triples[2] == 1
    assert (triples > 0).all()
    assert (pairs > 0).all()
    assert torch.equal(triples, tree_weights(field)[0])


def test_copies_of_a_factor_share_its_weight() -> None:
    table = np.array([[0.5, 0.0], [0.0, 0.2]])
    counted = from_factors([[0, 1], [1, 2], [2, 0]], [table] * 3, factor_counts=[2, 1, 1])
    copied = from_factors([[0, 1], [0, 1], [1, 2], [2, 0]], [table] * 4)
    np.testing.assert_allclose(tree_weights(counted)[0], tree_weights(copied)[0][1:])
    np.testing.assert_allclose(
        tree_reweighted(counted, tolerance=1e-9).log_partition,
        tree_reweighted(copied, tolerance=1e-9).log_partition,
        atol=1e-6,
    )


def test_evidence_cuts_cycles() -> None:
    field = ising_cycle(5)
    posterior = infer(field, "tree_reweighted", evidence={2: 0}, tolerance=1e-10)
    truth = enumerate_field(field.given({2: 0}))
    np.testing.assert_allclose(posterior.log_partition, [truth.log_partition], atol=1e-7)
    assert all((weight == 1).all() for weight in posterior.extra["weights"])


def test_optimised_weights_tighten_the_bound() -> None:
    rng = np.random.default_rng(3)
    scopes = [[a, b] for a, b in itertools.combinations(range(6), 2)]
    tables = [rng.normal(scale=1.5, size=(2, 2)) for _ in scopes]
    parts = [from_factors(scopes, tables), from_factors(scopes[:9], tables[:9])]
    field = concatenate_fields(parts)
    plain, better = tree_reweighted(field), tree_reweighted(field, optimise=8)
    truth = [enumerate_field(part).log_partition for part in parts]
    assert (better.log_partition <= plain.log_partition).all()
    assert (better.log_partition.sum() < plain.log_partition.sum() - 0.01).all()
    assert (better.log_partition >= torch.tensor(truth)).all()
    bounds = better.trace["bound"]
    assert all(later <= earlier for earlier, later in itertools.pairwise(bounds))


@settings(max_examples=40)
@given(fields(scale=2.0, most_arity=3))
def test_max_product_bounds_the_best_value(field: FactorGraph) -> None:
    best = map_state(field, "tree_reweighted", max_iterations=200, samples=10)
    truth = enumerate_field(field).best
    assert best.upper_bound is not None
    assert best.log_value.item() - 1e-9 <= truth <= best.upper_bound.item() + 1e-9
    if best.guarantee == "exact":
        assert best.log_value.item() == pytest.approx(truth, abs=1e-7)


def test_frustrated_cycle_is_not_certified() -> None:
    field = ising_cycle(3, coupling=-1.0)
    assert map_state(field, "tree_reweighted").guarantee == "lower bound"


def test_template_with_transitive_weights_is_the_ground_field() -> None:
    table = np.array([[0.7, -0.2], [-0.2, 0.5]])
    ring = from_factors([[i, (i + 1) % 6] for i in range(6)], [table] * 6)
    template = from_factors([[0, 0]], [table], counts=[6], factor_counts=[6])
    with pytest.raises(InputError, match="needs weights="):
        tree_reweighted(template)
    expected = tree_reweighted(ring, tolerance=1e-10)
    found = tree_reweighted(template, weights="transitive", tolerance=1e-10)
    np.testing.assert_allclose(found.log_partition, expected.log_partition, atol=1e-7)
    np.testing.assert_allclose(found.marginals[0], expected.marginals[0], atol=1e-8)


def test_contradiction() -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    field = from_factors([[0, 1], [1, 2], [2, 0]], [equal] * 3)
    posterior = infer(field, "tree_reweighted", evidence={0: 0, 2: 1})
    assert posterior.log_partition.item() == -math.inf


@pytest.mark.parametrize(
    "options",
    [
        {"weights": []},
        {"weights": [torch.ones(2)]},
        {"weights": [torch.zeros(4)]},
        {"weights": "uniform"},
        {"temperature": 0.5},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        tree_reweighted(ising_cycle(4), **options)


@pytest.mark.parametrize("copies", [1.0, 3.0])
def test_the_bound_is_the_free_energy_where_it_settles(copies: float) -> None:
    """At a fixed point dual and primal meet: the bound is the reweighted free energy of its beliefs, no more."""
    grid = ising_grid(5, 5, lambda size: np.random.default_rng(0).uniform(-1, 1, size), 0.1)
    groups = tuple(dataclasses.replace(group, count=copies * group.count) for group in grid.groups)
    field = dataclasses.replace(grid, groups=groups)
    weights = [torch.full((group.num_factors,), 0.6 / copies, dtype=torch.float64) for group in groups]
    posterior = infer(field, "tree_reweighted", weights=weights, tolerance=1e-10, max_iterations=20_000)
    primal = negative_free_energy(field, posterior.log_marginals, posterior.factor_log_marginals, weights)
    np.testing.assert_allclose(posterior.log_partition, primal, atol=1e-6)
