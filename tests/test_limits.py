"""Time limits and interrupts reach compiled loops."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from numba.core.errors import TypingError

from hiddenfield.data.build import from_edges
from hiddenfield.errors import TooLargeError
from hiddenfield.fields import from_factors, ising_grid
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.cycles import short_cycles
from hiddenfield.fields.graphs.elimination_order import elimination_order, interactions, split_variables
from hiddenfield.inference import infer
from hiddenfield.iteration import iterate
from hiddenfield.limits import OutOfTimeError, call_watched, check_time, seconds_left, time_limit
from hiddenfield.ops.compile import compiled, prange


@compiled(watched=True)
def spin(stop, rounds, out):  # type: ignore[no-untyped-def]
    """Count until told to stop."""
    stop[1] = 1
    while out[0] < rounds and stop[0] == 0:
        out[0] += 1


@compiled(watched=True)
def count_in_parts(stop, rounds, out):  # type: ignore[no-untyped-def]
    """Count in several parts until told to stop."""
    stop[1] = 1
    for part in prange(out.size):
        while out[part] < rounds and stop[0] == 0:
            out[part] += 1


def test_a_quick_loop_just_ends() -> None:
    out = np.zeros(1, np.int64)
    spin(10, out)
    assert out[0] == 10


def test_a_limit_ends_a_loop() -> None:
    out = np.zeros(1, np.int64)
    spin(1, out)
    start = time.monotonic()
    with time_limit(0.2), pytest.raises(OutOfTimeError):
        spin(2**62, out)
    assert time.monotonic() - start < 5.0


@pytest.mark.parametrize(("work", "ends"), [(1000, False), (20, True)])
def test_a_loop_that_will_not_end_in_time_is_given_up_early(work: int, ends: bool) -> None:
    done = []

    def creep(stop: np.ndarray) -> None:
        stop[1] = 1
        while not stop[0] and stop[2] < work:
            time.sleep(0.005)
            stop[2] += 1
        done.append(int(stop[2]))

    with time_limit(1.5 if ends else 1.0):
        if ends:
            call_watched(creep, (), work)
        else:
            with pytest.raises(OutOfTimeError, match=r"it would take about .* s more"):
                call_watched(creep, (), work)
            assert seconds_left() > 0
    assert (done[0] == work) == ends


def test_an_inner_limit_only_shortens() -> None:
    with time_limit(1.0), time_limit(100.0):
        assert seconds_left() <= 1.0


def test_ctrl_c_ends_a_loop() -> None:
    out = np.zeros(1, np.int64)
    spin(1, out)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        spin(2**62, out)
    assert time.monotonic() - start < 5.0
    count = int(out[0])
    time.sleep(0.05)
    assert int(out[0]) == count  # it has really stopped


def test_what_a_loop_raises_reaches_the_caller() -> None:
    with pytest.raises(TypingError):
        spin("many", np.zeros(1, np.int64))


def test_a_limit_ends_a_loop_on_several_threads() -> None:
    out = np.zeros(2, np.int64)
    count_in_parts(10, out)
    assert out.tolist() == [10, 10]
    with time_limit(0.2), pytest.raises(OutOfTimeError):
        count_in_parts(2**62, out)


def test_compiling_counts_against_no_limit() -> None:
    @compiled(watched=True)
    def count(stop, rounds, out):  # type: ignore[no-untyped-def]
        stop[1] = 1
        while out[0] < rounds and stop[0] == 0:
            out[0] += 1

    out = np.zeros(1, np.int64)
    with time_limit(0.02):  # less than compiling takes
        count(1000, out)
    assert out[0] == 1000


def test_an_iteration_ends_with_its_last_complete_step() -> None:
    def step(state: int) -> tuple[int, torch.Tensor]:
        if state == 3:
            raise OutOfTimeError("over")
        return state + 1, torch.ones(1)

    outcome = iterate(step, 0, tolerance=1e-6, max_iterations=10)
    assert outcome.state == 3
    assert outcome.iterations.tolist() == [3]
    with pytest.raises(OutOfTimeError):
        iterate(step, 3, tolerance=1e-6, max_iterations=10)


def dense(variables: int, factors: int) -> FactorGraph:
    """Return a random pairwise field."""
    random = np.random.default_rng(0)
    pairs = random.integers(0, variables, (factors, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return from_factors(pairs, random.normal(size=(len(pairs), 2, 2)), [2] * variables)


def test_every_phase_keeps_to_the_limit() -> None:
    field = dense(1500, 20_000)
    pairs = field.groups[0].scopes.numpy()
    pack = from_edges(pairs[:, 0], pairs[:, 1], node_ptr=[0, 1500])
    graph = interactions(field)
    order = np.random.default_rng(0).permutation(1500).tolist()
    phases = [
        lambda: short_cycles(pack, 8, most=10**12),
        lambda: elimination_order(graph, "min_fill"),
        lambda: split_variables(pairs.tolist(), np.full(1500, 2), order, 20.0),
        lambda: infer(field, "gibbs", sweeps=100_000),
    ]
    for phase in phases:
        with time_limit(0.05), pytest.raises(OutOfTimeError):
            phase()
    with time_limit(0.0), pytest.raises(OutOfTimeError):
        check_time()


def test_what_is_too_large_is_refused_at_once() -> None:
    field = ising_grid(300, 300, 0.3)
    infer(ising_grid(3, 3), "exact")
    with time_limit(20.0), pytest.raises(TooLargeError, match="treewidth"):
        infer(field, "exact", max_memory=1e9)  # took minutes


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_auto_keeps_to_its_limit_in_a_dense_field() -> None:
    infer(dense(30, 300), time_limit=0.5)
    start = time.monotonic()
    posterior = infer(dense(1500, 20_000), time_limit=0.5)
    assert posterior.converged.all() or "time limit" in posterior.note
    assert time.monotonic() - start < 10.0
