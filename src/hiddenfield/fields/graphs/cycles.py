"""Short cycles of graphs, a molecule's rings, a grid's faces; and the messages between nodes, edges and cycles."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures, resolve_index
from hiddenfield.errors import InputError
from hiddenfield.ops import SegmentCut, Topology
from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.ops.equal_rows import ranges
from hiddenfield.shapes import Array, Int, Tensor


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

    ptr: Int[Array, " cycle_bounds"]
    node: Int[Array, " visits"]
    cycle_ptr: Int[Array, " structure_bounds"]


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
    degree = len(arrays[1]) / max(pack.total_nodes, 1)
    work = len(arrays[1]) * degree ** min(longest - 2, 20)
    used = np.zeros(pack.total_nodes, dtype=np.int64)
    path = np.zeros(longest + 1, dtype=np.int64)
    place = np.zeros(longest + 1, dtype=np.int64)
    _search(*arrays, longest, most, path, place, used, counts, nothing, nothing, work=work)
    if len(pack) and counts[:, 0].max() > most:
        worst = int(np.argmax(counts[:, 0] > most))
        raise InputError(
            f"{pack.name_of(worst)} has more than {most:,} cycles of up to {longest} nodes; lower the longest cycle"
        )
    cycle_ptr = np.concatenate([[0], np.cumsum(counts[:, 0])])
    ptr = np.zeros(int(cycle_ptr[-1]) + 1, dtype=np.int64)
    node = np.zeros(int(counts[:, 1].sum()), dtype=np.int64)
    used[:] = 0
    _search(*arrays, longest, most, path, place, used, counts, ptr, node, work=work)
    return Cycles(ptr, node, cycle_ptr)


@dataclass(frozen=True, eq=False)
class CycleRegions:
    r"""The parent-to-child messages between the regions {node}, {edge}, {cycle}, and what each of them reads.

    The message from the edge {j, i} to the node i is the arc j → i of the pack. The message from a cycle c to its
    edge e is a *membership*, one for each node of the cycle (for the edge to the next node). With
    :math:`\mathcal{E}(r)` the region r and all within it, :math:`M(r)` the messages from outside into
    :math:`\mathcal{E}(r)`,
    and :math:`M(r, s)` those from :math:`\mathcal{E}(r) \setminus \mathcal{E}(s)` into :math:`\mathcal{E}(s)` but r → s
    itself (Yedidia, Freeman and Weiss 2005, the parent-to-child algorithm):

    - the arc j → i reads the other arcs into j (the cavity of loopy belief propagation) and `arc_from_cycles`, the
      messages of cycles into its edge;
    - the membership c → e reads `cycle_from_cycles`, messages of other cycles into other edges of c, and
      `cycle_from_arcs`, arcs from outside c into nodes of c that are not in e: together :math:`M(c) \setminus M(e)`;
      and, to be taken away, `cycle_overcounted`, the arcs along c into the ends of e: :math:`M(c, e)`;
      `cycle_nodes` are the nodes of c that are not in e.

    Parameters
    ----------
    arc_from_cycles, cycle_from_cycles, cycle_from_arcs, cycle_overcounted, cycle_nodes
        Relations, cut into batches together.
    """

    arc_from_cycles: Relation
    cycle_from_cycles: Relation
    cycle_from_arcs: Relation
    cycle_overcounted: Relation
    cycle_nodes: Relation

    def __len__(self) -> int:
        """Return the number of structures."""
        return len(self.cycle_nodes)

    def _each(self, function: Any) -> CycleRegions:
        return CycleRegions(*(function(getattr(self, part.name)) for part in fields(self)))

    def __getitem__(self, index: Any) -> CycleRegions:
        """Return the regions of the chosen structures, in that order."""
        return self._each(lambda part: part[index])

    def to(self, device: torch.device | str) -> CycleRegions:
        """Return the regions on a device."""
        return self._each(lambda part: part.to(device))


def cycle_regions(structures: Structures, longest: int = 8) -> CycleRegions:
    """Find the chordless cycles of at most `longest` nodes and which messages read which.

    Exact; vectorised over the whole pack. Cost: linear in the sizes of the relations, for molecules a few times the
    number of arcs.

    Examples
    --------
    Two triangles that share an edge: each message of a triangle into one of its two other edges reads the other
    triangle's message into the shared one.

    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1, 2, 1, 3], [1, 2, 0, 3, 2], node_ptr=[0, 4])
    >>> regions = cycle_regions(pack)
    >>> regions.cycle_from_cycles.in_ptr.diff().tolist().count(1)
    4
    """
    pack = structures.to("cpu")
    cycles = short_cycles(pack, longest)
    ptr, node = cycles.ptr, cycles.node
    length = np.repeat(np.diff(ptr), np.diff(ptr))
    start = np.repeat(ptr[:-1], np.diff(ptr))
    visit = np.arange(len(node))
    following = start + (visit - start + 1) % np.maximum(length, 1)
    previous = start + (visit - start - 1) % np.maximum(length, 1)
    reverse = pack.reverse.numpy().astype(np.int64)
    forth = _arcs_between(pack, node, node[following])
    back = reverse[forth]
    visit_ptr = ptr[cycles.cycle_ptr]
    spaces = {"node": pack.node_ptr.numpy(), "arc": pack.arc_ptr.numpy(), "member": visit_ptr}

    def relation(rows: str, sources: str, row: Array, source: Array) -> Relation:
        return _relation(spaces[rows], spaces[sources], row, source)

    first, second = _twins(np.minimum(forth, back))
    others, sharing = _spread(first, second, start, length, skip=1)
    into, outside = _outside_arcs(pack, node, forth[previous], back)
    around, entering = _spread(into, outside, start, length, skip=2)
    rest, members = _spread(visit, node, start, length, skip=2)
    return CycleRegions(
        arc_from_cycles=relation(
            "arc", "member", np.concatenate([forth, back]), np.concatenate([visit, visit])
        ),
        cycle_from_cycles=relation("member", "member", others, sharing),
        cycle_from_arcs=relation("member", "arc", around, entering),
        cycle_overcounted=relation(
            "member",
            "arc",
            np.concatenate([visit, visit]),
            np.concatenate([forth[previous], back[following]]),
        ),
        cycle_nodes=relation("member", "node", rest, members),
    )


def _arcs_between(pack: Structures, source: Array, target: Array) -> Array:
    """Return, for each pair, the first two-way arc from source to target."""
    two_way = np.flatnonzero(pack.reverse.numpy() >= 0)
    nodes = max(pack.total_nodes, 1)
    keys = pack.target.numpy().astype(np.int64) * nodes + pack.source.numpy()
    return two_way[np.searchsorted(keys[two_way], target * nodes + source)] if len(source) else two_way[:0]


def _twins(edge: Array) -> tuple[Array, Array]:
    """Return all ordered pairs of different memberships of one edge."""
    order = np.argsort(edge, kind="stable")
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(edge[order])) + 1, [len(edge)]])
    begin, size = (np.repeat(part, np.diff(bounds)) for part in (bounds[:-1], np.diff(bounds)))
    partner, place = ranges(begin, size)
    different = partner != place
    return order[place[different]], order[partner[different]]


def _outside_arcs(pack: Structures, node: Array, arriving: Array, leaving: Array) -> tuple[Array, Array]:
    """Return, for each visit of a cycle, the arcs into its node but the two along the cycle."""
    in_ptr = pack.in_ptr.numpy().astype(np.int64)
    arc, visit = ranges(in_ptr[node], in_ptr[node + 1] - in_ptr[node])
    outside = (arc != arriving[visit]) & (arc != leaving[visit])
    return visit[outside], arc[outside]


def _spread(visit: Array, value: Array, start: Array, length: Array, skip: int) -> tuple[Array, Array]:
    """Give each value of a visit to the other memberships of its cycle.

    With ``skip=1`` to all but its own; with ``skip=2`` also not to the one before, whose edge ends at its node.
    """
    step, repeated = ranges(np.ones(len(visit), dtype=np.int64), length[visit] - skip)
    origin = visit[repeated]
    row = start[origin] + (origin - start[origin] + step) % np.maximum(length[origin], 1)
    return row, value[repeated]


def _relation(row_ptr: Array, source_ptr: Array, row: Array, source: Array) -> Relation:
    order = np.lexsort((source, row))
    total = int(row_ptr[-1])
    in_ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=total))])
    parts = (row_ptr, source_ptr, in_ptr, source[order])
    return Relation(*(torch.from_numpy(np.ascontiguousarray(part, dtype=np.int64)) for part in parts))


@subroutine(allocates=False)
def _join(node: int, by: int, in_ptr: Array, source: Array, reverse: Array, used: Array) -> None:
    """Change the count of every neighbour along two-way arcs, parallel ones once."""
    for arc in range(in_ptr[node], in_ptr[node + 1]):
        if reverse[arc] >= 0 and (arc == in_ptr[node] or source[arc] != source[arc - 1]):
            used[source[arc]] += by


@compiled(watched=True)
def _search(
    stop: Array,
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
    stop[1] = 1
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
            _join(start, 1, in_ptr, source, reverse, used)
            while depth >= 0:
                if stop[0]:
                    return
                here = path[depth]
                if place[depth] == in_ptr[here + 1]:
                    # Everything from here was tried: step back.
                    _join(here, -1, in_ptr, source, reverse, used)
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
                    _join(step, 1, in_ptr, source, reverse, used)
        counts[structure, 0] = cycles
        counts[structure, 1] = visits


# -- arcs from rows of one kind to rows of another, structure by structure -----------------------------------


@dataclass(frozen=True, eq=False)
class Relation:
    """For each of N structures, arcs from its rows of one kind (say, cycles) to its rows of another (say, nodes).

    A pack's own topology relates nodes to nodes; what an algorithm derives from it may relate other things, and is
    then cut into batches in the same way.

    Parameters
    ----------
    row_ptr
        Bounds of every structure's receiving rows.
    source_ptr
        Bounds of every structure's sending rows.
    in_ptr
        Bounds of the arcs into every receiving row.
    source
        Sending row of every arc, numbered through the whole pack.

    Examples
    --------
    Two structures with one triangle each, of nodes 0, 1, 2 and 4, 5, 6:

    >>> bounds = torch.tensor([0, 1, 2])
    >>> members = Relation(
    ...     bounds, torch.tensor([0, 4, 7]), torch.tensor([0, 3, 6]), torch.tensor([0, 1, 2, 4, 5, 6])
    ... )
    >>> members[[1]].source
    tensor([0, 1, 2])
    """

    row_ptr: Int[Tensor, " structure_bounds"]
    source_ptr: Int[Tensor, " structure_bounds"]
    in_ptr: Int[Tensor, " row_bounds"]
    source: Int[Tensor, " arcs"]

    def __len__(self) -> int:
        """Return the number of structures."""
        return self.row_ptr.shape[0] - 1

    @cached_property
    def topology(self) -> Topology:
        """The arcs as the ops take them."""
        return Topology(self.source, self.in_ptr, num_sources=int(self._host_bounds[1][-1]))

    @cached_property
    def _host_bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Bounds of receiving rows, sending rows and arcs in host memory, so that cutting waits for no device."""
        arc_ptr = self.in_ptr.index_select(0, self.row_ptr)
        return self.row_ptr.cpu(), self.source_ptr.cpu(), arc_ptr.cpu()

    def __getitem__(self, index: Any) -> Relation:
        """Return the relation of the chosen structures, in that order."""
        chosen = resolve_index(index, len(self))
        rows, sources, arcs = (SegmentCut(bounds, chosen) for bounds in self._host_bounds)
        starts = rows.take(self.in_ptr[:-1], arcs)
        result = Relation(
            rows.new_ptr.to(self.row_ptr.device, self.row_ptr.dtype, non_blocking=True),
            sources.new_ptr.to(self.row_ptr.device, self.row_ptr.dtype, non_blocking=True),
            torch.cat([starts, starts.new_full((1,), int(arcs.new_ptr[-1]))]),
            arcs.take(self.source, sources),
        )
        result.__dict__["_host_bounds"] = (rows.new_ptr, sources.new_ptr, arcs.new_ptr)
        return result

    def to(self, device: torch.device | str) -> Relation:
        """Return the relation on a device."""
        if torch.device(device) == self.source.device:
            return self
        moved = Relation(
            *(part.to(device) for part in (self.row_ptr, self.source_ptr, self.in_ptr, self.source))
        )
        moved.__dict__["_host_bounds"] = self._host_bounds
        return moved
