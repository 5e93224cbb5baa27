"""What hard zeros leave possible: generalised arc consistency, and a search for an assignment that none forbids."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.layout import FlatField, flatten
from hiddenfield.ops.compile import as_array, compiled, subroutine
from hiddenfield.shapes import Array, Bool, Float, Int, Tensor

IMPOSSIBLE, UNKNOWN, FOUND = 0, 1, 2
"""Results of a search: proved that there is none, given up, found."""

MOST_FAILURES, RESTARTS = 2000, 5
"""A search is given up after so many dead ends, and begun again so many times with another order."""


def has_hard_zeros(field: FactorGraph) -> bool:
    """Whether a factor of two or more variables forbids some of their joint states."""
    return bool(_hard_factors(field).any())


def live_states(field: FactorGraph) -> Bool[Array, " states"]:
    """Return which packed states may have positive probability: those that hard zeros do not exclude.

    A state is dead where its own log potential is -inf, or where every entry of a factor's table that agrees with it is
    zero for states still alive (generalised arc consistency), repeated until nothing changes or a variable of the graph
    has no state left. Sound, not complete: a state that is called alive may still have probability zero.

    Cost: a pass over every table that holds a zero, and another whenever one of its variables loses a state; a table is
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
    hard = _hard_factors(field)
    if not hard.any():
        return as_array(field.log_unary) > -np.inf
    flat = flatten(field)
    domains = _domains(flat)
    _prune(flat, hard, domains, work=0)
    return domains.alive


def feasible_assignments(
    field: FactorGraph,
    number: int = 1,
    *,
    preference: Float[Tensor, " states"] | None = None,
    seed: int = 0,
) -> tuple[Int[Tensor, "number variables"], Int[Tensor, " graphs"]]:
    """Search for assignments of positive probability, graph by graph.

    Depth-first: variables with the fewest possible states are decided first, states in an order drawn by their log
    potentials; after each decision, states without support in some factor are struck out. Where nothing forbids
    anything this samples from the single-variable potentials.

    Parameters
    ----------
    field
        The field, or a batch.
    number
        How many assignments; each is searched for with its own random order.
    preference
        Log weights by which states are tried; by default the variables' own log potentials. With given ones the first
        search is greedy, without random numbers.
    seed
        Of the random order.

    Returns
    -------
    tuple
        (number, variables) assignments, on the host, and for each graph 2 where all of them were found, 0 where it
        was *proved* that there is none, 1 where the search was given up (the assignment then breaks some factors).

    Notes
    -----
    A decision costs a pass over the tables that it touches; the search is exponential at worst, hence the limit.
    """
    flat = flatten(field)
    hard, domains = _hard_factors(field), _domains(flat)
    assignments = np.zeros((number, field.num_variables), np.int64)
    outcome = np.full(field.num_graphs, FOUND, np.int64)
    generator = np.random.default_rng(seed)
    weights = flat.log_unary if preference is None else as_array(preference.detach().to("cpu", torch.float64))
    for row in range(number):
        for attempt in range(RESTARTS):
            with np.errstate(divide="ignore"):
                noise = -np.log(-np.log(generator.random(len(flat.log_unary))))
            if preference is not None and row == attempt == 0:
                noise[:] = 0.0
            found = np.full(field.num_graphs, FOUND, np.int64)
            arrays = (flat, hard, domains, weights + noise, assignments[row], found)
            _search(*arrays, work=100.0 * len(flat.scope))
            if not (found == UNKNOWN).any():
                break
        if not field.is_ground:  # ground variables of one class may differ, which is not searched
            found = np.where(found == IMPOSSIBLE, UNKNOWN, found)
        outcome = np.minimum(outcome, found)
    return torch.from_numpy(assignments), torch.from_numpy(outcome)


class _Domains(NamedTuple):
    """The states that are left to every variable, and the factors still to be looked at.

    Parameters
    ----------
    alive, left
        Whether each packed state is possible, and how many are of each variable.
    support
        Scratch: the states that a factor's table supports.
    stack, waiting
        Factors to look at, and which those are.
    trail
        States that were struck out, in order, so that it can be undone.
    digit
        Scratch: the state of each variable of a factor at an entry of its table.
    """

    alive: Array
    left: Array
    support: Array
    stack: Array
    waiting: Array
    trail: Array
    digit: Array


def _domains(flat: FlatField) -> _Domains:
    states, variables, factors = len(flat.log_unary), len(flat.state_ptr) - 1, len(flat.table_start)
    return _Domains(
        np.zeros(states, np.bool_),
        np.zeros(variables, np.int64),
        np.zeros(states, np.bool_),
        np.zeros(factors, np.int64),
        np.zeros(factors, np.bool_),
        np.zeros(states, np.int64),
        np.zeros(np.diff(flat.scope_ptr).max(initial=1), np.int64),
    )


def _hard_factors(field: FactorGraph) -> Bool[Array, " factors"]:
    """Mark the factors that forbid something."""
    parts = [np.zeros(0, np.bool_)]
    for group in field.groups:
        tables = (group.log_tables == -math.inf).reshape(group.log_tables.shape[0], -1).any(1)
        parts.append(as_array(tables if group.table is None else tables[group.table]))
    return np.concatenate(parts)


@subroutine(allocates=False)
def _push(variable: int, flat: FlatField, hard: Array, domains: _Domains, count: int) -> int:
    """Put the hard factors of a variable on the stack; return its new height."""
    for port in range(flat.port_ptr[variable], flat.port_ptr[variable + 1]):
        factor = flat.place_factor[flat.port_place[port]]
        if hard[factor] and not domains.waiting[factor]:
            domains.waiting[factor] = True
            domains.stack[count] = factor
            count += 1
    return count


@subroutine(allocates=False)
def _find_support(factor: int, flat: FlatField, domains: _Domains) -> None:
    """Mark the states of a factor's variables that some entry of its table allows, all others being alive."""
    begin, end = flat.scope_ptr[factor], flat.scope_ptr[factor + 1]
    alive, support, digit = domains.alive, domains.support, domains.digit
    missing = 0
    for place in range(begin, end):
        variable = flat.scope[place]
        digit[place - begin] = 0
        missing += domains.left[variable]
        support[flat.state_ptr[variable] : flat.state_ptr[variable + 1]] = False
    for entry in range(flat.table_start[factor], flat.table_start[factor] + flat.table_size[factor]):
        if missing == 0:
            break
        if flat.tables[entry] > -np.inf:
            possible = True
            for place in range(begin, end):
                possible = possible and alive[flat.state_ptr[flat.scope[place]] + digit[place - begin]]
            if possible:
                for place in range(begin, end):
                    state = flat.state_ptr[flat.scope[place]] + digit[place - begin]
                    missing -= not support[state]
                    support[state] = True
        for place in range(end - 1, begin - 1, -1):
            variable = flat.scope[place]
            digit[place - begin] += 1
            if digit[place - begin] < flat.state_ptr[variable + 1] - flat.state_ptr[variable]:
                break
            digit[place - begin] = 0


@subroutine(allocates=False)
def _propagate(flat: FlatField, hard: Array, domains: _Domains, count: int, struck: int) -> tuple[int, bool]:
    """Strike out states without support until nothing changes or a variable has none left, which is a conflict.

    The stack is empty afterwards. Returns the length of the trail, and whether there was a conflict.
    """
    conflict = False
    while count > 0:
        count -= 1
        factor = domains.stack[count]
        if not conflict:
            # A variable that several ports name keeps a state that has support at any of them (fields with counts).
            _find_support(factor, flat, domains)
            for place in range(flat.scope_ptr[factor], flat.scope_ptr[factor + 1]):
                variable = flat.scope[place]
                before = domains.left[variable]
                for state in range(flat.state_ptr[variable], flat.state_ptr[variable + 1]):
                    if domains.alive[state] and not domains.support[state]:
                        domains.alive[state] = False
                        domains.left[variable] -= 1
                        domains.trail[struck] = state
                        struck += 1
                if domains.left[variable] < before:
                    conflict = conflict or domains.left[variable] == 0
                    # The factor itself still counts as waiting, so that only others are looked at again.
                    count = _push(variable, flat, hard, domains, count)
        domains.waiting[factor] = False
    return struck, conflict


@subroutine(allocates=False)
def _begin(graph: int, flat: FlatField, hard: Array, domains: _Domains) -> tuple[int, bool]:
    """Give the variables of a graph all states of positive potential, and propagate; return as `_propagate` does."""
    count, conflict = 0, False
    for variable in range(flat.variable_ptr[graph], flat.variable_ptr[graph + 1]):
        domains.left[variable] = 0
        for state in range(flat.state_ptr[variable], flat.state_ptr[variable + 1]):
            domains.alive[state] = flat.log_unary[state] > -np.inf
            domains.left[variable] += domains.alive[state]
        conflict = conflict or domains.left[variable] == 0
        count = _push(variable, flat, hard, domains, count)
    struck, emptied = _propagate(flat, hard, domains, count, 0)
    return struck, conflict or emptied


@compiled(watched=True)
def _prune(stop: Array, flat: FlatField, hard: Array, domains: _Domains) -> None:
    stop[1] = 1
    for graph in range(flat.variable_ptr.size - 1):
        if stop[0]:
            return
        _begin(graph, flat, hard, domains)


@subroutine(allocates=False)
def _preferred(variable: int, flat: FlatField, alive: Array, preference: Array) -> int:
    """Return the preferred state of a variable among those alive; among all where none is."""
    best = flat.state_ptr[variable]
    for state in range(best + 1, flat.state_ptr[variable + 1]):
        if alive[state] != alive[best]:
            best = state if alive[state] else best
        elif preference[state] > preference[best]:
            best = state
    return best


@compiled(watched=True)
def _search(
    stop: Array,
    flat: FlatField,
    hard: Array,
    domains: _Domains,
    preference: Array,
    assignment: Array,
    found: Array,
) -> None:
    stop[1] = 1
    alive, left, trail = domains.alive, domains.left, domains.trail
    variables = flat.state_ptr.size - 1
    mark = np.zeros(variables + 1, np.int64)  # length of the trail before each decision
    decided = np.zeros(variables + 1, np.int64)  # the state of each decision
    owner = np.zeros(alive.size, np.int64)
    involved = np.zeros(variables, np.bool_)
    for place in range(flat.scope.size):
        if hard[flat.place_factor[place]]:
            involved[flat.scope[place]] = True
    for v in range(variables):
        owner[flat.state_ptr[v] : flat.state_ptr[v + 1]] = v
    for graph in range(flat.variable_ptr.size - 1):
        first, last = flat.variable_ptr[graph], flat.variable_ptr[graph + 1]
        depth, failures, low = 0, 0, first  # variables before `low` are decided
        struck, conflict = _begin(graph, flat, hard, domains)
        while True:
            if stop[0]:
                return
            if conflict:
                failures += 1
                low = first
                if depth == 0 or failures > MOST_FAILURES:
                    found[graph] = IMPOSSIBLE if depth == 0 else UNKNOWN
                    break
                # Undo the last decision, and strike its state out at the level before.
                depth -= 1
                while struck > mark[depth]:
                    struck -= 1
                    alive[trail[struck]] = True
                    left[owner[trail[struck]]] += 1
                v = owner[decided[depth]]
                begin, end = decided[depth], decided[depth] + 1
                keep = -1
            else:
                v = -1
                while low < last and (left[low] <= 1 or not involved[low]):
                    low += 1
                for u in range(low, last):
                    if involved[u] and left[u] > 1 and (v < 0 or left[u] < left[v]):
                        v = u
                        if left[v] == 2:
                            break
                if v < 0:
                    break
                keep = _preferred(v, flat, alive, preference)
                mark[depth], decided[depth] = struck, keep
                depth += 1
                begin, end = flat.state_ptr[v], flat.state_ptr[v + 1]
            for s in range(begin, end):
                if alive[s] and s != keep:
                    alive[s] = False
                    left[v] -= 1
                    trail[struck] = s
                    struck += 1
            conflict = left[v] == 0
            if not conflict:
                count = _push(v, flat, hard, domains, 0)
                struck, conflict = _propagate(flat, hard, domains, count, struck)
        for v in range(first, last):
            assignment[v] = _preferred(v, flat, alive, preference) - flat.state_ptr[v]
