r"""How often each feature holds in an observed network, and how that changes with one pair.

A function of binary attributes is a sum of products over subsets S of its atoms,
:math:`f(x) = \sum_S c_S \prod_{s \in S} x_s` (the Möbius transform). Each product counts occurrences of a small
pattern, which are found by walking along the network's edges: the cost depends on the edges, not on n^k bindings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import Feature, RelationalScheme, weight_scale
from hiddenfield.models.relational.observations import Network, pair_attribute
from hiddenfield.models.relational.term_counts import change_term, check_terms, count_term
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float, Int

STATISTICS = {
    "edge": ((1, 1), 2),
    "triangle": ((2, 2, 2), 6),
    "star2": ((1, 1, 2), 2),
    "star3": ((1, 1, 1, 3), 6),
    "quadruplet": ((2, 2, 2, 2), 8),
}
"""Patterns that `sampling_loops` counts on bits, in this order: the degrees by which each is known, its symmetries."""


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
    check_terms(scheme)
    whole = np.zeros((1, 2), dtype=np.int64)
    totals = [
        sum(_occurrences(pattern, network, whole)[0] for pattern in graph_patterns(feature))
        / len(feature.symmetries)
        if feature.term is None
        else count_term(feature, network)
        for feature in scheme.features.values()
    ]
    return np.array(totals, dtype=np.float64) * weight_scale(scheme, weights)


def change_statistics(
    scheme: RelationalScheme, network: Network, pairs: Array, *, weights: str = "ground"
) -> Float[Array, "pairs features"]:
    """Return for each pair how much each count grows when the pair goes from 0 to 1, all else as observed."""
    check_terms(scheme)
    out = np.zeros((len(pairs), len(scheme.features)))
    for column, feature in enumerate(scheme.features.values()):
        if feature.term is not None:
            out[:, column] = change_term(feature, network, pairs)
            continue
        for pattern in graph_patterns(feature):
            for place in range(len(pattern.edges)):
                out[:, column] += _occurrences(pattern, network, pairs, place)
                if not pattern.ordered:
                    out[:, column] += _occurrences(pattern, network, pairs[:, ::-1], place)
        out[:, column] /= len(feature.symmetries)
    return out * weight_scale(scheme, weights)


def independent_features(scheme: RelationalScheme) -> list[int]:
    """Return the places of the features that look at one pair each: without others, pairs are independent."""
    return [
        place
        for place, feature in enumerate(scheme.features.values())
        if (
            sum(len(a.arguments) == 2 for a in feature.atoms) == 1
            if feature.term is None
            else feature.term.independent
        )
    ]


def has_terms(scheme: RelationalScheme) -> bool:
    """Whether a scheme has features without template."""
    return any(feature.term is not None for feature in scheme.features.values())


class Statistics(NamedTuple):
    r"""Features as combinations of what the sampler counts, plus a constant.

    Parameters
    ----------
    combine, constant
        A column for each of `STATISTICS` and then for each of `stars`.
    stars
        Of a two-mode network, (type, edges): ordered choices of so many edges that meet in a vertex of the first (0) or
        second (1) type, :math:`\sum_i d_i (d_i - 1) \cdots`.
    """

    combine: Float[Array, "features statistics"]
    constant: Float[Array, " features"]
    stars: tuple[tuple[int, int], ...] = ()


def as_statistics(scheme: RelationalScheme, sizes: Mapping[str, int] | int) -> Statistics | None:
    """Return each feature as a combination of statistics plus a constant, None if one is not; not for ordered pairs.

    Examples
    --------
    An open chain is two edges that meet, less three for each triangle; no edge is one less the edge.

    >>> from hiddenfield.fields.relational import graph_scheme
    >>> scheme = graph_scheme("open_chain")
    >>> exist = scheme.attributes["exist"]
    >>> absent = scheme.feature("absent", lambda a, b: ~exist[a, b])
    >>> as_statistics(scheme, 5)
    Statistics(combine=array([[ 0., -3.,  1.,  0.,  0.],
           [-1.,  0.,  0.,  0.,  0.]]), constant=array([ 0., 10.]), stars=())
    """
    size, kind = scheme.check_sizes(sizes), pair_attribute(scheme).type
    if not (kind.unordered or kind.two_mode):
        return None
    columns: dict[Any, int] = {name: i for i, name in enumerate(STATISTICS)}
    found: list[tuple[int, Any, float]] = []
    for row, feature in enumerate(scheme.features.values()):
        if feature.term is not None or any(len(atom.arguments) == 1 for atom in feature.atoms):
            return None
        for pattern in graph_patterns(feature):
            name, symmetries = known_statistic(pattern, two_mode=kind.two_mode)
            if symmetries == 0:
                return None
            used = sorted({place for edge in pattern.edges for place in edge})
            share = float(pattern.coefficients) * _ways(pattern.types, used, size) / len(feature.symmetries)
            found.append((row, name, share * symmetries))
            if name is not None:
                columns.setdefault(name, len(columns))
    combine, constant = np.zeros((len(scheme.features), len(columns))), np.zeros(len(scheme.features))
    for row, name, share in found:
        if name is None:
            constant[row] += share
        else:
            combine[row, columns[name]] += share
    return Statistics(combine, constant, tuple(list(columns)[len(STATISTICS) :]))


def known_statistic(pattern: Pattern, *, two_mode: bool) -> tuple[Any, int]:
    """Return which statistic a pattern counts, and how often each of them; None for no edges, 0 for none of them."""
    places, counts = np.unique(pattern.edges, return_counts=True)
    degrees = tuple(sorted(counts.tolist()))
    if not degrees:
        return None, 1
    if not two_mode:
        known = {shape: (name, symmetries) for name, (shape, symmetries) in STATISTICS.items()}
        return known.get(degrees, (None, 0))
    edges = len(pattern.edges)
    if edges == 1:
        return "edge", 1
    if degrees == STATISTICS["quadruplet"][0]:
        return "quadruplet", 4  # either side in both orders
    if counts.max() == edges:  # all edges meet in one vertex
        centre = int(places[counts.argmax()])
        return (0 if centre == pattern.edges[0][0] else 1, edges), 1
    return None, 0


@dataclass(frozen=True)
class Pattern:
    """A product of pair atoms, and the coefficient it has for each value of the vertex atoms."""

    types: tuple[str, ...]  # of the arguments
    edges: tuple[tuple[int, int], ...]  # pairs of argument places
    ordered: bool
    vertices: tuple[tuple[str, int], ...]  # (attribute, argument place) of each vertex atom
    coefficients: Array


def graph_patterns(feature: Feature) -> Iterator[Pattern]:
    """Write a feature as a sum of products of pair atoms, and yield those that count."""
    atoms = [
        (atom, tuple(feature.arguments.index(name) for name in atom.arguments)) for atom in feature.atoms
    ]
    pairs = [i for i, (_, places) in enumerate(atoms) if len(places) == 2]
    single = [i for i, (_, places) in enumerate(atoms) if len(places) == 1]
    table = np.transpose(feature.table, pairs + single)
    vertices = tuple((atoms[i][0].attribute.name, atoms[i][1][0]) for i in single)
    ordered = any(not atoms[i][0].attribute.type.unordered for i in pairs)
    for subset in _subsets(range(len(pairs))):
        coefficients = np.zeros(table.shape[len(pairs) :])
        for inner in _subsets(subset):
            index = tuple(int(i in inner) for i in range(len(pairs)))
            coefficients = coefficients + (-1) ** (len(subset) - len(inner)) * table[index]
        if np.any(coefficients != 0):
            edges = tuple((atoms[pairs[i]][1][0], atoms[pairs[i]][1][1]) for i in subset)
            yield Pattern(feature.argument_types, edges, ordered, vertices, np.asarray(coefficients))


def _subsets(items: Iterable[int]) -> Iterator[tuple[int, ...]]:
    known = tuple(items)
    return chain.from_iterable(combinations(known, size) for size in range(len(known) + 1))


GIVEN, ALONG, EVERY = 0, 1, 2
"""Where the entity of an argument comes from: given, a neighbour of an earlier one, any entity."""


def _ways(types: Sequence[str], used: Sequence[int], sizes: Mapping[str, int]) -> int:
    """Return in how many ways the arguments that are not used can be bound, given those that are."""
    total = 1
    for kind in dict.fromkeys(types):
        bound = sum(types[place] == kind for place in used)
        total *= math.perm(max(sizes[kind] - bound, 0), types.count(kind) - bound)
    return total


def _plan(pattern: Pattern, root: int | None, network: Network) -> tuple[Array, Array, list[int]]:
    """Return the order of the arguments, how each is reached, and which edges must be there.

    Steps are (kind, earlier depth, direction, first vertex of the type, the one after its last); checks are (depth,
    earlier depth, direction). The ends of the edge `root` are given. Arguments that neither an edge nor an attribute
    touches are left out.
    """
    edges = [edge for i, edge in enumerate(pattern.edges) if i != root]
    order = [] if root is None else list(pattern.edges[root])
    steps = [(GIVEN, 0, 0, 0, 0) for _ in order]
    touched = {place for edge in edges for place in edge} | {place for _, place in pattern.vertices}
    remaining = sorted(touched - set(order))
    while remaining:
        reached = ((a, edge) for a in remaining for edge in edges if a in edge and set(edge) & set(order))
        argument, edge = next(reached, (remaining[0], None))
        if edge is None:
            kind = pattern.types[argument]
            begin = network.offsets[kind]
            steps.append((EVERY, 0, 0, begin, begin + network.sizes[kind]))
        else:
            earlier = edge[1] if edge[0] == argument else edge[0]
            steps.append((ALONG, order.index(earlier), int(edge[0] == argument), 0, 0))
        order.append(argument)
        remaining.remove(argument)
    checks = []
    for edge in edges:
        earlier, depth = sorted(order.index(end) for end in edge)
        checks.append((depth, earlier, int(order[earlier] != edge[0])))
    return (
        np.array(steps, dtype=np.int64).reshape(-1, 5),
        np.array(checks, dtype=np.int64).reshape(-1, 3),
        order,
    )


def _occurrences(pattern: Pattern, network: Network, pairs: Array, root: int | None = None) -> Array:
    """Count occurrences in the whole network or, with a `root`, with that edge of the pattern laid on each pair."""
    steps, checks, order = _plan(pattern, root, network)
    out = np.zeros(len(pairs))
    if any(size < sum(pattern.types[i] == kind for i in order) for kind, size in network.sizes.items()):
        return out
    offsets, size = network.offsets, sum(network.sizes.values())
    codes = np.zeros((len(pattern.vertices), size), dtype=np.int64)
    for i, (name, place) in enumerate(pattern.vertices):
        begin = offsets[pattern.types[place]]
        codes[i, begin : begin + len(network.values[name])] = network.values[name]
    depth = np.array([order.index(place) for _, place in pattern.vertices], dtype=np.int64)
    shape = np.array(pattern.coefficients.shape, dtype=np.int64)
    flat = np.ascontiguousarray(pattern.coefficients.reshape(-1), dtype=np.float64)
    ptr, neighbour = _adjacency(network, pattern.ordered)
    numbers = np.ascontiguousarray(pairs + _offset(network))
    _walk(ptr, neighbour, steps, checks, numbers, flat, codes, shape, depth, out, work=0)
    return out * _ways(pattern.types, order, network.sizes)


def _offset(network: Network) -> Int[Array, " ends"]:
    """Return what is added to the ends of a pair where all vertices are numbered one type after the other."""
    return np.array([0, network.shape[0] if network.two_mode else 0])


def _adjacency(network: Network, ordered: bool) -> tuple[Array, Array]:
    """Return neighbours along edges and, in a second table, against them; sorted, for both directions."""
    size = sum(network.sizes.values())
    rows = next(iter(network.pairs.values())) + _offset(network)
    forth = rows if ordered else np.concatenate([rows, rows[:, ::-1]])
    pointers, neighbours = [], []
    for offset, table in ((0, forth), (len(forth), forth[:, ::-1])):
        order = np.lexsort((table[:, 1], table[:, 0]))
        pointers.append(np.concatenate([[0], np.cumsum(np.bincount(table[:, 0], minlength=size))]) + offset)
        neighbours.append(table[order, 1])
    return np.stack(pointers).astype(np.int64), np.concatenate(neighbours).astype(np.int64)


@compiled
def _walk(
    ptr: Array,
    neighbour: Array,
    steps: Array,
    checks: Array,
    pairs: Array,
    coefficients: Array,
    codes: Array,
    shape: Array,
    vertex_depth: Array,
    out: Array,
) -> None:
    """Walk through all occurrences, depth first, and add the coefficient of each."""
    depths = steps.shape[0]
    chosen = np.zeros(depths + 1, dtype=np.int64)
    place = np.zeros(depths + 1, dtype=np.int64)
    for number in range(out.size):
        total = 0.0
        depth = 0
        place[0] = 0
        while depth >= 0:
            if depth == depths:
                index = 0
                for v in range(shape.size):
                    index = index * shape[v] + codes[v, chosen[vertex_depth[v]]]
                total += coefficients[index]
                depth -= 1
                continue
            kind, earlier, direction = steps[depth, 0], steps[depth, 1], steps[depth, 2]
            begin, end = 0, 1
            if kind == ALONG:
                begin, end = ptr[direction, chosen[earlier]], ptr[direction, chosen[earlier] + 1]
            elif kind == EVERY:
                begin, end = steps[depth, 3], steps[depth, 4]
            if begin + place[depth] >= end:
                depth -= 1
                continue
            candidate = begin + place[depth]
            if kind == ALONG:
                candidate = neighbour[begin + place[depth]]
            elif kind == GIVEN:
                candidate = pairs[number, depth]
            place[depth] += 1
            good = True
            for d in range(depth):
                if chosen[d] == candidate:
                    good = False
            if good:
                for c in range(checks.shape[0]):
                    if checks[c, 0] != depth:
                        continue
                    if kind == ALONG and checks[c, 1] == earlier and checks[c, 2] == direction:
                        continue
                    low = ptr[checks[c, 2], chosen[checks[c, 1]]]
                    high = ptr[checks[c, 2], chosen[checks[c, 1]] + 1]
                    spot = low + np.searchsorted(neighbour[low:high], candidate)
                    if spot >= high or neighbour[spot] != candidate:
                        good = False
                        break
            if good:
                chosen[depth] = candidate
                depth += 1
                place[depth] = 0
        out[number] += total
