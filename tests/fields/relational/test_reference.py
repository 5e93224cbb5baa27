"""Template and ground belief propagation against independently computed numbers."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hiddenfield.fields.relational import RelationalScheme, graph_scheme, ground, template
from hiddenfield.inference import infer

CONVENTIONS = {
    "canonical": {"bindings": "merged", "weights": "ground"},
    "ordered": {"bindings": "ordered", "weights": "binding"},
    "distinct": {"bindings": "merged", "weights": "binding"},
    "cluster": {"bindings": "cluster", "weights": "binding"},
}


@pytest.fixture(scope="module")
def references(data_path: Path) -> Path:
    path = data_path.parent / "refs" / "template"
    if not path.is_dir():
        pytest.skip(f"no reference numbers at {path}")
    return path


def settle(field: Any, **options: Any) -> Any:
    return infer(field, "loopy_bp", tolerance=1e-13, damping=0.3, max_iterations=20_000, **options)


def small(references: Path) -> dict[str, Any]:
    return json.loads((references / "numbers_small.json").read_text())


@pytest.mark.parametrize("name", ["edge_tri_n3", "edge_tri_n4", "edge_tri_n5"])
@pytest.mark.parametrize("convention", ["canonical", "ordered", "distinct"])
def test_edge_and_triangle(references: Path, name: str, convention: str) -> None:
    entry = small(references)[f"{name}_{convention}"]
    scheme = graph_scheme("edge", "triangle")
    upper = name == "edge_tri_n5" and convention == "ordered"  # two phases: the reference is the full graph's
    for build, label in ((template, "tbp"), (ground, "lbp")):
        field = build(scheme, entry["n"], entry["theta"], **CONVENTIONS[convention])
        start = None
        if upper:
            start = (
                torch.tensor([math.log(0.02), math.log(0.98)])
                .double()
                .repeat(len(field.wiring.port_variable))
            )
        posterior = settle(field, messages=start)
        assert posterior.log_partition.item() == pytest.approx(entry[f"{label}_logZ"], abs=1e-6)
        assert posterior.marginals[0, 1].item() == pytest.approx(entry[f"{label}_P(E=1)"], abs=1e-6)


def test_three_copies_of_each_triangle(references: Path) -> None:
    """The paper's footnote counts three triangle features and two edge features a set: counts alone express it."""
    scheme = graph_scheme("edge", "triangle")
    for size in (3, 4, 5):
        entry = small(references)[f"edge_tri_n{size}_paper"]
        edge, triangle = entry["theta"]
        field = template(scheme, size, [2 * edge, triangle])
        tripled = dataclasses.replace(field.groups[0], count=3 * field.groups[0].count)
        posterior = settle(dataclasses.replace(field, groups=(tripled,)))
        assert posterior.log_partition.item() == pytest.approx(entry["tbp_logZ"], abs=1e-6)
        assert posterior.marginals[0, 1].item() == pytest.approx(entry["tbp_P(E=1)"], abs=1e-6)


@pytest.mark.parametrize("name", ["color_edge_n4", "color_bias_edge_n4", "color_bias_edge_tri_n4"])
@pytest.mark.parametrize("convention", ["canonical", "ordered", "distinct"])
def test_coloured_graph(references: Path, name: str, convention: str) -> None:
    entry = small(references)[f"{name}_{convention}"]
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    color = scheme.attribute("color", vertex)
    exist = scheme.attribute("exist", scheme.pair(vertex))
    functions = {
        "color1": lambda a: color[a],
        "edge": lambda a, b: exist[a, b],
        "cocol": lambda a, b: exist[a, b] & (color[a] == color[b]),
        "tri": lambda a, b, c: exist[a, b] & exist[a, c] & exist[b, c],
    }
    for feature in entry["features"]:
        scheme.feature(feature, functions[feature])
    for build, label in ((template, "tbp"), (ground, "lbp")):
        posterior = settle(build(scheme, entry["n"], entry["theta"], **CONVENTIONS[convention]))
        assert posterior.log_partition.item() == pytest.approx(entry[f"{label}_logZ"], abs=1e-6)
        assert posterior.marginals[0, 1].item() == pytest.approx(entry[f"{label}_P(C=1)"], abs=1e-6)
        assert posterior.marginals[-1, 1].item() == pytest.approx(entry[f"{label}_P(E=1)"], abs=1e-6)


def test_triangle_and_chain_of_seven(references: Path) -> None:
    scheme = graph_scheme("triangle", "open_chain")
    for entry in json.loads((references / "numbers_n7_tri_chain.json").read_text()).values():
        theta = [entry["theta_111"], entry["theta_011"]]
        posterior = settle(template(scheme, 7, theta, **CONVENTIONS[entry["convention"]]))
        assert posterior.log_partition.item() == pytest.approx(entry["tbp_logZ"], abs=1e-6)
        assert posterior.marginals[0, 1].item() == pytest.approx(entry["tbp_pE"], abs=1e-6)


def test_grid_of_parameters_in_one_batch(references: Path) -> None:
    scheme = graph_scheme("edge", "triangle")
    with (references / "grid_n7_edge_triangle.csv").open() as file:
        rows = list(csv.DictReader(file))
    for convention in sorted({row["convention"] for row in rows}):
        chosen = [row for row in rows if row["convention"] == convention]
        copies = 3 if convention == "paper" else 1
        theta = torch.tensor(
            [
                [float(row["theta_edge_per_edge"]), float(row["theta_tri_per_triangle"]) / copies]
                for row in chosen
            ]
        )
        field = template(scheme, 7, theta, bindings="ordered" if convention == "ordered" else "merged")
        group = dataclasses.replace(field.groups[0], count=copies * field.groups[0].count)
        posterior = settle(dataclasses.replace(field, groups=(group,)))
        found = posterior.marginals[:, 1].numpy()
        expected = np.array([float(row["bp_p"]) for row in chosen])
        bethe = np.array([float(row["bethe_logZ"]) for row in chosen])
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_allclose(posterior.log_partition, bethe, atol=1e-6)
