"""Partitions whose classes fall apart, the largest part of each keeping its colour.

Members of a class lie side by side. A split moves those that were touched to the back of their class, each group of
equal keys to a stretch of its own: its cost is the number of touched members, however large the classes are. Keys are
compared in full: nothing depends on a hash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.ops.compile import subroutine
from hiddenfield.ops.equal_rows import find_row, table_size
from hiddenfield.shapes import Array


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
    largest: Array


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
    colour, and ``largest`` the largest group of each class touched.
    """
    found = 0
    for g in range(groups):
        old = part.colour[scratch.touched[scratch.group_row[g]]]
        scratch.group_colour[g] = old
        if scratch.touched_in[old] == 0:
            scratch.classes[found] = old
            scratch.largest[old] = g
            scratch.offset[old] = part.end[old]
            found += 1
        elif scratch.group_size[g] > scratch.group_size[scratch.largest[old]]:
            scratch.largest[old] = g
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
def split_classes(part: Partition, classes: int, scratch: Scratch, count: int, groups: int) -> int:
    """Split classes by the groups of their touched members; the untouched ones stay together.

    Afterwards ``group_colour`` is each group's colour. The largest part keeps the old colour. Return the number of
    classes now.
    """
    found = _gather(part, scratch, count, groups)
    for i in range(found):
        old = scratch.classes[i]
        begin, rest = part.begin[old], part.end[old] - part.begin[old] - scratch.touched_in[old]
        scratch.touched_in[old] = scratch.largest[old]
        if scratch.group_row[scratch.largest[old]] <= rest:
            part.end[old] = begin + rest
            scratch.touched_in[old] = -1
        elif rest > 0:
            _recolour(part, classes, begin, begin + rest)
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
    return classes
