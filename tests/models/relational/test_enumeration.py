"""Exact enumeration of networks against independent counts, and one way of counting against the other."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme, ground_variables, two_mode_scheme
from hiddenfield.models.relational import (
    ExactLikelihood,
    Network,
    count_features,
    enumerate_networks,
    fit_relational,
)
from tests.inference.oracle import enumerate_field

LIBRARY = ("edge", "open_chain", "triangle", "star2", "star3", "quadruplet")


@pytest.fixture(scope="module")
def references(data_path: Path) -> Path:
    path = data_path.parent / "refs" / "template"
    if not path.is_dir():
        pytest.skip(f"no reference numbers at {path}")
    return path


@pytest.mark.parametrize("size", range(3, 9))
@pytest.mark.parametrize("method", ["all", "classes"])
def test_histograms(references: Path, size: int, method: str) -> None:
    if method == "all" and size == 8:
        with pytest.raises(InputError, match="at most 21 pairs"):
            enumerate_networks(graph_scheme("edge"), size, method=method)
        return
    counts = enumerate_networks(graph_scheme("edge", "open_chain", "triangle"), size, method=method)
    found = {tuple(row): n for row, n in zip(counts.values.astype(int).tolist(), counts.counts, strict=True)}
    with (references / f"graph_hist_n{size}.csv").open() as file:
        expected = {
            (int(row["edges"]), int(row["open_chains"]), int(row["triangles"])): int(row["count"])
            for row in csv.DictReader(file)
        }
    assert found == expected
    assert counts.counts.sum() == 2 ** math.comb(size, 2)


def test_a_grid_of_weights(references: Path) -> None:
    with (references / "grid_n7_edge_triangle.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["convention"] == "canonical"]
    theta = np.array([[float(r["theta_edge_per_edge"]), float(r["theta_tri_per_triangle"])] for r in rows])
    counts = enumerate_networks(graph_scheme("edge", "triangle"), 7)
    np.testing.assert_allclose(counts.log_partition(theta), [float(r["exact_logZ"]) for r in rows], atol=1e-9)
    np.testing.assert_allclose(counts.edge_probability(theta), [float(r["exact_p"]) for r in rows], atol=1e-9)
    np.testing.assert_allclose(counts.expectations(theta)[:, 0] / 21, counts.edge_probability(theta))


@pytest.mark.parametrize("convention", ["canonical", "ordered"])
def test_weights_for_each_binding(references: Path, convention: str) -> None:
    entry = json.loads((references / "numbers_small.json").read_text())[f"edge_tri_n4_{convention}"]
    weights = "ground" if convention == "canonical" else "binding"
    counts = enumerate_networks(graph_scheme("edge", "triangle"), 4, weights=weights)
    assert counts.log_partition(entry["theta"])[0] == pytest.approx(entry["exact_logZ"], abs=1e-9)
    assert counts.edge_probability(entry["theta"])[0] == pytest.approx(entry["exact_P(E=1)"], abs=1e-9)


def odd_scheme() -> RelationalScheme:
    """Features that look symmetric to nobody, with values other than 0 and 1, and self pairs."""
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    exist = scheme.attribute("exist", scheme.pair(vertex, self_pairs=True))
    scheme.feature("absent", lambda a, b: ~exist[a, b])
    scheme.feature("path", lambda a, b, c, d: exist[a, b] & exist[b, c] & ~exist[c, d])
    return scheme


def test_any_scheme_against_its_ground_field() -> None:
    scheme, theta = odd_scheme(), [-0.4, 0.2]
    for method in ("all", "classes"):
        counts = enumerate_networks(scheme, 4, method=method)
        exact = enumerate_field(scheme.ground(4, theta))
        assert counts.log_partition(theta)[0] == pytest.approx(exact.log_partition, abs=1e-10)
        assert counts.edge_probability(theta)[0] == pytest.approx(exact.marginals[0][1], abs=1e-10)


def test_both_ways_agree_on_all_ready_features() -> None:
    theta = np.random.default_rng(0).normal(size=(5, len(LIBRARY))) * 0.1
    scheme = graph_scheme(*LIBRARY)
    one, other = (enumerate_networks(scheme, 6, method=method) for method in ("all", "classes"))
    np.testing.assert_allclose(one.log_partition(theta), other.log_partition(theta))
    np.testing.assert_allclose(one.expectations(theta), other.expectations(theta))


def test_expectations_are_the_gradient() -> None:
    counts = enumerate_networks(graph_scheme("edge", "triangle"), 6)
    theta, step = np.array([-0.5, 0.1]), 1e-5
    ahead, behind = theta + step * np.eye(2), theta - step * np.eye(2)
    slope = (counts.log_partition(ahead) - counts.log_partition(behind)) / (2 * step)
    np.testing.assert_allclose(counts.expectations(theta)[0], slope, rtol=1e-7)
    curvature = (counts.expectations(ahead) - counts.expectations(behind)) / (2 * step)
    np.testing.assert_allclose(counts.covariance(theta)[0], curvature, rtol=1e-7)


def mutual_scheme(*, colors: bool = False) -> RelationalScheme:
    """A directed scheme, with attributes of vertices or without."""
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("arc", scheme.ordered(vertex, vertex))
    scheme.feature("arc", lambda a, b: arc[a, b])
    scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
    scheme.feature("through", lambda a, b, c: arc[a, b] & arc[b, c] & arc[a, c])
    if colors:
        color = scheme.attribute("color", vertex, 3)
        scheme.feature("sender", lambda a, b: arc[a, b] & (color[a] == "1"))
        scheme.feature("alike", lambda a, b, c: arc[a, b] & arc[b, c] & (color[a] == color[c]))
    return scheme


def covariate_scheme() -> RelationalScheme:
    """Attributes in features of several pairs, numbers of vertices, and weighted degrees."""
    scheme = graph_scheme("edge", "triangle", colors=2)
    exist, color = scheme.attributes["exist"], scheme.attributes["color"]
    scheme.feature("bridge", lambda a, b, c: exist[a, b] & exist[b, c] & (color[a] != color[c]))
    scheme.term("absdiff", covariate="age")
    scheme.term("gwdegree", decay=0.4)
    return scheme


def shifts_scheme() -> RelationalScheme:
    """A two-mode scheme with an attribute of the second type."""
    scheme = two_mode_scheme("edge", "b1star2", "quadruplet", first="person", second="shift")
    exist, night = scheme.attributes["exist"], scheme.attribute("night", scheme.types["shift"])
    scheme.feature("at_night", lambda a, b: exist[a, b] & night[b])
    scheme.feature("two_nights", lambda a, b, c: exist[a, b] & exist[a, c] & night[b] & night[c])
    scheme.term("gwb2degree", decay=0.7)
    return scheme


GENERAL = {
    "directed": (mutual_scheme(), {"vertex": 3}, {}, {}),
    "directed attributed": (mutual_scheme(colors=True), {"vertex": 3}, {"color": [0, 1, 1]}, {}),
    "attributed": (covariate_scheme(), {"vertex": 4}, {"color": [0, 1, 1, 0]}, {"age": [1.0, 2.5, 4.0, 4.5]}),
    "two-mode": (shifts_scheme(), {"person": 3, "shift": 3}, {"night": [0, 1, 1]}, {}),
}


@pytest.mark.parametrize("case", GENERAL)
def test_any_network_against_a_count_of_all(case: str) -> None:
    """Every network is written down and its features counted one by one."""
    scheme, sizes, values, covariates = GENERAL[case]
    attribute = next(a for a in scheme.attributes.values() if len(a.type.parts) == 2)
    given = Network(
        dict(sizes),
        {attribute.name: np.zeros((0, 2), dtype=np.int64)},
        {name: np.array(v) for name, v in values.items()},
        covariates={name: np.array(v) for name, v in covariates.items()},
    )
    pairs = ground_variables(scheme, sizes)[attribute.name]
    rows, edges = [], []
    for state in itertools.product((False, True), repeat=len(pairs)):
        present = pairs[np.array(state)]
        rows.append(count_features(scheme, dataclasses.replace(given, pairs={attribute.name: present})))
        edges.append(len(present))
    rows = np.array(rows)
    theta = np.random.default_rng(1).normal(size=(3, rows.shape[1])) * 0.4
    counts = enumerate_networks(scheme, sizes, network=given)
    assert counts.counts.sum() == 2 ** len(pairs)
    scores = theta @ rows.T
    top = logsumexp(scores, axis=1)
    probability = np.exp(scores - top[:, None])
    np.testing.assert_allclose(counts.log_partition(theta), top)
    np.testing.assert_allclose(counts.expectations(theta), probability @ rows, atol=1e-9)
    np.testing.assert_allclose(counts.edge_probability(theta), probability @ edges / len(pairs))
    # The likelihood of one network, with its gradient and, at the maximum of a ridge, no gradient left.
    network = dataclasses.replace(given, pairs={attribute.name: pairs[::2]})
    value, gradient = ExactLikelihood(scheme, [network, network])(theta[0])
    observed = count_features(scheme, network)
    assert value == pytest.approx(2 * (observed @ theta[0] - top[0]))
    np.testing.assert_allclose(gradient, 2 * (observed - probability[0] @ rows), atol=1e-9)
    fit = fit_relational(scheme, network, method="exact", ridge=0.5, starts=1, check=False)
    assert fit.converged


def test_settings_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, theta = (
        enumerate_networks(graph_scheme("edge", "triangle"), 5),
        np.linspace(-1, 1, 20).reshape(10, 2),
    )
    whole = counts.solve(theta)
    monkeypatch.setattr("hiddenfield.models.relational.enumeration.MOST_SCORES", 3 * len(counts.counts))
    for part, other in zip(counts.solve(theta), whole, strict=True):
        np.testing.assert_allclose(part, other)


def test_what_cannot_be_enumerated() -> None:
    with pytest.raises(TooLargeError, match="sample larger ones"):
        enumerate_networks(graph_scheme("edge"), 9)
    with pytest.raises(TooLargeError, match="at most 21 pairs can be enumerated, and these have 30 pairs"):
        enumerate_networks(mutual_scheme(), 6)
    with pytest.raises(InputError, match="the attribute 'color' of vertices is given"):
        enumerate_networks(graph_scheme("edge", colors=2), 4)
    with pytest.raises(InputError, match="use method 'all'"):
        enumerate_networks(mutual_scheme(), 4, method="classes")
    with pytest.raises(InputError, match="one weight for each"):
        enumerate_networks(graph_scheme("edge"), 4).log_partition([1.0, 2.0])
