"""How fast is belief propagation: nanoseconds per message, and seconds until no probability changes by 1e-6?

Ising 100 x 100 (fields N(0, 0.5), couplings N(0, 0.4); 39,600 messages per sweep) and Potts 50 x 50 with 10 states
(log tables N(0, 1), one per edge; 9,800 messages). Ours: the parallel schedule on one core (CPU time) and two (wall
time), the sequential and residual schedules, and the same in plain torch. Compared with, where installed: PGMax in
single precision, run by the interpreter that ``HIDDENFIELD_PGMAX_PYTHON`` names, for as many sweeps as ours needed
(it has no test for convergence); pyAgrum's loopy propagation on the field as a Bayesian network with observed
children; and pgmpy's Mplp, which finds assignments only (both on 20 x 20: they do not finish larger grids). All
alternate; best of several runs. The deviation is the largest difference of a marginal from double precision at 1e-9;
*times ours* is the time per message relative to our parallel schedule in single precision.

Each special case that the code keeps has a row without it: *general loops* is the parallel schedule without the loops
for pairs of one shape, *then torch* the whole without the compiled loops for what follows the iteration (verification,
beliefs, free energy), and exp and log of the C library stand beside the polynomials in `ops/vector_math.py`.

Last, 10,000 Hueckel molecules as pairwise fields of 8 states, tables by bond: in one batch, and one at a time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield.datasets import huckel
from hiddenfield.fields import FactorGraph, ising_grid, pairwise_field, potts_grid
from hiddenfield.inference import infer
from hiddenfield.inference.messages import free_energy, passing as passing_module
from hiddenfield.inference.messages.passing import MessagePassing, MessagePlan
from hiddenfield.inference.messages.propagation import make_iteration
from hiddenfield.inference.messages.schedules import Iteration, Parallel
from hiddenfield.ops.compile import compiled
from hiddenfield.ops.vector_math import fast_exp, fast_log

RIVAL = Path(__file__).with_name("propagation_rival.py")
TOLERANCE = 1e-6
AFTERWARDS = free_energy, passing_module


def problems(quick: bool) -> dict[str, FactorGraph]:
    """Return the two grids in double precision."""
    random = np.random.default_rng(0)
    large, small = (30, 12) if quick else (100, 50)
    return {
        f"Ising {large} x {large}": ising_grid(
            large, large, lambda n: random.normal(0, 0.4, n), lambda n: random.normal(0, 0.5, n)
        ),
        f"Potts {small} x {small}, 10 states": potts_grid(
            small,
            small,
            10,
            random.normal(size=(2 * small * (small - 1), 10, 10)),
            random.normal(size=(small * small, 10)),
        ),
    }


def sweeps(field: FactorGraph, backend: str, threads: int) -> Callable[[], float]:
    """Return a call that times ten parallel sweeps: CPU seconds of one on one thread, wall seconds on more."""
    passing = MessagePassing(field)
    if backend == "general":
        iteration: Iteration = Parallel(MessagePlan(passing), 0.0, TOLERANCE)
    else:
        iteration = make_iteration(passing, "parallel", backend, 0.0, TOLERANCE)
    state = iteration.start(None)
    clock = time.process_time if threads == 1 else time.perf_counter

    def call() -> float:
        nonlocal state
        torch.set_num_threads(threads)
        start = clock()
        for _ in range(10):
            state, _ = iteration.step(state)
        taken = (clock() - start) / 10
        torch.set_num_threads(1)
        return taken

    return call


def to_tolerance(
    field: FactorGraph, without: tuple[ModuleType, ...] = (), **options: Any
) -> Callable[[], tuple[float, Any]]:
    """Return a call that times inference, beliefs and free energy included, without the loops of some modules."""

    def call() -> tuple[float, Any]:
        with contextlib.ExitStack() as stack:
            for module in without:
                stack.enter_context(mock.patch.object(module, "use_compiled", return_value=False))
            start = time.process_time()
            posterior = infer(field, "loopy_bp", tolerance=TOLERANCE, **options)
            return time.process_time() - start, posterior

    return call


class Pgmax:
    """PGMax in its own process; nothing where it is not installed."""

    def __init__(self, field: FactorGraph, folder: Path) -> None:
        self.process: subprocess.Popen[str] | None = None
        python = os.environ.get("HIDDENFIELD_PGMAX_PYTHON")
        if python is None:
            print("PGMax left out: HIDDENFIELD_PGMAX_PYTHON names no interpreter that has it")
            return
        self.path = folder / f"problem{field.num_variables}.npz"
        group = field.groups[0]
        unary = field.log_unary.reshape(field.num_variables, -1)
        np.savez(self.path, scopes=group.scopes, unary=unary, tables=group.expanded())
        command = [python, str(RIVAL), str(self.path)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            print(f"PGMax left out: {' '.join(command)} failed")
            self.process = None

    def run(self, count: int) -> float:
        """Return the CPU seconds of so many sweeps."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def marginals(self) -> np.ndarray:
        """End the process and return the marginals of its last run."""
        assert self.process is not None
        self.process.communicate("\n")
        return np.load(self.path.with_suffix(".npy"))


def compare(name: str, field: FactorGraph, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Measure all candidates on one grid, alternating."""
    single = field.to(torch.float32)
    messages = 2 * field.num_factors
    truth = infer(field, "loopy_bp", tolerance=1e-9).marginals.numpy()
    ours: dict[str, tuple[FactorGraph, str, str]] = {
        "parallel, float32": (single, "numba", "parallel"),
        "parallel, float64": (field, "numba", "parallel"),
        "parallel in torch, float32": (single, "torch", "parallel"),
        "sequential, float32": (single, "numba", "sequential"),
        "residual, float32": (single, "numba", "residual"),
    }
    one = {key: sweeps(f, backend, 1) for key, (f, backend, kind) in ours.items() if kind == "parallel"}
    one["general loops, float32"] = sweeps(single, "general", 1)
    two = {key: sweeps(f, backend, 2) for key, (f, backend, kind) in ours.items() if kind == "parallel"}
    full = {key: to_tolerance(f, backend=backend, schedule=kind) for key, (f, backend, kind) in ours.items()}
    full["parallel, float32, then torch"] = to_tolerance(single, AFTERWARDS)
    results = {key: call() for key, call in full.items()}  # compiles, too
    needed = int(results["parallel, float32"][1].iterations)
    pgmax = Pgmax(field, folder)
    least: dict[tuple[str, str], float] = {}

    def note(key: str, what: str, seconds: float) -> None:
        least[key, what] = min(seconds, least.get((key, what), np.inf))

    for _ in range(repeats):
        for key, call in one.items():
            note(key, "one", call())
        if pgmax.process:
            note("PGMax, float32", "long", pgmax.run(120))
            note("PGMax, float32", "short", pgmax.run(20))
            note("PGMax, float32", "full", pgmax.run(needed))
        for key, call in two.items():
            note(key, "two", call())
        for key, timed in full.items():
            note(key, "full", timed()[0])
    rows = [
        {
            "problem": name,
            "by": key,
            "one core, ns/message": _scaled(least.get((key, "one")), messages),
            "two cores, ns/message": _scaled(least.get((key, "two")), messages),
            "to 1e-6, s": least[key, "full"],
            "iterations": int(posterior.iterations),
            "deviation": float(np.abs(posterior.marginals.numpy() - truth).max()),
        }
        for key, (_, posterior) in results.items()
    ]
    key = "general loops, float32"
    slower = least[key, "one"] / least["parallel, float32", "one"]
    cost = _scaled(least[key, "one"], messages)
    rows.append({"problem": name, "by": key, "one core, ns/message": cost, "times ours": slower})
    if pgmax.process:
        key = "PGMax, float32"
        per_sweep = (least[key, "long"] - least[key, "short"]) / 100
        deviation = float(np.abs(pgmax.marginals() - truth).max())
        rows.append(
            {
                "problem": name,
                "by": key,
                "one core, ns/message": _scaled(per_sweep, messages),
                "to 1e-6, s": least[key, "full"],
                "iterations": needed,
                "deviation": deviation,
                "times ours": per_sweep / least["parallel, float32", "one"],
            }
        )
    return rows


def _scaled(seconds: float | None, messages: int) -> float | None:
    return None if seconds is None else 1e9 * seconds / messages


def agrum(side: int, states: int) -> dict[str, Any]:
    """Time pyAgrum's loopy propagation: every factor becomes an observed child of its two variables."""
    import pyagrum as gum

    random = np.random.default_rng(0)
    field = potts_grid(
        side,
        side,
        states,
        random.normal(size=(2 * side * (side - 1), states, states)),
        random.normal(size=(side * side, states)),
    )
    network = gum.BayesNet()
    names = [f"v{v}" for v in range(field.num_variables)]
    for name, own in zip(names, field.log_unary.reshape(-1, states).softmax(1).numpy(), strict=True):
        network.add(gum.LabelizedVariable(name, name, states))
        network.cpt(name)[:] = own
    group = field.groups[0]
    evidence = {}
    for number, ((first, second), table) in enumerate(
        zip(group.scopes.tolist(), (group.log_tables - group.log_tables.amax()).exp().numpy(), strict=True)
    ):
        child = f"f{number}"
        network.add(gum.LabelizedVariable(child, child, 2))
        network.addArc(names[first], child)
        network.addArc(names[second], child)
        cpt = network.cpt(child)
        for i in range(states):
            for j in range(states):
                cpt[{names[first]: i, names[second]: j}] = [1 - table[i, j], table[i, j]]
        evidence[child] = 1
    engine = gum.LoopyBeliefPropagation(network)
    engine.setEvidence(evidence)
    engine.setMaxIter(20)
    engine.setEpsilon(1e-12)
    start = time.process_time()
    engine.makeInference()
    seconds = time.process_time() - start
    each = seconds / max(1, engine.nbrIterations())
    return {
        "problem": f"Potts {side} x {side}, {states} states",
        "by": "pyAgrum, as a Bayesian network",
        "one core, ns/message": _scaled(each, 2 * field.num_factors),
    }


def mplp(side: int) -> dict[str, Any]:
    """Time pgmpy's Mplp on an Ising grid: its update for assignments, as it has none for marginals."""
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.inference import Mplp
    from pgmpy.models import DiscreteMarkovNetwork

    random = np.random.default_rng(0)
    field = ising_grid(side, side, lambda n: random.normal(0, 0.4, n), lambda n: random.normal(0, 0.5, n))
    network = DiscreteMarkovNetwork()
    names = [f"v{v}" for v in range(field.num_variables)]
    network.add_nodes_from(names)
    group = field.groups[0]
    for name, own in zip(names, field.log_unary.reshape(-1, 2).exp().numpy(), strict=True):
        network.add_factors(DiscreteFactor([name], [2], own))
    for (first, second), table in zip(group.scopes.tolist(), group.expanded().exp().numpy(), strict=True):
        network.add_edge(names[first], names[second])
        network.add_factors(DiscreteFactor([names[first], names[second]], [2, 2], table))
    engine = Mplp(network)
    count = 10
    start = time.process_time()
    engine.map_query(init_iter=count, later_iter=1, dual_threshold=0.0, tighten_triplet=False)
    each = (time.process_time() - start) / count
    return {
        "problem": f"Ising {side} x {side}",
        "by": "pgmpy Mplp (assignments only)",
        "one core, ns/message": _scaled(each, 2 * field.num_factors),
    }


@compiled(fast=True)
def by_polynomials(values: np.ndarray, out: np.ndarray) -> None:
    """Take exponentials, and logarithms of one plus those, by polynomials."""
    for i in range(values.size):
        out[i] = fast_exp(values[i])
    for i in range(values.size):
        out[i] = fast_log(out[i] + values.dtype.type(1))


@compiled(fast=True)
def by_library(values: np.ndarray, out: np.ndarray) -> None:
    """Do it by the C library."""
    for i in range(values.size):
        out[i] = math.exp(values[i])
    for i in range(values.size):
        out[i] = math.log(out[i] + values.dtype.type(1))


def transcendentals(repeats: int) -> list[dict[str, Any]]:
    """Time exp and log of 10,000 numbers in single precision; a row's time is that of one of each."""
    values = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    results = {loop: np.empty_like(values) for loop in (by_polynomials, by_library)}
    best = dict.fromkeys(results, math.inf)
    for _ in range(10 * repeats):
        for loop, out in results.items():
            start = time.process_time()
            for _ in range(20):
                loop(values, out)
            best[loop] = min(best[loop], (time.process_time() - start) / 20)
    exact = np.log1p(np.exp(values.astype(np.float64)))
    return [
        {
            "problem": "exp and log of a number",
            "by": loop.__name__.replace("_", " "),
            "one core, ns/message": 1e9 * best[loop] / values.size,
            "deviation": float(np.abs(out - exact).max()),
            "times ours": None if loop is by_polynomials else best[loop] / best[by_polynomials],
        }
        for loop, out in results.items()
    ]


def molecules(quick: bool, repeats: int) -> list[dict[str, Any]]:
    """Time a batch of molecules against one molecule at a time."""
    count, few = (500, 50) if quick else (10_000, 200)
    pack = huckel(count)
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randn(pack.total_nodes, 8, generator=generator)
    bonds = torch.randn(4, 8, 8, generator=generator)
    batch = pairwise_field(pack, nodes, bonds, arc_label="bond")
    ptr = pack.node_ptr.tolist()
    each = [
        pairwise_field(pack[n : n + 1], nodes[ptr[n] : ptr[n + 1]], bonds, arc_label="bond")
        for n in range(few)
    ]
    batch_time = torch_time = single_time = np.inf
    for _ in range(repeats):
        seconds, together = to_tolerance(batch)()
        batch_time = min(batch_time, seconds / count)
        torch_time = min(torch_time, to_tolerance(batch, AFTERWARDS)()[0] / count)
        start = time.process_time()
        alone = [infer(field, "loopy_bp", tolerance=TOLERANCE) for field in each]
        single_time = min(single_time, (time.process_time() - start) / few)
    states = int(ptr[few]) * 8
    deviation = (
        torch.cat([p.log_marginals for p in alone]).exp() - together.log_marginals[:states].exp()
    ).abs()
    name = f"{count:,} molecules, 8 states"
    return [
        {
            "problem": name,
            "by": "one at a time",
            "to 1e-6, s": single_time * count,
            "times ours": single_time / batch_time,
        },
        {
            "problem": name,
            "by": "in one batch, then torch",
            "to 1e-6, s": torch_time * count,
            "times ours": torch_time / batch_time,
        },
        {
            "problem": name,
            "by": "in one batch",
            "to 1e-6, s": batch_time * count,
            "iterations": int(together.iterations.max()),
            "deviation": float(deviation.max()),
        },
    ]


def run(quick: bool = False) -> dict[str, Any]:
    """Measure all of it."""
    torch.set_num_threads(1)
    repeats = 2 if quick else 7
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, field in problems(quick).items():
            rows += compare(name, field, Path(folder), repeats)
        if importlib.util.find_spec("pyagrum"):
            rows += [agrum(8 if quick else 20, states) for states in (2, 10)]
        if importlib.util.find_spec("pgmpy"):
            rows.append(mplp(6 if quick else 20))
        rows += transcendentals(repeats)
        rows += molecules(quick, repeats)
    columns = (
        *("problem", "by", "one core, ns/message", "two cores, ns/message", "to 1e-6, s"),
        *("iterations", "deviation", "times ours"),
    )
    return {"rows": [{column: row.get(column) for column in columns} for row in rows]}


if __name__ == "__main__":
    main(run)
