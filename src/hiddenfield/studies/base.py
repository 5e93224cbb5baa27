"""Experiment, Trial and the registry of experiments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.registry import Registry, choose
from hiddenfield.report.study.records import Figure, Scale

__all__ = ["EXPERIMENTS", "FULL", "QUICK", "Experiment", "Figure", "Scale", "Trial", "chosen_trials", "study"]


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
    """

    data: str
    model: str
    column: str
    load: Callable[[Path], tuple[Structures, Sequence[Split] | None]]
    settings: AssessmentSettings
    parameters: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    variant: str = ""

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
    """

    name: str
    title: str
    about: str
    trials: Trials
    layout: str = "table"
    quick: tuple[str, ...] = ()
    computed: bool = False
    remarks: tuple[str, ...] = ()

    def scale(
        self,
        quick: bool = False,
        data: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        variants: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Scale:
        """Return the scale of a full or a quick run, of all or only the given data sets, models, variants, columns."""
        whole = msgspec.structs.replace(QUICK, data=self.quick or None) if quick else FULL
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
