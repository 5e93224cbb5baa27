"""What tells factors apart: the colours of their variables in order, up to the symmetries of their tables."""

from __future__ import annotations

from typing import NamedTuple

from hiddenfield.fields.lifting.partition_splitting import Partition, Scratch
from hiddenfield.ops.compile import subroutine
from hiddenfield.shapes import Array

__all__ = ["Ports", "write_signatures"]


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
def write_signatures(
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
