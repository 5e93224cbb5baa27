"""Experiment, Trial, Scale: what a published experiment is made of, and how much of it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Int

__all__ = ["FULL", "QUICK", "Experiment", "Figure", "Scale", "Trial", "chosen_trials", "cut_down"]


@dataclass(frozen=True)
class Figure:
    """A number that somebody published: whose it is, and how it was come by."""

    value: float
    source: str
    protocol: str


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run.

    Parameters
    ----------
    structures, folds, epochs
        At most so many; None: all.
    models, data, variants, columns
        Only these; None: all.
    small_grid
        Whether two candidates stand for the whole grid.
    """

    structures: int | None = None
    folds: int | None = None
    epochs: int | None = None
    models: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    small_grid: bool = False


FULL = Scale()
QUICK = Scale(structures=120, folds=2, epochs=5, models=("mean_field", "loopy_bp"), small_grid=True)


@dataclass(frozen=True, eq=False)
class Trial:
    """One assessment of an experiment.

    Parameters
    ----------
    data, model, column
        Its place in the table: which set, which model, under which protocol.
    load
        From the folder of data to the structures, with their target, and their given splits or None.
    settings, parameters
        Of the assessment and of the model.
    figures
        What was published of it.
    variant
        Which of several ways to train the model; empty where there is but one.
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
    def name(self) -> str:
        """A name for its folder."""
        parts = (self.data, self.model, self.variant, self.column)
        return "-".join(filter(None, parts)).replace(" ", "_").replace("/", "_")


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table of a paper.

    Parameters
    ----------
    name, title, about
        What it is called, its heading, and what a reader must know of it.
    trials
        From the scale to everything that is run; `load` reads nothing before it is called.
    layout
        ``"table"``: a row for every trial; ``"ablation"``: one for every variant, with its difference from the first.
    quick
        The sets of a quick run; empty: all.
    computed
        Whether its structures are computed, so that no folder of data is needed.
    remarks
        What was tried, and the likely reason where a published figure is not reached.
    """

    name: str
    title: str
    about: str
    trials: Callable[[Scale], list[Trial]]
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
        """Return the scale of a full or a quick run, of some sets, models, variants and columns or of all."""
        whole = replace(QUICK, data=self.quick or None) if quick else FULL
        given = {"data": data, "models": models, "variants": variants, "columns": columns}
        changes: dict[str, Any] = {name: tuple(names) for name, names in given.items() if names}
        return replace(whole, **changes)


# What a scale may name: its field, the attribute of a trial, and what one of them is called.
NAMED = (
    ("data", "data", "set of data"),
    ("models", "model", "model"),
    ("variants", "variant", "variant"),
    ("columns", "column", "column"),
)


def chosen_trials(experiment: Experiment, scale: Scale) -> list[Trial]:
    """Return the trials that a scale asks for; every name in it must be one of the experiment's.

    Examples
    --------
    >>> from hiddenfield.studies import EXPERIMENTS
    >>> len(chosen_trials(EXPERIMENTS["inex"], Scale(models=("loopy_bp",))))
    2
    >>> chosen_trials(EXPERIMENTS["inex"], Scale(data=("INEX2005", "INEX206")))
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown set of data of inex 'INEX206' (did you mean 'INEX2006'?); choose from: ...
    """
    every = experiment.trials(scale)
    chosen = every
    for group, attribute, what in NAMED:
        names = getattr(scale, group)
        if names is not None:
            _check_names(experiment, what, names, [getattr(trial, attribute) for trial in every])
            chosen = [trial for trial in chosen if getattr(trial, attribute) in names]
    if not chosen:
        raise InputError(
            f"nothing of {experiment.name} is left to run: no trial has all that was asked for; ask for less"
        )
    return chosen


def _check_names(experiment: Experiment, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    choices = dict.fromkeys(filter(None, known))
    if not choices:
        raise InputError(f"{experiment.name} has but one {what}, which has no name; name none")
    for name in names:
        choose(f"{what} of {experiment.name}", choices, name)


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
    generator = np.random.default_rng(seed)
    everything = np.arange(len(structures))
    parts = [everything] if splits is None else [split.test for split in splits]
    rest = np.setdiff1d(everything, np.concatenate(parts))
    if len(rest) and len(parts) == 1:
        parts = [*parts, rest]
    quota = max(scale.structures // len(parts), 2)
    kept = np.unique(np.concatenate([_some(part, structures, quota, generator) for part in parts]))
    place = np.full(len(structures), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return structures[kept], None if splits is None else [_renumbered(split, place) for split in splits]


def _some(
    part: Int[Array, " part"], structures: Structures, quota: int, generator: np.random.Generator
) -> Int[Array, " some"]:
    """Draw some positions; of every class at least two, if there are two."""
    order = generator.permutation(part)
    if structures.targets is None or structures.target_vocabularies[0] is None:
        return order[:quota]
    codes = structures.targets[:, 0].cpu().numpy()[order]
    first = np.concatenate([np.flatnonzero(codes == code)[:2] for code in np.unique(codes)])
    others = np.setdiff1d(np.arange(len(order)), first)
    return order[np.concatenate([first, others])[: max(quota, len(first))]]


def _renumbered(split: Split, place: Int[Array, " structures"]) -> Split:
    parts = [place[part][place[part] >= 0] for part in (split.train, split.test)]
    if not all(map(len, parts)):
        raise InputError(f"{split.name} is left with nothing; allow more structures")
    # What was given to validate on is too little now; an inner hold-out is drawn instead.
    return Split(split.name, *parts)


def scaled(settings: AssessmentSettings, scale: Scale, splits: Sequence[Split] | None) -> AssessmentSettings:
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
