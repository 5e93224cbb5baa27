"""States that are possible: evidence and hard zeros make a field smaller before anything is summed."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.shapes import Array, Bool, Tensor

__all__ = ["live_states"]

ROUNDS = 50
"""Most rounds of propagation; stopping early is sound, it only leaves more states than necessary."""


def live_states(field: FactorGraph) -> Bool[Array, " states"]:
    """Return which packed states may have positive probability: those that hard zeros do not exclude.

    A state is dead where its own log potential is -inf, or where every entry of a factor's table that agrees with it is
    zero for states still alive (generalised arc consistency), repeated until nothing changes. Sound, not complete: a
    state that is called alive may still have probability zero.

    Cost: for each round, the tables that hold a zero.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> same = np.log(np.eye(3), where=np.eye(3) > 0, out=np.full((3, 3), -np.inf))
    >>> field = from_factors([[0, 1], [1, 2]], [same, same])
    >>> live_states(field.given({0: 2}))
    array([False, False,  True, False, False,  True, False, False,  True])
    """
    alive = (field.log_unary > -torch.inf).cpu()
    groups = [(group, possible) for group in field.groups if (possible := _possible(group)) is not None]
    start = field.state_ptr.cpu()
    for _ in range(ROUNDS if groups else 0):
        before = alive
        for group, possible in groups:
            alive = _supported(group, possible, alive, start)
        if torch.equal(alive, before):
            break
    return np.asarray(alive.numpy())


def _possible(group: FactorGroup) -> Tensor | None:
    """Return where the tables of a group are not zero, None where they are nowhere zero."""
    possible = (group.log_tables > -torch.inf).cpu()
    if bool(possible.all()):
        return None
    return possible if group.table is None else possible[group.table.cpu()]


def _supported(group: FactorGroup, possible: Tensor, alive: Tensor, start: Tensor) -> Tensor:
    """Kill states of a group's variables that no entry of a table supports."""
    scopes = group.scopes.cpu()
    places = [start[scopes[:, port], None] + torch.arange(group.states[port]) for port in range(group.arity)]
    joint = possible
    for port, place in enumerate(places):
        shape = [group.num_factors, *(1,) * group.arity]
        shape[port + 1] = group.states[port]
        joint = joint & alive[place].reshape(shape)
    result = alive.clone()
    for port, place in enumerate(places):
        axes = [axis + 1 for axis in range(group.arity) if axis != port]
        dead = place[~joint.any(dim=axes) if axes else ~joint]
        result[dead] = False
    return result
