"""Are the published marginals of a problem right, where exact inference is out of reach?

``python -m benchmarks.judge linkage_15 398 [--data DIR] [--seconds 60]`` samples by random cutsets: hold few variables
fixed that make the rest narrow, draw all the rest exactly, and so on with others (Bidyuk and Dechter 2007). One chain
begins with each state of the named variable, at the most likely assignment that a search finds. Where chains agree with
one another and with ``relaxed``, and none agrees with what is published, the latter is wrong. Agreement is the score of
the competition, 1 minus the mean Hellinger distance of marginals.

Of linkage_15, for which no partition function was published, the two chains agree by 0.98 with one another and with
``relaxed``, and by 0.91 with the published marginals, which give probability 0 to the state of variable 398 that both
chains are in for more than 98 % of the time, wherever they begin (two cores, one minute per chain).
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import table
from benchmarks.uai import ROOT, problems, published_marginals
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.fields import read, read_evidence
from hiddenfield.fields.graphs.elimination_order import cut_to_width
from hiddenfield.fields.layout import flat_tables
from hiddenfield.inference import infer, map_state, sample
from hiddenfield.inference.cliques.plan import clique_plan, live_graph
from hiddenfield.inference.exact import run_plan

BITS = 18.0
"""Log2 of the joint states of the largest clique."""


def chain(field: Any, variable: int, start: int, seconds: float) -> tuple[np.ndarray, float]:
    """Return marginals of a chain that begins at a state of a variable, and the share of its time in that state."""
    random, end = np.random.default_rng(start), time.perf_counter() + seconds
    assignment = map_state(field.given({variable: start}), time_limit=seconds / 10).assignment
    graph, owner = live_graph(field, flat_tables(field))[2], field.state_variable
    state = torch.arange(len(owner)) - field.state_ptr[owner]
    total, there, done = np.zeros(len(owner)), 0, 0
    while time.perf_counter() < end:
        fixed, order = cut_to_width(graph, BITS, random)
        out = torch.from_numpy(fixed)[owner] & (state != assignment[owner])
        given = field.given(torch.where(out, -math.inf, 0.0).double())
        if end - time.perf_counter() < 0.75 * seconds:  # what comes before is left out
            total += run_plan(given, clique_plan(given, order=order)).log_marginals.exp().numpy()
            there, done = there + int(assignment[variable] == start), done + 1
        assignment = sample(given, 1, seed=int(random.integers(2**31)))[0]
    return total / max(done, 1), there / max(done, 1)


def score(field: Any, first: np.ndarray, second: np.ndarray) -> float:
    """Return 1 minus the mean Hellinger distance."""
    overlap = np.bincount(field.state_variable.numpy(), np.sqrt(np.maximum(first * second, 0.0)))
    return float(1 - np.sqrt(np.maximum(1 - overlap, 0.0)).mean())


def main() -> None:
    """Print how far everything agrees with everything else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem")
    parser.add_argument("variable", type=int)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each chain")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with tempfile.TemporaryDirectory() as folder:
        listed = problems(arguments.data, Path(folder))
        problem = next(each for each in listed if each.name == arguments.problem)
        field = read(problem.path).given(read_evidence(f"{problem.path}.evid"))
        published = published_marginals(problem)
    found = {"published": published} if published is not None else {}
    found["relaxed"] = infer(field, "relaxed", log2_states=14.0).log_marginals.exp().numpy()
    for state in range(int(field.cardinalities[arguments.variable])):
        marginals, share = chain(field, arguments.variable, state, arguments.seconds)
        found[f"from state {state}"] = marginals
        print(
            f"variable {arguments.variable} was in its first state {state} for {100 * share:.1f} % of the time"
        )
    rows = [
        {"agreement": name, **{other: score(field, mine, theirs) for other, theirs in found.items()}}
        for name, mine in found.items()
    ]
    print(table(rows))


if __name__ == "__main__":
    main()
