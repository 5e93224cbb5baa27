"""Look at settled messages again: one more update of pairs, on the CPU, by code that no schedule runs.

Every update is a sum of exponentials of sums in log space, term by term, the largest apart: no exponentials of tables,
no products, no messages but those that are handed out. What the schedules do to be fast is not done here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from hiddenfield.inference.messages.free_energy import PairGroup, variable_beliefs
from hiddenfield.inference.messages.loops import largest_by_graph
from hiddenfield.inference.messages.passing import MessagePassing, change, largest, normalise_segments
from hiddenfield.ops import segment_max
from hiddenfield.ops.compile import as_array, compiled, prange, subroutine
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.ops.vector_math import fast_exp, fast_log, stack_numbers, unchecked
from hiddenfield.shapes import Array, Float, Tensor

BLOCK = 64
"""Factors at a time, side by side: state s of factor f is at ``s * BLOCK + f``, and loops over f run on vectors."""

MOST_STATES = 64
ROOM = BLOCK * MOST_STATES


def recheck(passing: MessagePassing, messages: Float[Tensor, " messages"]) -> Float[Tensor, " graphs"]:
    """Return for each graph the larger of the messages' residual and the beliefs' disagreement.

    See `MessagePassing.residual` and `disagreement`, which run on factors of more than two ports, and on other devices.
    """
    field = passing.field
    pairs = all(group.arity == 2 and max(group.states) <= MOST_STATES for group in field.groups)
    if not pairs or not use_compiled(
        messages, field.log_unary, *(group.log_tables for group in field.groups)
    ):
        updated = passing.update(messages)
        return torch.maximum(passing.residual(messages, updated), disagreement(passing, messages, updated))
    given = as_array(messages)
    totals, beliefs, _, _ = variable_beliefs(passing, messages, terms=False)
    worst, found = (np.zeros(count, given.dtype) for count in (field.num_graphs, field.num_factors))
    first, weight = 0, as_array(passing.port_weight)
    for number, group in enumerate(field.groups):
        last = first + group.num_factors
        here, of_group = weight[2 * first : 2 * last], passing.pair_group(number)
        recheck_pairs(given, totals, beliefs, of_group, here, found[first:last], work=given.size)
        first = last
    largest_by_graph(found, as_array(field.wiring.factor_graph), worst)
    return torch.from_numpy(worst)


def disagreement(
    passing: MessagePassing, messages: Float[Tensor, " messages"], updated: Float[Tensor, " messages"]
) -> Float[Tensor, " graphs"]:
    r"""Return for each graph the largest difference between a variable's belief and that of a factor about it.

    With :math:`\mu_p` what variable v sends to port p, :math:`\nu_p` the message from there and :math:`\nu_p'` its
    update, the belief of v is :math:`b_v \propto \mu_p \nu_p`, and the factor's belief, summed (or maximised) over its
    other ports, :math:`\mu_p \nu_p'`: no table is needed.

    A small change of messages does not imply a small difference. Where a message leaves a state 1e-7 and all
    others leave nothing but that state, the belief turns on what is within any tolerance of the message:

    .. math::

        \nu = (1 - 10^{-7},\ 10^{-7}), \quad \nu' = (1 - 10^{-9},\ 10^{-9}), \quad \mu \propto (10^{-8},\ 1)
        \quad\Rightarrow\quad b_v \approx (0.09,\ 0.91), \quad b_f \approx (0.91,\ 0.09).

    What is within the rounding of logarithms of their size counts as agreement. Linear in the messages.
    """
    field, ptr = passing.field, passing.field.wiring.port_ptr
    totals = passing.relative_totals(messages)
    here = totals[field.wiring.message_state]
    old, _ = normalise_segments(here, ptr, passing.maximise)
    new, _ = normalise_segments(
        passing.cavities(messages, totals) + torch.where(here == -math.inf, here, updated),
        ptr,
        passing.maximise,
    )
    apart = change(old, new)
    probability = torch.maximum(old, new).exp()
    size = torch.where(here == -math.inf, torch.zeros_like(here), here.abs())
    rounding = 8 * torch.finfo(here.dtype).eps * segment_max(probability * (1 + size), ptr)
    apart = torch.where(apart > rounding[field.wiring.message_port], apart, torch.zeros_like(apart))
    owner = field.wiring.port_graph[field.wiring.message_port]
    return largest(apart, owner, field.num_graphs)


@subroutine(allocates=False, fast=True)
def through_tables(
    tables: Array,
    states: int,
    others: int,
    stride: int,
    step: int,
    sent: Any,
    maximise: bool,
    like: Array,
    out: Any,
) -> None:
    """Write log sums of exp(table + sent), or maxima, over the other port; entry (s, t) is number s stride + t step."""
    dead, zero, one = like.dtype.type(-np.inf), like.dtype.type(0), like.dtype.type(1)
    top, total, entries = stack_numbers(like, BLOCK), stack_numbers(like, BLOCK), unchecked(tables)
    for state in range(states):
        for factor in range(BLOCK):
            top[factor] = dead
            total[factor] = zero
        for other in range(others):
            at = (state * stride + other * step) * BLOCK
            for factor in range(BLOCK):
                value = entries[at + factor] + sent[other * BLOCK + factor]
                top[factor] = value if value > top[factor] else top[factor]
        for factor in range(BLOCK):
            top[factor] = top[factor] if top[factor] > dead else zero
        for other in range(others):
            at = (state * stride + other * step) * BLOCK
            for factor in range(BLOCK):
                total[factor] += fast_exp(entries[at + factor] + sent[other * BLOCK + factor] - top[factor])
        for factor in range(BLOCK):
            # Where maximising: the largest term is 1, or there is none.
            terms = min(total[factor], one) if maximise else total[factor]
            out[state * BLOCK + factor] = top[factor] + fast_log(terms)


@subroutine(allocates=False, fast=True)
def normalised(logs: Any, states: int, maximise: bool, like: Array) -> None:
    """Subtract the logarithm of the sum, or the largest; -inf alone stays."""
    dead, zero, one = like.dtype.type(-np.inf), like.dtype.type(0), like.dtype.type(1)
    top, total = stack_numbers(like, BLOCK), stack_numbers(like, BLOCK)
    for factor in range(BLOCK):
        top[factor] = dead
        total[factor] = zero
    for state in range(states):
        for factor in range(BLOCK):
            value = logs[state * BLOCK + factor]
            top[factor] = value if value > top[factor] else top[factor]
    for factor in range(BLOCK):
        top[factor] = top[factor] if top[factor] > dead else zero
    for state in range(states):
        for factor in range(BLOCK):
            total[factor] += fast_exp(logs[state * BLOCK + factor] - top[factor])
    for factor in range(BLOCK):
        terms = one if maximise or total[factor] == zero else total[factor]
        top[factor] += fast_log(terms)
    for state in range(states):
        for factor in range(BLOCK):
            logs[state * BLOCK + factor] -= top[factor]


@subroutine(allocates=False, fast=True)
def changes(
    new: Any,
    old: Any,
    totals: Any,
    beliefs: Any,
    repeats: Any,
    states: int,
    maximise: bool,
    like: Array,
    worst: Any,
) -> None:
    """Raise `worst` to the largest change of a message and the largest disagreement about a belief."""
    dead, zero, one = like.dtype.type(-np.inf), like.dtype.type(0), like.dtype.type(1)
    rounding = like.dtype.type(8 * np.finfo(like.dtype).eps)
    apart, least = stack_numbers(like, BLOCK), stack_numbers(like, BLOCK)
    normalised(new, states, maximise, like)
    for state in range(states):
        at = state * BLOCK
        for factor in range(BLOCK):
            moved = abs(fast_exp(new[at + factor]) - fast_exp(old[at + factor]))
            moved = moved * repeats[factor] if moved > rounding else moved
            # The exponential of what is not a number is 0.
            moved = moved if old[at + factor] == old[at + factor] else old[at + factor]
            worst[factor] = moved if moved > worst[factor] or moved != moved else worst[factor]
    # What a factor believes of its variable: what the variable sends, times the new message.
    for place in range(states * BLOCK):
        belief = beliefs[place]
        new[place] = belief - old[place] + new[place] if belief != dead else dead
    normalised(new, states, maximise, like)
    for factor in range(BLOCK):
        apart[factor] = zero
        least[factor] = zero
    for state in range(states):
        at = state * BLOCK
        for factor in range(BLOCK):
            theirs, own = fast_exp(new[at + factor]), fast_exp(beliefs[at + factor])
            difference = abs(theirs - own)
            difference = difference if beliefs[at + factor] == beliefs[at + factor] else beliefs[at + factor]
            larger = difference > apart[factor] or difference != difference
            apart[factor] = difference if larger else apart[factor]
            total = totals[at + factor]
            size = max(theirs, own) * (one + (abs(total) if total != dead else zero))
            least[factor] = size if size > least[factor] else least[factor]
    for factor in range(BLOCK):
        matters = apart[factor] > rounding * least[factor] and apart[factor] > worst[factor]
        worst[factor] = apart[factor] if matters or apart[factor] != apart[factor] else worst[factor]


@compiled(fast=True)
def recheck_pairs(
    messages: Array, totals: Array, beliefs: Array, group: PairGroup, weight: Array, out: Array
) -> None:
    """Update all messages of a group of pairs once more; write the largest change at each factor."""
    factors, rows, columns = out.size, group.states[0], group.states[1]
    zero, one, dead = messages.dtype.type(0), messages.dtype.type(1), messages.dtype.type(-np.inf)
    given, whole, believed = unchecked(messages), unchecked(totals), unchecked(beliefs)
    for part in prange((factors + BLOCK - 1) // BLOCK):
        first, count = part * BLOCK, min(BLOCK, factors - part * BLOCK)
        entries = np.zeros(rows * columns * BLOCK, messages.dtype)
        for factor in range(count):
            at = group.row[first + factor] * rows * columns
            for entry in range(rows * columns):
                entries[entry * BLOCK + factor] = group.tables[at + entry]
        old, total = stack_numbers(messages, ROOM), stack_numbers(messages, ROOM)
        belief, sent, new = (
            stack_numbers(messages, ROOM),
            stack_numbers(messages, ROOM),
            stack_numbers(messages, ROOM),
        )
        repeats, worst = stack_numbers(messages, BLOCK), stack_numbers(messages, BLOCK)
        for place in range(max(rows, columns) * BLOCK):
            old[place] = zero
            total[place] = zero
            belief[place] = zero
            sent[place] = zero
        for factor in range(BLOCK):
            worst[factor] = zero
            repeats[factor] = one
        for side in range(2):
            states, others = group.states[side], group.states[1 - side]
            for factor in range(count):
                number = first + factor
                repeats[factor] = max(weight[side * factors + number], one)
                at, begin = group.begin[side] + number * states, group.state_ptr[group.scopes[number, side]]
                for state in range(states):
                    old[state * BLOCK + factor] = given[at + state]
                    total[state * BLOCK + factor] = whole[begin + state]
                    belief[state * BLOCK + factor] = believed[begin + state]
                at, begin = (
                    group.begin[1 - side] + number * others,
                    group.state_ptr[group.scopes[number, 1 - side]],
                )
                for state in range(others):
                    value = whole[begin + state]
                    sent[state * BLOCK + factor] = value - given[at + state] if value != dead else dead
            stride, step = (columns, 1) if side == 0 else (1, columns)
            through_tables(entries, states, others, stride, step, sent, group.maximise, messages, new)
            changes(new, old, total, belief, repeats, states, group.maximise, messages, worst)
        for factor in range(count):
            out[first + factor] = worst[factor]
