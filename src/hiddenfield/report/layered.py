"""Layered drawings of acyclic networks: parents above their children, long arcs around what lies between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import networkx
import numpy as np
from scipy.optimize import isotonic_regression

from hiddenfield.shapes import Array, Float

SWEEPS = 24
THIN = 0.25
"""Width that a passing arc takes, in units of the nodes' widths."""


@dataclass(frozen=True)
class Layered:
    """Where nodes lie, and where arcs pass the layers between their ends.

    Parameters
    ----------
    layer
        Of each node, from 0 at the top.
    across
        Position of each node from left to right.
    routes
        For each arc (parent, child) the positions at which it passes the layers between, from the top.
    """

    layer: list[int]
    across: Float[Array, " nodes"]
    routes: dict[tuple[int, int], list[float]]


def layered(parents: Sequence[Sequence[int]], widths: Sequence[float]) -> Layered:
    """Lay out an acyclic network by the method of Sugiyama, Tagawa and Toda.

    Nodes go into layers by their longest path from a root, arcs over several layers get a point in each, the orders
    within layers are improved by barycentres, and positions are least-squares fits to those of the neighbours that keep
    the order and the widths.

    Parameters
    ----------
    parents
        Of each node.
    widths
        How wide each node is; neighbours in a layer do not overlap.

    References
    ----------
    Sugiyama, Tagawa and Toda (1981), Methods for visual understanding of hierarchical system structures.

    Examples
    --------
    >>> places = layered([[], [0], [0], [1, 2]], [1.0] * 4)
    >>> places.layer, places.across.tolist()
    ([0, 1, 1, 2], [0.5, 0.0, 1.0, 0.5])
    """
    layer = _layers(parents)
    size, rows = len(parents), [list[int]() for _ in range(max(layer, default=0) + 1)]
    wide = list(widths)
    for node, level in enumerate(layer):
        rows[level].append(node)
    links: list[tuple[int, int]] = []
    chains: dict[tuple[int, int], list[int]] = {}
    for child, own in enumerate(parents):
        for parent in own:
            chain = [parent]
            for level in range(layer[parent] + 1, layer[child]):
                rows[level].append(len(wide))
                chain.append(len(wide))
                wide.append(THIN)
            links += itertools.pairwise([*chain, child])
            chains[parent, child] = chain[1:]
    above: list[list[int]] = [[] for _ in wide]
    below: list[list[int]] = [[] for _ in wide]
    for first, second in links:
        below[first].append(second)
        above[second].append(first)
    across = _positions(_ordered(rows, above, below), above, below, wide)
    routes = {arc: [float(across[point]) for point in chain] for arc, chain in chains.items()}
    return Layered(layer, across[:size], routes)


def _layers(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the longest path from a root to each node; a root lies just above its first child."""
    graph = networkx.DiGraph((parent, child) for child, own in enumerate(parents) for parent in own)
    graph.add_nodes_from(range(len(parents)))
    rows = enumerate(networkx.topological_generations(graph))
    layer = {node: level for level, row in rows for node in row}
    first = {node: min((layer[child] for child in graph[node]), default=1) for node in graph}
    return [layer[node] if own else first[node] - 1 for node, own in enumerate(parents)]


def _ordered(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Order layers by the mean place of neighbours, downwards and upwards in turn; keep the fewest crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        place = {node: k for row in rows for k, node in enumerate(row)}
        new: list[list[int]] = [list(row) for row in rows]
        for level in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            key = {
                node: float(np.mean([place[other] for other in near[node]]))
                if near[node]
                else float(place[node])
                for node in new[level]
            }
            new[level].sort(key=key.__getitem__)
            place.update({node: k for k, node in enumerate(new[level])})
        rows = new
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    total = 0
    for row, following in itertools.pairwise(rows):
        place = {node: k for k, node in enumerate(following)}
        ends = np.array(
            [place[other] for node in row for other in sorted(below[node], key=place.__getitem__)]
        )
        starts = np.array([k for k, node in enumerate(row) for _ in below[node]])
        before = starts[:, None] < starts[None]
        total += int((before & (ends[:, None] > ends[None])).sum()) if len(ends) else 0
    return total


def _positions(
    rows: list[list[int]], above: list[list[int]], below: list[list[int]], widths: list[float]
) -> Float[Array, " points"]:
    """Return positions near those of the neighbours that keep the order and the widths within each layer."""
    across = np.zeros(len(widths))
    gaps = []
    for row in rows:
        wide = np.array([widths[node] for node in row])
        gaps.append(np.concatenate([[0.0], np.cumsum((wide[1:] + wide[:-1]) / 2)]))
        across[row] = gaps[-1] - gaps[-1][-1] / 2
    for sweep in range(2 * SWEEPS):
        for level in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            row, wanted = rows[level], []
            for node in row:
                near = (above if sweep % 2 == 0 else below)[node] or (above[node] + below[node]) or [node]
                wanted.append(float(np.mean(across[near])))
            across[row] = isotonic_regression(np.array(wanted) - gaps[level]).x + gaps[level]
    lefts = [across[node] for row in rows for node in row]
    return across - min(lefts, default=0.0)
