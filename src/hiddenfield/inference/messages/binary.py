"""Parallel message passing on binary variables and pairs of them: one number a message."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.inference.messages.binary_loops import log_odds_sweep, odds_sweep
from hiddenfield.inference.messages.iteration import Iteration
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["BinaryMessages"]

LARGEST = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 650.0}
"""Logarithms of odds up to here can be multiplied and divided as odds."""

CERTAIN = {np.dtype(np.float32): 17.0, np.dtype(np.float64): 40.0}
"""Odds of this logarithm are as good as infinite to the floating type."""

STRONGEST = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 600.0}
"""Couplings up to here have an exponential that can be added to that of any message."""


class BinaryMessages(Iteration):
    """The parallel schedule where `fits`: odds as they are or their logarithms, whichever is safe."""

    def __init__(self, passing: MessagePassing, damping: float) -> None:
        self.plan, self.damping = MessagePlan(passing), damping
        self.passing = passing
        tables = passing.log_tables[0].expand(passing.field.num_factors, 2, 2).numpy(force=True)
        self.first = 0.5 * (tables[:, 1, 1] + tables[:, 1, 0] - tables[:, 0, 1] - tables[:, 0, 0])
        self.second = 0.5 * (tables[:, 1, 1] + tables[:, 0, 1] - tables[:, 1, 0] - tables[:, 0, 0])
        self.half = 0.5 * (tables[:, 1, 1] + tables[:, 0, 0] - tables[:, 1, 0] - tables[:, 0, 1])
        self.field = _pairs_of(passing).astype(tables.dtype)
        order, ptr = self.plan.by_variable
        self.order, self.ptr = order.astype(np.int32), ptr.astype(np.int32)
        plain = damping == 0 and not passing.maximise and bool((passing.port_weight == 1).all())
        self.as_odds = self.bounded = plain and self._make_bounded()
        if self.bounded:
            self.odds = np.exp(self.field), np.exp(self.first), np.exp(self.second)
        self.ratio = np.exp(-self.half) if not passing.maximise else self.half
        self.totals = np.empty(2 * self.half.size, tables.dtype)
        self.residual = np.empty(self.half.size, tables.dtype)

    @staticmethod
    def fits(passing: MessagePassing) -> bool:
        """Whether all factors are pairs of binary variables with finite, not too large tables."""
        groups = passing.field.groups
        if len(groups) != 1 or groups[0].states != (2, 2) or not groups[0].num_factors:
            return False
        tables = passing.log_tables[0]
        if not bool(tables.isfinite().all()) or bool(np.isnan(_pairs_of(passing)).any()):
            return False
        coupling = 0.5 * (tables[:, 1, 1] + tables[:, 0, 0] - tables[:, 1, 0] - tables[:, 0, 1])
        limit = (
            math.inf if passing.maximise else STRONGEST[np.dtype(str(tables.dtype).removeprefix("torch."))]
        )
        return float(coupling.abs().max()) <= limit

    def _make_bounded(self) -> bool:
        """Return whether no product of odds can overflow; replace infinite fields by ones that are large enough."""
        dtype = self.field.dtype
        coupling = np.abs(self.half)
        reach = np.concatenate([np.abs(self.first) + coupling, np.abs(self.second) + coupling])
        total = np.bincount(self.plan.port_variable, weights=reach, minlength=self.field.size)
        needed = total + (reach.max() + CERTAIN[dtype])
        self.reach = reach.astype(dtype)
        field = np.clip(self.field, -needed, needed, dtype=dtype)
        bound = np.max(np.abs(field) + total) + 2 * reach.max()
        if bound > LARGEST[dtype]:
            return False
        self.field = field
        return True

    def start(self, messages: Float[Tensor, " messages"]) -> Tensor:
        """Return a number a port: the odds of state 1, or their logarithm."""
        pairs = messages.detach().numpy(force=True).reshape(-1, 2)
        with np.errstate(invalid="ignore"):
            log_odds = np.nan_to_num(pairs[:, 1] - pairs[:, 0], nan=0.0, posinf=1e4, neginf=-1e4)
        # Messages that this field does not send itself, from elsewhere: products of them might overflow.
        self.as_odds = self.bounded and bool((np.abs(log_odds) <= self.reach).all())
        return torch.from_numpy(np.exp(log_odds) if self.as_odds else log_odds)

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return normalised log messages."""
        log_odds = state.log() if self.as_odds else state
        if self.passing.maximise:
            pairs = torch.stack([(-log_odds).clamp(max=0), log_odds.clamp(max=0)], 1)
        else:
            pairs = torch.nn.functional.logsigmoid(torch.stack([-log_odds, log_odds], 1))
        return pairs.reshape(-1)

    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message in place."""
        odds, work = state.numpy(), 2 * state.shape[0]
        shape = (self.order, self.ptr)
        if self.as_odds:
            field, *numbers = self.odds
            odds_sweep(odds, field, *shape, *numbers, self.ratio, self.totals, self.residual, work=work)
        else:
            weighted = (self.plan.port_weight, self.first, self.second, self.ratio, self.half)
            options = (self.passing.maximise, self.damping)
            log_odds_sweep(
                odds, self.field, *shape, *weighted, *options, self.totals, self.residual, work=work
            )
        return state, self.plan.by_graph(self.residual, self.plan.factor_graph)


def _pairs_of(passing: MessagePassing) -> Array:
    """Return the log odds of the unary potentials of binary variables; NaN where both states are impossible."""
    field = passing.field
    unary, begin = field.log_unary.numpy(force=True), field.state_ptr[:-1].numpy(force=True)
    binary = field.cardinalities.numpy(force=True) == 2
    out = np.zeros(begin.size, unary.dtype)
    with np.errstate(invalid="ignore"):
        out[binary] = unary[begin[binary] + 1] - unary[begin[binary]]
    return out
