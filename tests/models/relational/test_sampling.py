"""Samples of networks: their statistics against recounts and against exact enumeration."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.limits import OutOfTimeError, time_limit
from hiddenfield.models.relational import Network, enumerate_networks, sample_networks, sampling
from hiddenfield.models.relational.counts import count_features
from hiddenfield.models.relational.sampling import as_drawn
from hiddenfield.models.relational.sampling_basis import sampling_basis
from hiddenfield.models.relational.sampling_loops import Schedule

LIBRARY = ("edge", "open_chain", "triangle", "star2", "star3", "quadruplet")


def path_scheme() -> RelationalScheme:
    """A scheme with a feature that is not ready."""
    scheme = graph_scheme("edge")
    exist = scheme.attributes["exist"]
    scheme.feature("path", lambda a, b, c, d: exist[a, b] & exist[b, c] & exist[c, d] & ~exist[a, d])
    return scheme


def recount(scheme: RelationalScheme, network: np.ndarray) -> list[float]:
    """Count each feature by its ground field: a weight of one gives the count as the log value."""
    size = len(network)
    state = torch.from_numpy(network[np.triu_indices(size, 1)].astype(np.int64))
    unit = np.eye(len(scheme.features))
    return [scheme.ground(size, row).log_value(state).item() for row in unit]


def wedge_scheme() -> RelationalScheme:
    """A scheme with features that are combinations of ready ones, with a constant."""
    scheme = graph_scheme("edge")
    exist = scheme.attributes["exist"]
    scheme.feature("half", lambda a, b, c: exist[a, b] & ~exist[b, c])
    scheme.feature("empty", lambda a, b, c: ~exist[a, b] & ~exist[b, c] & ~exist[a, c])
    return scheme


@pytest.mark.parametrize(
    "scheme", [graph_scheme(*LIBRARY), wedge_scheme(), path_scheme()], ids=["ready", "combined", "any"]
)
@pytest.mark.parametrize("start", ["empty", "full"])
def test_statistics_are_those_of_the_networks(scheme: RelationalScheme, start: str) -> None:
    theta = np.linspace(-0.5, 0.02, len(scheme.features))
    drawn = sample_networks(
        scheme, 9, theta, samples=6, chains=2, burn_in=0, thin=0.3, start=start, keep_networks=True, seed=3
    )
    assert drawn.networks is not None
    for chain, sample in itertools.product(range(2), range(6)):
        network = drawn.networks[chain, sample]
        assert (network == network.T).all()
        assert not network.diagonal().any()
        np.testing.assert_allclose(drawn.statistics[chain, sample], recount(scheme, network), atol=1e-9)
        assert drawn.edges[chain, sample] == network.sum() / 2
    assert (drawn.last == drawn.networks[:, -1]).all()


@pytest.mark.parametrize(
    ("scheme", "theta"),
    [
        (graph_scheme("edge", "triangle"), [-1.0, 0.5]),
        (graph_scheme("triangle", "open_chain"), [0.4, -0.3]),
        (graph_scheme(*LIBRARY), [-0.6, 0.1, 0.2, -0.1, 0.05, 0.1]),
        (wedge_scheme(), [-0.3, 0.1, -0.2]),
        (path_scheme(), [-0.5, 0.15]),
    ],
    ids=["edge-triangle", "triangle-chain", "all", "combined", "any"],
)
@pytest.mark.parametrize("size", [2, 3, 6])
def test_means_are_exact(scheme: RelationalScheme, theta: list[float], size: int) -> None:
    """Means of many chains against enumeration, by the spread of the chains' own means."""
    chains = 24
    drawn = sample_networks(
        scheme, size, theta, samples=4000, chains=chains, burn_in=50, start="full", seed=1
    )
    exact = enumerate_networks(scheme, size)
    means = drawn.statistics.mean(1)
    error = means.std(0, ddof=1) / math.sqrt(chains) + 1e-12
    assert (np.abs(means.mean(0) - exact.expectations(theta)[0]) < 4.5 * error + 1e-9).all()
    density = drawn.edge_probability
    spread = density.std(ddof=1) / math.sqrt(chains)
    assert abs(density.mean() - exact.edge_probability(theta)[0]) < 4.5 * spread


def test_weights_for_each_binding() -> None:
    scheme = graph_scheme("edge", "triangle")
    options: dict[str, Any] = {"samples": 50, "seed": 5}
    ground = sample_networks(scheme, 8, [-1.0, 0.6], **options)
    binding = sample_networks(scheme, 8, [-0.5, 0.1], weights="binding", **options)
    np.testing.assert_array_equal(ground.statistics, binding.statistics)


def test_given_the_fixed_pairs() -> None:
    """Draw three hidden pairs given the rest, against the eight completions."""
    scheme, theta = graph_scheme("edge", "triangle", "star2"), np.array([-1.0, 0.7, 0.1])
    generator = np.random.default_rng(0)
    network = np.triu(generator.random((7, 7)) < 0.5, 1)
    network |= network.T
    fixed = np.ones((7, 7), dtype=bool)
    hidden = [(0, 1), (0, 2), (3, 5)]
    for i, j in hidden:
        fixed[i, j] = fixed[j, i] = False
    scores, states = [], list(itertools.product((False, True), repeat=3))
    for values in states:
        completed = network.copy()
        for (i, j), value in zip(hidden, values, strict=True):
            completed[i, j] = completed[j, i] = value
        scores.append(theta @ recount(scheme, completed))
    probability = np.exp(scores - np.max(scores))
    probability /= probability.sum()
    for start in ("empty", "observed"):
        drawn = sample_networks(
            scheme, 7, theta, samples=40_000, burn_in=20, network=network, fixed=fixed, start=start,
            keep_networks=True,
        )  # fmt: skip
        assert drawn.networks is not None
        networks = drawn.networks[0]
        assert (networks[:, fixed] == network[fixed]).all()
        found = np.stack([networks[:, i, j] for i, j in hidden], 1)
        for values, expected in zip(states, probability, strict=True):
            share = (found == values).all(1).mean()
            assert abs(share - expected) < 6 * math.sqrt(expected / 40_000) + 1e-9


def grouped(size: int) -> tuple[RelationalScheme, Network]:
    """Triangles of one group, of any one group, of one group and one age, and with two of a group."""
    scheme = graph_scheme("edge")
    group = scheme.attribute("group", scheme.types["vertex"], ["f", "m", "x"])
    age = scheme.attribute("age", scheme.types["vertex"], 2)
    exist = scheme.attributes["exist"]

    def closed(a: Any, b: Any, c: Any) -> Any:
        return exist[a, b] & exist[b, c] & exist[a, c]

    scheme.feature(
        "of_m", lambda a, b, c: closed(a, b, c) & (group[a] == "m") & (group[b] == "m") & (group[c] == "m")
    )
    scheme.feature("same", lambda a, b, c: closed(a, b, c) & (group[a] == group[b]) & (group[b] == group[c]))
    scheme.feature(
        "alike",
        lambda a, b, c: (
            2 * closed(a, b, c) * (group[a] == group[b]) * (group[b] == group[c])
            * (age[a] == 1) * (age[b] == 1) * (age[c] == 1)
        ),
    )  # fmt: skip
    scheme.feature("mixed", lambda a, b, c: closed(a, b, c) & (group[a] == "m") & (group[b] == "m"))
    values = {"group": np.arange(size) % 5 // 2, "age": (np.arange(size) % 4 > 0).astype(int)}
    return scheme, Network({"vertex": size}, {"exist": np.zeros((0, 2), dtype=np.int64)}, values)


@pytest.mark.parametrize("size", [9, 70])
def test_triangles_and_attributes_are_counted_beside_shared_partners(size: int) -> None:
    scheme, network = grouped(size)
    scheme.term("gwesp", decay=0.5)
    drawn = sample_networks(
        scheme, size, [-0.2, 0.1, -0.1, 0.05, 0.02, 0.02], samples=4, chains=2, burn_in=1, thin=0.5, network=network,
        start="full", keep_networks=True,
    )  # fmt: skip
    counts = [count_features(scheme, each) for each in as_drawn(scheme, drawn, network)]
    np.testing.assert_allclose(drawn.statistics.reshape(8, -1), counts)
    assert np.ptp(counts, axis=0).min() > 0


def test_means_of_triangles_within_groups_are_exact() -> None:
    scheme, network = grouped(6)
    theta = [-0.3, 0.4, -0.5, 0.3, 0.1]
    drawn = sample_networks(scheme, 6, theta, samples=4000, chains=24, burn_in=50, network=network, seed=1)
    means = drawn.statistics.mean(1)
    error = means.std(0, ddof=1) / math.sqrt(24) + 1e-12
    exact = enumerate_networks(scheme, 6, network=network).expectations(theta)[0]
    assert (np.abs(means.mean(0) - exact) < 4.5 * error).all()


def test_two_phases_stay_apart() -> None:
    drawn = {
        start: sample_networks(graph_scheme("edge", "triangle"), 30, [-2.0, 0.2], samples=300, start=start)
        for start in ("empty", "full")
    }
    assert drawn["empty"].edge_probability[0] == pytest.approx(0.131, abs=0.02)
    assert drawn["full"].edge_probability[0] == pytest.approx(0.956, abs=0.02)


def test_more_than_64_vertices() -> None:
    """Words beyond the first, and free pairs listed or not: density of independent edges."""
    scheme = graph_scheme("edge", "triangle")
    network = np.zeros((130, 130), dtype=bool)
    fixed = np.zeros((130, 130), dtype=bool)
    fixed[0, 1] = fixed[1, 0] = True
    for options in ({}, {"network": network, "fixed": fixed}):
        drawn = sample_networks(
            scheme, 130, [-1.0, 0.0], samples=20, burn_in=10, keep_networks=True, **options
        )
        assert drawn.networks is not None
        assert drawn.networks[0].mean((0, 1)).std() < 0.05  # no vertex is left out
        assert drawn.edge_probability[0] == pytest.approx(1 / (1 + math.e), abs=0.01)
        last = drawn.last[0].astype(int)
        assert drawn.statistics[0, -1, 1] == np.trace(last @ last @ last) / 6


def directed_scheme() -> RelationalScheme:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("arc", scheme.ordered(vertex, vertex))
    scheme.feature("arc", lambda a, b: arc[a, b])
    scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
    scheme.feature("through", lambda a, b, c: arc[a, b] & arc[b, c] & arc[a, c])
    return scheme


def test_large_directed_networks_are_walked_along_their_arcs() -> None:
    """Triples of 300 vertices would be 27 million ground features."""
    scheme = directed_scheme()
    drawn = sample_networks(scheme, 300, [-5.5, 2.0, 0.1], samples=3, thin=2, burn_in=5, keep_networks=True)
    counts = [count_features(scheme, network) for network in as_drawn(scheme, drawn)]
    np.testing.assert_array_equal(drawn.statistics[0], counts)
    assert min(drawn.edges[0]) > 300


@pytest.mark.parametrize("start", ["empty", "full", "directed"])
def test_sparse_networks_are_drawn_by_their_edges(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that propose every second time an edge have the means of steps that propose all pairs alike."""
    scheme = graph_scheme("edge", "star2")
    scheme.term("gwesp", decay=0.5)
    if start == "directed":
        scheme, start = directed_scheme(), "empty"
    means, errors, flips = [], [], []
    for many in (0, 10**9):
        monkeypatch.setattr(sampling, "Schedule", partial(Schedule, many=many))
        drawn = sample_networks(
            scheme, 24, [-2.9, -0.05, 0.5], samples=4000, chains=4, thin=2, start=start, seed=3
        )
        means.append(drawn.statistics.mean((0, 1)))
        errors.append(drawn.statistics.mean(1).std(0, ddof=1) / 2)
        flips.append(drawn.flips)
    assert (flips[0] != flips[1]).all()
    assert (np.abs(means[0] - means[1]) < 5 * np.hypot(*errors)).all(), (means, errors)


def test_sparse_networks_with_fixed_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent pairs, half of them fixed: the others have the mean of their weight."""
    monkeypatch.setattr(sampling, "Schedule", partial(Schedule, many=0))
    observed, fixed = np.zeros((2, 40, 40), dtype=bool)
    observed[0, 1:4] = observed[1:4, 0] = True
    fixed[:20] = fixed[:, :20] = True
    drawn = sample_networks(
        graph_scheme("edge"), 40, [-4.0], samples=20_000, thin=2, network=observed, fixed=fixed, seed=1
    )
    free = math.comb(20, 2)
    assert drawn.edges.mean() == pytest.approx(3 + free / (1 + math.exp(4)), abs=0.1)


def test_threads_and_seeds() -> None:
    scheme = graph_scheme("edge", "triangle")
    options: dict[str, Any] = {"samples": 20, "chains": 3}
    one = sample_networks(scheme, 20, [-1.0, 0.1], **options)
    torch.set_num_threads(2)
    two = sample_networks(scheme, 20, [-1.0, 0.1], **options)
    other = sample_networks(scheme, 20, [-1.0, 0.1], seed=1, **options)
    np.testing.assert_array_equal(one.statistics, two.statistics)
    assert (one.statistics != other.statistics).any()
    assert (one.statistics[0] != one.statistics[1]).any()


def test_each_chain_may_have_its_own_weights() -> None:
    drawn = sample_networks(graph_scheme("edge"), 40, [[-2.0], [0.0]], samples=50, chains=2)
    assert drawn.edge_probability == pytest.approx([1 / (1 + math.exp(2)), 0.5], abs=0.02)


def test_going_on_from_the_last_network() -> None:
    scheme = graph_scheme("edge", "triangle", "quadruplet")
    first = sample_networks(scheme, 12, [-1.0, 0.1, 0.01], samples=5, chains=2)
    more = sample_networks(
        scheme, 12, [-1.0, 0.1, 0.01], samples=1, chains=2, burn_in=0, thin=1e-9, start=first.last
    )
    assert np.abs(more.edges[:, 0] - first.edges[:, -1]).max() <= 1


def test_ready_features_are_known_by_what_they_do() -> None:
    scheme = graph_scheme("edge")
    exist = scheme.attributes["exist"]
    scheme.feature("triangle", lambda a, b, c: exist[a, b] & exist[a, c])  # a misnomer
    scheme.feature("square", lambda p, q, r, s: exist[p, r] & exist[r, q] & exist[q, s] & exist[s, p])
    found, ready = (
        sampling_basis(each, {"vertex": 9}, None)
        for each in (scheme, graph_scheme("edge", "star2", "quadruplet"))
    )
    np.testing.assert_array_equal(found.combine, ready.combine)
    assert not len(found.changes.walks)
    assert len(sampling_basis(path_scheme(), {"vertex": 9}, None).changes.walks)


def test_a_size_that_memory_cannot_hold_is_refused_at_once() -> None:
    with pytest.raises(TooLargeError, match=r"10,000,000 vertices would take about .* draw smaller or fewer"):
        sample_networks(graph_scheme("edge"), 10_000_000, [-1.0])
    with pytest.raises(TooLargeError, match="1,000,000 networks"):
        sample_networks(graph_scheme("edge"), 1000, [-1.0], samples=1_000_000, keep_networks=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theta": [1.0]}, "one weight for each of the features edge, triangle"),
        ({"theta": [1.0, np.inf]}, "finite"),
        ({"theta": [[1.0, 0.0]] * 3, "chains": 2}, "one for each of the 2 chains"),
        ({"theta": {"edge": 1.0, "star": 0.0}}, "unknown feature 'star'"),
        ({"theta": {"edge": 1.0}}, "no weight for the feature 'triangle'"),
        ({"start": "observed"}, "needs the observed network"),
        ({"start": "warm"}, "unknown start 'warm'"),
        ({"start": np.ones((5, 5))}, "joins vertex 0 to itself"),
        ({"start": np.triu(np.ones((5, 5)), 1)}, "symmetric"),
        ({"start": np.zeros((4, 4))}, "adjacency matrix of 5 vertices"),
        ({"fixed": np.ones((5, 5))}, "observed network"),
        ({"fixed": np.ones((5, 5)), "network": np.zeros((5, 5))}, "no pair to draw"),
        ({"chains": 0}, "at least one chain"),
        ({"weights": "paper"}, "unknown weights"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    theta = options.pop("theta", [-1.0, 0.5])
    with pytest.raises(InputError, match=message):
        sample_networks(graph_scheme("edge", "triangle"), 5, theta, **options)


def test_a_chain_stops_on_its_way_to_a_full_network() -> None:
    scheme = graph_scheme("edge", "triangle")
    drawn = sample_networks(scheme, 60, [1.0, 0.1], samples=20, most_edges=100)
    assert drawn.edges.tolist() == [[101.0] * 20]


def test_a_time_limit_reaches_the_samplers() -> None:
    sample_networks(graph_scheme("edge", "triangle"), 10, [-2.0, 0.0], samples=2)
    for scheme in (graph_scheme("edge", "triangle"), path_scheme()):
        with time_limit(0.2), pytest.raises(OutOfTimeError):
            sample_networks(scheme, 16, [-2.0, 0.0], samples=20_000, thin=1000)


def test_what_no_pair_changes_is_a_constant() -> None:
    """Of pairs of two sexes each counts, tied or not; of others those without a tie."""
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    exist, sex = scheme.attribute("exist", scheme.pair(vertex)), scheme.attribute("sex", vertex)
    scheme.feature(
        "apart_or_untied", lambda a, b: (exist[a, b] == 0) & (sex[a] == sex[b]) | (sex[a] != sex[b])
    )
    network = Network({"vertex": 6}, {"exist": np.array([[0, 1]])}, {"sex": np.repeat([0, 1], 3)})
    assert sampling_basis(scheme, network.sizes, network).constant.tolist() == [15.0]
    drawn = sample_networks(scheme, 6, [-30.0], samples=1, network=network)
    assert drawn.statistics.tolist() == [[[9.0]]]
