"""``hiddenfield version``."""

from __future__ import annotations

import importlib.metadata
import platform

import hiddenfield
from hiddenfield.cli.options import Json, emit

PACKAGES = ("torch", "numpy", "numba", "pyarrow", "scikit-learn", "rdkit", "torch-geometric")


def command(json: Json = False) -> None:
    """Print the version of hiddenfield, of Python and of the packages beneath it."""
    found = {"hiddenfield": hiddenfield.__version__, "python": platform.python_version()}
    result: dict[str, str | None] = {**found, **{name: _version(name) for name in PACKAGES}}
    emit(
        result, "\n".join(f"{name:<16}{version or 'not installed'}" for name, version in result.items()), json
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
