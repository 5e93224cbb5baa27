"""Goodness of fit against networkx, bridges against the exact likelihood, and directed fits."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest

from hiddenfield.errors import InputError
from hiddenfield.estimators import RelationalModel
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.models.relational import fit_relational, goodness_of_fit, network_from_edges
from hiddenfield.models.relational.likelihoods.exact import ExactLikelihood
from hiddenfield.models.relational.likelihoods.monte_carlo import bridge_log_likelihood


def test_histograms_are_those_of_networkx() -> None:
    graph = networkx.florentine_families_graph()
    graph.add_node("Pucci")
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, list(graph.edges), vertices=list(graph))
    found = goodness_of_fit(scheme, network, [-1.6], networks=40)
    degrees = networkx.degree_histogram(graph)
    np.testing.assert_array_equal(found["degree"].observed[: len(degrees)], degrees)
    shared = [len(list(networkx.common_neighbors(graph, *edge))) for edge in graph.edges]
    partners = np.bincount(shared)
    np.testing.assert_array_equal(found["shared_partners"].observed[: len(partners)], partners)
    distances = dict(networkx.all_pairs_shortest_path_length(graph))
    finite = [distances[a][b] for a in distances for b in distances[a] if a < b]
    by_label = dict(zip(found["distance"].labels, found["distance"].observed, strict=True))
    for distance, count in enumerate(np.bincount(finite)[1:], start=1):
        assert by_label[str(distance)] == count
    assert by_label["inf"] == math.comb(16, 2) - len(finite)
    for distribution in found.values():
        totals = distribution.sampled.sum(1)
        if distribution.name != "shared_partners":
            assert (totals == distribution.observed.sum()).all()
        assert ((distribution.p_values >= 0) & (distribution.p_values <= 1)).all()
        np.testing.assert_array_equal(distribution.interval, distribution.interval.round())
    with pytest.raises(InputError, match="at least one"):
        goodness_of_fit(scheme, network, [-1.6], networks=0)


def test_a_misfit_shows() -> None:
    """Cliques have more shared partners than independent edges."""
    scheme = graph_scheme("edge")
    edges = [(5 * c + i, 5 * c + j) for c in range(4) for i in range(5) for j in range(i)]
    found = goodness_of_fit(scheme, network_from_edges(scheme, edges), [math.log(40 / 150)])
    assert found["shared_partners"].p_values[3] < 0.05


def test_the_bridge_meets_the_exact_likelihood() -> None:
    scheme = graph_scheme("edge", "triangle")
    scheme.term("gwdegree", decay=0.5)
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6), (3, 4)]
    network = network_from_edges(scheme, edges, vertices=range(8))
    fit = fit_relational(scheme, network, method="monte_carlo")
    assert fit.converged, fit.status
    exact, _ = ExactLikelihood(scheme, [network])(fit.theta)
    assert 0 < fit.log_likelihood_error < 0.05
    assert abs(fit.log_likelihood - exact) < 5 * fit.log_likelihood_error + 1e-3
    assert fit.aic == pytest.approx(6 - 2 * fit.log_likelihood)
    assert fit.bic == pytest.approx(3 * math.log(28) - 2 * fit.log_likelihood)
    unchecked = fit_relational(scheme, network, method="monte_carlo", check=False)
    assert unchecked.theta.tolist() == fit.theta.tolist()
    assert math.isnan(unchecked.aic)


def directed_scheme() -> RelationalScheme:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    tie = scheme.attribute("tie", scheme.ordered(vertex, vertex))
    scheme.feature("arc", lambda a, b: tie[a, b])
    scheme.feature("mutual", lambda a, b: tie[a, b] & tie[b, a])
    return scheme


def test_the_bridge_says_where_it_does_not_hold() -> None:
    """A mean that falls steeply is integrated badly, and the error is as large as what is missed."""

    def draw(theta: np.ndarray, number: int) -> np.ndarray:
        mean = 1000 / (1 + 1e4 * theta**2)
        return mean + 0.01 * np.random.default_rng(number).normal(size=(4, 100, 1))

    value, error = bridge_log_likelihood(draw, np.array([3.0]), np.array([0.0]), 0.0, np.array([0.0]))
    exact = -1000 * math.atan(300) / 100
    assert abs(value - exact) > 1
    assert abs(value - exact) < 2 * error


def test_a_directed_fit_in_closed_form() -> None:
    """With arcs and mutual pairs dyads are independent: the maximum is known from the counts of dyads."""
    generator = np.random.default_rng(2)
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(12))
    for i in range(12):
        for j in range(i):
            kind = generator.choice(4, p=[0.5, 0.15, 0.15, 0.2])
            graph.add_edges_from([(i, j)] * (kind in (1, 3)) + [(j, i)] * (kind in (2, 3)))
    mutual = sum(graph.has_edge(j, i) for i, j in graph.edges) / 2
    single = graph.number_of_edges() - 2 * mutual
    none = 66 - mutual - single
    exact = [math.log(single / 2 / none), math.log(4 * mutual * none / single**2)]
    model = RelationalModel(directed_scheme(), method="monte_carlo")
    model.fit(graph)
    np.testing.assert_allclose(model.theta_, exact, atol=0.08)
    likelihood = mutual * math.log(mutual / 66) + single * math.log(single / 132) + none * math.log(none / 66)
    assert model.fit_.log_likelihood == pytest.approx(likelihood, abs=0.1)
    assert list(model.goodness_of_fit(n=20)) == ["out_degree", "in_degree", "shared_partners", "distance"]
    assert len(model.sample(3)) == 3


def test_an_estimator_with_terms() -> None:
    scheme = graph_scheme("edge")
    scheme.term("gwesp", decay=0.5)
    model = RelationalModel(scheme, method="monte_carlo").fit(networkx.florentine_families_graph())
    assert model.converged_
    assert model.sample(2, start="observed")[0].sizes == {"vertex": 15}


def test_terms_are_fitted_by_sampling_unless_told_otherwise() -> None:
    scheme = graph_scheme("edge")
    network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 0), (2, 3)], vertices=range(6))
    assert fit_relational(scheme, network, check=False).method == "bethe"
    scheme.term("gwesp", decay=0.2)
    assert fit_relational(scheme, network, check=False).method == "monte_carlo"
    assert RelationalModel(scheme).method == "auto"
