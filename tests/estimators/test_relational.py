"""RelationalModel: what it takes, what it fits, predicts and samples."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import networkx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import hiddenfield as hf
from hiddenfield.errors import ConvergenceWarning, InputError, TooLargeError
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.models.relational import Network, network_from_edges
from hiddenfield.models.relational.phases import find_phases

SCHEME = Path(__file__).resolve().parents[2] / "docs" / "examples" / "network.toml"


@pytest.fixture(scope="module")
def florentine() -> networkx.Graph:
    graph = networkx.florentine_families_graph()
    graph.add_node("Pucci")
    return graph


@pytest.fixture(scope="module")
def fitted(florentine: networkx.Graph) -> hf.RelationalModel:
    return hf.RelationalModel(("edge", "triangle"), starts=2).fit(florentine)


def test_fitted_attributes(fitted: hf.RelationalModel) -> None:
    assert fitted.feature_names_ == ("edge", "triangle")
    assert fitted.converged_
    np.testing.assert_allclose(fitted.theta_, [-1.676, 0.159], atol=2e-3)
    np.testing.assert_allclose(fitted.standard_errors_, [0.355, 0.604], atol=2e-3)
    assert [phase.stable for phase in fitted.phases_] == [True]
    assert fitted.phases_[0].expected_counts == pytest.approx({"edge": 20, "triangle": 3}, abs=1e-2)


@pytest.mark.parametrize("kind", ["network", "structures", "networkx", "list", "file"])
def test_everything_that_a_network_can_be(florentine: networkx.Graph, kind: str) -> None:
    scheme = graph_scheme("edge", "triangle")
    given = {
        "network": network_from_edges(scheme, list(florentine.edges), vertices=list(florentine)),
        "structures": hf.data.from_networkx([florentine]),
        "networkx": florentine,
        "list": [florentine, florentine],
        "file": florentine,
    }
    model = hf.RelationalModel(SCHEME if kind == "file" else scheme, starts=1).fit(given[kind])
    np.testing.assert_allclose(model.theta_, [-1.676, 0.159], atol=2e-3)
    assert model.score(given[kind]) == pytest.approx(-54.034, abs=1e-2)


def test_scores_are_per_network_and_exact_for_small_ones(florentine: networkx.Graph) -> None:
    small = florentine.subgraph(list(florentine)[:7])
    model = hf.RelationalModel(("edge",), method="exact").fit(small)
    pairs, edges = 21, small.number_of_edges()
    p = edges / pairs
    expected = edges * math.log(p) + (pairs - edges) * math.log(1 - p)
    assert model.score(small) == pytest.approx(expected, abs=1e-6)
    assert model.score([small, small]) == pytest.approx(expected, abs=1e-6)


def test_unknown_pairs_are_predicted() -> None:
    """The reference numbers of one edge observed among five vertices."""
    rest = [pair for pair in combinations(range(5), 2) if pair != (0, 1)]
    scheme = graph_scheme("edge", "triangle")
    model = hf.RelationalModel(scheme)
    model.scheme_, model.theta_ = scheme, np.array([-1.0, 0.5])
    found = model.predict_edges(network_from_edges(scheme, [(0, 1)], unknown=rest))
    touching = (found.pairs <= 1).any(1)
    np.testing.assert_allclose(found.probability[touching], 0.32974530, atol=1e-6)
    np.testing.assert_allclose(found.probability[~touching], 0.30597665, atol=1e-6)
    with pytest.raises(InputError, match="no unknown pairs"):
        model.predict_edges(network_from_edges(scheme, [(0, 1)]))


def test_a_pair_that_would_close_triangles_is_likelier(fitted: hf.RelationalModel) -> None:
    scheme = fitted.scheme_
    edges = [(0, 1), (1, 2), (0, 3), (3, 2)]
    found = fitted.predict_edges(
        network_from_edges(scheme, edges, vertices=range(6), unknown=[(0, 2), (4, 5)])
    )
    assert found.converged
    assert found.probability[0] > found.probability[1]


def test_samples_look_like_the_data(fitted: hf.RelationalModel) -> None:
    drawn = fitted.sample(400)
    assert len(drawn) == 400
    assert np.mean([len(network.pairs["exist"]) for network in drawn]) == pytest.approx(20, abs=1.5)
    assert fitted.sample(1, size=5)[0].sizes == {"vertex": 5}


def test_no_maximum_is_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="no stationary point"):
        model = hf.RelationalModel(("edge",), starts=1).fit(networkx.empty_graph(5))
    assert not model.converged_
    assert np.isnan(model.standard_errors_).all()


def test_parameters_and_mistakes(florentine: networkx.Graph) -> None:
    model = hf.RelationalModel(("edge",), ridge=0.5)
    assert clone(model).get_params()["ridge"] == 0.5
    with pytest.raises(NotFittedError):
        model.score(florentine)
    with pytest.raises(InputError, match="'method' parameter of RelationalModel"):
        hf.RelationalModel(method="guess").fit(florentine)
    with pytest.raises(InputError, match="networkx graphs"):
        hf.RelationalModel().fit(3)
    with pytest.raises(InputError, match="unordered pairs and the graph is directed"):
        hf.RelationalModel().fit(networkx.DiGraph([(0, 1)]))
    with pytest.raises(InputError, match="self-loop"):
        hf.RelationalModel().fit(networkx.Graph([(0, 0), (0, 1)]))
    with pytest.raises(InputError, match="there already"):
        hf.RelationalModel().fit(networkx.MultiGraph([(0, 1), (0, 1)]))


@pytest.mark.parametrize("size", [math.nan, 2.5, "7", True, 0, 10**30, None])
def test_sizes_are_whole_numbers(size: object) -> None:
    with pytest.raises(InputError, match="vertex"):
        graph_scheme("edge").template(size, [1.0])


@pytest.mark.parametrize("theta", ["ab", ["a", "b"], {"edge": "x", "triangle": 1.0}, [None, 1.0]])
def test_weights_are_numbers(theta: object) -> None:
    with pytest.raises(InputError, match="weights must be finite numbers"):
        graph_scheme("edge", "triangle").template(5, theta)


def test_domains_that_are_too_small_or_too_large(fitted: hf.RelationalModel) -> None:
    scheme = graph_scheme("edge", "triangle")
    with pytest.raises(InputError, match="one vertex has no pairs"):
        hf.RelationalModel().fit(networkx.empty_graph(1))
    with pytest.raises(InputError, match="too few"):
        find_phases(scheme, 1, np.array([1.0, 0.0]))
    (phase,) = find_phases(graph_scheme("triangle"), 2, np.array([0.5]))  # too few for the feature
    assert phase.expected_counts == {"triangle": 0.0}
    assert hf.infer(scheme.template(10**9, [-10.0, 0.5])).converged.all()
    with pytest.raises(InputError, match="too large to be held"):
        network_from_edges(scheme, [(0, 1)], vertices=range(10**9))
    with pytest.raises(TooLargeError, match="too large to be held"):
        fitted.sample(1, size=10**9)
    with pytest.raises(InputError, match="whole number"):
        fitted.sample(1, size=math.nan)
    path = networkx.path_graph(20_000)
    with pytest.raises(InputError, match="looks at every pair"):
        hf.RelationalModel(("edge",), method="pseudo_likelihood").fit(path)


def test_networks_of_another_scheme() -> None:
    with pytest.raises(InputError, match="network is directed"):
        hf.RelationalModel().fit(Network({"vertex": 3}, {"exist": np.array([[0, 1], [1, 0]])}))
    with pytest.raises(InputError, match="names vertex 7"):
        hf.RelationalModel().fit(Network({"vertex": 3}, {"exist": np.array([[0, 7]])}))
    with pytest.raises(InputError, match="a fixed weight is a finite number"):
        hf.RelationalModel(fixed={"edge": "x"}).fit(networkx.path_graph(4))
