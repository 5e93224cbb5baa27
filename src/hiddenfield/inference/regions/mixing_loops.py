"""Anderson's acceleration of a fixed-point iteration as subroutines of kernels; `region_mixing` has it in torch."""

from __future__ import annotations

import math

from hiddenfield.ops.compile import subroutine

__all__ = ["accumulate", "clear", "dot", "remember", "shares"]


@subroutine(allocates=False)
def remember(messages, state, change):  # type: ignore[no-untyped-def]
    """Keep a state and how it came about; dead entries as zeros, which no mixture changes."""
    for k in range(messages.size):
        alive = messages[k] > -math.inf
        change[k] = messages[k] - change[k] if alive else 0.0
        state[k] = messages[k] if alive else 0.0


@subroutine(allocates=False, fast=True)
def dot(one, other):  # type: ignore[no-untyped-def]
    """Return the inner product, in four sums that run side by side."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    quarter = one.size // 4
    for k in range(quarter):
        s0 += one[4 * k] * other[4 * k]
        s1 += one[4 * k + 1] * other[4 * k + 1]
        s2 += one[4 * k + 2] * other[4 * k + 2]
        s3 += one[4 * k + 3] * other[4 * k + 3]
    for k in range(4 * quarter, one.size):
        s0 += one[k] * other[k]
    return s0 + s1 + s2 + s3


@subroutine(allocates=False)
def clear(messages):  # type: ignore[no-untyped-def]
    """Set what is not dead to zero."""
    for k in range(messages.size):
        if messages[k] > -math.inf:
            messages[k] = 0.0


@subroutine(allocates=False, fast=True)
def accumulate(messages, state, share):  # type: ignore[no-untyped-def]
    """Add a share of a state."""
    for k in range(messages.size):
        messages[k] += share * state[k]


@subroutine(allocates=False)
def shares(gram, number, filled, system, right, mixture):  # type: ignore[no-untyped-def]
    """Find the affine combination of past states whose combined change is smallest (Anderson 1965).

    The shares minimise ``|sum of shares * changes|`` under a sum of 1: the solution of ``gram y = 1``, normalised. Gram
    is scaled to a unit diagonal, with a small ridge. Returns whether there is one.
    """
    memory = gram.shape[0]
    if filled < 2:
        return False
    smallest = math.inf
    for i in range(filled):
        value = gram[(number - i) % memory, (number - i) % memory]
        if not 0.0 < value < math.inf:
            return False
        mixture[i] = 1.0 / math.sqrt(value)
        smallest = min(smallest, mixture[i])
    for i in range(filled):
        for j in range(filled):
            value = gram[(number - i) % memory, (number - j) % memory]
            system[i, j] = value * mixture[i] * mixture[j]
        system[i, i] += 1e-10
        right[i] = mixture[i] / smallest
    for i in range(filled):
        for j in range(i + 1, filled):
            ratio = system[j, i] / system[i, i]
            for k in range(i, filled):
                system[j, k] -= ratio * system[i, k]
            right[j] -= ratio * right[i]
    total = 0.0
    size = 0.0
    for back in range(filled):
        i = filled - 1 - back
        for j in range(i + 1, filled):
            right[i] -= system[i, j] * right[j]
        right[i] /= system[i, i]
    for i in range(filled):
        mixture[i] *= right[i]
        total += mixture[i]
        size += abs(mixture[i])
    if not abs(total) > 1e-6 * size:
        return False
    for i in range(filled):
        mixture[i] /= total
    return True
