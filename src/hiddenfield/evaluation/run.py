"""A run: read, split, fit, measure on what was kept aside, and keep all of it in one folder."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.formats import FORMATS
from hiddenfield.data.paths import write_text
from hiddenfield.data.reading import read
from hiddenfield.data.structures import Structures
from hiddenfield.errors import HiddenfieldError, InputError
from hiddenfield.estimators import StructureClassifier, StructureEstimator, StructureRegressor
from hiddenfield.estimators.targets import as_classes, as_numbers, attach, keep_aside, looks_like_classes
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.evaluation.assessment.settings import TASKS
from hiddenfield.learning.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc
from hiddenfield.shapes import Array, Int

__all__ = ["Plan", "fit_run", "read_for_learning", "read_settings"]


@dataclass(frozen=True)
class Plan:
    """What a run does; a run that is resumed must be given the same.

    Parameters
    ----------
    task
        ``"regression"``, ``"classification"``, or ``"auto"``: classification if every target holds text, truth values,
        or at most ten different whole numbers.
    test_fraction
        Share of the structures that is kept aside to measure on; 0 for none.
    seed
        Of the split and of everything random in fitting.
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
        if self.task not in TASKS:
            raise InputError(f"unknown task {self.task!r}; choose from: {', '.join(TASKS)}")
        if not 0.0 <= self.test_fraction < 1.0:
            raise InputError(f"the fraction to test on must lie in [0, 1), got {self.test_fraction}")


def read_for_learning(path: str | Path, options: Mapping[str, Any]) -> tuple[Structures, dict[str, Any]]:
    """Read structures, sequences with arcs that know their direction; return them and the options that did it.

    Of a format that brings targets of its own those that the option ``target`` names are kept.
    """
    known = FORMATS
    name = options.get("format")
    found = (
        known.get(name)
        if name is not None
        else next((f for f in known.values() if f.recognises(Path(path))), None)
    )
    if found is not None and found.name in ("fasta", "table") and "arc_labels" not in options:
        directed = {**options, "arc_labels": "direction"}
        try:
            return read(path, **directed), directed
        except InputError:
            pass  # molecules have no such option, and of anything else that is wrong the next line tells
    names = options.get("target")
    if names and found is not None and "target" not in inspect.signature(found.read).parameters:
        rest = {option: value for option, value in options.items() if option != "target"}
        return _chosen(read(path, **rest), [names] if isinstance(names, str) else list(names)), rest
    return read(path, **options), dict(options)


def _chosen(structures: Structures, names: list[str]) -> Structures:
    """Return the structures with these of their targets."""
    for name in names:
        if name not in structures.target_names:
            listed = ", ".join(structures.target_names) or "none"
            raise InputError(f"the structures have no target {name!r}; they have: {listed}")
    places = [structures.target_names.index(name) for name in names]
    assert structures.targets is not None
    return structures.replace(
        targets=structures.targets[:, places],
        target_names=tuple(names),
        target_vocabularies=tuple(structures.target_vocabularies[place] for place in places),
    )


def fit_run(
    structures: Structures, folder: str | Path, plan: Plan, *, resume: bool = False, verbose: bool = False
) -> dict[str, Any]:
    """Fit an estimator to structures with targets, measure it on those kept aside, and write both into a folder.

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
        Whether to go on from the last epoch that was saved, if any. On the CPU the end is the same to the bit.
    verbose
        Whether a progress bar is shown, on a terminal.

    Returns
    -------
    dict
        What ``metrics.json`` holds: for each target the metrics on the test structures, and beside them those of the
        training targets' mean, or of the most frequent class.
    """
    folder = Path(folder)
    columns, _ = attach(structures, None)
    classify = plan.task == "classification" or (
        plan.task == "auto" and all(map(looks_like_classes, columns))
    )
    structures = with_row_ids((as_classes if classify else as_numbers)(structures, columns))
    assert structures.targets is not None
    answered = np.flatnonzero(~structures.targets.isnan().all(dim=1).cpu().numpy())
    if len(structures) and not len(answered):
        names = ", ".join(map(repr, structures.target_names))
        raise InputError(
            f"all {len(structures)} entries of {names} are missing; there is nothing to learn from"
        )
    kept, aside = keep_aside(structures[answered], plan.test_fraction, plan.seed)
    kept, aside = answered[kept], answered[aside]
    kind: type[StructureEstimator] = StructureClassifier if classify else StructureRegressor
    own = {"random_state": plan.seed, "checkpoint": folder / "checkpoint", "verbose": verbose}
    estimator = _make(kind, {**own, **plan.parameters})
    fresh = _take(folder, plan, resume)
    try:
        estimator.fit(structures[kept])
    except HiddenfieldError:
        if fresh and not (folder / "checkpoint").exists():
            shutil.rmtree(folder)  # so that a corrected command finds the folder as it was
        raise
    result = _result(estimator, structures, kept, aside)
    _write(folder / "split.json", _split(estimator, kept, aside))
    _write(folder / "history.json", [asdict(history) for history in estimator.histories_])
    estimator.save(folder / "model", overwrite=(folder / "model").exists())
    _write(folder / "metrics.json", result)
    return result


def _make(kind: type[StructureEstimator], parameters: Mapping[str, Any]) -> StructureEstimator:
    known = kind._get_param_names()
    for name in parameters:
        if name not in known:
            raise InputError(
                f"{kind.__name__} has no parameter {name!r}; its parameters are: {', '.join(known)}"
            )
    return kind(**parameters)


def read_settings(folder: str | Path) -> dict[str, Any]:
    """Return the settings of a run, or nothing if the folder holds a model alone."""
    file = Path(folder) / "settings.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (OSError, ValueError):
        raise InputError(
            f"{file} cannot be read; restore it, or remove it and give the options again"
        ) from None
    return content if isinstance(content, dict) else {}


def _take(folder: Path, plan: Plan, resume: bool) -> bool:
    """Make the folder ours: a new one, or that of the same run; say whether it is new."""
    settings = json.loads(json.dumps(asdict(plan)))
    fresh = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not fresh:
        if not resume:
            raise InputError(
                f"{folder} is not empty; choose another folder, or go on with what is there with resume"
            )
        before = read_settings(folder)
        for name, value in settings.items():
            if before.get(name) != value:
                raise InputError(
                    f"{folder} is of a run with {name} {json.dumps(before.get(name))}, not {json.dumps(value)}; give "
                    f"the same, or choose another folder"
                )
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "settings.json", settings)
    return fresh


def _split(estimator: StructureEstimator, kept: Array, aside: Array) -> dict[str, list[int]]:
    validation = kept[estimator.validation_indices_]
    training = np.setdiff1d(kept, validation)
    return {"train": training.tolist(), "validation": validation.tolist(), "test": aside.tolist()}


def _result(
    estimator: StructureEstimator,
    structures: Structures,
    kept: Int[Array, " kept"],
    aside: Int[Array, " aside"],
) -> dict[str, Any]:
    assert structures.targets is not None
    truth = structures.targets.cpu().numpy()
    classify = isinstance(estimator, StructureClassifier)
    predictions = [members.mean(axis=0) for members in estimator._predictions(structures[aside])]
    measures = [
        (_of_classes if classify else _of_numbers)(truth[kept, k], truth[aside, k], predicted)
        for k, predicted in enumerate(predictions)
    ]
    names = structures.target_names
    return {
        "task": "classification" if classify else "regression",
        "model": estimator.model,
        "structures": {
            "train": len(kept) - len(estimator.validation_indices_),
            "validation": len(estimator.validation_indices_),
            "test": len(aside),
        },
        "parameters": sum(network.num_parameters for network in estimator.networks_),
        "epochs": [len(history.rows) for history in estimator.histories_],
        "best_epoch": [history.best_epoch for history in estimator.histories_],
        "test": {name: measure for name, (measure, _) in zip(names, measures, strict=True)}
        if len(aside)
        else {},
        "baseline": {name: simple for name, (_, simple) in zip(names, measures, strict=True)}
        if len(aside)
        else {},
    }


def _of_numbers(before: Array, truth: Array, predicted: Array) -> tuple[dict[str, Any], dict[str, Any]]:
    mean = np.full(len(truth), np.nanmean(before))
    return tuple(_finite({m.__name__: m(truth, p) for m in (mae, rmse, r2)}) for p in (predicted, mean))  # type: ignore[return-value]


def _of_classes(before: Array, truth: Array, predicted: Array) -> tuple[dict[str, Any], dict[str, Any]]:
    counts = np.bincount(before[~np.isnan(before)].astype(np.int64), minlength=predicted.shape[1])
    frequent = np.full(len(truth), counts.argmax())
    codes = predicted.argmax(axis=1)
    own = {"accuracy": accuracy(truth, codes), "balanced_accuracy": balanced_accuracy(truth, codes)}
    own["roc_auc"] = roc_auc(truth, predicted)
    return _finite(own), _finite({"accuracy": accuracy(truth, frequent)})


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """Return None for what cannot be told, which JSON has no number for."""
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def _write(file: Path, content: Any) -> None:
    write_text(file, json.dumps(content, indent=1) + "\n")


def accepted_options(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the options that the format of a file has."""
    known = FORMATS
    found = next((entry for entry in known.values() if entry.recognises(path)), None)
    if found is None:
        return {}
    names = inspect.signature(found.read).parameters
    return {name: value for name, value in options.items() if name in names}
