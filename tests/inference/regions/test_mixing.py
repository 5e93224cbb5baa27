"""Anderson's mixing: exact for linear iterations, and the same compiled and in plain torch."""

from __future__ import annotations

import math

import pytest
import torch

from hiddenfield.inference.regions.mixing import Mixing


def mix_in_torch(mixing: Mixing, tolerance: float, *arguments: torch.Tensor) -> torch.Tensor:
    slot, ready = mixing.steps % mixing.gram.shape[1], mixing.steps >= 1
    mixing.steps += 1
    return mixing._torch_mix(*arguments, tolerance, slot, ready)


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
def test_compiled_and_torch_agree(memory: int) -> None:
    """Graphs that settle, whose residual jumps, with entries of -inf; none smaller than the memory."""
    generator = torch.Generator().manual_seed(memory)
    owner = torch.repeat_interleave(torch.tensor([6, 0, 7, 5]))
    one, other = (Mixing(owner, 4, memory, torch.float64) for _ in range(2))
    residual = torch.tensor([1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for step in range(9):
        state, change = torch.randn(2, len(owner), generator=generator, dtype=torch.float64)
        state[4] = change[4] = -math.inf
        weight = torch.rand(len(owner), generator=generator, dtype=torch.float64)
        residual = residual * 0.5
        residual[2] = 4.0 if step == 5 else residual[2]
        residual[3] = 0.0 if step == 3 else residual[3].clamp(min=0.1)
        compiled = one(state, change, weight, residual, tolerance=1e-9)
        plain = mix_in_torch(other, 1e-9, state, change, weight, residual)
        torch.testing.assert_close(compiled, plain, atol=1e-8, rtol=1e-8)
        torch.testing.assert_close(one.filled, other.filled)
