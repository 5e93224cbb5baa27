"""Can the diagnostics of Gibbs sampling be believed: is "converged" right, and do the standard errors hold?

Every run of ``gibbs`` by ``benchmarks.uai`` is compared with the known answer, with several seeds, and the result is a
section of docs/inference-problems.md. ``python -m benchmarks.uai --methods gibbs --jobs 15 --data DIR`` runs nothing
else and keeps the results of the other methods; it takes about two minutes on 16 cores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.environment import table

SEEDS = 3
RIGHT = 0.05
"""Largest total variation of any variable's marginal up to which the answer of a run counts as right."""

ROUNDING = 1e-6
"""Of published marginals."""


def calibrate(
    posterior: Any, truth: np.ndarray | None, log_partition: float | None, rounding: float
) -> dict[str, Any]:
    """Return what one run said of itself, and how far from the truth it was in its own standard errors.

    `rounding` is that of the known log partition; what rounding explains is no error.
    """
    result: dict[str, Any] = {"converged": bool(posterior.converged.all())}
    if truth is not None:
        field = posterior.field
        off = np.abs(posterior.log_marginals.exp().numpy() - truth)
        owner = field.state_variable.numpy()
        states = np.bincount(owner, field.log_unary.numpy() > -math.inf, minlength=field.num_variables)
        share = np.where(states[owner] > 1, 1 / np.bincount(owner)[owner], 0.0)
        error = posterior.extra["standard_error"].numpy()
        result["largest"] = float((np.bincount(owner, off) / 2).max(initial=0.0))
        result["variables"] = int((states > 1).sum())
        # Variables count alike; of one variable it is the share of its states.
        result["within"] = [float(share[off <= k * error + ROUNDING].sum()) for k in (1, 2, 3)]
    if log_partition is not None:
        off_by = abs(float(posterior.log_partition[0]) - log_partition)
        excess = max(off_by - rounding, 0.0)
        error_of_it = float(posterior.extra["log_partition_error"][0])
        result["log_partition_within"] = [excess <= k * error_of_it for k in (2, 5)]
    return result


def section(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the page, from the rows of all methods."""
    found = [(row["family"], run) for row in rows for run in row.get("calibration", ()) if "largest" in run]
    if not found:
        return []
    yes = [run for _, run in found if run["converged"]]
    no = [run for _, run in found if not run["converged"]]
    groups = {"that converged": yes, "that did not": no}
    for family in dict.fromkeys(family for family, _ in found):
        groups[family] = [run for each, run in found if each == family]
    right = [run["largest"] <= RIGHT for run in yes]
    shares = [f"{100 * sum(run['within'][k] for run in yes) / _variables(yes):.0f} %" for k in range(3)]
    return [
        "## Can Gibbs sampling be believed?",
        "",
        f"Of {len(yes)} runs that said *converged*, {sum(right)} were right: no marginal was off by a total variation",
        f"of more than {RIGHT}. {', '.join(shares)} of their variables were within 1, 2 and 3 standard errors of the",
        "truth; 68 %, 95 % and 99.7 % would be right.",
        "",
        f"All problems with known marginals, seeds 0 to {SEEDS - 1}, default options. Every variable counts alike, so",
        "that large problems count for more; of log Z, every run counts alike.",
        "",
        table([_row(name, group) for name, group in groups.items() if group]),
        "",
    ]


def _row(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    known = [run["log_partition_within"] for run in runs if "log_partition_within" in run]
    row: dict[str, Any] = {
        "runs": name,
        "number": len(runs),
        "converged": sum(run["converged"] for run in runs),
        "right": sum(run["largest"] <= RIGHT for run in runs),
        "converged and wrong": sum(run["converged"] and run["largest"] > RIGHT for run in runs),
    }
    for place in range(3):
        share = sum(run["within"][place] for run in runs) / _variables(runs)
        row[f"variables within {place + 1} s.e."] = f"{100 * share:.1f} %"
    for place, errors in enumerate((2, 5)):
        share = sum(each[place] for each in known) / max(len(known), 1)
        row[f"log Z within {errors} s.e."] = f"{100 * share:.0f} %" if known else None
    return row


def _variables(runs: list[dict[str, Any]]) -> int:
    return max(sum(run["variables"] for run in runs), 1)
