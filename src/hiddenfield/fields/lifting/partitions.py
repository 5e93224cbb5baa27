"""Partitions whose classes fall apart, the largest part of each keeping its colour.

Members of a class lie side by side. A split moves those that were touched to the back of their class, each group of
equal keys to a stretch of its own: its cost is the number of touched members, however large the classes are. Keys are
compared in full: nothing depends on a hash. Classes of ports follow those of factors: by the colour of the factor and
the place in its signature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.ops.compile import subroutine
from hiddenfield.ops.equal_rows import find_row, table_size
from hiddenfield.shapes import Array


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


class Partition(NamedTuple):
    """Colours, and the members of each side by side: ``members[begin[c]:end[c]]``; ``place`` is where each lies."""

    colour: Array
    members: Array
    place: Array
    begin: Array
    end: Array


class Scratch(NamedTuple):
    """Touched members and their groups; what a split notes about groups and classes."""

    touched: Array
    group: Array
    key: Array
    slots: Array
    group_row: Array
    group_size: Array
    group_colour: Array
    offset: Array
    touched_in: Array
    classes: Array
    rest_colour: Array


def make_partition(colour: Array) -> Partition:
    """Make room for a partition by colours; `lay_out` fills it."""
    size = len(colour)
    members, place = np.empty(size, np.int32), np.empty(size, np.int32)
    begin, end = np.zeros(size + 1, np.int32), np.zeros(size + 1, np.int32)
    return Partition(colour.astype(np.int32), members, place, begin, end)


def make_scratch(most: int, arity: int) -> Scratch:
    """Make room for splits of up to `most` members by keys of up to arity + 1 numbers."""
    row = [np.zeros(most + 1, np.int32) for _ in range(9)]
    key = np.empty((most, arity + 1), np.int32)
    return Scratch(row[0], row[1], key, np.empty(table_size(most), np.int32), *row[2:])


@subroutine(allocates=False)
def lay_out(part: Partition) -> int:
    """Lay the members of each colour side by side; return the number of colours."""
    classes = 0
    for item in range(part.colour.size):
        part.end[part.colour[item]] += 1
        classes = max(classes, part.colour[item] + 1)
    total = 0
    for number in range(classes):
        part.begin[number] = total
        total += part.end[number]
        part.end[number] = part.begin[number]
    for item in range(part.colour.size):
        where = part.end[part.colour[item]]
        part.members[where] = item
        part.place[item] = where
        part.end[part.colour[item]] = where + 1
    return classes


@subroutine(allocates=False)
def group_touched(scratch: Scratch, count: int, width: int) -> int:
    """Give each touched member the number of its key; return how many there are."""
    slots = 4
    while slots < 2 * count:
        slots *= 2
    scratch.slots[:slots] = -1
    groups = 0
    for i in range(count):
        g = find_row(scratch.key, i, width, scratch.group_row, groups, scratch.slots, slots - 1)
        if g == groups:
            scratch.group_size[g] = 0
            groups += 1
        scratch.group[i] = g
        scratch.group_size[g] += 1
    return groups


@subroutine(allocates=False)
def _gather(part: Partition, scratch: Scratch, count: int, groups: int) -> int:
    """Move touched members to the back of their class, each group to a stretch of its own; return the classes touched.

    Afterwards ``group_row`` is the size of each group, ``group_size`` where its stretch ends, ``group_colour`` its old
    colour, and ``rest_colour`` the largest group of each class touched.
    """
    found = 0
    for g in range(groups):
        old = part.colour[scratch.touched[scratch.group_row[g]]]
        scratch.group_colour[g] = old
        if scratch.touched_in[old] == 0:
            scratch.classes[found] = old
            scratch.rest_colour[old] = g
            scratch.offset[old] = part.end[old]
            found += 1
        elif scratch.group_size[g] > scratch.group_size[scratch.rest_colour[old]]:
            scratch.rest_colour[old] = g
        scratch.touched_in[old] += scratch.group_size[g]
    for i in range(count):
        item = scratch.touched[i]
        old = part.colour[item]
        scratch.offset[old] -= 1
        there, here = scratch.offset[old], part.place[item]
        other = part.members[there]
        part.members[there], part.members[here] = item, other
        part.place[item], part.place[other] = there, here
    for g in range(groups):
        old = scratch.group_colour[g]
        scratch.group_row[g] = scratch.group_size[g]
        scratch.group_size[g] = scratch.offset[old]
        scratch.offset[old] += scratch.group_row[g]
    for i in range(count):
        g = scratch.group[i]
        where = scratch.group_size[g]
        part.members[where] = scratch.touched[i]
        part.place[scratch.touched[i]] = where
        scratch.group_size[g] += 1
    return found


@subroutine(allocates=False)
def _recolour(part: Partition, new: int, begin: int, end: int) -> None:
    part.begin[new], part.end[new] = begin, end
    for where in range(begin, end):
        part.colour[part.members[where]] = new


@subroutine(allocates=False)
def split_classes(
    part: Partition, classes: int, scratch: Scratch, count: int, groups: int
) -> tuple[int, int]:
    """Split classes by the groups of their touched members; the untouched ones stay together.

    Afterwards ``group_colour`` is each group's colour and ``rest_colour[old]`` that of the untouched, -1 where there
    are none. The largest part keeps the old colour. Return the number of classes now, and of those touched.
    """
    found = _gather(part, scratch, count, groups)
    for i in range(found):
        old = scratch.classes[i]
        begin, rest = part.begin[old], part.end[old] - part.begin[old] - scratch.touched_in[old]
        best = scratch.rest_colour[old]
        keeps = best if scratch.group_row[best] > rest else -1
        scratch.touched_in[old] = keeps
        scratch.rest_colour[old] = -1
        if rest > 0 and keeps < 0:
            part.end[old] = begin + rest
            scratch.rest_colour[old] = old
        elif rest > 0:
            _recolour(part, classes, begin, begin + rest)
            scratch.rest_colour[old] = classes
            classes += 1
    for g in range(groups):
        old = scratch.group_colour[g]
        end = scratch.group_size[g]
        begin = end - scratch.group_row[g]
        if scratch.touched_in[old] == g:
            part.begin[old], part.end[old] = begin, end
        else:
            _recolour(part, classes, begin, end)
            scratch.group_colour[g] = classes
            classes += 1
    for i in range(found):
        scratch.touched_in[scratch.classes[i]] = 0
    return classes, found


# -- ports -------------------------------------------------------------------------------------------------


class PortPartition(NamedTuple):
    """Colours of ports, the factor colour of each, a port's place in its factor's signature, and what waits."""

    colour: Array
    factor_colour: Array
    place: Array
    queue: Array
    best_size: Array
    best_port: Array
    seen: Array
    named: Array
    before: Array


def make_port_partition(ports: int, arity: int) -> PortPartition:
    """Make room for a partition of so many ports; `start_ports` fills it."""
    colour, factor_colour, queue, best_port, seen = (np.empty(ports, np.int32) for _ in range(5))
    place, best_size = np.zeros(ports, np.int16), np.zeros(ports, np.int64)
    named, before = np.empty(arity, np.int32), np.empty(arity, np.int32)
    return PortPartition(colour, factor_colour, place, queue, best_size, best_port, seen, named, before)


@subroutine(allocates=False)
def start_ports(ports: Ports, factors: Partition, classes: int, parts: PortPartition) -> int:
    """Colour ports by the colour of their factor and their orbit; put all colours in the queue."""
    count = 0
    for number in range(classes):
        some = factors.members[factors.begin[number]]
        symmetry = ports.symmetry[some]
        arity = ports.ptr[some + 1] - ports.ptr[some]
        for p in range(arity):
            if ports.orbit[symmetry, p] == p:
                parts.named[p] = count
                parts.factor_colour[count] = number
                parts.queue[count] = count
                count += 1
        for where in range(factors.begin[number], factors.end[number]):
            first = ports.ptr[factors.members[where]]
            for p in range(arity):
                parts.colour[first + p] = parts.named[ports.orbit[symmetry, p]]
    return count


@subroutine(allocates=False)
def _piece(scratch: Scratch, i: int, groups: int) -> int:
    """Return the factor colour of part i: a group of touched factors, or the untouched rest of a class."""
    return scratch.group_colour[i] if i < groups else scratch.rest_colour[scratch.classes[i - groups]]


@subroutine(allocates=False)
def _alike(parts: PortPartition, port: int, other: int, touched: bool) -> bool:
    """Whether two ports of a factor have one colour: untouched factors keep their ports' places."""
    return parts.colour[port] == parts.colour[other] and (
        not touched or parts.place[port] == parts.place[other]
    )


@subroutine(allocates=False)
def _weigh_ports(
    ports: Ports, factors: Partition, parts: PortPartition, scratch: Scratch, groups: int, found: int
) -> int:
    """Find the largest piece of each old port class; return how many classes were seen."""
    seen = 0
    for i in range(groups + found):
        number = _piece(scratch, i, groups)
        if number < 0:
            continue
        some = factors.members[factors.begin[number]]
        first, last = ports.ptr[some], ports.ptr[some + 1]
        for port in range(first, last):
            copies, leads = 0, True
            for other in range(first, last):
                if _alike(parts, port, other, i < groups):
                    copies += 1
                    leads = leads and other >= port
            if leads:
                old = parts.colour[port]
                size = np.int64(copies) * (factors.end[number] - factors.begin[number])
                if parts.best_size[old] == 0:
                    parts.seen[seen] = old
                    seen += 1
                if size > parts.best_size[old]:
                    parts.best_size[old], parts.best_port[old] = size, port
    return seen


@subroutine(allocates=False)
def _name_ports(
    ports: Ports, some: int, number: int, touched: bool, parts: PortPartition, classes: int, queued: int
) -> tuple[int, int]:
    """Choose new colours for the ports of the factors that look like `some`: ``named``, by position."""
    first, last = ports.ptr[some], ports.ptr[some + 1]
    for port in range(first, last):
        name = -1
        for other in range(first, port):
            if _alike(parts, port, other, touched):
                name = parts.named[other - first]
                break
        if name < 0:
            name = parts.colour[port]
            if parts.best_port[name] != port:
                name = classes
                parts.queue[queued] = classes
                queued += 1
                classes += 1
            parts.factor_colour[name] = number
        parts.named[port - first] = name
    return classes, queued


@subroutine(allocates=False)
def _write_ports(ports: Ports, factors: Partition, number: int, touched: bool, parts: PortPartition) -> None:
    """Give the ports of all factors of a colour the names that one of them was given."""
    some = factors.members[factors.begin[number]]
    first, arity = ports.ptr[some], ports.ptr[some + 1] - ports.ptr[some]
    for p in range(arity):
        parts.before[p] = parts.place[first + p] if touched else parts.colour[first + p]
    for where in range(factors.begin[number], factors.end[number]):
        start = ports.ptr[factors.members[where]]
        for port in range(start, start + arity):
            value = parts.place[port] if touched else parts.colour[port]
            for p in range(arity):
                if parts.before[p] == value:
                    parts.colour[port] = parts.named[p]
                    break


@subroutine(allocates=False)
def split_ports(
    ports: Ports,
    factors: Partition,
    parts: PortPartition,
    classes: int,
    queued: int,
    scratch: Scratch,
    groups: int,
    found: int,
) -> tuple[int, int]:
    """Split port classes after their factors; the largest piece keeps the colour, the others join the queue."""
    seen = _weigh_ports(ports, factors, parts, scratch, groups, found)
    for i in range(groups + found):
        number = _piece(scratch, i, groups)
        if number >= 0:
            some = factors.members[factors.begin[number]]
            before = classes
            classes, queued = _name_ports(ports, some, number, i < groups, parts, classes, queued)
            if classes > before:
                _write_ports(ports, factors, number, i < groups, parts)
    for i in range(seen):
        parts.best_size[parts.seen[i]] = 0
    return classes, queued
