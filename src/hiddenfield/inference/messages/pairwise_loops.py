"""Compiled loops for fields of pairwise factors of one shape: factors side by side in the lanes of vectors.

Factors lie in blocks of `LANES`: the messages of a block are (states, lanes), so that every inner loop runs over lanes,
whatever the number of states; tables are laid out by `in_lanes`. A table that many factors share is kept once; the
factors of a block then all share it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.lane_product import lane_maxima, lane_products
from hiddenfield.ops.vector_math import fast_exp, fast_log, stack_numbers, unchecked
from hiddenfield.shapes import Array

__all__ = [
    "LANES",
    "MOST_STATES",
    "assign_slots",
    "laid_out",
    "pairwise_sweep",
    "pairwise_totals",
    "port_by_port",
]

LANES = 64
"""Factors in a block: a few vectors. Loops over fewer are unrolled before the compiler thinks of vectors."""

MOST_STATES = 64
"""States for which there is room on the stack."""

ROOM = LANES * MOST_STATES


@compiled
def assign_slots(
    kind: Array,
    following: Array,
    begin: Array,
    graph: Array,
    rows: int,
    columns: int,
    place: Array,
    table_begin: Array,
    used: Array,
    slot_graph: Array,
) -> None:
    """Give each factor the next slot of its kind; write where its messages begin, and by slot what belongs to it.

    `following` is the first slot of each kind, and is changed. The last three come in as zeros.
    """
    factors, second = kind.size, slot_graph.size * rows
    for factor in range(factors):
        slot = following[kind[factor]]
        following[kind[factor]] += 1
        block, lane = slot // LANES, slot % LANES
        place[factor] = block * (rows * LANES) + lane
        place[factors + factor] = second + block * (columns * LANES) + lane
        table_begin[slot] = begin[factor]
        used[slot] = 1
        slot_graph[slot] = graph[factor]


@compiled
def laid_out(messages: Array, port_ptr: Array, place: Array, out: Array) -> None:
    """Lay messages out in blocks."""
    for port in prange(place.size):
        begin = port_ptr[port]
        for state in range(port_ptr[port + 1] - begin):
            out[place[port] + state * LANES] = messages[begin + state]


@compiled
def port_by_port(values: Array, port_ptr: Array, place: Array, messages: Array) -> None:
    """Write messages in the order of ports."""
    for port in prange(place.size):
        begin = port_ptr[port]
        for state in range(port_ptr[port + 1] - begin):
            messages[begin + state] = values[place[port] + state * LANES]


@compiled(fast=True)
def pairwise_totals(
    messages: Array,
    log_unary: Array,
    state_ptr: Array,
    variable_port: Array,
    variable_ptr: Array,
    port_place: Array,
    port_weight: Array,
    totals: Array,
) -> None:
    """Write the unnormalised log belief of each variable to all its ports, in the layout of the messages."""
    chunk = 256
    variables = state_ptr.size - 1
    old, out = unchecked(messages), unchecked(totals)
    for part in prange((variables + chunk - 1) // chunk):
        sums = stack_numbers(messages, MOST_STATES)
        for variable in range(part * chunk, min((part + 1) * chunk, variables)):
            begin, end = variable_ptr[variable], variable_ptr[variable + 1]
            first = state_ptr[variable]
            # A variable without factors may have more states than there is room for.
            states = state_ptr[variable + 1] - first if end > begin else 0
            # Inner variables of grids: loops of unknown length would cost more than the sums.
            if end - begin == 4:
                i, j = variable_port[begin], variable_port[begin + 1]
                k, l = variable_port[begin + 2], variable_port[begin + 3]
                w_i, w_j, w_k, w_l = port_weight[i], port_weight[j], port_weight[k], port_weight[l]
                i, j, k, l = port_place[i], port_place[j], port_place[k], port_place[l]
                for state in range(states):
                    total = log_unary[first + state] + (w_i * old[i] + w_j * old[j])
                    total += w_k * old[k] + w_l * old[l]
                    out[i] = total
                    out[j] = total
                    out[k] = total
                    out[l] = total
                    i += LANES
                    j += LANES
                    k += LANES
                    l += LANES
                continue
            for state in range(states):
                sums[state] = log_unary[first + state]
            for place in range(begin, end):
                port = variable_port[place]
                weight, at = port_weight[port], port_place[port]
                for state in range(states):
                    sums[state] += weight * old[at + state * LANES]
            for place in range(begin, end):
                at = port_place[variable_port[place]]
                for state in range(states):
                    out[at + state * LANES] = sums[state]


@subroutine(allocates=False, fast=True)
def load_block(messages: Array, totals: Array, begin: int, states: int, maximise: bool, out: Any) -> None:
    """Write what a block's variables send, less its largest, and unless maximising the exponential of that.

    A state whose total is -inf is dead and stays so; from a variable without a living state nothing is subtracted.
    """
    dead, zero = messages.dtype.type(-np.inf), messages.dtype.type(0)
    tops = stack_numbers(messages, LANES)
    old, sent = unchecked(messages), unchecked(totals)
    for lane in range(LANES):
        tops[lane] = dead
    for state in range(states):
        at = state * LANES
        for lane in range(LANES):
            total = sent[begin + at + lane]
            value = total - old[begin + at + lane]
            value = value if total > dead else dead
            out[at + lane] = value
            tops[lane] = value if value > tops[lane] else tops[lane]
    for lane in range(LANES):
        tops[lane] = tops[lane] if tops[lane] > dead else zero
    for state in range(states):
        at = state * LANES
        if maximise:
            for lane in range(LANES):
                out[at + lane] = out[at + lane] - tops[lane]
        else:
            for lane in range(LANES):
                out[at + lane] = fast_exp(out[at + lane] - tops[lane])


@subroutine(allocates=False, fast=True)
def is_safe(sums: Any, states: int, least: float, like: Array) -> bool:
    """Return whether all sums are so large that nothing that underflowed matters."""
    lowest = stack_numbers(like, LANES)
    for lane in range(LANES):
        lowest[lane] = sums[lane]
    for state in range(1, states):
        for lane in range(LANES):
            value = sums[state * LANES + lane]
            lowest[lane] = value if value < lowest[lane] else lowest[lane]
    safe = True
    for lane in range(LANES):
        safe = safe and lowest[lane] >= least
    return safe


@subroutine(allocates=False, fast=True)
def sums_in_log_space(
    log_tables: Array,
    table_begin: Array,
    slot: int,
    rows: int,
    columns: int,
    messages: Array,
    totals: Array,
    first: int,
    second: int,
    to_row: Any,
    to_column: Any,
) -> None:
    """Compute a block's sums again, one by one, where exponentials underflow; they come out divided by the largest.

    Sums that are not zero come out as such: relative to the others they may still be too small for a number, but then
    they are too small for the message too, and a hard zero stays what it is.
    """
    dead = -np.inf
    for lane in range(LANES):
        table = table_begin[slot + lane]
        for side in range(2):
            states, others = (rows, columns) if side == 0 else (columns, rows)
            at = (second if side == 0 else first) + lane
            stride, step = (columns, 1) if side == 0 else (1, columns)
            for state in range(states):
                top, total = dead, 0.0
                for again in range(2):
                    for other in range(others):
                        sent = totals[at + other * LANES]
                        if sent > dead:
                            value = sent - messages[at + other * LANES]
                            value += log_tables[table + state * stride + other * step]
                            if again == 0:
                                top = max(top, value)
                            elif value > dead:
                                total += math.exp(value - top)
                result = top + math.log(total) if top > dead else dead
                if side == 0:
                    to_row[state * LANES + lane] = result
                else:
                    to_column[state * LANES + lane] = result


@subroutine(allocates=False, fast=True)
def take_logs(sums: Any, states: int, like: Array) -> None:
    """Replace sums by the logarithms of their shares."""
    total = stack_numbers(like, LANES)
    add_up(sums, states, like, total)
    for state in range(states):
        for lane in range(LANES):
            sums[state * LANES + lane] = fast_log(sums[state * LANES + lane] * total[lane])


@subroutine(allocates=False, fast=True)
def add_up(sums: Any, states: int, like: Array, total: Any) -> None:
    """Write one over each lane's total."""
    for lane in range(LANES):
        total[lane] = like.dtype.type(0)
    for state in range(states):
        for lane in range(LANES):
            total[lane] += sums[state * LANES + lane]
    for lane in range(LANES):
        total[lane] = like.dtype.type(1) / total[lane]


@subroutine(allocates=False, fast=True)
def store_sums(sums: Any, messages: Array, begin: int, states: int, worst: Any) -> None:
    """Write the logarithms of shares over the old messages; raise `worst` to the largest p |log p - log old p|."""
    held, one = unchecked(messages), messages.dtype.type(1)
    total = stack_numbers(messages, LANES)
    add_up(sums, states, messages, total)
    for state in range(states):
        at = state * LANES
        for lane in range(LANES):
            share = sums[at + lane] * total[lane]
            value = fast_log(share)
            change = min(abs(value - held[begin + at + lane]), one) * share
            worst[lane] = change if change > worst[lane] else worst[lane]
            held[begin + at + lane] = value


@subroutine(allocates=False, fast=True)
def normalise_logs(logs: Any, states: int, maximise: bool, like: Array) -> None:
    """Subtract each lane's largest, or the logarithm of its sum; a lane of -inf stays as it is."""
    dead, zero = like.dtype.type(-np.inf), like.dtype.type(0)
    tops, total = stack_numbers(like, LANES), stack_numbers(like, LANES)
    for lane in range(LANES):
        tops[lane] = dead
        total[lane] = zero
    for state in range(states):
        for lane in range(LANES):
            value = logs[state * LANES + lane]
            tops[lane] = value if value > tops[lane] else tops[lane]
    for lane in range(LANES):
        tops[lane] = tops[lane] if tops[lane] > dead else zero
    if not maximise:
        for state in range(states):
            for lane in range(LANES):
                total[lane] += fast_exp(logs[state * LANES + lane] - tops[lane])
        for lane in range(LANES):
            tops[lane] = tops[lane] + fast_log(total[lane]) if total[lane] > zero else tops[lane]
    for state in range(states):
        for lane in range(LANES):
            logs[state * LANES + lane] = logs[state * LANES + lane] - tops[lane]


@subroutine(allocates=False, fast=True)
def store_block(
    logs: Any, messages: Array, begin: int, states: int, damping: float, maximise: bool, worst: Any
) -> None:
    """Write new log messages over the old ones; raise `worst` to the largest p |log p - log old p|."""
    zero, one = messages.dtype.type(0), messages.dtype.type(1)
    held = unchecked(messages)
    old_part, new_part = messages.dtype.type(damping), messages.dtype.type(1 - damping)
    for state in range(states):
        at = state * LANES
        for lane in range(LANES):
            new, old = logs[at + lane], held[begin + at + lane]
            larger = old if old > new else new
            change = min(abs(new - old), one) * fast_exp(larger)
            change = zero if new == old else change
            worst[lane] = change if change > worst[lane] else worst[lane]
    if damping != 0:
        for state in range(states):
            at = state * LANES
            for lane in range(LANES):
                logs[at + lane] = old_part * held[begin + at + lane] + new_part * logs[at + lane]
        normalise_logs(logs, states, maximise, messages)
    for place in range(states * LANES):
        held[begin + place] = logs[place]


@compiled(fast=True)
def pairwise_sweep(
    messages: Array,
    totals: Array,
    tables: Array,
    block_table: Array,
    log_tables: Array,
    table_begin: Array,
    rows: int,
    columns: int,
    shared: bool,
    maximise: bool,
    least: float,
    damping: float,
    used: Array,
    residual: Array,
) -> None:
    """Replace all messages in place, from totals of the old ones; write the largest change at each slot of a block.

    `messages` are those to the first ports, block by block, then those to the second ones. `tables` are exponentials,
    logarithms where maximising, and `block_table` says where each block's begin; `log_tables` and `table_begin` are
    by slot, for what must be done again in log space. `used` is 1 at slots that hold a factor, 0 elsewhere.
    """
    blocks, entries = block_table.size, unchecked(tables)
    chunk = 16
    for part in prange((blocks + chunk - 1) // chunk):
        for block in range(part * chunk, min((part + 1) * chunk, blocks)):
            first, second = block * rows * LANES, (blocks * rows + block * columns) * LANES
            by_row, by_column = stack_numbers(messages, ROOM), stack_numbers(messages, ROOM)
            to_row, to_column = stack_numbers(messages, ROOM), stack_numbers(messages, ROOM)
            worst = stack_numbers(messages, LANES)
            load_block(messages, totals, first, rows, maximise, by_row)
            load_block(messages, totals, second, columns, maximise, by_column)
            begin, safe = block_table[block], True
            for lane in range(LANES):
                worst[lane] = 0
            if maximise:
                lane_maxima(
                    LANES, entries, begin, shared, rows, columns, by_row, by_column, to_row, to_column
                )
                normalise_logs(to_row, rows, True, messages)
                normalise_logs(to_column, columns, True, messages)
            else:
                lane_products(
                    LANES, entries, begin, shared, rows, columns, by_row, by_column, to_row, to_column
                )
                safe = is_safe(to_row, rows, least, messages) and is_safe(to_column, columns, least, messages)
                if safe and damping == 0:
                    store_sums(to_row, messages, first, rows, worst)
                    store_sums(to_column, messages, second, columns, worst)
                elif safe:
                    take_logs(to_row, rows, messages)
                    take_logs(to_column, columns, messages)
                else:
                    sums_in_log_space(
                        log_tables,
                        table_begin,
                        block * LANES,
                        rows,
                        columns,
                        messages,
                        totals,
                        first,
                        second,
                        to_row,
                        to_column,
                    )
                    normalise_logs(to_row, rows, False, messages)
                    normalise_logs(to_column, columns, False, messages)
            if maximise or damping != 0 or not safe:
                store_block(to_row, messages, first, rows, damping, maximise, worst)
                store_block(to_column, messages, second, columns, damping, maximise, worst)
            for lane in range(LANES):
                residual[block * LANES + lane] = used[block * LANES + lane] * worst[lane]
