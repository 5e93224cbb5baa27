"""Landscapes."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.models.relational import (
    BetheLikelihood,
    ExactLikelihood,
    fit_relational,
    landscape,
    network_from_edges,
)

SCHEME = graph_scheme("edge", "triangle")
FLORENCE = network_from_edges(SCHEME, list(networkx.florentine_families_graph().edges))
CLIQUES = network_from_edges(
    SCHEME, [e for c in range(15) for e in networkx.complete_graph(range(4 * c, 4 * c + 4)).edges]
)


def test_points_are_the_likelihood() -> None:
    found = landscape(SCHEME, FLORENCE, ("triangle", -1, 0.5), ("edge", -3, 0), points=4, runs=3)
    likelihood = BetheLikelihood(SCHEME, [FLORENCE])
    for row in (0, 3):
        for column in (0, 2):
            value, _ = likelihood(np.array([found.y[row], found.x[column]]))
            assert found.log_likelihood[row, column] == pytest.approx(value, rel=1e-6)
    assert found.names == ("triangle", "edge")
    assert found.best is not None
    fit = fit_relational(SCHEME, FLORENCE, starts=1)
    np.testing.assert_allclose(found.best.parameters, fit.theta[::-1], atol=1e-4)


def test_a_third_weight_is_held() -> None:
    scheme = graph_scheme("edge", "triangle", "star2")
    network = network_from_edges(scheme, list(networkx.florentine_families_graph().edges))
    axes = (("edge", -3, 0), ("triangle", -1, 1))
    with pytest.raises(InputError, match="at which weight to hold star2"):
        landscape(scheme, network, *axes, points=3, runs=0)
    found = landscape(scheme, network, *axes, fixed={"star2": 0.0}, points=3, runs=0)
    plain = landscape(SCHEME, FLORENCE, *axes, points=3, runs=0)
    np.testing.assert_allclose(found.log_likelihood, plain.log_likelihood, rtol=1e-6)
    assert found.fixed == {"star2": 0.0}


def test_methods_that_sample_have_none() -> None:
    with pytest.raises(InputError, match="has no landscape"):
        landscape(SCHEME, FLORENCE, ("edge", -3, 0), ("triangle", -1, 1), method="monte_carlo")


def test_cliques_have_no_maximum_but_a_ridge() -> None:
    """Many triangles in a sparse network: the complete phase takes over before the likelihood turns."""
    edge = -3.4
    fit = fit_relational(SCHEME, CLIQUES, fixed={"edge": edge}, starts=1)
    assert not fit.converged
    assert "no stationary point" in fit.status
    assert fit.phases == 2
    better = BetheLikelihood(SCHEME, [CLIQUES])
    left, here, right = (better(np.array([edge, fit.theta[1] + move]))[0] for move in (-0.01, 0.0, 0.01))
    assert here > left
    assert here > right


def test_the_phase_nearest_to_the_data() -> None:
    """Beyond the ridge the likelihood is that of the complete phase, unless the sparse one is asked for."""
    theta = np.array([-3.4, 0.5])
    best, observed = (BetheLikelihood(SCHEME, [CLIQUES], phase=phase) for phase in ("best", "observed"))
    assert observed(theta)[0] > best(theta)[0] + 1000
    assert observed.examine(theta[None])[2].tolist() == [2]
    below = np.array([-3.4, -0.1])
    assert observed(below)[0] == pytest.approx(best(below)[0])


def test_exact_and_bethe_agree_where_it_is_easy() -> None:
    network = network_from_edges(SCHEME, [(0, 1), (1, 2), (3, 4)], vertices=range(7))
    theta = np.array([[-1.0, 0.1], [-2.0, -0.5]])
    exact, gradient, _ = ExactLikelihood(SCHEME, [network]).examine(theta)
    bethe, slope, _ = BetheLikelihood(SCHEME, [network]).examine(theta)
    np.testing.assert_allclose(exact, bethe, atol=0.02)
    np.testing.assert_allclose(gradient, slope, atol=0.1)
    per_binding = ExactLikelihood(SCHEME, [network], weights="binding").examine(theta / [2, 6])
    np.testing.assert_allclose(per_binding[0], exact)
    np.testing.assert_allclose(per_binding[1], gradient * [2, 6])


def test_panels_of_their_own_are_labelled() -> None:
    """Two landscapes beside each other have axes of their own; panels that share one are labelled once."""
    from matplotlib.figure import Figure

    from hiddenfield.report.relational import paint_landscape

    scheme = graph_scheme("edge", "triangle")
    network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 3)], vertices=range(6))
    found = landscape(scheme, network, ("edge", -2.0, 0.0), ("triangle", -1.0, 0.0), points=3, runs=0)
    for shared, expected in ((False, [True, True]), (True, [True, False])):
        figure = Figure(layout="constrained")
        panels = figure.subplots(1, 2, sharey=shared)
        for panel in panels:
            paint_landscape(figure, found, axes=panel)
        assert [bool(panel.get_ylabel()) for panel in panels] == expected
