"""Bemis-Murcko scaffold splits: no ring system of the test molecules is among those that were trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.evaluation.splits.base import Request, Split
from hiddenfield.shapes import Array, Int

__all__ = ["scaffold", "scaffold_hold_out", "scaffolds_of"]


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


def scaffold(request: Request) -> list[Split]:
    """Deal whole scaffolds out to folds, the largest first, each to the fold that has least; test on each in turn.

    Examples
    --------
    >>> smiles = ["Cc1ccccc1", "Oc1ccccc1", "C1CCCCC1", "CCO"]
    >>> [split.test.tolist() for split in scaffold(Request(4, smiles=smiles, folds=2))]
    [[0, 1], [2, 3]]
    """
    group, sizes = _groups(request)
    if len(sizes) < request.folds:
        raise InputError(
            f"{request.folds} folds need as many scaffolds, but there are {len(sizes)}; use fewer"
        )
    if request.folds < 2:
        raise InputError(
            f"at least 2 folds are needed, got {request.folds}; for a single part use 'scaffold_hold_out'"
        )
    # Scaffolds of equal size come in random order.
    order = request.generator().permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load, fold = np.zeros(request.folds, dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    for number in order:
        fold[number] = int(load.argmin())
        load[fold[number]] += sizes[number]
    return [
        Split(f"fold {k + 1}", np.flatnonzero(fold[group] != k), np.flatnonzero(fold[group] == k))
        for k in range(request.folds)
    ]


def scaffold_hold_out(request: Request) -> list[Split]:
    """Train on the most frequent scaffolds and test on the rare ones, about `test_fraction` of all molecules.

    Nothing is random, except the order of scaffolds that are equally frequent.

    Examples
    --------
    >>> smiles = ["Cc1ccccc1", "Oc1ccccc1", "c1ccccc1", "CCO"]
    >>> scaffold_hold_out(Request(4, smiles=smiles, test_fraction=0.25))[0].test.tolist()
    [3]
    """
    group, sizes = _groups(request)
    if len(sizes) < 2:
        raise InputError("all molecules have one scaffold; there is nothing to keep apart")
    order = request.generator().permutation(len(sizes))
    order = order[np.argsort(sizes[order], kind="stable")]
    below = np.cumsum(sizes[order]) <= max(round(request.total * request.test_fraction), 1)
    below[0], below[-1] = True, False
    tested = np.isin(group, order[below])
    return [Split("hold-out", np.flatnonzero(~tested), np.flatnonzero(tested))]


def _groups(request: Request) -> tuple[Int[Array, " structures"], Int[Array, " scaffolds"]]:
    if request.smiles is None:
        raise InputError(
            "a scaffold split needs SMILES: read molecules from a table, or keep a column 'smiles' with the structures"
        )
    _, group, sizes = np.unique(
        np.array(scaffolds_of(request.smiles), dtype=object), return_inverse=True, return_counts=True
    )
    return group, sizes
