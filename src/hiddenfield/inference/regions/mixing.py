"""Anderson's acceleration of a fixed-point iteration, graph by graph."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.ops import segment_sum
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array, Float, Int, Tensor


class Mixing:
    r"""The past of an iteration, and the affine combination of past states whose combined change is smallest.

    With states :math:`g_i` that came about by changes :math:`f_i`, it is :math:`\sum_i \alpha_i g_i` with
    :math:`\alpha = \arg\min \lVert \sum_i \alpha_i f_i \rVert` under :math:`\sum_i \alpha_i = 1`, for each graph by
    itself: the solution of :math:`G y = 1`, normalised, where G holds the inner products of the changes.

    Parameters
    ----------
    owner
        The graph of each number; numbers of one graph are contiguous.
    graphs
        Number of graphs.
    memory
        Past states that are kept.
    dtype
        Of the states.

    Notes
    -----
    A step costs `memory` times the numbers. On the CPU it is a compiled loop: with plain torch, `double_loop` on a
    10 x 10 grid takes 2.2 times as long.

    References
    ----------
    Anderson (1965), Iterative procedures for nonlinear integral equations.
    """

    def __init__(self, owner: Int[Tensor, " numbers"], graphs: int, memory: int, dtype: torch.dtype) -> None:
        self.owner = owner
        count = torch.bincount(owner, minlength=graphs)
        self.ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
        options: dict[str, Any] = {"dtype": dtype, "device": owner.device}
        self.states = torch.zeros(len(owner), memory, **options)
        self.changes = torch.zeros(len(owner), memory, **options)
        self.gram = torch.zeros(graphs, memory, memory, **options)
        self.filled = torch.zeros(graphs, dtype=torch.int64, device=owner.device)
        self.best = torch.full((graphs,), math.inf, **options)
        self.ridge = 1e-10 if dtype == torch.float64 else 1e-6
        self.steps = 0

    def forget(self) -> None:
        """Forget the past."""
        self.filled.zero_()
        self.best.fill_(math.inf)
        self.steps = 0

    @torch.no_grad()
    def __call__(
        self,
        state: Float[Tensor, " numbers"],
        change: Tensor,
        weight: Tensor,
        residual: Float[Tensor, " graphs"] | None = None,
        *,
        tolerance: float = 0.0,
        begin: int = 1,
    ) -> Float[Tensor, " numbers"]:
        """Remember a state and how it came about; return the mixture, and before step `begin` the state itself.

        `weight` is what each number counts for in the norm: logarithms of tiny probabilities would drown the others.
        Entries of -inf stay. With a `residual`, graphs that have settled keep their state, and one whose residual is
        three times its best forgets its past.
        """
        residual = torch.ones_like(self.best) if residual is None else residual
        slot, ready = self.steps % self.gram.shape[1], self.steps >= max(begin, 1)
        self.steps += 1
        if not state.is_cpu:
            return self._torch_mix(state, change, weight, residual, tolerance, slot, ready)
        out = torch.empty_like(state)
        arrays = [tensor.detach().numpy() for tensor in (state, change, weight, residual, out)]
        _mix(tolerance, self.ridge, slot, ready, self._past, *arrays, work=self.states.numel())
        return out

    @cached_property
    def _past(self) -> tuple[Array, ...]:
        kept = (self.ptr, self.best, self.filled, self.states, self.changes, self.gram)
        return tuple(tensor.numpy() for tensor in kept)

    def _torch_mix(
        self,
        state: Tensor,
        change: Tensor,
        weight: Tensor,
        residual: Tensor,
        tolerance: float,
        slot: int,
        ready: bool,
    ) -> Tensor:
        settled, worse = residual <= tolerance, residual > 3 * self.best
        self.best.copy_(torch.where(worse, residual, torch.minimum(self.best, residual)))
        alive = state.isfinite()
        self.states[:, slot] = state.masked_fill(~alive, 0)
        self.changes[:, slot] = (change * weight.sqrt()).masked_fill(~(alive & change.isfinite()), 0)
        products = segment_sum(self.changes * self.changes[:, slot, None], self.ptr)
        self.gram[:, slot] = self.gram[:, :, slot] = products
        self.filled.copy_((self.filled.masked_fill(worse, 0) + 1).masked_fill(settled, 0))
        self.filled.clamp_(max=self.gram.shape[1])
        if not ready:
            return state
        mixed = (self.states * self._shares(slot)[self.owner]).sum(1)
        return torch.where(alive & ~settled[self.owner], mixed, state)

    def _shares(self, latest: int) -> Float[Tensor, "graphs memory"]:
        """Return what each slot counts for; the latest alone where the system has no good solution."""
        memory = self.gram.shape[1]
        slots = torch.arange(memory, device=self.gram.device)
        known = (latest - slots) % memory < self.filled[:, None]
        scale = torch.where(known, self.gram.diagonal(dim1=1, dim2=2).sqrt(), 1)
        inverse = torch.where(known & (scale > 0), 1 / scale, 0)
        # Scaled to a unit diagonal, with a small ridge.
        identity = torch.eye(memory, dtype=scale.dtype, device=scale.device)
        system = self.gram * inverse[:, :, None] * inverse[:, None, :] + self.ridge * identity
        right = (inverse / inverse.amax(1, keepdim=True))[:, :, None]
        share = torch.linalg.solve_ex(system, right).result[:, :, 0] * inverse
        total = share.sum(1, keepdim=True)
        good = (scale.amin(1, keepdim=True) > 0) & (total.abs() > 1e-6 * share.abs().sum(1, keepdim=True))
        share = share / total
        good = good & share.isfinite().all(1, keepdim=True)
        return torch.where(good, share, (slots == latest).to(share.dtype))


@compiled(fast=True)
def _mix(
    tolerance: float,
    ridge: float,
    slot: int,
    ready: bool,
    past: tuple[Array, ...],
    state: Array,
    change: Array,
    weight: Array,
    residual: Array,
    out: Array,
) -> None:
    ptr, best, filled, states, changes, gram = past
    memory = gram.shape[1]
    for graph in prange(ptr.size - 1):
        low, high = ptr[graph], ptr[graph + 1]
        row = np.zeros(memory)
        worse = residual[graph] > 3.0 * best[graph]
        best[graph] = residual[graph] if worse else min(best[graph], residual[graph])
        count = 1 if worse else min(filled[graph] + 1, memory)
        filled[graph] = count if residual[graph] > tolerance else 0
        for k in range(low, high):
            out[k] = state[k]
            alive = abs(state[k]) < math.inf
            states[k, slot] = state[k] if alive else 0.0
            here = change[k] * math.sqrt(weight[k]) if alive and abs(change[k]) < math.inf else 0.0
            changes[k, slot] = here
            for j in range(memory):
                row[j] += here * changes[k, j]
        for j in range(memory):
            gram[graph, slot, j] = gram[graph, j, slot] = row[j]
        if ready and filled[graph] > 1 and _solve(gram[graph], slot, filled[graph], ridge, row):
            for k in range(low, high):
                total = 0.0
                for j in range(memory):
                    total += row[j] * states[k, j]
                out[k] = total if abs(state[k]) < math.inf else state[k]


@subroutine(fast=True)
def _solve(gram: Array, latest: int, filled: int, ridge: float, share: Array) -> bool:
    """Write what each slot counts for; return whether the system has a good solution."""
    memory = share.size
    system, right, scale = np.empty((filled, filled)), np.empty(filled), np.empty(filled)
    for i in range(filled):
        here = (latest - i) % memory
        scale[i] = 1.0 / math.sqrt(gram[here, here]) if 0.0 < gram[here, here] < math.inf else 0.0
    if scale.min() == 0.0:
        return False
    for i in range(filled):
        for j in range(filled):
            system[i, j] = gram[(latest - i) % memory, (latest - j) % memory] * scale[i] * scale[j]
        system[i, i] += ridge
        right[i] = scale[i] / scale.max()
    for i in range(filled):
        for j in range(i + 1, filled):
            ratio = system[j, i] / system[i, i]
            for k in range(i, filled):
                system[j, k] -= ratio * system[i, k]
            right[j] -= ratio * right[i]
    share[:] = 0.0
    total, size = 0.0, 0.0
    for i in range(filled - 1, -1, -1):
        for j in range(i + 1, filled):
            right[i] -= system[i, j] * right[j]
        right[i] /= system[i, i]
        share[(latest - i) % memory] = right[i] * scale[i]
        total += right[i] * scale[i]
        size += abs(right[i] * scale[i])
    share /= total
    return 1e-6 * size < abs(total) < math.inf
