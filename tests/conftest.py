"""What all the tests share: enforced shapes, one thread, hypothesis profiles, and where real data lies."""

from __future__ import annotations

import ast
import functools
import os
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import _array_types, _decorator, _import_hook

ROOT = Path(__file__).resolve().parents[1]


# -- shapes ------------------------------------------------------------------------------------------------
#
# In the tests, every annotated function and dataclass checks the types and shapes that it promises.
# Subprocesses (the command line, import times) run without, as users do. The hook of jaxtyping does this,
# with three adjustments.


def leave_kernels_alone() -> None:
    """Do not wrap what Numba or Triton compiles: they take the body, and a wrapper's body is the check."""
    unchecked = _import_hook._is_no_type_check

    def is_unchecked(decorator: ast.AST) -> bool:
        if isinstance(decorator, ast.Call):
            return is_unchecked(decorator.func)
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        return name in {"compiled", "subroutine", "njit", "jit"} or unchecked(decorator)

    _import_hook._is_no_type_check = is_unchecked


def solve_for_bounds() -> None:
    """Let ``"nodes+1"`` say what `nodes` is where nothing has said so before: pointers often come first."""
    check = _array_types._check_dims

    def check_after_solving(dims: Any, shape: Any, sizes: dict[str, int], arguments: Any) -> str:
        for dim, size in zip(dims, shape, strict=True):
            bound = re.fullmatch(r"(\w+)\+1", str(getattr(dim, "elem", "")))
            if bound:
                sizes.setdefault(bound[1], size - 1)
        return check(dims, shape, sizes, arguments)

    _array_types._check_dims = check_after_solving


def let_functions_refuse() -> None:
    """Where an argument breaks its annotation, give the function's own `HiddenfieldError` the first word.

    So the tests see the error that users see; a wrong argument that is not refused still fails the check.
    """
    check = _decorator.jaxtyped

    def checked(function: Any = _decorator._sentinel, **options: Any) -> Any:
        wrapped = check(function, **options)
        if not isinstance(function, types.FunctionType):
            return wrapped
        broken = f"checking the parameters of {function.__module__}.{function.__qualname__}."

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return wrapped(*arguments, **named)
            except jaxtyping.TypeCheckError as error:
                if broken not in str(error).splitlines()[0]:
                    raise
                refuse(function, arguments, named)
                raise

        return call

    _decorator.jaxtyped = jaxtyping.jaxtyped = checked


def refuse(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Call unchecked, and let through only the errors that the package raises on purpose."""
    from hiddenfield.errors import HiddenfieldError

    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        function(*arguments, **named)
    except HiddenfieldError as error:
        raise error from None
    except Exception:
        return
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


leave_kernels_alone()
solve_for_bounds()
let_functions_refuse()
# An int is accepted where a float is annotated, as type checkers do.
jaxtyping.install_import_hook(
    "hiddenfield", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)


# -- determinism -------------------------------------------------------------------------------------------

# Two-thread torch collapses on a busy two-core machine, and results should not depend on the machine.
torch.set_num_threads(1)

# Derandomized: a run that failed fails again. `HYPOTHESIS_PROFILE=explore` looks further afield.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    """Undo a test's change of the number of threads, so that the order of the tests does not matter."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


# -- data --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def data_path() -> Path:
    """Folder of the real data sets: ``$HIDDENFIELD_DATA``, or ``shared/data`` beside the repository."""
    given = os.environ.get("HIDDENFIELD_DATA")
    path = Path(given) if given else ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set HIDDENFIELD_DATA to the folder that holds graphs/")
    return path
