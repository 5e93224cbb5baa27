"""Outer and inner splits of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Request, Split
from hiddenfield.evaluation.splits.drawn import hold_out_positions, k_fold, stratified
from hiddenfield.evaluation.splits.making import make_splits

__all__ = ["inner_splits", "outer_splits"]


def outer_splits(problem: Problem, settings: AssessmentSettings) -> list[Split]:
    """Return the splits, as positions among the structures that have a target."""
    given = settings.split_file is not None or not isinstance(settings.split, str)
    X = problem.X if isinstance(problem.X, Structures) else None
    # Given positions count all structures; drawn ones only those that have a target.
    everything = given and problem.unanswered > 0
    request = Request(
        problem.total if everything else len(problem),
        None if everything else problem.codes,
        None if everything else _groups(settings.groups, problem),
        None if X is None or "smiles" not in X.columns else [str(text) for text in X.columns["smiles"]],
        None if X is None or problem.unanswered else X.num_nodes.cpu().numpy(),
        settings.split_file,
        settings.folds,
        settings.repeats,
        settings.test_fraction,
        settings.seed,
    )
    splits = make_splits(settings.split, request)
    return [_renumbered(split, problem) for split in splits] if everything else splits


def _groups(groups: Any, problem: Problem) -> Any:
    if groups is None:
        return None
    if not isinstance(groups, str):
        array = np.asarray(groups)
        if len(array) != problem.total:
            raise InputError(f"there are {problem.total} structures, but {len(array)} groups")
        return array[problem.positions]
    columns = problem.X.columns if isinstance(problem.X, Structures) else {}
    if groups not in columns:
        raise InputError(
            f"the structures have no column {groups!r}; they have: {', '.join(columns) or 'none'} (a table keeps more "
            f"with keep=)"
        )
    return columns[groups]


def _renumbered(split: Split, problem: Problem) -> Split:
    place = np.full(problem.total, -1, dtype=np.int64)
    place[problem.positions] = np.arange(len(problem))
    parts = [
        None if part is None else place[part][place[part] >= 0]
        for part in (split.train, split.test, split.validation)
    ]
    if not all(len(part) for part in parts if part is not None):
        raise InputError(f"{split.name}: the target of all structures of one part is missing")
    return Split(split.name, *parts)  # type: ignore[arg-type]


def inner_splits(
    problem: Problem, splits: Sequence[Split], settings: AssessmentSettings
) -> tuple[tuple[Split, ...], ...]:
    """Return the inner splits of every outer one: `train` to fit on, `test` to validate on."""
    result: list[tuple[Split, ...]] = []
    for fold, split in enumerate(splits):
        if settings.inner == "hold_out" and split.validation is not None:
            rest = np.setdiff1d(split.train, split.validation)
            result.append((Split(split.name, rest, split.validation),))
            continue
        codes = None if problem.codes is None else problem.codes[split.train]
        if settings.inner == "hold_out":
            generator = np.random.default_rng([settings.seed, fold, 2])
            pairs = [hold_out_positions(len(split.train), codes, settings.inner_fraction, generator)]
        else:
            seed = int(np.random.default_rng([settings.seed, fold, 2]).integers(2**31))
            request = Request(len(split.train), codes, folds=settings.inner_folds, seed=seed)
            try:
                drawn = (k_fold if codes is None else stratified)(request)
            except InputError as error:
                raise InputError(f"inner selection of {split.name}: {error}") from None
            pairs = [(part.train, part.test) for part in drawn]
        result.append(
            tuple(Split(split.name, split.train[kept], split.train[aside]) for kept, aside in pairs)
        )
    return tuple(result)
