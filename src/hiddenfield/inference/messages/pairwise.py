"""Parallel message passing where all factors are pairs of one shape: many factors at once, in the lanes of vectors."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.inference.messages.iteration import Iteration
from hiddenfield.inference.messages.pairwise_loops import (
    LANES,
    MOST_STATES,
    assign_slots,
    laid_out,
    pairwise_sweep,
    pairwise_totals,
    port_by_port,
)
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.inference.messages.share_loops import (
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

    Messages are multiplied as they are where that is safe; otherwise their logarithms are added. Where they are
    multiplied, graphs of a batch whose messages have settled rest until all have.
    """

    def __init__(self, passing: MessagePassing, damping: float, tolerance: float) -> None:
        self.plan, self.passing, self.damping = MessagePlan(passing), passing, damping
        self.tolerance, self.moving = tolerance, np.ones(passing.field.num_graphs, np.bool_)
        self.rows, self.columns = passing.field.groups[0].states
        logs, begin = self.plan.tables
        size = self.rows * self.columns
        tables, row = logs.reshape(-1, size), begin // size
        top = tables.max(1)
        self.bounded = self._bounded(top, tables.min(1), row)
        kind, following = self._kinds()
        slots = LANES * self.table_of_block.size
        self.place, self.table_begin = np.empty(2 * row.size, np.int64), np.zeros(slots, np.int64)
        self.used, self.slot_graph = np.zeros(slots, logs.dtype), np.zeros(slots, np.int64)
        assign_slots(
            kind,
            following,
            begin,
            self.plan.factor_graph,
            self.rows,
            self.columns,
            self.place,
            self.table_begin,
            self.used,
            self.slot_graph,
        )
        if not passing.maximise:
            tables = np.exp(tables - np.where(top == -np.inf, 0, top)[:, None])
        if not self.shared:
            # Ones where there is no factor: zeros would send the block to log space.
            own = np.ones((slots, size), logs.dtype)
            own[: row.size] = tables[row]
        self.tables = tables.ravel() if self.shared else in_lanes(own, LANES)
        self.totals = np.ones(slots * (self.rows + self.columns), logs.dtype)
        self.residual = np.zeros(slots, logs.dtype)

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

    def _kinds(self) -> tuple[Array, Array]:
        """Return the kind of each factor, and the first slot of each kind; say where the table of each block begins.

        Factors are of one kind each table where many share one, and then so are blocks.
        """
        group = self.passing.field.groups[0]
        factors, size = group.num_factors, self.rows * self.columns
        tables = group.log_tables.shape[0]
        if self.passing.weights is not None or group.table is None or factors < LANES * tables:
            self.shared = False
            self.table_of_block = np.arange(-(-factors // LANES)) * (size * LANES)
            return np.zeros(factors, np.int64), np.zeros(1, np.int64)
        kind = group.table.numpy(force=True)
        filled = -(-np.bincount(kind, minlength=tables) // LANES)
        self.shared, self.table_of_block = True, np.repeat(np.arange(tables) * size, filled)
        return kind, LANES * (np.cumsum(filled) - filled)

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

    def start_uniform(self, passing: MessagePassing) -> Tensor:
        """Return ones, unless logarithms are added."""
        self.as_shares = self.bounded
        return torch.from_numpy(np.ones_like(self.totals)) if self.bounded else super().start_uniform(passing)

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
        worst = self.plan.by_graph(self.residual, self.slot_graph)
        if self.as_shares and len(self.moving) > 1:
            # A quarter: beliefs may still move more than the messages.
            np.greater(worst.numpy(), self.tolerance / 4, out=self.moving)
            # Whoever goes on although all rest has found that some should not.
            if not self.moving.any():
                self.moving[:] = True
        return state, worst

    def _multiply(self, shares: Array) -> None:
        plan, work = self.plan, shares.size
        share_cavities(
            shares,
            self.own,
            plan.state_ptr,
            *plan.by_variable,
            self.place,
            plan.variable_graph,
            self.moving,
            self.totals,
            work=work,
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
            self.slot_graph,
            self.moving,
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
