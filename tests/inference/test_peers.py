"""Other implementations as oracles: pyAgrum and pgmpy for exact inference, PGMax for loopy belief propagation."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from hiddenfield.fields import FactorGraph, ising_grid, potts_grid, read
from hiddenfield.inference import infer

RIVAL = Path(__file__).parents[2] / "benchmarks" / "propagation_rival.py"
NETWORKS = ("asia", "sachs", "survey", "alarm", "hailfinder", "win95pts", "andes")
UNREADABLE = ("child",)  # to pyAgrum, which takes no "/" in the name of a state


@pytest.fixture(scope="module")
def networks(data_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = data_path / "inference" / "bnlearn_bif.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no {archive}")
    folder = tmp_path_factory.mktemp("networks")
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            if name.removesuffix(".bif") in NETWORKS + UNREADABLE:
                member.name = name
                tar.extract(member, folder, filter="data")
    return folder


def evidence_on(field: FactorGraph) -> dict[str, str]:
    """Observe three variables in their likeliest states, which are always possible together or nearly so."""
    best = infer(field, "exact").most_likely
    chosen = np.random.default_rng(0).choice(field.num_variables, 3, replace=False)
    return {field.variable_names[v]: field.state_names[v][int(best[v])] for v in chosen}


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_against_pyagrum(networks: Path, name: str, observed: bool) -> None:
    gum = pytest.importorskip("pyagrum")
    field = read(networks / f"{name}.bif")
    evidence = evidence_on(field) if observed else {}
    engine = gum.LazyPropagation(gum.loadBN(str(networks / f"{name}.bif")))
    engine.setEvidence(evidence)
    engine.makeInference()
    posterior = infer(field, "exact", evidence=evidence)
    for number, variable in enumerate(field.variable_names):
        expected = engine.posterior(variable)
        ours = dict(zip(field.state_names[number], posterior.marginals[number].tolist(), strict=False))
        for state, probability in enumerate(expected.toarray()):
            # Tables in the files are rounded, and pyAgrum normalises them first.
            assert ours[expected.variable(0).label(state)] == pytest.approx(probability, abs=1e-5)
    if observed:
        assert float(posterior.log_partition.exp()) == pytest.approx(engine.evidenceProbability(), rel=1e-4)


@pytest.mark.parametrize("name", ["asia", "child", "alarm"])
def test_networks_against_pgmpy(networks: Path, name: str) -> None:
    readwrite = pytest.importorskip("pgmpy.readwrite")
    elimination = pytest.importorskip("pgmpy.inference").VariableElimination
    field = read(networks / f"{name}.bif")
    evidence = evidence_on(field)
    engine = elimination(readwrite.BIFReader(str(networks / f"{name}.bif")).get_model())
    posterior = infer(field, "exact", evidence=evidence)
    for number, variable in enumerate(field.variable_names):
        if variable in evidence:
            continue
        expected = engine.query([variable], evidence=evidence, show_progress=False)
        ours = dict(zip(field.state_names[number], posterior.marginals[number].tolist(), strict=False))
        for state, probability in zip(expected.state_names[variable], expected.values, strict=True):
            assert ours[state] == pytest.approx(probability, abs=1e-5)


@pytest.mark.parametrize("states", [2, 5])
def test_loopy_belief_propagation_against_pgmax(tmp_path: Path, states: int) -> None:
    python = os.environ.get("HIDDENFIELD_PGMAX_PYTHON")
    if not python:
        pytest.skip("HIDDENFIELD_PGMAX_PYTHON names no interpreter that has PGMax")
    draw = np.random.default_rng(states)
    field = (
        ising_grid(6, 7, lambda size: draw.normal(0, 0.4, size), lambda size: draw.normal(0, 0.5, size))
        if states == 2
        else potts_grid(5, 6, states, lambda size: draw.normal(0, 0.5, size), draw.normal(size=(30, states)))
    )
    (group,) = field.groups
    unary = field.log_unary.reshape(field.num_variables, states)
    np.savez(tmp_path / "problem.npz", scopes=group.scopes, unary=unary, tables=group.expanded())
    subprocess.run(
        [python, str(RIVAL), str(tmp_path / "problem.npz")],
        input="300\n\n",
        text=True,
        check=True,
        capture_output=True,
        timeout=300,
    )
    expected = np.load(tmp_path / "problem.npy")
    for schedule in ("parallel", "sequential", "residual"):
        posterior = infer(field, "loopy_bp", schedule=schedule, tolerance=1e-9)
        np.testing.assert_allclose(posterior.marginals, expected, atol=2e-5)
