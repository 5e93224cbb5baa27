"""fit_run: fit an estimator, measure it on one held-out part, and keep model and results in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import write_text
from hiddenfield.data.structures import Structures
from hiddenfield.errors import HiddenfieldError, InputError
from hiddenfield.estimators import StructureClassifier, StructureEstimator, StructureRegressor
from hiddenfield.estimators.targets import as_task, attach
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.evaluation.assessment.settings import TASKS
from hiddenfield.evaluation.baselines import constant_score
from hiddenfield.evaluation.measuring import measure
from hiddenfield.evaluation.records import (
    FitRecord,
    Metrics,
    PartSizes,
    SplitRecord,
    claim_folder,
    finite_metrics,
    read_record,
    write_json,
)
from hiddenfield.evaluation.splits.base import Request
from hiddenfield.evaluation.splits.drawn import hold_out
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int


@dataclass(frozen=True)
class Plan:
    """Settings of a run; a run that is resumed must be given the same.

    Parameters
    ----------
    task
        ``"regression"``, ``"classification"``, or ``"auto"``: classification if every target holds text, truth values,
        or at most ten different whole numbers.
    test_fraction
        Share of the structures that is held out as the test part; 0 for none.
    seed
        Of the split and of everything random in fitting. `assess` with a hold-out of the same seed and fraction has the
        same test structures.
    parameters
        Those of the estimator that are not left at their defaults.
    reader
        Options with which the structures were read; new ones will be read alike.
    """

    task: str = "auto"
    test_fraction: float = 0.1
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reader: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choose("task", dict.fromkeys(TASKS), self.task)
        if not 0.0 <= self.test_fraction < 1.0:
            raise InputError(f"the test fraction must lie in [0, 1), got {self.test_fraction}")


def fit_run(
    structures: Structures, folder: str | Path, plan: Plan, *, resume: bool = False, verbose: bool = False
) -> FitRecord:
    """Fit an estimator to structures with targets, measure it on those held out, and write both into a folder.

    The folder then holds ``model/`` (see `StructureEstimator.save`), ``metrics.json``, ``history.json``, ``split.json``
    (positions of the training, validation and test structures), ``settings.json`` and ``checkpoint/``.

    Parameters
    ----------
    structures
        With targets of their own.
    folder
        New or empty; with `resume` one whose run was interrupted.
    plan
        What to do.
    resume
        Whether to continue from the last epoch that was saved, if any. On the CPU the result is the same to the bit.
    verbose
        Whether a progress bar is shown, on a terminal.

    Returns
    -------
    FitRecord
        What ``metrics.json`` holds: for each target the metrics on the test structures, and those of the mean of the
        training targets, or of the class frequencies.
    """
    folder = Path(folder)
    columns, _ = attach(structures, None)
    structures = with_row_ids(as_task(structures, columns, plan.task))
    assert structures.targets is not None
    answered = np.flatnonzero(~structures.targets.isnan().all(dim=1).cpu().numpy())
    if len(structures) and not len(answered):
        names = ", ".join(map(repr, structures.target_names))
        raise InputError(
            f"all {len(structures)} entries of {names} are missing; there is nothing to learn from"
        )
    train, test = _held_out(structures, answered, plan)
    own = {"random_state": plan.seed, "checkpoint": folder / "checkpoint", "verbose": verbose}
    estimator = make_estimator(structures.target_vocabularies[0] is not None, {**own, **plan.parameters})
    fresh = claim_folder(folder, "settings.json", asdict(plan), "a run", resume=resume)
    try:
        estimator.fit(structures[train])
    except HiddenfieldError:
        if fresh and not (folder / "checkpoint").exists():
            shutil.rmtree(folder)  # so that a corrected command finds the folder as it was
        raise
    result = _measured(estimator, structures, train, test)
    validation = train[estimator.validation_indices_]
    rest = np.setdiff1d(train, validation)
    split = SplitRecord(rest.tolist(), validation.tolist(), test.tolist())
    write_json(folder / "split.json", split.as_dict())
    # Metrics that are undefined stay NaN there, which Python reads.
    histories = [asdict(history) for history in estimator.histories_]
    write_text(folder / "history.json", json.dumps(histories, indent=1) + "\n")
    estimator.save(folder / "model", overwrite=(folder / "model").exists())
    write_json(folder / "metrics.json", result.as_dict())
    return result


def _held_out(
    structures: Structures, answered: Int[Array, " answered"], plan: Plan
) -> tuple[Int[Array, " train"], Int[Array, " test"]]:
    """Return the training and the test positions: the split "hold_out" of the structures that have a target."""
    if plan.test_fraction == 0.0:
        return answered, answered[:0]
    assert structures.targets is not None
    single = len(structures.target_names) == 1 and structures.target_vocabularies[0] is not None
    classes = structures.targets[answered, 0].long().cpu().numpy() if single else None
    request = Request(len(answered), classes, test_fraction=plan.test_fraction, seed=plan.seed)
    (split,) = hold_out(request)
    return answered[split.train], answered[split.test]


def make_estimator(classify: bool, parameters: Mapping[str, Any]) -> StructureEstimator:
    """Return a classifier or regressor with these parameters, if it has them all."""
    kind: type[StructureEstimator] = StructureClassifier if classify else StructureRegressor
    check_parameters(parameters, kind, kind._get_param_names())
    return kind(**parameters)


def check_parameters(names: Iterable[str], kind: type, known: Iterable[str]) -> None:
    """Refuse parameters that an estimator does not have."""
    known = sorted(known)
    for name in names:
        if name not in known:
            raise InputError(
                f"{kind.__name__} has no parameter {name!r}; its parameters are: {', '.join(known)}"
            )


def read_settings(folder: str | Path) -> dict[str, Any]:
    """Return the settings of a run, or nothing if the folder holds a model alone."""
    file = Path(folder) / "settings.json"
    if not file.is_file():
        return {}
    return read_record(
        file, dict, "the settings of a run; restore it, or remove it and give the options again"
    )


def _measured(
    estimator: StructureEstimator,
    structures: Structures,
    train: Int[Array, " train"],
    test: Int[Array, " test"],
) -> FitRecord:
    assert structures.targets is not None
    truth = structures.targets.cpu().numpy().astype(np.float64)
    own: dict[str, Metrics] = {}
    baseline: dict[str, Metrics] = {}
    predictions = estimator._predictions(structures[test]) if len(test) else []
    for k, (name, members) in enumerate(zip(structures.target_names, predictions, strict=False)):
        predicted, before, after = members.mean(axis=0), truth[train, k], truth[test, k]
        present = ~np.isnan(after)
        classes = predicted.shape[1] if predicted.ndim == 2 else None
        constant = constant_score(before[~np.isnan(before)], after[present], classes)
        own[name] = finite_metrics(measure(after[present], predicted[present]))
        baseline[name] = finite_metrics(constant.metrics)
    validation = len(estimator.validation_indices_)
    return FitRecord(
        "classification" if isinstance(estimator, StructureClassifier) else "regression",
        str(estimator.model),
        PartSizes(len(train) - validation, validation, len(test)),
        sum(network.num_parameters for network in estimator.networks_),
        [len(history.rows) for history in estimator.histories_],
        [history.best_epoch for history in estimator.histories_],
        own,
        baseline,
    )
