"""Where the messages of a factor graph lie: flat index arrays, compiled once from the scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.ops import Topology, counting_sort
from hiddenfield.shapes import Array, Float, Int, Tensor


def owners(lengths: Int[Tensor, " segments"]) -> Int[Tensor, " rows"]:
    """Return the segment of every row: 0 as often as the first length says, then 1, and so on.

    On the CPU by NumPy: torch's own starts threads for ten numbers.
    """
    if lengths.is_cpu:
        return torch.from_numpy(np.repeat(np.arange(lengths.shape[0]), lengths.numpy()))
    return torch.repeat_interleave(lengths)


def connected_parts(
    nodes: int, first: Int[Array, " edges"], second: Int[Array, " edges"]
) -> tuple[int, Int[Array, " nodes"]]:
    """Return how many connected parts a graph has, and the part of every node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(first), np.bool_), (first, second)), shape=(nodes, nodes))
    number, part = connected_components(links, directed=False)
    return int(number), part


@dataclass(frozen=True, eq=False)
class Wiring:
    """Flat index arrays of all ports, that is of all (factor, position in its scope).

    Ports are numbered group by group, within a group position by position, within a position factor by factor. A
    message is a vector over the states of the port's variable; messages lie in the order of ports, so that those of
    one position of one group are a (factors, states) matrix: `blocks[group][position]` is its (begin, end).

    Parameters
    ----------
    port_variable, port_factor, port_graph
        Of every port its variable, factor (numbered through all groups) and graph.
    port_ptr
        Bounds of every port's message.
    message_state
        The packed state that each number of a message belongs to.
    factor_graph
        The graph of every factor.
    blocks
        (begin, end) in the flat messages for each position of each group.
    num_states
        Number of packed states.
    """

    port_variable: Int[Tensor, " ports"]
    port_factor: Int[Tensor, " ports"]
    port_graph: Int[Tensor, " ports"]
    port_ptr: Int[Tensor, " port_bounds"]
    message_state: Int[Tensor, " messages"]
    factor_graph: Int[Tensor, " factors"]
    blocks: tuple[tuple[tuple[int, int], ...], ...]
    num_states: int

    @cached_property
    def message_port(self) -> Int[Tensor, " messages"]:
        """The port of each number of a message."""
        return owners(self.port_ptr.diff())

    @cached_property
    def to_states(self) -> Topology:
        """Who sends to whom: each packed state receives the numbers of messages that belong to it."""
        order, ptr = counting_sort(self.message_state, self.num_states)
        return Topology(order, ptr, num_sources=order.shape[0])

    @cached_property
    def by_variable(self) -> tuple[Int[Tensor, " ports"], Int[Tensor, " variable_bounds"]]:
        """The ports sorted by their variable, and the bounds of each variable's."""
        return counting_sort(self.port_variable, self._variables)

    @cached_property
    def by_factor(self) -> tuple[Int[Tensor, " ports"], Int[Tensor, " factor_bounds"]]:
        """The ports of each factor in the order of its scope, and their bounds."""
        return counting_sort(self.port_factor, self.factor_graph.shape[0])

    _variables: int = 0

    def interleave(self, rows: Float[Tensor, "copies each"]) -> Float[Tensor, " messages"]:
        """Lay out messages of the copies that a batch consists of, one row per copy, as the batch has them.

        That is group by group, position by position, copy by copy; `separate` is the inverse.
        """
        widths = [(end - begin) // rows.shape[0] for places in self.blocks for begin, end in places]
        return torch.cat([rows.new_zeros(0), *(part.reshape(-1) for part in rows.split(widths, 1))])

    def separate(self, messages: Float[Tensor, " messages"], copies: int) -> Float[Tensor, "copies each"]:
        """Return the messages of a batch that consists of copies of one field, one row per copy."""
        parts = [messages[begin:end].reshape(copies, -1) for places in self.blocks for begin, end in places]
        return torch.cat([messages.new_zeros((copies, 0)), *parts], 1)


def wire(
    cardinalities: Int[Tensor, " variables"],
    scopes: Sequence[Tensor],
    variable_graph: Int[Tensor, " variables"],
) -> Wiring:
    """Compile scopes, one matrix (factors, arity) per group, to flat index arrays. Linear in the size of messages."""
    empty = cardinalities.new_zeros(0)
    variables = [empty, *(group.T.reshape(-1) for group in scopes)]
    factors, graphs, offset = [empty], [empty], 0
    for group in scopes:
        numbers = torch.arange(offset, offset + group.shape[0], device=group.device)
        factors.append(numbers.repeat(group.shape[1]))
        graphs.append(variable_graph[group[:, 0]])
        offset += group.shape[0]
    port_variable = torch.cat(variables)
    lengths = cardinalities[port_variable]
    port_ptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    state_ptr = torch.cat([cardinalities.new_zeros(1), cardinalities.cumsum(0)])
    blocks, begin, message_states = [], 0, [empty]
    for group in scopes:
        row = []
        for position in range(group.shape[1]):
            states = int(cardinalities[group[0, position]]) if group.shape[0] else 0
            within = torch.arange(states, device=group.device)
            message_states.append((state_ptr[group[:, position], None] + within).reshape(-1))
            row.append((begin, begin + group.shape[0] * states))
            begin = row[-1][1]
        blocks.append(tuple(row))
    return Wiring(
        port_variable,
        torch.cat(factors),
        variable_graph[port_variable],
        port_ptr,
        torch.cat(message_states),
        torch.cat(graphs),
        tuple(blocks),
        int(state_ptr[-1]),
        cardinalities.shape[0],
    )
