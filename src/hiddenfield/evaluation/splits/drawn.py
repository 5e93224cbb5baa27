"""Splits drawn at random or by groups: k folds, stratified, repeated, hold-out, groups, scaffolds.

They are not scikit-learn's, which draws other positions under the same seed: committed results and resumable folders
depend on the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hiddenfield.data.readers.delimited import MISSING
from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.evaluation.splits.base import SPLITTERS, Request, Split
from hiddenfield.shapes import Array, Int, Shaped


@SPLITTERS.register(summary="k folds of equal size")
def k_fold(request: Request) -> list[Split]:
    """Cut the structures, in random order, into folds whose sizes differ by at most one; test on each in turn.

    Examples
    --------
    >>> [split.test.tolist() for split in k_fold(Request(5, folds=2))]
    [[1, 2, 3], [0, 4]]
    """
    _check_folds(request)
    return _folds(request, request.generator().permutation(request.total))


@SPLITTERS.register(summary="k folds with equal shares of every class")
def stratified(request: Request) -> list[Split]:
    """As `k_fold`, with every class spread evenly: its members in any two folds differ by at most one.

    Examples
    --------
    >>> classes = np.array([0, 0, 0, 0, 1, 1])
    >>> [classes[split.test].tolist() for split in stratified(Request(6, classes, folds=2))]
    [[0, 0, 1], [0, 0, 1]]
    """
    _check_folds(request)
    classes = request.classes
    if classes is None:
        raise InputError(
            "a stratified split needs a target of classes, and this one is a number; use 'k_fold'"
        )
    counts = np.bincount(classes)
    rarest = int(counts[counts > 0].min())
    if rarest < request.folds:
        remedy = f"use at most {rarest} folds" if rarest > 1 else "leave it out"
        raise InputError(
            f"{request.folds} folds need at least {request.folds} members of every class, but the rarest has {rarest}; "
            f"{remedy}, or use the split 'k_fold'"
        )
    # Class by class, and dealt out like cards: so both classes and folds are even.
    order = request.generator().permutation(request.total)
    return _folds(request, order[np.argsort(classes[order], kind="stable")])


@SPLITTERS.register(summary="k folds drawn several times")
def repeated(request: Request) -> list[Split]:
    """Draw folds `repeats` times: stratified where the target is a class.

    Examples
    --------
    >>> [split.name for split in repeated(Request(4, folds=2, repeats=2))]
    ['repeat 1, fold 1', 'repeat 1, fold 2', 'repeat 2, fold 1', 'repeat 2, fold 2']
    """
    if request.repeats < 1:
        raise InputError(f"repeats must be at least 1, got {request.repeats}")
    once = k_fold if request.classes is None else stratified
    result = []
    for repeat in range(request.repeats):
        seed = int(request.generator(repeat).integers(2**31))
        drawn = once(Request(request.total, request.classes, folds=request.folds, seed=seed))
        result += [Split(f"repeat {repeat + 1}, {s.name}", s.train, s.test) for s in drawn]
    return result


@SPLITTERS.register(summary="one held-out share, or several draws of one")
def hold_out(request: Request) -> list[Split]:
    """Hold out a share once, or `repeats` times: stratified where the target is a class.

    Examples
    --------
    >>> (split,) = hold_out(Request(10, test_fraction=0.3))
    >>> split.test.tolist()
    [2, 4, 6]
    """
    result = []
    for repeat in range(max(request.repeats, 1)):
        parts = hold_out_positions(
            request.total, request.classes, request.test_fraction, request.generator(repeat)
        )
        result.append(_held_out(request, repeat, *parts))
    return result


def hold_out_positions(
    total: int,
    classes: Int[Array, " structures"] | None,
    fraction: float,
    generator: np.random.Generator,
) -> tuple[Int[Array, " kept"], Int[Array, " held_out"]]:
    """Return the positions that are kept and those held out, about the same share of every class.

    At least one is held out, and where there is room one of every class. A class with a single member stays with those
    that are kept.

    Examples
    --------
    >>> hold_out_positions(6, np.array([0, 0, 0, 0, 1, 1]), 0.5, np.random.default_rng(0))
    (array([0, 1, 4]), array([2, 3, 5]))
    """
    if not 0.0 < fraction < 1.0:
        raise InputError(f"the held-out share must lie between 0 and 1, got {fraction}")
    if total < 2:
        raise InputError(f"{total} structure{'s' * (total != 1)} cannot be divided; at least two are needed")
    size = min(max(round(total * fraction), 1), total - 1)
    order = generator.permutation(total)
    if classes is None:
        return np.sort(order[size:]), np.sort(order[:size])
    # Members of each class in random order, and for each of them how far through its class it stands: those that
    # come first in all classes are held out.
    order = order[np.argsort(classes[order], kind="stable")]
    _, first, count = np.unique(classes[order], return_index=True, return_counts=True)
    place = np.arange(total) - np.repeat(first, count)
    share = (place + 0.5) / np.repeat(count, count)
    if (count > 1).sum() <= size:
        share[first] = 0.0
    share[np.repeat(count, count) == 1] = 1.0
    held_out = np.argsort(share, kind="stable")[:size]
    mask = np.zeros(total, dtype=bool)
    mask[order[held_out]] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


@SPLITTERS.register(summary="every group held out in turn")
def leave_one_group_out(request: Request) -> list[Split]:
    """Test on every group in turn, and train on all others.

    Examples
    --------
    >>> groups = np.array(["a", "b", "a", "c"])
    >>> [(split.name, split.test.tolist()) for split in leave_one_group_out(Request(4, groups=groups))]
    [('group a', [0, 2]), ('group b', [1]), ('group c', [3])]
    """
    names, codes, _ = _grouped(request, "leave_one_group_out")
    return _each_in_turn(codes, [f"group {name}" for name in names])


@SPLITTERS.register(summary="one held-out share of whole groups, or several draws of one")
def group_hold_out(request: Request) -> list[Split]:
    """Hold out whole groups, in random order, as long as they fit into the share; the smallest if none does.

    Examples
    --------
    >>> groups = np.array(["a", "b", "a", "c", "d", "a"])
    >>> (split,) = group_hold_out(Request(6, groups=groups, test_fraction=0.3))
    >>> groups[split.test].tolist(), groups[split.train].tolist()
    (['b', 'c'], ['a', 'a', 'd', 'a'])
    """
    _, codes, sizes = _grouped(request, "group_hold_out")
    if not 0.0 < request.test_fraction < 1.0:
        raise InputError(f"the held-out share must lie between 0 and 1, got {request.test_fraction}")
    most, result = max(round(request.total * request.test_fraction), 1), []
    for repeat in range(max(request.repeats, 1)):
        order = request.generator(repeat).permutation(len(sizes))
        chosen, room = [], most
        for group in order.tolist():
            if sizes[group] <= room:
                chosen.append(group)
                room -= sizes[group]
        tested = np.isin(codes, chosen or [int(sizes.argmin())])
        result.append(_held_out(request, repeat, np.flatnonzero(~tested), np.flatnonzero(tested)))
    return result


def _grouped(
    request: Request, split: str
) -> tuple[list[str], Int[Array, " structures"], Int[Array, " groups"]]:
    """Return the names of two groups or more, the group of each structure, and the sizes of the groups."""
    if request.groups is None:
        raise InputError(f"{split} needs groups: name the column that holds them")
    check_groups(request.groups, np.arange(request.total))
    texts = np.array([str(group) for group in request.groups], dtype=object)
    names, codes, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(f"all structures are of one group, {names[0]!r}; at least two are needed")
    return names.tolist(), codes, sizes


def _held_out(request: Request, repeat: int, train: Int[Array, " train"], test: Int[Array, " test"]) -> Split:
    return Split("hold-out" if request.repeats <= 1 else f"hold-out {repeat + 1}", train, test)


def check_groups(
    groups: Shaped[Array, " structures"], rows: Int[Array, " structures"]
) -> Shaped[Array, " structures"]:
    """Return the groups if all of them are there.

    Parameters
    ----------
    groups
        Names or numbers.
    rows
        Where they stand, for the error.

    Examples
    --------
    >>> check_groups(np.array(["a", "", "b"]), np.array([0, 4, 7]))
    Traceback (most recent call last):
    hiddenfield.errors.InputError: the group of 1 structure is missing (row 4); fill it in, or leave ...
    """
    missing = [row for group, row in zip(groups, rows.tolist(), strict=True) if _is_missing(group)]
    if missing:
        first = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        several = "s" * (len(missing) > 1)
        raise InputError(
            f"the group of {len(missing)} structure{several} is missing (row{several} {first}); fill it in, or leave "
            f"such rows out: they are not a group of their own"
        )
    return groups


def _is_missing(group: Any) -> bool:
    """Return whether a group is missing: None, NaN, or an entry that counts as missing in a table."""
    return group is None or str(group).strip() in (*MISSING, "<NA>", "NaT")


def _folds(request: Request, order: Int[Array, " structures"]) -> list[Split]:
    """Deal the structures out to the folds in turn."""
    fold = np.empty(request.total, dtype=np.int64)
    fold[order] = np.arange(request.total) % request.folds
    return _each_in_turn(fold, [f"fold {k + 1}" for k in range(request.folds)])


def _each_in_turn(part: Int[Array, " structures"], names: Sequence[str]) -> list[Split]:
    """Test on every part in turn, and train on all others."""
    return [Split(name, np.flatnonzero(part != k), np.flatnonzero(part == k)) for k, name in enumerate(names)]


def _check_folds(request: Request, single: str = "hold_out") -> None:
    if request.folds < 2:
        raise InputError(
            f"at least 2 folds are needed, got {request.folds}; for a single part use {single!r}"
        )
    if request.folds > request.total:
        raise InputError(
            f"there cannot be more folds than structures: {request.folds} and {request.total}; give at most "
            f"folds={request.total}"
        )


# -- scaffolds ---------------------------------------------------------------------------------------------


def scaffolds_of(smiles: Sequence[str]) -> list[str]:
    """Return the Bemis-Murcko scaffold of every molecule as SMILES: its rings and what joins them.

    A molecule without rings has none, the empty text; all such molecules are one group.

    Raises
    ------
    MissingDependencyError
        Without RDKit.

    References
    ----------
    G. W. Bemis and M. A. Murcko, The properties of known drugs. 1. Molecular frameworks, Journal of Medicinal
    Chemistry 39 (1996).

    Examples
    --------
    >>> scaffolds_of(["Cc1ccccc1", "OCCc1ccccc1", "CCO"])
    ['c1ccccc1', 'c1ccccc1', '']
    """
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    except ImportError:
        raise MissingDependencyError.for_extra("rdkit", "molecules", "a scaffold split") from None
    result = []
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            molecule = Chem.MolFromSmiles(str(text))
            if molecule is None:
                raise InputError(f"structure {row}: {str(text)!r:.100} is no molecule, so it has no scaffold")
            result.append(MurckoScaffoldSmiles(mol=molecule))
    return result


@SPLITTERS.register(summary="folds of whole Bemis-Murcko scaffolds", reference="Bemis and Murcko 1996")
def scaffold(request: Request) -> list[Split]:
    """Deal whole scaffolds out to folds, the largest first, each to the fold that has least; test on each in turn.

    Examples
    --------
    >>> smiles = ["Cc1ccccc1", "Oc1ccccc1", "C1CCCCC1", "CCO"]
    >>> [split.test.tolist() for split in scaffold(Request(4, smiles=smiles, folds=2))]
    [[0, 1], [2, 3]]
    """
    group, sizes = _scaffold_groups(request)
    if len(sizes) < request.folds:
        raise InputError(
            f"{request.folds} folds need as many scaffolds, but there are {len(sizes)}; use fewer"
        )
    _check_folds(request, "scaffold_hold_out")
    # Scaffolds of equal size come in random order.
    order = request.generator().permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load, fold = np.zeros(request.folds, dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    for number in order:
        fold[number] = int(load.argmin())
        load[fold[number]] += sizes[number]
    return _each_in_turn(fold[group], [f"fold {k + 1}" for k in range(request.folds)])


@SPLITTERS.register(summary="test on the rare scaffolds", reference="Bemis and Murcko 1996")
def scaffold_hold_out(request: Request) -> list[Split]:
    """Train on the most frequent scaffolds and test on the rare ones, about `test_fraction` of all molecules.

    Nothing is random, except the order of scaffolds that are equally frequent.

    Examples
    --------
    >>> smiles = ["Cc1ccccc1", "Oc1ccccc1", "c1ccccc1", "CCO"]
    >>> scaffold_hold_out(Request(4, smiles=smiles, test_fraction=0.25))[0].test.tolist()
    [3]
    """
    group, sizes = _scaffold_groups(request)
    if len(sizes) < 2:
        raise InputError("all molecules have one scaffold; there is nothing to keep apart")
    order = request.generator().permutation(len(sizes))
    order = order[np.argsort(sizes[order], kind="stable")]
    below = np.cumsum(sizes[order]) <= max(round(request.total * request.test_fraction), 1)
    below[0], below[-1] = True, False
    tested = np.isin(group, order[below])
    return [Split("hold-out", np.flatnonzero(~tested), np.flatnonzero(tested))]


def _scaffold_groups(request: Request) -> tuple[Int[Array, " structures"], Int[Array, " scaffolds"]]:
    if request.smiles is None:
        raise InputError(
            "a scaffold split needs SMILES: read molecules from a table, or keep a column 'smiles' with the structures"
        )
    _, group, sizes = np.unique(
        np.array(scaffolds_of(request.smiles), dtype=object), return_inverse=True, return_counts=True
    )
    return group, sizes
