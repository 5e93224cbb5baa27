"""Copies of variables that make a field narrow: what stands between exact inference and a bound on its cliques."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hiddenfield.fields.graphs.elimination_order import EliminationOrder
from hiddenfield.limits import check_time
from hiddenfield.shapes import Array, Int


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
