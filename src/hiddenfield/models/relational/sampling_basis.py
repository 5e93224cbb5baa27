"""What the sampler counts on bits, and how the features of a scheme are made of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.models.relational.counts import STATISTICS, as_statistics, change_statistics, count_features
from hiddenfield.models.relational.observations import Network
from hiddenfield.models.relational.sampling_loops import DEGREES, PARTNERS, Extra
from hiddenfield.shapes import Array, Float


class Basis(NamedTuple):
    """Each feature as a combination of statistics plus a constant.

    Parameters
    ----------
    combine, constant
        How features are made of `counts.STATISTICS` and, after these, of `extra`.
    extra
        Geometrically weighted terms, and numbers of pairs.
    """

    combine: Float[Array, "features statistics"]
    constant: Float[Array, " features"]
    extra: Extra


def sampling_basis(scheme: RelationalScheme, size: int, network: Network | None) -> Basis | None:
    """Return the basis of a scheme of unordered pairs, None where a feature is none of its combinations.

    A feature of one pair and of attributes of its ends is a number of each pair, given the attributes in `network`.
    """
    rows, constant = [], np.zeros(len(scheme.features))
    kinds: list[int] = []
    powers: list[Array] = []
    numbers: list[Array] = []
    slots: list[tuple[str, int]] = []
    for place, (name, feature) in enumerate(scheme.features.items()):
        term = feature.term
        if term is not None and not term.independent:
            slots.append(("term", len(kinds)))
            kinds.append(DEGREES if term.kind == "gwdegree" else PARTNERS)
            powers.append(term.powers(size))
            rows.append(np.zeros(len(STATISTICS)))
            continue
        part = RelationalScheme()
        part.types, part.attributes, part.features = scheme.types, scheme.attributes, {name: feature}
        found = as_statistics(part, size)
        if found is not None:
            slots.append(("", 0))
            rows.append(found[0][0])
            constant[place] = found[1][0]
        elif term is not None or sum(len(atom.arguments) == 2 for atom in feature.atoms) == 1:
            if network is None:
                return None
            upper = np.triu_indices(size, 1)
            matrix = np.zeros((size, size))
            matrix[upper] = change_statistics(part, network, np.stack(upper, 1))[:, 0]
            slots.append(("pair", len(numbers)))
            numbers.append(matrix + matrix.T)
            rows.append(np.zeros(len(STATISTICS)))
            if term is None and feature.table.any():
                constant[place] = _without_edges(part, network)
        else:
            return None
    combine = np.zeros((len(rows), len(STATISTICS) + len(kinds) + len(numbers)))
    combine[:, : len(STATISTICS)] = rows
    for row, (kind, number) in enumerate(slots):
        if kind:
            combine[row, len(STATISTICS) + number + (len(kinds) if kind == "pair" else 0)] = 1.0
    extra = Extra(
        np.array(kinds, dtype=np.int64),
        np.array(powers).reshape(len(kinds), size + 1),
        np.array(numbers).reshape(len(numbers), size, size),
    )
    return Basis(combine, constant, extra)


def _without_edges(scheme: RelationalScheme, network: Network) -> float:
    """Return what the only feature counts in the network without its edges."""
    empty = {name: rows[:0] for name, rows in network.pairs.items()}
    return float(count_features(scheme, Network(network.sizes, empty, network.values))[0])
