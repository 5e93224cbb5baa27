"""Gibbs sampling: right distribution, honest diagnostics, reproducible."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.fields import FactorGraph, concatenate_fields, from_factors, ising_grid, potts_grid
from hiddenfield.fields.layout import flatten, free_variables
from hiddenfield.inference import infer
from hiddenfield.inference.gibbs import gibbs, gibbs_sample
from hiddenfield.inference.sampling.chains import Chains, tree_blocks
from tests.fields.strategies import fields
from tests.inference.oracle import enumerate_field

SITES_AND_TREES = pytest.mark.parametrize("blocks", ["sites", "trees"])


def loopy_field(*, zeros: bool = False, scale: float = 1.0) -> FactorGraph:
    rng = np.random.default_rng(5)
    cards = [2, 3, 2, 2, 4, 1]
    scopes = [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 0], [0, 2, 3], [1], [5, 4], [0, 1]]
    tables = [scale * rng.normal(size=[cards[v] for v in scope]) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[4][1, 2] = tables[6][1, 1, 0] = -np.inf
    return from_factors(scopes, tables, cards, factor_counts=[1, 1, 2, 1, 1, 1, 1, 1, 1, 1])


@SITES_AND_TREES
@pytest.mark.parametrize("zeros", [False, True])
def test_marginals_within_sampling_error(blocks: str, zeros: bool) -> None:
    field = loopy_field(zeros=zeros)
    truth = enumerate_field(field)
    posterior = infer(field, "gibbs", blocks=blocks, chains=32, sweeps=4000)
    effective = posterior.extra["effective_samples"]
    for variable, marginal in enumerate(truth.marginals):
        error = np.sqrt(marginal * (1 - marginal) / effective[variable].item())
        found = posterior.marginals[variable, : len(marginal)].numpy()
        assert (np.abs(found - marginal) <= 5 * error + 1e-9).all()
    for found, expected in zip(posterior.factor_marginals, truth.factor_marginals, strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02)
        assert (found.numpy()[expected == 0] == 0).all()
    error = posterior.extra["log_partition_error"].item()
    assert abs(posterior.log_partition.item() - truth.log_partition) < 5 * error + 1e-9


@SITES_AND_TREES
def test_joint_distribution_is_the_fields(blocks: str) -> None:
    field = from_factors(
        [[0, 1], [1, 2], [2, 0], [0]], [np.array([[0.7, -0.3], [0.1, 0.4]])] * 3 + [np.array([0.5, 0.0])]
    )
    truth = enumerate_field(field)
    draws = gibbs_sample(field, 20_000, chains=100, thin=5, blocks=blocks, seed=3).numpy()
    found = np.bincount(draws @ [4, 2, 1], minlength=8) / len(draws)
    expected = np.exp(truth.log_values - truth.log_partition)
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / 10_000))


@pytest.mark.parametrize("zeros", [False, True])
def test_scaled_potentials_draw_what_logarithms_draw(zeros: bool) -> None:
    walkers = Chains.start(loopy_field(zeros=zeros), 8, 4, "trees")
    assert walkers.potentials is not None
    plain = dataclasses.replace(
        walkers, potentials=None, state=walkers.state.copy(), random=walkers.random.copy()
    )
    walkers.run(50)
    plain.run(50)
    assert (walkers.state == plain.state).all()


def test_forests_give_independent_samples() -> None:
    """A strongly coupled chain: sites would never leave their mode, a tree is drawn at once."""
    table = 20.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    field = from_factors([[i, i + 1] for i in range(9)], [table] * 9)
    posterior = infer(field, "gibbs", chains=16, sweeps=500)
    assert posterior.extra["effective_samples"].min() > 4000
    np.testing.assert_allclose(posterior.marginals, 0.5, atol=0.03)


def test_chains_that_do_not_mix_are_reported() -> None:
    table = 20.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    field = from_factors([[0, 1], [1, 2], [2, 3], [3, 0]], [table] * 4)
    with pytest.warns(ConvergenceWarning, match="blocks='trees'"):
        posterior = infer(field, "gibbs", blocks="sites", sweeps=200)
    assert posterior.extra["r_hat"].max() > 1.1


def test_hard_parity_checks_are_entered_and_kept() -> None:
    parity = np.where(np.indices((2, 2, 2)).sum(0) % 2 == 0, 0.0, -np.inf)
    scopes = [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]
    field = from_factors([*scopes, [0]], [parity] * 4 + [np.array([0.0, 1.0])])
    draws = gibbs_sample(field, 50)
    assert (field.log_value(draws) > -math.inf).all()


def test_evidence_is_kept() -> None:
    field = loopy_field().given({1: 2, 4: 3})
    draws = gibbs_sample(field, 200)
    assert (draws[:, 1] == 2).all()
    assert (draws[:, 4] == 3).all()


def test_batch_estimates_each_graph() -> None:
    parts = [loopy_field(scale=scale) for scale in (0.5, 1.0)]
    posterior = gibbs(concatenate_fields(parts), chains=32, sweeps=1000)
    truth = torch.tensor([enumerate_field(part).log_partition for part in parts], dtype=torch.float64)
    assert ((posterior.log_partition - truth).abs() < 5 * posterior.extra["log_partition_error"]).all()


@SITES_AND_TREES
def test_seed_decides_and_threads_do_not(blocks: str) -> None:
    field = loopy_field()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(gibbs(field, chains=24, sweeps=400, seed=9, blocks=blocks))
    other = gibbs(field, chains=24, sweeps=400, seed=10, blocks=blocks)
    assert torch.equal(results[0].log_marginals, results[1].log_marginals)
    assert torch.equal(results[0].log_partition, results[1].log_partition)
    assert not torch.equal(results[0].log_marginals, other.log_marginals)


@given(fields(most_variables=7, most_factors=10), st.integers(0, 3))
@settings(max_examples=40)
def test_blocks_cover_every_variable_and_induce_forests(field: FactorGraph, observed: int) -> None:
    free = free_variables(field)
    free[:observed] = False
    blocks = tree_blocks(flatten(field), free)
    assert sorted(blocks.order.tolist()) == np.flatnonzero(free).tolist()
    scopes = [scope for group in field.groups for scope in group.scopes.tolist()]
    for begin, end in zip(blocks.tree_ptr[:-1], blocks.tree_ptr[1:], strict=True):
        members = blocks.order[begin:end].tolist()
        inside = [[v for v in scope if v in members] for scope in scopes]
        edges = [scope for scope in inside if len(scope) > 1]
        parents = {v: u for v, u in zip(members, blocks.parent[begin:end].tolist(), strict=True) if u >= 0}
        # Each edge joins siblings to their parent, and nobody has two parents: a forest, children first.
        joined: dict[tuple[int, int], list[int]] = {}
        for place, v in enumerate(members, begin):
            if v in parents:
                joined.setdefault((int(blocks.sibling[place]), parents[v]), []).append(v)
        assert sorted(map(sorted, edges)) == sorted(sorted([*group, u]) for (_, u), group in joined.items())
        assert all(members.index(v) < members.index(u) for v, u in parents.items())


def test_effective_samples_of_a_known_autocorrelation() -> None:
    """Two tied spins flip rarely: the indicator is a two-state chain of known integrated autocorrelation time."""
    coupling = 1.0
    table = coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    field = from_factors([[0, 1]], [table])
    posterior = gibbs(field, chains=64, sweeps=5000, blocks="sites", log_partition="none")
    # A sweep draws x0 given x1, then x1 given x0; x1 agrees with its last value with correlation tanh(J)^2 = r.
    r = math.tanh(coupling) ** 2
    expected = 64 * 5000 * (1 - r) / (1 + r)
    assert posterior.extra["effective_samples"][1].item() == pytest.approx(expected, rel=0.2)
    assert posterior.log_partition.isnan().all()


def diagnosis(causes: int, findings: int, seed: int) -> FactorGraph:
    """Rare causes, findings that are the disjunction of some, and of a leak, through deterministic steps; all seen."""
    draw = np.random.default_rng(seed)
    both = np.full((2, 2, 2), -np.inf)
    for one, two in np.ndindex(2, 2):
        both[one, two, one or two] = 0.0
    scopes: list[list[int]] = [[cause] for cause in range(causes)]
    tables = [np.log([1 - chance, chance]) for chance in draw.uniform(0.001, 0.02, causes)]
    number, seen = causes, {}
    for _ in range(findings):
        total = number  # a leak, to which one cause after another is added
        scopes.append([number])
        tables.append(np.log([1 - 1e-4, 1e-4]))
        number += 1
        for cause in draw.choice(causes, 4, replace=False).tolist():
            strength = draw.uniform(0.3, 0.9)
            scopes += [[cause, number], [total, number, number + 1]]
            with np.errstate(divide="ignore"):
                tables += [np.log([[1.0, 0.0], [1 - strength, strength]]), both]
            total = number + 1
            number += 2
        seen[total] = 1
    return from_factors(scopes, tables, [2] * number).given(seen)


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_converged_means_that_marginals_are_right() -> None:
    for seed in range(6):
        field = diagnosis(10, 5, seed)
        truth, posterior = infer(field, "exact"), infer(field, "gibbs")
        error = float((posterior.marginals - truth.marginals).abs().max())
        if bool(posterior.converged.all()):
            assert error < 0.05
        else:
            assert "chains disagree on" in posterior.status
        gap = abs(float(posterior.log_partition - truth.log_partition))
        assert gap < 4 * float(posterior.extra["log_partition_error"])


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_standard_errors_cover() -> None:
    """Errors in units of their standard errors, over problems of different kinds: none far out, none far too wide."""
    draw = np.random.default_rng(1)
    problems = [
        loopy_field(),
        loopy_field(zeros=True),
        loopy_field(scale=2.0),
        ising_grid(4, 4, 0.3, 0.2),
        ising_grid(4, 4, lambda size: draw.normal(0, 1, size), lambda size: draw.normal(0, 0.5, size)),
        potts_grid(3, 3, 3, 0.6),
        diagnosis(6, 3, 0),
    ]
    of_partitions, of_marginals = [], []
    for field in problems:
        truth = infer(field, "exact")
        for seed in range(4):
            posterior = gibbs(field, seed=seed)
            gap = float((posterior.log_partition - truth.log_partition).abs())
            of_partitions.append(gap / max(float(posterior.extra["log_partition_error"]), 1e-12))
            error = posterior.extra["standard_error"]
            gaps = (posterior.log_marginals.exp() - truth.log_marginals.exp()).abs()
            assert bool((gaps[error == 0] < 1e-9).all())
            of_marginals += (gaps / error)[error > 0].tolist()
    assert max(of_partitions) < 4.5
    assert np.mean(np.array(of_partitions) < 2) > 0.9
    assert max(of_marginals) < 4.5
    assert np.mean(np.array(of_marginals) < 2) > 0.9
    assert np.median(of_marginals) > 0.05


def test_factors_of_several_variables_are_drawn_together() -> None:
    """A parity check of three and its neighbours: no single variable can move, the forest can."""
    parity = np.where(np.indices((2, 2, 2)).sum(0) % 2 == 0, 0.0, -np.inf)
    lean = np.array([[0.3, 0.0], [0.0, 0.3]])
    field = from_factors([[0, 1, 2], [2, 3, 4], [0, 5], [4, 6]], [parity, parity, lean, lean])
    truth = enumerate_field(field)
    draws = gibbs_sample(field, 20_000, chains=100, thin=2).numpy()
    found = np.bincount(draws @ 2 ** np.arange(6, -1, -1), minlength=128) / len(draws)
    expected = np.exp(truth.log_values - truth.log_partition)
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.06 / 20_000))


def test_templates_are_refused() -> None:
    template = from_factors([[0, 0]], [np.zeros((2, 2))], counts=[3], factor_counts=[3])
    with pytest.raises(InputError, match="ground"):
        gibbs(template)


@pytest.mark.parametrize(
    "options", [{"chains": 0}, {"sweeps": 1}, {"blocks": "rows"}, {"log_partition": "ti"}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        gibbs(loopy_field(), **options)


def test_contradiction_has_nothing_to_sample() -> None:
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    field = from_factors([[0, 1]], [equal]).given({0: 0, 1: 1})
    with pytest.raises(InputError, match="nothing to sample"):
        gibbs_sample(field, 10)


def test_chains_start_at_possible_assignments() -> None:
    unequal = np.where(np.eye(3) > 0, -np.inf, 0.0)
    field = from_factors([[i, (i + 1) % 7] for i in range(7)], [unequal] * 7)
    walkers = Chains.start(field, 8, 0, "auto")
    assert (field.log_value(torch.from_numpy(walkers.state.T.astype(np.int64))) == 0).all()
    assert len(np.unique(walkers.state, axis=1).T) > 1
