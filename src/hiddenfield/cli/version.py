"""``hiddenfield version``."""

from __future__ import annotations

import platform

import hiddenfield
from hiddenfield.cli.options import Json, emit
from hiddenfield.machine import version

PACKAGES = ("torch", "numpy", "numba", "pyarrow", "scikit-learn", "rdkit", "torch-geometric")


def command(json: Json = False) -> None:
    """Print the version of hiddenfield, of Python and of the packages beneath it."""
    result: dict[str, str | None] = {
        "hiddenfield": hiddenfield.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
    lines = [f"{name:<16}{found or 'not installed'}" for name, found in result.items()]
    emit(result, "\n".join(lines), json)
