"""assess: outer folds, inner selection, final fits, and baselines."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.cells import Cell, Context
from hiddenfield.evaluation.assessment.details import Finished
from hiddenfield.evaluation.assessment.problem import Problem, inner_splits, outer_splits
from hiddenfield.evaluation.assessment.running import CellStore, Pool, automatic_jobs
from hiddenfield.evaluation.assessment.settings import DEFAULT_SPACE, AssessmentSettings, grid, sample
from hiddenfield.evaluation.assessment.tables import collect
from hiddenfield.evaluation.fitting import check_parameters, make_estimator
from hiddenfield.evaluation.measuring import better, choose_metric
from hiddenfield.evaluation.records import Assessment, convert, write_json
from hiddenfield.evaluation.significance import check_same
from hiddenfield.evaluation.splits.base import digest
from hiddenfield.progress import progress
from hiddenfield.registry import choose

# The address of an object in memory, in its text.
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

# Parameters of an estimator that do not change its results.
SILENT = ("device", "verbose", "checkpoint", "resume", "random_state")


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
        name of an embedded algorithm, such as ``"loopy_bp"``.
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
        jobs = automatic_jobs(context) if settings.jobs is None else settings.jobs
        first = _cells_before(context, settings, candidates)
        total = len(first) + len(_cells_after(context, settings, [{}] * len(splits), seeds))
        with (
            progress(total, "assessing", shown=show_progress) as advance,
            Pool(context, store, jobs, advance) as pool,
        ):
            results = pool.run(first)
            chosen = [
                _selected(context, fold, candidates, results) if settings.nested else {}
                for fold in range(len(splits))
            ]
            results |= pool.run(_cells_after(context, settings, chosen, seeds))
        found = collect(context, settings, Finished(results, candidates, chosen, seeds), started)
        if folder is not None:
            write_json(Path(home) / "assessment.json", found.as_dict())
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
        choose("model", EMBEDDINGS, estimator)
        return make_estimator(task != "regression", {"model": estimator, **parameters})
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
