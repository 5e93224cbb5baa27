"""Sweeps of Gibbs sampling over many chains: one variable at a time, or one tree of variables at a time.

States are (variables, chains); chains are split into a fixed number of blocks that run on different threads. Each chain
has its own random numbers (xorshift64*, Vigna 2016), so that what is drawn does not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import kernel, prange

__all__ = ["energies", "scaled_tree_sweeps", "site_sweeps", "tree_sweeps"]


@kernel
def site_sweeps(  # type: ignore[no-untyped-def]
    sweeps,
    beta,
    hard,
    order,
    state_ptr,
    log_unary,
    scope_ptr,
    scope,
    stride,
    table_start,
    tables,
    port_ptr,
    port_place,
    port_weight,
    place_factor,
    chain_ptr,
    state,
    random,
    collect,
    batch_of,
    mean,
    visits,
    joint_start,
    joint,
):
    """Draw each variable of `order` from its distribution given all others, `sweeps` times.

    With `collect`, conditional probabilities are added to ``mean[block]``, visits to ``visits[batch]``, and joint
    states of factors to ``joint[block]``. Factors count `beta` times. Without hard zeros pairs of binary
    variables take a path without branches.
    """
    most = 1
    for v in order:
        most = max(most, state_ptr[v + 1] - state_ptr[v])
    for block in prange(chain_ptr.size - 1):
        first_chain, last_chain = chain_ptr[block], chain_ptr[block + 1]
        width = last_chain - first_chain
        logits = np.empty((most, width))
        offset = np.empty(width, np.int64)
        for sweep in range(sweeps):
            for v in order:
                begin = state_ptr[v]
                card = state_ptr[v + 1] - begin
                binary = card == 2 and not hard
                if binary:
                    for j in range(width):
                        logits[0, j] = log_unary[begin + 1] - log_unary[begin]
                else:
                    for x in range(card):
                        for j in range(width):
                            logits[x, j] = log_unary[begin + x]
                for p in range(port_ptr[v], port_ptr[v + 1]):
                    own = port_place[p]
                    f = place_factor[own]
                    weight = beta * port_weight[p]
                    if weight == 0.0:
                        continue
                    base, step = table_start[f], stride[own]
                    if scope_ptr[f + 1] - scope_ptr[f] == 2:
                        other = 2 * scope_ptr[f] + 1 - own
                        u, across = scope[other], stride[other]
                        if binary and state_ptr[u + 1] - state_ptr[u] == 2:
                            low = weight * (tables[base + step] - tables[base])
                            high = weight * (tables[base + across + step] - tables[base + across]) - low
                            for j in range(width):
                                logits[0, j] += low + high * state[u, first_chain + j]
                            continue
                        for j in range(width):
                            offset[j] = base + across * state[u, first_chain + j]
                    else:
                        for j in range(width):
                            offset[j] = base
                        for other in range(scope_ptr[f], scope_ptr[f + 1]):
                            if other != own:
                                for j in range(width):
                                    offset[j] += stride[other] * state[scope[other], first_chain + j]
                    if binary:
                        for j in range(width):
                            logits[0, j] += weight * (tables[offset[j] + step] - tables[offset[j]])
                    else:
                        for j in range(width):
                            for x in range(card):
                                logits[x, j] += weight * tables[offset[j] + x * step]
                if binary:
                    total = 0.0
                    for j in range(width):
                        c = first_chain + j
                        chance = 1.0 / (1.0 + np.exp(-logits[0, j]))
                        word = random[c]
                        word ^= word >> np.uint64(12)
                        word ^= word << np.uint64(25)
                        word ^= word >> np.uint64(27)
                        random[c] = word
                        uniform = (
                            (word * np.uint64(2685821657736338717)) >> np.uint64(11)
                        ) * 1.1102230246251565e-16
                        state[v, c] = 1 if uniform < chance else 0
                        total += chance
                    if collect:
                        mean[block, begin + 1] += total
                        mean[block, begin] += width - total
                else:
                    for j in range(width):
                        c = first_chain + j
                        top = logits[0, j]
                        for x in range(1, card):
                            top = max(top, logits[x, j])
                        if top == -np.inf:  # no state is possible given the others: stay
                            if collect:
                                mean[block, begin + state[v, c]] += 1.0
                            continue
                        total = 0.0
                        for x in range(card):
                            logits[x, j] = np.exp(logits[x, j] - top)
                            total += logits[x, j]
                        word = random[c]
                        word ^= word >> np.uint64(12)
                        word ^= word << np.uint64(25)
                        word ^= word >> np.uint64(27)
                        random[c] = word
                        uniform = (
                            (word * np.uint64(2685821657736338717)) >> np.uint64(11)
                        ) * 1.1102230246251565e-16
                        rest = uniform * total
                        chosen = -1
                        for x in range(card):
                            if logits[x, j] > 0.0:
                                chosen = x
                                rest -= logits[x, j]
                                if rest < 0.0:
                                    break
                        state[v, c] = chosen
                        if collect:
                            for x in range(card):
                                mean[block, begin + x] += logits[x, j] / total
            if collect:
                batch = batch_of[sweep]
                for v in order:
                    for c in range(first_chain, last_chain):
                        visits[batch, state_ptr[v] + state[v, c], c] += 1
                for f in range(joint_start.size):
                    for c in range(first_chain, last_chain):
                        e = joint_start[f]
                        for place in range(scope_ptr[f], scope_ptr[f + 1]):
                            e += stride[place] * state[scope[place], c]
                        joint[block, e] += 1


@kernel
def tree_sweeps(  # type: ignore[no-untyped-def]
    sweeps,
    tree_ptr,
    order,
    parent,
    own_place,
    parent_place,
    internal,
    state_ptr,
    log_unary,
    scope_ptr,
    scope,
    stride,
    table_start,
    tables,
    factor_count,
    port_ptr,
    port_place,
    place_factor,
    chain_ptr,
    state,
    random,
    collect,
    batch_of,
    mean,
    visits,
    joint_start,
    joint,
):
    """Draw the variables of each forest together: filter from the leaves to the roots, then sample back.

    ``order[tree_ptr[t]:tree_ptr[t + 1]]`` is a forest whose parents come after their children; `own_place` and
    `parent_place` are the two places of the factor that joins a variable to its parent, `internal` marks the ports
    whose factor joins two variables of one forest.
    """
    most = 1
    for v in order:
        most = max(most, state_ptr[v + 1] - state_ptr[v])
    for block in prange(chain_ptr.size - 1):
        belief = np.empty(state_ptr[-1])
        weight = np.empty(most)
        for sweep in range(sweeps):
            for tree in range(tree_ptr.size - 1):
                for c in range(chain_ptr[block], chain_ptr[block + 1]):
                    for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
                        v = order[i]
                        begin, end = state_ptr[v], state_ptr[v + 1]
                        for s in range(begin, end):
                            belief[s] = log_unary[s]
                        for p in range(port_ptr[v], port_ptr[v + 1]):
                            if internal[p]:
                                continue
                            own = port_place[p]
                            f = place_factor[own]
                            e = table_start[f]
                            for other in range(scope_ptr[f], scope_ptr[f + 1]):
                                if other != own:
                                    e += stride[other] * state[scope[other], c]
                            for x in range(end - begin):
                                belief[begin + x] += factor_count[f] * tables[e + x * stride[own]]
                    for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
                        v, u = order[i], parent[i]
                        if u < 0:
                            continue
                        own, other = own_place[i], parent_place[i]
                        f = place_factor[own]
                        e = table_start[f]
                        for place in range(scope_ptr[f], scope_ptr[f + 1]):
                            if place != own and place != other:
                                e += stride[place] * state[scope[place], c]
                        begin, card = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
                        for y in range(state_ptr[u + 1] - state_ptr[u]):
                            entry = e + y * stride[other]
                            top = -np.inf
                            for x in range(card):
                                weight[x] = (
                                    belief[begin + x] + factor_count[f] * tables[entry + x * stride[own]]
                                )
                                top = max(top, weight[x])
                            if top == -np.inf:
                                belief[state_ptr[u] + y] = -np.inf
                                continue
                            total = 0.0
                            for x in range(card):
                                total += np.exp(weight[x] - top)
                            belief[state_ptr[u] + y] += top + np.log(total)
                    for i in range(tree_ptr[tree + 1] - 1, tree_ptr[tree] - 1, -1):
                        v, u = order[i], parent[i]
                        begin, card = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
                        if u >= 0:
                            own, other = own_place[i], parent_place[i]
                            f = place_factor[own]
                            e = table_start[f]
                            for place in range(scope_ptr[f], scope_ptr[f + 1]):
                                if place != own:  # the parent's state has just been drawn
                                    e += stride[place] * state[scope[place], c]
                            for x in range(card):
                                belief[begin + x] += factor_count[f] * tables[e + x * stride[own]]
                        top = -np.inf
                        for x in range(card):
                            top = max(top, belief[begin + x])
                        if top == -np.inf:
                            if collect:
                                mean[block, begin + state[v, c]] += 1.0
                            continue
                        total = 0.0
                        for x in range(card):
                            weight[x] = np.exp(belief[begin + x] - top)
                            total += weight[x]
                        word = random[c]
                        word ^= word >> np.uint64(12)
                        word ^= word << np.uint64(25)
                        word ^= word >> np.uint64(27)
                        random[c] = word
                        uniform = (
                            (word * np.uint64(2685821657736338717)) >> np.uint64(11)
                        ) * 1.1102230246251565e-16
                        rest = uniform * total
                        chosen = -1
                        for x in range(card):
                            if weight[x] > 0.0:
                                chosen = x
                                rest -= weight[x]
                                if rest < 0.0:
                                    break
                        state[v, c] = chosen
                        if collect:
                            for x in range(card):
                                mean[block, begin + x] += weight[x] / total
            if collect:
                batch = batch_of[sweep]
                for v in order:
                    for c in range(chain_ptr[block], chain_ptr[block + 1]):
                        visits[batch, state_ptr[v] + state[v, c], c] += 1
                for f in range(joint_start.size):
                    for c in range(chain_ptr[block], chain_ptr[block + 1]):
                        e = joint_start[f]
                        for place in range(scope_ptr[f], scope_ptr[f + 1]):
                            e += stride[place] * state[scope[place], c]
                        joint[block, e] += 1


@kernel
def scaled_tree_sweeps(  # type: ignore[no-untyped-def]
    sweeps,
    tree_ptr,
    order,
    parent,
    own_place,
    parent_place,
    internal,
    state_ptr,
    unary,
    scope_ptr,
    scope,
    stride,
    table_start,
    tables,
    port_ptr,
    port_place,
    place_factor,
    chain_ptr,
    state,
    random,
    collect,
    batch_of,
    mean,
    visits,
    joint_start,
    joint,
):
    """Do as `tree_sweeps` with potentials in place of their logarithms, about twice as fast.

    `unary` and `tables` are exponentials, scaled to a maximum of 1, tables to the power of their factor's count. The
    caller makes sure that the product of all that touch a variable cannot underflow. Every message is scaled to a
    maximum of 1.
    """
    most = 1
    for v in order:
        most = max(most, state_ptr[v + 1] - state_ptr[v])
    for block in prange(chain_ptr.size - 1):
        belief = np.empty(state_ptr[-1])
        weight = np.empty(most)
        for sweep in range(sweeps):
            for tree in range(tree_ptr.size - 1):
                for c in range(chain_ptr[block], chain_ptr[block + 1]):
                    for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
                        v = order[i]
                        begin, end = state_ptr[v], state_ptr[v + 1]
                        for s in range(begin, end):
                            belief[s] = unary[s]
                        for p in range(port_ptr[v], port_ptr[v + 1]):
                            if internal[p]:
                                continue
                            own = port_place[p]
                            f = place_factor[own]
                            e = table_start[f]
                            for other in range(scope_ptr[f], scope_ptr[f + 1]):
                                if other != own:
                                    e += stride[other] * state[scope[other], c]
                            for x in range(end - begin):
                                belief[begin + x] *= tables[e + x * stride[own]]
                    for i in range(tree_ptr[tree], tree_ptr[tree + 1]):
                        v, u = order[i], parent[i]
                        if u < 0:
                            continue
                        own, other = own_place[i], parent_place[i]
                        f = place_factor[own]
                        e = table_start[f]
                        for place in range(scope_ptr[f], scope_ptr[f + 1]):
                            if place != own and place != other:
                                e += stride[place] * state[scope[place], c]
                        begin, card = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
                        card_u = state_ptr[u + 1] - state_ptr[u]
                        top = 0.0
                        for y in range(card_u):
                            entry = e + y * stride[other]
                            total = 0.0
                            for x in range(card):
                                total += belief[begin + x] * tables[entry + x * stride[own]]
                            weight[y] = total
                            top = max(top, total)
                        scale = 1.0 / top if top > 0.0 else 0.0
                        for y in range(card_u):
                            belief[state_ptr[u] + y] *= weight[y] * scale
                    for i in range(tree_ptr[tree + 1] - 1, tree_ptr[tree] - 1, -1):
                        v, u = order[i], parent[i]
                        begin, card = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
                        if u >= 0:
                            own, other = own_place[i], parent_place[i]
                            f = place_factor[own]
                            e = table_start[f]
                            for place in range(scope_ptr[f], scope_ptr[f + 1]):
                                if place != own:  # the parent's state has just been drawn
                                    e += stride[place] * state[scope[place], c]
                            for x in range(card):
                                belief[begin + x] *= tables[e + x * stride[own]]
                        total = 0.0
                        for x in range(card):
                            total += belief[begin + x]
                        if total == 0.0:
                            if collect:
                                mean[block, begin + state[v, c]] += 1.0
                            continue
                        word = random[c]
                        word ^= word >> np.uint64(12)
                        word ^= word << np.uint64(25)
                        word ^= word >> np.uint64(27)
                        random[c] = word
                        uniform = (
                            (word * np.uint64(2685821657736338717)) >> np.uint64(11)
                        ) * 1.1102230246251565e-16
                        rest = uniform * total
                        chosen = -1
                        for x in range(card):
                            if belief[begin + x] > 0.0:
                                chosen = x
                                rest -= belief[begin + x]
                                if rest < 0.0:
                                    break
                        state[v, c] = chosen
                        if collect:
                            for x in range(card):
                                mean[block, begin + x] += belief[begin + x] / total
            if collect:
                batch = batch_of[sweep]
                for v in order:
                    for c in range(chain_ptr[block], chain_ptr[block + 1]):
                        visits[batch, state_ptr[v] + state[v, c], c] += 1
                for f in range(joint_start.size):
                    for c in range(chain_ptr[block], chain_ptr[block + 1]):
                        e = joint_start[f]
                        for place in range(scope_ptr[f], scope_ptr[f + 1]):
                            e += stride[place] * state[scope[place], c]
                        joint[block, e] += 1


@kernel
def energies(  # type: ignore[no-untyped-def]
    variable_ptr,
    state_ptr,
    own,
    scope_ptr,
    scope,
    stride,
    table_start,
    tables,
    factor_count,
    factor_graph,
    state,
    out,
):
    """Add the log values of all factors, and what `own` has for every state, to ``out[graph, chain]``."""
    for c in prange(state.shape[1]):
        for graph in range(variable_ptr.size - 1):
            for v in range(variable_ptr[graph], variable_ptr[graph + 1]):
                out[graph, c] += own[state_ptr[v] + state[v, c]]
        for f in range(table_start.size):
            e = table_start[f]
            for place in range(scope_ptr[f], scope_ptr[f + 1]):
                e += stride[place] * state[scope[place], c]
            out[factor_graph[f], c] += factor_count[f] * tables[e]
