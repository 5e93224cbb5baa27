"""How fast are Hückel molecules generated, and where does the time go?

Steps of ``hiddenfield.datasets.huckel`` on one core, and all of it with and without SMILES; then all of it in two
processes that generate different ranges. Alternative solver: one ``numpy.linalg.eigvalsh`` call per molecule instead
of one per size. Error: the largest difference of gap and energy from that solver, in units of beta.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main, side_by_side
from hiddenfield.datasets.catalogue import library, permute, words
from hiddenfield.datasets.generate import huckel_range
from hiddenfield.datasets.orbitals import (
    COULOMB,
    ELECTRONS,
    NOT_PI,
    pi_levels,
    resonance_table,
)
from hiddenfield.datasets.pieces import Molecules, assemble, write_smiles

BATCH = 4096


def one_by_one(molecules: Molecules, count: int) -> np.ndarray:
    """Return gap and pi energy of the first molecules, each solved by itself."""
    resonance = resonance_table()
    results = []
    for number in range(count):
        start, stop = molecules.node_ptr[number : number + 2]
        inside = (molecules.first >= start) & (molecules.first < stop)
        kinds = molecules.kinds[start:stop]
        h = np.diag(np.where(kinds == NOT_PI, 0.0, COULOMB[kinds]))
        i, j = molecules.first[inside] - start, molecules.second[inside] - start
        h[i, j] = h[j, i] = resonance[kinds[i], kinds[j]]
        in_pi = kinds != NOT_PI
        m = np.linalg.eigvalsh(h[np.ix_(in_pi, in_pi)])[::-1]
        occupied = int(ELECTRONS[kinds[in_pi]].sum()) // 2
        results.append((m[occupied - 1] - m[occupied], 2 * m[:occupied].sum()))
    return np.array(results)


def steps() -> dict[str, Callable[[], object]]:
    """Return each step of a batch as a function without arguments."""
    chosen = library()
    numbers = permute(np.arange(BATCH), chosen.size, 0)
    chains = words(chosen, numbers)
    molecules = assemble(chosen.table, chains)
    arrays = (molecules.kinds, molecules.first, molecules.second, molecules.node_ptr)
    return {
        "random order": lambda: permute(np.arange(BATCH), chosen.size, 0),
        "number to pieces": lambda: words(chosen, numbers),
        "pieces to molecules": lambda: assemble(chosen.table, chains),
        "Hueckel problem": lambda: pi_levels(*arrays),
        "SMILES": lambda: write_smiles(chosen.table, chains),
        "all": lambda: huckel_range(0, BATCH),
        "all, with SMILES": lambda: huckel_range(0, BATCH, smiles=True),
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Time the steps side by side, then two processes, and compare with the rival solver."""
    torch.set_num_threads(1)
    best = side_by_side(steps(), repeats=2 if quick else 7)
    rows = [
        {
            "step": name,
            "us a molecule": 1e6 * seconds / BATCH,
            "molecules/s": BATCH / seconds,
            "share of all": seconds / best["all"],
        }
        for name, seconds in best.items()
    ]
    count = 20 if quick else 500
    molecules = assemble(library().table, words(library(), permute(np.arange(BATCH), library().size, 0)))
    levels = pi_levels(molecules.kinds, molecules.first, molecules.second, molecules.node_ptr)
    slow = side_by_side({"rival": lambda: one_by_one(molecules, count)}, repeats=1)["rival"]
    expected = one_by_one(molecules, count)
    found = np.stack([levels.homo - levels.lumo, levels.energy], axis=1)[:count]
    rows.append(_row("Hueckel problem, one call a molecule", slow, count, best["all"] / BATCH))
    rows.append(
        _row("all, in two processes", _two_processes(1 if quick else 12), 2 * BATCH, best["all"] / BATCH)
    )
    return {
        "question": "making Hueckel molecules",
        "largest error in units of beta": float(np.abs(found - expected).max()),
        "rows": rows,
    }


def _row(name: str, seconds: float, count: int, whole: float) -> dict[str, Any]:
    return {
        "step": name,
        "us a molecule": 1e6 * seconds / count,
        "molecules/s": count / seconds,
        "share of all": seconds / count / whole,
    }


def _two_processes(rounds: int) -> float:
    """Return the seconds that two batches take on average when each of two processes makes half of them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_make, range(4)))  # imports and tables are not timed
        candidates = {"two": lambda: list(pool.map(_make, range(2 * rounds)))}
        return side_by_side(candidates, repeats=2)["two"] / rounds


def _make(shard: int) -> int:
    torch.set_num_threads(1)
    return len(huckel_range(shard * BATCH, (shard + 1) * BATCH))


if __name__ == "__main__":
    main(run)
