"""``import hiddenfield`` is quick: the heavy packages load when something needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "lightning",
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
    "module", ["hiddenfield", "hiddenfield.data", "hiddenfield.ops", "hiddenfield.errors"]
)
def test_importing_loads_nothing_heavy(module: str, torch_alone: set[str]) -> None:
    assert (loaded_by(f"import {module}") & HEAVY) - torch_alone == set()


@pytest.mark.parametrize("module", ["hiddenfield", "hiddenfield.data", "hiddenfield.ops"])
def test_every_public_name_resolves(module: str) -> None:
    code = (
        f"import {module} as m\n"
        "assert m.__all__, 'nothing is public'\n"
        "assert len(set(m.__all__)) == len(m.__all__), 'a name stands twice in __all__'\n"
        "missing = [name for name in m.__all__ if not hasattr(m, name)]\n"
        "assert not missing, missing\n"
        "assert set(m.__all__) <= set(dir(m)), sorted(set(m.__all__) - set(dir(m)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
