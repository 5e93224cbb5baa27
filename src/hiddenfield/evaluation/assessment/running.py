"""Runs cells in parallel: results do not depend on the number of workers, and each is on disk as soon as it is done."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.cells import KINDS, Cell, Context, work, work_together
from hiddenfield.evaluation.records import Record, claim_folder, convert, write_json
from hiddenfield.learning.device import resolve_device, torch_threads

# On a GPU a small network waits for its launches, so many are trained side by side: as many as have at most this
# number of nodes and arcs in all their structures, and at most so many.
MOST_ENTRIES, MOST_TOGETHER = 150_000_000, 512

# Processes on a GPU, at most, of an estimator from elsewhere.
PROCESSES_ON_GPU = 8

# Seconds after which a worker notices that the process it works for was killed.
NOTICE = 1.0


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
