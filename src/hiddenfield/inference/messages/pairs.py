"""Parallel message passing where all factors are pairs of one shape: many factors at once, in the lanes of vectors."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.inference.messages.pair_loops import (
    LANES,
    MOST_STATES,
    ROOM,
    assign_slots,
    from_blocks,
    pair_sweep,
    scaled_potentials,
    to_blocks,
    variable_cavities,
)
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.inference.messages.schedules import Iteration, Parallel
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
        self.own = own
        self.moving = np.ones(self.passing.field.num_graphs, np.bool_)
        self.rows, self.columns = self.passing.field.groups[0].states
        self.general: Parallel | None = None
        kind, following = self._kinds()
        slots = LANES * self.table_of_block.size
        self.place, self.used = np.empty(2 * row.size, np.int64), np.zeros(slots, tables.dtype)
        self.slot_graph, self.slot_weight = np.zeros(slots, np.int64), np.ones(2 * slots, tables.dtype)
        assign_slots(
            kind,
            following,
            plan.factor_graph,
            plan.port_weight,
            self.rows,
            self.columns,
            self.place,
            self.used,
            self.slot_graph,
            self.slot_weight,
        )
        if not self.shared:
            each = np.ones((slots, tables.shape[1]), tables.dtype)
            each[: row.size] = tables[row]
            tables = np.ascontiguousarray(each.reshape(-1, LANES, tables.shape[1]).transpose(0, 2, 1))
        self.tables = tables.ravel()
        self.sent = np.ones(slots * (self.rows + self.columns) + ROOM, tables.dtype)
        self.residual = np.zeros(slots, tables.dtype)

    @classmethod
    def where_safe(cls, plan: MessagePlan, damping: float, tolerance: float) -> Pairs | None:
        """Return the iteration if all factors are pairs of one shape without extreme potentials, otherwise None."""
        groups = plan.passing.field.groups
        if len(groups) != 1 or groups[0].arity != 2 or not groups[0].num_factors:
            return None
        if max(groups[0].states) > MOST_STATES:
            return None
        own, least = np.empty_like(plan.log_unary), np.empty(plan.state_ptr.size - 1, plan.log_unary.dtype)
        scaled_potentials(plan.log_unary, plan.state_ptr, own, least, work=own.size)
        logs, begin = plan.tables
        size = math.prod(groups[0].states)
        tables, row = logs.reshape(-1, size), begin // size
        top = tables.max(1, keepdims=True)
        if not (top > -np.inf).all() or not (least >= np.log(LEAST[own.dtype])).all():
            return None
        tables = tables - top
        if not _within(tables, SPAN[own.dtype]):
            return None
        return cls(plan, damping, tolerance, own, np.exp(tables), row)

    def _kinds(self) -> tuple[Array, Array]:
        """Return the kind of each factor, and the first slot of each kind; say where the table of each block begins.

        Factors are of one kind per table where many share one, and then so are blocks.
        """
        group = self.passing.field.groups[0]
        factors, size = group.num_factors, self.rows * self.columns
        tables = group.log_tables.shape[0]
        if self.passing.weights is not None or group.table is None or factors < LANES * tables:
            self.shared = False
            self.table_of_block = np.arange(-(-factors // LANES)) * (size * LANES)
            return np.zeros(factors, np.int64), np.zeros(1, np.int64)
        kind = as_array(group.table)
        filled = -(-np.bincount(kind, minlength=tables) // LANES)
        self.shared, self.table_of_block = True, np.repeat(np.arange(tables) * size, filled)
        return kind, LANES * (np.cumsum(filled) - filled)

    def start(self, messages: Float[Tensor, " messages"] | None) -> Tensor:
        """Lay the exponentials of messages out in blocks; extreme ones, from elsewhere, are left in log space."""
        self.general = None
        state, first = np.ones_like(self.sent), self.used.size * self.rows
        if messages is not None:
            given = as_array(messages.detach())
            if given.max() > 1e-3:
                given = as_array(self.passing.normalise(messages.detach()))
            if not _within(given, -np.log(LEAST[given.dtype])):
                return self._in_log_space(messages)
            to_blocks(given, self.plan.port_ptr, self.place, state, work=given.size)
        elif not self.passing.maximise:
            state[:first], state[first:-ROOM] = 1 / self.rows, 1 / self.columns
        self.powers = state
        if not self.passing.unweighted:
            self.powers = state.copy()
            first_weight, second_weight = self.slot_weight.reshape(2, -1, 1, LANES)
            self.powers[:first].reshape(-1, self.rows, LANES)[:] **= first_weight
            self.powers[first:-ROOM].reshape(-1, self.columns, LANES)[:] **= second_weight
        return torch.from_numpy(state)

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return log messages in the order of ports."""
        if self.general is not None:
            return state
        port_ptr = self.plan.port_ptr
        out = np.empty(int(port_ptr[-1]), self.sent.dtype)
        from_blocks(state.numpy(), port_ptr, self.place, out, work=out.size)
        return torch.from_numpy(out)

    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message in place."""
        if self.general is None and not self._send(state.numpy()):
            state = self._in_log_space(self.messages(state))
        if self.general is not None:
            return self.general.step(state)
        pair_sweep(
            state.numpy(),
            self.powers,
            self.sent,
            self.tables,
            self.table_of_block,
            self.rows,
            self.columns,
            self.shared,
            self.passing.maximise,
            self.damping,
            not self.passing.unweighted,
            self.slot_weight,
            self.used,
            self.slot_graph,
            self.moving,
            self.residual,
            work=self.sent.size,
        )
        worst = self.plan.by_graph(self.residual, self.slot_graph)
        if len(self.moving) > 1:
            # A quarter: beliefs may still move more than the messages.
            np.greater(worst.numpy(), self.tolerance / 4, out=self.moving)
            # If the iteration goes on although all rest, some should not.
            if not self.moving.any():
                self.moving[:] = True
        return state, worst

    def _send(self, shares: Array) -> bool:
        """Compute what variables send to factors; return whether nothing can have underflowed."""
        plan = self.plan
        unsafe = np.zeros(plan.state_ptr.size, np.bool_)
        variable_cavities(
            shares,
            self.powers,
            self.own,
            plan.state_ptr,
            *plan.by_variable,
            self.place,
            plan.variable_graph,
            self.moving,
            LEAST[shares.dtype],
            self.sent,
            unsafe,
            work=self.sent.size,
        )
        return not unsafe.any()

    def _in_log_space(self, messages: Tensor) -> Tensor:
        self.general = Parallel(self.plan, self.damping, self.tolerance)
        return self.general.start(messages)


def _within(logs: Array, span: float) -> bool:
    """Return whether all numbers are at least -span, or -inf."""
    return bool(((logs >= -span) | (logs == -np.inf)).all())
