"""assess: outer folds, inner selection, final fits and baselines, done cell by cell in one process or several.

Results do not depend on the number of workers, and each is on disk as soon as it is done.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.cells import KINDS, Cell, Context, work, work_together
from hiddenfield.evaluation.assessment.details import Finished
from hiddenfield.evaluation.assessment.problem import Problem, inner_splits, outer_splits
from hiddenfield.evaluation.assessment.settings import DEFAULT_SPACE, AssessmentSettings, grid, sample
from hiddenfield.evaluation.assessment.tables import collect
from hiddenfield.evaluation.fitting import check_parameters, make_estimator
from hiddenfield.evaluation.measuring import better, choose_metric
from hiddenfield.evaluation.records import Assessment, Record, claim_folder, convert, write_json
from hiddenfield.evaluation.significance import check_same
from hiddenfield.evaluation.splits.base import digest
from hiddenfield.learning.device import resolve_device, torch_threads
from hiddenfield.progress import progress

# The address of an object in memory, in its text.
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

# Parameters of an estimator that do not change its results.
SILENT = ("device", "verbose", "checkpoint", "resume", "random_state")

# On a GPU a small network waits for its launches, so many are trained side by side: as many as have at most this
# number of nodes and arcs in all their structures, and at most so many.
MOST_ENTRIES, MOST_TOGETHER = 150_000_000, 512

# Processes on a GPU, at most, of an estimator from elsewhere.
PROCESSES_ON_GPU = 8

# Seconds after which a worker notices that the process it works for was killed.
NOTICE = 1.0


def assess(
    estimator: Any,
    X: Any,
    y: Any = None,
    settings: AssessmentSettings | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    show_progress: bool = False,
) -> Assessment:
    r"""Estimate how good a model is on structures that it has not seen.

    The structures are split into outer folds. With ``nested`` the settings of every fold are selected within its
    training part, on inner validation parts; the model is fitted again with what was selected, several times with
    different seeds, and measured once on the test part, which had no part in any choice. The epoch whose weights are
    kept is chosen on an inner validation part too. Baselines are the class frequencies or the mean, the same network
    without arcs, and linear models on counted labels and Weisfeiler-Lehman colours.

    Parameters
    ----------
    estimator
        An estimator of this project or any that is compatible with scikit-learn, on structures or on features; or the
        name of one: ``"cgmm"``, or an embedded algorithm such as ``"loopy_bp"``.
    X, y
        `Structures`, whatever else the project's estimators take, or a table of features; the target, or None for that
        of the structures. Entries without a target are left out.
    settings
        How; see `AssessmentSettings`.
    parameters
        Of the estimator, where `estimator` is a name.
    folder
        Where every finished piece is kept at once, and ``assessment.json`` at the end; None for nowhere.
    resume
        Whether to continue with what the folder holds. The result is that of a run that was not interrupted.
    show_progress
        Whether a bar shows how far it is; only on a terminal.

    Returns
    -------
    Assessment

    Notes
    -----
    Results depend on the seed alone, not on the number of workers.

    References
    ----------
    F. Errica, M. Podda, D. Bacciu and A. Micheli, A fair comparison of graph neural networks for graph classification,
    ICLR 2020; C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003).

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB" * k for k in range(1, 13)], targets=["short", "long"] * 6)
    >>> quick = {"dim": 4, "epochs": 2, "hidden": 4}
    >>> found = assess("mean_field", words, settings=AssessmentSettings(folds=3), parameters=quick)
    >>> found.metric, len(found.values), sorted(found.baselines)
    ('accuracy', 3, ['WL-3 + logistic', 'class frequencies', 'labels + logistic', 'no arcs, same head'])
    """
    started = time.perf_counter()
    settings = settings or AssessmentSettings()
    problem = Problem.of(X, y, task=settings.task)
    estimator = estimator_of(estimator, problem.task, parameters or {})
    splits = outer_splits(problem, settings)
    context = Context(
        problem,
        estimator,
        choose_metric(settings.metric, problem.task),
        tuple(splits),
        inner_splits(problem, splits, settings) if settings.nested else tuple(() for _ in splits),
        settings.seed,
        settings.device,
        tuple(settings.wl_rounds),
    )
    candidates = _candidates(settings, estimator)
    seeds = settings.seeds if _has_seed(estimator) else 1
    place = tempfile.TemporaryDirectory() if folder is None else nullcontext(str(folder))
    with place as home:
        store = CellStore(home, _plan(context, settings, candidates), resume=resume)
        context = replace(context, shared=store.folder / "shared")
        jobs = automatic_jobs(context) if settings.jobs is None else settings.jobs
        first = _cells_before(context, settings, candidates)
        rest = _cells_after(context, settings, [{}] * len(splits), seeds)
        total = len(first) + len(rest)
        with (
            progress(total, "assessing", shown=show_progress) as advance,
            Pool(context, store, jobs, advance) as pool,
        ):
            chosen: list[dict[str, Any]] = [{} for _ in splits]
            if settings.nested:
                results = pool.run(first)
                chosen = [_selected(context, fold, candidates, results) for fold in range(len(splits))]
                results |= pool.run(_cells_after(context, settings, chosen, seeds))
            else:  # nothing to wait for; the long cells first, so that the short ones fill the gaps at the end
                results = pool.run([*rest, *first])
        found = collect(context, settings, Finished(results, candidates, chosen, seeds), started)
        if folder is not None:
            write_json(Path(home) / "assessment.json", found.as_dict())
            shutil.rmtree(Path(home) / "shared", ignore_errors=True)
    # As a file would give it: tuples are lists, and what JSON has no number for is refused.
    return convert(json.loads(json.dumps(found.as_dict(), allow_nan=False)), Assessment, "an assessment")


def check_comparable(other: Assessment, source: str, X: Any, settings: AssessmentSettings) -> None:
    """Check, before any work, that an assessment of X will be of the same metric, data and splits as another.

    Parameters
    ----------
    other
        The assessment to compare with.
    source
        Where it comes from, for the error.
    X
        As `assess` takes it.
    settings
        Of the coming assessment.
    """
    problem = Problem.of(X, task=settings.task)
    splits = outer_splits(problem, settings)
    metric = choose_metric(settings.metric, problem.task).name
    said, where = f"{source} cannot be compared with", ("there", "here")
    check_same(other, metric, problem.fingerprint(), digest(splits), said, where)
    if len(splits) < 2 or len(splits) != len(other.values):
        raise InputError(
            f"models are compared split by split, on two or more of them; here are {len(splits)} and in {source} "
            f"{len(other.values)}"
        )


def estimator_of(estimator: Any, task: str, parameters: Mapping[str, Any]) -> Any:
    """Return the estimator of a name, or the estimator itself.

    Examples
    --------
    >>> estimator_of("loopy_bp", "regression", {"dim": 8})
    StructureRegressor(dim=8)
    """
    if isinstance(estimator, str):
        return make_estimator(estimator, task != "regression", parameters)
    if parameters:
        raise InputError("parameters are for a model that is named; set those of an estimator on itself")
    if not all(hasattr(estimator, name) for name in ("fit", "predict", "get_params", "set_params")):
        raise InputError(
            f"expected an estimator with fit and predict, or a name, got {type(estimator).__name__}"
        )
    from sklearn.base import is_classifier, is_regressor

    if (is_classifier(estimator) and task == "regression") or (
        is_regressor(estimator) and task != "regression"
    ):
        raise InputError(
            f"{type(estimator).__name__} does not fit the target, which makes this a {task}; say task="
        )
    return estimator


# -- the plan ----------------------------------------------------------------------------------------------


def _candidates(settings: AssessmentSettings, estimator: Any) -> list[dict[str, Any]]:
    if not (settings.nested or settings.as_published):
        return [{}]
    space = settings.space or {k: v for k, v in DEFAULT_SPACE.items() if k in estimator.get_params()}
    found = grid(space) if settings.draws is None else sample(space, settings.draws, settings.seed)
    check_parameters(space, type(estimator), estimator.get_params())
    return found


def _has_seed(estimator: Any) -> bool:
    return any(name.split("__")[-1] == "random_state" for name in estimator.get_params())


def _plan(context: Context, settings: AssessmentSettings, candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return everything that the results depend on."""
    options = {
        name: _described(value)
        for name, value in sorted(context.estimator.get_params().items())
        if name.split("__")[-1] not in SILENT
    }
    inner = [digest(part) for part in context.inner if part]
    return {
        "data": context.problem.fingerprint(),
        "estimator": type(context.estimator).__name__,
        "parameters": options,
        "splits": digest(context.splits),
        "inner": inner,
        "candidates": [{k: _described(v) for k, v in candidate.items()} for candidate in candidates],
        "metric": context.metric.name,
        "seed": settings.seed,
        "wl_rounds": list(settings.wl_rounds),
    }


def _described(value: Any) -> str:
    """Return a text for a value that is the same in every process: without addresses in memory.

    A function is identified by its module, name and code: a lambda has no name, and the code of a name may change.

    Examples
    --------
    >>> _described(0.5), _described(json.dumps)[:11], _described([print, object()])
    ('0.5', 'json.dumps ', '[<built-in function print>, <object object>]')
    """
    if not isinstance(value, FunctionType):
        return ADDRESS.sub("", repr(value))
    code = value.__code__
    plain = [entry for entry in code.co_consts if isinstance(entry, (str, bytes, int, float, complex))]
    bound = (value.__defaults__, [cell.cell_contents for cell in value.__closure__ or ()])
    content = ADDRESS.sub("", repr((code.co_code, code.co_names, plain, bound)))
    return f"{value.__module__}.{value.__qualname__} ({hashlib.sha256(content.encode()).hexdigest()[:8]})"


# -- the work ----------------------------------------------------------------------------------------------


def _cells_before(
    context: Context, settings: AssessmentSettings, candidates: list[dict[str, Any]]
) -> list[Cell]:
    """Return the cells that need no selection: candidates on inner parts, as published, baselines."""
    folds, shares = range(len(context.splits)), (1.0, *settings.learning_curve)
    cells: list[Cell] = []
    if settings.nested and len(candidates) > 1:
        cells += [
            Cell("select", fold, candidate, part=part, inner=inner)
            for fold in folds
            for part, candidate in enumerate(candidates)
            for inner in range(len(context.inner[fold]))
        ]
    if settings.as_published:
        cells += [
            Cell("published", fold, candidate, part=part)
            for fold in folds
            for part, candidate in enumerate(candidates)
        ]
    if settings.baselines:
        cells += [Cell("simple", fold, fraction=share) for fold in folds for share in shares]
    return cells


def _cells_after(
    context: Context, settings: AssessmentSettings, chosen: Sequence[Mapping[str, Any]], seeds: int
) -> list[Cell]:
    """Return the cells that need the selected parameters: final fits, the same without arcs, learning curve."""
    cells = [Cell("final", fold, own, seed) for fold, own in enumerate(chosen) for seed in range(seeds)]
    own = isinstance(context.estimator, StructureEstimator) and isinstance(context.problem.X, Structures)
    if settings.baselines and own:
        cells += [replace(cell, kind="blind") for cell in cells]
    shares = settings.learning_curve
    return cells + [Cell("curve", fold, own, fraction=s) for fold, own in enumerate(chosen) for s in shares]


def _selected(
    context: Context, fold: int, candidates: list[dict[str, Any]], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the candidate with the best mean on the inner validation parts; of equals the first."""
    if len(candidates) == 1:
        return candidates[0]
    best, chosen = math.nan, None
    for part, candidate in enumerate(candidates):
        cells = [Cell("select", fold, part=part, inner=k) for k in range(len(context.inner[fold]))]
        values = [results[cell.key].value for cell in cells]
        mean = math.nan if None in values else float(np.mean(values))
        if better(context.metric, mean, best):
            best, chosen = mean, candidate
    if chosen is None:
        error = results[Cell("select", fold).key].error
        raise InputError(f"no candidate could be fitted in {context.splits[fold].name}: {error}")
    return chosen


# -- running cells -----------------------------------------------------------------------------------------


def automatic_jobs(context: Context) -> int:
    """Return how many processes to use: one per core; at most eight for an estimator from elsewhere on a GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(PROCESSES_ON_GPU, cores) if _on_gpu(context) and not _side_by_side(context) else cores


def _on_gpu(context: Context) -> bool:
    """Return whether the estimator computes on a GPU, by the settings or by its own parameter."""
    own = getattr(context.estimator, "device", None)
    device = context.device or (own if isinstance(own, str) else None)
    return device is not None and resolve_device(device).type == "cuda"


def _side_by_side(context: Context) -> bool:
    """Return whether the cells are trained side by side in this process: networks, on a GPU."""
    estimator = context.estimator
    return isinstance(estimator, StructureEstimator) and estimator.checkpoint is None and _on_gpu(context)


class Pool:
    """Does cells, in this process or in several, and keeps every result in a store.

    Parameters
    ----------
    context
        What the cells share; workers read it once, from a file.
    store
        Where results are kept; a cell that is there is not done again.
    jobs
        Processes; 1 for this one alone.
    advance
        Is called with 1 for every cell that is done.
    """

    def __init__(self, context: Context, store: CellStore, jobs: int, advance: Callable[..., None]) -> None:
        if jobs < 1:
            raise InputError(f"at least one job is needed, got {jobs}")
        self.context, self.store, self.jobs, self.advance = context, store, jobs, advance
        self.shared: Path | None = None

    def __enter__(self) -> Pool:
        for stale in self.store.folder.glob(".context-*.pickle"):
            stale.unlink(missing_ok=True)  # of a process that was killed
        if self.jobs > 1:
            handle, name = tempfile.mkstemp(".pickle", ".context-", self.store.folder)
            self.shared = Path(name)
            with open(handle, "wb") as sink:
                pickle.dump(self.context, sink, protocol=5)
        return self

    def __exit__(self, *failure: object) -> None:
        if self.shared is not None:
            self.shared.unlink(missing_ok=True)

    def run(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Do the cells that are not there yet; return the results of all, by key, as they are on disk."""
        found = {cell.key: self.store.read(cell) for cell in cells}
        left = [cell for cell in cells if found[cell.key] is None]
        self.advance(len(cells) - len(left))
        together = _side_by_side(self.context)
        apart = [cell for cell in left if not together or cell.kind == "simple"]
        for key, result in self._results(apart):
            found[key] = result
            self.advance(1)
        for group in _groups(self.context, [cell for cell in left if together and cell.kind != "simple"]):
            for cell, outcome in work_together(self.context, group):
                self.store.write(cell, outcome)
                found[cell.key] = self.store.read(cell)
                self.advance(1)
        return {key: result for key, result in found.items() if result is not None}

    def _results(self, cells: Sequence[Cell]) -> Iterator[tuple[str, Record]]:
        if self.shared is None or len(cells) < 2:
            for cell in cells:
                yield _do(self.context, self.store, cell)
            return
        from joblib import Parallel, delayed, parallel_config

        # One thread each: sums then have one order, and workers do not fight for cores. joblib replaces a worker that
        # grew by 300 MB since its first cell, as one does that first did a small baseline, and warns of a leak.
        with (
            parallel_config("loky", n_jobs=min(self.jobs, len(cells)), inner_max_num_threads=1),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
            tasks = (delayed(_do_apart)(self.shared, self.store, cell, os.getpid()) for cell in cells)
            yield from parallel(tasks)


def _groups(context: Context, cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Yield cells that can be done side by side, as many at once as memory allows.

    Those with equal parameters come together; which of them are trained at once, `fit_in_parts` finds out.
    """
    X = context.problem.X
    size = X.total_nodes + X.total_arcs if isinstance(X, Structures) else 1
    most = max(1, min(MOST_TOGETHER, MOST_ENTRIES // max(size, 1)))
    alike: dict[tuple[str, float], list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: repr(sorted(cell.parameters.items()))):
        alike.setdefault((cell.kind, cell.fraction), []).append(cell)
    for group in alike.values():
        yield from (group[start : start + most] for start in range(0, len(group), most))


def _do(context: Context, store: CellStore, cell: Cell) -> tuple[str, Record]:
    from threadpoolctl import threadpool_limits

    with torch_threads(1), threadpool_limits(1):
        store.write(cell, work(context, cell))
    result = store.read(cell)
    assert result is not None
    return cell.key, result


def _do_apart(shared: Path, store: CellStore, cell: Cell, owner: int) -> tuple[str, Record]:
    """Do a cell in a worker."""
    _end_with(owner)
    return _do(_context(shared), store, cell)


@lru_cache(maxsize=1)
def _end_with(owner: int) -> None:
    """Let this worker end when the process that owns it does, even if that is killed: nobody waits for its cells."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(NOTICE)
        os._exit(1)

    if os.getppid() != owner:
        os._exit(1)  # it is gone already
    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=1)
def _context(shared: Path) -> Context:
    with open(shared, "rb") as source:
        return pickle.load(source)


# -- on disk -----------------------------------------------------------------------------------------------


class CellStore:
    """A folder of results, one file per cell, that belongs to one plan; files are written whole or not at all.

    Parameters
    ----------
    folder
        New or empty; with `resume` one of the same plan.
    plan
        What the results depend on; it is kept in ``plan.json``.
    resume
        Whether to continue with what is there.

    Examples
    --------
    >>> from hiddenfield.evaluation.assessment.cells import SelectResult
    >>> store = CellStore(Path(tempfile.mkdtemp()), {"folds": 2})
    >>> store.write(Cell("select", 1), SelectResult(0.5))
    >>> store.read(Cell("select", 1)), store.read(Cell("select", 2))
    (SelectResult(value=0.5, error=None), None)
    """

    def __init__(self, folder: str | Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = Path(folder)
        claim_folder(self.folder, "plan.json", plan, "an assessment", resume=resume)
        self.cells = self.folder / "cells"
        self.cells.mkdir(exist_ok=True)

    def write(self, cell: Cell, result: Record) -> None:
        """Keep the result of a cell."""
        content = result.as_dict()
        checksum = _checksum(json.dumps(content, allow_nan=False))
        write_json(self._file(cell), {"checksum": checksum, "content": content})

    def read(self, cell: Cell) -> Any:
        """Return the result of a cell; None, with a warning, if the file is damaged, and None if there is none."""
        file = self._file(cell)
        if not file.exists():
            return None
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            content = entry["content"]
            if entry["checksum"] != _checksum(json.dumps(content)):
                raise ValueError("the checksum is another")
            return convert(content, KINDS[cell.kind].record, "the result of a cell")
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{file} is damaged ({error}) and is computed again", stacklevel=2)
            return None

    def _file(self, cell: Cell) -> Path:
        return self.cells / f"{cell.key}.json"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
