"""An assignment that no hard zero forbids: depth-first search with generalised arc consistency."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.flat_field import FlatField, flatten
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["feasible_assignments", "has_hard_zeros"]

IMPOSSIBLE, UNKNOWN, FOUND = 0, 1, 2


def has_hard_zeros(field: FactorGraph) -> bool:
    """Whether a factor of two and more variables forbids some of their joint states."""
    return any(bool((group.log_tables == -math.inf).any()) for group in field.groups)


def feasible_assignments(
    field: FactorGraph,
    number: int = 1,
    *,
    preference: Float[Tensor, " states"] | None = None,
    seed: int = 0,
    most_failures: int = 2000,
    restarts: int = 5,
) -> tuple[Int[Tensor, "number variables"], Int[Tensor, " graphs"]]:
    """Search for assignments of positive probability, graph by graph.

    Variables with the fewest possible states are decided first, states in an order drawn by their log potentials;
    after each decision, states without support in some factor are struck out. Where nothing forbids anything this
    samples from the single-variable potentials.

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
    most_failures, restarts
        A search is given up after so many dead ends, and begun again so many times with another order.

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
    hard = _hard_factors(flat)
    assignments = np.zeros((number, field.num_variables), np.int64)
    outcome = np.full(field.num_graphs, FOUND, np.int64)
    generator = np.random.default_rng(seed)
    weights = flat.log_unary if preference is None else as_array(preference.detach().to("cpu", torch.float64))
    for row in range(number):
        for attempt in range(restarts):
            with np.errstate(divide="ignore"):
                noise = -np.log(-np.log(generator.random(len(flat.log_unary))))
            if preference is not None and row == attempt == 0:
                noise[:] = 0.0
            found = np.full(field.num_graphs, FOUND, np.int64)
            _search(*_arrays(flat, hard), weights + noise, most_failures, assignments[row], found, work=0)
            if not (found == UNKNOWN).any():
                break
        if not field.is_ground:  # ground variables of one class may differ, which is not searched
            found = np.where(found == IMPOSSIBLE, UNKNOWN, found)
        outcome = np.minimum(outcome, found)
    return torch.from_numpy(assignments), torch.from_numpy(outcome)


def _hard_factors(flat: FlatField) -> np.ndarray:
    """Mark the factors that forbid something."""
    forbidden = np.concatenate([[0], np.cumsum(np.isneginf(flat.tables))])
    return forbidden[flat.table_start + flat.table_size] > forbidden[flat.table_start]


def _arrays(flat: FlatField, hard: np.ndarray) -> tuple[np.ndarray, ...]:
    return (
        flat.state_ptr,
        flat.variable_ptr,
        flat.log_unary,
        flat.scope_ptr,
        flat.scope,
        flat.stride,
        flat.table_start,
        flat.table_size,
        flat.tables,
        flat.port_ptr,
        flat.port_place,
        flat.place_factor,
        hard,
    )


@compiled
def _search(  # type: ignore[no-untyped-def]
    state_ptr,
    variable_ptr,
    log_unary,
    scope_ptr,
    scope,
    stride,
    table_start,
    table_size,
    tables,
    port_ptr,
    port_place,
    place_factor,
    hard,
    preference,
    most_failures,
    assignment,
    found,
):
    num_factors = table_start.size
    alive = np.zeros(state_ptr[-1], np.bool_)
    support = np.zeros(state_ptr[-1], np.bool_)
    left = np.zeros(state_ptr.size - 1, np.int64)
    queue = np.zeros(num_factors + 1, np.int64)
    queued = np.zeros(num_factors, np.bool_)
    trail = np.zeros(state_ptr[-1] + 1, np.int64)  # states struck out, in order
    mark = np.zeros(state_ptr.size, np.int64)  # length of the trail before each decision
    decided = np.zeros(state_ptr.size, np.int64)  # the state of each decision
    owner = np.zeros(state_ptr[-1], np.int64)
    involved = np.zeros(state_ptr.size - 1, np.bool_)
    for place in range(scope.size):
        if hard[place_factor[place]]:
            involved[scope[place]] = True
    for v in range(state_ptr.size - 1):
        for s in range(state_ptr[v], state_ptr[v + 1]):
            owner[s] = v
    for graph in range(variable_ptr.size - 1):
        first, last = variable_ptr[graph], variable_ptr[graph + 1]
        head, tail, waiting, struck, depth, failures = 0, 0, 0, 0, 0, 0
        conflict = False
        for v in range(first, last):
            left[v] = 0
            for s in range(state_ptr[v], state_ptr[v + 1]):
                alive[s] = log_unary[s] > -np.inf
                left[v] += alive[s]
            conflict = conflict or left[v] == 0
            for p in range(port_ptr[v], port_ptr[v + 1]):
                f = place_factor[port_place[p]]
                if hard[f] and not queued[f]:
                    queued[f] = True
                    queue[tail] = f
                    tail = (tail + 1) % queue.size
                    waiting += 1
        if conflict:
            failures = -1  # a variable without any state: nothing to search for
        while failures >= 0:
            # Strike out states without support until nothing changes or a variable has none left.
            while waiting > 0:
                f = queue[head]
                head = (head + 1) % queue.size
                waiting -= 1
                queued[f] = False
                if conflict:
                    continue
                begin, end = scope_ptr[f], scope_ptr[f + 1]
                for place in range(begin, end):
                    u = scope[place]
                    for s in range(state_ptr[u], state_ptr[u + 1]):
                        support[s] = False
                # A variable that several ports name must keep a state that has support at each of them; it is
                # enough to mark, as the assignment is checked where that happens (fields with counts).
                for e in range(table_size[f]):
                    if tables[table_start[f] + e] == -np.inf:
                        continue
                    possible = True
                    for place in range(begin, end):
                        u = scope[place]
                        card = state_ptr[u + 1] - state_ptr[u]
                        if not alive[state_ptr[u] + (e // stride[place]) % card]:
                            possible = False
                            break
                    if possible:
                        for place in range(begin, end):
                            u = scope[place]
                            card = state_ptr[u + 1] - state_ptr[u]
                            support[state_ptr[u] + (e // stride[place]) % card] = True
                for place in range(begin, end):
                    u = scope[place]
                    changed = False
                    for s in range(state_ptr[u], state_ptr[u + 1]):
                        if alive[s] and not support[s]:
                            alive[s] = False
                            left[u] -= 1
                            trail[struck] = s
                            struck += 1
                            changed = True
                    conflict = conflict or left[u] == 0
                    if changed:
                        for p in range(port_ptr[u], port_ptr[u + 1]):
                            g = place_factor[port_place[p]]
                            if g != f and hard[g] and not queued[g]:
                                queued[g] = True
                                queue[tail] = g
                                tail = (tail + 1) % queue.size
                                waiting += 1
            if conflict:
                failures += 1
                if depth == 0 or failures > most_failures:
                    break
                # Undo the last decision, and strike its state out at the level before.
                depth -= 1
                while struck > mark[depth]:
                    struck -= 1
                    alive[trail[struck]] = True
                    left[owner[trail[struck]]] += 1
                s = decided[depth]
                v = owner[s]
                alive[s] = False
                left[v] -= 1
                trail[struck] = s
                struck += 1
                conflict = left[v] == 0
            else:
                v = -1
                fewest = 1 << 60
                for u in range(first, last):
                    if involved[u] and 1 < left[u] < fewest:
                        v, fewest = u, left[u]
                        if fewest == 2:
                            break
                if v < 0:
                    break
                best = -1
                for s in range(state_ptr[v], state_ptr[v + 1]):
                    if alive[s] and (best < 0 or preference[s] > preference[best]):
                        best = s
                mark[depth] = struck
                decided[depth] = best
                depth += 1
                for s in range(state_ptr[v], state_ptr[v + 1]):
                    if alive[s] and s != best:
                        alive[s] = False
                        trail[struck] = s
                        struck += 1
                left[v] = 1
            for p in range(port_ptr[v], port_ptr[v + 1]):
                f = place_factor[port_place[p]]
                if hard[f] and not queued[f]:
                    queued[f] = True
                    queue[tail] = f
                    tail = (tail + 1) % queue.size
                    waiting += 1
        if conflict or failures < 0:
            found[graph] = 0 if failures < 0 or depth == 0 else 1
        for v in range(first, last):
            best = state_ptr[v]
            for s in range(state_ptr[v], state_ptr[v + 1]):
                if (alive[s] and not alive[best]) or (
                    alive[s] == alive[best] and preference[s] > preference[best]
                ):
                    best = s
            assignment[v] = best - state_ptr[v]
        # Every queue is empty again: what a broken-off search left behind must not reach the next graph.
        while waiting > 0:
            queued[queue[head]] = False
            head = (head + 1) % queue.size
            waiting -= 1
