"""What all the tests share: enforced shapes, one thread, hypothesis profiles, and where real data lies."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from jaxtyping import _import_hook, install_import_hook

# Before anything imports the package: every annotated function and dataclass of it then checks the types and
# the shapes that it promises. Subprocesses (the command line, import times) run without, as users do.
# A Numba or Triton kernel is compiled from its own body, and a checked function's body is the check: the hook
# therefore leaves a function alone that is decorated as one, just as it does for typing.no_type_check.
KERNEL_DECORATORS = {"kernel", "njit", "jit"}
_unchecked = _import_hook._is_no_type_check


def _is_kernel(decorator: ast.AST) -> bool:
    if isinstance(decorator, ast.Call):
        return _is_kernel(decorator.func)
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name in KERNEL_DECORATORS or _unchecked(decorator)


_import_hook._is_no_type_check = _is_kernel
install_import_hook("hiddenfield", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]

# Two-thread torch collapses on a busy two-core machine, and results should not depend on the machine.
torch.set_num_threads(1)

# Derandomized: a run that failed fails again. `HYPOTHESIS_PROFILE=explore` looks further afield.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def data_path() -> Path:
    """Folder of the real data sets: ``$HIDDENFIELD_DATA``, or ``shared/data`` beside the repository."""
    given = os.environ.get("HIDDENFIELD_DATA")
    path = Path(given) if given else ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set HIDDENFIELD_DATA to the folder that holds graphs/")
    return path
