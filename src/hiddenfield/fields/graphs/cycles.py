"""Short cycles of graphs: a molecule's rings, a grid's faces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Int

__all__ = ["Cycles", "short_cycles"]


@dataclass(frozen=True, eq=False)
class Cycles:
    """The cycles of a pack, structure by structure: cycle c visits ``node[ptr[c]:ptr[c + 1]]`` in that order.

    Parameters
    ----------
    ptr
        Bounds of every cycle's nodes.
    node
        Nodes, numbered through the pack.
    cycle_ptr
        Bounds of every structure's cycles.
    """

    ptr: Int[Array, " cycles+1"]
    node: Int[Array, " visits"]
    cycle_ptr: Int[Array, " structures+1"]


def short_cycles(structures: Structures, longest: int = 8, *, most: int = 100_000) -> Cycles:
    """Find every chordless cycle of at most `longest` nodes.

    Chordless: no edge joins two of its nodes but along the cycle, as with the rings that a chemist counts and the faces
    of a grid. One-way arcs, self-loops and parallel edges make no cycle. Exact. Cost: depth-first search, in a molecule
    a few microseconds; in a dense graph it grows as degree to the power `longest`.

    Parameters
    ----------
    structures
        The pack.
    longest
        Nodes of the longest cycle, at least 3.
    most
        Cycles of one structure beyond which it is refused, with the remedy.

    Examples
    --------
    Two hexagons that share an edge, as in naphthalene: the outer cycle of ten has a chord.

    >>> import hiddenfield as hf
    >>> ring = hf.data.from_edges(
    ...     [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 4], node_ptr=[0, 10]
    ... )
    >>> short_cycles(ring).ptr.tolist()
    [0, 6, 12]
    """
    if isinstance(longest, bool) or not isinstance(longest, int) or longest < 3:
        raise InputError(f"the longest cycle must have at least 3 nodes, got {longest!r}")
    pack = structures.to("cpu")
    arrays = [pack.in_ptr.numpy(), pack.source.numpy(), pack.reverse.numpy(), pack.node_ptr.numpy()]
    counts = np.zeros((len(pack), 2), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    used = np.zeros(pack.total_nodes, dtype=np.int64)
    path = np.zeros(longest + 1, dtype=np.int64)
    place = np.zeros(longest + 1, dtype=np.int64)
    _search(*arrays, longest, most, path, place, used, counts, nothing, nothing, work=0)
    if len(pack) and counts[:, 0].max() > most:
        worst = int(np.argmax(counts[:, 0] > most))
        raise InputError(
            f"{pack.name_of(worst)} has more than {most:,} cycles of up to {longest} nodes; lower the longest cycle"
        )
    cycle_ptr = np.concatenate([[0], np.cumsum(counts[:, 0])])
    ptr = np.zeros(int(cycle_ptr[-1]) + 1, dtype=np.int64)
    node = np.zeros(int(counts[:, 1].sum()), dtype=np.int64)
    used[:] = 0
    _search(*arrays, longest, most, path, place, used, counts, ptr, node, work=0)
    return Cycles(ptr, node, cycle_ptr)


@compiled
def _search(
    in_ptr: Array,
    source: Array,
    reverse: Array,
    node_ptr: Array,
    longest: int,
    most: int,
    path: Array,
    place: Array,
    used: Array,
    counts: Array,
    ptr: Array,
    node: Array,
) -> None:
    """Walk from every node along nodes of higher number; `used[v]` counts the path's nodes that v is joined to.

    With empty `ptr` and `node` it counts the cycles and their nodes of every structure, otherwise it writes them.
    """
    found = 0
    written = 0
    for structure in range(node_ptr.size - 1):
        cycles = 0
        visits = 0
        for start in range(node_ptr[structure], node_ptr[structure + 1]):
            if cycles > most:
                break
            path[0] = start
            place[0] = in_ptr[start]
            depth = 0
            for arc in range(in_ptr[start], in_ptr[start + 1]):
                if reverse[arc] >= 0 and (arc == in_ptr[start] or source[arc] != source[arc - 1]):
                    used[source[arc]] += 1
            while depth >= 0:
                here = path[depth]
                if place[depth] == in_ptr[here + 1]:
                    # Everything from here was tried: step back.
                    for arc in range(in_ptr[here], in_ptr[here + 1]):
                        if reverse[arc] >= 0 and (arc == in_ptr[here] or source[arc] != source[arc - 1]):
                            used[source[arc]] -= 1
                    depth -= 1
                    continue
                arc = place[depth]
                place[depth] += 1
                step = source[arc]
                if reverse[arc] < 0 or step <= start or (arc > in_ptr[here] and step == source[arc - 1]):
                    continue
                repeated = False
                for earlier in range(depth + 1):
                    if path[earlier] == step:
                        repeated = True
                if repeated:
                    continue
                joined_to_start = False
                if depth > 0:
                    for back in range(in_ptr[step], in_ptr[step + 1]):
                        if source[back] == start and reverse[back] >= 0:
                            joined_to_start = True
                if used[step] != (2 if joined_to_start else 1):
                    continue  # a chord
                if joined_to_start:
                    if depth >= 1 and path[1] < step:
                        cycles += 1
                        visits += depth + 2
                        if ptr.size > 0:
                            for k in range(depth + 1):
                                node[written] = path[k]
                                written += 1
                            node[written] = step
                            written += 1
                            found += 1
                            ptr[found] = written
                        elif cycles > most:
                            break
                elif depth + 2 < longest:
                    depth += 1
                    path[depth] = step
                    place[depth] = in_ptr[step]
                    for back in range(in_ptr[step], in_ptr[step + 1]):
                        if reverse[back] >= 0 and (back == in_ptr[step] or source[back] != source[back - 1]):
                            used[source[back]] += 1
        counts[structure, 0] = cycles
        counts[structure, 1] = visits
