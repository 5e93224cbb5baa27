"""Fixed points of templates: all of them, against independently computed ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hiddenfield.errors import InputError
from hiddenfield.fields import concatenate_fields, from_factors
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.models.relational.phases import fixed_points


def test_phases_of_edge_triangle_models(data_path: Path) -> None:
    file = data_path.parent / "refs" / "template" / "ergm_note.json"
    if not file.is_file():
        pytest.skip(f"no reference numbers at {file}")
    scheme = graph_scheme("edge", "triangle")
    # Every third: fields of both sizes, with one phase and with two.
    for entry in json.loads(file.read_text())[::3]:
        points = fixed_points(scheme.template(entry["n"], [entry["te"], entry["tt"]]))
        assert [p.log_partition for p in points] == sorted((p.log_partition for p in points), reverse=True)
        found = sorted((float(p.posterior.marginals[0, 1]), p) for p in points)
        expected = sorted(entry["fixed_points"], key=lambda point: point["p"])
        assert len(found) == len(expected)
        for (probability, point), other in zip(found, expected, strict=True):
            assert probability == pytest.approx(other["p"], abs=1e-7)
            assert point.log_partition == pytest.approx(other["logZ"], abs=1e-6, rel=1e-9)
            assert point.spectral_radius == pytest.approx(abs(other["slope"]), abs=1e-5)
            assert point.stable == (other["slope"] < 1)


def test_refuses_batches_and_large_fields() -> None:
    one = from_factors([[0, 1]], [[[0.0, 0.0], [0.0, 1.0]]])
    with pytest.raises(InputError, match="one field at a time"):
        fixed_points(concatenate_fields([one, one]))
    chain = from_factors([[i, i + 1] for i in range(600)], [[[0.0, 0.0], [0.0, 1.0]]] * 600)
    with pytest.raises(InputError, match="at most 2000 numbers"):
        fixed_points(chain)
