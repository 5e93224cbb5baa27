"""How good is each inference algorithm on published problems, and how long does it take?

``python -m benchmarks.uai [--limit SECONDS] [--most N] [--methods ...] [--data FOLDER]`` runs every algorithm of the
registry with its default options on the libDAI examples, the UAI 2014 problems and the Bayesian networks of bnlearn,
and writes benchmarks/uai_results.json and docs/inference-problems.md. Errors are against the published marginals and
partition functions of UAI 2014, elsewhere against exact inference where it is tractable. One problem at a time on one
core, each run in a worker that is stopped when its time is over.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "uai_results.json"
PAGE = ROOT / "docs" / "inference-problems.md"
ARCHIVES = ("libdai_fg.tar.xz", "uai2014_mar.tar.xz", "bnlearn_bif.tar.xz")
SHOWN = ("Grids_11", "Promedus_24", "Segmentation_11")
START_UP = 120.0  # seconds that a worker may take for its imports, for reading and for the compiler


@dataclass(frozen=True)
class Problem:
    """A model file, its evidence, and what is published about it."""

    family: str
    path: Path
    log_partition: float | None = None

    @property
    def name(self) -> str:
        """Name of the file without its suffix."""
        return self.path.stem


def problems(data: Path, folder: Path) -> list[Problem]:
    """Unpack the archives; return the problems family by family, in the order of their names."""
    for name in ARCHIVES:
        with tarfile.open(data / "inference" / name) as archive:
            archive.extractall(folder, filter="data")
    with open(data / "inference" / "uai2014_reference.csv", encoding="utf-8") as file:
        log10 = {row["name"]: row["log10Z_exact_recomputed"] for row in csv.DictReader(file)}
    found: list[Problem] = []
    for path in sorted(folder.rglob("*.*")):
        if path.suffix == ".fg" and path.parent.name != "testem":
            found.append(Problem("libDAI", path))
        elif path.suffix == ".uai":
            value = log10.get(path.stem)
            family = path.stem.split("_")[0]
            found.append(Problem(family, path, float(value) * math.log(10) if value else None))
        elif path.suffix == ".bif":
            found.append(Problem("bnlearn", path, 0.0))
    kept: dict[str, list[Problem]] = {}
    for problem in found:
        kept.setdefault(problem.family, []).append(problem)
    return [problem for group in kept.values() for problem in group]


def first_of_each(listed: list[Problem], most: int | None) -> list[Problem]:
    """Return at most so many problems of each family."""
    seen: Counter[str] = Counter()
    kept = []
    for problem in listed:
        seen[problem.family] += 1
        if most is None or seen[problem.family] <= most:
            kept.append(problem)
    return kept


# -- the worker --------------------------------------------------------------------------------------------


def work(connection: Any) -> None:
    """Answer tasks (problem, method, known exact marginals) until the pipe closes; say when the clock is to run."""
    import torch

    from hiddenfield.evaluation.comparing import compare_methods
    from hiddenfield.fields import ising_grid, read, read_evidence
    from hiddenfield.inference import infer

    torch.set_num_threads(1)
    fields: dict[Path, Any] = {}
    while True:
        try:
            problem, method, marginals = connection.recv()
        except EOFError:
            return
        if problem.path not in fields:
            evidence = Path(f"{problem.path}.evid")
            given = read_evidence(evidence) if evidence.exists() else {}
            fields = {problem.path: read(problem.path).given(given)}
        field, found = fields[problem.path], None
        try:
            compare_methods(ising_grid(2, 2), [method])  # compiles, before the clock runs
            connection.send("started")
            exact = None if marginals is None else torch.from_numpy(marginals)
            result = compare_methods(field, [method], exact=(exact, problem.log_partition))[0].as_dict()
            connection.send("done")
            if method == "exact" and result["guarantee"] == "exact" and exact is None:
                posterior = infer(field, "exact")
                found = posterior.log_marginals.exp().numpy(), float(posterior.log_partition[0])
        except Exception as error:  # a defect is a row of the table, not the end of it
            result = {"status": f"failed: {type(error).__name__}: {error}"}
        connection.send((result, found))


class Worker:
    """A process that can be stopped in the middle of its work."""

    def __init__(self) -> None:
        self.process: Any = None
        self.connection: Any = None

    def ask(self, task: Any, limit: float) -> Any:
        """Return the answer, or None if it took longer than the limit or the worker died."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.connection.send(task)
            for wait in (START_UP, limit, limit + START_UP):
                if not self.connection.poll(wait):
                    break
                answer = self.connection.recv()
                if isinstance(answer, tuple):
                    return answer
        except (EOFError, OSError):
            pass
        self.stop()
        return None

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


# -- all of them -------------------------------------------------------------------------------------------


def published_marginals(problem: Problem) -> np.ndarray | None:
    """Return the marginals of the competition, packed."""
    from hiddenfield.fields import read_result

    path = Path(f"{problem.path}.MAR")
    marginals = read_result(path).marginals if path.exists() else None
    return None if marginals is None else np.concatenate(marginals)


def measure(listed: list[Problem], methods: list[str], limit: float) -> Iterator[dict[str, Any]]:
    """Run every method on every problem, the exact one first, which is also run where it has to give the reference."""
    worker = Worker()
    for problem in listed:
        marginals = published_marginals(problem)
        known = problem
        needed = {*methods, *(["exact"] if marginals is None else [])}
        for method in sorted(needed, key=lambda name: (name != "exact", name)):
            answer = worker.ask((known, method, marginals), limit)
            row = {"family": problem.family, "problem": problem.name, "method": method}
            result, exact = answer or ({"status": f"stopped after {limit:g} s"}, None)
            if exact is not None and marginals is None:
                marginals = exact[0]
                known = Problem(problem.family, problem.path, exact[1])
            if method in methods:
                yield {**row, **result}
    worker.stop()


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each family and method."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["family"], row["method"]), []).append(row)
    return [
        {
            "family": family,
            "method": method,
            "guarantee": ", ".join(sorted({row["guarantee"] for row in group if row.get("guarantee")})),
            "answered": f"{sum(row.get('seconds') is not None for row in group)} of {len(group)}",
            "converged": sum(bool(row.get("converged")) for row in group),
            "median seconds": _middle([row.get("seconds") for row in group]),
            "mean error of log Z": _mean([row.get("log_partition_error") for row in group], absolute=True),
            "mean TV": _mean([row.get("mean_error") for row in group]),
            "max TV": max(
                (row["max_error"] for row in group if row.get("max_error") is not None), default=None
            ),
        }
        for (family, method), group in grouped.items()
    ]


def _mean(values: list[float | None], absolute: bool = False) -> float | None:
    known = [abs(value) if absolute else value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _revisions(rows: list[dict[str, Any]]) -> str:
    """Say at which revision each method was measured."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        found.setdefault(str(row.get("revision")), {})[row["method"]] = None
    return "; ".join(f"revision {revision}: {', '.join(methods)}" for revision, methods in found.items())


def comparison(problem: Problem, limit: float) -> str:
    """Return what ``hiddenfield infer --compare`` prints."""
    words = ["infer", problem.path.name, "--evidence", f"{problem.path.name}.evid", "--compare"]
    command = [sys.executable, "-m", "hiddenfield.cli", *words]
    environment_ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "130"}
    try:
        result = subprocess.run(
            command,
            cwd=problem.path.parent,
            env=environment_,
            capture_output=True,
            text=True,
            check=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return f"$ hiddenfield {' '.join(words)}\nstopped after {limit:g} s"
    return f"$ hiddenfield {' '.join(words)}\n{result.stdout.rstrip()}"


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation, generated from the results alone."""
    machine = results["environment"]
    lines = [
        "# Inference on published problems",
        "",
        "Generated by `python -m benchmarks.uai`; do not edit.",
        "",
        f"Every algorithm with its default options, stopped after {results['limit']:g} s, on one core. *Answered*:",
        "problems that were neither refused nor stopped; *converged*: problems on which the tolerance was met.",
        "Errors are means over the answered problems with a known answer: |log Z − exact log Z|, and the total",
        "variation of the marginals of unobserved variables. UAI 2014 has published marginals and partition",
        "functions; elsewhere the reference is exact inference. Means over different sets of problems are not",
        "comparable: a method that answers the hard problems has the larger error.",
        "",
        table(summary(results["rows"])),
        "",
        f"Measured {machine['date']} on {machine['processor']}; {_revisions(results['rows'])}.",
        "",
        "## Side by side on three problems",
        "",
    ]
    for text in results["comparisons"]:
        lines += ["```text", text, "```", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark and write both files."""
    from hiddenfield.inference import METHODS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one algorithm on one problem")
    parser.add_argument("--most", type=int, help="problems of each family; all by default")
    parser.add_argument("--methods", nargs="*", help="only these; the results of the others are kept")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        listed = problems(arguments.data, Path(folder))
        shown = [problem for name in SHOWN for problem in listed if problem.name == name]
        listed = first_of_each(listed, arguments.most)
        methods = arguments.methods or list(METHODS)
        before = json.loads(RESULTS.read_text())["rows"] if arguments.methods and RESULTS.exists() else []
        rows = [row for row in before if row["method"] not in methods]
        machine = environment()
        for row in measure(listed, methods, arguments.limit):
            rows.append({**row, "revision": machine["revision"]})
            seconds = row.get("seconds") or math.nan
            print(f"{row['problem']:24}{row['method']:18}{seconds:10.3f}  {row['status'][:70]}", flush=True)
        order = {name: number for number, name in enumerate(METHODS)}
        place = {(problem.family, problem.name): number for number, problem in enumerate(listed)}
        rows.sort(
            key=lambda row: (place.get((row["family"], row["problem"]), 0), order.get(row["method"], 0))
        )
        results: dict[str, Any] = {"environment": machine, "limit": arguments.limit, "rows": rows}
        results["comparisons"] = [comparison(problem, 10 * arguments.limit) for problem in shown]
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
