"""Sweeps of Gibbs sampling over many chains, one tree of variables at a time."""

from __future__ import annotations

import numpy as np

from hiddenfield.fields.flat_field import FlatField
from hiddenfield.inference.sampling.loops import (
    Record,
    Walk,
    collect_states,
    draw_state,
    entry_given,
    exponentials,
    most_states,
)
from hiddenfield.inference.sampling.tree_blocks import TreeBlocks
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.shapes import Array

__all__ = ["tree_sweeps"]


@subroutine(allocates=False, fast=True)
def absorb(
    factor: int,
    own: int,
    begin: int,
    card: int,
    logs: bool,
    flat: FlatField,
    walk: Walk,
    chain: int,
    belief: Array,
) -> None:
    """Multiply a variable's belief by a factor, given the states of its other variables."""
    entry = entry_given(factor, own, own, flat, walk.state, chain)
    step = flat.stride[own]
    if logs:
        count = flat.factor_count[factor]
        for x in range(card):
            belief[begin + x] += count * flat.tables[entry + x * step]
    else:
        for x in range(card):
            belief[begin + x] *= flat.tables[entry + x * step]


@subroutine(allocates=False, fast=True)
def pass_logs(
    factor: int, entry: int, own: int, other: int, flat: FlatField, belief: Array, weight: Array
) -> None:
    """Add the log message of a variable to its parent's log belief."""
    v, u = flat.scope[own], flat.scope[other]
    begin, card = flat.state_ptr[v], flat.state_ptr[v + 1] - flat.state_ptr[v]
    for y in range(flat.state_ptr[u + 1] - flat.state_ptr[u]):
        here = entry + y * flat.stride[other]
        top = -np.inf
        for x in range(card):
            weight[x] = (
                belief[begin + x] + flat.factor_count[factor] * flat.tables[here + x * flat.stride[own]]
            )
            top = max(top, weight[x])
        if top == -np.inf:
            belief[flat.state_ptr[u] + y] = -np.inf
            continue
        total = 0.0
        for x in range(card):
            total += np.exp(weight[x] - top)
        belief[flat.state_ptr[u] + y] += top + np.log(total)


@subroutine(allocates=False, fast=True)
def pass_products(entry: int, own: int, other: int, flat: FlatField, belief: Array, weight: Array) -> None:
    """Multiply a parent's belief by the message of a variable, scaled to a maximum of 1."""
    v, u = flat.scope[own], flat.scope[other]
    begin, card = flat.state_ptr[v], flat.state_ptr[v + 1] - flat.state_ptr[v]
    above = flat.state_ptr[u + 1] - flat.state_ptr[u]
    top = 0.0
    for y in range(above):
        here = entry + y * flat.stride[other]
        total = 0.0
        for x in range(card):
            total += belief[begin + x] * flat.tables[here + x * flat.stride[own]]
        weight[y] = total
        top = max(top, total)
    scale = 1.0 / top if top > 0.0 else 0.0
    for y in range(above):
        belief[flat.state_ptr[u] + y] *= weight[y] * scale


@compiled
def tree_sweeps(
    sweeps: int,
    logs: bool,
    trees: TreeBlocks,
    flat: FlatField,
    walk: Walk,
    collect: bool,
    record: Record,
) -> None:
    """Draw the variables of each forest together: filter from the leaves to the roots, then sample back.

    ``trees.order[tree_ptr[t]:tree_ptr[t + 1]]`` is a forest whose parents come after their children; `own_place` and
    `parent_place` are the two places of the factor that joins a variable to its parent, `internal` marks the ports
    whose factor joins two variables of one forest.

    Without `logs`, `log_unary` and `tables` of the field are exponentials, scaled to a maximum of 1, tables to the
    power of their factor's count: about twice as fast. The caller makes sure that the product of all that touch a
    variable cannot underflow.
    """
    order, parent, most, mean = trees.order, trees.parent, most_states(trees.order, flat), record.mean
    for block in prange(walk.chain_ptr.size - 1):
        belief, weight = np.empty(flat.state_ptr[-1]), np.empty(most)
        for sweep in range(sweeps):
            for tree in range(trees.tree_ptr.size - 1):
                first, last = trees.tree_ptr[tree], trees.tree_ptr[tree + 1]
                for c in range(walk.chain_ptr[block], walk.chain_ptr[block + 1]):
                    for i in range(first, last):
                        v = order[i]
                        begin, end = flat.state_ptr[v], flat.state_ptr[v + 1]
                        for s in range(begin, end):
                            belief[s] = flat.log_unary[s]
                        for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                            if not trees.internal[p]:
                                own = flat.port_place[p]
                                absorb(
                                    flat.place_factor[own],
                                    own,
                                    begin,
                                    end - begin,
                                    logs,
                                    flat,
                                    walk,
                                    c,
                                    belief,
                                )
                    for i in range(first, last):
                        if parent[i] >= 0:
                            own, other = trees.own_place[i], trees.parent_place[i]
                            f = flat.place_factor[own]
                            entry = entry_given(f, own, other, flat, walk.state, c)
                            if logs:
                                pass_logs(f, entry, own, other, flat, belief, weight)
                            else:
                                pass_products(entry, own, other, flat, belief, weight)
                    for i in range(last - 1, first - 1, -1):
                        v = order[i]
                        begin, card = flat.state_ptr[v], flat.state_ptr[v + 1] - flat.state_ptr[v]
                        if parent[i] >= 0:  # whose state has just been drawn
                            own = trees.own_place[i]
                            absorb(flat.place_factor[own], own, begin, card, logs, flat, walk, c, belief)
                        if logs:
                            total = exponentials(belief, begin, 1, card)
                        else:
                            total = 0.0
                            for x in range(card):
                                total += belief[begin + x]
                        draw_state(v, c, belief, begin, 1, total, flat, walk, collect, mean[block])
            if collect:
                collect_states(record.batch_of[sweep], block, order, flat, walk, record)
