"""Split variables into few sets that each induce a forest: what can be sampled together exactly."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from hiddenfield.fields.flat_field import FlatField
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array

__all__ = ["TreeBlocks", "tree_blocks"]


class TreeBlocks(NamedTuple):
    """Forests of variables, each in an order in which children come before their parents; see `tree_sweeps`."""

    tree_ptr: Array
    order: Array
    parent: Array
    own_place: Array
    parent_place: Array
    internal: Array


def tree_blocks(flat: FlatField, free: Array) -> TreeBlocks:
    """Take variables greedily into a forest as long as they close no cycle, then begin the next one.

    A factor joins two variables of a forest where exactly these two of its scope are in it; one that would hold three
    is avoided. On a grid three quarters of the variables are in the first forest. Hamze and de Freitas (2004).

    Parameters
    ----------
    flat
        The field.
    free
        Which variables are to be sampled; the others stay as they are.
    """
    variables = len(flat.state_ptr) - 1
    block = np.where(free, -1, -2)
    arrays = (flat.port_ptr, flat.port_place, flat.place_factor, flat.scope_ptr, flat.scope)
    _assign(*arrays, block, work=0)
    order, parent = np.full(variables, -1), np.full(variables, -1)
    own_place, parent_place = np.full(variables, -1), np.full(variables, -1)
    _root(*arrays, block, order, parent, own_place, parent_place, work=0)
    count = int((block >= 0).sum())
    taken = order[:count]
    sizes = np.bincount(block[block >= 0], minlength=int(block.max(initial=-1)) + 1)
    inside = np.zeros(len(flat.port_place), np.bool_)
    _internal(*arrays, block, inside, work=0)
    # Within a forest from the last found to the first, so that children come before parents.
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    turned = np.concatenate(
        [
            np.zeros(0, np.int64),
            *(np.arange(b, a, -1) - 1 for a, b in itertools.pairwise(bounds)),
        ]
    )
    return TreeBlocks(
        bounds,
        taken[turned],
        parent[taken[turned]],
        own_place[taken[turned]],
        parent_place[taken[turned]],
        inside,
    )


@compiled
def _assign(port_ptr, port_place, place_factor, scope_ptr, scope, block):  # type: ignore[no-untyped-def]
    """Give each variable the number of its forest in place of -1; -2 stays."""
    variables = block.size
    left = 0
    for v in range(variables):
        left += block[v] == -1
    inside = np.zeros(scope_ptr.size - 1, np.int64)
    root = np.arange(variables)
    met = np.full(variables, -1, np.int64)
    number = 0
    while left > 0:
        inside[:] = 0
        for v in range(variables):
            if block[v] != -1:
                continue
            joins = True
            for p in range(port_ptr[v], port_ptr[v + 1]):
                f = place_factor[port_place[p]]
                if inside[f] > 1:
                    joins = False
                    break
                if inside[f] == 1:
                    for place in range(scope_ptr[f], scope_ptr[f + 1]):
                        u = scope[place]
                        if block[u] == number:
                            while root[u] != u:
                                root[u] = root[root[u]]
                                u = root[u]
                            if met[u] == v:
                                joins = False
                            met[u] = v
            if joins:
                block[v] = number
                left -= 1
                for p in range(port_ptr[v], port_ptr[v + 1]):
                    f = place_factor[port_place[p]]
                    inside[f] += 1
                    for place in range(scope_ptr[f], scope_ptr[f + 1]):
                        u = scope[place]
                        if u != v and block[u] == number:
                            while root[u] != u:
                                u = root[u]
                            root[u] = v
        for v in range(variables):
            root[v] = v
            met[v] = -1
        number += 1


@compiled
def _root(  # type: ignore[no-untyped-def]
    port_ptr, port_place, place_factor, scope_ptr, scope, block, order, parent, own_place, parent_place
):
    """List each forest from its roots, with the parent of every variable."""
    seen = np.zeros(block.size, np.bool_)
    tail = 0
    most = -1
    for v in range(block.size):
        most = max(most, block[v])
    for number in range(most + 1):
        for start in range(block.size):
            if block[start] != number or seen[start]:
                continue
            seen[start] = True
            order[tail] = start
            head = tail
            tail += 1
            while head < tail:
                v = order[head]
                head += 1
                for p in range(port_ptr[v], port_ptr[v + 1]):
                    own = port_place[p]
                    f = place_factor[own]
                    for place in range(scope_ptr[f], scope_ptr[f + 1]):
                        u = scope[place]
                        if block[u] == number and not seen[u]:
                            seen[u] = True
                            parent[u] = v
                            own_place[u] = place
                            parent_place[u] = own
                            order[tail] = u
                            tail += 1


@compiled
def _internal(port_ptr, port_place, place_factor, scope_ptr, scope, block, inside):  # type: ignore[no-untyped-def]
    for v in range(block.size):
        if block[v] < 0:
            continue
        for p in range(port_ptr[v], port_ptr[v + 1]):
            f = place_factor[port_place[p]]
            for place in range(scope_ptr[f], scope_ptr[f + 1]):
                if scope[place] != v and block[scope[place]] == block[v]:
                    inside[p] = True
