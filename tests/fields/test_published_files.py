"""Published models have the sizes that their sources state, and survive being written."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import hiddenfield as hf
from tests.fields.test_readers import same

ARCHIVES = ("bnlearn_bif.tar.xz", "uai2014_mar.tar.xz", "libdai_fg.tar.xz")

# In a process of its own, as a user would: checks of shapes make the largest files slow.
SIZES = """
import json, pathlib, sys, warnings
import hiddenfield as hf
warnings.simplefilter("error", hf.errors.RowSumWarning)  # all are precise to seven digits

def network(field):
    children = {int(scope[-1]) for group in field.groups for scope in group.scopes}
    parameters = sum(int(field.cardinalities[v]) - 1 for v in range(field.num_variables) if v not in children)
    for group in field.groups:
        parameters += group.log_tables.numel() * (group.states[-1] - 1) // group.states[-1]
    arcs = sum(group.num_factors * (group.arity - 1) for group in field.groups)
    return [field.num_variables, arcs, parameters]

def problem(field, path):
    evidence = hf.fields.read_evidence(f"{path}.evid")
    marginals = hf.fields.read_result(f"{path}.MAR").marginals
    observed = all(marginals[variable][state] == 1 for variable, state in evidence.items())
    same_sizes = [len(row) for row in marginals] == field.cardinalities.tolist()
    alive = int((field.given(evidence).log_unary > -float("inf")).sum())
    lost = field.log_unary.numel() - alive >= sum(int(field.cardinalities[v]) - 1 for v in evidence)
    sizes = [field.num_variables, int(field.cardinalities.max()), len(evidence)]
    return [*sizes, observed and same_sizes and lost]

found = {"bif": {}, "uai": {}, "fg": {}}
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.*")):
    kind = path.suffix[1:]
    if kind in found and path.parent.name != "testem":
        field = hf.fields.read(path)
        many = problem(field, path) if kind == "uai" else [field.num_variables, field.num_factors]
        found[kind][path.stem] = network(field) if kind == "bif" else many
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def unpacked(data_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inference")
    for name in ARCHIVES:
        archive = data_path / "inference" / name
        if not archive.exists():
            pytest.skip(f"no {archive}")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def sizes(unpacked: Path) -> dict[str, Any]:
    words = [sys.executable, "-c", SIZES, str(unpacked)]
    result = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ))
    return json.loads(result.stdout)


def test_networks_of_bnlearn(data_path: Path, sizes: dict[str, Any]) -> None:
    sources = (data_path / "inference" / "SOURCES.md").read_text(encoding="utf-8")
    published = {name: text.split("/") for name, text in re.findall(r"(\w+) (\d+/\d+/\d+)", sources)}
    found = sizes["bif"]
    assert len(found) >= 18
    assert found == {name: [int(size) for size in published[name]] for name in found}


def test_problems_of_the_competition(data_path: Path, sizes: dict[str, Any]) -> None:
    with open(data_path / "inference" / "uai2014_reference.csv", encoding="utf-8") as file:
        published = {row["name"]: row for row in csv.DictReader(file)}
    found = sizes["uai"]
    assert len(found) >= 57
    columns = ("variables", "max_card", "evidence")
    assert found == {name: [*(int(published[name][column]) for column in columns), True] for name in found}


def test_factor_graphs_of_libdai(unpacked: Path, sizes: dict[str, Any]) -> None:
    expected = {
        "testfast": (16, 40), "alarm": (37, 37), "hoi1": (6, 3), "hoi2": (6, 2), "hoi3": (8, 3), "hoi4": (6, 3),
        "maxprodbug": (3, 3), "maxprodbug2": (25, 25), "maxprodbug3": (25, 25), "jtreemapbug": (2, 1),
        "twofactors": (4, 2), "zeroes1": (3, 3),
    }  # fmt: skip
    assert set(sizes["fg"]) == set(expected)
    for name, (variables, factors) in sizes["fg"].items():
        text = next(unpacked.rglob(f"{name}.fg")).read_text()
        scopes = [words.split() for words in re.findall(r"\n\s*\n\d+[ ]*\n([\d ]+)", text)]
        assert (variables, len(scopes)) == expected[name]
        # Factors of one variable are sums in the field.
        assert factors == sum(len(scope) > 1 for scope in scopes)


def test_small_networks_written_and_read_again(unpacked: Path, tmp_path: Path) -> None:
    for path in unpacked.rglob("*.bif"):
        if path.stat().st_size < 20_000:
            field = hf.fields.read(path)
            hf.fields.write(field, tmp_path / "again.bif.gz")
            same(hf.fields.read(tmp_path / "again.bif.gz"), field)
