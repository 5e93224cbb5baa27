"""Shared parts of the benchmarks: description of the machine, alternating timings, tables."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hiddenfield.machine import describe_machine

PACKAGES = ("torch", "numpy", "numba", "pyarrow", "torch-geometric", "rdkit", "pyagrum", "pgmpy")


def environment() -> dict[str, Any]:
    """Describe the machine and the versions that a result was measured with."""
    return describe_machine(PACKAGES)


def side_by_side(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return each candidate's best time in seconds; they alternate, so that a busy machine affects all alike.

    On one thread ``clock=time.process_time`` leaves out the time in which others run.
    """
    for candidate in candidates.values():
        candidate()
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(repeats):
        for name, candidate in candidates.items():
            start = clock()
            candidate()
            best[name] = min(best[name], clock() - start)
    return best


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table; the keys of the first are the columns."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_text(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def main(run: Callable[..., dict[str, Any]]) -> None:
    """Give one benchmark a command line: ``--quick`` for small sizes, ``--json`` for the results' file."""
    parser = argparse.ArgumentParser(description="see the docstring of the module")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    result = run(quick=arguments.quick)
    print(table(result["rows"]))
    if arguments.json:
        arguments.json.write_text(json.dumps({"environment": environment(), **result}, indent=2) + "\n")
