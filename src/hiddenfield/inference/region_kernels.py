"""Compiled sweeps over a region graph: all messages of one inner region at a time, with Anderson's acceleration."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.inference.mixing_kernels import accumulate, clear, dot, remember, shares
from hiddenfield.ops.compile import kernel, prange, subroutine
from hiddenfield.ops.vector_math import fast_exp, fast_log

__all__ = ["relax_regions"]


@kernel
def relax_regions(  # type: ignore[no-untyped-def]
    graph_ptr,
    inner_ptr,
    pair_ptr,
    pair_outer,
    message_ptr,
    map_start,
    maps,
    weight,
    outer_ptr,
    outer_order,
    table_ptr,
    log_tables,
    log_inner,
    denominator,
    remainder,
    degree,
    anchor,
    anchored,
    damping,
    tolerance,
    rounds,
    begin,
    messages,
    tables,
    weights,
    marginals,
    belief,
    chance,
    past,
    past_change,
    gram,
    slots,
    best,
    residual,
    done,
):
    """Run up to `rounds` sweeps over each graph, until its residual is at most the tolerance.

    `tables` are logs, rebuilt from the messages at the start of a sweep; `weights` their exponentials, which a sweep
    multiplies in place, so that it takes one exponential for each state of an inner region instead of an outer one.
    """
    memory = past.shape[0]
    for graph in prange(graph_ptr.size - 1):
        low = message_ptr[pair_ptr[graph_ptr[graph]]]
        high = message_ptr[pair_ptr[graph_ptr[graph + 1]]]
        mixture = np.empty(max(memory, 1))
        right = np.empty(max(memory, 1))
        system = np.empty((max(memory, 1), max(memory, 1)))
        for _ in range(rounds):
            if residual[graph] <= tolerance:
                break
            rebuild(
                outer_order[outer_ptr[graph] : outer_ptr[graph + 1]],
                pair_ptr[graph_ptr[graph]],
                pair_ptr[graph_ptr[graph + 1]],
                pair_outer,
                message_ptr,
                map_start,
                maps,
                table_ptr,
                log_tables,
                messages,
                tables,
                weights,
            )
            number = done[graph]
            if memory > 0:
                past_change[number % memory, low:high] = messages[low:high]
            worst = 0.0
            for inner in range(graph_ptr[graph], graph_ptr[graph + 1]):
                change = update(
                    inner,
                    inner_ptr,
                    pair_ptr,
                    pair_outer,
                    message_ptr,
                    map_start,
                    maps,
                    weight,
                    table_ptr,
                    log_inner,
                    denominator[inner],
                    remainder[inner],
                    degree[inner],
                    anchor,
                    anchored,
                    1.0 - damping,
                    messages,
                    tables,
                    weights,
                    marginals,
                    belief,
                    chance,
                )
                worst = max(worst, change)
            residual[graph] = worst
            done[graph] = number + 1
            if memory == 0 or worst <= tolerance:
                continue
            if worst > 3.0 * best[graph]:
                slots[graph] = 0
                best[graph] = math.inf
            best[graph] = min(best[graph], worst)
            slots[graph] = min(slots[graph] + 1, memory)
            filled = slots[graph]
            remember(
                messages[low:high], past[number % memory, low:high], past_change[number % memory, low:high]
            )
            for inner in range(graph_ptr[graph], graph_ptr[graph + 1]):
                origin = inner_ptr[inner]
                states = inner_ptr[inner + 1] - origin
                for x in range(states):
                    # Logarithms of tiny probabilities would drown the others in the norm of the change.
                    root = math.sqrt(chance[origin + x])
                    for pair in range(pair_ptr[inner], pair_ptr[inner + 1]):
                        past_change[number % memory, message_ptr[pair] + x] *= root
            for back in range(filled):
                one = number % memory
                other = (number - back) % memory
                gram[graph, one, other] = dot(past_change[one, low:high], past_change[other, low:high])
                gram[graph, other, one] = gram[graph, one, other]
            if number < begin or not shares(gram[graph], number, filled, system, right, mixture):
                continue
            clear(messages[low:high])
            for back in range(filled):
                accumulate(messages[low:high], past[(number - back) % memory, low:high], mixture[back])


@subroutine(allocates=False)
def rebuild(  # type: ignore[no-untyped-def]
    outers,
    first_pair,
    last_pair,
    pair_outer,
    message_ptr,
    map_start,
    maps,
    table_ptr,
    log_tables,
    messages,
    tables,
    weights,
):
    """Add the messages to the log potentials of outer regions, and take exponentials, the largest 1."""
    for place in range(outers.size):
        start = table_ptr[outers[place]]
        end = table_ptr[outers[place] + 1]
        for entry in range(start, end):
            tables[entry] = log_tables[entry]
    for pair in range(first_pair, last_pair):
        message = messages[message_ptr[pair] : message_ptr[pair + 1]]
        table = tables[table_ptr[pair_outer[pair]] : table_ptr[pair_outer[pair] + 1]]
        projection = maps[map_start[pair] : map_start[pair] + table.size]
        for x in range(table.size):
            table[x] += message[projection[x]]
    for place in range(outers.size):
        start = table_ptr[outers[place]]
        end = table_ptr[outers[place] + 1]
        exponentials(tables[start:end], weights[start:end])


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
def update(  # type: ignore[no-untyped-def]
    inner,
    inner_ptr,
    pair_ptr,
    pair_outer,
    message_ptr,
    map_start,
    maps,
    weight,
    table_ptr,
    log_inner,
    denominator,
    remainder,
    degree,
    anchor,
    anchored,
    step,
    messages,
    tables,
    weights,
    marginals,
    belief,
    chance,
):
    """Give one inner region its new belief and its outer regions the messages that make them agree with it.

    Returns the largest difference, in probability, between what an outer region believed and the new belief.
    """
    origin = inner_ptr[inner]
    states = inner_ptr[inner + 1] - origin
    first = pair_ptr[inner]
    last = pair_ptr[inner + 1]
    low = message_ptr[first]
    high = message_ptr[last]
    here = belief[origin : origin + states]
    probability = chance[origin : origin + states]
    plain = True
    for pair in range(first, last):
        marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
        table = weights[table_ptr[pair_outer[pair]] : table_ptr[pair_outer[pair] + 1]]
        projection = maps[map_start[pair] : map_start[pair] + table.size]
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
        here[x] = log_inner[origin + x]
        plain = plain and here[x] > -math.inf
    if not plain:
        # Dead states, or such as are too small for an exponential: the logs know which.
        for pair in range(first, last):
            marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
            table = tables[table_ptr[pair_outer[pair]] : table_ptr[pair_outer[pair] + 1]]
            projection = maps[map_start[pair] : map_start[pair] + table.size]
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
        share -= remainder / degree
    for pair in range(first, last):
        start = message_ptr[pair]
        for x in range(states):
            if here[x] > -math.inf:
                here[x] += weight[pair] * (share * marginals[start + x] - messages[start + x])
    top = -math.inf
    for x in range(states):
        here[x] /= denominator
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
        table = weights[table_ptr[pair_outer[pair]] : table_ptr[pair_outer[pair] + 1]]
        projection = maps[map_start[pair] : map_start[pair] + table.size]
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
