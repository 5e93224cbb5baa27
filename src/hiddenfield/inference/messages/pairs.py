"""Parallel message passing where all factors are pairs of one shape: many factors at once, in the lanes of vectors."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch

from hiddenfield.fields.layout import scaled
from hiddenfield.inference.messages.pair_loops import (
    LANES,
    MOST_STATES,
    ROOM,
    PairBlocks,
    from_blocks,
    pair_sweep,
    to_blocks,
    variable_cavities,
)
from hiddenfield.inference.messages.passing import MessagePlan
from hiddenfield.inference.messages.schedules import Iteration, Parallel
from hiddenfield.ops import counting_sort
from hiddenfield.ops.compile import as_array
from hiddenfield.shapes import Array, Float, Tensor

LEAST = {np.dtype(np.float32): 1e-29, np.dtype(np.float64): 1e-217}
"""Products of messages at least this large can be multiplied by any entry of a table without underflow."""

SPAN = {np.dtype(np.float32): 20.0, np.dtype(np.float64): 200.0}
"""Largest difference of finite entries of a log table."""


class Pairs(Iteration):
    """The parallel schedule where that is safe, on the messages themselves instead of their logarithms.

    Messages lie in blocks of factors, (states, lanes) per block. Graphs of a batch whose messages have settled rest
    until all have. As soon as a product of messages may underflow, the general loops take over in log space.
    """

    def __init__(
        self, plan: MessagePlan, damping: float, tolerance: float, own: Array, tables: Array, row: Array
    ) -> None:
        super().__init__(plan, damping, tolerance)
        self.moving = np.ones(self.passing.field.num_graphs, np.bool_)
        self.general: Parallel | None = None
        group = self.passing.field.groups[0]
        (rows, columns), factors, kinds = group.states, group.num_factors, group.log_tables.shape[0]
        # Where many factors share a table, so do all factors of a block.
        shared = self.passing.weights is None and group.table is not None and factors >= LANES * kinds
        if shared and group.table is not None:
            order, ptr = map(as_array, counting_sort(group.table, kinds))
            filled, kind = -(-np.diff(ptr) // LANES), as_array(group.table)[order]
            slot = np.empty(factors, np.int64)
            slot[order] = np.arange(factors) + (LANES * (np.cumsum(filled) - filled) - ptr[:-1])[kind]
            table_begin = np.repeat(np.arange(kinds) * (rows * columns), filled)
        else:
            slot, table_begin = np.arange(factors), np.arange(-(-factors // LANES)) * (rows * columns * LANES)
            each = np.ones((LANES * table_begin.size, rows * columns), tables.dtype)
            each[:factors] = tables[row]
            tables = np.ascontiguousarray(each.reshape(-1, LANES, rows * columns).transpose(0, 2, 1))
        slots = LANES * table_begin.size
        used, graph = np.zeros(slots, tables.dtype), np.zeros(slots, np.int64)
        weight = np.ones((2, slots), tables.dtype)
        used[slot], graph[slot], weight[:, slot] = 1, plan.factor_graph, plan.port_weight.reshape(2, -1)
        block, lane = np.divmod(slot, LANES)
        place = (block * (rows * LANES) + lane, slots * rows + block * (columns * LANES) + lane)
        self.pairs = PairBlocks(
            np.concatenate(place),
            used,
            graph,
            weight,
            table_begin,
            tables.ravel(),
            shared,
            rows,
            columns,
            own,
            LEAST[own.dtype],
            plan.state_ptr,
            *plan.by_variable,
            plan.variable_graph,
            self.passing.maximise,
            damping,
            not self.passing.unweighted,
        )
        self.sent = np.ones(slots * (rows + columns) + ROOM, tables.dtype)
        self.residual = np.zeros(slots, tables.dtype)

    @classmethod
    def where_safe(cls, plan: MessagePlan, damping: float, tolerance: float) -> Pairs | None:
        """Return the iteration if all factors are pairs of one shape without extreme potentials, otherwise None."""
        groups = plan.passing.field.groups
        if len(groups) != 1 or groups[0].arity != 2 or not groups[0].num_factors:
            return None
        if max(groups[0].states) > MOST_STATES:
            return None
        own, _, least = scaled(plan.log_unary, plan.state_ptr)
        logs, begin = plan.tables
        size = math.prod(groups[0].states)
        tables, row = logs.reshape(-1, size), begin // size
        top = tables.max(1, keepdims=True)
        if not (top > -np.inf).all() or not (least >= np.log(LEAST[own.dtype])).all():
            return None
        tables = tables - top
        if not _within(tables, SPAN[own.dtype]):
            return None
        return cls(plan, damping, tolerance, np.exp(own), np.exp(tables), row)

    def start(self, messages: Float[Tensor, " messages"] | None) -> Tensor:
        """Lay the exponentials of messages out in blocks; extreme ones, from elsewhere, are left in log space."""
        self.general = None
        pairs, state = self.pairs, np.ones_like(self.sent)
        first = pairs.used.size * pairs.rows
        if messages is not None:
            given = as_array(messages.detach())
            if given.max() > 1e-3:
                given = as_array(self.passing.normalise(messages.detach()))
            if not _within(given, -np.log(LEAST[given.dtype])):
                return self._in_log_space(messages)
            to_blocks(given, self.plan.port_ptr, pairs.place, state, work=given.size)
        elif not self.passing.maximise:
            state[:first], state[first:-ROOM] = 1 / pairs.rows, 1 / pairs.columns
        self.powers = state
        if pairs.weighted:
            self.powers = state.copy()
            first_weight, second_weight = pairs.weight.reshape(2, -1, 1, LANES)
            self.powers[:first].reshape(-1, pairs.rows, LANES)[:] **= first_weight
            self.powers[first:-ROOM].reshape(-1, pairs.columns, LANES)[:] **= second_weight
        return torch.from_numpy(state)

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return log messages in the order of ports."""
        if self.general is not None:
            return state
        port_ptr = self.plan.port_ptr
        out = np.empty(int(port_ptr[-1]), self.sent.dtype)
        from_blocks(state.numpy(), port_ptr, self.pairs.place, out, work=out.size)
        return torch.from_numpy(out)

    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message in place."""
        if self.general is None and not self._send(state.numpy()):
            state = self._in_log_space(self.messages(state))
        if self.general is not None:
            return self.general.step(state)
        arrays = (state.numpy(), self.powers, self.sent, self.pairs, self.moving, self.residual)
        pair_sweep(*arrays, work=self.sent.size)
        worst = self.plan.by_graph(self.residual, self.pairs.graph)
        if len(self.moving) > 1:
            # A quarter: beliefs may still move more than the messages.
            np.greater(worst.numpy(), self.tolerance / 4, out=self.moving)
            # If the iteration goes on although all rest, some should not.
            if not self.moving.any():
                self.moving[:] = True
        return state, worst

    def update(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return all new log messages from all old ones, undamped; the iteration itself goes on where it was."""
        undamped = copy.copy(self)
        undamped.damping, undamped.pairs = 0.0, self.pairs._replace(damping=0.0)
        undamped.moving = np.ones_like(self.moving)
        return undamped.messages(undamped.step(undamped.start(messages))[0])

    def _send(self, shares: Array) -> bool:
        """Compute what variables send to factors; return whether nothing can have underflowed."""
        unsafe = np.zeros(self.plan.state_ptr.size, np.bool_)
        variable_cavities(
            shares, self.powers, self.pairs, self.moving, self.sent, unsafe, work=self.sent.size
        )
        return not unsafe.any()

    def _in_log_space(self, messages: Tensor) -> Tensor:
        self.general = Parallel(self.plan, self.damping, self.tolerance)
        return self.general.start(messages)


def _within(logs: Array, span: float) -> bool:
    """Return whether all numbers are at least -span, or -inf."""
    return bool(((logs >= -span) | (logs == -np.inf)).all())
