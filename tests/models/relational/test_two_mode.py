"""Two-mode networks: counts, samples and fits against all networks of a few persons and events."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import networkx
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from hiddenfield.errors import InputError
from hiddenfield.estimators import RelationalModel
from hiddenfield.fields.relational import (
    TWO_MODE,
    RelationalScheme,
    graph_scheme,
    ground_variables,
    parse_scheme,
    two_mode_scheme,
)
from hiddenfield.models.relational import (
    Network,
    change_statistics,
    count_features,
    fit_relational,
    goodness_of_fit,
    network_from_edges,
    predict_pairs,
    read_network,
    sample_networks,
)

SIZES = {"person": 4, "event": 3}
OLD = np.array([1, 0, 0, 1])
WEALTH = np.array([0.5, -1.0, 2.0, 0.3])


def attend(*features: str) -> RelationalScheme:
    return two_mode_scheme(*features, first="person", second="event")


def rich_scheme() -> RelationalScheme:
    """Ready features, an attribute of persons, a feature of the user's own, and terms."""
    scheme = attend(*TWO_MODE)
    exist = scheme.attributes["exist"]
    old = scheme.attribute("old", scheme.types["person"])
    scheme.feature("of_old", lambda a, b: exist[a, b] & old[a])
    scheme.term("gwb1degree", decay=0.5)
    scheme.term("gwb2degree", decay=1.2)
    scheme.term("nodecov", covariate="wealth")
    return scheme


def path_scheme() -> RelationalScheme:
    """A feature that is not counted on bits."""
    scheme = attend("edge")
    exist = scheme.attributes["exist"]
    scheme.feature("path", lambda a, b, c, d: exist[a, c] & exist[b, c] & exist[b, d] & ~exist[a, d])
    return scheme


def count(name: str, x: np.ndarray) -> float:
    """Count a feature from the matrix of persons by events."""
    first, second = x.sum(1), x.sum(0)
    shared = (x @ x.T)[np.triu_indices(len(x), 1)]
    if name == "path":
        rows = itertools.permutations(range(x.shape[0]), 2)
        places = itertools.product(rows, itertools.permutations(range(x.shape[1]), 2))
        return float(sum(x[a, c] * x[b, c] * x[b, d] * (1 - x[a, d]) for (a, b), (c, d) in places))
    weigh = {"gwb1degree": (0.5, first), "gwb2degree": (1.2, second)}
    if name in weigh:
        decay, degrees = weigh[name]
        return float(math.exp(decay) * (1 - (1 - math.exp(-decay)) ** degrees).sum())
    return float(
        {
            "edge": x.sum(),
            "b1star2": (first * (first - 1) / 2).sum(),
            "b2star2": (second * (second - 1) / 2).sum(),
            "b1star3": (first * (first - 1) * (first - 2) / 6).sum(),
            "b2star3": (second * (second - 1) * (second - 2) / 6).sum(),
            "quadruplet": (shared * (shared - 1) / 2).sum(),
            "of_old": x[OLD == 1].sum(),
            "nodecov_wealth": (x * WEALTH[:, None]).sum(),
        }[name]
    )


def all_networks(scheme: RelationalScheme) -> np.ndarray:
    """Return the features of all networks of four persons and three events."""
    every = np.array(list(itertools.product((0, 1), repeat=12))).reshape(-1, 4, 3)
    return np.array([[count(name, x) for name in scheme.features] for x in every])


def network_of(x: np.ndarray) -> Network:
    return Network(
        dict(SIZES),
        {"exist": np.argwhere(x)},
        {"old": OLD},
        covariates={"wealth": np.append(WEALTH, [0.0] * 3)},
    )


def drawn_matrix(seed: int, share: float = 0.5) -> np.ndarray:
    return (np.random.default_rng(seed).random((4, 3)) < share).astype(int)


@pytest.mark.parametrize("scheme", [rich_scheme(), path_scheme()], ids=["rich", "path"])
@pytest.mark.parametrize("seed", range(5))
def test_counts_and_changes(scheme: RelationalScheme, seed: int) -> None:
    x = drawn_matrix(seed)
    network = network_of(x)
    np.testing.assert_allclose(
        count_features(scheme, network), [count(name, x) for name in scheme.features], atol=1e-9
    )
    pairs = ground_variables(scheme, SIZES)["exist"]
    for (i, j), row in zip(pairs, change_statistics(scheme, network, pairs), strict=True):
        with_edge, without = x.copy(), x.copy()
        with_edge[i, j], without[i, j] = 1, 0
        gain = [count(name, with_edge) - count(name, without) for name in scheme.features]
        np.testing.assert_allclose(row, gain, atol=1e-9)


@pytest.mark.parametrize("scheme", [rich_scheme(), path_scheme()], ids=["rich", "path"])
def test_samples_are_of_the_model(scheme: RelationalScheme) -> None:
    theta = np.linspace(-0.4, 0.2, len(scheme.features))
    chains, given = 24, network_of(drawn_matrix(1))
    drawn = sample_networks(
        scheme, SIZES, theta, samples=2000, chains=chains, burn_in=30, network=given, keep_networks=True
    )
    assert drawn.networks is not None
    assert drawn.networks.shape == (chains, 2000, 4, 3)
    for x, row in zip(drawn.networks[0, :10].astype(int), drawn.statistics[0], strict=False):
        np.testing.assert_allclose(row, [count(name, x) for name in scheme.features], atol=1e-9)
    rows = all_networks(scheme)
    probability = np.exp(rows @ theta - logsumexp(rows @ theta))
    means = drawn.statistics.mean(1)
    error = means.std(0, ddof=1) / math.sqrt(chains)
    assert (np.abs(means.mean(0) - probability @ rows) < 4.5 * error + 1e-9).all()
    assert drawn.num_pairs == 12
    assert "4 person and 3 event" in repr(drawn)


def test_some_pairs_are_fixed() -> None:
    x = drawn_matrix(2)
    fixed = np.zeros((4, 3), dtype=bool)
    fixed[:2] = True
    drawn = sample_networks(
        attend("edge", "b2star2"), SIZES, [0.2, 0.1], samples=50, network=x, fixed=fixed, keep_networks=True
    )
    assert drawn.networks is not None
    assert (drawn.networks[0][:, :2] == x[:2]).all()
    assert drawn.networks[0][:, 2:].std(0).min() > 0


def maximum(scheme: RelationalScheme, observed: np.ndarray) -> np.ndarray:
    """Return the weights that maximise the likelihood, from all networks."""
    rows = all_networks(scheme)
    found = minimize(lambda theta: logsumexp(rows @ theta) - theta @ observed, np.zeros(rows.shape[1]))
    return np.asarray(found.x)


def test_fits_are_maxima() -> None:
    scheme = attend("edge", "b1star2")
    x = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    network, best = network_of(x), maximum(scheme, np.array([6.0, 4.0]))
    sampled = fit_relational(scheme, network, method="monte_carlo", check=False)
    assert sampled.converged
    assert (np.abs(sampled.theta - best) < 0.3 * sampled.standard_errors).all()
    for method in ("bethe", "contrastive_divergence", "pseudo_likelihood"):
        fit = fit_relational(scheme, network, method=method, starts=1, check=False)
        assert fit.converged, fit.status
        assert (np.abs(fit.theta - best) < 1.5 * sampled.standard_errors).all()
    pairs = ground_variables(scheme, SIZES)["exist"]
    change = change_statistics(scheme, network, pairs)
    np.testing.assert_allclose((x.reshape(-1) - expit(change @ fit.theta)) @ change, 0, atol=1e-3)


def test_independent_pairs_are_exact_given_attributes() -> None:
    """The template has a variable for each class of persons; its fit is that of a logistic regression."""
    scheme = attend("edge")
    exist, old = scheme.attributes["exist"], scheme.attribute("old", scheme.types["person"])
    scheme.feature("of_old", lambda a, b: exist[a, b] & old[a])
    x = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    fit = fit_relational(scheme, network_of(x), starts=1)
    share = [x[value == OLD].mean() for value in (0, 1)]
    odds = [math.log(p / (1 - p)) for p in share]
    assert fit.theta == pytest.approx([odds[0], odds[1] - odds[0]], abs=1e-4)
    near = fit_relational(scheme, network_of(x), method="bethe_observed", starts=1)
    assert near.theta == pytest.approx(fit.theta, abs=1e-4)


def test_pseudo_likelihood_is_checked_against_what_was_observed() -> None:
    """The check by simulation compares counts with counts: a two-star is one, not one for each of its edges."""
    graph = networkx.davis_southern_women_graph()
    model = RelationalModel(("edge", "b1star2"), method="pseudo_likelihood").fit(graph)
    assert model.converged_
    assert model.fit_.check is not None
    assert model.fit_.check.agrees


def test_the_estimator_takes_networkx_graphs() -> None:
    """The Southern women of Davis: 18 women at 14 events."""
    graph = networkx.davis_southern_women_graph()
    scheme = two_mode_scheme("edge", first="woman", second="event")
    model = RelationalModel(scheme).fit(graph)
    assert model.sizes_ == {"woman": 18, "event": 14}
    assert model.theta_ == pytest.approx([math.log(89 / (252 - 89))], abs=1e-4)
    assert model.fit_.check is not None
    drawn = model.sample(2)
    assert drawn[0].names == model._network.names
    assert model.sample(1, size={"woman": 5, "event": 2})[0].shape == (5, 2)
    found = model.goodness_of_fit(n=20)
    names = ["woman_degree", "woman_shared_partners", "event_degree", "event_shared_partners", "distance"]
    assert list(found) == names
    degrees = [graph.degree(node) for node, side in graph.nodes(data="bipartite") if side == 1]
    width = len(found["event_degree"].labels)
    np.testing.assert_array_equal(
        found["event_degree"].observed, np.bincount(degrees, minlength=width)[:width]
    )
    assert found["distance"].observed.sum() == math.comb(32, 2)
    del graph.nodes["E1"]["bipartite"]
    with pytest.raises(InputError, match="'E1' has None"):
        RelationalModel(scheme).fit(graph)


def test_goodness_given_attributes() -> None:
    found = goodness_of_fit(rich_scheme(), network_of(drawn_matrix(3)), np.zeros(10), networks=5)
    assert found["person_degree"].observed.sum() == 4


def test_unknown_pairs_are_predicted() -> None:
    scheme = attend("edge", "b1star2")
    network = network_from_edges(
        scheme, [("a", "x"), ("b", "y")], unknown=[("a", "y")], vertices={"person": "abc", "event": "xyz"}
    )
    assert repr(network) == "Network(3 person, 3 event; exist: 2 of 9, 1 unknown)"
    found = predict_pairs(scheme, network, [-1.0, 0.4])
    assert found.probability == pytest.approx([expit(-1.0 + 0.4)], abs=1e-6)


def test_names_may_be_the_same_in_both_types() -> None:
    network = network_from_edges(attend("edge"), [(1, 1), (1, 2), (2, 1)])
    assert network.sizes == {"person": 2, "event": 2}
    assert network.adjacency().tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([("x", "a")], {"vertices": {"person": ["a"], "event": ["x"]}}, "the person comes first"),
        ([("a", "x")], {"vertices": ["a", "x"]}, "given by type"),
        ([("a", "x")], {"vertices": {"place": []}}, "unknown type 'place'"),
        ([("a", "x"), ("a", "x")], {}, "is there already as edge 0"),
        ([("a", "x")], {"vertices": {"person": ["a", "a"]}}, "the person 'a' is listed twice"),
    ],
)
def test_bad_networks(edges: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        network_from_edges(attend("edge"), edges, **options)


def test_what_is_for_other_networks() -> None:
    scheme = attend("edge")
    scheme.term("gwdegree", decay=0.5)
    with pytest.raises(InputError, match="use gwb1degree or gwb2degree"):
        fit_relational(scheme, network_of(drawn_matrix(0)), method="pseudo_likelihood")
    other = graph_scheme("edge")
    other.term("gwb1degree", decay=0.5)
    with pytest.raises(InputError, match="use gwdegree"):
        sample_networks(other, 5, [0.0, 0.0])
    network = dataclasses.replace(network_of(drawn_matrix(0)), sizes={"event": 3, "person": 4})
    with pytest.raises(InputError, match="in the order of its pairs, person and event"):
        fit_relational(attend("edge"), network)
    with pytest.raises(InputError, match="4 person rows and 3 event columns"):
        sample_networks(attend("edge"), SIZES, [0.0], start=np.zeros((3, 4)))
    with pytest.raises(InputError, match="how many entities of each type"):
        sample_networks(attend("edge"), 5, [0.0])


def test_files(tmp_path: Any) -> None:
    scheme = parse_scheme("""
types = ["person", "event"]
[[attributes]]
name = "exist"
of = ["person", "event"]
[[attributes]]
name = "old"
of = "person"
[[features]]
library = "edge"
[[features]]
library = "b1star2"
[[features]]
term = "nodecov"
covariate = "wealth"
""")
    edges, vertices = tmp_path / "edges.csv", tmp_path / "vertices.csv"
    edges.write_text("person,event\na,x\nb,x\nb,y\n")
    assert read_network(scheme, edges).sizes == {"person": 2, "event": 2}
    padded = read_network(scheme, edges, size={"event": 4})
    assert padded.sizes == {"person": 2, "event": 4}
    assert padded.names["event"][2:] == ("isolated event 1", "isolated event 2")
    vertices.write_text(
        "name,type,old,wealth\na,person,1,2\nb,person,0,3\nc,person,0,4\nx,event,,\ny,event,,\n"
    )
    network = read_network(scheme, edges, vertices)
    assert network.values["old"].tolist() == [1, 0, 0]
    assert count_features(scheme, network).tolist() == [3, 1, 8]
    edges.write_text("x,a\n")
    with pytest.raises(InputError, match=r"line 1: the person 'x' is not one in"):
        read_network(scheme, edges, vertices)
    vertices.write_text("name,old\na,1\n")
    with pytest.raises(InputError, match="a column 'type' that says which are person and which are event"):
        read_network(scheme, edges, vertices)
