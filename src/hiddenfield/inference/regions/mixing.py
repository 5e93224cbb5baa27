"""Anderson's acceleration of a fixed-point iteration, graph by graph."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.ops.compile import as_array, compiled, prange, subroutine
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
    A step costs `memory` times the numbers. It is a compiled loop in host memory, also where
    the states come from a GPU: in plain torch, `double_loop` on a 10 x 10 grid takes 2.2 times as long.

    References
    ----------
    Anderson (1965), Iterative procedures for nonlinear integral equations.
    """

    def __init__(self, owner: Int[Tensor, " numbers"], graphs: int, memory: int, dtype: torch.dtype) -> None:
        kind = torch.empty(0, dtype=dtype).numpy().dtype
        self.ptr = as_array(
            torch.cat([owner.new_zeros(1), torch.bincount(owner, minlength=graphs).cumsum(0)])
        )
        self.states, self.changes = np.zeros((2, len(owner), memory), kind)
        self.gram = np.zeros((graphs, memory, memory), kind)
        self.filled, self.best = np.zeros(graphs, np.int64), np.full(graphs, math.inf, kind)
        self.ridge = 1e-10 if dtype == torch.float64 else 1e-6
        self.steps = 0

    def forget(self) -> None:
        """Forget the past."""
        self.filled[:], self.best[:] = 0, math.inf
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
        slot, ready = self.steps % self.gram.shape[1], self.steps >= max(begin, 1)
        self.steps += 1
        worst = np.ones_like(self.best) if residual is None else as_array(residual)
        past = (self.ptr, self.best, self.filled, self.states, self.changes, self.gram)
        given, out = map(as_array, (state, change, weight)), np.empty_like(as_array(state))
        _mix(tolerance, self.ridge, slot, ready, past, *given, worst, out, work=self.states.size)
        return torch.from_numpy(out).to(state.device)


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
