"""How fast are Weisfeiler-Lehman colours counted?

Rounds 1 to 6 on Hückel molecules on one core, and the number of columns. Compared with the same refinement in plain
Python, one dictionary per round, on fewer molecules. Error: the largest difference of the two kernel matrices, which
must be 0.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main, side_by_side
from hiddenfield.data import Structures
from hiddenfield.datasets import huckel
from hiddenfield.kernels import weisfeiler_lehman

ROUNDS = (1, 3, 6)


def plain_python(pack: Structures, rounds: int) -> list[Counter[tuple[int, int]]]:
    """Count the colours with dictionaries, arc labels included."""
    labels = [tuple(row) for row in pack.node_labels.tolist()]
    arc_labels = [tuple(row) for row in pack.arc_labels.tolist()]
    source, in_ptr, node_ptr = pack.source.tolist(), pack.in_ptr.tolist(), pack.node_ptr.tolist()
    owner = pack.structure_of_node.tolist()
    counts: list[Counter[tuple[int, int]]] = [Counter() for _ in range(len(node_ptr) - 1)]
    signatures: list[Any] = labels
    for step in range(rounds + 1):
        known: dict[Any, int] = {}
        colours = [known.setdefault(signature, len(known)) for signature in signatures]
        for node, colour in enumerate(colours):
            counts[owner[node]][step, colour] += 1
        signatures = [
            (
                colour,
                *sorted((colours[source[a]], arc_labels[a]) for a in range(in_ptr[node], in_ptr[node + 1])),
            )
            for node, colour in enumerate(colours)
        ]
    return counts


def run(quick: bool = False) -> dict[str, Any]:
    """Time both, interleaved, on the same molecules."""
    torch.set_num_threads(1)
    count = 500 if quick else 20_000
    pack, few = huckel(count), huckel(count // 10)
    rows = []
    for rounds in ROUNDS:
        best = side_by_side(
            {
                "own": lambda rounds=rounds: weisfeiler_lehman(pack, rounds),
                "plain": lambda rounds=rounds: plain_python(few, rounds),
            },
            repeats=2 if quick else 5,
        )
        features, colours = weisfeiler_lehman(pack, rounds)
        rows.append(
            {
                "rounds": rounds,
                "molecules": count,
                "seconds": best["own"],
                "molecules/s": count / best["own"],
                "plain Python, molecules/s": len(few) / best["plain"],
                "columns": colours.num_features,
                "entries a molecule": features.nnz / count,
                "largest difference": difference(few[:200], rounds),
            }
        )
    return {"rows": rows}


def difference(pack: Structures, rounds: int) -> float:
    """Return the largest difference of the two kernel matrices."""
    features, _ = weisfeiler_lehman(pack, rounds)
    counts = plain_python(pack, rounds)
    plain = np.array([[sum(n * b[c] for c, n in a.items()) for b in counts] for a in counts])
    return float(np.abs((features @ features.T).toarray() - plain).max())


if __name__ == "__main__":
    main(run)
