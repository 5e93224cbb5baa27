"""``import hiddenfield`` is quick: the heavy packages load when something needs them."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "matplotlib",
    "networkx",
    "numba",
    "pandas",
    "pyarrow",
    "rdkit",
    "rich",
    "sklearn",
    "torch_geometric",
    "typer",
}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter holds after running `statement`."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def torch_alone() -> set[str]:
    """Return what torch and numpy load by themselves, some of which is not ours to forbid."""
    return loaded_by("import torch, numpy")


@pytest.mark.parametrize(
    "module",
    [
        "hiddenfield",
        "hiddenfield.data",
        "hiddenfield.ops",
        "hiddenfield.embedding",
        "hiddenfield.learning",
        "hiddenfield.estimators",
    ],
)
def test_importing_loads_nothing_heavy(module: str, torch_alone: set[str]) -> None:
    assert (loaded_by(f"import {module}") & HEAVY) - torch_alone == set()


def test_training_does_not_load_the_compiler_of_pytorch(torch_alone: set[str]) -> None:
    words = "StructureEncoder(epochs=1, dim=4, random_state=0).fit(['GA', 'TTT', 'A', 'CG'], [2.5, 3.5, 1.5, 2.5])"
    assert "sympy" not in loaded_by(f"import hiddenfield as hf; hf.{words}") - torch_alone


PUBLIC_NAMES = """
import importlib, pkgutil, types
for package in ["hiddenfield", *("hiddenfield." + name for name in "data ops embedding learning estimators".split())]:
    m = importlib.import_module(package)
    assert m.__all__, "nothing is public"
    assert len(set(m.__all__)) == len(m.__all__), "a name stands twice in __all__"
    missing = [name for name in m.__all__ if not hasattr(m, name)]
    assert not missing, (package, missing)
    assert set(m.__all__) <= set(dir(m)), (package, sorted(set(m.__all__) - set(dir(m))))
"""

SUBMODULES = """
import importlib, pkgutil, types
for package in ["hiddenfield." + name for name in "data ops embedding learning estimators".split()]:
    m = importlib.import_module(package)
    for name in {info.name for info in pkgutil.iter_modules(m.__path__)} & set(m.__all__):
        importlib.import_module(f"{package}.{name}")
    hidden = [name for name in m.__all__ if isinstance(getattr(m, name), types.ModuleType)]
    assert not hidden, (package, hidden)
"""


def test_every_public_name_resolves() -> None:
    loaded_by(PUBLIC_NAMES)


def test_no_submodule_hides_a_public_name() -> None:
    """Importing a module must not replace a function of the same name."""
    loaded_by(SUBMODULES)


def test_ctrl_c_waits_for_the_end_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted").mkdir()
    (tmp_path / "interrupted/__init__.py").write_text(
        "from hiddenfield.loading import attach\n__getattr__, __dir__, __all__ = attach(__name__, __file__)\n"
    )
    (tmp_path / "interrupted/__init__.pyi").write_text("from .part import value\n__all__ = ['value']\n")
    (tmp_path / "interrupted/part.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000):\n    pass\nvalue = 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = signal.getsignal(signal.SIGINT)
    package = importlib.import_module("interrupted")
    with pytest.raises(KeyboardInterrupt):
        _ = package.value
    assert sys.modules["interrupted.part"].value == 7  # it was loaded to its end
    assert package.value == 7
    assert signal.getsignal(signal.SIGINT) is before
