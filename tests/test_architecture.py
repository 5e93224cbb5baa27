"""The folders are the stations of the data flow, and imports point to the left only."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "hiddenfield"

# Stations that share a rank may not import each other.
STATIONS = (
    {"ops"},
    {"data"},
    {"datasets"},
    {"fields"},
    {"inference", "embedding"},
    {"learning"},
    {"models"},
    {"kernels"},
    {"estimators"},
    {"evaluation"},
    {"report"},
    {"studies"},
    {"cli", "studio"},
)
RANK = {name: rank for rank, names in enumerate(STATIONS) for name in names}
COMMON = {"errors", "iteration", "limits", "loading", "machine", "progress", "registry", "shapes"}

MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [path.relative_to(PACKAGE).as_posix() for path in MODULES]


def station(path: Path) -> str:
    """Return the first part of a module's name below the package: its folder, or the module itself."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """Return the full name of the module that a ``from ... import`` names, relative dots resolved."""
    if node.level == 0:
        return node.module or ""
    # A package's __init__ is its own first level, just as a module's folder is.
    parents = ("hiddenfield", *path.relative_to(PACKAGE).parent.parts)
    parts = parents[: len(parents) - node.level + 1]
    return ".".join((*parts, node.module) if node.module else parts)


def imported_stations(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, station) for every import of the package's own modules, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "hiddenfield" else [base]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and node.args:
            literal = node.args[0]
            names = [str(literal.value)] if isinstance(literal, ast.Constant) else []
        else:
            continue
        for name in names:
            if name == "hiddenfield":
                yield node.lineno, ""
            elif name.startswith("hiddenfield."):
                yield node.lineno, name.split(".")[1]


def violations(source: str, path: Path) -> list[str]:
    """Return one line for every import that does not point to the left."""
    here = station(path)
    found = []
    for line, there in imported_stations(ast.parse(source), path):
        if there == here or there in COMMON:
            continue
        if there in RANK and (here in ("__init__", "__main__") or RANK.get(here, -1) > RANK[there]):
            continue
        if RANK.get(here) == len(STATIONS) - 1 and there in {"", "__version__"}:
            continue  # the last station sees the package as its users do
        found.append(
            f"{path.relative_to(PACKAGE)}:{line}: {here} may not import {there or 'the whole package'}"
        )
    return found


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_imports_go_left(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_every_module_has_a_station(path: Path) -> None:
    assert station(path) in {*RANK, *COMMON, "__init__", "__main__"}, (
        f"{path.relative_to(PACKAGE)} lies in no station of the data flow; they are STATIONS above"
    )


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_names_are_words(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    bad = [part for part in parts if not re.fullmatch(r"__(init|main)__|_?[a-z][a-z0-9]*(_[a-z0-9]+)*", part)]
    assert bad == []


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_modules_open_with_a_docstring_and_postponed_annotations(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module starts with a docstring that says what it is for"
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign) for node in ast.walk(tree))
    assert not defines or any(alias.name == "annotations" for node in futures for alias in node.names)


def test_every_third_party_import_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["molecules"], *extras["pandas"], *extras["pyg"]]
    declared = {re.match(r"[\w.-]+", line)[0].replace("-", "_") for line in lines}
    # The names under which they are imported; Triton comes with torch, llvmlite with the Numba that it fits, and
    # annotations do without jaxtyping.
    declared |= {"sklearn", "triton", "llvmlite", "jaxtyping", "hiddenfield"}
    imported = {
        name.split(".")[0]
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    }
    assert imported - declared - set(sys.stdlib_module_names) == set()


@pytest.mark.parametrize(
    ("where", "source", "allowed"),
    [
        ("data/structures.py", "from hiddenfield.ops import Topology", True),
        ("data/structures.py", "from ..ops.topology import Topology", True),
        ("data/structures.py", "from .. import errors", True),
        ("data/__init__.py", "from .structures import Structures", True),
        ("ops/topology.py", "from hiddenfield.data import Structures", False),
        ("ops/topology.py", "def f():\n    import hiddenfield.data.structures", False),
        ("ops/topology.py", "from ..data import Structures", False),
        ("ops/topology.py", "from .. import data", False),
        ("ops/topology.py", "import hiddenfield", False),
        ("inference/loopy_bp.py", "from hiddenfield.embedding import loopy_bp", False),
        ("cli/data.py", "import hiddenfield", True),
        ("report/plots.py", "import hiddenfield", False),
        ("errors.py", "from hiddenfield.ops import Topology", False),
        ("data/lazy.py", "import importlib\nimportlib.import_module('hiddenfield.cli')", False),
        ("__init__.py", "from hiddenfield.data import Structures", True),
    ],
)
def test_the_rule_itself(where: str, source: str, allowed: bool) -> None:
    assert (violations(source, PACKAGE / where) == []) is allowed
