"""How fast are Gram matrices of kernels?

One thread, processor time. Of Hückel molecules compared with GraKeL, on the same molecules in turns: shortest paths,
colours of five rounds, walks of any length (with labels; GraKeL leaves out those of arcs), and graphlets of up to five
nodes, where GraKeL draws 1,000 of five nodes from each molecule and ours are all. Of random reads of DNA compared with
scikit-learn's CountVectorizer, features alone. Error: the largest difference of the two matrices relative to the
largest entry (paths of length 1 and more, labels of nodes alone); none where the two count different things. What a
ratio should at least be is beside it. Gapped k-mers are compared with FastSK only where that is installed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch

from benchmarks.environment import main, side_by_side
from hiddenfield.data import Structures, from_sequences
from hiddenfield.datasets import huckel
from hiddenfield.kernels import GappedKmers, GeometricWalk, Graphlet, ShortestPath, Spectrum, WLSubtree


def run(quick: bool = False) -> dict[str, Any]:
    """Time ours and the rivals', interleaved."""
    import grakel
    from sklearn.feature_extraction.text import CountVectorizer

    torch.set_num_threads(1)
    numba.set_num_threads(1)
    count, few = (100, 10) if quick else (1000, 100)
    pack, part = huckel(count), huckel(few)
    graphs, some = for_grakel(pack), for_grakel(part)
    letters = np.random.default_rng(0).choice(list("ACGT"), size=(20 * count, 100))
    words = ["".join(row) for row in letters.tolist()]
    reads, counter = (
        from_sequences(words),
        CountVectorizer(analyzer="char", ngram_range=(8, 8), lowercase=False),
    )
    drawn = {"k": 5, "sampling": {"n_samples": 1000}, "random_state": 0}
    rivals = "GraKeL"
    rows = [
        compared(
            "shortest paths",
            f"{count} molecules",
            rivals,
            20,
            lambda: paths(pack),
            lambda: grakel.ShortestPath().fit_transform(graphs),
        ),
        compared(
            "subtrees, 5 rounds",
            f"{count} molecules",
            rivals,
            20,
            lambda: gram(WLSubtree(rounds=5, use_arc_labels=False), pack),
            lambda: grakel.WeisfeilerLehman(n_iter=5).fit_transform(graphs),
        ),
        compared(
            "walks of any length, labels",
            f"{few} molecules",
            rivals,
            20,
            lambda: gram(GeometricWalk(decay=0.01), part),
            lambda: grakel.RandomWalkLabeled(lamda=0.01).fit_transform(some),
            alike=False,
        ),
        compared(
            "graphlets of 3 to 5 nodes",
            f"{few} molecules",
            rivals,
            20,
            lambda: gram(Graphlet(), part),
            lambda: grakel.GraphletSampling(**drawn).fit_transform(some),
            alike=False,
        ),
        compared(
            "words of 8 letters, features",
            f"{len(words):,} reads of 100",
            "CountVectorizer",
            5,
            lambda: Spectrum(k=8).fit_transform(reads),
            lambda: counter.fit_transform(words),
            alike=False,
        ),
    ]
    if importlib.util.find_spec("fastsk") is not None:
        rows.append(against_fastsk(quick))
    return {"rows": rows}


def against_fastsk(quick: bool) -> dict[str, Any]:
    """Compare windows of 8 with 4 gaps, of random proteins."""
    from fastsk import FastSK

    codes = np.random.default_rng(1).integers(0, 20, size=(100 if quick else 1000, 150))
    proteins = from_sequences(["".join(map(chr, 65 + row)) for row in codes])

    def theirs() -> Any:
        kernel = FastSK(g=8, m=4, t=1, approx=False)
        kernel.compute_train(codes.tolist())
        return np.array(kernel.get_train_kernel())

    ours = GappedKmers(g=8, m=4, normalise=True)
    return compared(
        "windows of 8, 4 gaps",
        f"{len(codes)} proteins of 150",
        "FastSK",
        1,
        lambda: gram(ours, proteins),
        theirs,
    )


def compared(
    kernel: str,
    of: str,
    rival: str,
    target: float,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    alike: bool = True,
) -> dict[str, Any]:
    """Return one row of the table."""
    best = side_by_side({"ours": ours, "theirs": theirs}, repeats=2, clock=time.process_time)
    error = float(np.abs(ours() - theirs()).max() / np.abs(theirs()).max()) if alike else ""
    return {
        "kernel": kernel,
        "of": of,
        "seconds": best["ours"],
        "rival": rival,
        "rival's seconds": best["theirs"],
        "ratio": best["theirs"] / best["ours"],
        "at least": target,
        "largest difference": error,
    }


def gram(kernel: Any, pack: Structures) -> Any:
    """Fit a kernel and compare all pairs."""
    return kernel.fit_gram(pack)


def paths(pack: Structures) -> Any:
    """Compare by shortest paths of length 1 and more: without those of length 0, which are counts of labels."""
    return gram(ShortestPath(), pack) - gram(ShortestPath(max_length=0), pack)


def for_grakel(pack: Structures) -> list[Any]:
    """Return graphs as GraKeL takes them: neighbours and labels by node."""
    labels = [str(row) for row in pack.node_labels.tolist()]
    near: list[list[int]] = [[] for _ in labels]
    for source, target in zip(pack.source.tolist(), pack.target.tolist(), strict=True):
        near[source].append(target)
    return [
        (
            {node: near[node] for node in range(first, last)},
            {node: labels[node] for node in range(first, last)},
        )
        for first, last in pairwise(pack.node_ptr.tolist())
    ]


if __name__ == "__main__":
    main(run)
