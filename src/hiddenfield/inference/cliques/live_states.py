"""States that are possible: evidence and hard zeros make a field smaller before anything is summed."""

from __future__ import annotations

import numpy as np

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.flat_tables import FlatTables, flat_tables
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Bool

__all__ = ["live_states"]

ROUNDS = 50
"""Most rounds of propagation; stopping early is sound, it only leaves more states than necessary."""


def live_states(field: FactorGraph, tables: FlatTables | None = None) -> Bool[Array, " states"]:
    """Return which packed states may have positive probability: those that hard zeros do not exclude.

    A state is dead where its own log potential is -inf, or where every entry of a factor's table that agrees with it is
    zero for states still alive (generalised arc consistency), repeated until nothing changes. Sound, not complete: a
    state that is called alive may still have probability zero.

    Cost: in each round, the tables that hold a zero and whose variables lost a state; often much less, as a table is
    read only until every state has found support.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> same = np.where(np.eye(3) > 0, 0.0, -np.inf)
    >>> field = from_factors([[0, 1], [1, 2]], [same, same])
    >>> live_states(field.given({0: 2}))
    array([False, False,  True, False, False,  True, False, False,  True])
    """
    flat = flat_tables(field) if tables is None else tables
    states = field.cardinalities.cpu().numpy()
    start = field.state_ptr.cpu().numpy()
    alive = flat.logs[: start[-1]] > -np.inf
    factors = np.flatnonzero(flat.has_zero)
    factors = factors[factors >= len(states)]
    if len(factors):
        ports = np.diff(flat.port_ptr)[factors]
        most = int(ports.max()) * int(states.max())
        kill_unsupported(
            factors, flat.begin, flat.port_ptr, flat.port_variable, flat.port_stride, flat.logs, states, start, ROUNDS,
            np.empty(most, np.bool_), alive,
        )  # fmt: skip
    return alive


@compiled
def kill_unsupported(  # type: ignore[no-untyped-def]
    factors, begin, port_ptr, port_variable, port_stride, logs, states, start, rounds, support, alive
):
    """Kill what a factor's table does not support, again where one of its variables lost a state."""
    changed = np.zeros(states.size, np.int64)  # the round in which a variable last lost a state
    digit = np.empty(64, np.int64)
    for turn in range(1, rounds + 1):
        any_change = False
        for number in range(factors.size):
            factor = factors[number]
            first, last = port_ptr[factor], port_ptr[factor + 1]
            look = turn == 1
            missing, entries = 0, 1
            widest = 0
            for port in range(first, last):
                variable = port_variable[port]
                look = look or changed[variable] >= turn - 1
                widest = max(widest, states[variable])
                entries *= states[variable]
                for k in range(states[variable]):
                    missing += alive[start[variable] + k]
            if not look:
                continue
            support[: widest * (last - first)] = False
            digit[:] = 0
            for entry in range(entries):
                if missing == 0:
                    break
                if logs[begin[factor] + entry] > -np.inf:
                    possible = True
                    for port in range(first, last):
                        possible = possible and alive[start[port_variable[port]] + digit[port - first]]
                    if possible:
                        for port in range(first, last):
                            place = (port - first) * widest + digit[port - first]
                            missing -= not support[place]
                            support[place] = True
                port = last - 1
                while port >= first:
                    digit[port - first] += 1
                    if digit[port - first] < states[port_variable[port]]:
                        break
                    digit[port - first] = 0
                    port -= 1
            if missing == 0:
                continue
            for port in range(first, last):
                variable = port_variable[port]
                for k in range(states[variable]):
                    if alive[start[variable] + k] and not support[(port - first) * widest + k]:
                        alive[start[variable] + k] = False
                        changed[variable] = turn
                        any_change = True
        if not any_change:
            break
