"""Split, Request, and the registry of splitting methods."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.registry import Registry
from hiddenfield.shapes import Array, Int, Shaped


@dataclass(frozen=True, eq=False)
class Split:
    """Positions to train on and to test on, each sorted; no position is in both.

    Parameters
    ----------
    name
        What it is called in tables, for example ``"fold 3"``.
    train, test
        Positions.
    validation
        Those of the training positions on which settings are to be chosen, where that was decided beforehand.
    """

    name: str
    train: Int[Array, " train"]
    test: Int[Array, " test"]
    validation: Int[Array, " validation"] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        parts = {"train": self.train, "test": self.test, "validation": self.validation}
        return {"name": self.name} | {k: v.tolist() for k, v in parts.items() if v is not None}

    def renumbered(self, place: Int[Array, " structures"]) -> Split:
        """Return the split of what is kept; `place` has the new position of each structure, -1 where it is left out."""
        parts = (self.train, self.test, self.validation)
        return Split(self.name, *(None if p is None else place[p][place[p] >= 0] for p in parts))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Request:
    """Input of a splitting method; each uses what it needs.

    Parameters
    ----------
    total
        Number of structures.
    classes
        (total,) class codes; None where the target is a number.
    groups
        (total,) names of groups, for ``"leave_one_group_out"``.
    smiles
        (total,) SMILES, for the scaffold splits.
    sizes
        (total,) numbers of nodes, against which an archive of folds is checked that brings its own graphs.
    file
        Of given indices, for ``"files"``.
    folds, repeats
        How many parts, and how often anew.
    test_fraction
        Share to test on, where there is one part.
    seed
        Of everything random.
    """

    total: int
    classes: Int[Array, " structures"] | None = None
    groups: Shaped[Array, " structures"] | None = None
    smiles: Sequence[str] | None = None
    sizes: Int[Array, " structures"] | None = None
    file: str | Path | None = None
    folds: int = 10
    repeats: int = 1
    test_fraction: float = 0.1
    seed: int = 0

    def generator(self, *further: int) -> np.random.Generator:
        """Return the generator of a part of the work; parts are independent of each other and of their order."""
        return np.random.default_rng([self.seed, *further])


SPLITTERS: Registry[Callable[[Request], list[Split]]] = Registry("split", "hiddenfield.evaluation.splits")


def make_splits(method: Any, request: Request) -> list[Split]:
    """Split by a method of `SPLITTERS`; all are deterministic under the request's seed.

    Parameters
    ----------
    method
        A name; ``"auto"``: files where they are given, else repeated where repeats are, else stratified for classes and
        k_fold for numbers; a list of `Split`; or a splitter of scikit-learn.
    request
        What to split.

    Returns
    -------
    list of Split
        Checked: in range, train and test apart.

    Examples
    --------
    >>> len(make_splits("k_fold", Request(20, folds=4)))
    4
    >>> make_splits("kfold", Request(20))
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown split 'kfold' (did you mean 'k_fold'?); choose from: files, ...
    """
    if isinstance(method, str):
        auto = automatic_split(request.file, request.repeats, request.classes is not None)
        name = auto if method == "auto" else method
        return check_splits(SPLITTERS.choose(name)(request), request.total, f"the split {name!r}")
    if hasattr(method, "split"):
        return check_splits(_of_scikit_learn(method, request), request.total)
    if isinstance(method, Iterable):
        listed = list(method)
        if all(isinstance(split, Split) for split in listed):
            return check_splits(listed, request.total)
    raise InputError(
        f"a split is a name, a list of Split or a splitter of scikit-learn, got {type(method).__name__}"
    )


def automatic_split(file: str | Path | None, repeats: int, classify: bool) -> str:
    """Return the name of the split that ``"auto"`` stands for."""
    if file is not None:
        return "files"
    return "repeated" if repeats > 1 else "stratified" if classify else "k_fold"


def _of_scikit_learn(splitter: Any, request: Request) -> list[Split]:
    y = np.zeros(request.total) if request.classes is None else request.classes
    pairs = splitter.split(np.zeros((request.total, 1)), y, request.groups)
    return [
        Split(f"fold {k}", np.sort(train).astype(np.int64), np.sort(test).astype(np.int64))
        for k, (train, test) in enumerate(pairs, start=1)
    ]


def check_splits(splits: Iterable[Split], total: int, source: str = "the splits") -> list[Split]:
    """Return the splits if they are sound: in range, train and test apart, nothing empty.

    Examples
    --------
    >>> check_splits([Split("fold 1", np.array([0, 1]), np.array([1, 2]))], 3)
    Traceback (most recent call last):
    hiddenfield.errors.InputError: the splits, fold 1: structure 1 is in train and in test; ...
    """
    splits = list(splits)
    if not splits:
        raise InputError(f"{source}: there is no split at all")
    for split in splits:
        where = f"{source}, {split.name}"
        parts = {"train": split.train, "test": split.test, "validation": split.validation}
        for name, part in parts.items():
            if part is not None:
                _check_part(part, name, total, where)
        both = np.intersect1d(split.train, split.test)
        if len(both):
            raise InputError(
                f"{where}: structure {both[0]} is in train and in test; so are {len(both) - 1} others: a model "
                f"would be measured on what it has learned"
            )
        if split.validation is not None and len(np.setdiff1d(split.validation, split.train)):
            raise InputError(f"{where}: some validation structures are not among those to train on")
    return splits


def _check_part(part: Int[Array, " part"], name: str, total: int, where: str) -> None:
    if not len(part):
        raise InputError(f"{where}: {name} is empty; use fewer folds or more structures")
    if part.min() < 0 or part.max() >= total:
        wrong = int(part.min() if part.min() < 0 else part.max())
        raise InputError(
            f"{where}: {name} names structure {wrong}, but there are {total}, from 0 to {total - 1}; are the "
            f"indices of another data set, or counted from 1?"
        )
    if len(np.unique(part)) < len(part):
        values, counts = np.unique(part, return_counts=True)
        raise InputError(f"{where}: {name} names structure {values[counts.argmax()]} more than once")


def digest(splits: Iterable[Split]) -> str:
    """Return a short text that is the same exactly where the splits are.

    Examples
    --------
    >>> one = Split("fold 1", np.array([0]), np.array([1]))
    >>> digest([one]) == digest([one, one])
    False
    """
    checksum = hashlib.sha256()
    for split in splits:
        for part in (split.train, split.test, split.validation):
            checksum.update(b"|" if part is None else part.astype("<i8").tobytes() + b"|")
    return checksum.hexdigest()[:16]
