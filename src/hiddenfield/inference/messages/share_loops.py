r"""Compiled loops for fields of pairwise factors of one shape, on messages as they are: neither exp nor log.

A message of K states is kept as K times its probabilities. Where all entries of a factor's table lie within a factor
:math:`e^{s_f}` of each other, so do the numbers of its messages, and all lie between :math:`e^{-s_f}` and
:math:`e^{s_f}`: products of the messages to a variable can be bounded before any is sent. Where the bound leaves them
far from underflow and overflow, what a variable sends is the product of all but one; elsewhere `pairwise_loops`
does the same on logarithms. The layout is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.inference.messages.pairwise_loops import LANES, MOST_STATES, ROOM
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.lane_product import lane_products
from hiddenfield.ops.vector_math import fast_exp, fast_log, stack_numbers, unchecked
from hiddenfield.shapes import Array

__all__ = ["bound_products", "log_messages", "share_cavities", "share_sweep", "shares_of"]


@compiled(fast=True)
def bound_products(
    log_unary: Array,
    state_ptr: Array,
    variable_port: Array,
    variable_ptr: Array,
    port_factor: Array,
    span: Array,
    own: Array,
    bound: Array,
) -> None:
    """Write each variable's potential divided by its largest, and a bound on logarithms of products of messages to it.

    `span` is the range of each factor's log table. The bound is infinite where a variable has no possible state,
    or a potential that is not a number.
    """
    dead = log_unary.dtype.type(-np.inf)
    given, out = unchecked(log_unary), unchecked(own)
    for variable in prange(state_ptr.size - 1):
        begin, end = state_ptr[variable], state_ptr[variable + 1]
        low, top = -dead, dead
        for state in range(begin, end):
            value = given[state]
            # What is not a number stays: nothing is larger.
            top = value if value > top or value != value else top
            low = value if dead < value < low else low
        reach = top - low if top > dead else -dead
        for place in range(variable_ptr[variable], variable_ptr[variable + 1]):
            reach += span[port_factor[variable_port[place]]]
        bound[variable] = reach
        for state in range(begin, end):
            out[state] = fast_exp(given[state] - top)


@compiled(fast=True)
def shares_of(messages: Array, port_ptr: Array, place: Array, shares: Array, excess: Array) -> None:
    """Lay K times the probabilities of log messages out in blocks; write the largest logarithm of each port's."""
    given, numbers = unchecked(messages), unchecked(shares)
    for port in prange(place.size):
        begin, at = port_ptr[port], place[port]
        states = port_ptr[port + 1] - begin
        count = messages.dtype.type(states)
        shift, worst = fast_log(count), messages.dtype.type(0)
        for state in range(states):
            value = abs(given[begin + state] + shift)
            worst = worst if value <= worst else value
            numbers[at + state * LANES] = fast_exp(given[begin + state]) * count
        excess[port] = worst


@compiled(fast=True)
def log_messages(shares: Array, port_ptr: Array, place: Array, messages: Array) -> None:
    """Write normalised log messages in the order of ports."""
    numbers, out, chunk = unchecked(shares), unchecked(messages), 256
    for part in prange((place.size + chunk - 1) // chunk):
        first, last = part * chunk, min((part + 1) * chunk, place.size)
        for port in range(first, last):
            begin, at = port_ptr[port], place[port]
            states = port_ptr[port + 1] - begin
            inverse = messages.dtype.type(1) / messages.dtype.type(states)
            for state in range(states):
                out[begin + state] = numbers[at + state * LANES] * inverse
        for entry in range(port_ptr[first], port_ptr[last]):
            out[entry] = fast_log(out[entry])


@compiled(fast=True)
def share_cavities(
    shares: Array,
    own: Array,
    state_ptr: Array,
    variable_port: Array,
    variable_ptr: Array,
    port_place: Array,
    variable_graph: Array,
    moving: Array,
    sent: Array,
) -> None:
    """Write what each variable sends to each of its ports: its potential times all other messages to it.

    Graphs that do not move are left out.
    """
    chunk = 256
    variables = state_ptr.size - 1
    old, out, potential = unchecked(shares), unchecked(sent), unchecked(own)
    ports, places = unchecked(variable_port), unchecked(port_place)
    for part in prange((variables + chunk - 1) // chunk):
        running = stack_numbers(shares, MOST_STATES)
        for variable in range(part * chunk, min((part + 1) * chunk, variables)):
            begin, end = variable_ptr[variable], variable_ptr[variable + 1]
            first, degree = state_ptr[variable], end - begin
            if degree == 0 or not moving[variable_graph[variable]]:
                continue
            states = state_ptr[variable + 1] - first
            i = places[ports[begin]]
            # Few factors are the most frequent: loops of unknown length would cost more than the products.
            if degree == 1:
                for state in range(states):
                    out[i + state * LANES] = potential[first + state]
            elif degree == 2:
                j = places[ports[begin + 1]]
                for state in range(states):
                    here = potential[first + state]
                    out[i] = here * old[j]
                    out[j] = here * old[i]
                    i += LANES
                    j += LANES
            elif degree == 3:
                j, k = places[ports[begin + 1]], places[ports[begin + 2]]
                for state in range(states):
                    last = old[k]
                    front = potential[first + state] * old[i]
                    back = potential[first + state] * last
                    out[i] = back * old[j]
                    out[k] = front * old[j]
                    out[j] = front * last
                    i += LANES
                    j += LANES
                    k += LANES
            elif degree == 4:
                j, k = places[ports[begin + 1]], places[ports[begin + 2]]
                l = places[ports[begin + 3]]
                for state in range(states):
                    front = potential[first + state] * (old[i] * old[j])
                    back = potential[first + state] * (old[k] * old[l])
                    out[i] = back * old[j]
                    out[j] = back * old[i]
                    out[k] = front * old[l]
                    out[l] = front * old[k]
                    i += LANES
                    j += LANES
                    k += LANES
                    l += LANES
            else:
                for state in range(states):
                    running[state] = potential[first + state]
                for place in range(begin, end):
                    at = places[ports[place]]
                    for state in range(states):
                        out[at + state * LANES] = running[state]
                        running[state] *= old[at + state * LANES]
                for state in range(states):
                    running[state] = 1
                for place in range(end - 1, begin - 1, -1):
                    at = places[ports[place]]
                    for state in range(states):
                        out[at + state * LANES] *= running[state]
                        running[state] *= old[at + state * LANES]


@subroutine(allocates=False, fast=True)
def store_shares(sums: Any, shares: Array, begin: int, states: int, worst: Any) -> None:
    """Write normalised sums over the old messages; raise `worst` to the largest change of a probability."""
    held, zero = unchecked(shares), shares.dtype.type(0)
    total = stack_numbers(shares, LANES)
    count = shares.dtype.type(states)
    inverse = shares.dtype.type(1) / count
    for lane in range(LANES):
        total[lane] = zero
    for state in range(states):
        for lane in range(LANES):
            total[lane] += sums[state * LANES + lane]
    for lane in range(LANES):
        total[lane] = count / total[lane]
    for state in range(states):
        at = state * LANES
        for lane in range(LANES):
            share = sums[at + lane] * total[lane]
            change = abs(share - held[begin + at + lane]) * inverse
            worst[lane] = change if change > worst[lane] else worst[lane]
            held[begin + at + lane] = share


@compiled(fast=True)
def share_sweep(
    shares: Array,
    sent: Array,
    tables: Array,
    block_table: Array,
    rows: int,
    columns: int,
    shared: bool,
    used: Array,
    slot_graph: Array,
    moving: Array,
    residual: Array,
) -> None:
    """Replace all messages in place by what the variables sent, times the tables; see `pairwise_sweep`.

    Blocks of graphs that do not move are left out. Elsewhere such a graph's messages come out as they are: what its
    variables sent is what it was.
    """
    blocks, entries = block_table.size, unchecked(tables)
    chunk = 16
    for part in prange((blocks + chunk - 1) // chunk):
        for block in range(part * chunk, min((part + 1) * chunk, blocks)):
            slot, end = block * LANES, (block + 1) * LANES
            while slot < end and not moving[slot_graph[slot]]:
                slot += 1
            if slot == end:
                continue
            first, second = block * rows * LANES, (blocks * rows + block * columns) * LANES
            by_row, by_column = unchecked(sent[first:]), unchecked(sent[second:])
            to_row, to_column = stack_numbers(shares, ROOM), stack_numbers(shares, ROOM)
            worst = stack_numbers(shares, LANES)
            for lane in range(LANES):
                worst[lane] = 0
            lane_products(
                LANES,
                entries,
                block_table[block],
                shared,
                rows,
                columns,
                by_row,
                by_column,
                to_row,
                to_column,
            )
            store_shares(to_row, shares, first, rows, worst)
            store_shares(to_column, shares, second, columns, worst)
            for lane in range(LANES):
                residual[block * LANES + lane] = used[block * LANES + lane] * worst[lane]
