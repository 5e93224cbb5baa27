"""Fitting: closed forms, gradients, published estimates, several and partly unknown networks, runaways."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.models.relational import (
    BetheLikelihood,
    Network,
    PseudoLikelihood,
    fit_relational,
    network_from_edges,
)
from tests.fields.relational.strategies import networks, schemes


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def florentine(*features: str) -> tuple[RelationalScheme, Network]:
    """Return the marriages with the one family that has none."""
    scheme = graph_scheme(*features)
    graph = networkx.florentine_families_graph()
    return scheme, network_from_edges(scheme, list(graph.edges), vertices=[*graph, "Pucci"])


@pytest.mark.parametrize("method", ["bethe", "pseudo_likelihood"])
@pytest.mark.parametrize("optimiser", ["lbfgs", "conjugate_gradient"])
def test_edges_alone_give_the_logit_of_the_density(method: str, optimiser: str) -> None:
    scheme, network = florentine("edge")
    fit = fit_relational(scheme, network, method=method, optimiser=optimiser, tolerance=1e-8, starts=1)
    assert fit.converged
    assert fit.theta[0] == pytest.approx(-1.609, abs=5e-4)
    assert fit.theta[0] == pytest.approx(logit(20 / 120), abs=1e-5)
    assert fit.standard_errors[0] == pytest.approx(1 / math.sqrt(120 * (1 / 6) * (5 / 6)), rel=1e-4)


def test_edge_and_triangle_beside_the_published_estimate() -> None:
    """Monte Carlo maximum likelihood, statnet: edges -1.676 (0.352), triangles 0.155 (0.591)."""
    scheme, network = florentine("edge", "triangle")
    fit = fit_relational(scheme, network, starts=2)
    assert fit.converged
    np.testing.assert_array_less(np.abs(fit.theta - [-1.676, 0.155]), [0.352, 0.591])
    assert np.abs(fit.gradient).max() < 1e-2


@settings(max_examples=10)
@given(scheme=schemes(), seed=st.integers(0, 1000), weights=st.sampled_from(["ground", "binding"]))
def test_gradients_are_those_of_the_values(scheme: Any, seed: int, weights: str) -> None:
    generator = np.random.default_rng(seed)
    given_networks = [networks(scheme, 6, generator) for _ in range(2)]
    theta = generator.normal(scale=0.1, size=len(scheme.features))
    step = 1e-5
    moves = step * np.concatenate([np.eye(len(theta)), -np.eye(len(theta))])
    for likelihood in (
        BetheLikelihood(scheme, given_networks, weights=weights, condition=False),
        PseudoLikelihood(scheme, given_networks, weights=weights),
    ):
        value, gradient = likelihood(theta)
        values = likelihood.examine(theta + moves).log_likelihood
        slope = (values[: len(theta)] - values[len(theta) :]) / (2 * step)
        np.testing.assert_allclose(gradient, slope, atol=2e-3, rtol=1e-3)
        assert np.isfinite(value)


def test_several_networks_are_one_average() -> None:
    scheme = graph_scheme("edge")
    sparse = network_from_edges(scheme, [(0, 1)], vertices=range(5))
    dense = network_from_edges(scheme, [(0, 1), (1, 2), (2, 3)], vertices=range(5))
    fit = fit_relational(scheme, [sparse, dense], tolerance=1e-8, starts=1)
    assert fit.theta[0] == pytest.approx(logit(4 / 20), abs=1e-5)


def test_networks_of_different_sizes_share_only_if_asked() -> None:
    scheme = graph_scheme("edge")
    both = [network_from_edges(scheme, [(0, 1)], vertices=range(size)) for size in (4, 6)]
    with pytest.raises(InputError, match="share=True"):
        fit_relational(scheme, both)
    fit = fit_relational(scheme, both, share=True, tolerance=1e-8, starts=1)
    assert fit.theta[0] == pytest.approx(logit(2 / 21), abs=1e-5)


def test_unknown_pairs_are_left_out() -> None:
    """With edges alone the unknown pairs say nothing: the density is that of the known ones."""
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, [(0, 1), (1, 2)], vertices=range(5), unknown=[(3, 4), (0, 4)])
    fit = fit_relational(scheme, network, tolerance=1e-8, starts=1)
    assert fit.converged
    assert fit.theta[0] == pytest.approx(logit(2 / 8), abs=1e-4)


def test_gradient_with_unknown_pairs() -> None:
    scheme = graph_scheme("edge", "triangle")
    network = network_from_edges(
        scheme, [(0, 1), (1, 2), (0, 2)], vertices=range(6), unknown=[(2, 3), (1, 3), (4, 5)]
    )
    likelihood = BetheLikelihood(scheme, [network])
    theta = np.array([-1.0, 0.3])
    _, gradient = likelihood(theta)
    moves = 1e-5 * np.concatenate([np.eye(2), -np.eye(2)])
    values = likelihood.examine(theta + moves).log_likelihood
    np.testing.assert_allclose(gradient, (values[:2] - values[2:]) / 2e-5, atol=1e-4)
    with pytest.raises(InputError, match="complete networks"):
        PseudoLikelihood(scheme, [network])


@pytest.mark.parametrize("edges", [[], [(i, j) for i in range(6) for j in range(i)]], ids=["empty", "full"])
@pytest.mark.parametrize("method", ["bethe", "pseudo_likelihood"])
def test_a_runaway_is_told(edges: list[tuple[int, int]], method: str) -> None:
    scheme = graph_scheme("edge", "triangle")
    fit = fit_relational(
        scheme, network_from_edges(scheme, edges, vertices=range(6)), method=method, starts=2
    )
    assert not fit.converged
    assert "no stationary point" in fit.status
    assert np.isnan(fit.standard_errors).all()


def test_what_the_data_lack_is_named() -> None:
    fit = fit_relational(*florentine("edge", "quadruplet"), method="pseudo_likelihood", starts=1)
    assert fit.converged
    scheme = graph_scheme("edge", "triangle")
    fit = fit_relational(scheme, network_from_edges(scheme, [(0, 1), (1, 2), (2, 3)], vertices=range(8)))
    assert "with no triangle at all" in fit.status
    assert len(fit.ascents) == 2  # one from zero and one along the ridge


@pytest.mark.parametrize("method", ["monte_carlo", "contrastive_divergence"])
def test_data_without_triangles_are_at_an_edge(method: str) -> None:
    draw = np.random.default_rng(0).random((10, 10))
    edges = [(i, j) for i in range(5) for j in range(5, 10) if draw[i, j] < 0.25]
    scheme = graph_scheme("edge", "triangle")
    fit = fit_relational(
        scheme, network_from_edges(scheme, edges, vertices=range(10)), method=method, check=False
    )
    assert not fit.converged
    assert "at an edge" in fit.status
    assert "degenerate for these data" not in fit.status


@pytest.mark.parametrize("method", ["monte_carlo", "contrastive_divergence"])
def test_data_at_an_edge_in_a_combination_of_features_do_not_converge(method: str) -> None:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("exist", scheme.ordered(vertex, vertex))
    scheme.feature("arc", lambda a, b: arc[a, b])
    scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
    network = network_from_edges(scheme, [(0, 1), (1, 0)], vertices=range(12))  # no arc without its reverse
    fit = fit_relational(scheme, network, method=method, check=False)
    assert not fit.converged
    assert "at an edge" in fit.status


def test_a_large_sparse_network_has_its_maximum_from_any_start() -> None:
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, [(i, i + 1) for i in range(0, 900, 2)], vertices=range(1200))
    fit = fit_relational(scheme, network, method="pseudo_likelihood", check=False, starts=2)
    assert [ascent.converged for ascent in fit.ascents] == [True, True]
    assert fit.theta[0] == pytest.approx(logit(450 / (1200 * 1199 / 2)), abs=1e-4)


def test_a_ridge_keeps_it_from_running() -> None:
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, [], vertices=range(6))
    fit = fit_relational(scheme, network, ridge=1.0, tolerance=1e-8, starts=1)
    assert fit.converged
    # 15 expected edges fewer than none, against the prior's pull.
    assert 15 / (1 + math.exp(-fit.theta[0])) == pytest.approx(-fit.theta[0], abs=1e-4)


def test_fixed_weights_stay() -> None:
    scheme, network = florentine("edge", "triangle")
    fit = fit_relational(scheme, network, fixed={"edge": -1.5}, starts=1)
    assert fit.theta[0] == -1.5
    assert fit.standard_errors[0] == 0
    assert fit.standard_errors[1] > 0
    with pytest.raises(InputError, match="nothing to fit"):
        fit_relational(scheme, network, fixed={"edge": 0.0, "triangle": 0.0})
    with pytest.raises(InputError, match="triangle"):
        fit_relational(scheme, network, fixed={"star9": 0.0})


def test_weights_per_binding_are_smaller_by_the_symmetries() -> None:
    scheme, network = florentine("edge", "triangle")
    ground, binding = (
        fit_relational(scheme, network, weights=w, tolerance=1e-8, starts=1) for w in ("ground", "binding")
    )
    np.testing.assert_allclose(binding.theta * [2, 6], ground.theta, atol=1e-3)
    assert binding.log_likelihood == pytest.approx(ground.log_likelihood, abs=1e-6)


def test_no_networks_and_unknown_methods() -> None:
    scheme, network = florentine("edge")
    with pytest.raises(InputError, match="at least one network"):
        fit_relational(scheme, [])
    with pytest.raises(InputError, match="bethe"):
        fit_relational(scheme, network, method="guess")
    with pytest.raises(InputError, match="at least one network"):
        fit_relational(scheme, [])
    assert "per ground feature" in repr(fit_relational(scheme, dataclasses.replace(network), starts=1))


@pytest.mark.parametrize("method", ["monte_carlo", "contrastive_divergence"])
def test_learning_by_sampling(method: str) -> None:
    """Close to the published Monte Carlo estimate, within a few tenths of its standard errors."""
    scheme, network = florentine("edge", "triangle")
    fit = fit_relational(scheme, network, method=method)
    assert fit.converged
    np.testing.assert_array_less(np.abs(fit.theta - [-1.676, 0.155]), [0.1, 0.2])
    np.testing.assert_allclose(fit.standard_errors, [0.35, 0.59], rtol=0.2)
    assert math.isnan(fit.log_likelihood) == (method == "contrastive_divergence")


def test_sampling_tells_a_runaway_too() -> None:
    scheme = graph_scheme("edge")
    empty = network_from_edges(scheme, [], vertices=range(5))
    fit = fit_relational(scheme, empty, method="monte_carlo")
    assert not fit.converged
    assert "no stationary point" in fit.status


def test_the_exact_likelihood_is_climbed_for_small_networks() -> None:
    scheme = graph_scheme("edge", "triangle")
    network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)], vertices=range(7))
    exact, bethe = (fit_relational(scheme, network, method=m, starts=2) for m in ("exact", "bethe"))
    assert exact.converged
    np.testing.assert_allclose(exact.theta, bethe.theta, atol=0.2)
