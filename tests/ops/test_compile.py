"""Kernels: compiled late, with as many threads as PyTorch has, with or without a cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import hiddenfield
from hiddenfield.ops.compile import PARALLEL_WORK, as_array, compiled, prange
from hiddenfield.ops.dispatch import HUGE_PAGE, Implementations, empty

SOURCE = Path(hiddenfield.__file__).resolve().parents[1]


@compiled
def _double(values, out):
    for place in prange(values.size):
        out[place] = 2 * values[place]


def python(code, **variables):
    """Run a program in a fresh interpreter and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **variables}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_ops_does_not_load_numba():
    code = (
        "import sys, hiddenfield.ops; print([name for name in ('numba', 'llvmlite') if name in sys.modules])"
    )
    assert python(code) == "[]"


def test_the_reference_runs_without_numba():
    code = """
        import sys, torch
        from hiddenfield.ops import Topology, gather_sum
        gather_sum(torch.ones(1, 1, dtype=torch.float16), Topology(torch.tensor([0]), torch.tensor([0, 1])))
        print('numba' in sys.modules)
    """
    assert python(code) == "False"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", [0, PARALLEL_WORK])
def test_a_loop_runs_whatever_the_threads(threads, work):
    torch.set_num_threads(threads)
    values, out = np.arange(1000.0), np.empty(1000)
    _double(values, out, work=work)
    assert np.array_equal(out, 2 * values)


def test_numbas_own_number_of_threads_is_left_alone():
    import numba

    before = numba.get_num_threads()
    torch.set_num_threads(2)
    _double(np.arange(10.0), np.empty(10))
    assert numba.get_num_threads() == before


def test_many_threads_may_call_at_once():
    torch.set_num_threads(2)
    values = np.arange(100_000.0)
    start = threading.Barrier(4)

    def call(factor):
        out = np.empty_like(values)
        start.wait()
        for _ in range(5):
            _double(factor * values, out)
        return np.array_equal(out, 2 * factor * values)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(1, 5)))


def test_a_forked_child_runs_on_one_thread():
    code = """
        import os, numpy as np, torch
        from hiddenfield.ops import Topology, gather_sum
        torch.set_num_threads(2)
        topology = Topology(torch.zeros(4000, dtype=torch.int64), torch.arange(4001))
        values = torch.ones(4000, 16)
        before = gather_sum(values, topology)
        child = os.fork()
        if child == 0:
            # Compared by NumPy: PyTorch's own threads are not there in a child either.
            os._exit(0 if np.array_equal(gather_sum(values, topology).numpy(), before.numpy()) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert python(code) == "0"


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch):
    import numba

    calls = []
    njit = numba.njit

    def without_cache(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        calls.append(options)
        return njit(**options)

    monkeypatch.setattr(numba, "njit", without_cache)
    fresh = compiled(_double.function)
    out = np.empty(3)
    fresh(np.arange(3.0), out, work=3)
    assert out.tolist() == [0, 2, 4]
    assert len(calls) == 1


def test_the_cache_on_disk_keeps_both_variants(tmp_path):
    code = """
        import torch
        from hiddenfield.ops import segment_sum
        rows = torch.ones(40_000)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert segment_sum(rows, torch.tensor([0, 40_000])).item() == 40_000
    """
    for _ in range(2):  # compiles, then loads
        python(code, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_NUM_THREADS="2")
    names = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")}
    assert names == {"segments._sum_loop_parallel", "segments._sum_loop_serial"}


def test_only_plain_functions_become_loops():
    with pytest.raises(TypeError, match="plain Python function"):
        compiled(len)


def test_arrays_are_views_where_they_can_be():
    tensor = torch.zeros(3, 2, requires_grad=True)
    as_array(tensor)[0, 0] = 7
    assert tensor[0, 0].item() == 7
    assert as_array(tensor.T).flags.c_contiguous


def test_dispatch_picks_by_device_and_dtype():
    op = Implementations(reference=lambda x: "reference", cpu=lambda x: "cpu", cuda=lambda x: "cuda")
    assert op(torch.zeros(1)) == "cpu"
    assert op(torch.zeros(1, dtype=torch.float16)) == "reference"
    assert op(torch.zeros(1, device="meta")) == "reference"
    assert Implementations(reference=lambda x: "reference")(torch.zeros(1)) == "reference"


def test_large_results_are_allocated_like_small_ones():
    like = torch.zeros(1, dtype=torch.float64)
    for rows in (0, 1, HUGE_PAGE):
        out = empty((rows, 4), like)
        assert out.shape == (rows, 4)
        assert out.dtype == torch.float64
        out.fill_(1)
        assert out.sum() == 4 * rows


def test_a_cache_of_a_version_with_other_modules_is_not_read(tmp_path):
    loop = """
        from hiddenfield.ops.compile import compiled

        @compiled
        def total(pair, out):
            out[0] = pair.first + pair.second
    """
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    first: float\n    second: float\n"
    code = """
        import numpy as np
        import loop
        from {module} import Pair
        out = np.zeros(1)
        loop.total(Pair(1.0, 2.0), out, work=1)
        print(out[0])
    """
    (tmp_path / "loop.py").write_text(textwrap.dedent(loop))
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{SOURCE}:{tmp_path}"}
    for module in ("old_home", "new_home"):
        (tmp_path / f"{module}.py").write_text(pair)
        assert python(code.format(module=module), **variables) == "3.0"
        (tmp_path / f"{module}.py").unlink()


SHARED = """
    import sys
    sys.path.insert(0, {folder!r})
    import numpy as np
    from hiddenfield.ops.compile import told_of_compiling
    import loops
    told = []
    with told_of_compiling(lambda: told.append(1)):
        out = np.empty(3)
        loops.scaled(np.arange(3.0), out, work=1)
    print(len(told), out.tolist())
"""
LOOPS = """
from hiddenfield.ops.compile import compiled, prange, subroutine
FACTOR = {factor}
@subroutine
def times(value):
    return FACTOR * value
@compiled
def scaled(values, out):
    for place in prange(values.size):
        out[place] = times(values[place])
"""


def test_environments_share_what_is_compiled(tmp_path):
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}
    for number, factor, compiles, result in (
        (1, 2.0, 1, [0.0, 2.0, 4.0]),
        (2, 2.0, 0, [0.0, 2.0, 4.0]),  # the same code elsewhere, of another date
        (3, 3.0, 1, [0.0, 3.0, 6.0]),  # another constant of a subroutine
    ):
        folder = tmp_path / f"environment{number}"
        folder.mkdir()
        (folder / "loops.py").write_text(LOOPS.format(factor=factor))
        assert python(SHARED.format(folder=str(folder)), **variables) == f"{compiles} {result}"
    # Where nothing can be written there, it is compiled all the same.
    (tmp_path / "file").write_text("")
    variables["XDG_CACHE_HOME"] = str(tmp_path / "file")
    found = python(SHARED.format(folder=str(tmp_path / "environment1")), **variables)
    assert found.endswith("[0.0, 2.0, 4.0]")
