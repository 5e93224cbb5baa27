"""Do Monte Carlo fits of exponential random graph models converge, and do their 95 % intervals hold the truth?

Networks are drawn from models with known weights and fitted by ``monte_carlo``, with the default settings. A row
counts the fits that converged, those without maximum (the data are at an edge: an observed count is the least possible)
and those called degenerate, and how many of the 95 % intervals of the converged fits hold the true weight, pooled over
weights and for each. With 200 networks and a true coverage of 95 % the observed one of a weight is within 92 and 98 %
(two standard errors). Fits without maximum have no intervals: where they are many, the coverage is of a selection.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.environment import main
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.models.relational import Network, fit_relational, sample_networks

CASES: tuple[tuple[tuple[str, ...], dict[str, float], int, tuple[float, ...]], ...] = (
    (("edge", "star2"), {}, 20, (-1.0, -0.1)),
    (("edge",), {"gwesp": 0.5}, 24, (-2.5, 0.5)),
    (("edge",), {"gwdegree": 0.5, "gwesp": 0.5}, 30, (-2.8, 0.5, 0.4)),
    (("edge", "triangle"), {}, 30, (-1.5, 0.05)),
    (("edge", "triangle"), {}, 20, (-1.8, 0.2)),
)


def make_scheme(features: tuple[str, ...], terms: dict[str, float]) -> RelationalScheme:
    """Return a scheme of ready features and terms with their decays."""
    scheme = graph_scheme(*features)
    for kind, decay in terms.items():
        scheme.term(kind, decay=decay)
    return scheme


def run(quick: bool = False, networks: int = 200) -> dict[str, Any]:
    """Fit as many networks of each model."""
    rows = []
    for features, terms, size, theta in CASES[: 2 if quick else None]:
        scheme, begun = make_scheme(features, terms), time.perf_counter()
        drawn = sample_networks(
            scheme,
            size,
            theta,
            samples=10 if quick else networks,
            burn_in=500,
            thin=100,
            keep_networks=True,
            seed=11,
        )
        assert drawn.networks is not None
        covered, ends = [], {"converged": 0, "edge": 0, "degenerate": 0, "other": 0}
        for matrix in drawn.networks[0]:
            network = Network({"vertex": size}, {"exist": np.argwhere(np.triu(matrix))})
            fit = fit_relational(scheme, network, method="monte_carlo")
            end = "converged" if fit.converged else "edge" if "at an edge" in fit.status else "other"
            ends["degenerate" if "degenerate" in fit.status else end] += 1
            if fit.converged:
                covered.append(np.abs(fit.theta - theta) < 1.959964 * fit.standard_errors)
        each = np.mean(covered, axis=0)
        names = list(scheme.features)
        rows.append(
            {
                "model": ", ".join(f"{n} {t:g}" for n, t in zip(names, theta, strict=True)),
                "vertices": size,
                "networks": len(drawn.networks[0]),
                **ends,
                "coverage": f"{100 * np.mean(covered):.1f} %",
                "by weight": ", ".join(f"{n} {100 * c:.1f}" for n, c in zip(names, each, strict=True)),
                "seconds per fit": (time.perf_counter() - begun) / len(drawn.networks[0]),
            }
        )
    return {"question": "coverage of Monte Carlo fits", "rows": rows}


if __name__ == "__main__":
    main(run)
