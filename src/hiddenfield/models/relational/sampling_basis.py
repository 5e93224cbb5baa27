"""What the sampler counts on bits, and how the features of a scheme are made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.fields.relational import Feature, RelationalScheme, ground_variables
from hiddenfield.models.relational.counts import (
    STATISTICS,
    as_statistics,
    change_statistics,
    count_features,
    graph_patterns,
    known_statistic,
)
from hiddenfield.models.relational.observations import Network, pair_attribute
from hiddenfield.models.relational.sampling_loops import DEGREES, PARTNERS, TRIANGLES, Extra
from hiddenfield.models.relational.term_counts import check_terms
from hiddenfield.shapes import Array, Float


class Basis(NamedTuple):
    """Each feature as a combination of statistics plus a constant.

    Parameters
    ----------
    combine, constant
        How features are made of `counts.STATISTICS` and, after these, of `extra`.
    extra
        Geometrically weighted terms, stars of one type, triangles within groups, and numbers of pairs.
    """

    combine: Float[Array, "features statistics"]
    constant: Float[Array, " features"]
    extra: Extra


def sampling_basis(
    scheme: RelationalScheme, sizes: Mapping[str, int], network: Network | None
) -> Basis | None:
    """Return the basis of a scheme of unordered pairs or of pairs of two types, None where a feature is not made of it.

    A feature of one pair and of attributes of its ends is a number of each pair, given the attributes in `network`, and
    triangles may be counted within groups of vertices that these make. The vertices of a two-mode network are numbered
    one type after the other.
    """
    kind = pair_attribute(scheme).type
    if not (kind.unordered or kind.two_mode):
        return None
    check_terms(scheme)
    split, total = sizes[kind.parts[0]], sum(sizes.values())
    rows: list[dict[Any, float]] = []
    constant = np.zeros(len(scheme.features))
    ours = np.arange(total) < split
    modes = {None: np.ones(total, dtype=bool), 0: ours, 1: ~ours}
    # By name: the gains of degrees or partners with whose they are, and numbers of pairs.
    functions: dict[Any, tuple[int, Array, Array]] = {}
    numbers: dict[Any, Array] = {}
    for place, (name, feature) in enumerate(scheme.features.items()):
        term = feature.term
        if term is not None and not term.independent:
            shape = PARTNERS if term.kind == "gwesp" else DEGREES
            functions[name] = (shape, term.powers(total), modes[term.mode])
            rows.append({name: 1.0})
            continue
        part = RelationalScheme()
        part.types, part.attributes, part.features = scheme.types, scheme.attributes, {name: feature}
        found = as_statistics(part, sizes)
        if found is not None:
            for mode, edges in found.stars:
                functions[mode, edges] = (DEGREES, _star_gains(edges, total), modes[mode])
            rows.append(dict(zip((*STATISTICS, *found.stars), found.combine[0].tolist(), strict=True)))
            constant[place] = found.constant[0]
        elif groups := _triangles_within(feature, network):
            of_groups = {(name, group): share for group, (share, _) in enumerate(groups)}
            rows.append(of_groups)
            for group, (_, among) in zip(of_groups, groups, strict=True):
                functions[group] = (TRIANGLES, np.zeros(total + 1), among)
        elif term is not None or sum(len(atom.arguments) == 2 for atom in feature.atoms) == 1:
            if network is None:
                return None
            where = ground_variables(scheme, sizes)[pair_attribute(scheme).name]
            matrix = np.zeros((total, total))
            ends = where + np.array([0, split if kind.two_mode else 0])
            matrix[ends[:, 0], ends[:, 1]] = change_statistics(part, network, where)[:, 0]
            numbers[name] = matrix + matrix.T
            rows.append({name: 1.0})
            if term is None and feature.table.any():
                constant[place] = _without_edges(part, network)
        else:
            return None
    columns = [*STATISTICS, *functions, *numbers]
    combine = np.array([[row.get(column, 0.0) for column in columns] for row in rows])
    extra = Extra(
        np.array([shape for shape, _, _ in functions.values()], dtype=np.int64),
        np.array([gains for _, gains, _ in functions.values()]).reshape(len(functions), total + 1),
        np.array([among for *_, among in functions.values()], dtype=bool).reshape(len(functions), total),
        np.array(list(numbers.values())).reshape(len(numbers), total, total),
    )
    return Basis(combine, constant, extra)


def _triangles_within(feature: Feature, network: Network | None) -> list[tuple[float, Array]]:
    """Return what a triangle of a group counts, and who is in it; none where other things or mixed triangles count."""
    patterns = list(graph_patterns(feature))
    if network is None or len(patterns) != 1 or not (pattern := patterns[0]).vertices:
        return []
    name, symmetries = known_statistic(pattern, two_mode=False)
    if name != "triangle":
        return []
    names = list(dict.fromkeys(attribute for attribute, _ in pattern.vertices))
    values = np.stack([network.values[attribute] for attribute in names], axis=1)
    kinds, group = np.unique(values, axis=0, return_inverse=True)
    ends = np.indices((len(kinds),) * 3)  # the group of each of the three
    codes = [kinds[ends[place], names.index(attribute)] for attribute, place in pattern.vertices]
    counted = pattern.coefficients[tuple(codes)] * symmetries / len(feature.symmetries)
    own = np.einsum("ggg->g", counted)
    if np.count_nonzero(counted) > np.count_nonzero(own):
        return []
    return [(float(own[g]), group.reshape(-1) == g) for g in np.flatnonzero(own)]


def _star_gains(edges: int, size: int) -> Float[Array, " counts"]:
    r"""Return by how much :math:`d (d - 1) \cdots (d - k + 1)` grows with d, for d from 0 to `size`."""
    counts = np.array([float(math.perm(degree, edges)) for degree in range(size + 2)])
    return np.diff(counts)


def _without_edges(scheme: RelationalScheme, network: Network) -> float:
    """Return what the only feature counts in the network without its edges."""
    empty = {name: rows[:0] for name, rows in network.pairs.items()}
    return float(count_features(scheme, Network(network.sizes, empty, network.values))[0])
