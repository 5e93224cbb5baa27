"""What the compiled loops of message passing read: a field's ports, tables and weights as flat NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.fields.layout import scaled_tables
from hiddenfield.inference.messages.loops import Ports, largest_by_graph
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.shapes import Array, Float, Tensor


def _array(read: Callable[[MessagePassing], Tensor]) -> cached_property[Array]:
    """Return a property that is a tensor of the passing as an array, made when it is first read."""
    return cached_property(lambda plan: as_array(read(plan.passing)))


@dataclass(frozen=True, eq=False)
class MessagePlan:
    """Flat arrays of one `MessagePassing`, on the CPU; each is made when it is first read.

    What depends on the shape of the field alone is that of `Wiring`; tables and weights are those of the passing.

    Parameters
    ----------
    passing
        Field, weights, and whether to maximise.
    """

    passing: MessagePassing

    port_ptr = _array(lambda passing: passing.field.wiring.port_ptr)
    port_variable = _array(lambda passing: passing.field.wiring.port_variable)
    port_factor = _array(lambda passing: passing.field.wiring.port_factor)
    port_graph = _array(lambda passing: passing.field.wiring.port_graph)
    factor_graph = _array(lambda passing: passing.field.wiring.factor_graph)
    port_weight = _array(lambda passing: passing.port_weight)
    state_ptr = _array(lambda passing: passing.field.state_ptr)
    variable_graph = _array(lambda passing: passing.field.variable_graph)
    log_unary = _array(lambda passing: passing.field.log_unary)

    def by_graph(self, residual: Array, graph: Array) -> Float[Tensor, " graphs"]:
        """Return the largest of the numbers of each graph."""
        graphs = self.passing.field.num_graphs
        if graphs == 1 and residual.size:
            return torch.from_numpy(residual.max(keepdims=True))
        worst = np.zeros(graphs, residual.dtype)
        largest_by_graph(residual, graph, worst)
        return torch.from_numpy(worst)

    @cached_property
    def by_variable(self) -> tuple[Array, Array]:
        """The ports of each variable, and their bounds."""
        order, ptr = self.passing.field.wiring.by_variable
        return as_array(order), as_array(ptr)

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        """All log tables end to end, divided by the factors' weights, and where that of each factor begins."""
        field = self.passing.field
        if self.passing.weights is None:
            tables, begin = [group.log_tables for group in field.groups], as_array(field.table_begin)
        else:
            # Every factor has a table of its own then.
            tables = list(self.passing.log_tables)
            size = [np.full(group.num_factors, math.prod(group.states)) for group in field.groups]
            sizes = np.concatenate([np.zeros(0, np.int64), *size])
            begin = np.cumsum(sizes) - sizes
        parts = [as_array(table).reshape(-1) for table in tables]
        return np.concatenate([np.zeros(0, self.log_unary.dtype), *parts]), begin

    @cached_property
    def ports(self) -> Ports:
        """All of it, with room for messages and totals, to be updated without damping."""
        groups, limits = self.passing.field.groups, np.finfo(self.log_unary.dtype)
        factor_port, factor_ptr = map(as_array, self.passing.field.wiring.by_factor)
        variable_port, variable_ptr = self.by_variable
        log_tables, table_begin = self.tables
        position = np.empty(factor_port.size, np.int64)
        position[factor_port] = np.arange(factor_port.size) - np.repeat(factor_ptr[:-1], np.diff(factor_ptr))
        return Ports(
            np.empty(int(self.port_ptr[-1]), self.log_unary.dtype),
            np.empty_like(self.log_unary),
            self.log_unary,
            self.state_ptr,
            self.port_ptr,
            self.port_variable,
            self.port_factor,
            position,
            self.port_weight,
            factor_port,
            factor_ptr,
            variable_port,
            variable_ptr,
            log_tables,
            # What underflows is noticed where it matters: a sum too small to be trusted is done again in log space.
            np.exp(scaled_tables(log_tables, table_begin)[0]),
            table_begin,
            self.passing.maximise,
            # Sums of exponentials below this have lost terms that matter to the floating type.
            float(limits.tiny / limits.eps),
            0.0,
            max((sum(group.states) for group in groups), default=1),
            max((group.arity for group in groups), default=1),
        )

    @cached_property
    def depths(self) -> tuple[Array, Array]:
        """How far each variable, and each factor, is from the first variable of its part."""
        depth = np.full(self.state_ptr.size - 1, -1, np.int64)
        factor_depth = np.full(self.passing.field.num_factors, -1, np.int64)
        breadth_first(self.ports, depth, factor_depth)
        return depth, factor_depth

    @cached_property
    def sweep(self) -> Array:
        """An order of the ports in which each depends on earlier ones as far as possible: inwards, then outwards.

        Messages towards the first variable of a part come first, the farthest ones before all, and messages away from
        it last, the farthest ones after all. On a forest one sweep makes all messages exact.
        """
        depth, factor_depth = self.depths
        here = depth[self.port_variable]
        inwards = factor_depth[self.port_factor] > here
        return np.lexsort((self.port_variable, np.where(inwards, -here, here), ~inwards))


@compiled
def breadth_first(ports: Ports, depth: Array, factor_depth: Array) -> None:
    """Write the distance of each variable and factor from the first variable of its part; both come in as -1."""
    queue = np.empty(depth.size, np.int64)
    for root in range(depth.size):
        if depth[root] >= 0:
            continue
        depth[root] = 0
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            variable = queue[head]
            head += 1
            for place in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
                factor = ports.port_factor[ports.variable_port[place]]
                if factor_depth[factor] >= 0:
                    continue
                factor_depth[factor] = depth[variable] + 1
                for other in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
                    neighbour = ports.port_variable[ports.factor_port[other]]
                    if depth[neighbour] < 0:
                        depth[neighbour] = depth[variable] + 2
                        queue[tail] = neighbour
                        tail += 1
