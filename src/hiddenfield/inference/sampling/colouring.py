"""Colour variables so that no factor joins two of one colour: these can be updated at once."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.flat_field import flatten
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Int, Tensor

__all__ = ["colour_variables"]


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
