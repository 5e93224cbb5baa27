r"""How often each feature holds in an observed network, and how that changes with one pair.

A function of binary attributes is a sum of products over subsets S of its atoms,
:math:`f(x) = \sum_S c_S \prod_{s \in S} x_s` (the Möbius transform). Each product counts occurrences of a small
pattern, which are found by walking along the network's edges: the cost depends on the edges, not on n^k bindings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import Feature, RelationalScheme
from hiddenfield.models.relational.observations import Network
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float

__all__ = ["change_statistics", "count_features"]


def count_features(
    scheme: RelationalScheme, network: Network, *, weights: str = "ground"
) -> Float[Array, " features"]:
    """Count every feature in a complete network, in the order of the scheme.

    With ``weights="ground"`` each different ground feature counts once (a triangle is one triangle), with "binding"
    once for each legal binding (a triangle is six). Exact.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational.observations import network_from_edges
    >>> scheme = graph_scheme("edge", "triangle", "star2", "open_chain")
    >>> network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> count_features(scheme, network)
    array([4., 1., 5., 2.])
    """
    if not network.complete:
        raise InputError("features are counted in complete networks; this one has unknown values")
    totals = []
    for feature in scheme.features.values():
        total = sum(_occurrences(pattern, network, None) for pattern in _patterns(feature))
        totals.append(total / (len(feature.symmetries) if weights == "ground" else 1))
    return np.array(totals)


def change_statistics(
    scheme: RelationalScheme, network: Network, pairs: Array, *, weights: str = "ground"
) -> Float[Array, "pairs features"]:
    """Return for each pair how much each count grows when the pair goes from 0 to 1, all else as observed."""
    out = np.zeros((len(pairs), len(scheme.features)))
    for column, feature in enumerate(scheme.features.values()):
        for pattern in _patterns(feature):
            for place in range(len(pattern.edges)):
                out[:, column] += _rooted(pattern, network, place, pairs)
        out[:, column] /= len(feature.symmetries) if weights == "ground" else 1
    return out


@dataclass(frozen=True)
class _Pattern:
    """A product of pair atoms, and the coefficient it has for each value of the vertex atoms."""

    feature: Feature
    edges: tuple[tuple[int, int], ...]  # pairs of argument places
    ordered: bool
    vertices: tuple[tuple[str, int], ...]  # (attribute, argument place) of each vertex atom
    coefficients: Array


def _patterns(feature: Feature) -> Iterator[_Pattern]:
    place = {name: i for i, name in enumerate(feature.arguments)}
    pairs = [i for i, atom in enumerate(feature.atoms) if len(atom.arguments) == 2]
    single = [i for i, atom in enumerate(feature.atoms) if len(atom.arguments) == 1]
    table = np.transpose(feature.table, pairs + single)
    vertices = tuple((feature.atoms[i].attribute.name, place[feature.atoms[i].arguments[0]]) for i in single)
    ordered = any(not feature.atoms[i].attribute.type.unordered for i in pairs)
    subsets = chain.from_iterable(combinations(range(len(pairs)), size) for size in range(len(pairs) + 1))
    for subset in subsets:
        coefficients = np.zeros(table.shape[len(pairs) :])
        for inner in chain.from_iterable(combinations(subset, size) for size in range(len(subset) + 1)):
            index = tuple(1 if i in inner else 0 for i in range(len(pairs)))
            coefficients = coefficients + (-1) ** (len(subset) - len(inner)) * table[index]
        if np.any(coefficients != 0):
            edges = tuple(
                (place[feature.atoms[pairs[i]].arguments[0]], place[feature.atoms[pairs[i]].arguments[1]])
                for i in subset
            )
            yield _Pattern(feature, edges, ordered, vertices, np.asarray(coefficients))


def _plan(pattern: _Pattern, roots: tuple[int, ...], skip: int | None) -> tuple[Array, Array, list[int]]:
    """Return the order of the arguments with, for each, along which edge it is reached and which others must be there.

    A row is (argument, step, earlier argument, direction): step 0 tries every entity, 1 follows an edge from the
    earlier one. Checks are (depth, earlier depth, direction). Arguments that no edge reaches are left free.
    """
    edges = [edge for i, edge in enumerate(pattern.edges) if i != skip]
    order = list(roots)
    rows = [(argument, 2, 0, 0) for argument in roots]
    covered = {argument for edge in edges for argument in edge} | {place for _, place in pattern.vertices}
    remaining = [a for a in range(len(pattern.feature.arguments)) if a in covered and a not in order]
    while remaining:
        reached = [
            (argument, edge)
            for argument in remaining
            for edge in edges
            if argument in edge and (edge[0] in order or edge[1] in order)
        ]
        if reached:
            argument, edge = reached[0]
            earlier = edge[1] if edge[0] == argument else edge[0]
            rows.append((argument, 1, order.index(earlier), 0 if edge[0] == earlier else 1))
        else:
            argument = remaining[0]
            rows.append((argument, 0, 0, 0))
        order.append(argument)
        remaining.remove(argument)
    checks = []
    for first, second in edges:
        depth, earlier = (
            max(order.index(first), order.index(second)),
            min(order.index(first), order.index(second)),
        )
        checks.append((depth, earlier, 0 if order[earlier] == first else 1))
    return (
        np.array(rows, dtype=np.int64).reshape(-1, 4),
        np.array(checks, dtype=np.int64).reshape(-1, 3),
        order,
    )


def _occurrences(pattern: _Pattern, network: Network, skip: None) -> float:
    rows, checks, order = _plan(pattern, (), skip)
    out = np.zeros(1)
    nothing = np.zeros((1, 2), dtype=np.int64)
    _run(pattern, network, rows, checks, order, nothing, out)
    return float(out[0])


def _rooted(pattern: _Pattern, network: Network, place: int, pairs: Array) -> Array:
    """Count occurrences with the pattern's edge at `place` laid on each pair, both ways where pairs are unordered."""
    rows, checks, order = _plan(pattern, pattern.edges[place], place)
    out = np.zeros(len(pairs))
    _run(pattern, network, rows, checks, order, pairs, out)
    if not pattern.ordered:
        again = np.zeros(len(pairs))
        _run(pattern, network, rows, checks, order, pairs[:, ::-1], again)
        out = out + again
    return out


def _run(
    pattern: _Pattern,
    network: Network,
    rows: Array,
    checks: Array,
    order: list[int],
    pairs: Array,
    out: Array,
) -> None:
    size = next(iter(network.sizes.values()))
    free = len(pattern.feature.arguments) - len(order)
    ptr, neighbour = _adjacency(network, pattern.ordered)
    codes = np.zeros((max(len(pattern.vertices), 1), size), dtype=np.int64)
    stride = np.zeros(max(len(pattern.vertices), 1), dtype=np.int64)
    depth = np.zeros(max(len(pattern.vertices), 1), dtype=np.int64)
    step = 1
    for i in reversed(range(len(pattern.vertices))):
        name, argument = pattern.vertices[i]
        codes[i], stride[i], depth[i] = network.values[name], step, order.index(argument)
        step *= pattern.coefficients.shape[i]
    flat = np.ascontiguousarray(pattern.coefficients.reshape(-1), dtype=np.float64)
    _walk(
        ptr,
        neighbour,
        size,
        rows,
        checks,
        np.ascontiguousarray(pairs),
        flat,
        codes,
        stride,
        depth,
        out,
        work=0,
    )
    out *= math.perm(size - len(order), free) if size >= len(order) else 0


def _adjacency(network: Network, ordered: bool) -> tuple[Array, Array]:
    """Return neighbours along edges and, in a second table, against them; sorted, for both directions."""
    size = next(iter(network.sizes.values()))
    rows = next(iter(network.pairs.values()))
    forth = rows if ordered else np.concatenate([rows, rows[:, ::-1]])
    pointers, neighbours = [], []
    offset = 0
    for table in (forth, forth[:, ::-1]):
        order = np.lexsort((table[:, 1], table[:, 0]))
        pointers.append(np.concatenate([[0], np.cumsum(np.bincount(table[:, 0], minlength=size))]) + offset)
        neighbours.append(table[order, 1])
        offset += len(table)
    return np.stack(pointers).astype(np.int64), np.concatenate(neighbours).astype(np.int64)


@compiled
def _walk(
    ptr: Array,
    neighbour: Array,
    size: int,
    rows: Array,
    checks: Array,
    pairs: Array,
    coefficients: Array,
    codes: Array,
    stride: Array,
    vertex_depth: Array,
    out: Array,
) -> None:
    """Walk through all occurrences, depth first, and add the coefficient of each."""
    depths = rows.shape[0]
    chosen = np.zeros(depths + 1, dtype=np.int64)
    place = np.zeros(depths + 1, dtype=np.int64)
    vertices = stride.size
    roots = 0
    for d in range(depths):
        if rows[d, 1] == 2:
            roots += 1
    for number in range(out.size):
        total = 0.0
        for d in range(roots):
            chosen[d] = pairs[number, d]
        # The edges between the roots, such as the one back: without them there is nothing to walk for.
        good = True
        for c in range(checks.shape[0]):
            if checks[c, 0] >= roots:
                continue
            low, high = (
                ptr[checks[c, 2], chosen[checks[c, 1]]],
                ptr[checks[c, 2], chosen[checks[c, 1]] + 1],
            )
            spot = low + np.searchsorted(neighbour[low:high], chosen[checks[c, 0]])
            if spot >= high or neighbour[spot] != chosen[checks[c, 0]]:
                good = False
        if not good:
            continue
        depth = roots
        if depth < depths:
            place[depth] = 0
        if depths == roots:
            index = 0
            for v in range(vertices):
                if stride[v] > 0:
                    index += stride[v] * codes[v, chosen[vertex_depth[v]]]
            out[number] += coefficients[index]
            continue
        while depth >= roots:
            step, earlier, direction = rows[depth, 1], rows[depth, 2], rows[depth, 3]
            if step == 1:
                begin, end = ptr[direction, chosen[earlier]], ptr[direction, chosen[earlier] + 1]
            else:
                begin, end = 0, size
            if begin + place[depth] >= end:
                depth -= 1
                continue
            candidate = neighbour[begin + place[depth]] if step == 1 else place[depth]
            place[depth] += 1
            good = True
            for d in range(depth):
                if chosen[d] == candidate:
                    good = False
            if good:
                for c in range(checks.shape[0]):
                    if checks[c, 0] != depth:
                        continue
                    if step == 1 and checks[c, 1] == earlier and checks[c, 2] == direction:
                        continue
                    low, high = (
                        ptr[checks[c, 2], chosen[checks[c, 1]]],
                        ptr[checks[c, 2], chosen[checks[c, 1]] + 1],
                    )
                    spot = low + np.searchsorted(neighbour[low:high], candidate)
                    if spot >= high or neighbour[spot] != candidate:
                        good = False
                        break
            if not good:
                continue
            chosen[depth] = candidate
            if depth + 1 < depths:
                depth += 1
                place[depth] = 0
                continue
            index = 0
            for v in range(vertices):
                if stride[v] > 0:
                    index += stride[v] * codes[v, chosen[vertex_depth[v]]]
            total += coefficients[index]
        out[number] += total
