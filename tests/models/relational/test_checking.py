"""What a fit is worth: simulated networks beside the data, phases that are far from them, warnings."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from hiddenfield.fields.relational import choose_bindings, graph_scheme
from hiddenfield.models.relational import Network, enumerate_networks, fit_relational, network_from_edges
from hiddenfield.models.relational.checking import check_by_simulation
from hiddenfield.models.relational.likelihood import sum_counts
from hiddenfield.models.relational.sampling import sample_networks

STARS = graph_scheme("edge", "triangle", "star2")


def drawn(theta: list[float], count: int) -> list[Network]:
    """Return networks of seven vertices, far apart in a chain."""
    found = sample_networks(STARS, 7, theta, samples=count, thin=20, keep_networks=True, seed=1).networks
    assert found is not None
    return [Network({"vertex": 7}, {"exist": np.argwhere(np.triu(one))}) for one in found[0]]


@pytest.fixture(scope="module")
def sample() -> list[Network]:
    return drawn([0.2, 1.0, -0.5], 60)


def test_overlapping_features_are_clustered_and_near_the_exact_estimate(sample: list[Network]) -> None:
    """Stars and triangles as factors of their own get the sign of the triangles wrong, and say "converged"."""
    options = {"starts": 1, "check": False}
    exact = fit_relational(STARS, sample, method="exact", **options)
    ours = fit_relational(STARS, sample, **options)
    merged = fit_relational(STARS, sample, bindings="merged", **options)
    assert ours.bindings == "cluster"
    off, worse = (abs(fit.theta[1] - exact.theta[1]) / exact.standard_errors[1] for fit in (ours, merged))
    assert off < 0.7 < 2 < worse


def test_simulation_tells_a_wrong_answer_from_a_right_one(sample: list[Network]) -> None:
    exact = fit_relational(STARS, sample, method="exact", starts=1)
    merged = fit_relational(STARS, sample, bindings="merged", starts=1)
    assert exact.check is not None
    assert exact.check.agrees
    assert exact.warnings == ()
    assert exact.status == "converged"
    assert merged.check is not None
    assert not merged.check.agrees
    assert "simulated networks disagree with the data: " in merged.status
    assert merged.warnings == (str(merged.check),)


def test_steps_are_those_of_newtons_method(sample: list[Network]) -> None:
    """Against enumeration: the gap in expectations over the exact covariance, in standard errors."""
    theta = np.array([0.0, 0.5, -0.2])
    observed = sum_counts(STARS, sample, "ground")
    check = check_by_simulation(STARS, sample, theta, observed)
    assert check is not None
    table = enumerate_networks(STARS, 7)
    shift = 1e-5 * np.eye(3)
    gradient = [table.expectations(theta + row) - table.expectations(theta - row) for row in shift]
    covariance = len(sample) * np.concatenate(gradient) / 2e-5
    inverse = np.linalg.inv(covariance)
    gap = observed - len(sample) * table.expectations(theta)[0]
    exact = inverse @ gap / np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(check.steps, exact, atol=0.3 + 4 * check.noise.max(), rtol=0.1)


def test_the_only_phase_may_be_far_from_the_data() -> None:
    """Cliques: the pseudo-likelihood has a maximum, whose model is an almost complete network."""
    scheme = graph_scheme("edge", "triangle")
    graph = networkx.disjoint_union_all([networkx.complete_graph(6) for _ in range(8)])
    network = network_from_edges(scheme, [*graph.edges, (5, 6), (11, 12)], vertices=list(graph))
    fit = fit_relational(scheme, network, method="pseudo_likelihood", starts=1)
    assert any("phase of the fitted model is far from the data: edge" in text for text in fit.warnings)
    assert any("simulated networks disagree" in text for text in fit.warnings)
    assert np.isnan(fit.log_likelihood)
    assert fit.quantity == "log pseudo-likelihood"


def test_what_is_not_simulated() -> None:
    scheme = graph_scheme("edge")
    unknown = network_from_edges(scheme, [(0, 1)], vertices=range(4), unknown=[(2, 3)])
    assert check_by_simulation(scheme, [unknown], np.zeros(1), np.zeros(1)) is None
    colored = graph_scheme("edge", colors=2)
    assert check_by_simulation(colored, [unknown], np.zeros(2), np.zeros(2)) is None
    assert choose_bindings(scheme) == "merged"
