"""Steps of training that a GPU repeats by itself: whole steps captured as CUDA graphs, batches cut on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.ops import Topology
from hiddenfield.shapes import Array, Float, Int, Tensor

# The most nodes and arcs of a batch, the fewest nodes, and the most nodes in excess of what the arcs make up for.
Needs = tuple[int, int, int, int]

# Steps for which capturing them pays, and how much more room there is than the first epoch's batches need.
FEWEST_STEPS, ROOM = 32, 1.01

# Nodes of each of the structures that take up what is left of the room, and arcs of each of their nodes.
NODES_OF_REST, ARCS_OF_REST = 64, 4


@dataclass(frozen=True)
class Room:
    """The room for a batch: its structures, nodes and arcs, and how many further structures fill it up."""

    structures: int
    nodes: int
    arcs: int
    rest: int

    def holds(self, needs: Needs) -> bool:
        """Say whether all batches fit, and the structures of the rest and their nodes take up all that is left."""
        nodes, arcs, least, excess = needs
        whole = least + self.rest * NODES_OF_REST >= self.nodes >= excess + self.arcs / ARCS_OF_REST
        return nodes <= self.nodes and arcs <= self.arcs and whole

    @classmethod
    def of(cls, structures: int, needs: Needs) -> Room:
        """Return enough room, and a little more for batches of other epochs."""
        arcs = int(ROOM * needs[1]) + NODES_OF_REST
        nodes = int(ROOM * max(needs[0], needs[3] + arcs / ARCS_OF_REST)) + NODES_OF_REST
        return cls(structures, nodes, arcs, int(1.25 * (nodes - needs[2])) // NODES_OF_REST + 1)


class DeviceCutter:
    """Batches of a resident pack whose arrays always have the same sizes, cut without waiting for the device.

    What a batch does not fill belongs to further structures at its end, whose nodes have the arcs that are left over
    as loops.

    Parameters
    ----------
    pack
        On the device, every arc with a reverse.
    """

    def __init__(self, pack: Structures) -> None:
        self.pack = pack.replace(targets=None, target_names=(), target_vocabularies=())
        self.bounds = torch.stack([pack.node_ptr, pack.arc_ptr]).long()
        self.target, self.longest = pack.target, pack.longest_range
        self.sizes = np.stack([bounds.diff().numpy() for bounds in pack._host_bounds])

    def needs(self, order: Array, size: int) -> Needs:
        """Return what the batches of an epoch need."""
        nodes, arcs = np.add.reduceat(self.sizes[:, order], np.arange(0, len(order), size), axis=1)
        excess = nodes - arcs // ARCS_OF_REST
        return int(nodes.max()), int(arcs.max()), int(nodes.min()), int(excess.max())

    def cut(self, index: Int[Tensor, " chosen"], room: Room) -> Structures:
        """Return the batch of the structures at some positions, and those that fill up the room."""
        from hiddenfield.ops.triton_copies import copy_segments

        starts = self.bounds.index_select(1, index)
        lengths = self.bounds.index_select(1, index + 1) - starts
        places = lengths.new_zeros(2, 2, room.structures + 2)
        torch.cumsum(lengths, 1, out=places[:, 0, 1:-1])
        places[:, 1, :-2] = starts
        nodes, arcs = places

        def take(per: str, values: Tensor, shifts: Tensor | None = None, rest: Any = (0, 1, 0)) -> Tensor:
            bounds, rows = (nodes, room.nodes) if per == "node" else (arcs, room.arcs)
            return copy_segments(values, bounds, shifts, rows + (values is self.pack.in_ptr), rest=rest)

        pack, kind, loops = self.pack, self.pack.node_ptr.dtype, (1, ARCS_OF_REST, room.nodes)
        extra = torch.arange(1, room.rest + 1, device=index.device) * NODES_OF_REST + nodes[0, -2]
        batch = Structures(
            node_ptr=torch.cat([nodes[0, :-1], extra.clamp(max=room.nodes)]).to(kind),
            in_ptr=take("node", pack.in_ptr, arcs, (ARCS_OF_REST, 1, room.arcs)),
            source=take("arc", pack.source, nodes, loops),
            reverse=take("arc", pack.reverse, arcs, (1, 1, room.arcs)),
            features={
                name: replace(columns, values=take(FEATURES[name], columns.values))
                for name, columns in pack.features.items()
            },
        )
        topology = Topology(batch.source, batch.in_ptr, batch.reverse, symmetric=True)
        vars(topology).update(longest_range=self.longest, target=take("arc", self.target, nodes, loops))
        vars(batch).update(symmetric=True, longest_range=self.longest, topology=topology)
        return batch


@dataclass(eq=False)
class CapturedSteps:
    """The steps of epochs as CUDA graphs: one for full batches, one for the last, smaller one.

    A replayed step looks up its number, takes its structures from the epoch's order and its rate from the epoch's
    rates, cuts the batch, and leaves its loss; nothing waits for the device until an epoch is over.

    Parameters
    ----------
    pack
        On the device, every arc with a reverse.
    size
        Structures in a batch.
    step
        From a batch (which `Room.structures` structures of it count, and their positions) and the learning rate to the
        loss; it takes the step of the optimizer, too.
    rehearse
        The same without the optimizer's step.
    """

    pack: Structures
    size: int
    step: Callable[[Structures, Tensor, Tensor], Tensor]
    rehearse: Callable[[Structures, Tensor, Tensor], Tensor]
    graphs: list[torch.cuda.CUDAGraph] = field(default_factory=list)
    rooms: list[Room] = field(default_factory=list)

    def __post_init__(self) -> None:
        count, device = len(self.pack), self.pack.device
        steps = -(-count // self.size)
        self.cutter = DeviceCutter(self.pack)
        self.order = torch.zeros(count, dtype=torch.int64, device=device)
        self.rates = torch.zeros(steps, dtype=torch.float32, device=device)
        self.losses = torch.zeros(steps, dtype=torch.float64, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.full, self.left = divmod(count, self.size)

    def prepare(self, order: Array, rates: Array) -> None:
        """Take the order and the rates of an epoch; capture the steps where they have no room for its batches."""
        self.order.copy_(torch.from_numpy(order).pin_memory(), non_blocking=True)
        self.rates.copy_(torch.from_numpy(rates).float().pin_memory(), non_blocking=True)
        whole = self.cutter.needs(order[: self.full * self.size or None], min(self.size, len(order)))
        last = self.cutter.needs(order[-self.left :], self.left) if self.full and self.left else whole
        if self.rooms and self.rooms[0].holds(whole) and self.rooms[-1].holds(last):
            return
        whole = max(whole[0], last[0]), max(whole[1], last[1]), whole[2], max(whole[3], last[3])
        self.graphs.clear()
        self.rooms = [Room.of(self.size if self.full else self.left, whole)]
        if self.full and self.left:
            self.rooms.append(Room.of(self.left, (*whole[:2], 0, whole[3])))
        for room, number in zip(self.rooms, (0, self.full), strict=False):
            self.graphs.append(self._captured(room, number))

    def run(self, advance: Callable[[int], None]) -> Float[Tensor, " steps"]:
        """Take all steps of the epoch and return their losses, on the device."""
        self.number.zero_()
        for _ in range(self.full):
            self.graphs[0].replay()
            advance(self.size)
        if self.left:
            self.graphs[-1].replay()
            advance(self.left)
        return self.losses

    def _captured(self, room: Room, number: int) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.number.fill_(number)
                self._once(room, self.rehearse)
            self.number.fill_(number)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._once(room, self.step)
        return graph

    def _once(self, room: Room, step: Callable[..., Any]) -> None:
        places = self.number * self.size + torch.arange(room.structures, device=self.order.device)
        index = self.order.index_select(0, places)
        rate = self.rates.index_select(0, self.number)[0]
        loss = step(self.cutter.cut(index, room), index, rate)
        self.losses.index_copy_(0, self.number, loss.detach().double().reshape(1))
        self.number += 1
