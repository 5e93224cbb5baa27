"""Run an experiment: every trial assessed, one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from hiddenfield.data.paths import existing
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.assessing import assess
from hiddenfield.machine import describe_machine
from hiddenfield.studies.base import (
    FULL,
    Experiment,
    Scale,
    Trial,
    chosen_trials,
    cut_down,
    scaled,
)

__all__ = ["join_results", "merge_results", "run_experiment"]

# Of a row that is selected on the reported folds these would be of other fits.
NOT_OF_PUBLISHED = ("roc", "training_curve", "ranges", "num_parameters", "learning_curve")
PACKAGES = ("hiddenfield", "torch", "numpy", "numba", "scikit-learn")


def run_experiment(
    experiment: Experiment,
    data: str | Path | None,
    scale: Scale = FULL,
    *,
    folder: str | Path | None = None,
    device: str | None = None,
    jobs: int | None = 1,
    show_progress: bool = False,
    before: Mapping[str, Any] | None = None,
    each: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Assess every trial of an experiment that the scale allows.

    Parameters
    ----------
    experiment
        One of `EXPERIMENTS`.
    data
        The folder that holds ``graphs/`` and ``sequences/``; None where the structures are computed.
    scale
        How much of it.
    folder
        Keeps every finished cell; a run that finds one of the same plan goes on with it.
    device, jobs, show_progress
        As in `assess`.
    before
        An earlier result, whose rows stay beside the new ones; see `merge_results`.
    each
        Is given the result so far after every trial.

    Returns
    -------
    dict
        Plain values: ``experiment``, ``title``, ``about``, ``layout``, ``remarks``, ``scale`` and ``rows``, each with
        the machine, versions and date of its ``run``.
    """
    chosen = chosen_trials(experiment, scale)
    header = _header(experiment, scale) | {"rows": []}
    content = header if before is None else merge_results(before, header)
    folder_of_data = Path() if experiment.computed else existing(_given(data))
    run = describe_machine(PACKAGES) | {"device": device or "auto"}
    source: Any = None
    for trial in chosen:
        if source != _source(trial):  # reading 30,000 molecules takes longer than a quick trial
            source, (everything, given) = _source(trial), trial.load(folder_of_data)
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
        row = _row(trial, found.as_dict(), parameters) | {"run": run}
        content = _ordered(experiment, merge_results(content, header | {"rows": [row]}))
        if each is not None:
            each(content)
    return content


def _given(data: str | Path | None) -> str | Path:
    if data is None:
        raise InputError("this experiment reads its structures: name the folder with graphs/ and sequences/")
    return data


def _header(experiment: Experiment, scale: Scale) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "layout": experiment.layout,
        "remarks": list(experiment.remarks),
        "scale": {
            **{name: value for name, value in asdict(scale).items() if name not in ("variants", "columns")},
            "data": None,
            "models": None,
        },
    }


def merge_results(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the rows of another beside its own; of the same trial the later row stays.

    Hours of an experiment can so be spread over several runs. Both must be of the same experiment at the same scale.

    Examples
    --------
    >>> same = {"experiment": "x", "scale": {"folds": None}}
    >>> row = {"data": "A", "model": "m", "variant": "", "column": "honest", "mean": 0.1}
    >>> merged = merge_results(
    ...     {**same, "rows": [row]}, {**same, "rows": [{**row, "data": "B"}, {**row, "mean": 0.2}]}
    ... )
    >>> [(row["data"], row["mean"]) for row in merged["rows"]]
    [('A', 0.2), ('B', 0.1)]
    """
    for key in ("experiment", "scale"):
        if before[key] != after[key]:
            raise InputError(
                f"results of {key} {before[key]!r} and {after[key]!r} do not go together; write to another file"
            )
    rows = {_place(row): row for row in (*before["rows"], *after["rows"])}
    return dict(after) | {"rows": list(rows.values())}


def join_results(experiment: Experiment, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one result with the rows of several, in the order of the experiment's trials.

    Of the same trial the last row stays; rows of trials that the experiment does not have come at the end. Trials
    without a row are listed under ``missing``. What was published is no part of a run: figures, title and remarks are
    those that the experiment has now.
    """
    content = dict(results[0])
    for other in results[1:]:
        content = merge_results(content, other)
    content = _ordered(experiment, content)
    figures = {_place_of(trial): _figures(trial) for trial in _every_trial(experiment, content)}
    rows = [row | {"figures": figures.get(_place(row), row["figures"])} for row in content["rows"]]
    there = set(map(_place, rows))
    missing = [list(place) for place in figures if place not in there]
    now = {"title": experiment.title, "about": experiment.about, "layout": experiment.layout}
    return content | now | {"remarks": list(experiment.remarks), "rows": rows, "missing": missing}


def _ordered(experiment: Experiment, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result whose rows stand in the order of the trials, whenever they were run; unknown ones at the end.

    Rows of an ablation also say which variant they are compared with: the experiment's first on the same data.
    """
    trials = _every_trial(experiment, content)
    order = {_place_of(trial): position for position, trial in enumerate(trials)}
    rows = sorted(content["rows"], key=lambda row: order.get(_place(row), len(order)))
    if experiment.layout == "ablation":
        first = {(trial.data, trial.column): trial.variant or trial.model for trial in reversed(trials)}
        rows = [row | {"reference": first.get((row["data"], row["column"]))} for row in rows]
    return dict(content) | {"rows": rows}


def _every_trial(experiment: Experiment, content: Mapping[str, Any]) -> list[Trial]:
    """Return all trials of the experiment at the scale of a result."""
    scale = {name: value for name, value in content["scale"].items() if name not in ("data", "models")}
    return experiment.trials(Scale(**scale))


def _figures(trial: Trial) -> list[dict[str, Any]]:
    return [asdict(figure) for figure in trial.figures]


def _place_of(trial: Trial) -> tuple[str, ...]:
    return (trial.data, trial.model, trial.variant, trial.column)


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row.get(key, "") for key in ("data", "model", "variant", "column"))


def _source(trial: Trial) -> Any:
    """Return what two trials on the same structures and splits have in common."""
    load = trial.load
    return (load.func, load.args) if isinstance(load, partial) else load


def _row(trial: Trial, content: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    if "as_published" in content:
        content = {name: value for name, value in content.items() if name not in NOT_OF_PUBLISHED}
    return {
        "data": trial.data,
        "model": trial.model,
        "variant": trial.variant,
        "column": trial.column,
        "figures": _figures(trial),
        "parameters": parameters,
        **content,
    }
