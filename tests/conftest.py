"""What all the tests share: enforced shapes, one thread, hypothesis profiles, and where real data lies."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]


# -- shapes ------------------------------------------------------------------------------------------------
#
# In the tests, the functions and dataclasses of every module that annotates shapes check the types and shapes that they
# promise; an int is accepted where a float is annotated, as type checkers do. Where a module has no shapes, the type
# checker says as much, and the checks would be half of the tests' time. Subprocesses (the command line, import times)
# run without, as users do. Triton compiles the source of a function and cannot do with a wrapper.


def checked_modules() -> list[str]:
    """Return the names of the package's modules that annotate shapes, without those that Triton compiles."""
    source = ROOT / "src"
    paths = [
        path
        for path in source.glob("hiddenfield/**/*.py")
        if not path.stem.startswith(("triton_", "__"))
        and re.search(r"\b(Bool|Float|Int|Shaped)\[", path.read_text(encoding="utf-8"))
    ]
    return [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]


jaxtyping.install_import_hook(
    checked_modules(), "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)


@pytest.fixture(autouse=True)
def _unchecked_where_input_is_bad(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave arguments of the wrong type or shape to the functions themselves in tests marked ``bad_input``."""
    if request.node.get_closest_marker("bad_input") is None:
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# -- determinism -------------------------------------------------------------------------------------------

# Two-thread torch collapses on a busy two-core machine, and results should not depend on the machine.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no line of progress, however long a busy machine takes: some tests compare standard error."""
    monkeypatch.setattr("hiddenfield.progress.FIRST_LINE", math.inf)


# What a shell starts in the background ignores Ctrl-C, and so would the tests of it and their processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
