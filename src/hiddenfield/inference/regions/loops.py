"""Compiled sweeps over a region graph: all messages of one inner region at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.vector_math import fast_exp, fast_log
from hiddenfield.shapes import Array


class RegionArrays(NamedTuple):
    """What a sweep reads: bounds and places of regions, pairs and messages, log potentials, and how regions count."""

    graph_ptr: Array
    inner_ptr: Array
    pair_ptr: Array
    pair_outer: Array
    message_ptr: Array
    map_start: Array
    maps: Array
    weight: Array
    outer_ptr: Array
    outer_order: Array
    table_ptr: Array
    log_tables: Array
    log_inner: Array
    denominator: Array
    remainder: Array
    degree: Array


class Tables(NamedTuple):
    """What a sweep writes besides messages: log tables of outer regions and their exponentials, and beliefs.

    The exponentials are multiplied in place, so that a sweep takes one exponential for each state of an inner region
    instead of an outer one; both are rebuilt from the messages at the start of a sweep.
    """

    logs: Array
    weights: Array
    marginals: Array
    belief: Array
    chance: Array


@compiled(watched=True)
def sweep_regions(
    stop: Array,
    regions: RegionArrays,
    anchor: Array,
    anchored: bool,
    step: float,
    active: Array,
    messages: Array,
    tables: Tables,
    gap: Array,
) -> None:
    """Update all inner regions of every active graph in turn; `gap` is its largest difference of beliefs before."""
    stop[1] = 1
    for graph in prange(regions.graph_ptr.size - 1):
        if active[graph]:
            rebuild(graph, regions, messages, tables)
            worst = 0.0
            for inner in range(regions.graph_ptr[graph], regions.graph_ptr[graph + 1]):
                if stop[0]:
                    break
                worst = max(worst, update(inner, regions, anchor, anchored, step, messages, tables))
            gap[graph] = worst


@subroutine(allocates=False)
def rebuild(graph: int, regions: RegionArrays, messages: Array, tables: Tables) -> None:
    """Add the messages to the log potentials of a graph's outer regions, and take exponentials, the largest 1."""
    table_ptr, pair_ptr = regions.table_ptr, regions.pair_ptr
    outers = regions.outer_order[regions.outer_ptr[graph] : regions.outer_ptr[graph + 1]]
    for place in range(outers.size):
        for entry in range(table_ptr[outers[place]], table_ptr[outers[place] + 1]):
            tables.logs[entry] = regions.log_tables[entry]
    for pair in range(pair_ptr[regions.graph_ptr[graph]], pair_ptr[regions.graph_ptr[graph + 1]]):
        message = messages[regions.message_ptr[pair] : regions.message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.logs)
        for x in range(table.size):
            table[x] += message[projection[x]]
    for place in range(outers.size):
        start = table_ptr[outers[place]]
        end = table_ptr[outers[place] + 1]
        exponentials(tables.logs[start:end], tables.weights[start:end])


@subroutine(allocates=False, fast=True)
def outer_table(pair: int, regions: RegionArrays, tables: Array) -> tuple[Array, Array]:
    """Return the table of a pair's outer region, and of each of its entries the state of the inner one."""
    outer = regions.pair_outer[pair]
    table = tables[regions.table_ptr[outer] : regions.table_ptr[outer + 1]]
    return table, regions.maps[regions.map_start[pair] : regions.map_start[pair] + table.size]


@subroutine(allocates=False, fast=True)
def exponentials(table, out):  # type: ignore[no-untyped-def]
    """Take exponentials so that the largest is 1; zeros where there is nothing but -inf."""
    top = -math.inf
    for x in range(table.size):
        top = max(top, table[x])
    if top == -math.inf:
        top = 0.0
    for x in range(table.size):
        out[x] = fast_exp(table[x] - top)


@subroutine(allocates=False)
def update(
    inner: int,
    regions: RegionArrays,
    anchor: Array,
    anchored: bool,
    step: float,
    messages: Array,
    tables: Tables,
) -> float:
    """Give one inner region its new belief and its outer regions the messages that make them agree with it.

    Returns the largest difference, in probability, between what an outer region believed and the new belief.
    """
    message_ptr, marginals = regions.message_ptr, tables.marginals
    origin = regions.inner_ptr[inner]
    states = regions.inner_ptr[inner + 1] - origin
    first, last = regions.pair_ptr[inner], regions.pair_ptr[inner + 1]
    low, high = message_ptr[first], message_ptr[last]
    here, probability = tables.belief[origin : origin + states], tables.chance[origin : origin + states]
    remainder = regions.remainder[inner]
    plain = True
    for pair in range(first, last):
        marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.weights)
        for x in range(states):
            marginal[x] = 0.0
        for x in range(table.size):
            marginal[projection[x]] += table[x]
        total = 0.0
        for x in range(states):
            total += marginal[x]
            plain = plain and marginal[x] > 1e-290
        scale = 1.0 / total if total > 0.0 else 0.0
        for x in range(states):
            marginal[x] *= scale
    logarithms(marginals[low:high])
    for x in range(states):
        here[x] = regions.log_inner[origin + x]
        plain = plain and here[x] > -math.inf
    if not plain:
        # Dead states, or such as are too small for an exponential: the logs know which.
        for pair in range(first, last):
            marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
            table, projection = outer_table(pair, regions, tables.logs)
            most = -math.inf
            for y in range(table.size):
                most = max(most, table[y])
            for x in range(states):
                if marginal[x] < -660.0:
                    marginal[x] = -math.inf
                    for y in range(table.size):
                        if projection[y] == x:
                            marginal[x] = max(marginal[x], table[y] - most if most > -math.inf else most)
                if marginal[x] == -math.inf:
                    here[x] = -math.inf
    share = 1.0
    if anchored:
        if remainder != 0.0:
            for x in range(states):
                if here[x] > -math.inf:
                    here[x] -= remainder * anchor[origin + x]
    else:
        share -= remainder / regions.degree[inner]
    for pair in range(first, last):
        start = message_ptr[pair]
        for x in range(states):
            if here[x] > -math.inf:
                here[x] += regions.weight[pair] * (share * marginals[start + x] - messages[start + x])
    top = -math.inf
    for x in range(states):
        here[x] /= regions.denominator[inner]
        top = max(top, here[x])
    if top == -math.inf:
        top = 0.0
    total = 0.0
    for x in range(states):
        probability[x] = fast_exp(here[x] - top)
        total += probability[x]
    if total > 0.0:
        top += fast_log(total)
        for x in range(states):
            here[x] -= top
            probability[x] /= total
    worst = 0.0
    for pair in range(first, last):
        start = message_ptr[pair]
        for x in range(states):
            if here[x] > -math.inf:
                change = here[x] - marginals[start + x]
                worst = max(worst, probability[x] * abs(change))
                marginals[start + x] = step * change
            else:
                worst = max(worst, fast_exp(marginals[start + x]))
                marginals[start + x] = -math.inf
    apply(messages[low:high], marginals[low:high])
    for pair in range(first, last):
        factor = marginals[message_ptr[pair] : message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.weights)
        for x in range(table.size):
            table[x] *= factor[projection[x]]
    return worst


@subroutine(allocates=False, fast=True)
def logarithms(values):  # type: ignore[no-untyped-def]
    """Replace numbers by their logarithms."""
    for k in range(values.size):
        values[k] = fast_log(values[k])


@subroutine(allocates=False, fast=True)
def apply(messages, change):  # type: ignore[no-untyped-def]
    """Add a change to messages, and replace it by the factor that it is for weights."""
    for k in range(messages.size):
        messages[k] += change[k]
        # A larger factor could overflow; the next sweep rebuilds the weights anyhow.
        change[k] = fast_exp(min(change[k], 100.0))
