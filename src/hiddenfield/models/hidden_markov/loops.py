r"""Compiled loops over packed trees: expected counts, most likely states, draws.

A sequence is a tree whose nodes have one child each, and runs at the speed of a loop written for sequences. The general
engine (`hiddenfield.inference.exact`) gives the same numbers, but builds a field and keeps every table: it took 50
times as long (`benchmarks/hidden_markov.py`).

Messages go up and then down. With :math:`e_i(s)` the likelihood of what was observed at node i in state s, and
A the transitions from parent to child,

.. math::

    b_i(s) = e_i(s) \prod_{c \text{ child of } i} m_c(s), \qquad m_i(s) = \sum_t A_{st}\, b_i(t), \qquad
    p(z_i = t \mid x) = b_i(t) \sum_s A_{st}\, \frac{p(z_{p(i)} = s \mid x)}{m_i(s)}.

`expected_counts` works with numbers scaled at each node. Where something that may matter could underflow, it says so,
and the same is done in log space, at several times the cost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.vector_math import unchecked
from hiddenfield.shapes import Array

SMALLEST = 1e-200
"""What is smaller than this, relative to the largest, may have lost digits when it is multiplied on."""


LANES = 4
"""States summed side by side; rows of all arrays of `expected_counts` are padded with zeros to a multiple of it."""


@subroutine(allocates=False, fast=True)
def multiply(vector: Any, begin: int, matrix: Any, states: int, width: int, out: Any) -> None:
    """Write a row vector times a matrix, with sums in registers: 1.6 times as fast as row by row."""
    for s in range(0, width, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for t in range(states):
            value, at = vector[begin + t], t * width + s
            a += matrix[at] * value
            b += matrix[at + 1] * value
            c += matrix[at + 2] * value
            d += matrix[at + 3] * value
        out[s], out[s + 1], out[s + 2], out[s + 3] = a, b, c, d


@compiled(fast=True)
def expected_counts(
    structure_ptr: Array,
    parent: Array,
    chunk_ptr: Array,
    row: Array,
    likelihood: Array,
    log_scale: Array,
    safe: Array,
    transitions: Array,
    transposed: Array,
    initial: Array,
    weights: Array,
    place: Array,
    room: Array,
    moves: Array,
    occupancy: Array,
    first: Array,
    log_likelihood: Array,
) -> None:
    """Add up expected counts chunk by chunk; a structure for which the scale is not safe gets NaN and adds nothing.

    `likelihood` has a row for each distinct observation, divided by the exponential of its `log_scale`. The posterior
    of node i is added to ``occupancy[place[i]]``; ``moves[chunk]`` must be multiplied by the transitions in the end.
    `room` has a row for each chunk: of two rows of states for each node of the longest tree, and three more.
    """
    states, width = transitions.shape
    given, law = unchecked(likelihood), unchecked(initial)
    down, up_table, gained = unchecked(transitions), unchecked(transposed), unchecked(occupancy)
    for chunk in prange(chunk_ptr.size - 1):
        # Room comes in from outside: what is made here is freed while only its address is in use.
        size = (room.shape[1] - 3 * width) // 2
        below, message = unchecked(room[chunk, :size]), unchecked(room[chunk, size : 2 * size])
        rest = 2 * size
        sums, share = unchecked(room[chunk, rest:]), unchecked(room[chunk, rest + width :])
        copy = unchecked(room[chunk, rest + 2 * width :])
        moved, started = unchecked(moves[chunk]), unchecked(first[chunk])
        for n in range(chunk_ptr[chunk], chunk_ptr[chunk + 1]):
            begin, end = structure_ptr[n], structure_ptr[n + 1]
            total, scale, sure = 0.0, 1.0, True
            for i in range(begin, end):
                total += log_scale[row[i]]
                sure = sure and safe[row[i]]
                for s in range(width):
                    below[(i - begin) * width + s] = given[row[i] * width + s]
            for i in range(end - 1, begin - 1, -1):
                own, up, mass = (i - begin) * width, parent[i], 0.0
                if up < 0:
                    for s in range(states):
                        below[own + s] *= law[s]
                        mass += below[own + s]
                    for s in range(states):
                        below[own + s] /= mass
                else:
                    multiply(below, own, up_table, states, width, sums)
                    for s in range(states):
                        mass += sums[s]
                    inverse, target = 1 / mass, (up - begin) * width
                    for s in range(width):
                        sums[s] *= inverse
                    for s in range(width):
                        message[own + s] = sums[s]
                    for s in range(width):
                        below[own + s] *= inverse
                    left, lost = 0.0, 0
                    for s in range(width):
                        before = below[target + s]
                        value = before * sums[s]
                        # Where one factor is 0 nothing is lost.
                        lost += 1 if value <= SMALLEST and before > 0 and sums[s] > 0 else 0
                        left += value
                        below[target + s] = value
                    sure = sure and lost == 0
                    if left < 1e-50:
                        for s in range(width):
                            below[target + s] /= left
                        scale *= left
                sure = sure and mass > SMALLEST
                scale *= mass
                if not (1e-200 < scale < 1e200):
                    total += math.log(scale)
                    scale = 1.0
            if not sure:
                log_likelihood[n] = np.nan
                continue
            log_likelihood[n] = total + math.log(scale)
            for i in range(begin, end):
                own, up, at = (i - begin) * width, parent[i], place[i] * width
                if up < 0:
                    for s in range(width):
                        copy[s] = below[own + s] * weights[n]
                    for s in range(width):
                        started[s] += copy[s]
                else:
                    above = (up - begin) * width
                    for s in range(width):
                        out = message[own + s]
                        share[s] = below[above + s] / out if out > 0 else 0.0
                    multiply(share, 0, down, states, width, sums)
                    for t in range(width):
                        copy[t] = below[own + t]
                    for s in range(states):
                        value = share[s]
                        for t in range(width):
                            moved[s * width + t] += value * copy[t]
                    for t in range(width):
                        copy[t] *= sums[t]
                for t in range(width):
                    below[own + t] = copy[t]
                for t in range(width):
                    gained[at + t] += copy[t]


@subroutine(allocates=False)
def log_sum(values: Any, maximum: bool) -> float:
    """Return the logarithm of the sum of exponentials, or the largest value."""
    top = -math.inf
    for s in range(values.size):
        top = max(top, values[s])
    if maximum or top == -math.inf:
        return top
    total = 0.0
    for s in range(values.size):
        total += math.exp(values[s] - top)
    return top + math.log(total)


@compiled
def log_messages(
    structure_ptr: Array,
    parent: Array,
    log_transitions: Array,
    log_initial: Array,
    maximum: bool,
    below: Array,
    message: Array,
    result: Array,
) -> None:
    """Send messages up in log space; `below` comes in as log-likelihoods of nodes and leaves with those below them."""
    states = log_initial.size
    for n in prange(structure_ptr.size - 1):
        terms = np.empty(states)
        result[n] = 0.0
        for i in range(structure_ptr[n + 1] - 1, structure_ptr[n] - 1, -1):
            up = parent[i]
            if up < 0:
                for s in range(states):
                    terms[s] = log_initial[s] + below[i, s]
                result[n] += log_sum(terms, maximum)
                continue
            for s in range(states):
                for t in range(states):
                    terms[t] = log_transitions[s, t] + below[i, t]
                message[i, s] = log_sum(terms, maximum)
                below[up, s] += message[i, s]


@compiled
def log_counts(
    structure_ptr: Array,
    parent: Array,
    log_transitions: Array,
    log_initial: Array,
    below: Array,
    message: Array,
    result: Array,
    posterior: Array,
    moves: Array,
) -> None:
    """Go down in log space: the posterior of every node, and the expected moves of each structure that is possible."""
    states = log_initial.size
    for n in prange(structure_ptr.size - 1):
        if result[n] == -math.inf:
            continue
        terms = np.empty(states)
        for i in range(structure_ptr[n], structure_ptr[n + 1]):
            up = parent[i]
            for t in range(states):
                terms[t] = log_initial[t] + below[i, t]
            if up < 0:
                total = log_sum(terms, False)
                for t in range(states):
                    posterior[i, t] = math.exp(terms[t] - total)
                continue
            for s in range(states):
                if posterior[up, s] == 0 or message[i, s] == -math.inf:
                    continue
                for t in range(states):
                    move = posterior[up, s] * math.exp(log_transitions[s, t] + below[i, t] - message[i, s])
                    moves[n, s, t] += move
                    posterior[i, t] += move


@subroutine(allocates=False)
def choose(terms: Any, uniform: float) -> int:
    """Return the first of the largest log probabilities, or where `uniform` is not negative a state drawn by it."""
    best = 0
    for t in range(1, terms.size):
        if terms[t] > terms[best]:
            best = t
    if uniform >= 0:
        left = uniform * math.exp(log_sum(terms, False) - terms[best])
        for t in range(terms.size):
            left -= math.exp(terms[t] - terms[best])
            if left < 0:
                return t
    return best


@compiled
def choose_states(
    structure_ptr: Array,
    parent: Array,
    child_ptr: Array,
    children: Array,
    log_transitions: Array,
    log_initial: Array,
    below: Array,
    uniform: Array,
    states: Array,
) -> None:
    """Go down and choose every state given its parent's, as `choose` does by the node's uniform number.

    Children that are named are given as they are: with all of them it is one sweep of Gibbs sampling.
    """
    count = log_initial.size
    for n in prange(structure_ptr.size - 1):
        terms = np.empty(count)
        for i in range(structure_ptr[n], structure_ptr[n + 1]):
            up = parent[i]
            for t in range(count):
                terms[t] = log_initial[t] if up < 0 else log_transitions[states[up], t]
                terms[t] += below[i, t]
                for c in range(child_ptr[i], child_ptr[i + 1]):
                    terms[t] += log_transitions[t, states[children[c]]]
            states[i] = choose(terms, uniform[i])
