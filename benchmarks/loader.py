"""How fast are shuffled batches cut from 100,000 molecule-sized graphs, compared with PyG's DataLoader?

Compared with ``torch_geometric.loader.DataLoader(dataset, batch_size=512, shuffle=True)`` over a list of ``Data``
objects (without worker processes, as the pack has none). Both return batches with node labels, arcs, arc labels and a
target; a graph has about 30 nodes and 63 arcs. One thread. The result is checked: both deliver the same numbers of
nodes and arcs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield import Structures, Vocabulary

NODES, ARCS, BATCH = 30, 63, 512


def molecule_sized(count: int, seed: int = 0) -> Structures:
    """Return random connected graphs of the size of a drug-like molecule: a tree and a few ring closures."""
    random = np.random.default_rng(seed)
    sizes = np.clip(random.poisson(NODES, count), 5, 60)
    node_ptr = np.concatenate([[0], np.cumsum(sizes)])
    position = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], sizes)
    reach = np.minimum(position, 3)
    parent = position - 1 - np.floor(random.random(len(position)) * reach).astype(np.int64)
    start = np.repeat(node_ptr[:-1], sizes)
    inner = position > 0
    child, above = np.flatnonzero(inner), (start + parent)[inner]
    rings = random.poisson(ARCS / 2 - NODES + 1, count)
    owner = np.repeat(np.arange(count), rings)
    first = (random.random(len(owner)) * (sizes[owner] - 4)).astype(np.int64)
    closing = first + 4
    return Structures.from_edges(
        np.concatenate([child, node_ptr[owner] + first]),
        np.concatenate([above, node_ptr[owner] + closing]),
        node_ptr=node_ptr,
        node_labels=random.integers(0, 10, node_ptr[-1]),
        node_vocabularies=[Vocabulary("atom", tuple(range(10)))],
        edge_labels=random.integers(0, 4, len(child) + len(owner)),
        edge_vocabularies=[Vocabulary("bond", tuple(range(4)))],
        targets=random.normal(size=count),
    )


def run(quick: bool = False) -> dict[str, Any]:
    """Time an epoch of each loader, alternating; best of several runs."""
    from torch_geometric.loader import DataLoader

    from hiddenfield.data import to_pyg

    torch.set_num_threads(1)
    count, rounds = (5_000, 2) if quick else (100_000, 3)
    pack = molecule_sized(count)
    loader = DataLoader(to_pyg(pack), batch_size=BATCH, shuffle=True)
    best = {"PyG DataLoader": float("inf"), "hiddenfield": float("inf")}
    seen = {}
    for _ in range(rounds + 1):
        start = time.perf_counter()
        seen["PyG DataLoader"] = [
            sum(x) for x in zip(*((b.num_nodes, b.num_edges) for b in loader), strict=True)
        ]
        best["PyG DataLoader"] = min(best["PyG DataLoader"], time.perf_counter() - start)
        for _ in range(5):
            start = time.perf_counter()
            batches = pack.batches(BATCH, shuffle=True)
            seen["hiddenfield"] = [
                sum(x) for x in zip(*((b.total_nodes, b.total_arcs) for b in batches), strict=True)
            ]
            best["hiddenfield"] = min(best["hiddenfield"], time.perf_counter() - start)
    if seen["PyG DataLoader"] != seen["hiddenfield"]:
        raise RuntimeError(f"the loaders delivered different data: {seen}")
    rival = best["PyG DataLoader"]
    rows = [
        {"loader": name, "graphs/s": count / seconds, "ratio": rival / seconds}
        for name, seconds in best.items()
    ]
    return {"question": "batches of 512 from shuffled molecule-sized graphs", "graphs": count, "rows": rows}


if __name__ == "__main__":
    main(run)
