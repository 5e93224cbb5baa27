"""Fields as objects of other libraries, and back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.fields import FactorGraph
from tests.fields.test_readers import same

NETWORK = Path(__file__).parents[2] / "docs" / "examples" / "sprinkler.bif"
LIBRARIES = ("pgmpy", "pyagrum")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def markov() -> FactorGraph:
    """Three variables, two factors of one scope in different orders, a factor of one variable, and a constant."""
    draw = np.random.default_rng(0)
    shapes = [(2, 3), (3, 2), (3, 2), (2,), ()]
    scopes = [[0, 1], [1, 0], [1, 2], [2], []]
    names = {"variable_names": ["a", "b", "c"], "state_names": [["n", "y"], ["l", "m", "h"], ["0", "1"]]}
    return hf.fields.from_factors(scopes, [draw.normal(size=shape) for shape in shapes], **names)


def converted(field: FactorGraph, library: str) -> tuple[object, FactorGraph]:
    pytest.importorskip(library)
    model = getattr(hf.fields, f"to_{library}")(field)
    return model, getattr(hf.fields, f"from_{library}")(model)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_bayesian_network_there_and_back(library: str) -> None:
    field = hf.fields.read(NETWORK)
    model, again = converted(field, library)
    assert type(model).__name__ in ("DiscreteBayesianNetwork", "BayesNet")
    assert (again.variable_names, again.state_names) == (field.variable_names, field.state_names)
    evidence = {"grass": "wet"}
    for name, row in hf.infer(again, evidence=evidence).to_dict().items():
        assert row == pytest.approx(hf.infer(field, evidence=evidence)[name])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_markov_network_there_and_back(library: str) -> None:
    field = markov()
    _, again = converted(field, library)
    ours, theirs = hf.infer(field), hf.infer(again)
    assert float(theirs.log_partition) == pytest.approx(float(ours.log_partition))
    assert theirs.to_dict().keys() == ours.to_dict().keys()
    for name in ("a", "b", "c"):
        assert theirs[name] == pytest.approx(ours[name])
    unnamed = hf.fields.ising_grid(2, 2, 0.5, 0.3)
    _, again = converted(unnamed, library)
    assert again.variable_names == ("x0", "x1", "x2", "x3")
    np.testing.assert_allclose(hf.infer(again).marginals, hf.infer(unnamed).marginals)


def test_the_libraries_agree_on_the_answer() -> None:
    field = hf.fields.read(NETWORK)
    expected = hf.infer(field, evidence={"grass": "wet"})["rain"]["yes"]
    gum = pytest.importorskip("pyagrum")
    engine = gum.LazyPropagation(hf.fields.to_pyagrum(field))
    engine.setEvidence({"grass": "wet"})
    assert engine.posterior("rain").toarray()[1] == pytest.approx(expected)
    elimination = pytest.importorskip("pgmpy.inference").VariableElimination
    model = hf.fields.to_pgmpy(field)
    assert model.check_model()
    found = elimination(model).query(["rain"], evidence={"grass": "wet"}, show_progress=False)
    assert found.get_value(rain="yes") == pytest.approx(expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(library)
    with pytest.raises(InputError, match=rf"from_{library} takes .*, got int"):
        getattr(hf.fields, f"from_{library}")(3)
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"hiddenfield\[peers\]"):
        getattr(hf.fields, f"to_{library}")(markov())


def test_a_network_that_lacks_a_table() -> None:
    models = pytest.importorskip("pgmpy.models")
    with pytest.raises(InputError, match="node 'a' of the network has no conditional distribution"):
        hf.fields.from_pgmpy(models.DiscreteBayesianNetwork([("a", "b")]))


@pytest.mark.parametrize("suffix", ["net", "bifxml"])
def test_files_of_pyagrum(suffix: str, tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum")
    field = hf.fields.read(NETWORK)
    gum.saveBN(hf.fields.to_pyagrum(field), str(tmp_path / f"x.{suffix}"))
    again = hf.fields.read(tmp_path / f"x.{suffix}")
    np.testing.assert_allclose(hf.infer(again).marginals, hf.infer(field).marginals, atol=1e-6)
    hf.fields.write(again, tmp_path / "again.bif")
    same(hf.fields.read(tmp_path / "again.bif"), again)
