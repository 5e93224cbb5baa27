"""Templates given attributes of vertices: belief propagation on the ground field with that evidence, and learning."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, entity_classes, graph_scheme
from hiddenfield.inference import infer
from hiddenfield.models.relational import (
    BetheLikelihood,
    PseudoLikelihood,
    fit_relational,
    network_from_edges,
)
from hiddenfield.models.relational.observations import evidence_of

COLORS = [0, 0, 1, 1, 1, 2]


def directed() -> RelationalScheme:
    """Return a scheme of arcs with reciprocity and homophily."""
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("arc", scheme.ordered(vertex, vertex))
    color = scheme.attribute("color", vertex, 3)
    scheme.feature("arcs", lambda a, b: arc[a, b])
    scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
    scheme.feature("alike", lambda a, b: arc[a, b] & (color[a] == color[b]))
    scheme.feature("cycle", lambda a, b, c: arc[a, b] & arc[b, c] & arc[c, a])
    return scheme


@pytest.mark.parametrize("bindings", ["merged", "ordered", "cluster"])
@pytest.mark.parametrize(
    "scheme", [graph_scheme("edge", "star2", "triangle", colors=3), directed()], ids=["stars", "arcs"]
)
def test_the_template_is_the_ground_field_with_evidence(scheme: RelationalScheme, bindings: str) -> None:
    theta = np.random.default_rng(0).normal(scale=0.2, size=len(scheme.features))
    size = len(COLORS)
    classes = entity_classes(scheme, {"vertex": size}, {"color": np.array(COLORS)})
    small = scheme.template(size, theta, bindings=bindings, given=classes)
    unordered = "exist" in scheme.attributes
    pairs = [(i, j) for i in range(size) for j in range(size) if i < j or (i != j and not unordered)]
    network = network_from_edges(
        scheme, [], vertices=range(size), values={"color": dict(enumerate(COLORS))}, unknown=pairs
    )
    large = scheme.ground(size, theta, bindings=bindings).given(evidence_of(scheme, network))
    found = [infer(field, "loopy_bp", tolerance=1e-10, damping=0.3) for field in (small, large)]
    torch.testing.assert_close(found[0].log_partition, found[1].log_partition, atol=1e-7, rtol=0)
    assert small.num_variables < large.num_variables


@pytest.fixture(scope="module")
def homophily() -> networkx.Graph:
    """Thirty-six vertices of two colors that prefer their own."""
    generator = np.random.default_rng(0)
    colors = generator.integers(0, 2, 36)
    graph = networkx.Graph()
    graph.add_nodes_from((i, {"color": int(colors[i])}) for i in range(36))
    for i in range(36):
        for j in range(i):
            if generator.random() < (0.3 if colors[i] == colors[j] else 0.1):
                graph.add_edge(i, j)
    return graph


def test_pairs_that_are_independent_given_the_colors_are_exact(homophily: networkx.Graph) -> None:
    """Then the likelihood is the pseudo-likelihood, a logistic regression."""
    scheme = graph_scheme("edge", colors=2)
    ours = hf.RelationalModel(scheme, starts=1).fit(homophily)
    other = hf.RelationalModel(scheme, starts=1, method="pseudo_likelihood").fit(homophily)
    assert ours.converged_
    np.testing.assert_allclose(ours.theta_, other.theta_, atol=1e-3)
    np.testing.assert_allclose(ours.standard_errors_, other.standard_errors_, rtol=1e-3)
    assert ours.score(homophily) == pytest.approx(other.fit_.objective, abs=1e-6)


@pytest.mark.parametrize("method", ["bethe", "bethe_observed"])
def test_homophily_is_learned_with_triangles(homophily: networkx.Graph, method: str) -> None:
    scheme = graph_scheme("edge", "triangle", colors=2)
    model = hf.RelationalModel(scheme, starts=1, method=method).fit(homophily)
    assert model.converged_
    assert model.theta_[2] == pytest.approx(1.35, abs=0.2)
    phase = model.phases_[0]
    assert set(phase.marginals) == {f"exist[color={i}, color={j}]" for i, j in ((0, 0), (0, 1), (1, 1))}
    assert phase.expected_counts["edge"] == pytest.approx(homophily.number_of_edges(), abs=0.1)


def test_colors_that_are_not_all_known() -> None:
    """With pairs that are independent given the colors, log Z is a sum over the unknown color."""
    scheme = graph_scheme("edge", colors=2)
    network = network_from_edges(
        scheme, [(0, 1), (1, 2)], vertices=range(4), values={"color": {0: 0, 1: 0, 2: 1}}
    )
    theta = np.array([-0.5, 0.7])

    def log_terms(last: int) -> tuple[float, float]:
        whole = network_from_edges(
            scheme, [(0, 1), (1, 2)], vertices=range(4), values={"color": dict(enumerate([0, 0, 1, last]))}
        )
        likelihood = PseudoLikelihood(scheme, [whole])
        log_partition = theta @ likelihood.observed - likelihood(theta)[0]
        return float(theta @ likelihood.observed), float(log_partition)

    joint, every = np.array([log_terms(0), log_terms(1)]).T
    exact = np.logaddexp(*joint) - np.logaddexp(*every)
    assert BetheLikelihood(scheme, [network])(theta)[0] == pytest.approx(exact, abs=0.02)


def test_attributes_are_modelled_too_on_request() -> None:
    scheme = graph_scheme("edge", colors=2)
    color = scheme.attributes["color"]
    scheme.feature("first", lambda a: color[a] == 1)
    network = network_from_edges(
        scheme, [(0, 1), (2, 3)], vertices=range(6), values={"color": dict(enumerate([0, 0, 1, 1, 1, 1]))}
    )
    with pytest.raises(InputError, match="'first' looks at attributes of single entities only"):
        fit_relational(scheme, network)
    fit = fit_relational(scheme, network, condition=False, fixed={"edge": -1.0, "co_color": 0.0}, starts=1)
    assert fit.theta[2] == pytest.approx(np.log(4 / 2), abs=1e-3)
