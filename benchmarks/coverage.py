"""Do 95 % intervals of Monte Carlo fits hold the truth, and do the fits converge?

Networks are drawn from models with known weights, 100 sweeps apart, and fitted by ``monte_carlo`` with its default
settings. A row of the result counts the fits that converged, those without maximum (the data are at an edge: an
observed count is the least or the most possible) and those called degenerate, and how many of the 95 % intervals of the
converged fits hold the true weight, for each weight and over all. The standard error of a coverage is 1 % with 500
networks. Fits without maximum have no interval: where they are many, the coverage is of a selection.

``python -m benchmarks.coverage --jobs 16 --networks 500`` fits the networks in as many processes, one thread each, some
five minutes on 16 cores, and writes each fit as a line of out/coverage.jsonl as it ends (``--out`` names another file).
Fits already there are not done again, so an interrupted run goes on where it was; with ``--minutes`` no fit is begun
after so many. Networks are numbered: those of a second machine are made others by ``--first 1000``. ``--page FILE ...``
fits nothing: it counts the fits of one or more such files, keeps the rows in benchmarks/networks.json and writes
docs/networks.md. ``--only mutual,triangle`` chooses models.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment, table
from benchmarks.networks import ROOT, keep
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.models.relational import Network, fit_relational, sample_networks
from hiddenfield.models.relational.sampling import as_drawn

QUANTILE = 1.959964
CHUNK = 5
"""Networks that a process fits at a time."""


@dataclass(frozen=True)
class Case:
    """A model with known weights.

    Parameters
    ----------
    name, size, theta
        What it is called, the number of vertices, and the weights.
    features, terms
        Ready features, and terms with their decays.
    colors
        Number of colours of the vertices, by turns; the last feature is then an edge between two of one colour.
    directed
        Whether it has arcs and mutual pairs instead of edges.
    """

    name: str
    size: int
    theta: tuple[float, ...]
    features: tuple[str, ...] = ("edge",)
    terms: dict[str, float] = field(default_factory=dict)
    colors: int = 0
    directed: bool = False

    def scheme(self) -> RelationalScheme:
        """Return the model's scheme."""
        if self.directed:
            scheme = RelationalScheme()
            vertex = scheme.type("vertex")
            arc = scheme.attribute("exist", scheme.ordered(vertex, vertex))
            scheme.feature("arc", lambda a, b: arc[a, b])
            scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
            return scheme
        scheme = graph_scheme(*self.features, colors=self.colors)
        for kind, decay in self.terms.items():
            scheme.term(kind, decay=decay)
        return scheme

    def draw(self, networks: int, seed: int) -> list[Network]:
        """Draw networks from it."""
        scheme = self.scheme()
        values = {"color": np.arange(self.size) % self.colors} if self.colors else {}
        empty = Network({"vertex": self.size}, {"exist": np.zeros((0, 2), dtype=np.int64)}, values)
        drawn = sample_networks(
            scheme,
            self.size,
            self.theta,
            samples=networks,
            burn_in=500,
            thin=100,
            network=empty,
            keep_networks=True,
            seed=seed,
        )
        return as_drawn(scheme, drawn, empty)


CASES = (
    Case("edge", 20, (-1.5,)),
    Case("star2", 20, (-1.0, -0.1), ("edge", "star2")),
    Case("gwesp", 24, (-2.5, 0.5), terms={"gwesp": 0.5}),
    Case("gwdegree", 30, (-2.8, 0.5, 0.4), terms={"gwdegree": 0.5, "gwesp": 0.5}),
    Case("triangle", 30, (-1.5, 0.05), ("edge", "triangle")),
    Case("homophily", 30, (-2.2, 1.0), colors=3),
    Case("clustered homophily", 30, (-2.2, 0.1, 0.8), ("edge", "triangle"), colors=3),
    Case("mutual", 20, (-1.8, 1.2), directed=True),
)


def fit(case: Case, first: int, count: int, done: frozenset[int], end: float) -> list[dict[str, Any]]:
    """Draw and fit a few networks of a model but for those done, until a time; say how each fit ended."""
    scheme, found = case.scheme(), []
    drawn = case.draw(count, seed=first) if time.time() < end else []
    for number, network in enumerate(drawn, start=first):
        if number in done or time.time() > end:
            continue
        begun = time.perf_counter()
        one = fit_relational(scheme, network, method="monte_carlo", check=False, seed=number)
        how = "converged" if one.converged else "edge" if "at an edge" in one.status else "other"
        found.append(
            {
                "case": case.name,
                "number": number,
                "end": "degenerate" if "degenerate for these data" in one.status else how,
                "off": ((one.theta - case.theta) / one.standard_errors).tolist() if one.converged else None,
                "seconds": time.perf_counter() - begun,
            }
        )
    return found


def row(case: Case, fits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of a model in the table."""
    off = np.array([one["off"] for one in fits if one["off"] is not None]).reshape(-1, len(case.theta))
    held, names = np.abs(off) < QUANTILE, list(case.scheme().features)
    ends = [one["end"] for one in fits]
    return {
        "model": ", ".join(f"{n} {t:g}" for n, t in zip(names, case.theta, strict=True)),
        "vertices": case.size,
        "networks": len(fits),
        **{end: ends.count(end) for end in ("converged", "edge", "degenerate", "other")},
        "coverage": f"{100 * held.mean():.1f} %",
        "standard error": f"{100 * held.mean(1).std() / math.sqrt(len(off)):.1f} %",
        "by weight": ", ".join(f"{n} {100 * c:.1f}" for n, c in zip(names, held.mean(0), strict=True)),
        "seconds per fit": float(np.mean([one["seconds"] for one in fits])),
    }


def read(paths: Sequence[Path]) -> tuple[dict[str, Any], dict[str, dict[int, dict[str, Any]]]]:
    """Return the machine of the first file, and the fits of all, by model and number."""
    machine: dict[str, Any] = {}
    fits: dict[str, dict[int, dict[str, Any]]] = {case.name: {} for case in CASES}
    for path in paths:
        for line in path.read_text().splitlines():
            found = json.loads(line)
            if "environment" in found:
                machine = machine or found["environment"]
            else:
                fits[found["case"]][found["number"]] = found
    return machine, fits


def run(cases: Sequence[Case], out: Path, networks: range, jobs: int, end: float) -> None:
    """Fit the networks of each model in `jobs` processes, and write each chunk when it is done."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):  # for the processes that are to come
        os.environ[name] = "1"
    done = read([out])[1] if out.exists() else {case.name: {} for case in cases}
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file, ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        file.write(json.dumps({"environment": environment()}) + "\n")
        futures = [
            pool.submit(fit, case, first, min(CHUNK, networks.stop - first), frozenset(done[case.name]), end)
            for first in networks[::CHUNK]
            for case in cases
        ]
        for future in as_completed(futures):
            file.writelines(json.dumps(one) + "\n" for one in future.result())
            file.flush()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="see the docstring of the module")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--networks", type=int, default=500, help="networks of each model")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fit after so many")
    parser.add_argument("--only", default="", help="models by name, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "coverage.jsonl", help="file of the fits")
    parser.add_argument("--page", type=Path, nargs="+", help="fit nothing; write the page from these files")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if not arguments.only or case.name in arguments.only.split(",")]
    if not arguments.page:
        networks = range(arguments.first, arguments.first + arguments.networks)
        run(chosen, arguments.out, networks, arguments.jobs, time.time() + 60 * arguments.minutes)
    machine, fits = read(arguments.page or [arguments.out])
    rows = [row(case, list(fits[case.name].values())) for case in CASES if fits[case.name]]
    print(table(rows))
    if arguments.page:
        keep("coverage", rows, machine)


if __name__ == "__main__":
    main()
