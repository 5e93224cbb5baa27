"""Outer and inner splits of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hiddenfield.data.columns import ROWS
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Request, Split
from hiddenfield.evaluation.splits.drawn import check_groups, hold_out_positions, k_fold, stratified
from hiddenfield.evaluation.splits.making import make_splits
from hiddenfield.shapes import Array, Int

__all__ = ["inner_splits", "outer_splits"]


def outer_splits(problem: Problem, settings: AssessmentSettings) -> list[Split]:
    """Return the splits, as positions among the structures that have a target.

    Given positions count all structures. Those of a file count the rows that were read from, also where a reader left
    some out and says so in the column ``"row in file"``. What is drawn, by a splitter of scikit-learn too, is drawn
    from the structures that have a target.
    """
    X = problem.X if isinstance(problem.X, Structures) else None
    of_file = settings.split == "files" or (settings.split == "auto" and settings.split_file is not None)
    rows = _rows(problem) if of_file else None
    listed = not isinstance(settings.split, str) and not hasattr(settings.split, "split")
    everything = rows is not None or ((of_file or listed) and problem.unanswered > 0)
    request = Request(
        len(problem) if not everything else problem.total if rows is None else int(rows.max()) + 1,
        None if everything else problem.codes,
        None if everything else _groups(settings.groups, problem),
        None if X is None or "smiles" not in X.columns else [str(text) for text in X.columns["smiles"]],
        None if X is None or everything else X.num_nodes.cpu().numpy(),
        settings.split_file,
        settings.folds,
        settings.repeats,
        settings.test_fraction,
        settings.seed,
    )
    try:
        splits = make_splits(settings.split, request)
    except InputError as error:
        if rows is None:
            raise
        raise InputError(
            f"{error} (positions count the rows that were read from, of which some were left out; if these are the "
            f"last ones, correct them, or leave them out of the splits too)"
        ) from None
    if not everything:
        return splits
    places = problem.positions if rows is None else rows
    return [_renumbered(split, places, request.total) for split in splits]


def _rows(problem: Problem) -> Int[Array, " structures"] | None:
    """Return where the structures stood in the file; None where that is where they stand."""
    if not isinstance(problem.X, Structures) or ROWS not in problem.X.columns:
        return None
    rows = np.asarray(problem.X.columns[ROWS])
    if rows.dtype.kind not in "iu" or (rows < 0).any() or len(np.unique(rows)) < len(rows):
        raise InputError(
            f"the column {ROWS!r} must hold different whole numbers from 0, by which given splits are told; correct it"
        )
    return rows.astype(np.int64)


def _groups(groups: Any, problem: Problem) -> Any:
    if groups is None:
        return None
    if not isinstance(groups, str):
        array = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
        if len(array) != problem.total:
            raise InputError(f"there are {problem.total} structures, but {len(array)} groups")
        return check_groups(array[problem.positions], problem.positions)
    columns = problem.X.columns if isinstance(problem.X, Structures) else {}
    if groups not in columns:
        raise InputError(
            f"the structures have no column {groups!r}; they have: {', '.join(columns) or 'none'} (a table keeps more "
            f"with keep=)"
        )
    return check_groups(columns[groups], problem.positions)


def _renumbered(split: Split, places: Int[Array, " structures"], total: int) -> Split:
    """Return a split of places as one of positions; places where nothing is are left out."""
    place = np.full(total, -1, dtype=np.int64)
    place[places] = np.arange(len(places))
    parts = [
        None if part is None else place[part][place[part] >= 0]
        for part in (split.train, split.test, split.validation)
    ]
    if not all(len(part) for part in parts if part is not None):
        raise InputError(
            f"{split.name}: the target of all structures of one part is missing, or their rows were left out"
        )
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
