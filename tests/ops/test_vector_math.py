"""exp and log as polynomials: as exact as the C library's, also at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from hiddenfield.ops.compile import compiled
from hiddenfield.ops.vector_math import fast_exp, fast_log, stack_numbers, unchecked


@compiled(fast=True)
def exponentials(values, out):
    for place in range(values.size):
        out[place] = fast_exp(values[place])


@compiled(fast=True)
def logarithms(values, out):
    for place in range(values.size):
        out[place] = fast_log(values[place])


@compiled(fast=True)
def reversed_by_stack(values, out):
    room, given = stack_numbers(values, 8), unchecked(values)
    for place in range(8):
        room[place] = given[place]
    for place in range(8):
        out[place] = room[7 - place]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("plain", [False, True])
def test_to_two_units_in_the_last_place(dtype, plain):
    generator = np.random.default_rng(0)
    largest = 85 if dtype == np.float32 else 700
    count = 50 if plain else 20_000
    values = np.concatenate([generator.uniform(-largest, largest, count), generator.uniform(-1, 1, count)])
    values = values.astype(dtype)
    out = np.empty_like(values)
    (exponentials.function if plain else exponentials)(values, out)
    np.testing.assert_allclose(out, np.exp(values.astype(np.longdouble)), rtol=2 * np.finfo(dtype).eps)
    positive = np.exp(values)
    (logarithms.function if plain else logarithms)(positive, out)
    np.testing.assert_allclose(
        out, np.log(positive.astype(np.longdouble)), rtol=2 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends(dtype):
    out = np.empty(3, dtype)
    exponentials(np.array([-np.inf, -1e4, 0], dtype), out)
    assert out.tolist() == [0, 0, 1]
    logarithms(np.array([0, 1, np.finfo(dtype).tiny], dtype), out)
    assert out[:2].tolist() == [-np.inf, 0]
    assert out[2] == pytest.approx(np.log(np.finfo(dtype).tiny), rel=1e-6)


def test_room_on_the_stack():
    for run in (reversed_by_stack, reversed_by_stack.function):
        out = np.zeros(8)
        run(np.arange(8.0), out)
        assert out.tolist() == list(range(7, -1, -1))
