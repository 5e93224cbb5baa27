"""The coarsest stable colouring of a factor graph, by partition refinement: each port is looked at O(log ports) times.

Three partitions are refined together: of the variables, of the factors, and of the ports. A factor's signature is the
tuple of its variables' colours up to the symmetries of its table; a port's is its factor's colour and its place in that
tuple, up to the symmetries that leave the tuple unchanged; a variable's is the multiset of its ports' colours. Whenever
a class falls apart its largest part keeps the colour, and only the other parts are looked at again ("process the
smaller half", Hopcroft 1971; Paige and Tarjan 1987). Signatures are compared in full: nothing depends on a hash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.fields.equal_rows import equal_rows, find_row, table_size
from hiddenfield.fields.table_symmetry import Symmetries
from hiddenfield.ops.compile import kernel, subroutine
from hiddenfield.shapes import Array, Bool, Int

__all__ = ["refine"]


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


def refine(
    scopes: Int[Array, " ports"],
    port_ptr: Int[Array, " factors+1"],
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
    The refined colours, numbered without gaps in order of first appearance.
    """
    num_ports, num_factors, num_variables = len(scopes), len(factor_colour), len(variable_colour)
    if num_factors == 0:
        return equal_rows(variable_colour[:, None])[0], factor_colour.astype(np.int32)
    variable_ptr, by_variable = np.zeros(num_variables + 1, np.int64), np.empty(num_ports, np.int32)
    _ports_by_variable(scopes, variable_ptr, by_variable)
    ports = Ports(
        scopes.astype(np.int32),
        port_ptr.astype(np.int64),
        np.repeat(np.arange(num_factors, dtype=np.int32), np.diff(port_ptr)),
        by_variable,
        variable_ptr,
        factor_symmetry.astype(np.int32),
        symmetries.orbit,
        symmetries.permutation_ptr,
        symmetries.permutations,
    )
    variables, factors = _partition(variable_colour), _partition(factor_colour)
    arity = symmetries.orbit.shape[1]
    _refine(
        ports,
        variables,
        factors,
        _port_partition(num_ports, arity),
        _scratch(max(num_factors, num_variables), arity),
        frozen.copy(),
    )
    return equal_rows(variables.colour[:, None])[0], equal_rows(factors.colour[:, None])[0]


def _partition(colour: Array) -> Partition:
    size = len(colour)
    members, place = np.empty(size, np.int32), np.empty(size, np.int32)
    return Partition(
        colour.astype(np.int32),
        members,
        place,
        np.zeros(size + 1, np.int32),
        np.zeros(size + 1, np.int32),
    )


def _port_partition(ports: int, arity: int) -> PortPartition:
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


def _scratch(most: int, arity: int) -> Scratch:
    row = [np.zeros(most + 1, np.int32) for _ in range(9)]
    key = np.empty((most, arity + 1), np.int32)
    return Scratch(row[0], row[1], key, np.empty(table_size(most), np.int32), *row[2:])


@kernel
def _ports_by_variable(scopes: Array, variable_ptr: Array, by_variable: Array) -> None:
    for port in range(scopes.size):
        variable_ptr[scopes[port] + 1] += 1
    for variable in range(variable_ptr.size - 1):
        variable_ptr[variable + 1] += variable_ptr[variable]
    fill = variable_ptr[:-1].copy()
    for port in range(scopes.size):
        variable = scopes[port]
        by_variable[fill[variable]] = port
        fill[variable] += 1


@subroutine(allocates=False)
def _start(part: Partition) -> int:
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
def _start_ports(ports: Ports, factors: Partition, classes: int, parts: PortPartition) -> int:
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
def _group(scratch: Scratch, count: int, width: int) -> int:
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
def _split(part: Partition, classes: int, scratch: Scratch, count: int, groups: int) -> tuple[int, int]:
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
def _signatures(
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
def _split_ports(
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


@subroutine(allocates=False)
def _count_splitter(
    ports: Ports,
    variables: Partition,
    factors: Partition,
    parts: PortPartition,
    splitter: int,
    frozen: Array,
    degree: Array,
    touched: Array,
) -> int:
    """Count each variable's ports of one colour; return how many variables have some.

    Those that are alone in their class cannot be told apart any further, and are frozen.
    """
    count = 0
    number = parts.factor_colour[splitter]
    for where in range(factors.begin[number], factors.end[number]):
        factor = factors.members[where]
        for port in range(ports.ptr[factor], ports.ptr[factor + 1]):
            variable = ports.variable[port]
            if parts.colour[port] == splitter and not frozen[variable]:
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


@kernel
def _refine(
    ports: Ports,
    variables: Partition,
    factors: Partition,
    parts: PortPartition,
    scratch: Scratch,
    frozen: Array,
) -> None:
    num_factors = factors.colour.size
    degree = np.zeros(variables.colour.size, np.int32)
    marked = np.zeros(num_factors, np.bool_)
    v_classes, f_classes = _start(variables), _start(factors)
    p_classes = _start_ports(ports, factors, f_classes, parts)
    queued = p_classes
    count = num_factors
    for factor in range(num_factors):
        scratch.touched[factor] = factor
    while count > 0:
        _signatures(ports, variables, factors, parts.place, scratch, count)
        groups = _group(scratch, count, scratch.key.shape[1])
        f_classes, found = _split(factors, f_classes, scratch, count, groups)
        p_classes, queued = _split_ports(ports, factors, parts, p_classes, queued, scratch, groups, found)
        since = v_classes
        for i in range(queued):
            count = _count_splitter(
                ports, variables, factors, parts, parts.queue[i], frozen, degree, scratch.touched
            )
            if count == 0:
                continue
            for j in range(count):
                variable = scratch.touched[j]
                scratch.key[j, 0], scratch.key[j, 1] = variables.colour[variable], degree[variable]
                degree[variable] = 0
            groups = _group(scratch, count, 2)
            v_classes, _ = _split(variables, v_classes, scratch, count, groups)
        queued = 0
        count = _touch_factors(ports, variables, since, v_classes, marked, scratch.touched)
