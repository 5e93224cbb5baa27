"""The statistics that the sampler counts on bits, and how the features of a scheme are made of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.fields.relational import RelationalScheme, weight_scale
from hiddenfield.models.relational.counts import (
    Pattern,
    around_edge,
    count_features,
    graph_patterns,
    plan_walk,
)
from hiddenfield.models.relational.observations import Network, covariate_of, pair_attribute
from hiddenfield.models.relational.sampling_loops import DEGREES, PARTNERS, Changes, count_changes
from hiddenfield.shapes import Array, Float


class Basis(NamedTuple):
    """Each feature as a combination of statistics plus a constant.

    Parameters
    ----------
    combine, constant
        How features are made of the statistics, and what they count in a network without edges.
    changes
        How the statistics change with an edge.
    """

    combine: Float[Array, "features statistics"]
    constant: Float[Array, " features"]
    changes: Changes


def sampling_basis(scheme: RelationalScheme, sizes: Mapping[str, int], network: Network | None) -> Basis:
    """Return the basis of a scheme, given the attributes and covariates of a network.

    Edges, triangles, cycles of four, and functions of degrees and shared partners have loops of their own; whatever
    else a feature counts is a pattern that is walked along the edges around a pair. The vertices of a two-mode network
    are numbered one type after the other.
    """
    attribute = pair_attribute(scheme)
    kind = attribute.type
    split, total = sizes[kind.parts[0]], sum(sizes[part] for part in dict.fromkeys(kind.parts))
    ours = np.arange(total) < split
    modes = {None: np.ones(total, dtype=bool), 0: ours, 1: ~ours}
    # By name: the kind and the gains of a function with whose they are, and numbers of pairs.
    functions: dict[Any, tuple[int, Array, Array]] = {}
    numbers: dict[str, Array] = {}
    patterns: dict[Pattern, None] = {}
    rows: list[defaultdict[Any, float]] = []
    for name, feature in scheme.features.items():
        row: defaultdict[Any, float] = defaultdict(float)
        rows.append(row)
        if (term := feature.term) is None:
            for pattern, share in graph_patterns(feature, sizes).items():
                column, times = _known(pattern, two_mode=kind.two_mode)
                row[column] += share * times
                if isinstance(column, Pattern) and column.edges:
                    patterns[column] = None
                elif isinstance(column, tuple):
                    functions[column] = (DEGREES, _star_gains(column[1], total), modes[column[0]])
            continue
        row[name] = 1.0
        if not term.independent:
            shape = PARTNERS if term.kind == "gwesp" else DEGREES
            functions[name] = (shape, term.powers(total), modes[term.mode])
        else:
            assert network is not None
            numbers[name] = np.zeros((total, total))
            numbers[name][: network.shape[0], total - network.shape[1] :] = covariate_of(network, feature)
            if kind.two_mode:
                numbers[name] += numbers[name].T
    columns = ["edge", "triangle", "cycle", *functions, *numbers, *patterns]
    combine = np.array([[row[column] for column in columns] for row in rows])
    empty = Network(dict(sizes), {attribute.name: np.zeros((0, 2), dtype=np.int64)})
    if network is not None:
        empty = Network(network.sizes, empty.pairs, network.values, covariates=network.covariates)
    changes = Changes(
        bool(combine[:, 1].any()),
        bool(combine[:, 2].any()),
        np.array([shape for shape, _, _ in functions.values()], dtype=np.int64),
        np.array([gains for _, gains, _ in functions.values()]).reshape(len(functions), total + 1),
        np.array([among for *_, among in functions.values()], dtype=bool).reshape(len(functions), total),
        np.array(list(numbers.values())).reshape(len(numbers), total, total),
        *_walks(list(patterns), empty),
    )
    return Basis(combine, count_features(scheme, empty), changes)


def change_statistics(
    scheme: RelationalScheme, network: Network, pairs: Array, *, weights: str = "ground"
) -> Float[Array, "pairs features"]:
    """Return for each pair how much each count grows when the pair goes from 0 to 1, all else as observed."""
    combine, _, changes = sampling_basis(scheme, network.sizes, network)
    kind, shift = pair_attribute(scheme).type, np.array([0, network.split])
    near = replace(network, ordered=kind.directed).adjacency()
    rows = as_bits(np.stack([near, near.T]) if kind.directed else near[None], network)
    degree = np.bincount((next(iter(network.pairs.values())) + shift).reshape(-1), minlength=rows.shape[1])
    out = np.zeros((len(pairs), len(combine)))
    count_changes(rows, degree, np.ascontiguousarray(pairs + shift), changes, combine, out)
    return out * weight_scale(scheme, weights)


def as_bits(matrices: Array, network: Network) -> Array:
    """Return adjacency of all vertices as bits: (networks, vertices, words)."""
    split, size = network.split, sum(network.sizes.values())
    flags = np.zeros((len(matrices), size, 64 * -(-size // 64)), dtype=bool)
    flags[:, : matrices.shape[1], split:size] = matrices
    if split:
        flags[:, split:, :split] = matrices.swapaxes(1, 2)
    return np.packbits(flags, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def from_bits(rows: Array, network: Network) -> Array:
    """Return adjacency from bits; of a two-mode network, the first by the second type."""
    parts = np.ascontiguousarray(rows.astype("<u8")).view(np.uint8)
    flags = np.unpackbits(parts, axis=-1, bitorder="little")[..., : rows.shape[-2]].astype(bool)
    return flags[..., : network.shape[0], network.split :]


def _known(pattern: Pattern, *, two_mode: bool) -> tuple[Any, int]:
    r"""Return which statistic a pattern counts, and how often each; the pattern itself where there is none.

    (type, k) is the number of ordered choices of k edges that meet in a vertex, :math:`d (d - 1) \cdots`: of any in a
    network of one type, of one of the first (0) or second (1) type in a two-mode network.
    """
    edges = pattern.edges
    if pattern.vertices or not edges:
        return pattern, 1
    if len(edges) == 1:
        return "edge", 1 if pattern.ordered else 2
    if pattern.ordered and not two_mode:
        return pattern, 1
    centre = set(edges[0]).intersection(*edges)
    if centre:
        return (None if not two_mode else int(centre.pop() == edges[0][1]), len(edges)), 1
    meetings = sorted(np.unique(edges, return_counts=True)[1].tolist())
    known = {(2, 2, 2): ("triangle", 6), (2, 2, 2, 2): ("cycle", 4 if two_mode else 8)}
    return known.get(tuple(meetings), (pattern, 1))


def _star_gains(edges: int, size: int) -> Float[Array, " counts"]:
    r"""Return by how much :math:`d (d - 1) \cdots (d - k + 1)` grows with d, for d from 0 to `size`."""
    return np.diff([float(math.perm(degree, edges)) for degree in range(size + 2)])


def _walks(patterns: Sequence[Pattern], network: Network) -> tuple[Array, ...]:
    """Return the walks around a pair of all patterns, as `Changes` has them."""
    offsets, total = network.offsets, sum(network.sizes.values())
    kinds = {name: pattern.types[place] for pattern in patterns for place, name in pattern.vertices}
    codes = np.zeros((len(kinds), total), dtype=np.int64)
    for row, (name, kind) in zip(codes, kinds.items(), strict=True):
        row[offsets[kind] : offsets[kind] + network.sizes[kind]] = network.values[name]
    walks: list[Any] = []
    steps: list[Any] = []
    checks: list[Any] = []
    atoms: list[Any] = []
    values: list[float] = []
    for number, pattern in enumerate(patterns):
        for rest, times in around_edge(pattern).items():
            _, edges, order = plan_walk(rest, 2)
            begin = (len(steps), len(atoms), len(values))
            for depth, place in enumerate(order[1:], start=1):
                here = [(earlier, side) for at, earlier, side in edges.tolist() if at == depth]
                joined = {0, *(earlier for earlier, _ in here)} if depth == 1 else {e for e, _ in here}
                here += [(earlier, 2) for earlier in range(depth) if earlier not in joined]
                mask = list(offsets).index(rest.types[place])
                steps.append((mask, len(checks), len(checks) + len(here)))
                checks += here
            strides = np.cumprod([1, *rest.shape[:0:-1]])[::-1]
            atoms += [
                (order.index(place), list(kinds).index(name), stride)
                for (place, name), stride in zip(rest.vertices, strides, strict=False)
            ]
            values += [times * value for value in rest.coefficients]
            walks.append((number, begin[0], len(steps), begin[1], len(atoms), begin[2]))
    flags = np.zeros((len(offsets), 64 * -(-total // 64)), dtype=bool)
    for flag, (part, start) in zip(flags, offsets.items(), strict=True):
        flag[start : start + network.sizes[part]] = True
    return (
        np.array(walks, np.int64).reshape(-1, 6),
        np.array(steps, np.int64).reshape(-1, 3),
        np.array(checks, np.int64).reshape(-1, 2),
        np.array(atoms, np.int64).reshape(-1, 3),
        np.array(values, np.float64),
        np.packbits(flags, axis=-1, bitorder="little").view("<u8").astype(np.uint64),
        codes,
    )
