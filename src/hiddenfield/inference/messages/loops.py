"""Compiled loops of message passing over ragged arrays: any arity and cardinality, sums and maxima.

A message is a sum of products. The products are taken of exponentials, each vector divided by its largest entry, so
that no transcendental stands in the inner loop; a sum too small for the terms that underflowed to be negligible is done
again in log space. Hard zeros therefore stay exact, and nothing else becomes one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array


class Ports(NamedTuple):
    """What the compiled loops read and write: messages and totals, the arrays of `MessagePlan`, and how to update.

    Sums below `least` are not trusted; a factor's ports have `widest` states together and are `most_ports` at most.
    """

    messages: Array
    totals: Array
    log_unary: Array
    state_ptr: Array
    port_ptr: Array
    port_variable: Array
    port_factor: Array
    port_position: Array
    port_weight: Array
    factor_port: Array
    factor_ptr: Array
    variable_port: Array
    variable_ptr: Array
    log_tables: Array
    exp_tables: Array
    table_begin: Array
    maximise: bool
    least: float
    damping: float
    widest: int
    most_ports: int


class Scratch(NamedTuple):
    """Room for one factor at a time: vectors over the states of its ports, one after another."""

    logs: Array
    weights: Array
    tops: Array
    out: Array
    partial: Array
    sizes: Array
    digits: Array


@subroutine(allocates=False)
def total_of(variable: int, ports: Ports) -> None:
    """Write the unnormalised log belief of a variable, its ports added in their order."""
    totals = ports.totals
    begin = ports.state_ptr[variable]
    states = ports.state_ptr[variable + 1] - begin
    for state in range(states):
        totals[begin + state] = ports.log_unary[begin + state]
    for place in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
        port = ports.variable_port[place]
        weight = ports.port_weight[port]
        first = ports.port_ptr[port]
        for state in range(states):
            totals[begin + state] += weight * ports.messages[first + state]


@subroutine(allocates=False)
def load_cavities(factor: int, target: int, ports: Ports, scratch: Scratch) -> float:
    """Write what the factor's other ports send, port by port; that of the target becomes log 1.

    `logs` are less each port's largest, `weights` their exponentials. Returns the sum of what was subtracted.
    """
    logs, weights = scratch.logs, scratch.weights
    offset = 0
    shift = 0.0
    for position in range(ports.factor_ptr[factor + 1] - ports.factor_ptr[factor]):
        port = ports.factor_port[ports.factor_ptr[factor] + position]
        first = ports.port_ptr[port]
        states = ports.port_ptr[port + 1] - first
        scratch.sizes[position] = states
        if position == target:
            for state in range(states):
                logs[offset + state] = 0
                weights[offset + state] = 1
            offset += states
            continue
        begin = ports.state_ptr[ports.port_variable[port]]
        top = -np.inf
        for state in range(states):
            value = ports.totals[begin + state]
            if value > -np.inf:
                value -= ports.messages[first + state]
            logs[offset + state] = value
            top = max(top, value)
        shift += top
        for state in range(states):
            if top > -np.inf:
                logs[offset + state] -= top
            if not ports.maximise:
                weights[offset + state] = math.exp(logs[offset + state])
        offset += states
    return shift


@subroutine(allocates=False)
def gather(mode: int, target: int, arity: int, table: Array, vectors: Array, scratch: Scratch) -> None:
    """Run over a factor's table and gather over the states of the target.

    Mode 0: sums of products of table and vectors. Mode 1: maxima of sums. Mode 2: sums of exponentials of sums less
    `tops`. `partial[k]` holds what the first k positions contribute; only what changed is computed again.
    """
    partial, digits, sizes, out = scratch.partial, scratch.digits, scratch.sizes, scratch.out
    for state in range(sizes[target]):
        out[state] = -np.inf if mode == 1 else 0
    last, tail = arity - 1, 0
    for position in range(last):
        digits[position] = 0
        tail += sizes[position]
    width, changed = sizes[last], 0
    partial[0] = 1 if mode == 0 else 0
    for begin in range(0, table.size, width):
        offset = 0
        for position in range(last):
            if position >= changed:
                value = vectors[offset + digits[position]]
                partial[position + 1] = partial[position] * value if mode == 0 else partial[position] + value
            offset += sizes[position]
        for column in range(width):
            state = column if target == last else digits[target]
            here, value = table[begin + column], vectors[tail + column]
            if mode == 0:
                out[state] += partial[last] * value * here
            elif mode == 1:
                out[state] = max(out[state], partial[last] + value + here)
            elif partial[last] + value + here > -np.inf:
                out[state] += math.exp(partial[last] + value + here - scratch.tops[state])
        changed = last - 1
        while changed >= 0:
            digits[changed] += 1
            if digits[changed] < sizes[changed]:
                break
            digits[changed] = 0
            changed -= 1


@subroutine(allocates=False)
def normalise(vector: Array, states: int, maximise: bool) -> None:
    """Subtract the logarithm of the sum, or the maximum; a vector of -inf stays as it is."""
    top = -np.inf
    for state in range(states):
        top = max(top, vector[state])
    if top == -np.inf:
        return
    if not maximise:
        total = 0.0
        for state in range(states):
            total += math.exp(vector[state] - top)
        top += math.log(total)
    for state in range(states):
        vector[state] -= top


@subroutine(allocates=False)
def port_message(port: int, ports: Ports, scratch: Scratch) -> None:
    """Write the new message of a port to `scratch.out`, normalised in log space.

    Reads the totals of the factor's other variables.
    """
    out, tops = scratch.out, scratch.tops
    factor, target = ports.port_factor[port], ports.port_position[port]
    arity = ports.factor_ptr[factor + 1] - ports.factor_ptr[factor]
    states = ports.port_ptr[port + 1] - ports.port_ptr[port]
    shift = load_cavities(factor, target, ports, scratch)
    if shift == -np.inf:
        for state in range(states):
            out[state] = -np.inf
        return
    begin = ports.table_begin[factor]
    entries = 1
    for position in range(arity):
        entries *= scratch.sizes[position]
    if not ports.maximise:
        gather(0, target, arity, ports.exp_tables[begin : begin + entries], scratch.weights, scratch)
        lowest, total = np.inf, 0.0
        for state in range(states):
            lowest = min(lowest, out[state])
            total += out[state]
        if lowest >= ports.least:
            for state in range(states):
                out[state] = math.log(out[state] / total)
            return
    table = ports.log_tables[begin : begin + entries]
    gather(1, target, arity, table, scratch.logs, scratch)
    if not ports.maximise:
        for state in range(states):
            tops[state] = out[state]
        gather(2, target, arity, table, scratch.logs, scratch)
        for state in range(states):
            out[state] = tops[state] + math.log(out[state]) if out[state] > 0 else -np.inf
    normalise(out, states, ports.maximise)


@subroutine(allocates=False)
def damp(old: Array, new: Array, states: int, ports: Ports) -> None:
    """Write over the old message, damped in log space and normalised again."""
    if ports.damping == 0:
        for state in range(states):
            old[state] = new[state]
        return
    for state in range(states):
        old[state] = ports.damping * old[state] + (1 - ports.damping) * new[state]
    normalise(old, states, ports.maximise)


@subroutine(allocates=False)
def change_of(old: Array, new: Array, states: int) -> float:
    """Return the largest change of a message's probabilities."""
    worst = 0.0
    for state in range(states):
        worst = max(worst, abs(math.exp(new[state]) - math.exp(old[state])))
    return worst


@subroutine
def make_scratch(ports: Ports) -> Scratch:
    """Allocate room for one factor."""
    dtype = ports.messages.dtype
    return Scratch(
        np.empty(ports.widest, dtype),
        np.empty(ports.widest, dtype),
        np.empty(ports.widest, dtype),
        np.empty(ports.widest, dtype),
        np.empty(ports.most_ports + 1, dtype),
        np.empty(ports.most_ports, np.int64),
        np.empty(ports.most_ports, np.int64),
    )


@compiled
def variable_totals(ports: Ports) -> None:
    """Write the unnormalised log beliefs of all variables."""
    for variable in prange(ports.state_ptr.size - 1):
        total_of(variable, ports)


@subroutine(allocates=False)
def update_factor(factor: int, ports: Ports, scratch: Scratch, new: Array) -> float:
    """Replace all messages of a factor; return the largest change of a probability."""
    messages, worst, written = ports.messages, 0.0, 0
    # A factor's messages depend on each other's old values: keep the new ones until all are there.
    for place in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
        port = ports.factor_port[place]
        port_message(port, ports, scratch)
        first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
        worst = max(worst, change_of(messages[first:last], scratch.out, last - first))
        for state in range(last - first):
            new[written + state] = scratch.out[state]
        written += last - first
    written = 0
    for place in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
        port = ports.factor_port[place]
        first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
        damp(messages[first:last], new[written:], last - first, ports)
        written += last - first
    return worst


@compiled
def parallel_sweep(ports: Ports, residual: Array) -> None:
    """Replace all messages in place, from totals of the old ones; write the largest change at each factor."""
    chunk = 128
    for part in prange((residual.size + chunk - 1) // chunk):
        scratch = make_scratch(ports)
        new = np.empty(ports.widest, ports.messages.dtype)
        for factor in range(part * chunk, min((part + 1) * chunk, residual.size)):
            residual[factor] = update_factor(factor, ports, scratch, new)


@compiled
def largest_by_graph(values: Array, graph: Array, out: Array) -> None:
    """Write the largest of the values of each graph; `out` comes in as zeros. NaN counts as largest."""
    here, worst = 0, values.dtype.type(0)
    for place in range(values.size):
        # What belongs to one graph mostly comes in a row.
        if graph[place] != here:
            out[here] = worst
            here = graph[place]
            worst = out[here]
        worst = values[place] if values[place] > worst or values[place] != values[place] else worst
    if values.size:
        out[here] = worst
