"""Stepping towards the data: the length of a step, and fits from starts in another phase."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hiddenfield.fields.relational import graph_scheme
from hiddenfield.learning.alternation import alternate
from hiddenfield.models.relational import Network, fit_relational, network_from_edges, sample_networks
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.stepping import CLOSE, DEGENERATE, ENDING, Stepping, Turn, hull_step

SCHEME = graph_scheme("edge", "triangle")


def florentine() -> Network:
    graph = networkx.florentine_families_graph()
    return network_from_edges(SCHEME, list(graph.edges), vertices=[*graph, "Pucci"])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 20.0))
def test_a_step_ends_at_the_hull(seed: int, far: float) -> None:
    """In one dimension the hull is an interval, and the step goes to its end."""
    sampled = np.random.default_rng(seed).normal(size=(50, 1))
    mean, top = sampled.mean(), sampled.max()
    expected = min(1.0, (top - mean) / (1.05 * far))
    assert hull_step(sampled, np.array([mean + far])) == pytest.approx(expected, abs=1e-6)


def test_a_start_in_another_phase_is_left() -> None:
    """From weights whose networks are complete it steps to the estimate that a good start gives."""
    network = florentine()
    full = sample_networks(SCHEME, 16, [-2.0, 1.5], samples=10, start="observed", network=network.adjacency())
    assert full.edges.min() == 120
    fit = fit_relational(SCHEME, network, method="monte_carlo", start={"edge": -2.0, "triangle": 1.5})
    assert fit.converged, fit.status
    np.testing.assert_array_less(np.abs(fit.theta - [-1.676, 0.155]), [0.1, 0.2])


def test_steps_that_fall_into_another_phase_are_taken_back() -> None:
    """The pseudo-likelihood of this network is a degenerate model; maximum likelihood is not."""
    drawn = sample_networks(
        SCHEME, 20, [-1.8, 0.2], samples=7, thin=50, burn_in=200, keep_networks=True, seed=9
    )
    assert drawn.networks is not None
    network = Network({"vertex": 20}, {"exist": np.argwhere(np.triu(drawn.networks[0, 6]))})
    fit = fit_relational(SCHEME, network, method="monte_carlo")
    assert fit.converged, fit.status
    mean = sample_networks(
        SCHEME, 20, fit.theta, samples=4000, thin=5, start="observed", network=network.adjacency(), seed=3
    ).statistics.mean((0, 1))
    np.testing.assert_allclose(mean, [28, 5], rtol=0.15)


def test_the_better_of_two_starts_is_taken() -> None:
    """Without edges in the model, safe weights are zero, networks half full, and the data far away."""
    scheme = graph_scheme("star2")
    graph = networkx.gnm_random_graph(30, 25, seed=4)
    network = network_from_edges(scheme, list(graph.edges), vertices=range(30))
    fit = fit_relational(scheme, network, method="monte_carlo")
    assert fit.converged, fit.status
    assert len(fit.ascents[0].trace) < 40
    # The likelihood of so steep a path is not known, and neither are the criteria.
    assert np.isnan(fit.aic) or fit.log_likelihood_error < 1


def test_independent_pairs_are_fitted_exactly() -> None:
    """With edges and a covariate alone the likelihood is that of a logistic regression."""
    scheme = graph_scheme("edge")
    scheme.term("nodecov", covariate="wealth")
    graph = networkx.florentine_families_graph()
    wealth = {name: float(len(name)) for name in graph}
    network = network_from_edges(
        scheme, list(graph.edges), vertices=list(graph), covariates={"wealth": wealth}
    )
    sampled, exact = (fit_relational(scheme, network, method=m) for m in ("monte_carlo", "pseudo_likelihood"))
    np.testing.assert_allclose(sampled.theta, exact.theta, atol=1e-4)
    np.testing.assert_allclose(sampled.standard_errors, exact.standard_errors, rtol=1e-3)
    assert sampled.quantity == "log-likelihood"
    assert sampled.log_likelihood == pytest.approx(exact.objective)
    assert sampled.log_likelihood_error == 0


def test_data_at_an_edge_are_told() -> None:
    """A network without triangles has no maximum; the status names the feature."""
    network = network_from_edges(SCHEME, [(i, (i + 1) % 12) for i in range(12)], vertices=range(12))
    fit = fit_relational(SCHEME, network, method="monte_carlo")
    assert not fit.converged
    assert "drop or fix triangle" in fit.status


def test_a_degenerate_model_is_told() -> None:
    """Four cliques of six: no homogeneous model of edges and triangles gives these."""
    edges = [(6 * c + i, 6 * c + j) for c in range(4) for i in range(6) for j in range(i)]
    fit = fit_relational(SCHEME, network_from_edges(SCHEME, edges, vertices=range(24)), method="monte_carlo")
    assert not fit.converged
    assert "degenerate" in fit.status
    assert "gwesp" in fit.status


def test_standard_errors_hold_the_noise_of_the_chains() -> None:
    fit = fit_relational(SCHEME, florentine(), method="monte_carlo")
    assert fit.diagnostics is not None
    assert fit.diagnostics.trace.shape[2] == 2
    assert (fit.diagnostics.effective_size > 400).all()
    assert (fit.diagnostics.r_hat < 1.05).all()


def test_diagnostics_of_a_slow_chain() -> None:
    """An autoregression of coefficient 0.9 has an effective size of about n (1 - 0.9) / (1 + 0.9)."""
    generator = np.random.default_rng(0)
    noise, chains = generator.normal(size=(4, 20_000)), np.zeros((4, 20_000))
    for t in range(1, noise.shape[1]):
        chains[:, t] = 0.9 * chains[:, t - 1] + noise[:, t]
    slow = ChainDiagnostics(("x",), chains[:, :, None])
    assert slow.effective_size[0] == pytest.approx(80_000 / 19, rel=0.3)
    assert slow.mixed
    apart = ChainDiagnostics(("x",), chains[:, :, None] + 5 * np.arange(4)[:, None, None])
    assert apart.r_hat[0] > 1.1
    assert not apart.mixed


def test_networks_much_denser_than_the_data_are_told() -> None:
    """Without a weight on edges, half of all pairs are edges wherever no triangle is near."""
    scheme = graph_scheme("triangle")
    edges = [(3 * i + j, 3 * i + (j + 1) % 3) for i in range(10) for j in range(3)]
    network = network_from_edges(scheme, edges, vertices=range(110))
    fit = fit_relational(scheme, network, method="monte_carlo", max_iterations=2, check=False)
    assert not fit.converged
    assert (
        "more than 20 times the edges of the data: where no feature counts edges alone, add one" in fit.status
    )


def test_chains_that_stay_in_different_phases_end_the_search() -> None:
    """However many samples are asked for, half of the chains stay far below the data, and half far above."""
    asked: list[int] = []

    def draw(theta: np.ndarray, effort: int, seed: int) -> np.ndarray:
        asked.append(effort)
        noise = np.random.default_rng(seed).normal(size=(4, 1000 * effort, 1))
        return noise + np.array([-20.0, -20.0, 20.0, 20.0])[:, None, None]

    steps = Stepping(draw, np.zeros(1), np.zeros(1), ("gwdegree",))
    turn = Turn(np.zeros(1))
    end = alternate(steps, [], turn, tolerance=CLOSE, max_iterations=200, settle=ENDING)
    assert not end.converged
    assert end.statistics is not None
    assert end.statistics.problem == DEGENERATE
    assert len(asked) < 10


def test_long_chains_need_not_agree_as_often() -> None:
    """Chains that mix slowly are made longer until they are close to the data; two turns of that length are enough."""
    asked: list[int] = []

    def draw(theta: np.ndarray, effort: int, seed: int) -> np.ndarray:
        asked.append(effort)
        level = np.random.default_rng(0).permutation(np.linspace(-1.0, 1.0, 5 * effort))
        return np.tile(np.repeat(level, 200)[None, :, None], (4, 1, 1)) + (0.3 if effort < 8 else 0.0)

    steps = Stepping(draw, np.zeros(1), np.zeros(1), ("edge",))
    end = alternate(steps, [], Turn(np.zeros(1)), tolerance=CLOSE, max_iterations=200, settle=ENDING)
    assert end.converged
    assert sum(effort >= 8 for effort in asked) == ENDING
