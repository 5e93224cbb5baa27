"""What every algorithm of the registry must do, whatever it approximates; a new one is covered by being registered."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, regions_from_factors
from hiddenfield.inference import (
    METHODS,
    Posterior,
    gibbs_sample,
    infer,
    log_likelihood,
    map_state,
    sample,
)
from tests.fields.strategies import FieldParts, fields
from tests.inference.oracle import enumerate_field

ALL = sorted(METHODS)
SAMPLING = {"gibbs"}
"""Results that are right up to sampling error: laws of equality are tested with it in mind, elsewhere."""

UNROLLED = [name for name in METHODS if METHODS.facts(name).get("unrolls")]
DETERMINISTIC = sorted(set(METHODS) - SAMPLING)

LOOSE = {"generalized_bp": 5e-3}
"""Algorithms whose approximation itself may depend on how a field is written down, and by how much at most here."""


def run(method: str, field: FactorGraph, **options: Any) -> Posterior:
    """Run to a tight tolerance where there is one, and quickly where it samples."""
    known = inspect.signature(METHODS[method]).parameters
    settled = {"tolerance": 1e-9, "max_iterations": 5000}
    quick = {"chains": 16, "sweeps": 300, "burn_in": 50, "temperatures": 100}
    chosen = quick if method in SAMPLING else settled
    with warnings.catch_warnings():
        if method in SAMPLING:  # so few sweeps need not mix
            warnings.simplefilter("ignore", ConvergenceWarning)
        return infer(
            field, method, **{name: value for name, value in chosen.items() if name in known}, **options
        )


def weak_parts(
    seed: int, *, cards: tuple[int, ...] = (2, 3, 1, 2, 3, 2), zeros: bool = False, triples: bool = False
) -> FieldParts:
    """Draw a loopy field of weak couplings, in which every approximation has one solution; two parts and a loner."""
    rng = np.random.default_rng(seed)
    scopes = [[0, 1], [1, 2], [1, 3], [3, 0], [0], [3], [4, 2], [0, 3]]
    scopes += [[0, 1, 3]] if triples else []
    tables = [0.3 * rng.normal(size=[cards[v] for v in scope]) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[2][2, 0] = -np.inf
    return list(cards), scopes, tables


def build(parts: FieldParts, **options: Any) -> FactorGraph:
    return from_factors(parts[1], parts[2], parts[0], **options)


def assert_same(method: str, found: Posterior, expected: Posterior, order: Any = slice(None)) -> None:
    """Compare log partition and marginals; `order` says where the expected variables are in what was found."""
    tolerance = LOOSE.get(method, 1e-6)
    np.testing.assert_allclose(found.log_partition, expected.log_partition, atol=tolerance)
    np.testing.assert_allclose(found.marginals[order], expected.marginals, atol=tolerance)


# -- the result --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("method", ALL)
def test_posterior_is_complete(method: str, dtype: torch.dtype) -> None:
    # Products of marginals stay away from hard zeros, however weak the rest is.
    field = build(weak_parts(0, triples=True, zeros=method != "mean_field"), dtype=dtype)
    posterior = infer(field, method) if method not in SAMPLING else run(method, field)
    assert posterior.method == ("exact" if method == "auto" else method)
    assert posterior.log_marginals.shape == field.log_unary.shape
    assert posterior.log_partition.shape == posterior.residual.shape == (1,)
    assert posterior.converged.shape == posterior.iterations.shape == (1,)
    assert posterior.guarantee in ("exact", "lower bound", "upper bound", "estimate")
    assert posterior.log_marginals.dtype == posterior.log_partition.dtype == dtype
    np.testing.assert_allclose(posterior.marginals.sum(1), 1.0, atol=1e-5)
    for group, belief in zip(field.groups, posterior.factor_marginals, strict=True):
        assert belief.shape == (group.num_factors, *group.states)
        np.testing.assert_allclose(belief.flatten(1).sum(1), 1.0, atol=1e-4)
    truth = enumerate_field(field)
    # Weak couplings, so all are close: an algorithm that is far off here has a fault, not an approximation.
    assert abs(posterior.log_partition.item() - truth.log_partition) < 0.5
    for variable, marginal in enumerate(truth.marginals):
        np.testing.assert_allclose(posterior.marginals[variable, : len(marginal)], marginal, atol=0.15)


@pytest.mark.parametrize("method", ALL)
def test_docstring_tells_where_it_comes_from_and_how_it_is_used(method: str) -> None:
    text = inspect.getdoc(METHODS[method]) or ""
    for section in ("Parameters", "Returns", "References", "Examples"):
        assert f"{section}\n---" in text, f"{method} has no section {section}"
    assert ".. math::" in text


@pytest.mark.parametrize("method", ALL)
def test_same_input_same_output(method: str) -> None:
    field = build(weak_parts(1))
    first, second = run(method, field), run(method, field)
    assert torch.equal(first.log_marginals, second.log_marginals)
    assert torch.equal(first.log_partition, second.log_partition)


# -- laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_order_of_variables_and_factors_does_not_matter(method: str) -> None:
    cards, scopes, tables = weak_parts(2)
    rng = np.random.default_rng(0)
    place, order = rng.permutation(len(cards)), rng.permutation(len(scopes))
    moved_cards = [0] * len(cards)
    for variable, card in enumerate(cards):
        moved_cards[place[variable]] = card
    moved = from_factors(
        [[int(place[v]) for v in scopes[f]] for f in order], [tables[f] for f in order], moved_cards
    )
    assert_same(method, run(method, moved), run(method, build((cards, scopes, tables))), place)


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_order_of_a_scope_does_not_matter(method: str) -> None:
    cards, scopes, tables = weak_parts(3)
    turned = from_factors([scope[::-1] for scope in scopes], [table.T for table in tables], cards)
    assert_same(method, run(method, turned), run(method, build((cards, scopes, tables))))


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_batch_is_each_graph_by_itself(method: str) -> None:
    parts = [build(weak_parts(seed, zeros=seed == 1)) for seed in range(3)]
    batch = run(method, concatenate_fields(parts))
    start = 0
    for number, part in enumerate(parts):
        alone = run(method, part)
        np.testing.assert_allclose(batch.log_partition[number], alone.log_partition[0], atol=1e-6)
        marginals = batch.marginals[start : start + part.num_variables]
        np.testing.assert_allclose(marginals, alone.marginals, atol=1e-6)
        start += part.num_variables
    assert batch.converged.shape == (3,)


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_adding_a_constant_shifts_log_partition_alone(method: str) -> None:
    cards, scopes, tables = weak_parts(4, zeros=True, triples=True)
    shifted = [table + 3.5 if number in (0, 8) else table for number, table in enumerate(tables)]
    plain, moved = run(method, build((cards, scopes, tables))), run(method, build((cards, scopes, shifted)))
    np.testing.assert_allclose(moved.log_partition, plain.log_partition + 7.0, atol=1e-6)
    np.testing.assert_allclose(moved.marginals, plain.marginals, atol=1e-6)


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_evidence_is_slicing(method: str) -> None:
    cards, scopes, tables = weak_parts(5)
    kept = [0, 2, 3, 4, 5]
    rest, constant = [], 0.0
    for scope, table in zip(scopes, tables, strict=True):
        sliced = table[tuple(2 if v == 1 else slice(None) for v in scope)]
        rest.append(([kept.index(v) for v in scope if v != 1], sliced))
    sliced_field = from_factors([s for s, _ in rest], [t for _, t in rest], [cards[v] for v in kept])
    given_evidence = run(method, build((cards, scopes, tables)), evidence={1: 2})
    expected = run(method, sliced_field)
    tolerance = LOOSE.get(method, 1e-6)
    np.testing.assert_allclose(
        given_evidence.log_partition, expected.log_partition + constant, atol=tolerance
    )
    np.testing.assert_allclose(given_evidence.marginals[kept], expected.marginals, atol=tolerance)
    np.testing.assert_allclose(given_evidence.marginals[1], [0.0, 0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_factor_of_count_two_is_two_copies(method: str) -> None:
    cards, scopes, tables = weak_parts(6)
    counts = [2.0 if number in (1, 2) else 1.0 for number in range(len(scopes))]
    counted = from_factors(scopes, tables, cards, factor_counts=counts)
    copied = from_factors([*scopes, scopes[1], scopes[2]], [*tables, tables[1], tables[2]], cards)
    assert_same(method, run(method, counted), run(method, copied))


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_gradient_of_log_partition_is_its_slope(method: str) -> None:
    cards, scopes, tables = weak_parts(7)
    leaves = [torch.tensor(table, requires_grad=True) for table in tables]
    value = run(method, from_factors(scopes, leaves, cards)).log_partition
    gradients = torch.autograd.grad(value.sum(), leaves)
    step = 1e-4
    for number in (0, 3, 4):
        index = (0,) * tables[number].ndim
        ends = []
        for sign in (1, -1):
            moved = [table.copy() for table in tables]
            moved[number][index] += sign * step
            ends.append(run(method, from_factors(scopes, moved, cards)).log_partition.item())
        slope = (ends[0] - ends[1]) / (2 * step)
        assert gradients[number][index].item() == pytest.approx(slope, abs=1e-5)


@settings(max_examples=40)
@given(fields(scale=1.5, most_arity=3, most_variables=5))
def test_mean_field_and_tree_reweighted_enclose_log_partition(field: FactorGraph) -> None:
    truth = enumerate_field(field).log_partition
    lower = METHODS["mean_field"](field, max_iterations=50)
    upper = METHODS["tree_reweighted"](field, max_iterations=50, samples=10)
    assert lower.log_partition.item() <= truth + 1e-8
    assert upper.log_partition.item() >= truth - 1e-8


# -- borders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
def test_no_factors_at_all(method: str) -> None:
    field = from_factors([[0], [2]], [[0.0, 1.0], [0.5, 0.0, -math.inf]], [2, 4, 3])
    posterior = run(method, field)
    expected = math.log(1 + math.e) + math.log(4) + math.log(1 + math.exp(0.5))
    np.testing.assert_allclose(posterior.log_partition, [expected], atol=1e-9)
    np.testing.assert_allclose(posterior.marginals[1], 0.25, atol=1e-9)


@pytest.mark.parametrize("method", ALL)
def test_variables_of_one_state(method: str) -> None:
    field = from_factors([[0, 1], [1, 2], [0]], [np.ones((1, 2)), np.zeros((2, 1)), [0.5]], [1, 2, 1])
    posterior = run(method, field)
    np.testing.assert_allclose(posterior.log_partition, [1.5 + math.log(2)], atol=1e-9)
    np.testing.assert_allclose(posterior.marginals, [[1, 0], [0.5, 0.5], [1, 0]], atol=1e-9)


@pytest.mark.parametrize("graphs", [0, 1, 2])
@pytest.mark.parametrize("method", ALL)
def test_graphs_without_variables(method: str, graphs: int) -> None:
    field = FactorGraph(
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0, dtype=torch.float64),
        (),
        torch.zeros(graphs + 1, dtype=torch.int64),
        torch.zeros(0, dtype=torch.float64),
        torch.full((graphs,), 2.0, dtype=torch.float64),
    )
    posterior = run(method, field)
    np.testing.assert_allclose(posterior.log_partition, [2.0] * graphs, atol=1e-12)
    assert posterior.converged.shape == (graphs,)
    assert posterior.converged.all()


@pytest.mark.parametrize("method", ALL)
def test_empty_graph_within_a_batch(method: str) -> None:
    empty = from_factors([[]], [2.0], [])
    part = from_factors([[0, 1]], [np.array([[0.2, 0.0], [0.0, 0.3]])])
    posterior = run(method, concatenate_fields([empty, part, empty]))
    expected = enumerate_field(part).log_partition
    tolerance = 0.2 if method in SAMPLING else 0.05
    np.testing.assert_allclose(posterior.log_partition[[0, 2]], [2.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(posterior.log_partition[1], expected, atol=tolerance)


@pytest.mark.parametrize("evidence", [{0: 0, 1: 1}, {0: [-math.inf, -math.inf]}])
@pytest.mark.parametrize("method", ALL)
def test_contradiction_is_minus_infinity_and_no_nan(method: str, evidence: dict[int, Any]) -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    field = from_factors([[0, 1], [1, 2], [2, 0], [3]], [equal] * 3 + [np.zeros(2)])
    posterior = run(method, field, evidence=evidence)
    assert posterior.log_partition.item() == -math.inf
    assert not posterior.marginals.any(), "what cannot be has no probabilities, in no part of the graph"
    assert not posterior.log_marginals.isnan().any()
    assert not any(table.isnan().any() for table in posterior.factor_log_marginals)
    assert posterior.status != "converged", "the status must say that no assignment is possible"


@pytest.mark.parametrize("method", ALL)
def test_contradiction_in_one_graph_leaves_the_others_alone(method: str) -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    part = from_factors([[0, 1]], [equal])
    both = concatenate_fields([part.given({0: 0, 1: 1}), part.given({0: [0.0, 0.5]})])
    posterior = run(method, both)
    assert posterior.log_partition[0].item() == -math.inf
    if method == "mean_field":  # the best product of marginals is one of the two assignments
        assert posterior.log_partition[1].item() == pytest.approx(0.5)
    else:
        tolerance = 0.2 if method in SAMPLING else 1e-6
        assert posterior.log_partition[1].item() == pytest.approx(math.log(1 + math.exp(0.5)), abs=tolerance)
    assert not posterior.log_marginals.isnan().any()


def broken(field: FactorGraph) -> Posterior:
    """Claim, converged, that nothing is possible, as an approximation does whose numbers underflow."""
    posterior = METHODS["loopy_bp"](field)
    none = torch.full_like(posterior.log_partition, -math.inf)
    return dataclasses.replace(posterior, log_partition=none, guarantee="estimate", status="converged")


def test_only_a_proof_says_that_nothing_is_possible() -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    ring = from_factors([[0, 1], [1, 2], [2, 0]], [equal] * 3)
    with pytest.warns(ConvergenceWarning, match="broke down: .* no proof"):
        posterior = infer(ring, broken)
    assert posterior.log_partition.isnan().all()
    assert not posterior.converged.any()
    odd = from_factors([[0, 1], [1, 2], [2, 0]], [equal, equal, np.where(np.eye(2) > 0, -np.inf, 0.0)])
    posterior = infer(odd, broken)  # arc consistency strikes nothing out, but a search proves it
    assert posterior.log_partition.tolist() == [-math.inf]
    assert posterior.status.startswith("converged: no assignment has positive probability")
    with pytest.warns(ConvergenceWarning, match="broke down in graph 1"):
        posterior = infer(concatenate_fields([odd, ring]), broken)
    assert posterior.converged.tolist() == [True, False]
    np.testing.assert_equal(posterior.log_partition.numpy(), [-math.inf, math.nan])


def test_templates_prove_it_by_propagation_alone() -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    template = from_factors([[0, 1]], [equal], counts=[2, 2], factor_counts=[2])
    assert infer(template, broken, evidence={0: 0, 1: 1}).log_partition.tolist() == [-math.inf]
    with pytest.warns(ConvergenceWarning, match="broke down"):
        assert infer(template, broken).log_partition.isnan().all()


@pytest.mark.parametrize("method", ALL)
def test_strong_potentials_do_not_overflow(method: str) -> None:
    table = 500.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    field = from_factors([[0, 1], [1, 2], [0]], [table, table, [3.0, 0.0]])
    posterior = run(method, field)
    assert not posterior.log_marginals.isnan().any()
    if method not in SAMPLING:
        assert posterior.log_partition.item() == pytest.approx(1003 + math.log1p(math.exp(-3)), abs=0.1)


@pytest.mark.parametrize("method", ALL)
def test_input_is_left_as_it_was(method: str) -> None:
    field = build(weak_parts(8))
    before = [field.log_unary.clone(), *(group.log_tables.clone() for group in field.groups)]
    run(method, field)
    after = [field.log_unary, *(group.log_tables for group in field.groups)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("method", ["exact", "loopy_bp", "mean_field", "tree_reweighted"])
def test_gradient_with_shared_tables_counts_batches_and_evidence(method: str) -> None:
    """Two graphs whose three factors share two tables, one factor of count 2, evidence hard and soft."""
    rng = np.random.default_rng(5)
    scopes = [[0, 1], [1, 2], [2, 0], [0], [2]]
    tables = [0.4 * rng.normal(size=shape) for shape in ((2, 2), (2, 2), (2, 2), 2, 2)]
    one = from_factors(scopes, tables, factor_counts=[1, 2, 1, 1, 1])
    batch = concatenate_fields([one, one, one])
    group = batch.groups[0]
    index = torch.arange(group.num_factors) % 2
    shared = dataclasses.replace(group, log_tables=group.log_tables[:2].clone(), table=index)
    batch = dataclasses.replace(batch, groups=(shared,)).given({1: 0, 5: [0.3, -0.2]})
    weight = torch.tensor([1.0, 0.5, -2.0], dtype=torch.float64)
    own, table = batch.log_unary.clone(), shared.log_tables.clone().requires_grad_()
    value = run(method, batch.with_potentials(own, [table])).log_partition @ weight
    (slope,) = torch.autograd.grad(value, table)
    direction, step = torch.from_numpy(rng.normal(size=(2, 2, 2))), 1e-4
    ends = [
        run(method, batch.with_potentials(own, [table.detach() + side * step * direction])).log_partition
        @ weight
        for side in (1, -1)
    ]
    assert float((slope * direction).sum()) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), abs=1e-5)


def test_gradient_of_a_log_likelihood_is_observed_minus_expected() -> None:
    field = build(weak_parts(4, triples=True))
    own = field.log_unary.clone().requires_grad_()
    tables = [group.log_tables.clone().requires_grad_() for group in field.groups]
    states = torch.zeros(field.num_variables, dtype=torch.int64)
    log_likelihood(field.with_potentials(own, tables), states).sum().backward()
    posterior = infer(field, "exact")
    observed = torch.zeros_like(own)
    observed[field.state_ptr[:-1]] = 1.0
    np.testing.assert_allclose(own.grad, observed - posterior.log_marginals.exp(), atol=1e-12)
    for group, table, expected in zip(field.groups, tables, posterior.factor_marginals, strict=True):
        seen = torch.zeros_like(table)
        seen[(slice(None), *(0,) * group.arity)] = 1.0
        np.testing.assert_allclose(table.grad, seen - expected, atol=1e-12)


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(UNROLLED)))
def test_what_cannot_be_unrolled_says_so(method: str) -> None:
    with pytest.raises(InputError, match=f"not {method}; without it the log partition has its gradient"):
        infer(build(weak_parts(0)), method, unroll=True)


def test_unrolling_is_torch_alone() -> None:
    with pytest.raises(InputError, match="leave out backend='numba'"):
        infer(build(weak_parts(0)), "loopy_bp", unroll=True, backend="numba")


@pytest.mark.parametrize("method", UNROLLED)
def test_unrolled_marginals_carry_gradients(method: str) -> None:
    cards, scopes, tables = weak_parts(9, zeros=True)
    leaves = [torch.tensor(table, requires_grad=True) for table in tables]
    unrolled = run(method, from_factors(scopes, leaves, cards), unroll=True)
    (gradient,) = torch.autograd.grad(unrolled.marginals[1, 0], leaves[3])
    ends = []
    for sign in (1, -1):
        moved = [table.copy() for table in tables]
        moved[3][0, 1] += sign * 1e-4
        ends.append(run(method, from_factors(scopes, moved, cards)).marginals[1, 0].item())
    assert gradient[0, 1].item() == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-5)


OTHER = from_factors([[0, 2], [1, 2]], [np.zeros((2, 2))] * 2)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (
            lambda field: infer(field, "gibbs", temperatures=0),
            "temperatures must be an integer of at least 1",
        ),
        (lambda field: infer(field, "mean_field", seed=-1), "seed must be an integer of at least 0"),
        (lambda field: infer(field, "tree_reweighted", seed=-1), "seed must be an integer of at least 0"),
        (lambda field: gibbs_sample(field, 3, seed=-1), "seed must be an integer of at least 0"),
        (lambda field: sample(field, -1), "num_samples must be an integer"),
        (
            lambda field: infer(field, "relaxed", max_iterations=0),
            "max_iterations must be an integer of at least 1",
        ),
        (lambda field: infer(field, "relaxed", log2_states=math.nan), "log2_states must not be negative"),
        (lambda field: infer(field, memory_limit=-1.0), "memory_limit is a number of bytes above 0"),
        (lambda field: infer(field, "generalized_bp", messages=torch.zeros(3)), "messages hold 8 numbers"),
        (
            lambda field: infer(field, "generalized_bp", regions=regions_from_factors(OTHER)),
            "of other variables",
        ),
        (lambda field: map_state(field, "loopy_bp", temperature=0.5), "leave out the temperature"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(ask: Callable[[FactorGraph], Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        ask(from_factors([[0, 1], [1, 2]], [np.zeros((2, 2))] * 2))
