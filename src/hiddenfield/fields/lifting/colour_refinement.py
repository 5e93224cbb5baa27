"""The coarsest stable colouring of a factor graph, by partition refinement: each port is looked at O(log ports) times.

Two partitions are refined together: of the variables and of the factors. A factor's signature is the tuple of its
variables' colours up to the symmetries of its table; a port's is its factor's colour and its place in that tuple, up to
the symmetries that leave the tuple unchanged; a variable's is the multiset of its ports' signatures. Whenever a class
of variables falls apart its largest part keeps the colour, and only the factors of the other parts are looked at again
("process the smaller half", Hopcroft 1971; Paige and Tarjan 1987). Variables are then split by their numbers of ports
at each place of these factors. How many they have at those left alone follows: the class of a factor as it was split
the variables before, and what is looked at again refines it. Signatures are compared in full: nothing depends on a
hash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.fields.lifting.partitions import (
    Partition,
    Scratch,
    group_touched,
    lay_out,
    make_partition,
    make_scratch,
    split_classes,
)
from hiddenfield.ops import counting_sort
from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.shapes import Array, Bool, Int


class Symmetries(NamedTuple):
    """Symmetry groups of tables, packed for compiled loops.

    Parameters
    ----------
    orbit
        For each group and port the first port that it may take the place of.
    permutation_ptr, permutations
        The permutations of each group; none where ports of one orbit may be exchanged freely.
    """

    orbit: Int[Array, "symmetries arity"]
    permutation_ptr: Int[Array, " symmetry_bounds"]
    permutations: Int[Array, "permutations arity"]


class Ports(NamedTuple):
    """The factor graph as flat arrays, factor by factor, and the symmetries of the factors' tables."""

    variable: Array
    ptr: Array
    factor: Array
    by_variable: Array
    variable_ptr: Array
    symmetry: Array
    orbit: Array
    permutation_ptr: Array
    permutations: Array


def refine(
    scopes: Int[Array, " ports"],
    port_ptr: Int[Array, " factor_bounds"],
    variable_colour: Int[Array, " variables"],
    factor_colour: Int[Array, " factors"],
    factor_symmetry: Int[Array, " factors"],
    symmetries: Symmetries,
    frozen: Bool[Array, " variables"],
) -> tuple[Int[Array, " variables"], Int[Array, " factors"]]:
    """Refine colours of variables and factors to the coarsest stable ones.

    Parameters
    ----------
    scopes, port_ptr
        The variables of each factor, one factor after another, and the bounds of every factor's.
    variable_colour, factor_colour
        Colours to start from, numbered without gaps.
    factor_symmetry, symmetries
        Which of the symmetries each factor's table has; factors of one colour have the same.
    frozen
        Variables that keep their first colour whatever they touch: those with a single possible state.

    Returns
    -------
    The refined colours, numbered without gaps.
    """
    num_factors, num_variables = len(factor_colour), len(variable_colour)
    if num_factors == 0:
        return variable_colour, factor_colour
    by_variable, variable_ptr = counting_sort(torch.from_numpy(scopes.astype(np.int64)), num_variables)
    ports = Ports(
        scopes.astype(np.int32),
        port_ptr.astype(np.int64),
        np.repeat(np.arange(num_factors, dtype=np.int32), np.diff(port_ptr)),
        by_variable.numpy().astype(np.int32),
        variable_ptr.numpy().astype(np.int64),
        factor_symmetry.astype(np.int32),
        *symmetries,
    )
    variables, factors = make_partition(variable_colour), make_partition(factor_colour)
    arity = symmetries.orbit.shape[1]
    _refine(
        ports,
        variables,
        factors,
        np.zeros(len(scopes), np.int16),
        make_scratch(max(num_factors, num_variables), arity),
        frozen.copy(),
    )
    return variables.colour, factors.colour


@subroutine(allocates=False)
def _count_splitter(
    ports: Ports,
    variables: Partition,
    factors: Partition,
    place: Array,
    number: int,
    splitter: int,
    frozen: Array,
    degree: Array,
    touched: Array,
) -> int:
    """Count each variable's ports at one place of the factors of a colour; return how many variables have some.

    Those that are alone in their class cannot be told apart any further, and are frozen.
    """
    count = 0
    for where in range(factors.begin[number], factors.end[number]):
        factor = factors.members[where]
        for port in range(ports.ptr[factor], ports.ptr[factor + 1]):
            variable = ports.variable[port]
            if place[port] == splitter and not frozen[variable]:
                if degree[variable] == 0:
                    colour = variables.colour[variable]
                    if variables.end[colour] - variables.begin[colour] == 1:
                        frozen[variable] = True
                        continue
                    touched[count] = variable
                    count += 1
                degree[variable] += 1
    return count


@subroutine(allocates=False)
def _is_used(place: Array, first: int, last: int, splitter: int) -> bool:
    """Whether a factor has a port at a place of its signature."""
    used = False
    for port in range(first, last):
        used = used or place[port] == splitter
    return used


@subroutine(allocates=False)
def _touch_factors(
    ports: Ports, variables: Partition, since: int, classes: int, marked: Array, touched: Array
) -> int:
    """List the factors of all variables with a new colour."""
    count = 0
    for where_class in range(since, classes):
        for where in range(variables.begin[where_class], variables.end[where_class]):
            variable = variables.members[where]
            for j in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
                factor = ports.factor[ports.by_variable[j]]
                if not marked[factor]:
                    marked[factor] = True
                    touched[count] = factor
                    count += 1
    if 8 * count > marked.size:
        # In their own order, so that whatever follows walks through memory: up to twice as fast at ten million ports.
        count = 0
        for factor in range(marked.size):
            if marked[factor]:
                touched[count] = factor
                count += 1
    for i in range(count):
        marked[touched[i]] = False
    return count


@subroutine(allocates=False)
def _sorted_signature(
    first: int, arity: int, variable: Array, colour: Array, orbit: Array, key: Array, place: Array
) -> None:
    """Where ports of an orbit may be exchanged freely: their colours in order; a port's place is its colour's first."""
    for p in range(arity):
        value = colour[variable[first + p]]
        here = p
        for q in range(p - 1, -1, -1):
            if orbit[q] == orbit[p]:
                if key[q] <= value:
                    break
                key[here] = key[q]
                here = q
        key[here] = value
    for p in range(arity):
        value = colour[variable[first + p]]
        q = orbit[p]
        while orbit[q] != orbit[p] or key[q] != value:
            q += 1
        place[first + p] = q


@subroutine(allocates=False)
def _least_signature(
    first: int, arity: int, variable: Array, colour: Array, group: Array, key: Array, place: Array
) -> None:
    """Under any group of permutations: the least tuple; a port's place is the first that it takes in one such."""
    best = 0
    for g in range(1, group.shape[0]):
        for q in range(arity):
            new, old = colour[variable[first + group[g, q]]], colour[variable[first + group[best, q]]]
            if new != old:
                if new < old:
                    best = g
                break
    for q in range(arity):
        key[q] = colour[variable[first + group[best, q]]]
        place[first + q] = arity
    for g in range(group.shape[0]):
        same = True
        for q in range(arity):
            if colour[variable[first + group[g, q]]] != key[q]:
                same = False
                break
        if same:
            for q in range(arity):
                port = first + group[g, q]
                place[port] = min(place[port], q)


@subroutine(allocates=False)
def _write_signatures(
    ports: Ports, variables: Partition, factors: Partition, place: Array, scratch: Scratch, count: int
) -> None:
    """Write the keys of all touched factors: old colour, then the colours of the variables up to symmetry."""
    width = scratch.key.shape[1]
    for i in range(count):
        factor = scratch.touched[i]
        first, arity = ports.ptr[factor], ports.ptr[factor + 1] - ports.ptr[factor]
        symmetry = ports.symmetry[factor]
        begin, end = ports.permutation_ptr[symmetry], ports.permutation_ptr[symmetry + 1]
        scratch.key[i, 0] = factors.colour[factor]
        row = scratch.key[i, 1:]
        if begin == end:
            orbit = ports.orbit[symmetry]
            _sorted_signature(first, arity, ports.variable, variables.colour, orbit, row, place)
        else:
            group = ports.permutations[begin:end]
            _least_signature(first, arity, ports.variable, variables.colour, group, row, place)
        for p in range(1 + arity, width):
            scratch.key[i, p] = -1


@compiled
def _refine(
    ports: Ports, variables: Partition, factors: Partition, place: Array, scratch: Scratch, frozen: Array
) -> None:
    num_factors = factors.colour.size
    degree = np.zeros(variables.colour.size, np.int32)
    marked = np.zeros(num_factors, np.bool_)
    changed = np.empty(num_factors, np.int32)
    v_classes, f_classes = lay_out(variables), lay_out(factors)
    count = num_factors
    for factor in range(num_factors):
        scratch.touched[factor] = factor
    while count > 0:
        _write_signatures(ports, variables, factors, place, scratch, count)
        groups = group_touched(scratch, count, scratch.key.shape[1])
        f_classes = split_classes(factors, f_classes, scratch, count, groups)
        changed[:groups] = scratch.group_colour[:groups]
        since = v_classes
        for g in range(groups):
            some = factors.members[factors.begin[changed[g]]]
            first, last = ports.ptr[some], ports.ptr[some + 1]
            for splitter in range(last - first):
                count = 0
                if _is_used(place, first, last, splitter):
                    count = _count_splitter(
                        ports,
                        variables,
                        factors,
                        place,
                        changed[g],
                        splitter,
                        frozen,
                        degree,
                        scratch.touched,
                    )
                if count == 0:
                    continue
                for j in range(count):
                    variable = scratch.touched[j]
                    scratch.key[j, 0], scratch.key[j, 1] = variables.colour[variable], degree[variable]
                    degree[variable] = 0
                parts = group_touched(scratch, count, 2)
                v_classes = split_classes(variables, v_classes, scratch, count, parts)
        count = _touch_factors(ports, variables, since, v_classes, marked, scratch.touched)
