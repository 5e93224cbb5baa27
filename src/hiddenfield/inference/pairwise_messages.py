"""Parallel message passing where all factors are pairs of one shape: many factors at once, in the lanes of vectors."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.inference.iteration import Iteration
from hiddenfield.inference.message_passing import MessagePassing
from hiddenfield.inference.message_plan import MessagePlan
from hiddenfield.inference.pairwise_kernels import (
    LANES,
    MOST_STATES,
    laid_out,
    pairwise_sweep,
    pairwise_totals,
    port_by_port,
)
from hiddenfield.inference.share_kernels import (
    bound_products,
    log_messages,
    share_cavities,
    share_sweep,
    shares_of,
)
from hiddenfield.ops.lane_product import in_lanes
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["PairwiseMessages"]

LARGEST = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 650.0}
"""Numbers whose logarithms stay below this, either way, can be multiplied and added up as they are."""


class PairwiseMessages(Iteration):
    """The parallel schedule where `fits`, on messages in blocks of factors: (states, lanes) a block.

    Messages are multiplied as they are where that is safe; otherwise their logarithms are added.
    """

    def __init__(self, passing: MessagePassing, damping: float) -> None:
        self.plan, self.passing, self.damping = MessagePlan(passing), passing, damping
        self.rows, self.columns = passing.field.groups[0].states
        logs, begin = self.plan.tables
        size = self.rows * self.columns
        tables, row = logs.reshape(-1, size), begin // size
        top = tables.max(1)
        self.bounded = self._bounded(top, tables.min(1), row)
        slot, self.table_of_block, self.shared = self._assign()
        blocks = self.table_of_block.size
        block, lane = slot // LANES, slot % LANES
        first = block * (self.rows * LANES) + lane
        second = (blocks * self.rows * LANES) + block * (self.columns * LANES) + lane
        self.place = np.concatenate([first, second])
        self.tables = tables.ravel()
        if not passing.maximise:
            self.tables = np.exp(tables - np.where(top == -np.inf, 0, top)[:, None]).ravel()
        if not self.shared:
            # Ones where there is no factor: zeros would send the block to log space.
            own = np.ones((blocks * LANES, size), logs.dtype)
            own[slot] = self.tables.reshape(-1, size)[row]
            self.tables = in_lanes(own, LANES)
        self.table_begin = np.zeros(blocks * LANES, np.int64)
        self.table_begin[slot] = begin
        self.used = np.zeros(blocks * LANES, logs.dtype)
        self.used[slot] = 1
        self.slot_graph = np.zeros(blocks * LANES, np.int64)
        self.slot_graph[slot] = self.plan.factor_graph
        self.totals = np.ones(blocks * LANES * (self.rows + self.columns), logs.dtype)
        self.residual = np.empty(blocks * LANES, logs.dtype)

    @staticmethod
    def fits(passing: MessagePassing) -> bool:
        """Whether all factors are pairs of one shape, not too large."""
        groups = passing.field.groups
        if len(groups) != 1 or groups[0].arity != 2 or not groups[0].num_factors:
            return False
        return max(groups[0].states) <= MOST_STATES

    def _bounded(self, top: Array, least: Array, row: Array) -> bool:
        """Return whether no product of messages can come near underflow or overflow."""
        if self.passing.maximise or self.damping or not self.passing.unweighted:
            return False
        with np.errstate(invalid="ignore"):
            self.span = (top - least)[row]
        plan = self.plan
        self.own, bound = np.empty_like(plan.log_unary), np.empty(plan.state_ptr.size - 1, top.dtype)
        bound_products(
            plan.log_unary,
            plan.state_ptr,
            *plan.by_variable,
            plan.port_factor,
            self.span,
            self.own,
            bound,
            work=self.own.size,
        )
        widest = math.log(max(self.rows, self.columns))
        return bool(bound.max() + self.span.max() + widest <= LARGEST[top.dtype])

    def _assign(self) -> tuple[Array, Array, bool]:
        """Return the slot of each factor, where the table of each block begins, and whether blocks share tables."""
        group = self.passing.field.groups[0]
        factors, size = group.num_factors, self.rows * self.columns
        tables = group.log_tables.shape[0]
        if self.passing.weights is not None or group.table is None or factors < LANES * tables:
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

    def start(self, messages: Float[Tensor, " messages"]) -> Tensor:
        """Lay messages out in blocks."""
        given, port_ptr = messages.detach().contiguous().numpy(force=True), self.plan.port_ptr
        state = np.ones(self.totals.size, given.dtype)
        self.as_shares = self.bounded
        if self.bounded:
            largest = np.empty(self.place.size, given.dtype)
            shares_of(given, port_ptr, self.place, state, largest, work=given.size)
            # Messages that this field does not send itself, from elsewhere: products of them might overflow.
            self.as_shares = bool((largest.reshape(2, -1) <= self.span + 1e-3).all())
        if not self.as_shares:
            laid_out(given, port_ptr, self.place, state, work=given.size)
        return torch.from_numpy(state)

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return log messages in the order of ports."""
        values, port_ptr = state.numpy(), self.plan.port_ptr
        out = np.empty(int(port_ptr[-1]), values.dtype)
        collect = log_messages if self.as_shares else port_by_port
        collect(values, port_ptr, self.place, out, work=out.size)
        return torch.from_numpy(out)

    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message in place."""
        values = state.numpy()
        (self._multiply if self.as_shares else self._add)(values)
        return state, self.plan.by_graph(self.residual, self.slot_graph)

    def _multiply(self, shares: Array) -> None:
        plan, work = self.plan, shares.size
        share_cavities(
            shares, self.own, plan.state_ptr, *plan.by_variable, self.place, self.totals, work=work
        )
        share_sweep(
            shares,
            self.totals,
            self.tables,
            self.table_of_block,
            self.rows,
            self.columns,
            self.shared,
            self.used,
            self.residual,
            work=work,
        )

    def _add(self, values: Array) -> None:
        plan, work = self.plan, values.size
        pairwise_totals(
            values,
            plan.log_unary,
            plan.state_ptr,
            *plan.by_variable,
            self.place,
            plan.port_weight,
            self.totals,
            work=work,
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
            work=work,
        )
