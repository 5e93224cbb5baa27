r"""How often each feature holds in an observed network, and how that changes with one pair.

A function of binary attributes is a sum of products over subsets S of its atoms,
:math:`f(x) = \sum_S c_S \prod_{s \in S} x_s` (the Möbius transform). Each product counts occurrences of a small
pattern, which are found by walking along the network's edges: the cost depends on the edges, not on n^k bindings.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import Feature, RelationalScheme, weight_scale
from hiddenfield.models.relational.observations import Network, covariate_of, pair_attribute
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float


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
    totals = [
        sum(
            share * _occurrences(pattern, network)
            for pattern, share in graph_patterns(feature, network.sizes).items()
        )
        if feature.term is None
        else _count_term(feature, network)
        for feature in scheme.features.values()
    ]
    return np.array(totals, dtype=np.float64) * weight_scale(scheme, weights)


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


def check_terms(scheme: RelationalScheme) -> None:
    """Raise an `InputError` where a term is not for networks of the scheme: directed, or two-mode."""
    kind = pair_attribute(scheme).type
    for feature in scheme.features.values():
        if feature.term is not None:
            feature.term.check_pairs(two_mode=kind.two_mode, ordered=not kind.unordered)


def _count_term(feature: Feature, network: Network) -> float:
    """Count a term in a complete network. Cost: a product of adjacency matrices for shared partners."""
    term, rows = feature.term, next(iter(network.pairs.values()))
    assert term is not None
    if term.independent:
        return float(covariate_of(network, feature)[rows[:, 0], rows[:, 1]].sum())
    if term.kind == "gwesp":
        near = network.adjacency().astype(np.float64)
        counts = (near @ near).astype(np.int64)[rows[:, 0], rows[:, 1]]
    else:
        of_type = 0 if term.mode is None else term.mode
        counts = np.bincount(
            rows.reshape(-1) if term.mode is None else rows[:, of_type], minlength=network.shape[of_type]
        )
    return float(term.weighted(max(network.shape))[counts].sum())


def has_terms(scheme: RelationalScheme) -> bool:
    """Whether a scheme has features without template."""
    return any(feature.term is not None for feature in scheme.features.values())


@dataclass(frozen=True, order=True)
class Pattern:
    """A product of pair atoms, and the coefficient that it has for each value of its vertex atoms.

    Parameters
    ----------
    types
        Of the arguments, each of which an edge or a vertex atom touches.
    edges
        Pairs of places of arguments.
    vertices
        (place, attribute) of each vertex atom.
    shape, coefficients
        Numbers of their values, and what each combination counts, the last atom the quickest.
    ordered
        Whether edges have a direction.
    """

    types: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    vertices: tuple[tuple[int, str], ...]
    shape: tuple[int, ...]
    coefficients: tuple[float, ...]
    ordered: bool

    def canonical(self, given: tuple[int, ...] = ()) -> Pattern:
        """Return the pattern with its arguments in an order that all equal patterns have, those `given` first."""
        others = set(range(len(self.types))) - set(given)
        return min(self._with_order((*given, *order)) for order in permutations(sorted(others)))

    def _with_order(self, order: Sequence[int]) -> Pattern:
        new = {old: place for place, old in enumerate(order)}
        ends = [(new[a], new[b]) for a, b in self.edges]
        atoms = sorted((new[place], name, axis) for axis, (place, name) in enumerate(self.vertices))
        axes = [axis for *_, axis in atoms]
        table = np.reshape(self.coefficients, self.shape).transpose(axes)
        return Pattern(
            tuple(self.types[place] for place in order),
            tuple(sorted(ends if self.ordered else ((min(pair), max(pair)) for pair in ends))),
            tuple((place, name) for place, name, _ in atoms),
            table.shape,
            tuple(table.reshape(-1).tolist()),
            self.ordered,
        )


def graph_patterns(feature: Feature, sizes: Mapping[str, int]) -> dict[Pattern, float]:
    """Write a feature as a sum of products of pair atoms: what each occurrence of a pattern counts.

    Examples
    --------
    An open chain is two edges that meet, in both orders, less each triangle three times.

    >>> from hiddenfield.fields.relational import graph_scheme
    >>> scheme = graph_scheme("open_chain")
    >>> found = graph_patterns(scheme.features["open_chain"], {"vertex": 5})
    >>> {pattern.edges: share for pattern, share in found.items()}
    {((0, 1), (0, 2)): 0.5, ((0, 1), (0, 2), (1, 2)): -0.5}
    """
    atoms = [
        (atom, tuple(feature.arguments.index(name) for name in atom.arguments)) for atom in feature.atoms
    ]
    pairs = [i for i, (_, places) in enumerate(atoms) if len(places) == 2]
    single = [i for i, (_, places) in enumerate(atoms) if len(places) == 1]
    table = np.transpose(feature.table, pairs + single)
    vertices = tuple((atoms[i][1][0], atoms[i][0].attribute.name) for i in single)
    ordered = any(not atoms[i][0].attribute.type.unordered for i in pairs)
    found: defaultdict[Pattern, float] = defaultdict(float)
    for subset in _subsets(range(len(pairs))):
        coefficients = np.zeros(table.shape[len(pairs) :])
        for inner in _subsets(subset):
            index = tuple(int(i in inner) for i in range(len(pairs)))
            coefficients = coefficients + (-1) ** (len(subset) - len(inner)) * table[index]
        if not np.any(coefficients != 0):
            continue
        edges = [(atoms[pairs[i]][1][0], atoms[pairs[i]][1][1]) for i in subset]
        used = sorted({place for edge in edges for place in edge} | {place for place, _ in vertices})
        new = {old: place for place, old in enumerate(used)}
        share = _ways(feature.argument_types, used, sizes) / len(feature.symmetries)
        if not vertices:
            share, coefficients = share * float(coefficients), np.ones(())
        pattern = Pattern(
            tuple(feature.argument_types[place] for place in used),
            tuple((new[a], new[b]) for a, b in edges),
            tuple((new[place], name) for place, name in vertices),
            coefficients.shape,
            tuple(coefficients.reshape(-1).tolist()),
            ordered,
        )
        found[pattern.canonical()] += share
    return {pattern: share for pattern, share in found.items() if share}


@functools.cache
def around_edge(pattern: Pattern) -> Counter[Pattern]:
    """Return what is left of a pattern where one of its edges lies on a given pair, its first two arguments."""
    found: Counter[Pattern] = Counter()
    for place, (a, b) in enumerate(pattern.edges):
        rest = replace(pattern, edges=pattern.edges[:place] + pattern.edges[place + 1 :])
        for ends in ((a, b),) if pattern.ordered else ((a, b), (b, a)):
            found[rest.canonical(ends)] += 1
    return found


def _subsets(items: Iterable[int]) -> Iterator[tuple[int, ...]]:
    known = tuple(items)
    return chain.from_iterable(combinations(known, size) for size in range(len(known) + 1))


ALONG, EVERY = 0, 1
"""Where the entity of an argument comes from: a neighbour of an earlier one, any entity."""


def _ways(types: Sequence[str], used: Sequence[int], sizes: Mapping[str, int]) -> int:
    """Return in how many ways the arguments that are not used can be bound, given those that are."""
    total = 1
    for kind in dict.fromkeys(types):
        bound = sum(types[place] == kind for place in used)
        total *= math.perm(max(sizes[kind] - bound, 0), types.count(kind) - bound)
    return total


def plan_walk(pattern: Pattern, given: int = 0) -> tuple[Array, Array, list[int]]:
    """Return how each argument is reached, which edges must be there, and the order of the arguments.

    Steps are (kind, earlier depth, direction), checks (depth, earlier depth, direction), one for each edge. The first
    arguments may be given: there are no steps to these.
    """
    order = list(range(given))
    steps: list[tuple[int, int, int]] = []
    remaining = list(range(given, len(pattern.types)))
    while remaining:
        reached = (
            (a, edge) for a in remaining for edge in pattern.edges if a in edge and set(edge) & set(order)
        )
        argument, edge = next(reached, (remaining[0], None))
        if edge is None:
            steps.append((EVERY, 0, 0))
        else:
            earlier = edge[1] if edge[0] == argument else edge[0]
            steps.append((ALONG, order.index(earlier), int(edge[0] == argument)))
        order.append(argument)
        remaining.remove(argument)
    checks = []
    for edge in pattern.edges:
        earlier, depth = sorted(order.index(end) for end in edge)
        checks.append((depth, earlier, int(order[earlier] != edge[0])))
    return np.array(steps, np.int64).reshape(-1, 3), np.array(sorted(checks), np.int64).reshape(-1, 3), order


def _occurrences(pattern: Pattern, network: Network) -> float:
    """Count occurrences in a network."""
    steps, checks, order = plan_walk(pattern)
    if any(size < pattern.types.count(kind) for kind, size in network.sizes.items()):
        return 0.0
    offsets, out = network.offsets, np.zeros(1)
    begins = np.array([offsets[pattern.types[place]] for place in order], dtype=np.int64)
    ends = begins + np.array([network.sizes[pattern.types[place]] for place in order], dtype=np.int64)
    depth = np.array([order.index(place) for place, _ in pattern.vertices], dtype=np.int64)
    codes = np.zeros((len(pattern.vertices), sum(network.sizes.values())), dtype=np.int64)
    for i, (place, name) in enumerate(pattern.vertices):
        begin = offsets[pattern.types[place]]
        codes[i, begin : begin + len(network.values[name])] = network.values[name]
    shape, flat = np.array(pattern.shape, dtype=np.int64), np.array(pattern.coefficients)
    ptr, neighbour = _adjacency(network, pattern.ordered)
    _walk(ptr, neighbour, steps, begins, ends, checks, flat, codes, shape, depth, out, work=0)
    return float(out[0])


def _adjacency(network: Network, ordered: bool) -> tuple[Array, Array]:
    """Return neighbours along edges and, in a second table, against them; sorted, for both directions."""
    size = sum(network.sizes.values())
    rows = next(iter(network.pairs.values())) + np.array([0, network.split])
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
    begins: Array,
    ends: Array,
    checks: Array,
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
    total, depth = 0.0, 0
    while depth >= 0:
        if depth == depths:
            index = 0
            for v in range(shape.size):
                index = index * shape[v] + codes[v, chosen[vertex_depth[v]]]
            total += coefficients[index]
            depth -= 1
            continue
        kind, earlier, direction = steps[depth, 0], steps[depth, 1], steps[depth, 2]
        begin, end = begins[depth], ends[depth]
        if kind == ALONG:
            begin, end = ptr[direction, chosen[earlier]], ptr[direction, chosen[earlier] + 1]
        if begin + place[depth] >= end:
            depth -= 1
            continue
        candidate = begin + place[depth]
        if kind == ALONG:
            candidate = neighbour[begin + place[depth]]
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
    out[0] = total
