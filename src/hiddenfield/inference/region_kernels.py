"""Compiled sweeps over a region graph: all messages of one inner region at a time, with Anderson's acceleration."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.ops.compile import kernel, prange

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
        first_inner = graph_ptr[graph]
        last_inner = graph_ptr[graph + 1]
        low = message_ptr[pair_ptr[first_inner]]
        high = message_ptr[pair_ptr[last_inner]]
        mixture = np.zeros(max(memory, 1))
        system = np.zeros((max(memory, 1), max(memory, 1)))
        for _ in range(rounds):
            if residual[graph] <= tolerance:
                break
            # Rebuild the tables of this graph's outer regions from the messages.
            for place in range(outer_ptr[graph], outer_ptr[graph + 1]):
                outer = outer_order[place]
                for entry in range(table_ptr[outer], table_ptr[outer + 1]):
                    tables[entry] = log_tables[entry]
            for pair in range(pair_ptr[first_inner], pair_ptr[last_inner]):
                start = message_ptr[pair]
                table = table_ptr[pair_outer[pair]]
                size = table_ptr[pair_outer[pair] + 1] - table
                base = map_start[pair]
                for x in range(size):
                    tables[table + x] += messages[start + maps[base + x]]
            for place in range(outer_ptr[graph], outer_ptr[graph + 1]):
                outer = outer_order[place]
                top = -math.inf
                for entry in range(table_ptr[outer], table_ptr[outer + 1]):
                    top = max(top, tables[entry])
                for entry in range(table_ptr[outer], table_ptr[outer + 1]):
                    weights[entry] = math.exp(tables[entry] - top) if top > -math.inf else 0.0
            if memory > 0:
                slot = done[graph] % memory
                for k in range(low, high):
                    past_change[slot, k] = messages[k]
            worst = 0.0
            for inner in range(first_inner, last_inner):
                origin = inner_ptr[inner]
                states = inner_ptr[inner + 1] - origin
                for x in range(states):
                    belief[origin + x] = log_inner[origin + x]
                    if anchored and remainder[inner] != 0.0 and belief[origin + x] > -math.inf:
                        belief[origin + x] -= remainder[inner] * anchor[origin + x]
                share = 1.0 if anchored else 1.0 - remainder[inner] / degree[inner]
                for pair in range(pair_ptr[inner], pair_ptr[inner + 1]):
                    start = message_ptr[pair]
                    outer = pair_outer[pair]
                    table = table_ptr[outer]
                    size = table_ptr[outer + 1] - table
                    base = map_start[pair]
                    for x in range(states):
                        marginals[start + x] = 0.0
                    for x in range(size):
                        marginals[start + maps[base + x]] += weights[table + x]
                    total = 0.0
                    for x in range(states):
                        total += marginals[start + x]
                    for x in range(states):
                        value = marginals[start + x]
                        if value > 0.0:
                            value = math.log(value / total)
                        else:
                            # Dead, or too small for an exponential: the logs know which.
                            top = -math.inf
                            most = -math.inf
                            for y in range(size):
                                most = max(most, tables[table + y])
                                if maps[base + y] == x:
                                    top = max(top, tables[table + y])
                            value = top - most if top > -math.inf else -math.inf
                        marginals[start + x] = value
                        if value > -math.inf and belief[origin + x] > -math.inf:
                            belief[origin + x] += weight[pair] * (share * value - messages[start + x])
                        else:
                            belief[origin + x] = -math.inf
                top = -math.inf
                for x in range(states):
                    belief[origin + x] /= denominator[inner]
                    top = max(top, belief[origin + x])
                if top > -math.inf:
                    total = 0.0
                    for x in range(states):
                        total += math.exp(belief[origin + x] - top)
                    top += math.log(total)
                    for x in range(states):
                        belief[origin + x] -= top
                for pair in range(pair_ptr[inner], pair_ptr[inner + 1]):
                    start = message_ptr[pair]
                    outer = pair_outer[pair]
                    table = table_ptr[outer]
                    size = table_ptr[outer + 1] - table
                    base = map_start[pair]
                    for x in range(states):
                        value = belief[origin + x]
                        if value == -math.inf:
                            if marginals[start + x] > -math.inf:
                                worst = max(worst, math.exp(marginals[start + x]))
                            messages[start + x] = -math.inf
                            marginals[start + x] = 0.0
                            continue
                        change = value - marginals[start + x]
                        worst = max(worst, abs(math.exp(value) * change))
                        change *= 1.0 - damping
                        messages[start + x] += change
                        # Beyond this the product could overflow; the next sweep rebuilds it.
                        marginals[start + x] = math.exp(min(change, 100.0))
                    for x in range(size):
                        weights[table + x] *= marginals[start + maps[base + x]]
            residual[graph] = worst
            number = done[graph]
            done[graph] = number + 1
            if memory == 0 or worst <= tolerance:
                continue
            # Anderson's acceleration: the affine combination of past states whose combined change is smallest.
            slot = number % memory
            for k in range(low, high):
                value = messages[k]
                if value == -math.inf:
                    past_change[slot, k] = 0.0
                    past[slot, k] = 0.0
                else:
                    past_change[slot, k] = value - past_change[slot, k]
                    past[slot, k] = value
            if worst > 3.0 * best[graph]:
                slots[graph] = 0
                best[graph] = math.inf
            best[graph] = min(best[graph], worst)
            slots[graph] = min(slots[graph] + 1, memory)
            filled = slots[graph]
            for j in range(filled):
                other = (number - j) % memory
                s0 = 0.0
                s1 = 0.0
                s2 = 0.0
                s3 = 0.0
                k = low
                while k + 4 <= high:
                    s0 += past_change[slot, k] * past_change[other, k]
                    s1 += past_change[slot, k + 1] * past_change[other, k + 1]
                    s2 += past_change[slot, k + 2] * past_change[other, k + 2]
                    s3 += past_change[slot, k + 3] * past_change[other, k + 3]
                    k += 4
                while k < high:
                    s0 += past_change[slot, k] * past_change[other, k]
                    k += 1
                gram[graph, slot, other] = s0 + s1 + s2 + s3
                gram[graph, other, slot] = gram[graph, slot, other]
            if filled < 2 or number < begin:
                continue
            # Solve (scaled gram + small ridge) y = 1 / scale by elimination; the mixture is y / scale, normalised.
            healthy = True
            for i in range(filled):
                a = (number - i) % memory
                if not gram[graph, a, a] > 0.0 or gram[graph, a, a] == math.inf:
                    healthy = False
            if not healthy:
                continue
            for i in range(filled):
                a = (number - i) % memory
                mixture[i] = 1.0 / math.sqrt(gram[graph, a, a])
            smallest = mixture[0]
            for i in range(filled):
                smallest = min(smallest, mixture[i])
            for i in range(filled):
                a = (number - i) % memory
                for j in range(filled):
                    b = (number - j) % memory
                    system[i, j] = gram[graph, a, b] * mixture[i] * mixture[j]
                system[i, i] += 1e-10
            right = np.empty(filled)
            for i in range(filled):
                right[i] = mixture[i] / smallest
            for i in range(filled):
                for j in range(i + 1, filled):
                    ratio = system[j, i] / system[i, i]
                    for k in range(i, filled):
                        system[j, k] -= ratio * system[i, k]
                    right[j] -= ratio * right[i]
            for back in range(filled):
                i = filled - 1 - back
                for j in range(i + 1, filled):
                    right[i] -= system[i, j] * right[j]
                right[i] /= system[i, i]
            total = 0.0
            size_of_all = 0.0
            for i in range(filled):
                right[i] *= mixture[i]
                total += right[i]
                size_of_all += abs(right[i])
            if not abs(total) > 1e-6 * size_of_all:
                continue
            for i in range(filled):
                a = (number - i) % memory
                share = right[i] / total
                if i == 0:
                    for k in range(low, high):
                        if messages[k] > -math.inf:
                            messages[k] = share * past[a, k]
                else:
                    for k in range(low, high):
                        if messages[k] > -math.inf:
                            messages[k] += share * past[a, k]
