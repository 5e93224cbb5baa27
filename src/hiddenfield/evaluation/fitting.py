"""fit_run: fit an estimator, measure it on one held-out part, and keep model and results in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from hiddenfield.data.paths import write_text
from hiddenfield.data.structures import Structures
from hiddenfield.embedding import EMBEDDINGS
from hiddenfield.errors import HiddenfieldError, InputError
from hiddenfield.estimators import (
    CGMMClassifier,
    CGMMRegressor,
    KernelClassifier,
    KernelRegressor,
    StructureClassifier,
    StructureRegressor,
)
from hiddenfield.estimators.base import Fitted
from hiddenfield.estimators.targets import as_task, attach, looks_like_classes
from hiddenfield.evaluation.assessment.problem import groups_of, with_row_ids
from hiddenfield.evaluation.assessment.settings import TASKS, AssessmentSettings
from hiddenfield.evaluation.held_out import measure_fit, warnings_of
from hiddenfield.evaluation.records import (
    Assessments,
    Record,
    SplitRecord,
    claim_folder,
    read_record,
    write_json,
)
from hiddenfield.evaluation.splits.base import Request, Split, make_splits
from hiddenfield.kernels import KERNELS
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int


class RunSettings(Record, frozen=True):
    """What ``settings.json`` of a run holds, as far as new structures are read by it."""

    reader: dict[str, Any] = msgspec.field(default_factory=dict)


HOLD_OUTS = ("hold_out", "group_hold_out", "scaffold_hold_out")
"""Splits with a single test part, of which `fit_run` draws one."""


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
    split
        How: ``"hold_out"`` (at random, every class in proportion), ``"group_hold_out"`` (whole groups) or
        ``"scaffold_hold_out"`` (rare scaffolds of molecules).
    group
        Column with the groups of ``"group_hold_out"``; None for copies: equal structures are one group.
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
    split: str = "hold_out"
    group: str | None = None

    def __post_init__(self) -> None:
        choose("task", dict.fromkeys(TASKS), self.task)
        choose("split", dict.fromkeys(HOLD_OUTS), self.split)
        if self.group is not None and self.split != "group_hold_out":
            raise InputError(f"groups have no effect on the split {self.split!r}; use 'group_hold_out'")
        if not 0.0 <= self.test_fraction < 1.0:
            raise InputError(f"the test fraction must lie in [0, 1), got {self.test_fraction}")


def fit_run(
    structures: Structures,
    folder: str | Path,
    plan: Plan,
    *,
    resume: bool = False,
    verbose: bool = False,
    baselines: bool = True,
    command: str | None = None,
) -> Assessments:
    """Fit an estimator to structures with targets, measure it on those held out, and write both into a folder.

    The folder then holds ``model/`` (see `StructureEstimator.save`), ``assessment.json``, ``history.json``,
    ``split.json`` (positions of the training, validation and test structures), ``settings.json`` and ``checkpoint/``.

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
        Whether progress is shown.
    baselines
        Whether the model is compared with linear models on counted labels and colours, target by target.
    command
        The command line, for the record.

    Returns
    -------
    Assessments
        What ``assessment.json`` holds: for each target an assessment on the one split, as of ``hiddenfield evaluate``
        with the same hold-out; the model that was fitted; and warnings.
    """
    folder = Path(folder)
    columns, _ = attach(structures, None)
    text = [column.name for column in columns if column.kind in ("str", "mixed")]
    numbers = [column.name for column in columns if not looks_like_classes(column)]
    if plan.task == "auto" and text and numbers:
        raise InputError(
            f"target {text[0]!r} is of classes and {numbers[0]!r} of numbers, and one model does not predict both; fit "
            f"a model to each kind"
        )
    structures = with_row_ids(as_task(structures, columns, plan.task))
    assert structures.targets is not None
    answered = np.flatnonzero(~structures.targets.isnan().all(dim=1).cpu().numpy())
    if len(structures) and not len(answered):
        names = ", ".join(map(repr, structures.target_names))
        raise InputError(
            f"all {len(structures)} entries of {names} are missing; there is nothing to learn from"
        )
    train, test = _held_out(structures, answered, plan)
    _check_learnable(structures, train)
    own = {"random_state": plan.seed, "checkpoint": folder / "checkpoint", "verbose": verbose}
    parameters = dict(plan.parameters)
    name = parameters.pop("model", "loopy_bp")
    estimator = make_estimator(name, structures.target_vocabularies[0] is not None, parameters, own)
    fresh = claim_folder(folder, "settings.json", asdict(plan), "a run", resume=resume)
    try:
        estimator.fit(structures[train])
    except HiddenfieldError:
        if fresh and not (folder / "checkpoint").exists():
            shutil.rmtree(folder)  # so that a corrected command finds the folder as it was
        raise
    split = Split("hold-out", train, test, train[estimator.validation_indices_])
    _save(estimator, split, folder)
    how = AssessmentSettings(plan.split, seed=plan.seed, baselines=baselines)
    result = measure_fit(estimator, structures, split, how, command=command)
    result.warnings.extend(warnings_of(result, molecules="smiles" in structures.columns))
    write_json(folder / "assessment.json", result.as_dict())
    return result


def _save(estimator: Fitted, split: Split, folder: Path) -> None:
    """Write the model, its history, and which structures were trained, validated and tested on."""
    assert split.validation is not None
    rest = np.setdiff1d(split.train, split.validation)
    record = SplitRecord(rest.tolist(), split.validation.tolist(), split.test.tolist())
    write_json(folder / "split.json", record.as_dict())
    # Metrics that are undefined stay NaN there, which Python reads.
    histories = [asdict(history) for history in estimator.histories_]
    write_text(folder / "history.json", json.dumps(histories, indent=1) + "\n")
    estimator.save(folder / "model", overwrite=(folder / "model").exists())


def _check_learnable(structures: Structures, train: Int[Array, " train"]) -> None:
    """Name at once all of several targets that there is nothing to learn of."""
    assert structures.targets is not None
    columns = structures.targets[train].cpu().numpy().T
    least = (1 if words is None else 2 for words in structures.target_vocabularies)
    enough = [len(np.unique(c[~np.isnan(c)])) >= few for c, few in zip(columns, least, strict=True)]
    if any(enough) and not all(enough):
        named = list(zip(structures.target_names, enough, strict=True))
        wrong = ", ".join(repr(name) for name, good in named if not good)
        raise InputError(
            f"target {wrong}: missing or of one class in all {len(train)} training structures; leave it out: "
            f"target={[name for name, good in named if good]}"
        )


def _held_out(
    structures: Structures, answered: Int[Array, " answered"], plan: Plan
) -> tuple[Int[Array, " train"], Int[Array, " test"]]:
    """Return the training and the test positions, drawn from the structures that have a target."""
    if plan.test_fraction == 0.0:
        return answered, answered[:0]
    assert structures.targets is not None
    single = len(structures.target_names) == 1 and structures.target_vocabularies[0] is not None
    smiles = structures.columns.get("smiles")
    request = Request(
        len(answered),
        structures.targets[answered, 0].long().cpu().numpy() if single else None,
        groups_of(structures[answered], plan.group, plan.split, answered),
        None if smiles is None else [str(text) for text in smiles[answered]],
        test_fraction=plan.test_fraction,
        seed=plan.seed,
    )
    (split,) = make_splits(plan.split, request)
    return answered[split.train], answered[split.test]


def models() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return by name the classifiers and regressors of structures, and what the name says of their parameters."""
    networks = {name: ((StructureClassifier, StructureRegressor), {"model": name}) for name in EMBEDDINGS}
    kernels = {f"kernel:{name}": ((KernelClassifier, KernelRegressor), {"kernel": name}) for name in KERNELS}
    return {**networks, "cgmm": ((CGMMClassifier, CGMMRegressor), {}), **kernels}


def make_estimator(
    name: str, classify: bool, parameters: Mapping[str, Any], of_run: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """Return the classifier or regressor of a name with these parameters, if it has them all.

    Those of the run are set where it has them.

    Examples
    --------
    >>> make_estimator("mean_field", False, {"dim": 8})
    StructureRegressor(dim=8, model='mean_field')
    >>> make_estimator("cgmm", True, {"num_states": 8})
    CGMMClassifier(num_states=8)
    >>> make_estimator("kernel:wl_subtree", True, {"rounds": 5}, {"checkpoint": "run"})
    KernelClassifier(kernel_options={'rounds': 5})
    """
    kinds, named = choose("model", models(), name)
    estimator = kinds[0 if classify else 1](**named)
    known = estimator.get_params()
    check_parameters(parameters, type(estimator), known)
    own = {key: value for key, value in of_run.items() if key in known}
    return estimator.set_params(**{**own, **parameters})


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
    what = "the settings of a run; restore it, or remove it and give the options again"
    return read_record(file, RunSettings, what).as_dict()
