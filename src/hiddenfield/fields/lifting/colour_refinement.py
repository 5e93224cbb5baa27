"""The coarsest stable colouring of a factor graph: each port is looked at O(log ports) times.

Variables and factors are the items of one partition, and ports are edges with labels between them. A class of items
splits the classes of its neighbours by the number of edges that lead to it, label by label; the largest part of a class
keeps the colour, and only the others split their neighbours in turn ("process the smaller half", Hopcroft 1971; Paige
and Tarjan 1987). Members of a class lie side by side, so that a split costs as much as it touches.

Ports of a factor that may be exchanged freely have one label. Where a table has other symmetries, the labels of its
factor's ports follow the colours of its variables: the factor is known by the least tuple of these that a symmetry
gives, and each port by its first place in such a tuple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.ops import counting_sort
from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.shapes import Array, Bool, Int

MOST_LABEL = 2**15 - 1
OPEN, SETTLED, RELABELLED = 0, 1, 2
"""Whether an item may get another colour, or not any more; or is a factor whose ports may get other labels."""


class Ports(NamedTuple):
    """The factor graph as flat arrays.

    Parameters
    ----------
    variable, factor, label
        Of each port, one factor after another.
    symmetry
        For each factor the number of its group in `permutation_ptr`; -1 where labels stay as they are.
    permutation_ptr, permutations
        Groups of permutations of ports, end to end.
    """

    variable: Int[Array, " ports"]
    factor: Int[Array, " ports"]
    label: Int[Array, " ports"]
    symmetry: Int[Array, " factors"]
    permutation_ptr: Int[Array, " symmetry_bounds"]
    permutations: Int[Array, "permutations arity"]


class _Graph(NamedTuple):
    """All items, variables before factors: their ports are ``ports[ptr[item]:ptr[item + 1]]``."""

    ptr: Array
    ports: Array


class _Partition(NamedTuple):
    """Colours, and the members of each side by side: ``members[begin[c]:end[c]]``; ``place`` is where each lies.

    `state` is one of `OPEN`, `SETTLED` and `RELABELLED`. The rest is scratch space of a split: how many edges lead to
    an item, how many members of a class have some, these classes, and the bounds of a class's parts.
    """

    colour: Array
    state: Array
    members: Array
    place: Array
    begin: Array
    end: Array
    degree: Array
    behind: Array
    classes: Array
    bounds: Array


def refine(
    ports: Ports, colour: Int[Array, " items"], frozen: Bool[Array, " variables"]
) -> Int[Array, " items"]:
    """Refine the colours of variables and, after them, factors to the coarsest stable ones.

    Parameters
    ----------
    ports
        What touches what. Their labels are written to.
    colour
        Colours to start from, numbers from 0: factors and variables have different ones, and factors of one colour have
        the same symmetries.
    frozen
        Variables that keep their first colour whatever they touch: those with a single possible state.
    """
    size, variables = len(colour), len(frozen)
    order, ptr = counting_sort(torch.from_numpy(ports.variable.astype(np.int64)), variables)
    arity = np.bincount(ports.factor, minlength=size - variables)
    graph = _Graph(
        np.concatenate([ptr.numpy(), len(order) + np.cumsum(arity)]),
        np.concatenate([order.numpy(), np.arange(len(order))]).astype(np.int32),
    )
    most = size + int(colour.max(initial=-1)) + 1
    row = [np.zeros(most + 1, np.int32) for _ in range(8)]
    relabelled = np.where(ports.symmetry >= 0, RELABELLED, OPEN)
    state = np.concatenate([np.where(frozen, SETTLED, OPEN), relabelled]).astype(np.int8)
    part = _Partition(colour.astype(np.int32), state, *row)
    _refine(ports, graph, part)
    return part.colour


@subroutine(allocates=False)
def _lay_out(part: _Partition) -> int:
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
        part.members[where], part.place[item] = item, where
        part.end[part.colour[item]] = where + 1
    return classes


@subroutine(allocates=False)
def _count_edges(
    ports: Ports, graph: _Graph, part: _Partition, splitter: int, label: int, touched: Array
) -> tuple[int, int]:
    """Count the edges of a label from the splitter's members, by their other ends; list these ends.

    Return how many ends there are, and the next larger label that an edge has. Settled ends are passed over.
    """
    count, following = 0, MOST_LABEL
    variables = part.colour.size - ports.symmetry.size
    for where in range(part.begin[splitter], part.end[splitter]):
        item = part.members[where]
        for edge in range(graph.ptr[item], graph.ptr[item + 1]):
            port = graph.ports[edge]
            other = ports.factor[port] + variables if item < variables else ports.variable[port]
            if part.state[other] == SETTLED:
                continue
            own = 0 if part.state[other] == RELABELLED else ports.label[port]
            if own > label:
                following = min(following, own)
            elif own == label:
                if part.degree[other] == 0:
                    touched[count] = other
                    count += 1
                part.degree[other] += 1
    return count, following


@subroutine(allocates=False)
def _gather(part: _Partition, touched: Array, count: int) -> int:
    """Move touched members to the back of their class, and list the classes; return how many there are."""
    found = 0
    for i in range(count):
        item = touched[i]
        colour = part.colour[item]
        if part.behind[colour] == 0:
            part.classes[found] = colour
            found += 1
        part.behind[colour] += 1
        here, there = part.place[item], part.end[colour] - part.behind[colour]
        other = part.members[there]
        part.members[there], part.members[here] = item, other
        part.place[item], part.place[other] = there, here
    return found


@subroutine(allocates=True)
def _split(part: _Partition, touched: Array, count: int, classes: int) -> int:
    """Split classes by the degrees of touched members, 0 for the others; return the number of classes then."""
    members, degree, bounds = part.members, part.degree, part.bounds
    for i in range(_gather(part, touched, count)):
        old = part.classes[i]
        begin, end = part.begin[old], part.end[old]
        middle = end - part.behind[old]
        part.behind[old] = 0
        for where in range(middle, end):
            if degree[members[where]] != degree[members[middle]]:
                last = members[middle:end]
                last[:] = last[np.argsort(degree[last])]
                break
        parts, longest = 0, 0
        bounds[0] = begin
        for where in range(max(middle - 1, begin), end):
            part.place[members[where]] = where
            if where + 1 == end or degree[members[where + 1]] != degree[members[where]]:
                bounds[parts + 1] = where + 1
                if bounds[parts + 1] - bounds[parts] > bounds[longest + 1] - bounds[longest]:
                    longest = parts
                parts += 1
        for p in range(parts):
            number = old
            if p != longest:
                number, classes = classes, classes + 1
                for where in range(bounds[p], bounds[p + 1]):
                    part.colour[members[where]] = number
            part.begin[number], part.end[number] = bounds[p], bounds[p + 1]
            if bounds[p + 1] - bounds[p] == 1 and part.state[members[bounds[p]]] == OPEN:
                part.state[members[bounds[p]]] = SETTLED
    for i in range(count):
        degree[touched[i]] = 0
    return classes


@subroutine(allocates=False)
def _arrange(ports: Ports, graph: _Graph, colour: Array, item: int) -> int:
    """Return the permutation that gives the least tuple of colours; a port is labelled by its first place in any."""
    group = ports.symmetry[item - (colour.size - ports.symmetry.size)]
    begin, end = ports.permutation_ptr[group], ports.permutation_ptr[group + 1]
    first, arity = graph.ports[graph.ptr[item]], graph.ptr[item + 1] - graph.ptr[item]
    best = begin
    for q in range(arity):
        ports.label[first + q] = arity
    for g in range(begin, end):
        order, q = 0, 0
        while order == 0 and q < arity:
            new, old = ports.permutations[g, q], ports.permutations[best, q]
            order = colour[ports.variable[first + new]] - colour[ports.variable[first + old]]
            q += 1
        if order < 0:
            best = g
            for q in range(arity):
                ports.label[first + q] = arity
        if order <= 0:
            for q in range(arity):
                port = first + ports.permutations[g, q]
                ports.label[port] = min(ports.label[port], q)
    return best


@subroutine(allocates=False)
def _enqueue(
    queue: Array, waiting: Array, queued: Array, part: _Partition, variables: int, number: int
) -> None:
    """Let a class wait, among those of variables or those of factors, unless it does."""
    if not queued[number] and part.begin[number] < part.end[number]:
        kind = 1 if part.members[part.begin[number]] < variables else 0
        queue[kind, waiting[kind]], queued[number] = number, True
        waiting[kind] += 1


@compiled
def _refine(ports: Ports, graph: _Graph, part: _Partition) -> None:
    size, most = part.colour.size, part.begin.size
    variables = size - ports.symmetry.size
    touched, best = np.empty(size, np.int32), np.empty(size, np.int32)
    queue, waiting, queued = np.empty((2, most), np.int32), np.zeros(2, np.int64), np.zeros(most, np.bool_)
    classes = _lay_out(part)
    for number in range(classes):
        _enqueue(queue, waiting, queued, part, variables, number)
    while waiting.sum() > 0:
        kind = 1 if waiting[1] > 0 else 0  # variables first, so that factors fall apart once
        waiting[kind] -= 1
        splitter = queue[kind, waiting[kind]]
        queued[splitter] = False
        following = 0
        while following < MOST_LABEL:
            before, label = classes, following
            count, following = _count_edges(ports, graph, part, splitter, label, touched)
            classes = _split(part, touched, count, classes)
            arranged = 0
            for i in range(count if label == 0 else 0):
                if part.state[touched[i]] == RELABELLED:
                    touched[arranged] = touched[i]
                    best[arranged] = _arrange(ports, graph, part.colour, touched[i])
                    arranged += 1
            for q in range(ports.permutations.shape[1] if arranged else 0):
                for i in range(arranged):
                    first, last = graph.ptr[touched[i]], graph.ptr[touched[i] + 1]
                    if first + q < last:
                        port = graph.ports[first] + ports.permutations[best[i], q]
                        part.degree[touched[i]] = part.colour[ports.variable[port]] + 1
                classes = _split(part, touched, arranged, classes)
            for number in range(before, classes):
                _enqueue(queue, waiting, queued, part, variables, number)
            for i in range(arranged):  # of one class still, perhaps, but with other labels
                _enqueue(queue, waiting, queued, part, variables, part.colour[touched[i]])
