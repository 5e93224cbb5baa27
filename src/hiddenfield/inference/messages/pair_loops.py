r"""Compiled loops for fields whose factors are all pairs of one shape, on messages as they are: neither exp nor log.

A message m holds probabilities, or where maximising numbers whose largest is 1. With T the table of a factor and
:math:`\phi_v` the potential of a variable, each divided by its largest entry, and w the weights of ports,

.. math::

    c_p = \phi_v\, m_p^{w_p - 1} \prod_{q \in v,\, q \ne p} m_q^{w_q}, \qquad
    m_p(x) \propto \sum_{y} T(x, y)\, c_{p'}(y) \quad \text{or} \quad \max_y T(x, y)\, c_{p'}(y),

where p' is the other port of the factor. All numbers are at most 1, so nothing overflows. Where the product of all
messages to a variable comes out so small that something may have underflowed, `variable_cavities` says so, and the
update has to be done in log space.

Factors lie in blocks of `LANES`: the messages of a block are (states, lanes), so that every inner loop runs over lanes,
whatever the number of states. A table that many factors share is kept once; the factors of a block then all share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.vector_math import fast_exp, fast_log, stack_numbers, unchecked
from hiddenfield.shapes import Array

LANES = 64
"""Factors in a block: a few vectors. Loops over fewer are unrolled before the compiler thinks of vectors."""

MOST_STATES = 64
"""States for which there is room on the stack."""

ROOM = LANES * MOST_STATES


class PairBlocks(NamedTuple):
    """Where messages lie in blocks, and what their update reads.

    A *slot* is a lane of a block; `used` is 1 at slots that hold a factor and 0 elsewhere.

    Parameters
    ----------
    place
        Where the message of each port begins: all blocks of messages to first ports, then those to second ones.
    used, graph, weight
        By slot whether it holds a factor, and this factor's graph and (first, second) port weights.
    table_begin, tables, shared
        Where the tables of each block begin; all tables, one per block where `shared` and one per lane elsewhere.
    rows, columns
        States of the first and second ports.
    own, least, state_ptr, variable_port, variable_ptr, variable_graph
        Potentials of variables, the least product that can be trusted, and states, ports and graph of every variable.
    maximise, damping, weighted
        How messages are updated.
    """

    place: Array
    used: Array
    graph: Array
    weight: Array
    table_begin: Array
    tables: Array
    shared: bool
    rows: int
    columns: int
    own: Array
    least: float
    state_ptr: Array
    variable_port: Array
    variable_ptr: Array
    variable_graph: Array
    maximise: bool
    damping: float
    weighted: bool


@compiled(fast=True)
def to_blocks(messages: Array, port_ptr: Array, place: Array, shares: Array) -> None:
    """Lay the exponentials of log messages out in blocks."""
    given, numbers = unchecked(messages), unchecked(shares)
    for port in prange(place.size):
        begin, at = port_ptr[port], place[port]
        for state in range(port_ptr[port + 1] - begin):
            numbers[at + state * LANES] = fast_exp(given[begin + state])


@compiled(fast=True)
def from_blocks(shares: Array, port_ptr: Array, place: Array, messages: Array) -> None:
    """Write log messages in the order of ports."""
    numbers, out, chunk = unchecked(shares), unchecked(messages), 256
    for part in prange((place.size + chunk - 1) // chunk):
        first, last = part * chunk, min((part + 1) * chunk, place.size)
        for port in range(first, last):
            begin = port_ptr[port]
            for state in range(port_ptr[port + 1] - begin):
                out[begin + state] = numbers[place[port] + state * LANES]
        for entry in range(port_ptr[first], port_ptr[last]):
            out[entry] = fast_log(out[entry])


@subroutine(allocates=False, fast=True)
def is_dead(state: int, potential: float, begin: int, end: int, ports: Any, places: Any, shares: Any) -> bool:
    """Return whether the variable's potential or a message to it excludes the state."""
    dead = potential == 0
    for place in range(begin, end):
        dead = dead or shares[places[ports[place]] + state * LANES] == 0
    return dead


@compiled(fast=True)
def variable_cavities(
    shares: Array, powers: Array, pairs: PairBlocks, moving: Array, sent: Array, unsafe: Array
) -> None:
    """Write what each variable sends to each of its ports: its potential times all other messages to it.

    An excluded state sends 0. `unsafe` becomes true for variables with a state that is not excluded but for which the
    product of all messages is below `least`. Graphs that rest are left out.
    """
    state_ptr, variable_ptr, least = pairs.state_ptr, pairs.variable_ptr, pairs.least
    chunk, variables, spare = 256, state_ptr.size - 1, shares.size - ROOM
    old, out, potential = unchecked(powers), unchecked(sent), unchecked(pairs.own)
    ports, places, held = unchecked(pairs.variable_port), unchecked(pairs.place), unchecked(shares)
    for part in prange((variables + chunk - 1) // chunk):
        running = stack_numbers(powers, MOST_STATES)
        for variable in range(part * chunk, min((part + 1) * chunk, variables)):
            begin, end = variable_ptr[variable], variable_ptr[variable + 1]
            first = state_ptr[variable]
            if begin == end or not moving[pairs.variable_graph[variable]]:
                continue
            states = state_ptr[variable + 1] - first
            # Few factors are the most frequent: loops of unknown length would cost more than the products. Where there
            # are fewer than four, the others read ones, behind all messages, and write there.
            if end - begin <= 4:
                i, j, k, l = places[ports[begin]], spare, spare, spare
                if end - begin > 1:
                    j = places[ports[begin + 1]]
                if end - begin > 2:
                    k = places[ports[begin + 2]]
                if end - begin > 3:
                    l = places[ports[begin + 3]]
                for state in range(states):
                    here = potential[first + state]
                    back = old[k] * old[l]
                    front = here * (old[i] * old[j])
                    if front * back >= least:
                        back *= here
                        out[l] = front * old[k]
                        out[k] = front * old[l]
                        out[j] = back * old[i]
                        out[i] = back * old[j]
                    else:
                        unsafe[variable] |= not is_dead(state, here, begin, end, ports, places, held)
                        out[i] = 0
                        out[j] = 0
                        out[k] = 0
                        out[l] = 0
                    i += LANES
                    j += LANES
                    k += LANES
                    l += LANES
                continue
            for state in range(states):
                running[state] = potential[first + state]
            for place in range(begin, end):
                at = places[ports[place]]
                for state in range(states):
                    out[at + state * LANES] = running[state]
                    running[state] *= old[at + state * LANES]
            for state in range(states):
                if running[state] >= least:
                    running[state] = 1
                else:
                    running[state] = 0
                    here = potential[first + state]
                    unsafe[variable] |= not is_dead(state, here, begin, end, ports, places, held)
            for place in range(end - 1, begin - 1, -1):
                at = places[ports[place]]
                for state in range(states):
                    out[at + state * LANES] *= running[state]
                    running[state] *= old[at + state * LANES]


@subroutine(allocates=False, fast=True)
def through_tables(
    block: int, pairs: PairBlocks, by_row: Any, by_column: Any, to_row: Any, to_column: Any
) -> None:
    """Add up, or find the largest of, the products of a block's tables with what was sent from either side."""
    entries, begin, rows, columns = (
        unchecked(pairs.tables),
        pairs.table_begin[block],
        pairs.rows,
        pairs.columns,
    )
    shared, maximise = pairs.shared, pairs.maximise
    for place in range(rows * LANES):
        to_row[place] = 0
    for place in range(columns * LANES):
        to_column[place] = 0
    for row in range(rows):
        here = row * LANES
        for column in range(columns):
            there, at = column * LANES, row * columns + column
            # Written out for each case: with a common loop over lanes the compiler forgoes vectors in one of them.
            if shared and maximise:
                entry = entries[begin + at]
                for lane in range(LANES):
                    to_row[here + lane] = max(to_row[here + lane], entry * by_column[there + lane])
                    to_column[there + lane] = max(to_column[there + lane], entry * by_row[here + lane])
            elif shared:
                entry = entries[begin + at]
                for lane in range(LANES):
                    to_row[here + lane] += entry * by_column[there + lane]
                    to_column[there + lane] += entry * by_row[here + lane]
            elif maximise:
                at = begin + at * LANES
                for lane in range(LANES):
                    to_row[here + lane] = max(
                        to_row[here + lane], entries[at + lane] * by_column[there + lane]
                    )
                    to_column[there + lane] = max(
                        to_column[there + lane], entries[at + lane] * by_row[here + lane]
                    )
            else:
                at = begin + at * LANES
                for lane in range(LANES):
                    to_row[here + lane] += entries[at + lane] * by_column[there + lane]
                    to_column[there + lane] += entries[at + lane] * by_row[here + lane]


@subroutine(allocates=False, fast=True)
def normalise(numbers: Any, states: int, maximise: bool, like: Array) -> None:
    """Divide each lane by its sum, or by its largest entry; zeros alone stay."""
    total = stack_numbers(like, LANES)
    for lane in range(LANES):
        total[lane] = 0
    for place in range(0, states * LANES, LANES):
        if maximise:
            for lane in range(LANES):
                total[lane] = numbers[place + lane] if numbers[place + lane] > total[lane] else total[lane]
        else:
            for lane in range(LANES):
                total[lane] += numbers[place + lane]
    for lane in range(LANES):
        total[lane] = like.dtype.type(1) / total[lane] if total[lane] > 0 else like.dtype.type(0)
    for place in range(0, states * LANES, LANES):
        for lane in range(LANES):
            numbers[place + lane] *= total[lane]


@subroutine(allocates=False, fast=True)
def store(
    new: Any,
    pairs: PairBlocks,
    begin: int,
    states: int,
    weight: Any,
    shares: Array,
    powers: Array,
    worst: Any,
) -> None:
    """Write new messages over old ones, damped; raise `worst` to the largest change of a probability, undamped."""
    held, raised = unchecked(shares), unchecked(powers)
    old_part, new_part = shares.dtype.type(pairs.damping), shares.dtype.type(1 - pairs.damping)
    normalise(new, states, pairs.maximise, shares)
    for place in range(0, states * LANES, LANES):
        for lane in range(LANES):
            change = abs(new[place + lane] - held[begin + place + lane])
            worst[lane] = change if change > worst[lane] else worst[lane]
    if pairs.damping != 0:
        for place in range(states * LANES):
            new[place] = fast_exp(old_part * fast_log(held[begin + place]) + new_part * fast_log(new[place]))
        normalise(new, states, pairs.maximise, shares)
    for place in range(states * LANES):
        held[begin + place] = new[place]
    if pairs.weighted:
        for place in range(0, states * LANES, LANES):
            for lane in range(LANES):
                raised[begin + place + lane] = fast_exp(weight[lane] * fast_log(new[place + lane]))


@subroutine(allocates=False, fast=True)
def leave_out(shares: Array, begin: int, states: int, weight: Any, sent: Any, out: Any) -> None:
    """Multiply what variables sent by m^(w - 1): a variable leaves one copy of the port's message out."""
    held, zero, one = unchecked(shares), shares.dtype.type(0), shares.dtype.type(1)
    for place in range(0, states * LANES, LANES):
        for lane in range(LANES):
            old = held[begin + place + lane]
            power = fast_exp((weight[lane] - one) * fast_log(old))
            out[place + lane] = sent[place + lane] * power if old > zero else zero


@compiled(fast=True)
def pair_sweep(
    shares: Array, powers: Array, sent: Array, pairs: PairBlocks, moving: Array, residual: Array
) -> None:
    """Replace all messages in place, given what the variables send; write the largest change at each slot of a block.

    `shares` are the messages to the first ports, block by block, those to the second ones, and `ROOM` ones; `powers`
    their powers where ports are weighted. Blocks of graphs that rest are left out; elsewhere such a graph's messages
    come out as they are, as what its variables sent is what it was.
    """
    blocks, slots, rows, columns = pairs.table_begin.size, pairs.used.size, pairs.rows, pairs.columns
    there, found, graph, weight = unchecked(pairs.used), unchecked(residual), pairs.graph, pairs.weight
    chunk = 16
    for part in prange((blocks + chunk - 1) // chunk):
        for block in range(part * chunk, min((part + 1) * chunk, blocks)):
            slot, end = block * LANES, (block + 1) * LANES
            while slot < end and not moving[graph[slot]]:
                slot += 1
            if slot == end:
                continue
            slot = block * LANES
            first, second = slot * rows, slots * rows + slot * columns
            by_row, by_column = unchecked(sent[first:]), unchecked(sent[second:])
            to_row, to_column = stack_numbers(shares, ROOM), stack_numbers(shares, ROOM)
            row_weight, column_weight = unchecked(weight[0, slot:]), unchecked(weight[1, slot:])
            worst = stack_numbers(shares, LANES)
            for lane in range(LANES):
                worst[lane] = 0
            if pairs.weighted:
                from_row, from_column = stack_numbers(shares, ROOM), stack_numbers(shares, ROOM)
                leave_out(shares, first, rows, row_weight, by_row, from_row)
                leave_out(shares, second, columns, column_weight, by_column, from_column)
                by_row, by_column = from_row, from_column
            through_tables(block, pairs, by_row, by_column, to_row, to_column)
            store(to_row, pairs, first, rows, row_weight, shares, powers, worst)
            store(to_column, pairs, second, columns, column_weight, shares, powers, worst)
            for lane in range(LANES):
                found[slot + lane] = there[slot + lane] * worst[lane]
