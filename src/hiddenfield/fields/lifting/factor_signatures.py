"""What tells factors apart: the colours of their variables in order, up to the symmetries of their tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from hiddenfield.fields.lifting.partitions import Partition, Ports, Scratch
from hiddenfield.ops.compile import subroutine
from hiddenfield.ops.equal_rows import equal_rows
from hiddenfield.shapes import Array, Int

MOST_COMPARISONS = 200_000_000
"""Numbers compared beyond which only exchanges of two ports are tried: fewer symmetries, never a false one."""

Symmetry = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The first port of each port's orbit, and all permutations where ports of an orbit may not be exchanged freely."""


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


def table_symmetries(tables: Array) -> tuple[list[Symmetry], Int[Array, " tables"]]:
    r"""Return the different symmetry groups of tables of one shape, and which one each table has.

    A permutation g of the axes is a symmetry when :math:`T(x_0, x_1, \dots) = T(x_{g(0)}, x_{g(1)}, \dots)` for all x.
    All permutations are tried; of tables with many ports, only exchanges of two (`MOST_COMPARISONS`).

    Examples
    --------
    >>> import numpy as np
    >>> table_symmetries(np.array([[[1, 2], [2, 3]], [[1, 2], [0, 3]]]))
    ([((0, 0), ()), ((0, 1), ())], array([0, 1]))
    """
    arity, shape = tables.ndim - 1, tables.shape[1:]
    identity = tuple(range(arity))
    tries = math.factorial(arity) if arity <= 8 else MOST_COMPARISONS
    if tries * max(tables.size, 1) <= MOST_COMPARISONS:
        candidates = [g for g in permutations(identity) if all(shape[i] == shape[g[i]] for i in identity)]
    else:
        candidates = [identity]
        for i, j in combinations(identity, 2):
            if shape[i] == shape[j]:
                swap = {i: j, j: i}
                candidates.append(tuple(swap.get(k, k) for k in identity))
    holds = np.ones((len(tables), len(candidates)), dtype=bool)
    axes = tuple(range(1, arity + 1))
    for column, g in enumerate(candidates):
        if g != identity:
            moved = np.transpose(tables, (0, *(axis + 1 for axis in g)))
            holds[:, column] = (moved == tables).all(axis=axes)
    which, first = equal_rows(holds.astype(np.int32))
    found = [_symmetry([g for g, kept in zip(candidates, row, strict=True) if kept]) for row in holds[first]]
    return found, which


def _symmetry(group: Sequence[tuple[int, ...]]) -> Symmetry:
    """Find the orbits; keep the permutations only where they are not all those within the orbits."""
    orbit = _orbits(group)
    exchanges = [g for g in group if sum(i != j for i, j in enumerate(g)) <= 2]
    # Exchanges of two that connect an orbit generate all its permutations.
    return orbit, (() if _orbits(exchanges) == orbit else tuple(group))


def _orbits(group: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the first port that each can be taken to by the permutations; the identity is among them."""
    orbit = list(range(len(group[0])))
    for _ in orbit:
        for g in group:
            for i, j in enumerate(g):
                orbit[i] = orbit[j] = min(orbit[i], orbit[j])
    return tuple(orbit)


def pack_symmetries(found: Sequence[Symmetry]) -> Symmetries:
    """Lay symmetry groups end to end."""
    arity = max((len(orbit) for orbit, _ in found), default=1)
    orbits = np.zeros((len(found), arity), dtype=np.int16)
    rows: list[tuple[int, ...]] = []
    ptr = [0]
    for number, (orbit, group) in enumerate(found):
        orbits[number, : len(orbit)] = orbit
        rows += [g + (0,) * (arity - len(g)) for g in group]
        ptr.append(len(rows))
    packed = np.array(rows, dtype=np.int16).reshape(-1, arity)
    return Symmetries(orbits, np.array(ptr, dtype=np.int64), packed)


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
