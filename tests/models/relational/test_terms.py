"""Terms without template: counts against definitions, change statistics, samples and fits against enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from hiddenfield.errors import InputError, NoTemplateError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme, parse_scheme
from hiddenfield.models.relational import (
    Network,
    change_statistics,
    count_features,
    enumerate_networks,
    fit_relational,
    network_from_edges,
    sample_networks,
)

SIZE = 9
GENERATOR = np.random.default_rng(4)
WEALTH = {i: float(GENERATOR.normal()) for i in range(SIZE)}
APART = {(i, j): float(GENERATOR.normal()) for i in range(SIZE) for j in range(i)}


def all_terms() -> RelationalScheme:
    scheme = graph_scheme("edge", "triangle")
    scheme.term("gwdegree", decay=0.4)
    scheme.term("gwesp", decay=0.7)
    scheme.term("gwesp", decay=0.0, name="transitive_ties")
    scheme.term("nodecov", covariate="wealth")
    scheme.term("absdiff", covariate="wealth")
    scheme.term("edgecov", covariate="apart")
    return scheme


def make(scheme: RelationalScheme, matrix: np.ndarray) -> Network:
    edges = [tuple(row) for row in np.argwhere(np.triu(matrix)).tolist()]
    return network_from_edges(
        scheme, edges, vertices=range(SIZE), covariates={"wealth": WEALTH, "apart": APART}
    )


def some(density: float, seed: int) -> np.ndarray:
    matrix = np.triu(np.random.default_rng(seed).random((SIZE, SIZE)) < density, 1)
    return np.asarray(matrix | matrix.T)


def by_definition(matrix: np.ndarray) -> list[float]:
    """Sums over histograms of degrees and shared partners, as in Hunter (2007)."""

    def weighted(decay: float, counts: list[int]) -> float:
        ratio = 1 - math.exp(-decay)
        histogram = np.bincount(counts, minlength=1)
        return math.exp(decay) * sum((1 - ratio**k) * histogram[k] for k in range(1, len(histogram)))

    edges = [(i, j) for i, j in itertools.combinations(range(SIZE), 2) if matrix[i, j]]
    partners = [int((matrix[i] & matrix[j]).sum()) for i, j in edges]
    degrees = matrix.sum(1).tolist()
    return [
        len(edges),
        sum(partners) / 3,
        weighted(0.4, degrees),
        weighted(0.7, partners),
        sum(p > 0 for p in partners),
        sum(WEALTH[i] + WEALTH[j] for i, j in edges),
        sum(abs(WEALTH[i] - WEALTH[j]) for i, j in edges),
        sum(APART[j, i] for i, j in edges),
    ]


@pytest.mark.parametrize("density", [0.0, 0.2, 0.6, 1.0])
def test_counts_are_those_of_the_definition(density: float) -> None:
    matrix, scheme = some(density, 1), all_terms()
    np.testing.assert_allclose(count_features(scheme, make(scheme, matrix)), by_definition(matrix), atol=1e-9)


@pytest.mark.parametrize("density", [0.2, 0.6])
def test_change_statistics_are_differences_of_counts(density: float) -> None:
    matrix, scheme = some(density, 2), all_terms()
    pairs = np.stack(np.triu_indices(SIZE, 1), 1)
    for (i, j), change in zip(pairs, change_statistics(scheme, make(scheme, matrix), pairs), strict=True):
        counts = []
        for value in (False, True):
            other = matrix.copy()
            other[i, j] = other[j, i] = value
            counts.append(by_definition(other))
        np.testing.assert_allclose(change, np.subtract(counts[1], counts[0]), atol=1e-9)


@pytest.mark.parametrize("start", ["empty", "full"])
def test_samples_keep_their_counts(start: str) -> None:
    scheme = all_terms()
    theta = [-1.0, 0.05, 0.3, 0.2, 0.1, 0.1, -0.2, 0.3]
    drawn = sample_networks(
        scheme,
        SIZE,
        theta,
        samples=10,
        chains=2,
        burn_in=0,
        thin=0.4,
        start=start,
        network=make(scheme, some(0.3, 3)),
        keep_networks=True,
    )
    assert drawn.networks is not None
    for chain, sample in itertools.product(range(2), range(10)):
        expected = by_definition(drawn.networks[chain, sample])
        np.testing.assert_allclose(drawn.statistics[chain, sample], expected, atol=1e-9)


def weighted_scheme() -> RelationalScheme:
    scheme = graph_scheme("edge")
    scheme.term("gwdegree", decay=0.4)
    scheme.term("gwesp", decay=0.7)
    return scheme


def test_means_are_exact() -> None:
    scheme, theta, chains = weighted_scheme(), [-1.0, 0.3, 0.4], 24
    exact = enumerate_networks(scheme, 6)
    every = enumerate_networks(scheme, 6, method="all")
    np.testing.assert_allclose(exact.log_partition(theta), every.log_partition(theta))
    means = sample_networks(scheme, 6, theta, samples=4000, chains=chains, seed=2).statistics.mean(1)
    error = means.std(0, ddof=1) / math.sqrt(chains)
    assert (np.abs(means.mean(0) - exact.expectations(theta)[0]) < 4.5 * error).all()


def test_monte_carlo_finds_the_exact_maximum() -> None:
    scheme = weighted_scheme()
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6), (3, 4), (0, 6)]
    network = network_from_edges(scheme, edges, vertices=range(8))
    exact = fit_relational(scheme, network, method="exact", starts=2)
    sampled = fit_relational(scheme, network, method="monte_carlo")
    assert exact.converged
    assert sampled.converged, sampled.status
    assert (np.abs(sampled.theta - exact.theta) < 0.3 * exact.standard_errors).all()
    np.testing.assert_allclose(sampled.standard_errors, exact.standard_errors, rtol=0.25)


@pytest.mark.parametrize(
    "ask",
    [
        lambda scheme, _: scheme.template(9, dict.fromkeys(scheme.features, 0.0)),
        lambda scheme, _: scheme.ground(9, dict.fromkeys(scheme.features, 0.0)),
        lambda scheme, network: fit_relational(scheme, network, method="bethe"),
    ],
    ids=["template", "ground", "bethe"],
)
def test_templates_refuse_terms(ask: Callable[[RelationalScheme, Network], object]) -> None:
    scheme = weighted_scheme()
    network = network_from_edges(scheme, [(0, 1), (1, 2)], vertices=range(9))
    with pytest.raises(NoTemplateError, match=r"gwdegree.*pseudo_likelihood or monte_carlo"):
        ask(scheme, network)


def test_terms_are_checked() -> None:
    scheme = graph_scheme("edge")
    with pytest.raises(InputError, match="give its decay"):
        scheme.term("gwesp")
    with pytest.raises(InputError, match="at least 0"):
        scheme.term("gwesp", decay=-1)
    with pytest.raises(InputError, match="gwesp"):
        scheme.term("gwes", decay=1)
    with pytest.raises(InputError, match="covariate"):
        scheme.term("nodecov")
    scheme.term("nodecov", covariate="wealth")
    network = network_from_edges(scheme, [(0, 1)], vertices=range(4))
    with pytest.raises(InputError, match="which the network does not have"):
        count_features(scheme, network)
    with pytest.raises(InputError, match="no number for the vertex 3"):
        network_from_edges(scheme, [(0, 1)], vertices=range(4), covariates={"wealth": {0: 1, 1: 2, 2: 0}})
    with pytest.raises(InputError, match="no term"):
        network_from_edges(scheme, [(0, 1)], vertices=range(2), covariates={"age": {0: 1, 1: 2}})


def test_terms_in_files() -> None:
    scheme = parse_scheme(
        """
        types = ["vertex"]
        [[attributes]]
        name = "exist"
        of = ["vertex", "vertex"]
        [[features]]
        library = "edge"
        [[features]]
        term = "gwesp"
        decay = 0.25
        [[features]]
        term = "nodecov"
        covariate = "wealth"
        name = "wealth"
        """
    )
    assert list(scheme.features) == ["edge", "gwesp", "wealth"]
    assert scheme.features["gwesp"].term is not None
    assert scheme.features["gwesp"].term.decay == 0.25


def test_directed_and_attributed_networks_are_sampled() -> None:
    """Means of a directed model with an attribute of vertices, against all networks of three vertices."""
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    tie = scheme.attribute("tie", scheme.ordered(vertex, vertex))
    group = scheme.attribute("group", vertex, 2)
    scheme.feature("arc", lambda a, b: tie[a, b])
    scheme.feature("mutual", lambda a, b: tie[a, b] & tie[b, a])
    scheme.feature("match", lambda a, b: tie[a, b] & (group[a] == group[b]))
    scheme.feature("path", lambda a, b, c: tie[a, b] & tie[b, c] & (group[a] == 1))
    scheme.term("absdiff", covariate="age")
    theta = np.array([-0.5, 0.8, 0.4, 0.2, -0.1])
    given = {"values": {"group": {0: 0, 1: 1, 2: 1}}, "covariates": {"age": {0: 1.0, 1: 3.0, 2: 4.5}}}
    pairs = list(itertools.permutations(range(3), 2))
    counts = []
    for states in itertools.product((0, 1), repeat=6):
        edges = [pair for pair, state in zip(pairs, states, strict=True) if state]
        counts.append(count_features(scheme, network_from_edges(scheme, edges, vertices=range(3), **given)))
    rows = np.array(counts)
    probability = np.exp(rows @ theta - (rows @ theta).max())
    expected = probability @ rows / probability.sum()
    network = network_from_edges(scheme, [(0, 1)], vertices=range(3), **given)
    drawn = sample_networks(
        scheme, 3, theta, samples=4000, chains=24, network=network, keep_networks=True, seed=1
    )
    means = drawn.statistics.mean(1)
    assert (np.abs(means.mean(0) - expected) < 4.5 * means.std(0, ddof=1) / math.sqrt(24)).all()
    assert drawn.networks is not None
    edges = [tuple(row) for row in np.argwhere(drawn.networks[0, 5]).tolist()]
    again = network_from_edges(scheme, edges, vertices=range(3), **given)
    np.testing.assert_allclose(drawn.statistics[0, 5], count_features(scheme, again))
    with pytest.raises(InputError, match="'group' of vertices"):
        sample_networks(scheme, 3, theta)
