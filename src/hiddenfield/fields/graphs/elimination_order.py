"""In which order to sum out variables, what that costs, and copies of variables that make a field narrow."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_loops import greedy_order, initial_fill
from hiddenfield.fields.layout import flatten
from hiddenfield.limits import OutOfTimeError, check_time
from hiddenfield.ops.equal_rows import ranges
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Int

ORDERS = {name: name for name in ("best", "min_fill", "min_weight", "weighted_min_fill")}
"""Greedy costs: added edges, states of the clique, added edges weighted by states, or the cheapest of many runs."""

CHEAP = 300
"""States per variable below which a second order costs more to find than it saves (benchmarks/exact.py)."""

HOPE = 2e8
"""Over the square of the number of variables: further orders to try where none so far keeps within the limit."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """The interaction graph: variables are joined where a factor holds both.

    Parameters
    ----------
    ptr, neighbour
        Sorted neighbours of each variable, one list after another.
    states
        Number of states of each variable.
    """

    ptr: Array
    neighbour: Array
    states: Array

    @cached_property
    def fill(self) -> Array:
        """For each variable how many pairs of its neighbours are not joined."""
        return _fill(self, np.ones(len(self.states)))

    @cached_property
    def weighted_fill(self) -> Array:
        """The same, every pair counting as the product of its numbers of states."""
        return _fill(self, self.states.astype(np.float64))


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """An order of all variables, and what it costs.

    Parameters
    ----------
    order
        Variables, the first to be summed out first. Shorter than their number where `complete` is false.
    width
        Size of the largest clique less one: an upper bound on the treewidth.
    log2_largest
        Log2 of the states of the largest clique.
    total_states
        States of all buckets, summed: time is proportional to it.
    complete
        False where a clique exceeded the limit, and the search stopped there.
    """

    order: Array
    width: int
    log2_largest: float
    total_states: float
    complete: bool


def interactions(field: FactorGraph) -> Interactions:
    """Return the interaction graph of a field. Cost: sorting one entry for each pair of ports of each factor."""
    flat = flatten(field)
    return interactions_of(flat.scope_ptr, flat.scope, np.diff(flat.state_ptr))


def interactions_of(scope_ptr: Array, scope: Array, states: Array) -> Interactions:
    """Return the interaction graph of scopes, one after another; -1 stands for no variable."""
    from scipy.sparse import coo_array

    check_time()
    count, arity = len(states), np.diff(scope_ptr)
    place, own = ranges(np.repeat(scope_ptr[:-1], arity), np.repeat(arity, arity))
    check_time()
    first, second = scope[own], scope[place]
    joined = (first != second) & (first >= 0) & (second >= 0)
    # As a sparse matrix: its conversion sorts, and adds up what is repeated.
    links = coo_array(
        (np.ones(int(joined.sum()), np.bool_), (first[joined], second[joined])), shape=(count, count)
    )
    graph = links.tocsr()
    return Interactions(
        graph.indptr.astype(np.int64), graph.indices.astype(np.int64), np.asarray(states, np.int64)
    )


def elimination_order(
    graph: Interactions,
    order: str = "best",
    *,
    stage: Array | None = None,
    limit: float = math.inf,
    seed: int = 0,
) -> EliminationOrder:
    r"""Return a greedy elimination order: the cheapest variable leaves, its neighbours are joined, and so on.

    The cost of leaving is the number of edges that are added ("min_fill"), the states of the clique :math:`\prod_{u
    \in N(v) \cup v} k_u` ("min_weight"), or :math:`\sum k_a k_b` over the added edges ("weighted_min_fill"). "best"
    takes min_fill where that is cheap, otherwise the cheapest of the three, and where that is still expensive goes on
    with random tie-breaking for a while. An upper bound on the treewidth, optimal on forests and chordal graphs
    (min_fill).

    Parameters
    ----------
    graph
        See `interactions`.
    order
        A name of `ORDERS`.
    stage
        Variables of stage 0 leave before those of stage 1: a constrained order, for marginal MAP.
    limit
        Log2 of the states of a clique beyond which the search stops: an order that cannot be used need not be
        completed.
    seed
        For breaking ties.

    Notes
    -----
    Costs are kept up to date rather than recomputed, in a heap: near-linear for bounded width.

    References
    ----------
    Kjaerulff (1990), Triangulation of graphs: algorithms giving small total state space.

    Examples
    --------
    A cycle of five has width two.

    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> pairs = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]
    >>> field = from_factors(pairs, [np.zeros((2, 2))] * 5)
    >>> elimination_order(interactions(field)).width
    2
    """
    choose("order", ORDERS, order)
    stages = np.zeros(len(graph.states), np.int64) if stage is None else np.asarray(stage, np.int64)
    if order != "best":
        return _greedy(graph, order, stages, limit, None)
    best = _greedy(graph, "min_fill", stages, limit, None)
    if best.complete and best.total_states <= CHEAP * len(graph.states):
        return best
    # A run takes about a microsecond per variable, using an order some nanoseconds per state: search for a tenth of it.
    # Where no order keeps within the limit there is nothing to use, and the search ends sooner the larger the field is.
    many = graph.states[graph.states > 1]
    alike = not len(many) or many.min() == many.max()  # weights make no difference then
    with contextlib.suppress(OutOfTimeError):
        for name in ("min_weight",) if alike else ("weighted_min_fill", "min_weight"):
            best = min(best, _greedy(graph, name, stages, limit, None), key=_badness)
        count = max(len(graph.states), 1)
        runs = int(np.clip(best.total_states / (2e3 * count) if best.complete else HOPE / count**2, 0, 200))
        random = np.random.default_rng(seed)
        for run in range(runs):
            name = ("min_fill", "weighted_min_fill", "min_weight")[run % 3]
            best = min(best, _greedy(graph, name, stages, limit, random), key=_badness)
    return best


def cut_to_width(
    graph: Interactions, limit: float, random: np.random.Generator
) -> tuple[Bool[Array, " variables"], EliminationOrder]:
    """Fix variables at random until the others can be eliminated with cliques of at most 2^limit states.

    Variables are eliminated greedily as far as the limit allows; of those that are left some are fixed, and it begins
    anew (a w-cutset). Returns which are fixed, and an order of all.

    References
    ----------
    Bidyuk and Dechter (2007), Cutset sampling for Bayesian networks.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> fixed, order = cut_to_width(interactions(ising_grid(10, 10)), 4.0, np.random.default_rng(0))
    >>> order.complete, order.log2_largest <= 4.0, 0 < int(fixed.sum()) < 50
    (True, True, True)
    """
    count = len(graph.states)
    fixed = graph.states <= 1
    rows, stage = np.repeat(np.arange(count), np.diff(graph.ptr)), np.zeros(count, np.int64)
    while True:
        kept = ~(fixed[rows] | fixed[graph.neighbour])
        degree = np.bincount(rows[kept], minlength=count)
        ptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
        left = Interactions(ptr, graph.neighbour[kept], np.where(fixed, 1, graph.states))
        found = _greedy(left, "min_fill", stage, limit, random)
        if found.complete:
            return fixed, found
        stuck = ~fixed
        stuck[found.order] = False
        core = np.flatnonzero(stuck)
        chance = degree[core] / degree[core].sum() if degree[core].all() else None
        fixed[random.choice(core, max(1, len(core) // 8), replace=False, p=chance)] = True


def _badness(found: EliminationOrder) -> tuple[bool, float]:
    return (not found.complete, found.total_states if found.complete else -len(found.order))


def _greedy(
    graph: Interactions, rule: str, stage: Array, limit: float, random: np.random.Generator | None
) -> EliminationOrder:
    count = len(graph.states)
    log_states = np.log2(np.maximum(graph.states, 1).astype(np.float64))
    weight = graph.states.astype(np.float64) if rule == "weighted_min_fill" else np.ones(count)
    tie = np.arange(count, dtype=np.float64) if random is None else random.random(count)
    order = np.empty(count, np.int64)
    totals = np.zeros(4)
    greedy_order(
        graph.ptr,
        graph.neighbour,
        weight,
        log_states,
        stage,
        tie,
        graph.weighted_fill if rule == "weighted_min_fill" else graph.fill,
        rule == "min_weight",
        float(limit),
        order,
        totals,
        work=count**3,  # at worst, where cliques are large
    )
    done, width = int(totals[0]), int(totals[1])
    return EliminationOrder(order[:done], width, float(totals[2]), float(totals[3]), done == count)


def _fill(graph: Interactions, weight: Array) -> Array:
    """Return for each node the sum of products of weights over the pairs of its neighbours that are not joined."""
    degree, count = np.diff(graph.ptr), len(graph.states)
    node = np.repeat(np.arange(count), degree)
    sums, squares = (np.bincount(node, weight[graph.neighbour] ** power, count) for power in (1, 2))
    fill = (sums**2 - squares) / 2
    rank = np.argsort(np.argsort(degree, kind="stable"))
    later = rank[graph.neighbour] > rank[node]
    later_ptr = np.concatenate([[0], np.cumsum(np.bincount(node[later], minlength=count))]).astype(np.int64)
    initial_fill(later_ptr, graph.neighbour[later], weight, fill, work=len(graph.neighbour) ** 1.5)
    return fill


class Split(NamedTuple):
    """Which factors see which copy of their variables.

    Parameters
    ----------
    scopes
        The variables of every factor, copies numbered from the number of variables on.
    original
        The variable that each copy is one of.
    order
        An elimination order of all variables and copies within the bound.
    """

    scopes: list[list[int]]
    original: Int[Array, " copies"]
    order: EliminationOrder


def split_variables(
    scopes: Sequence[Sequence[int]], states: Int[Array, " variables"], order: Sequence[int], log2_bound: float
) -> Split:
    r"""Give factors copies of their variables so that no clique has more than :math:`2^b` joint states.

    Variables are eliminated in the given order. Where the factors and messages that hold a variable would make a clique
    beyond the bound, they are put into several groups (mini-buckets), each that fits with the group of which it shares
    most; every group but the first gets a copy of the variable, and so do the factors that its messages came from. What
    is gained by a larger bound is fewer copies, and none at all once it is that of exact inference.

    Parameters
    ----------
    scopes
        The variables of every factor; those of one state are left as they are.
    states
        Number of states of every variable.
    order
        An order of all variables.
    log2_bound
        b. A single factor may exceed it.

    Notes
    -----
    Linear in the number of factors for bounded degree.

    References
    ----------
    Dechter and Rish (2003), Mini-buckets: a general scheme for bounded inference. Choi and Darwiche (2010), Relax,
    compensate and then recover.

    Examples
    --------
    A cycle of four, with cliques of at most two binary variables: one variable is cut in two, and a chain is left.

    >>> cycle = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> split = split_variables(cycle, np.array([2, 2, 2, 2]), [0, 1, 2, 3], 2.0)
    >>> split.scopes, split.original
    ([[0, 1], [1, 2], [2, 3], [3, 4]], array([0]))
    """
    size = np.log2(np.maximum(states, 1)).tolist()
    place = {variable: number for number, variable in enumerate(order)}
    copies = [list(scope) for scope in scopes]
    original: list[int] = []
    eliminated = [variable for variable in order if size[variable] == 0.0]
    # A message is the variables that it is over and the factors that it came from.
    buckets: list[list[tuple[frozenset[int], list[int]]]] = [[] for _ in order]
    for factor, scope in enumerate(scopes):
        held = frozenset(variable for variable in scope if size[variable] > 0.0)
        if held:
            buckets[min(map(place.__getitem__, held))].append((held, [factor]))
    width, largest, total = 0, 0.0, 0.0
    for number, variable in enumerate(order):
        if size[variable] == 0.0:
            continue
        check_time()
        items, buckets[number] = buckets[number], []
        groups = _groups(items, size, log2_bound) or [(frozenset([variable]), [])]
        for at, (held, factors) in enumerate(groups):
            name = variable
            if at > 0:
                name = len(states) + len(original)
                original.append(variable)
                for factor in factors:
                    copies[factor] = [name if v == variable else v for v in copies[factor]]
            eliminated.append(name)
            joint = sum(size[v] for v in held)
            width, largest, total = max(width, len(held) - 1), max(largest, joint), total + 2.0**joint
            rest = held - {variable}
            if rest:
                buckets[min(map(place.__getitem__, rest))].append((rest, factors))
    found = EliminationOrder(np.array(eliminated, np.int64), width, largest, total, True)
    return Split(copies, np.array(original, np.int64), found)


def _groups(
    items: list[tuple[frozenset[int], list[int]]], size: list[float], bound: float
) -> list[tuple[frozenset[int], list[int]]]:
    """Put factors and messages into as few groups as fit, large ones first."""
    groups: list[tuple[frozenset[int], list[int]]] = []
    for held, factors in sorted(items, key=lambda item: -math.fsum(size[v] for v in item[0])):
        best, shared = -1, -1.0
        for number, (others, _) in enumerate(groups):
            union = others | held
            common = math.fsum(size[v] for v in others & held)
            fits = len(union) == len(others) or math.fsum(size[v] for v in union) <= bound + 1e-9
            if fits and common > shared:
                best, shared = number, common
        if best < 0:
            groups.append((held, list(factors)))
        else:
            groups[best] = (groups[best][0] | held, groups[best][1] + factors)
    return groups
