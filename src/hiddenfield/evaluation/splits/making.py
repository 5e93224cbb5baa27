"""The registry of ways to split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.evaluation.splits.base import Request, Split, check_splits
from hiddenfield.evaluation.splits.drawn import hold_out, k_fold, leave_one_group_out, repeated, stratified
from hiddenfield.evaluation.splits.given import given
from hiddenfield.evaluation.splits.scaffolds import scaffold, scaffold_hold_out
from hiddenfield.registry import choose

__all__ = ["SPLITTERS", "make_splits"]

SPLITTERS: dict[str, Callable[[Request], list[Split]]] = {
    "k_fold": k_fold,
    "stratified": stratified,
    "repeated": repeated,
    "hold_out": hold_out,
    "files": given,
    "scaffold": scaffold,
    "scaffold_hold_out": scaffold_hold_out,
    "leave_one_group_out": leave_one_group_out,
}


def make_splits(method: Any, request: Request) -> list[Split]:
    """Split as a name of `SPLITTERS` says; all are deterministic under the request's seed.

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
    hiddenfield.errors.InputError: unknown split 'kfold' (did you mean 'k_fold'?); choose from: k_fold, stratified, ...
    """
    if isinstance(method, str):
        name = _automatic(request) if method == "auto" else method
        return check_splits(choose("split", SPLITTERS, name)(request), request.total, f"the split {name!r}")
    if hasattr(method, "split"):
        return check_splits(_of_scikit_learn(method, request), request.total)
    if isinstance(method, Iterable):
        listed = list(method)
        if all(isinstance(split, Split) for split in listed):
            return check_splits(listed, request.total)
    raise InputError(
        f"a split is a name, a list of Split or a splitter of scikit-learn, got {type(method).__name__}"
    )


def _automatic(request: Request) -> str:
    if request.file is not None:
        return "files"
    if request.repeats > 1:
        return "repeated"
    return "k_fold" if request.classes is None else "stratified"


def _of_scikit_learn(splitter: Any, request: Request) -> list[Split]:
    y = np.zeros(request.total) if request.classes is None else request.classes
    pairs = splitter.split(np.zeros((request.total, 1)), y, request.groups)
    return [
        Split(f"fold {k}", np.sort(train).astype(np.int64), np.sort(test).astype(np.int64))
        for k, (train, test) in enumerate(pairs, start=1)
    ]
