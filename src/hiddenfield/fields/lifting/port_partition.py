"""Classes of ports, which follow those of factors: by the colour of the factor and the place in its signature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.fields.lifting.factor_signatures import Ports
from hiddenfield.fields.lifting.partition_splitting import Partition, Scratch
from hiddenfield.ops.compile import subroutine
from hiddenfield.shapes import Array

__all__ = ["PortPartition", "make_port_partition", "split_ports", "start_ports"]


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
    empty = [np.empty(ports, np.int32) for _ in range(5)]
    return PortPartition(
        empty[0],
        empty[1],
        np.zeros(ports, np.int16),
        empty[2],
        np.zeros(ports, np.int64),
        empty[3],
        empty[4],
        np.empty(arity, np.int32),
        np.empty(arity, np.int32),
    )


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
