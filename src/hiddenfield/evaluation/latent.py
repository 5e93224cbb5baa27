"""learn_run and impute_run: models with something hidden, learned for a range of sizes and kept in a folder."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hiddenfield.errors import CollapseError, ConvergenceWarning, HiddenfieldError, InputError
from hiddenfield.estimators import LatentEstimator, choose_size, load
from hiddenfield.evaluation.fitting import check_parameters
from hiddenfield.evaluation.latent_data import LearnData, LearnPlan
from hiddenfield.evaluation.records import Record, claim_folder, finite, read_record, write_json

SETTINGS, RESULT, MODEL = "settings.json", "learned.json", "model"


class SizeRecord(Record, frozen=True, kw_only=True):
    """What was learned with one size: its best run, and criteria; with an error where no run has an end."""

    size: int | None
    log_likelihood: float | None = None
    free: int | None = None
    criteria: dict[str, float | None] = msgspec.field(default_factory=dict)
    iterations: int | None = None
    converged: bool = False
    status: str = ""
    error: str | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


class LearnRecord(Record, frozen=True, kw_only=True):
    """What ``learned.json`` of a run holds."""

    model: str
    rows: int
    columns: list[dict[str, Any]]
    used: list[str]
    targets: list[str]
    missing: int
    size_parameter: str | None
    sizes: list[SizeRecord]
    chosen: int | None
    criterion: str
    seed: int
    command: str | None = None
    sequence: str | None = None
    sequences: int | None = None
    shards: int | None = None

    @property
    def best(self) -> SizeRecord:
        """That of the size that was chosen."""
        return next(one for one in self.sizes if one.size == self.chosen)


def learn_run(
    data: LearnData,
    folder: str | Path,
    plan: LearnPlan,
    *,
    resume: bool = False,
    verbose: bool = False,
    command: str | None = None,
) -> LearnRecord:
    """Learn a model for each of several sizes, choose one, and keep it in a folder.

    The folder then holds ``model/`` (that `hiddenfield.load` opens), ``learned.json``, ``settings.json``, and a folder
    for each size with its model. What is finished is never done again, and runs of EM go on where they were: however
    often it is interrupted, the result is the same.

    Parameters
    ----------
    data
        What is learned from.
    folder
        New or empty; with `resume` that of a run that was interrupted.
    plan
        What to do.
    resume
        Whether to go on with what is there.
    verbose
        Whether progress is shown.
    command
        The command line, for the record.
    """
    folder, parameter = Path(folder), plan.size_parameter
    check_parameters(plan.parameters, plan.kind, plan.kind._get_param_names())
    if data.lengths is not None and plan.criterion == "cross_validation" and data.structures is None:
        raise InputError(
            "cross_validation holds out rows, and those of a sequence belong together; choose bic, aic or icl"
        )
    if plan.sizes and parameter is None:
        raise InputError(f"{plan.model} has no size to choose")
    fresh = claim_folder(folder, SETTINGS, asdict(plan), "a run", resume=resume)
    sizes: list[int | None] = list(plan.sizes)
    if not sizes:
        default = (
            None if parameter is None else plan.parameters.get(parameter, getattr(plan.kind(), parameter))
        )
        sizes = [default]
    try:
        records = [_learn_size(data, folder, plan, size, verbose) for size in sizes]
    except HiddenfieldError:
        if fresh and not any(folder.glob("size-*/*")):
            shutil.rmtree(folder)  # so that a corrected command finds the folder as it was
        raise
    done = [one for one in records if one.error is None]
    if not done:
        if fresh:
            shutil.rmtree(folder)
        raise CollapseError(f"no size could be learned: {records[0].error}")
    sign = -1 if plan.criterion == "cross_validation" else 1
    chosen = min(done, key=lambda one: sign * _criterion(one, plan.criterion)).size
    load(folder / _name(chosen) / MODEL).save(folder / MODEL, overwrite=(folder / MODEL).exists())
    record = LearnRecord(
        model=plan.model,
        rows=data.rows,
        columns=[column.as_dict() for column in data.table.columns],
        used=list(data.used),
        targets=list(data.targets),
        missing=int(data.missing.sum()),
        size_parameter=parameter,
        sizes=records,
        chosen=chosen,
        criterion=plan.criterion,
        seed=plan.seed,
        command=command,
        sequence=data.sequence,
        sequences=None if data.lengths is None else len(data.lengths),
        shards=None if data.shards is None else len(data.shards.parts),
    )
    write_json(folder / RESULT, record.as_dict())
    return record


def _name(size: int | None) -> str:
    return "size-default" if size is None else f"size-{size}"


def _criterion(one: SizeRecord, name: str) -> float:
    value = one.criteria.get(name)
    if value is None:
        raise InputError(f"there is no {name} of this model; choose another criterion")
    return value


def _learn_size(
    data: LearnData, folder: Path, plan: LearnPlan, size: int | None, verbose: bool
) -> SizeRecord:
    """Learn with one size, or return what was learned before."""
    own = folder / _name(size)
    if (own / RESULT).is_file():
        return read_record(
            own / RESULT, SizeRecord, "the record of a size; remove its folder to learn it again"
        )
    estimator = _estimator(data, plan, checkpoint=own / "checkpoint", verbose=verbose)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            found = choose_size(estimator, sizes=[size], criterion=plan.criterion, **data.inputs())
        except (CollapseError, InputError) as error:
            if isinstance(error, InputError) and len(plan.sizes) < 2:
                raise
            record = SizeRecord(size=size, error=str(error))
            write_json(own / RESULT, record.as_dict())
            return record
    found.best_estimator.save(own / MODEL, overwrite=(own / MODEL).exists())
    best = found.best_estimator.learned_.best
    criteria = {name: float(getattr(found, name)[0]) for name in ("bic", "aic", "icl")}
    criteria["cross_validation"] = float(found.cross_validated[0])
    record = SizeRecord(
        size=size,
        log_likelihood=finite(float(found.log_likelihood[0])),
        free=int(found.num_free[0]),
        criteria={name: finite(value) for name, value in criteria.items() if not np.isnan(value)},
        iterations=best.iterations,
        converged=best.converged,
        status=best.status,
        warnings=sorted({str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)}),
    )
    write_json(own / RESULT, record.as_dict())
    shutil.rmtree(own / "checkpoint", ignore_errors=True)
    return record


def _estimator(data: LearnData, plan: LearnPlan, **options: Any) -> LatentEstimator:
    own = {"random_state": plan.seed, **plan.parameters, **options}
    names = plan.kind._get_param_names()
    if "kinds" in names and data.structures is None:
        own = {"kinds": data.kinds(), **own}
    if "sequence" in names and data.sequence is not None:
        own = {"sequence": data.sequence, **own}
    return plan.kind(**own)
