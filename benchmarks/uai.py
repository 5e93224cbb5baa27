"""How good is each inference algorithm on published problems, and how long does it take?

``python -m benchmarks.uai --jobs 15 --data DIR`` runs every algorithm of the registry with its default options on the
libDAI examples, the UAI 2014 problems and the Bayesian networks of bnlearn, and writes benchmarks/uai_results.json and
docs/inference-problems.md. Errors are against the published marginals and partition functions of UAI 2014, elsewhere
against exact inference where it is tractable. Each problem has a worker on one core, which is stopped when its time is
over; `DIR` holds the archives in a folder ``inference``. With ``--methods gibbs`` only that runs, which measures its
standard errors (`benchmarks.calibration`), and the results of the others are kept; ``--methods`` without a name runs
nothing but ``hiddenfield infer --compare``. ``--problems asia Grids_11 --out FOLDER`` is a trial that leaves the
documentation alone.
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
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import SEEDS, calibrate, section
from benchmarks.environment import environment, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks", "uai_results.json")
PAGE = Path("docs", "inference-problems.md")
ARCHIVES = ("libdai_fg.tar.xz", "uai2014_mar.tar.xz", "bnlearn_bif.tar.xz")
OTHERS = ("libDAI", "bnlearn")  # families that were no part of the competition
SHOWN = ("Grids_11", "Promedus_24", "Segmentation_11")
START_UP = 120.0  # seconds that a worker may take for its imports, for reading and for the compiler


@dataclass(frozen=True)
class Problem:
    """A model file, its evidence, and what is published about it."""

    family: str
    path: Path
    log_partition: float | None = None
    rounding: float = 0.0

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
        # Where nobody could recompute it, the published value has one decimal.
        log10 = {row["name"]: row for row in csv.DictReader(file)}
    found: list[Problem] = []
    for path in sorted(folder.rglob("*.*")):
        if path.suffix == ".fg" and path.parent.name != "testem":
            found.append(Problem("libDAI", path))
        elif path.suffix == ".uai":
            precise, rounded = (
                log10[path.stem][key] for key in ("log10Z_exact_recomputed", "log10Z_published_1dp")
            )
            value = float(precise or rounded) * math.log(10) if precise or rounded else None
            rounding = 0.0 if precise else 0.05 * math.log(10)
            found.append(Problem(path.stem.split("_")[0], path, value, rounding))
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
    """Answer tasks (problem, method, known marginals, options) until the pipe closes; say when the clock is to run."""
    import torch

    from hiddenfield.errors import ConvergenceWarning, InputError
    from hiddenfield.fields import from_factors, ising_grid, read, read_evidence
    from hiddenfield.inference import infer
    from hiddenfield.limits import OutOfTimeError

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    fields: dict[Path, Any] = {}
    table = np.random.default_rng(0).normal(size=(2, 3, 2))
    table[1, 1] = -np.inf  # what hard zeros need is compiled too
    scopes = [[number, (number + 1) % 6 + 6, (number + 2) % 6] for number in range(6)]
    small = [ising_grid(3, 3), from_factors(scopes, [table] * 6).given({7: 0})]
    while True:
        try:
            problem, method, marginals, options = connection.recv()
        except EOFError:
            return
        if problem.path not in fields:
            evidence = Path(f"{problem.path}.evid")
            given = read_evidence(evidence) if evidence.exists() else {}
            fields = {problem.path: read(problem.path).given(given)}
        field, found = fields[problem.path], None
        result: dict[str, Any]
        try:
            for each in small:  # compiles, before the clock runs
                infer(each, method)
            connection.send("started")
            posterior = infer(field, method, **options)
            connection.send("done")
            probabilities = posterior.log_marginals.exp().numpy()
            if method == "exact" and marginals is None:
                found = probabilities, float(posterior.log_partition[0])
                marginals, log_partition = found
            else:
                log_partition = problem.log_partition
            result = {
                "seconds": posterior.seconds,
                "log_partition": float(posterior.log_partition[0]),
                "guarantee": posterior.guarantee,
                "converged": bool(posterior.converged.all()),
                "status": posterior.status,
                "chosen": posterior.method,
                "note": posterior.note,
                **errors(field, probabilities, marginals),
            }
            if method == "gibbs":
                runs = [posterior, *(infer(field, method, seed=seed) for seed in range(1, SEEDS))]
                rounding = problem.rounding
                result["calibration"] = [calibrate(each, marginals, log_partition, rounding) for each in runs]
            if log_partition is not None:
                result["log_partition_error"] = result["log_partition"] - log_partition
        except (InputError, OutOfTimeError) as error:
            result = {"status": f"refused: {error}"}
        except Exception as error:  # a defect is a row of the table, not the end of it
            result = {"status": f"failed: {type(error).__name__}: {error}"}
        connection.send((result, found))


def errors(field: Any, found: np.ndarray, truth: np.ndarray | None) -> dict[str, float]:
    """Return how far the marginals of unobserved variables are from the known ones, and the competition's score.

    Total variation, its mean and maximum; the score is 1 minus the mean of Hellinger's distance over all variables.
    """
    if truth is None:
        return {}
    owner, variables = field.state_variable.numpy(), field.num_variables
    variation = np.bincount(owner, np.abs(found - truth), minlength=variables) / 2
    overlap = np.bincount(owner, np.sqrt(np.maximum(found * truth, 0.0)), minlength=variables)
    free = np.bincount(owner, field.log_unary.numpy() > -math.inf, minlength=variables) > 1
    return {
        "mean_error": float(variation[free].mean()) if free.any() else 0.0,
        "max_error": float(variation[free].max(initial=0.0)),
        "score": float(1 - np.sqrt(np.maximum(1 - overlap, 0.0)).mean()),
    }


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


def measure(listed: list[Problem], methods: list[str], limit: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Run every method on every problem, the exact one first, which is also run where it has to give the reference."""
    from hiddenfield.inference.cliques.plan import available_memory

    largest = sorted(listed, key=lambda problem: -problem.path.stat().st_size)  # the longest first
    memory = available_memory() / (2 * jobs)
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [
            pool.submit(lambda each: list(_measure(each, methods, limit, memory)), problem)
            for problem in largest
        ]
        for task in as_completed(tasks):
            yield from task.result()


def _measure(problem: Problem, methods: list[str], limit: float, memory: float) -> Iterator[dict[str, Any]]:
    """Run every method on one problem, in a worker of its own."""
    worker = Worker()
    options = {
        "auto": {"time_limit": limit, "memory_limit": memory},
        "exact": {"max_memory": memory},
    }
    try:
        marginals = published_marginals(problem)
        known = problem
        needed = {*methods, *(["exact"] if marginals is None else [])}
        for method in sorted(needed, key=lambda name: (name != "exact", name)):
            task = (known, method, marginals, options.get(method, {}))
            answer = worker.ask(task, limit * 1.2 + 1 if method == "auto" else limit)
            row = {"family": problem.family, "problem": problem.name, "method": method}
            result, exact = answer or ({"status": f"stopped after {limit:g} s"}, None)
            if exact is not None and marginals is None:
                marginals = exact[0]
                known = Problem(problem.family, problem.path, exact[1])
            if method in methods:
                yield {**row, **result}
    finally:
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
            "score": _mean([row.get("score", 0.0) for row in group]) if _scored(group) else None,
            "mean TV": _mean([row.get("mean_error") for row in group]),
            "max TV": max(
                (row["max_error"] for row in group if row.get("max_error") is not None), default=None
            ),
        }
        for (family, method), group in grouped.items()
    ]


def overall(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each method over all problems of the competition; what is not answered scores 0."""
    table: list[dict[str, Any]] = []
    for method in dict.fromkeys(row["method"] for row in rows):
        group = [row for row in rows if row["method"] == method and row["family"] not in OTHERS]
        if not _scored(group):  # not run since answers are scored
            continue
        errors = [row.get("log_partition_error") for row in group]
        off = [None if error is None else abs(error) / math.log(10) for error in errors]
        table.append(
            {
                "method": method,
                "answered": f"{sum(row.get('seconds') is not None for row in group)} of {len(group)}",
                "score": _mean([row.get("score", 0.0) for row in group]),
                "log10 Z error: median": _middle(off),
                "mean": _mean(off),
                "seconds: median": _middle([row.get("seconds") for row in group]),
                "most": max((row["seconds"] for row in group if row.get("seconds")), default=None),
            }
        )
    return sorted(table, key=lambda row: -(row["score"] or 0.0))


def _scored(group: list[dict[str, Any]]) -> bool:
    return any(row.get("score") is not None for row in group)


def _mean(values: list[float | None], absolute: bool = False) -> float | None:
    known = [abs(value) if absolute else value for value in values if value is not None and value == value]
    return float(np.mean(known)) if known else None


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and value == value]  # NaN: broke down
    return float(np.median(known)) if known else None


def _revisions(rows: list[dict[str, Any]]) -> str:
    """Say when, where and at which revision each method was measured."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        found.setdefault(f"{row['measured']}, revision {row.get('revision')}", {})[row["method"]] = None
    return "; ".join(f"{', '.join(methods)}: {where}" for where, methods in found.items())


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


def conclusion(rows: list[dict[str, Any]], limit: float) -> list[str]:
    """Return two sentences on what the default is worth, from the numbers."""
    by_method = {row["method"]: row for row in overall(rows)}
    mine = by_method.pop("auto", None)
    if mine is None or mine["score"] is None or not by_method:
        return []
    group = [row for row in rows if row["method"] == "auto" and row["family"] not in OTHERS]
    chosen = Counter("exact" if row.get("guarantee") == "exact" else row.get("chosen") for row in group)
    named = [f"`{name}` on {count}" for name, count in chosen.most_common() if name not in ("exact", None)]
    other = max(by_method.values(), key=lambda row: row["score"] or 0.0)
    takes = f" and takes {', '.join(named)}" if named else ""
    off = [mine["log10 Z error: median"], mine["mean"]]
    by = "" if None in off else f", and its log10 Z is off by {off[0]:.2g} (median) and {off[1]:.2g} (mean)"
    return [
        f"With {limit:g} s for each problem, the default, `auto`, scores {mine['score']:.3f} of 1 on the {len(group)}",
        f"problems of UAI 2014: it is exact on {chosen['exact']} of them{takes}{by}.",
        f"The best single method, `{other['method']}`, answers {other['answered']} and scores {other['score']:.3f}.",
        "",
    ]


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation, generated from the results alone."""
    compared, rows = results["compared"], results["rows"]
    lines = [
        "# Inference on published problems",
        "",
        *conclusion(rows, results["limit"]),
        "Generated by `python -m benchmarks.uai`; do not edit.",
        "",
        f"Every algorithm with its default options, stopped after {results['limit']:g} s, on one core. *Answered*:",
        "problems that were neither refused nor stopped; *converged*: problems on which the tolerance was met.",
        "Errors are means over the answered problems with a known answer: |log Z − exact log Z|, and the total",
        "variation of the marginals of unobserved variables. UAI 2014 has published marginals and partition",
        "functions; elsewhere the reference is exact inference. Means over different sets of problems are not",
        "comparable: a method that answers the hard problems has the larger error.",
        "",
        "## All problems of UAI 2014",
        "",
        "The score is that of the competition, 1 minus the mean Hellinger distance of the marginals; a problem that is",
        "not answered in time scores 0. The error of log10 Z is over the problems with a known value. `auto` is the",
        f"default of `hf.infer`, here with `time_limit={results['limit']:g}`. Not all that is published is right:",
        "the marginals of linkage_15, without a published partition function, are contradicted by long runs of cutset",
        "sampling (`python -m benchmarks.judge linkage_15 398`), with which `relaxed` agrees; they count all the same.",
        "",
        table(overall(rows)),
        "",
        "## By family",
        "",
        table(summary(rows)),
        "",
        f"Measured: {_revisions(rows)}.",
        "",
        *section(rows),
        "## Side by side on three problems",
        "",
    ]
    for text in results["comparisons"]:
        lines += ["```text", text, "```", ""]
    lines += [
        f"Run once, {compared['date']} on {compared['processor']}; revision {compared['revision']}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark and write both files."""
    from hiddenfield.inference import METHODS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one algorithm on one problem")
    parser.add_argument("--most", type=int, help="problems of each family; all by default")
    parser.add_argument("--methods", nargs="*", help="only these; the results of the others are kept")
    parser.add_argument("--jobs", type=int, default=1, help="problems at the same time, one core each")
    parser.add_argument("--problems", nargs="*", help="only these, by name")
    parser.add_argument(
        "--out", type=Path, default=ROOT, help="folder for both files; the repository by default"
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        listed = problems(arguments.data, Path(folder))
        if arguments.problems:
            listed = [problem for problem in listed if problem.name in arguments.problems]
        shown = [problem for name in SHOWN for problem in listed if problem.name == name]
        listed = first_of_each(listed, arguments.most)
        methods = list(METHODS) if arguments.methods is None else arguments.methods
        stored, some = arguments.out / RESULTS, arguments.methods is not None
        before = json.loads(stored.read_text()) if some and stored.exists() else {}
        rows = [row for row in before.get("rows", ()) if row["method"] not in methods]
        machine = environment()
        measured = f"{machine['date']} on {machine['processor']}, {arguments.jobs} problems at a time"
        for row in measure(listed if methods else [], methods, arguments.limit, arguments.jobs):
            rows.append({**row, "revision": machine["revision"], "measured": measured})
            seconds = row.get("seconds") or math.nan
            print(f"{row['problem']:24}{row['method']:18}{seconds:10.3f}  {row['status'][:70]}", flush=True)
        order = {name: number for number, name in enumerate(METHODS)}
        place = {(problem.family, problem.name): number for number, problem in enumerate(listed)}
        rows.sort(
            key=lambda row: (place.get((row["family"], row["problem"]), 0), order.get(row["method"], 0))
        )
        results: dict[str, Any] = {
            "environment": machine if methods else before["environment"],
            "limit": arguments.limit,
            "rows": rows,
            "compared": machine,
            "comparisons": [comparison(problem, 10 * arguments.limit) for problem in shown],
        }
    for path, text in (
        (RESULTS, json.dumps(results, indent=1, ensure_ascii=False) + "\n"),
        (PAGE, page(results)),
    ):
        (arguments.out / path).parent.mkdir(parents=True, exist_ok=True)
        (arguments.out / path).write_text(text)


if __name__ == "__main__":
    main()
