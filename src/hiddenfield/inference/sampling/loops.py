"""Compiled sweeps of Gibbs sampling over many chains, one variable or one tree of variables at a time.

States are (variables, chains); chains are split into a fixed number of blocks that run on different threads. Each chain
has its own random numbers (xorshift64*, Vigna 2016), so that what is drawn does not depend on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.fields.layout import FlatField
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array


class Walk(NamedTuple):
    """Chains: bounds of the blocks that run side by side, (variables, chains) states, and random numbers."""

    chain_ptr: Array
    state: Array
    random: Array


class Record(NamedTuple):
    """What is collected of every sweep: conditional probabilities, visits by batch, and joint states of factors.

    Where there is room for no states, nothing is.

    Parameters
    ----------
    batch_length
        Sweeps of a batch.
    mean
        (blocks, states) sums of conditional probabilities, block of chains by block.
    visits
        (batches, states, chains) how often each chain was in each state.
    joint_start, joint
        Where each factor's joint states begin, and (blocks, joint states) how often each was seen.
    """

    batch_length: int
    mean: Array
    visits: Array
    joint_start: Array
    joint: Array


class TreeBlocks(NamedTuple):
    """Forests of variables: ``order[tree_ptr[t]:tree_ptr[t + 1]]`` is one, children before their parents.

    A factor may join several variables of a forest: one of them is the parent, the others are siblings, which follow
    each other in `order`.

    Parameters
    ----------
    tree_ptr, order
        Bounds of every forest's variables, and these.
    parent, own_place, parent_place
        Of every variable in `order` its parent, -1 for a root, and the two places of the factor that joins them.
    sibling
        Of every variable in `order` where its siblings, the other children of one factor, begin.
    internal
        The ports whose factor joins variables of one forest.
    """

    tree_ptr: Array
    order: Array
    parent: Array
    own_place: Array
    parent_place: Array
    sibling: Array
    internal: Array


# -- what all sweeps share ---------------------------------------------------------------------------------


@subroutine(allocates=False, fast=True)
def entry_given(factor: int, own: int, other: int, flat: FlatField, state: Array, chain: int) -> int:
    """Return where a factor's table is, given the states of all its places but `own` and `other`."""
    entry = flat.table_start[factor]
    for place in range(flat.scope_ptr[factor], flat.scope_ptr[factor + 1]):
        if place != own and place != other:
            entry += flat.stride[place] * state[flat.scope[place], chain]
    return entry


@subroutine(allocates=False, fast=True)
def uniform(random: Array, chain: int) -> float:
    """Draw a number from [0, 1)."""
    word = random[chain]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    random[chain] = word
    return ((word * np.uint64(2685821657736338717)) >> np.uint64(11)) * 1.1102230246251565e-16


@subroutine(allocates=False, fast=True)
def exponentials(values: Array, begin: int, step: int, card: int) -> float:
    """Replace logarithms by exponentials relative to the largest; return their sum, 0 where all are -inf."""
    top = -np.inf
    for x in range(card):
        top = max(top, values[begin + x * step])
    if top == -np.inf:
        return 0.0
    total = 0.0
    for x in range(card):
        at = begin + x * step
        values[at] = np.exp(values[at] - top)
        total += values[at]
    return total


@subroutine(allocates=False, fast=True)
def draw_state(
    variable: int,
    chain: int,
    values: Array,
    begin: int,
    step: int,
    total: float,
    flat: FlatField,
    walk: Walk,
    mean: Array,
) -> None:
    """Draw a variable's state by weights that sum to `total`, add them to `mean` if it has room; at 0 it stays."""
    first = flat.state_ptr[variable]
    card = flat.state_ptr[variable + 1] - first
    if total == 0.0:  # no state is possible given the others
        if mean.size:
            mean[first + walk.state[variable, chain]] += 1.0
        return
    rest = uniform(walk.random, chain) * total
    chosen = -1
    for x in range(card):
        weight = values[begin + x * step]
        if weight > 0.0:
            chosen = x
            rest -= weight
            if rest < 0.0:
                break
    walk.state[variable, chain] = chosen
    if mean.size:
        for x in range(card):
            mean[first + x] += values[begin + x * step] / total


@subroutine(allocates=False, fast=True)
def collect_states(sweep: int, block: int, order: Array, flat: FlatField, walk: Walk, record: Record) -> None:
    """Count the states of variables, and the joint states of factors, in the chains of a block."""
    if record.mean.size == 0:
        return
    first, last = walk.chain_ptr[block], walk.chain_ptr[block + 1]
    batch = min(sweep // record.batch_length, record.visits.shape[0] - 1)
    for v in order:
        for c in range(first, last):
            record.visits[batch, flat.state_ptr[v] + walk.state[v, c], c] += 1
    for f in range(record.joint_start.size):
        for c in range(first, last):
            entry = entry_given(f, -1, -1, flat, walk.state, c) - flat.table_start[f]
            record.joint[block, record.joint_start[f] + entry] += 1


@subroutine
def most_states(order: Array, flat: FlatField) -> int:
    """Return the number of states of the largest variable."""
    most = 1
    for v in order:
        most = max(most, flat.state_ptr[v + 1] - flat.state_ptr[v])
    return most


# -- one variable at a time --------------------------------------------------------------------------------


@compiled(watched=True)
def site_sweeps(
    stop: Array,
    sweeps: int,
    hard: bool,
    order: Array,
    flat: FlatField,
    walk: Walk,
    record: Record,
) -> None:
    """Draw each variable of `order` from its distribution given all others, `sweeps` times.

    `record` is added to, conditional probabilities block by block. Without hard zeros
    binary variables take a path without branches, which is about twice as fast (a 30 x 30 grid, measured).
    """
    stop[1] = 1
    most, tables, stride = most_states(order, flat), flat.tables, flat.stride
    # Arrays that are written to here have names of their own: in parallel Numba forgets writes through a tuple.
    state, mean = walk.state, record.mean
    for block in prange(walk.chain_ptr.size - 1):
        first_chain = walk.chain_ptr[block]
        width = walk.chain_ptr[block + 1] - first_chain
        logits, offset = np.empty(most * width), np.empty(width, np.int64)
        for sweep in range(sweeps):
            for v in order:
                if stop[0]:
                    break
                begin = flat.state_ptr[v]
                card = flat.state_ptr[v + 1] - begin
                binary = card == 2 and not hard
                for x in range(1 if binary else card):
                    own_logit = flat.log_unary[begin + x]
                    if binary:
                        own_logit = flat.log_unary[begin + 1] - own_logit
                    for j in range(width):
                        logits[x * width + j] = own_logit
                for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                    own = flat.port_place[p]
                    f = flat.place_factor[own]
                    weight = flat.port_weight[p]
                    if weight == 0.0:
                        continue
                    step = stride[own]
                    if flat.scope_ptr[f + 1] - flat.scope_ptr[f] == 2:
                        other = 2 * flat.scope_ptr[f] + 1 - own
                        u, across, base = flat.scope[other], stride[other], flat.table_start[f]
                        if binary and flat.state_ptr[u + 1] - flat.state_ptr[u] == 2:
                            low = weight * (tables[base + step] - tables[base])
                            high = weight * (tables[base + across + step] - tables[base + across]) - low
                            for j in range(width):
                                logits[j] += low + high * state[u, first_chain + j]
                            continue
                        for j in range(width):
                            offset[j] = base + across * state[u, first_chain + j]
                    else:
                        for j in range(width):
                            offset[j] = entry_given(f, own, own, flat, state, first_chain + j)
                    if binary:
                        for j in range(width):
                            logits[j] += weight * (tables[offset[j] + step] - tables[offset[j]])
                    else:
                        for j in range(width):
                            for x in range(card):
                                logits[x * width + j] += weight * tables[offset[j] + x * step]
                if binary:
                    total = 0.0
                    for j in range(width):
                        chance = 1.0 / (1.0 + np.exp(-logits[j]))
                        state[v, first_chain + j] = 1 if uniform(walk.random, first_chain + j) < chance else 0
                        total += chance
                    if mean.size:
                        mean[block, begin + 1] += total
                        mean[block, begin] += width - total
                else:
                    for j in range(width):
                        total = exponentials(logits, j, width, card)
                        draw_state(v, first_chain + j, logits, j, width, total, flat, walk, mean[block])
            collect_states(sweep, block, order, flat, walk, record)


# -- one tree of variables at a time -----------------------------------------------------------------------


@subroutine(allocates=False, fast=True)
def absorb(
    target: int,
    begin: int,
    end: int,
    logs: bool,
    trees: TreeBlocks,
    flat: FlatField,
    state: Array,
    chain: int,
    belief: Array,
    weight: Array,
    digit: Array,
) -> None:
    """Multiply the belief of the variable at a place by its factor, summed over the beliefs of some siblings.

    These are at ``trees.order[begin:end]``; the factor's other variables have their states. In probabilities the factor
    is scaled to a maximum of 1; otherwise logarithms are added.
    """
    factor, above = flat.place_factor[target], flat.state_ptr[flat.scope[target]]
    card, count = flat.state_ptr[flat.scope[target] + 1] - above, flat.factor_count[factor]
    base = entry_given(factor, target, target, flat, state, chain)
    for i in range(begin, end):
        base -= flat.stride[trees.own_place[i]] * state[trees.order[i], chain]
    most, states, step, first, one = 0.0, 1, 0, 0, 0.0 if logs else 1.0
    if begin < end:
        v = trees.order[begin]
        first, step = flat.state_ptr[v], flat.stride[trees.own_place[begin]]
        states = flat.state_ptr[v + 1] - first
    for y in range(card):
        top, total = -np.inf, 0.0
        # Sums of logarithms take a pass for the largest term.
        for summing in range(0 if logs else 1, 1 if logs and begin == end else 2):
            at, i = base + y * flat.stride[target], begin
            for k in range(begin + 1, end):
                digit[k - begin] = 0
            while i < max(end, begin + 1):
                rest = one
                for k in range(begin + 1, end):
                    own = belief[flat.state_ptr[trees.order[k]] + digit[k - begin]]
                    rest = rest + own if logs else rest * own
                for x in range(states):
                    entry, own = flat.tables[at + x * step], belief[first + x] if begin < end else one
                    if not logs:
                        total += rest * own * entry
                    elif summing == 0:
                        top = max(top, rest + own + count * entry)
                    elif top > -np.inf:
                        total += np.exp(rest + own + count * entry - top)
                i = begin + 1
                while i < end:
                    v = trees.order[i]
                    digit[i - begin] += 1
                    at += flat.stride[trees.own_place[i]]
                    if digit[i - begin] < flat.state_ptr[v + 1] - flat.state_ptr[v]:
                        i = begin
                        break
                    at -= flat.stride[trees.own_place[i]] * digit[i - begin]
                    digit[i - begin] = 0
                    i += 1
        weight[y] = total if not logs else (top + np.log(total) if total > 0.0 else top)
        most = max(most, total)
    scale = 1.0 / most if most > 0.0 else 0.0
    for y in range(card):
        if logs:
            belief[above + y] += weight[y]
        else:
            belief[above + y] *= weight[y] * scale


@compiled(watched=True)
def tree_sweeps(
    stop: Array,
    sweep: int,
    logs: bool,
    trees: TreeBlocks,
    flat: FlatField,
    walk: Walk,
    record: Record,
) -> None:
    """Draw the variables of each forest together: filter from the leaves to the roots, then sample back.

    Without `logs`, `log_unary` and `tables` of the field are exponentials, scaled to a maximum of 1, tables to the
    power of their factor's count: about twice as fast. The caller makes sure that the product of all that touch a
    variable cannot underflow. `sweep` is the number of sweeps that were recorded before.
    """
    stop[1] = 1
    order, parent, most, mean = trees.order, trees.parent, most_states(trees.order, flat), record.mean
    widest = 1
    for f in range(flat.scope_ptr.size - 1):
        widest = max(widest, flat.scope_ptr[f + 1] - flat.scope_ptr[f])
    for block in prange(walk.chain_ptr.size - 1):
        belief, weight = np.empty(flat.state_ptr[-1]), np.empty(most)
        digit = np.empty(widest, np.int64)
        for tree in range(trees.tree_ptr.size - 1):
            first, last = trees.tree_ptr[tree], trees.tree_ptr[tree + 1]
            for c in range(walk.chain_ptr[block], walk.chain_ptr[block + 1]):
                if stop[0]:
                    break
                for i in range(first, last):
                    v = order[i]
                    for s in range(flat.state_ptr[v], flat.state_ptr[v + 1]):
                        belief[s] = flat.log_unary[s]
                    for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                        if not trees.internal[p]:
                            place = flat.port_place[p]
                            absorb(place, 0, 0, logs, trees, flat, walk.state, c, belief, weight, digit)
                for i in range(first, last):
                    if parent[i] < 0 or (i + 1 < last and trees.sibling[i + 1] == trees.sibling[i]):
                        continue  # a root, or one whose siblings are still to come
                    place, start = trees.parent_place[i], trees.sibling[i]
                    absorb(place, start, i + 1, logs, trees, flat, walk.state, c, belief, weight, digit)
                for i in range(last - 1, first - 1, -1):
                    v = order[i]
                    begin, card = flat.state_ptr[v], flat.state_ptr[v + 1] - flat.state_ptr[v]
                    if parent[i] >= 0:  # whose state has just been drawn
                        place, start = trees.own_place[i], trees.sibling[i]
                        absorb(place, start, i, logs, trees, flat, walk.state, c, belief, weight, digit)
                    if logs:
                        total = exponentials(belief, begin, 1, card)
                    else:
                        total = 0.0
                        for x in range(card):
                            total += belief[begin + x]
                    draw_state(v, c, belief, begin, 1, total, flat, walk, mean[block])
        collect_states(sweep, block, order, flat, walk, record)


@compiled
def energies(
    flat: FlatField, own: Array, tables: Array, factor_graph: Array, state: Array, out: Array
) -> None:
    """Add the log values of all factors, and what `own` has for every state, to ``out[graph, chain]``."""
    for c in prange(state.shape[1]):
        for graph in range(flat.variable_ptr.size - 1):
            for v in range(flat.variable_ptr[graph], flat.variable_ptr[graph + 1]):
                out[graph, c] += own[flat.state_ptr[v] + state[v, c]]
        for f in range(flat.table_start.size):
            entry = entry_given(f, -1, -1, flat, state, c)
            out[factor_graph[f], c] += flat.factor_count[f] * tables[entry]
