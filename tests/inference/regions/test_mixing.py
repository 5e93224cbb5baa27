"""Anderson's mixing: exact for linear iterations, and that of every graph by itself."""

from __future__ import annotations

import math

import pytest
import torch

from hiddenfield.inference.regions.mixing import Mixing


class Reference:
    """Mixing of one graph by the normal equations, its past in a list: latest last."""

    def __init__(self, memory: int) -> None:
        self.memory, self.best, self.past = memory, math.inf, list[tuple[torch.Tensor, torch.Tensor]]()

    def __call__(
        self,
        state: torch.Tensor,
        change: torch.Tensor,
        weight: torch.Tensor,
        residual: float,
        tolerance: float,
    ) -> torch.Tensor:
        worse = residual > 3 * self.best
        self.best = residual if worse else min(self.best, residual)
        alive = state.isfinite()
        here = (state.masked_fill(~alive, 0), (change * weight.sqrt()).masked_fill(~alive, 0))
        self.past = [*([] if worse else self.past), here][-self.memory :]
        if residual <= tolerance:
            self.past = []
        if len(self.past) < 2:
            return state
        changes = torch.stack([change for _, change in self.past])
        share = torch.linalg.lstsq(
            changes @ changes.T, torch.ones(len(changes), 1, dtype=state.dtype)
        ).solution
        mixed = (share / share.sum()).T @ torch.stack([state for state, _ in self.past])
        return torch.where(alive, mixed[0], state)


def test_a_linear_iteration_is_solved_in_as_many_steps_as_it_has_numbers() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(5, 5, generator=generator, dtype=torch.float64) / 4
    right = torch.randn(5, generator=generator, dtype=torch.float64)
    solution = torch.linalg.solve(torch.eye(5, dtype=torch.float64) - matrix, right)
    mixing = Mixing(torch.zeros(5, dtype=torch.int64), 1, 6, torch.float64)
    state = torch.zeros(5, dtype=torch.float64)
    for _ in range(7):
        new = matrix @ state + right
        state = mixing(new, new - state, torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(state, solution, atol=1e-6, rtol=0)


@pytest.mark.parametrize("memory", [2, 4])
def test_graphs_are_mixed_by_themselves(memory: int) -> None:
    """Graphs that settle, whose residual jumps, with entries of -inf; none smaller than the memory."""
    generator = torch.Generator().manual_seed(memory)
    sizes = [6, 0, 7, 5]
    mixing = Mixing(torch.repeat_interleave(torch.tensor(sizes)), 4, memory, torch.float64)
    references = [Reference(memory) for _ in sizes]
    residual = torch.tensor([1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for step in range(9):
        state, change = torch.randn(2, sum(sizes), generator=generator, dtype=torch.float64)
        state[4] = change[4] = -math.inf
        weight = torch.rand(sum(sizes), generator=generator, dtype=torch.float64)
        residual = residual * 0.5
        residual[2] = 4.0 if step == 5 else residual[2]
        residual[3] = 0.0 if step == 3 else residual[3].clamp(min=0.1)
        parts = zip(*(each.split(sizes) for each in (state, change, weight)), residual.tolist(), strict=True)
        expected = [one(*part, 1e-9) for one, part in zip(references, parts, strict=True)]
        mixed = mixing(state, change, weight, residual, tolerance=1e-9)
        torch.testing.assert_close(mixed, torch.cat(expected), atol=1e-6, rtol=1e-6)
