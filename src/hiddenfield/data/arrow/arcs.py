"""The topology of a table's rows: checked and numbered through the pack in one compiled pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Int

__all__ = ["Arcs", "Problem", "lay_out"]

WORDS = (
    "",
    "arc {arc} starts at node {value}, but the structure {nodes}",
    "arc {arc} ends at node {value}, but the structure {nodes}",
    "the reverse of arc {arc} is {value}, but the structure has {arcs} arcs",
    "the reverse of arc {arc} is arc {value}, which does not run between the same nodes the other way and back",
    "arc {arc} is a self-loop, which must be its own reverse, but its reverse is {value}",
)


@dataclass(frozen=True)
class Problem:
    """The first row whose arcs are wrong, and what is wrong with them."""

    row: int
    message: str


@dataclass(frozen=True)
class Arcs:
    """Arcs numbered through the pack; `ordered` says that they stand by (target, source), as a pack has them."""

    source: Int[Array, " arcs"]
    target: Int[Array, " arcs"]
    reverse: Int[Array, " arcs"] | None
    in_ptr: Int[Array, " node_bounds"]
    ordered: bool


def lay_out(
    node_ptr: Int[Array, " bounds"],
    arc_ptr: Int[Array, " bounds"],
    source: Int[Array, " arcs"],
    target: Int[Array, " arcs"],
    reverse: Int[Array, " arcs"] | None,
) -> Arcs | Problem:
    """Check the arcs of every structure and number nodes and arcs through the pack.

    Every end must be a node of its structure; a reverse must be -1, or an arc of the structure that runs between the
    same two nodes the other way and whose own reverse is this one. A self-loop is its own reverse.

    Parameters
    ----------
    node_ptr, arc_ptr
        int64 bounds of the structures' nodes and arcs.
    source, target, reverse
        int32, node and arc numbers within each structure.

    Returns
    -------
    The numbered arcs, or the first problem. Cost: one pass over the arcs.

    Examples
    --------
    >>> bounds = np.array([0, 2, 4])
    >>> ends = np.array([1, 0, 1, 0], dtype=np.int32)
    >>> lay_out(bounds, bounds, ends, ends[::-1].copy(), None).source.tolist()
    [1, 0, 3, 2]
    """
    nodes, arcs = int(node_ptr[-1]), int(arc_ptr[-1])
    dtype = np.int32 if max(nodes, arcs) < 2**31 else np.int64
    given = np.zeros(0, dtype=np.int32) if reverse is None else reverse
    new_source, new_target = np.empty(arcs, dtype=dtype), np.empty(arcs, dtype=dtype)
    new_reverse = np.empty(0 if reverse is None else arcs, dtype=dtype)
    in_ptr = np.zeros(nodes + 1, dtype=dtype)
    report = np.zeros(4, dtype=np.int64)  # ordered, problem, row, arc
    _number(
        node_ptr, arc_ptr, source, target, given, new_source, new_target, new_reverse, in_ptr, report, work=0
    )
    ordered, problem, row, arc = report.tolist()
    if problem:
        size, number = int(node_ptr[row + 1] - node_ptr[row]), arc - int(arc_ptr[row])
        value = int((source, target, given, given, given)[problem - 1][arc])
        held = f"has nodes 0 to {size - 1}" if size else "has no nodes"
        count = int(arc_ptr[row + 1] - arc_ptr[row])
        return Problem(row, WORDS[problem].format(arc=number, value=value, nodes=held, arcs=count))
    return Arcs(new_source, new_target, None if reverse is None else new_reverse, in_ptr, bool(ordered))


@compiled
def _number(
    node_ptr: Array,
    arc_ptr: Array,
    source: Array,
    target: Array,
    reverse: Array,
    new_source: Array,
    new_target: Array,
    new_reverse: Array,
    in_ptr: Array,
    report: Array,
) -> None:
    ordered = 1
    for row in range(node_ptr.size - 1):
        first, size = node_ptr[row], node_ptr[row + 1] - node_ptr[row]
        start, end = arc_ptr[row], arc_ptr[row + 1]
        for arc in range(start, end):
            if source[arc] < 0 or source[arc] >= size:
                report[1], report[2], report[3] = 1, row, arc
                return
            if target[arc] < 0 or target[arc] >= size:
                report[1], report[2], report[3] = 2, row, arc
                return
            if arc > start and (
                target[arc] < target[arc - 1]
                or (target[arc] == target[arc - 1] and source[arc] < source[arc - 1])
            ):
                ordered = 0
            new_source[arc] = first + source[arc]
            new_target[arc] = first + target[arc]
            in_ptr[first + target[arc] + 1] += 1
        if reverse.size == 0:
            continue
        for arc in range(start, end):
            back = reverse[arc]
            if back < -1 or back >= end - start:
                report[1], report[2], report[3] = 3, row, arc
                return
            if source[arc] == target[arc] and back != arc - start:
                report[1], report[2], report[3] = 5, row, arc
                return
            new_reverse[arc] = -1
            if back >= 0:
                other = start + back
                same = source[other] == target[arc] and target[other] == source[arc]
                if not same or reverse[other] != arc - start:
                    report[1], report[2], report[3] = 4, row, arc
                    return
                new_reverse[arc] = other
    for node in range(in_ptr.size - 1):
        in_ptr[node + 1] += in_ptr[node]
    report[0] = ordered
