"""Experiments and their trials, how they are run, and how rows of several runs are put together."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hiddenfield.data.paths import existing
from hiddenfield.data.structures import Structures
from hiddenfield.embedding import EMBEDDINGS
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.assessing import assess
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.records import Assessment
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.machine import describe_machine
from hiddenfield.registry import Registry, choose
from hiddenfield.report.study.records import (
    Average as Average,
    Figure as Figure,
    Result as Result,
    Row,
    Run,
    Scale as Scale,
)
from hiddenfield.shapes import Array, Int

# For a row that is selected on the reported folds these would be of other fits.
# What the papers' networks are, where a trial says nothing else: the defaults of the estimators do more.
ONE_NETWORK = {
    "ensemble": 1,
    "counts": False,
    "every_round": False,
    "standardise": False,
    "patience": None,
    "validation_fraction": 0.1,
}
NOT_OF_PUBLISHED = ("roc", "training_curve", "ranges", "num_parameters", "learning_curve")
PACKAGES = ("hiddenfield", "torch", "numpy", "numba", "scikit-learn")

FULL = Scale()
QUICK = Scale(structures=120, folds=2, epochs=3, models=("mean_field", "loopy_bp"), small_grid=True)


@dataclass(frozen=True, eq=False)
class Trial:
    """One assessment of an experiment.

    Parameters
    ----------
    data, model, column
        Its place in the table: data set, model, protocol.
    load
        From the folder of data to the structures, with their target, and their given splits or None.
    settings, parameters
        Of the assessment and of the model.
    figures
        Published figures to compare it with.
    variant
        Which of several ways to train the model; empty where there is only one.
    in_sight
        Whether the settings were found while results on these test parts were seen.
    """

    data: str
    model: str
    column: str
    load: Callable[[Path], tuple[Structures, Sequence[Split] | None]]
    settings: AssessmentSettings
    parameters: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    variant: str = ""
    in_sight: bool = False

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Data set, model, variant and column: the place of its row."""
        return self.data, self.model, self.variant, self.column

    @property
    def name(self) -> str:
        """Name of its folder."""
        return "-".join(filter(None, self.place)).replace(" ", "_").replace("/", "_")


Trials = Callable[[Scale], "list[Trial]"]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table of a paper.

    Parameters
    ----------
    name, title, about
        Name in `EXPERIMENTS`, heading of its page, and what a reader must know about it.
    trials
        From the scale to everything that is run; `load` reads nothing before it is called.
    layout
        ``"table"``: one row per trial; ``"ablation"``: one row per variant, with its difference from the first.
    quick
        Data sets of a quick run; empty for all.
    computed
        Whether its structures are computed, so that no folder of data is needed.
    remarks
        What was tried, and the likely reason where a published figure is not reached.
    averages
        Data sets whose mean stands for them at the beginning of the page.
    """

    name: str
    title: str
    about: str
    trials: Trials
    layout: str = "table"
    quick: tuple[str, ...] = ()
    computed: bool = False
    remarks: tuple[str, ...] = ()
    averages: tuple[Average, ...] = ()

    def scale(
        self,
        quick: bool = False,
        data: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        variants: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Scale:
        """Return the scale of a full or a quick run, of all or only the given data sets, models, variants, columns."""
        whole = FULL
        if quick:
            known = {trial.model for trial in self.trials(FULL)}
            few = tuple(name for name in QUICK.models or () if name in known) or None
            whole = msgspec.structs.replace(QUICK, data=self.quick or None, models=few)
        given = {"data": data, "models": models, "variants": variants, "columns": columns}
        return msgspec.structs.replace(
            whole, **{name: tuple(names) for name, names in given.items() if names}
        )


EXPERIMENTS: Registry[Experiment] = Registry("experiment", package="hiddenfield.studies")


def study(name: str, **options: Any) -> Callable[[Trials], Trials]:
    """Return a decorator that adds an experiment to `EXPERIMENTS`, given the function that returns its trials.

    The texts are in the docstring of the module: the title, what a reader must know, and the remarks, each a paragraph
    that begins with a dash.

    Parameters
    ----------
    name
        In `EXPERIMENTS`.
    options
        Further fields of `Experiment`.
    """

    def add(trials: Trials) -> Trials:
        text = inspect.cleandoc(sys.modules[trials.__module__].__doc__ or name)
        title, *parts = (" ".join(part.split()) for part in text.split("\n\n"))
        about = "\n\n".join(part for part in parts if not part.startswith("- "))
        remarks = tuple(part.removeprefix("- ") for part in parts if part.startswith("- "))
        experiment = Experiment(name, title.rstrip("."), about, trials, remarks=remarks, **options)
        EXPERIMENTS.register(name, summary=experiment.title)(experiment)
        return trials

    return add


# What a scale may name: its field, the attribute of a trial, and the word for it.
NAMED = (
    ("data", "data", "data set"),
    ("models", "model", "model"),
    ("variants", "variant", "variant"),
    ("columns", "column", "column"),
)


def chosen_trials(experiment: Experiment, scale: Scale) -> list[Trial]:
    """Return the trials that a scale selects; every name in it must be one of the experiment's.

    Examples
    --------
    >>> from hiddenfield.studies import EXPERIMENTS
    >>> len(chosen_trials(EXPERIMENTS["inex"], Scale(models=("loopy_bp",))))
    2
    >>> chosen_trials(EXPERIMENTS["inex"], Scale(data=("INEX2005", "INEX206")))
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown data set of inex 'INEX206' (did you mean 'INEX2006'?); choose from: ...
    """
    every = experiment.trials(scale)
    chosen = every
    for group, attribute, what in NAMED:
        names = getattr(scale, group)
        if names is not None:
            known = dict.fromkeys(filter(None, (getattr(trial, attribute) for trial in every)))
            if not known:
                raise InputError(
                    f"{experiment.name} has only one {what}, without a name; leave the option out"
                )
            for name in names:
                choose(f"{what} of {experiment.name}", known, name)
            chosen = [trial for trial in chosen if getattr(trial, attribute) in names]
    if not chosen:
        raise InputError(
            f"nothing of {experiment.name} is left to run: no trial matches all that was asked for; ask for less"
        )
    return chosen


# -- running -----------------------------------------------------------------------------------------------


def run_experiment(
    experiment: Experiment,
    data: str | Path | None,
    scale: Scale = FULL,
    *,
    folder: str | Path | None = None,
    device: str | None = None,
    jobs: int | None = 1,
    show_progress: bool = False,
    before: Result | None = None,
    each: Callable[[Result], None] | None = None,
) -> Result:
    """Assess every trial of an experiment that the scale selects.

    Parameters
    ----------
    experiment
        One of `EXPERIMENTS`.
    data
        The folder that holds ``graphs/`` and ``sequences/``; None where the structures are computed.
    scale
        How much of it.
    folder
        Keeps every finished cell; a run that finds one of the same plan continues from it.
    device, jobs, show_progress
        As in `assess`.
    before
        An earlier result, whose rows stay beside the new ones; see `merge_results`.
    each
        Called with the result so far after every trial.

    Returns
    -------
    Result
        One row per trial, each with the machine, versions and date of its run.
    """
    chosen = chosen_trials(experiment, scale)
    recorded = msgspec.structs.replace(scale, data=None, models=None, variants=None, columns=None)
    empty = _described(experiment, Result(experiment=experiment.name, scale=recorded, rows=[]))
    content = empty if before is None else merge_results(before, empty)
    if data is None and not experiment.computed:
        raise InputError("this experiment reads its structures: name the folder with graphs/ and sequences/")
    place = Path() if data is None or experiment.computed else existing(data)
    run = msgspec.convert(describe_machine(PACKAGES) | {"device": device or "auto"}, Run)
    source: Any = None
    for trial in chosen:
        if source != _source(trial):  # reading 30,000 molecules takes longer than a quick trial
            source, (everything, given) = _source(trial), trial.load(place)
        structures, splits = cut_down(everything, given, scale)
        parameters = _parameters(trial, scale)
        found = assess(
            trial.model,
            structures,
            settings=replace(_scaled(trial.settings, scale, splits), device=device, jobs=jobs),
            parameters=(ONE_NETWORK if trial.model in EMBEDDINGS else {}) | parameters,
            folder=None if folder is None else Path(folder) / trial.name,
            resume=folder is not None,
            show_progress=show_progress,
        )
        new = msgspec.structs.replace(empty, rows=[_row(trial, found, parameters, run)])
        content = _ordered(experiment, merge_results(content, new))
        if each is not None:
            each(content)
    return content


def _parameters(trial: Trial, scale: Scale) -> dict[str, Any]:
    """Return the parameters of the model at a scale: with a small grid, two networks stand for an ensemble."""
    limits = {"epochs": scale.epochs, "ensemble": 2 if scale.small_grid else None}
    return {
        name: value if limits.get(name) is None else min(value, limits[name])
        for name, value in trial.parameters.items()
    }


def _source(trial: Trial) -> Any:
    """Return what two trials on the same structures and splits have in common."""
    load = trial.load
    return (load.func, load.args) if isinstance(load, partial) else load


def _row(trial: Trial, found: Assessment, parameters: dict[str, Any], run: Run) -> Row:
    if found.as_published is not None:
        found = msgspec.structs.replace(found, **dict.fromkeys(NOT_OF_PUBLISHED))
    place = dict(zip(("data", "model", "variant", "column"), trial.place, strict=True))
    known = {"figures": trial.figures, "in_sight": trial.in_sight}
    return Row.of(found, **place, **known, parameters=parameters, run=run)


# -- a part of an experiment -------------------------------------------------------------------------------


def cut_down(
    structures: Structures, splits: Sequence[Split] | None, scale: Scale, seed: int = 0
) -> tuple[Structures, list[Split] | None]:
    """Return as many structures and splits as the scale allows, with members of every class in every part.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A"] * 100, targets=["x", "y"] * 50)
    >>> split = Split("one", np.arange(60), np.arange(60, 100))
    >>> pack, splits = cut_down(words, [split], Scale(structures=20))
    >>> len(pack), len(splits[0].train), len(splits[0].test)
    (20, 10, 10)
    """
    if splits is not None and scale.folds is not None:
        splits = splits[: scale.folds]
    if scale.structures is None or len(structures) <= scale.structures:
        return structures, None if splits is None else list(splits)
    # As many of every class and test part; what is in none is a part of its own.
    part = np.full(len(structures), -1)
    for number, split in enumerate(splits or ()):
        part[split.test] = number
    targets, words = structures.targets, structures.target_vocabularies
    codes = np.zeros(len(structures)) if targets is None or words[0] is None else targets[:, 0].cpu().numpy()
    _, group, counts = np.unique(np.stack([part, codes]), axis=1, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(structures))
    order = order[np.argsort(group.reshape(-1)[order], kind="stable")]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.sort(order[rank < max(scale.structures // len(counts), 2)])
    place = np.full(len(structures), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return structures[kept], None if splits is None else [_renumbered(split, place) for split in splits]


def _renumbered(split: Split, place: Int[Array, " structures"]) -> Split:
    found = split.renumbered(place)
    if not len(found.train) or not len(found.test):
        raise InputError(f"{split.name} is left with nothing; allow more structures")
    # The given validation part is too small now; an inner hold-out is drawn instead.
    return replace(found, validation=None)


def _scaled(settings: AssessmentSettings, scale: Scale, splits: Sequence[Split] | None) -> AssessmentSettings:
    """Return the settings of an assessment at a scale, with given splits if there are some."""
    changes: dict[str, Any] = {} if splits is None else {"split": list(splits)}
    if splits is None and scale.folds is not None:
        changes |= {"folds": min(settings.folds, scale.folds), "repeats": min(settings.repeats, scale.folds)}
    if scale.small_grid:
        space = {
            name: values[:2] if k == 0 else values[:1]
            for k, (name, values) in enumerate(settings.space.items())
        }
        changes |= {"space": space, "seeds": 1}
    return replace(settings, **changes)


# -- several runs ------------------------------------------------------------------------------------------


def merge_results(before: Result, after: Result) -> Result:
    """Return a result with the rows of another beside its own; of the same trial the later row stays.

    Hours of an experiment can so be spread over several runs. Both must be of the same experiment at the same scale.
    """
    for name in ("experiment", "scale"):
        one, two = getattr(before, name), getattr(after, name)
        if one != two:
            raise InputError(
                f"results of {name} {one!r} and {two!r} do not go together; write to another file"
            )
    rows = {row.place: row for row in (*before.rows, *after.rows)}
    return msgspec.structs.replace(after, rows=list(rows.values()))


def join_results(experiment: Experiment, results: Sequence[Result]) -> Result:
    """Return one result with the rows of several, in the order of the experiment's trials.

    Of the same trial the last row stays; rows of trials that the experiment does not have come at the end. Trials
    without a row are listed as missing. What was published, and how the settings were found, is no part of a run: it is
    what the experiment says now, as are title and remarks.
    """
    content = results[0]
    for other in results[1:]:
        content = merge_results(content, other)
    content = _described(experiment, _ordered(experiment, content))
    trials = {trial.place: trial for trial in experiment.trials(content.scale)}
    rows = [
        msgspec.structs.replace(row, figures=trial.figures, in_sight=trial.in_sight)
        if (trial := trials.get(row.place))
        else row
        for row in content.rows
    ]
    there = {row.place for row in rows}
    missing = tuple(place for place in trials if place not in there)
    return msgspec.structs.replace(content, rows=rows, missing=missing)


def _described(experiment: Experiment, content: Result) -> Result:
    told = {name: getattr(experiment, name) for name in ("title", "about", "layout", "remarks", "averages")}
    return msgspec.structs.replace(content, **told)


def _ordered(experiment: Experiment, content: Result) -> Result:
    """Return a result whose rows are in the order of the trials, whenever they were run; unknown ones at the end.

    Rows of an ablation also name the variant that they are compared with: the experiment's first on the same data.
    """
    trials = experiment.trials(content.scale)
    order = {trial.place: position for position, trial in enumerate(trials)}
    rows = sorted(content.rows, key=lambda row: order.get(row.place, len(order)))
    if experiment.layout == "ablation":
        first = {(trial.data, trial.column): trial.variant or trial.model for trial in reversed(trials)}
        rows = [msgspec.structs.replace(row, reference=first.get((row.data, row.column))) for row in rows]
    return msgspec.structs.replace(content, rows=rows)
