"""Do 95 % intervals of Monte Carlo fits hold the truth, and do the fits converge?

Networks are drawn from models with known weights, 100 sweeps apart, and fitted by ``monte_carlo`` with its default
settings. A row of the result counts the fits that converged, those without maximum (the data are at an edge: an
observed count is the least or the most possible) and those called degenerate, and how many of the 95 % intervals of the
converged fits hold the true weight, for each weight and over all. The standard error of a coverage is 1 % with 500
networks. Fits without maximum have no interval: where they are many, the coverage is of a selection.

``python -m benchmarks.coverage --jobs 16 --networks 500`` fits the networks in as many processes, one thread each,
keeps the rows in benchmarks/networks.json and writes them into docs/networks.md; some 15 minutes on 16 cores. With
``--minutes`` no fit is begun after so many, and there are fewer networks. ``--quick`` fits ten networks of the first
two models and writes nothing; ``--only mutual,triangle`` chooses models.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.environment import table
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


def fit(case: Case, first: int, networks: int = CHUNK) -> list[dict[str, Any]]:
    """Draw and fit a few networks of a model; say how each fit ended, and how far weights are off in their errors."""
    scheme, found = case.scheme(), []
    for number, network in enumerate(case.draw(networks, seed=first), start=first):
        begun = time.perf_counter()
        one = fit_relational(scheme, network, method="monte_carlo", check=False, seed=number)
        end = "converged" if one.converged else "edge" if "at an edge" in one.status else "other"
        found.append(
            {
                "end": "degenerate" if "degenerate for these data" in one.status else end,
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
        "by weight": ", ".join(f"{n} {100 * c:.1f}" for n, c in zip(names, held.mean(0), strict=True)),
        "seconds per fit": float(np.mean([one["seconds"] for one in fits])),
    }


def run(
    cases: Sequence[Case] = CASES, *, networks: int = 500, jobs: int = 1, minutes: float = math.inf
) -> list[dict[str, Any]]:
    """Fit as many networks of each model, in `jobs` processes; those that are not begun in time are left out."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):  # for the processes that are to come
        os.environ[name] = "1"
    tasks = [(case, first) for first in range(0, networks, CHUNK) for case in cases]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(fit, case, first, min(CHUNK, networks - first)) for case, first in tasks]
        wait(futures, None if minutes == math.inf else 60 * minutes)
        cancelled = [future.cancel() for future in reversed(futures)][::-1]
    fits: dict[str, list[dict[str, Any]]] = {case.name: [] for case in cases}
    for (case, _), future, left_out in zip(tasks, futures, cancelled, strict=True):
        fits[case.name] += [] if left_out else future.result()
    return [row(case, fits[case.name]) for case in cases]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="see the docstring of the module")
    parser.add_argument("--quick", action="store_true", help="ten networks of two models; nothing is written")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--networks", type=int, default=500, help="networks of each model")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fit after so many")
    parser.add_argument("--only", default="", help="models by name, with commas; the rows of others are kept")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if not arguments.only or case.name in arguments.only.split(",")]
    if arguments.quick:
        print(table(run(chosen[:2], networks=10, jobs=arguments.jobs)))
        return
    rows = run(chosen, networks=arguments.networks, jobs=arguments.jobs, minutes=arguments.minutes)
    print(table(rows))
    from benchmarks.networks import RESULTS, keep

    kept = json.loads(RESULTS.read_text()).get("coverage", {}).get("rows", [])
    found = {each["model"]: each for each in [*kept, *rows]}
    keep("coverage", list(found.values()))


if __name__ == "__main__":
    main()
