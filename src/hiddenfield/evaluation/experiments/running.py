"""Run an experiment: every trial assessed, one result."""

from __future__ import annotations

import platform
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from hiddenfield.data.files import existing
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.assessing import assess
from hiddenfield.evaluation.experiments.base import FULL, Experiment, Scale, Trial, cut_down, scaled

__all__ = ["run_experiment"]

PACKAGES = ("hiddenfield", "torch", "numpy", "scikit-learn")


def run_experiment(
    experiment: Experiment,
    data: str | Path,
    scale: Scale = FULL,
    *,
    folder: str | Path | None = None,
    device: str | None = None,
    jobs: int | None = 1,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Assess every trial of an experiment that the scale allows.

    Parameters
    ----------
    experiment
        One of `EXPERIMENTS`.
    data
        The folder that holds ``graphs/`` and ``sequences/``.
    scale
        How much of it.
    folder
        Keeps every finished cell; a run that finds one of the same plan goes on with it.
    device, jobs, show_progress
        As in `assess`.

    Returns
    -------
    dict
        Plain values: ``experiment``, ``title``, ``about``, ``scale``, ``versions`` and ``rows``.
    """
    data = existing(data)
    chosen = [trial for trial in experiment.trials(scale) if _wanted(trial, scale)]
    if not chosen:
        names = sorted({trial.data for trial in experiment.trials(scale)})
        raise InputError(f"nothing of {experiment.name} is left to run; its data are: {', '.join(names)}")
    rows: list[dict[str, Any]] = []
    source: Any = None
    for trial in chosen:
        if source != _source(trial):  # reading 30,000 molecules takes longer than a quick trial
            source, (everything, given) = _source(trial), trial.load(data)
        structures, splits = cut_down(everything, given, scale)
        settings = replace(scaled(trial.settings, scale, splits), device=device, jobs=jobs)
        parameters = {"model": trial.model, **trial.parameters}
        if scale.epochs is not None:
            parameters["epochs"] = scale.epochs
        found = assess(
            parameters.pop("model"),
            structures,
            settings=settings,
            parameters=parameters,
            folder=None if folder is None else Path(folder) / trial.name,
            resume=folder is not None,
            show_progress=show_progress,
        )
        rows.append(_row(trial, found.as_dict(), parameters))
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "scale": asdict(scale),
        "versions": {name: _version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "rows": rows,
    }


def _source(trial: Trial) -> Any:
    """Return what two trials on the same structures and splits have in common."""
    load = trial.load
    return (load.func, load.args) if isinstance(load, partial) else load


def _wanted(trial: Trial, scale: Scale) -> bool:
    models, data = scale.models, scale.data
    return (models is None or trial.model in models) and (data is None or trial.data in data)


def _row(trial: Trial, content: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": trial.data,
        "model": trial.model,
        "column": trial.column,
        "figures": [asdict(figure) for figure in trial.figures],
        "parameters": parameters,
        **content,
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from source"
