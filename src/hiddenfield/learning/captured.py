"""Steps of training that a GPU repeats by itself: whole steps captured as CUDA graphs, batches cut on the device."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.ops import Topology
from hiddenfield.ops.cutting import ARCS_OF_REST, NODES_OF_REST
from hiddenfield.shapes import Array, Float, Int, Tensor

# The most nodes and arcs of a batch, the fewest nodes, and the most nodes in excess of what the arcs make up for.
Needs = tuple[int, int, int, int]

# Steps for which capturing them pays, and as many for each network (three steps are taken for a capture, one network
# after the other); and how much more room there is than the first epoch's batches need.
FEWEST_STEPS, STEPS_PER_NETWORK, ROOM = 32, 3, 1.01


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
        self.target, self.longest = pack.target, pack.longest_range
        self.sizes = np.stack([bounds.diff().numpy() for bounds in pack._host_bounds])

    def needs(self, order: Array, size: int) -> Needs:
        """Return what the batches of an epoch need."""
        nodes, arcs = np.add.reduceat(self.sizes[:, order], np.arange(0, len(order), size), axis=1)
        excess = nodes - arcs // ARCS_OF_REST
        return int(nodes.max()), int(arcs.max()), int(nodes.min()), int(excess.max())

    def cut(self, order: Tensor, first: Tensor, room: Room) -> tuple[Structures, Int[Tensor, " chosen"]]:
        """Return the batch that begins at a place of an order, with structures that fill up the room; its positions."""
        from hiddenfield.ops.triton_copies import copy_segments, cut_arcs, find_places

        pack, size = self.pack, (room.nodes, room.arcs)
        bounds = pack.node_ptr, pack.arc_ptr
        index, places, node_ptr = find_places(order, first, bounds, room.structures, size, room.rest)
        in_ptr, source, target, reverse = cut_arcs(
            pack.in_ptr, pack.source, self.target, pack.reverse, places, size
        )
        features = {}
        for name, columns in pack.features.items():
            arcs = FEATURES[name] == "arc"
            values = copy_segments(columns.values, places[int(arcs)], None, size[arcs], fill=True)
            features[name] = replace(columns, values=values)
        batch = Structures(node_ptr, in_ptr, source, reverse, features)
        topology = Topology(source, in_ptr, reverse, symmetric=True)
        vars(topology).update(longest_range=self.longest, target=target)
        vars(batch).update(symmetric=True, longest_range=self.longest, topology=topology)
        return batch, index


def leave_capture(device: torch.device) -> None:
    """Let a GPU's generator draw again after a capture that failed, which keeps it from it."""
    generator = torch.cuda.default_generators[device.index or 0]
    generator.graphsafe_set_state(generator.clone_state())


@dataclass(eq=False)
class CapturedSteps:
    """The steps of epochs as CUDA graphs: one for full batches, and one for the last where that is smaller.

    A replayed step looks up its number, takes its structures from the epoch's orders and its rate from the epoch's
    rates, cuts the batches, and leaves its losses; nothing waits for the device until an epoch is over. Networks that
    are trained side by side have branches of their own in the graph, which run at the same time.

    Parameters
    ----------
    pack
        The structures of all networks, end to end, on the device, every arc with a reverse.
    counts
        Structures of each network; all make the same number of batches.
    size
        Structures in a batch.
    gradient
        From the number of a network, a batch and the positions of its first structures, which alone count, to the loss;
        it leaves the gradient, too.
    update
        Takes the step of the optimizer at a learning rate.
    """

    pack: Structures
    counts: list[int]
    size: int
    gradient: Callable[[int, Structures, Tensor], Tensor]
    update: Callable[[Tensor], None]
    graphs: list[torch.cuda.CUDAGraph] = field(default_factory=list)
    needs: dict[int, Needs] = field(default_factory=dict)
    rooms: dict[int, tuple[Room, Room]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device = self.pack.device
        self.steps = -(-self.counts[0] // self.size)
        self.last = [count - (self.steps - 1) * self.size for count in self.counts]
        self.cutter = DeviceCutter(self.pack)
        self.orders = [torch.zeros(count, dtype=torch.int64, device=device) for count in self.counts]
        self.rates = torch.zeros(self.steps, dtype=torch.float32, device=device)
        self.losses = torch.zeros(self.steps, len(self.counts), dtype=torch.float64, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.streams = [torch.cuda.Stream(device) for _ in self.counts[1:]]

    def prepare(self, orders: list[Array], rates: Array) -> None:
        """Take the orders and the rates of an epoch; capture the steps where they have no room for its batches."""
        self.rates.copy_(torch.from_numpy(rates).float().pin_memory(), non_blocking=True)
        enough, full = bool(self.graphs), (self.steps - 1) * self.size
        for network, order in enumerate(orders):
            self.orders[network].copy_(torch.from_numpy(order).pin_memory(), non_blocking=True)
            last = self.cutter.needs(order[full:], self.last[network])
            whole = self.cutter.needs(order[:full], self.size) if full else last
            if enough:
                rooms = self.rooms[network]
                enough = rooms[0].holds(whole) and rooms[1].holds(last)
            nodes, arcs, least, excess = zip(whole, last, self.needs.get(network, whole), strict=True)
            self.needs[network] = max(nodes), max(arcs), min(least[0], least[2]), max(excess)
        if enough:
            return
        self.graphs.clear()
        alike = all(last == self.size for last in self.last)
        for network, needs in self.needs.items():
            room, left = Room.of(self.size, needs), (*needs[:2], 0, needs[3])
            self.rooms[network] = room, room if alike else Room.of(self.last[network], left)
        if self.steps > 1 or alike:
            self.graphs.append(self._captured([rooms[0] for rooms in self.rooms.values()], 0))
        if not alike:
            self.graphs.append(self._captured([rooms[1] for rooms in self.rooms.values()], self.steps - 1))

    def run(self, advance: Callable[[int], None]) -> Float[Tensor, "steps networks"]:
        """Take all steps of the epoch and return their losses, on the device."""
        self.number.zero_()
        for _ in range(self.steps - 1):
            self.graphs[0].replay()
            advance(self.size * len(self.counts))
        self.graphs[-1].replay()
        advance(sum(self.last))
        return self.losses

    def _captured(self, rooms: list[Room], number: int) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.number.fill_(number)
                self._once(rooms)
            self.number.fill_(number)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # What Python frees meanwhile, such as the graphs of an earlier training, must not spoil the capture.
        gc.collect()
        gc.disable()
        before = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
                self._once(rooms, self.update)
        finally:
            gc.enable()
            torch.cuda.set_stream(before)  # where a capture that fails does not return
        return graph

    def _once(self, rooms: list[Room], update: Callable[[Tensor], None] | None = None) -> None:
        """Compute the gradients of a step, each network's on a stream of its own, and take the step if wanted."""
        here, first = torch.cuda.current_stream(), self.number * self.size
        streams, losses = [here, *self.streams], []
        for stream in self.streams:
            stream.wait_stream(here)
        for network, (stream, room) in enumerate(zip(streams, rooms, strict=True)):
            with torch.cuda.stream(stream):
                batch, index = self.cutter.cut(self.orders[network], first, room)
                losses.append(self.gradient(network, batch, index).detach().double())
        for stream in self.streams:
            here.wait_stream(stream)
        if update is not None:
            update(self.rates.index_select(0, self.number)[0])
        self.losses.index_copy_(0, self.number, torch.stack(losses)[None])
        self.number += 1
