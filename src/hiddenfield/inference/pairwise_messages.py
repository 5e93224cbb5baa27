"""Parallel message passing where all factors are pairs of one shape: many factors at once, in the lanes of vectors."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.inference.iteration import Iteration
from hiddenfield.inference.message_passing import MessagePassing
from hiddenfield.inference.message_plan import MessagePlan
from hiddenfield.inference.pairwise_kernels import LANES, MOST_STATES, pairwise_sweep, pairwise_totals
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["PairwiseMessages"]


class PairwiseMessages(Iteration):
    """The parallel schedule where `fits`, on messages in blocks of factors: (states, lanes) a block."""

    def __init__(self, passing: MessagePassing, damping: float) -> None:
        self.plan, self.passing, self.damping = MessagePlan(passing), passing, damping
        group = passing.field.groups[0]
        self.rows, self.columns = group.states
        slot, self.table_of_block, self.shared = self._assign(passing)
        blocks = self.table_of_block.size
        block, lane = slot // LANES, slot % LANES
        self.place = np.concatenate(
            [
                block * self.rows * LANES + lane,
                (blocks * self.rows + block * self.columns) * LANES + lane,
            ]
        )
        self.tables = self._lay_out(slot, blocks)
        logs, begin = self.plan.tables
        self.table_begin = np.zeros(blocks * LANES, np.int64)
        self.table_begin[slot] = begin
        self.used = np.zeros(blocks * LANES, logs.dtype)
        self.used[slot] = 1
        self.slot_graph = np.zeros(blocks * LANES, np.int64)
        self.slot_graph[slot] = self.plan.factor_graph
        self.totals = np.zeros(blocks * LANES * (self.rows + self.columns), logs.dtype)
        self.residual = np.empty(blocks * LANES, logs.dtype)
        within = np.arange(self.plan.port_ptr[-1]) - np.repeat(
            self.plan.port_ptr[:-1], np.diff(self.plan.port_ptr)
        )
        self.message_place = np.repeat(self.place, np.diff(self.plan.port_ptr)) + LANES * within

    @staticmethod
    def fits(passing: MessagePassing) -> bool:
        """Whether all factors are pairs of one shape, not too large."""
        groups = passing.field.groups
        if len(groups) != 1 or groups[0].arity != 2 or not groups[0].num_factors:
            return False
        return max(groups[0].states) <= MOST_STATES

    @staticmethod
    def _assign(passing: MessagePassing) -> tuple[Array, Array, bool]:
        """Return the slot of each factor, where the table of each block begins, and whether blocks share tables."""
        group = passing.field.groups[0]
        factors, size = group.num_factors, int(np.prod(group.states))
        tables = group.log_tables.shape[0]
        if passing.weights is not None or group.table is None or factors < LANES * tables:
            blocks = -(-factors // LANES)
            return np.arange(factors), size * LANES * np.arange(blocks), False
        table = group.table.numpy(force=True)
        count = np.bincount(table, minlength=tables)
        filled = -(-count // LANES)
        order = np.argsort(table, kind="stable")
        first_factor, first_block = np.cumsum(count) - count, np.cumsum(filled) - filled
        slot = np.empty(factors, np.int64)
        slot[order] = np.arange(factors) + (first_block * LANES - first_factor)[table[order]]
        return slot, size * np.repeat(np.arange(tables), filled), True

    def _lay_out(self, slot: Array, blocks: int) -> Array:
        """Return the tables that the kernel multiplies with: exponentials, or logarithms where maximising."""
        logs, begin = self.plan.tables
        values = logs if self.passing.maximise else self.plan.exp_tables[0]
        if self.shared:
            return values
        size = self.rows * self.columns
        # Ones where there is no factor: zeros would send the block to log space.
        by_slot = np.ones((blocks * LANES, size), logs.dtype)
        by_slot[slot] = values.reshape(-1, size)[begin // size]
        return np.ascontiguousarray(by_slot.reshape(blocks, LANES, size).transpose(0, 2, 1)).reshape(-1)

    def start(self, messages: Float[Tensor, " messages"]) -> Tensor:
        """Lay messages out in blocks."""
        given = messages.detach().numpy(force=True)
        state = np.zeros(self.totals.size, given.dtype)
        state[self.message_place] = given
        return torch.from_numpy(state)

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return messages in the order of ports."""
        return state[torch.from_numpy(self.message_place)]

    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message in place."""
        values, plan = state.numpy(), self.plan
        pairwise_totals(
            values,
            plan.log_unary,
            plan.state_ptr,
            *plan.by_variable,
            self.place,
            plan.port_weight,
            self.totals,
            work=values.size,
        )
        pairwise_sweep(
            values,
            self.totals,
            self.tables,
            self.table_of_block,
            *plan.tables[:1],
            self.table_begin,
            self.rows,
            self.columns,
            self.shared,
            self.passing.maximise,
            plan.least,
            self.damping,
            self.used,
            self.residual,
            work=values.size,
        )
        return state, plan.by_graph(self.residual, self.slot_graph)
