"""Exact enumeration of networks against independent counts, and one way of counting against the other."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.models.relational import enumerate_networks
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
        with pytest.raises(InputError, match="1 to 7 vertices"):
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


def test_what_cannot_be_enumerated() -> None:
    with pytest.raises(InputError, match="sample larger ones"):
        enumerate_networks(graph_scheme("edge"), 9)
    with pytest.raises(InputError, match="one binary attribute of unordered pairs"):
        enumerate_networks(graph_scheme("edge", colors=2), 4)
    with pytest.raises(InputError, match="one weight for each"):
        enumerate_networks(graph_scheme("edge"), 4).log_partition([1.0, 2.0])
