"""Most likely assignments: possible ones, with an honest bound, whatever the method."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, ising_grid
from hiddenfield.inference import map_state
from hiddenfield.inference.sampling.search import Search
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field

METHODS = pytest.mark.parametrize("method", ["auto", "loopy_bp", "tree_reweighted"])


def satisfiable(variables: int, ratio: float, seed: int) -> FactorGraph:
    """Random clauses of three literals that a hidden assignment satisfies."""
    draw = np.random.default_rng(seed)
    hidden = draw.integers(0, 2, variables)
    scopes, tables = [], []
    while len(scopes) < ratio * variables:
        scope, forbidden = draw.choice(variables, 3, replace=False), draw.integers(0, 2, 3)
        if (hidden[scope] != forbidden).any():
            table = np.zeros((2, 2, 2))
            table[tuple(forbidden)] = -np.inf
            scopes.append(scope.tolist())
            tables.append(table)
    return from_factors(scopes, tables, [2] * variables)


def pedigree(generations: int, seed: int) -> FactorGraph:
    """Genotypes (three states) that follow from two parents each by Mendel's law, and some that are observed."""
    draw = np.random.default_rng(seed)
    law = np.zeros((3, 3, 3))
    for mother in range(3):
        for father in range(3):
            one, two = mother / 2, father / 2
            law[mother, father] = [(1 - one) * (1 - two), one * (1 - two) + two * (1 - one), one * two]
    width = 8
    scopes, tables, truth = [], [], draw.integers(0, 3, width).tolist()
    for person in range(width):
        scopes.append([person])
        tables.append(np.log([0.49, 0.42, 0.09]))
    for generation in range(1, generations):
        for child in range(width):
            parents = (generation - 1) * width + draw.choice(width, 2, replace=False)
            chances = law[truth[parents[0]], truth[parents[1]]]
            truth.append(int(draw.choice(3, p=chances)))
            scopes.append([*parents.tolist(), generation * width + child])
            with np.errstate(divide="ignore"):
                tables.append(np.log(law))
    field = from_factors(scopes, tables, [3] * (width * generations))
    last = range(width * (generations - 1), width * generations)
    return field.given({person: truth[person] for person in last})


@METHODS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_clauses_that_can_be_satisfied_are(method: str, seed: int) -> None:
    field = satisfiable(30 + 10 * seed, 3.0 + seed / 3, seed)
    best = map_state(field, method)
    assert float(best.log_value) == float(field.log_value(best.assignment)) == 0.0


@METHODS
@pytest.mark.parametrize("seed", range(3))
def test_pedigrees_keep_their_evidence_and_mendels_law(method: str, seed: int) -> None:
    field = pedigree(5, seed)
    best = map_state(field, method)
    truth = map_state(field, "exact")
    assert -math.inf < float(best.log_value) <= float(truth.log_value) + 1e-9
    assert float(best.log_value) == pytest.approx(float(field.log_value(best.assignment)))
    if best.upper_bound is not None:
        assert float(best.upper_bound) >= float(truth.log_value) - 1e-9


def test_the_default_is_exact_where_that_fits() -> None:
    field = ising_grid(4, 4, 0.7, 0.1)
    best = map_state(field)
    assert best.guarantee == "exact"
    assert "exact inference fits" in best.note
    assert float(best.gap) == 0.0


def test_what_is_too_wide_is_searched_with_a_bound() -> None:
    draw = np.random.default_rng(0)
    field = ising_grid(40, 40, lambda size: draw.normal(0, 1, size), lambda size: draw.normal(0, 0.3, size))
    best = map_state(field, time_limit=2.0)
    assert best.guarantee == "lower bound"
    assert 0 < float(best.gap) < 0.25 * float(best.log_value)
    assert f"at most {float(best.gap):.3g} below the best" in best.note
    decoded = hf.inference.loopy_bp(field, temperature=0, damping=0.5, max_iterations=100)
    assert float(best.log_value) >= float(decoded.log_partition)


@METHODS
def test_only_a_proof_says_impossible(method: str) -> None:
    clauses = np.zeros((8, 2, 2, 2))
    for number, entry in enumerate(np.ndindex(2, 2, 2)):
        clauses[number][entry] = -np.inf
    field = from_factors([[0, 1, 2]] * 8, list(clauses), [2] * 3)
    best = map_state(field, method)
    assert (float(best.log_value), best.guarantee) == (-math.inf, "exact")
    assert best.status.startswith("contradiction")


def test_an_assignment_that_was_not_found_is_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(field: FactorGraph, number: int, **_: object) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(number, field.num_variables, dtype=torch.int64), torch.ones(1, dtype=torch.int64)

    monkeypatch.setattr("hiddenfield.inference.sampling.search.feasible_assignments", give_up)
    clauses = np.zeros((8, 2, 2, 2))
    for number, entry in enumerate(np.ndindex(2, 2, 2)):
        clauses[number][entry] = -np.inf
    field = from_factors([[0, 1, 2]] * 8, list(clauses), [2] * 3)
    with pytest.warns(ConvergenceWarning, match="no assignment of positive probability was found"):
        best = map_state(field, "loopy_bp", damping=0.5)
    assert (best.guarantee, best.status.startswith("converged")) == ("lower bound", False)


def test_a_batch_is_searched_graph_by_graph() -> None:
    parts = [satisfiable(20, 3.0, 1), pedigree(4, 2), ising_grid(3, 3, -1.0, 0.1)]
    best = map_state(concatenate_fields(parts), "loopy_bp", damping=0.3)
    truth = [float(map_state(part, "exact").log_value) for part in parts]
    np.testing.assert_allclose(best.log_value, truth, atol=1e-6)


@settings(max_examples=30)
@given(fields(scale=2.0, most_arity=3))
def test_a_search_never_exceeds_the_best_value(field: FactorGraph) -> None:
    search = Search(field, torch.zeros(1, field.num_variables, dtype=torch.int64), field.log_unary)
    before = float(search.value)
    next(search.rounds(), None)
    assert before <= float(search.value) <= enumerate_field(field).best + 1e-9
    assert float(field.log_value(search.best)) == pytest.approx(float(search.value))


def test_remedies_can_do_what_was_asked_for() -> None:
    draw = np.random.default_rng(0)
    field = ising_grid(6, 6, lambda size: draw.normal(0, 2, size), 0.1)
    best = map_state(field, "loopy_bp", max_iterations=2)
    assert "double_loop" not in best.status
    assert "'auto'" in best.status


def glass(side: int, seed: int) -> FactorGraph:
    """A grid of strong couplings of either sign, on which annealing gets caught."""
    draw = np.random.default_rng(seed)
    number = np.arange(side * side).reshape(side, side)
    rows = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1)
    columns = np.stack([number[:-1].ravel(), number[1:].ravel()], 1)
    scopes = [*rows.tolist(), *columns.tolist()]
    tables = [3 * draw.normal() * np.array([[1.0, -1.0], [-1.0, 1.0]]) for _ in scopes]
    own = [0.1 * draw.normal(size=2) for _ in range(side * side)]
    return from_factors([*scopes, *([v] for v in range(side * side))], [*tables, *own])


def test_exact_moves_of_many_variables_find_what_annealing_misses() -> None:
    field = glass(16, 0)
    best = map_state(field, "exact").log_value
    found = map_state(field, memory_limit=1e4, time_limit=4.0)
    assert found.guarantee != "exact" or bool(torch.isclose(found.log_value, best))
    assert float(best - found.log_value) < 5e-3 * float(best)
    assert "search" in found.note


def test_no_exact_move_lowers_a_value() -> None:
    field = concatenate_fields([glass(6, 1), glass(7, 2)])
    search = Search(field, torch.zeros(1, field.num_variables, dtype=torch.int64), field.log_unary)
    value, moves = search.value, search.deepen()
    for _ in range(60):
        next(moves)
        assert bool((search.value >= value).all())
        value = search.value
    torch.testing.assert_close(value, map_state(field, "exact").log_value)
    torch.testing.assert_close(value, field.log_value(search.best))
