"""Variables that can be updated together: colours, no two of which share a factor, and sets that induce forests."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.layout import FlatField, flatten
from hiddenfield.inference.sampling.loops import TreeBlocks
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Int, Tensor

__all__ = ["colour_variables", "tree_blocks"]


def colour_variables(field: FactorGraph) -> Int[Tensor, " variables"]:
    """Return a colour for every variable, greedily: variables of high degree first, the lowest colour that is free.

    At most one more colour than the most neighbours of a variable; two on a grid's checkerboard. Linear in the ports
    times the arity. A variable that one factor names twice (in a field with counts) still gets one colour.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> colour_variables(from_factors([[0, 1], [1, 2]], [np.zeros((2, 2))] * 2))
    tensor([1, 0, 1])
    """
    flat = flatten(field)
    colour = np.full(field.num_variables, -1, np.int64)
    order = np.argsort(-np.diff(flat.port_ptr), kind="stable")
    _colour(
        order, flat.port_ptr, flat.port_place, flat.place_factor, flat.scope_ptr, flat.scope, colour, work=0
    )
    return torch.from_numpy(colour)


@compiled
def _colour(order, port_ptr, port_place, place_factor, scope_ptr, scope, colour):  # type: ignore[no-untyped-def]
    last_seen = np.full(order.size + 1, -1, np.int64)  # the variable whose neighbour had this colour last
    for v in order:
        for p in range(port_ptr[v], port_ptr[v + 1]):
            f = place_factor[port_place[p]]
            for place in range(scope_ptr[f], scope_ptr[f + 1]):
                if colour[scope[place]] >= 0:
                    last_seen[colour[scope[place]]] = v
        free = 0
        while last_seen[free] == v:
            free += 1
        colour[v] = free


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
    # A factor joins two variables of a forest where it names that forest twice.
    named = flat.place_factor * (len(sizes) + 1) + np.maximum(block[flat.scope], -1) + 1
    _, inverse, times = np.unique(named, return_inverse=True, return_counts=True)
    inside = (block[flat.scope] >= 0) & (times[inverse] > 1)
    # Within a forest from the last found to the first, so that children come before parents.
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    turned = np.repeat(bounds[:-1] + bounds[1:] - 1, sizes) - np.arange(count)
    order = taken[turned]
    return TreeBlocks(
        bounds,
        order,
        parent[order],
        own_place[order],
        parent_place[order],
        inside[flat.port_place],
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
