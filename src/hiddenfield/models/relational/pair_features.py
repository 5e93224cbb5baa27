"""Features as ground features of pairs, given the attributes of vertices: what is neither a template nor on bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import (
    Attribute,
    RelationalScheme,
    ground_features,
    ground_index,
    ground_variables,
)
from hiddenfield.models.relational.observations import Network, covariate_of
from hiddenfield.models.relational.sampling_loops import FlatFeatures
from hiddenfield.shapes import Array, Bool, Float, Int


class PairFeatures(NamedTuple):
    """Ground features of one kind given the attributes of vertices: pairs, all tables, where each one's begins."""

    scopes: Int[Array, "ground_features arity"]
    values: Float[Array, " values"]
    offset: Array


def edge_feature(pairs: int) -> PairFeatures:
    """Return the number of edges as a feature."""
    return PairFeatures(np.arange(pairs)[:, None], np.array([0.0, 1.0]), np.zeros(pairs))


def features_of_pairs(
    scheme: RelationalScheme, sizes: Mapping[str, int], attribute: Attribute, network: Network | None
) -> tuple[list[PairFeatures], Float[Array, " features"]]:
    """Return each feature as ground features of pairs, given attributes of vertices, and what it counts besides."""
    every = ground_variables(scheme, sizes)
    where = every[attribute.name]
    first = {
        name: int(ground_index(scheme, sizes, name, rows[:1])[0]) for name, rows in every.items() if len(rows)
    }
    local = [name for name, feature in scheme.features.items() if feature.term is None]
    grounds = iter(ground_features(scheme, sizes, local))
    found, constant = [], np.zeros(len(scheme.features))
    for place, feature in enumerate(scheme.features.values()):
        if feature.term is not None:
            if network is None or not feature.term.independent:
                raise InputError(
                    f"{feature.term.kind} cannot be sampled together with features such as these: pairs that are "
                    f"ordered, or several pairs with attributes of their ends ({', '.join(local)})"
                )
            numbers = covariate_of(network, feature)[where[:, 0], where[:, 1]]
            table = np.stack([np.zeros(len(where)), numbers], 1).reshape(-1)
            found.append(PairFeatures(np.arange(len(where))[:, None], table, 2 * np.arange(len(where))))
            continue
        scopes, table = next(grounds)
        pairs = [i for i, atom in enumerate(feature.atoms) if len(atom.arguments) == 2]
        single = [i for i, atom in enumerate(feature.atoms) if len(atom.arguments) == 1]
        index = np.zeros(len(scopes), dtype=np.int64)
        for i in single:
            name = feature.atoms[i].attribute.name
            assert network is not None
            index = index * table.shape[i] + network.values[name][scopes[:, i] - first[name]]
        values = np.transpose(table, single + pairs).reshape(-1, 1 << len(pairs))
        # What is the same whatever its pairs are is a constant: most triangles of one sex, say, given who has which.
        fixed = (values == values[:, :1]).all(1)[index]
        constant[place] = values[index[fixed], 0].sum()
        scopes, index = scopes[~fixed][:, pairs] - first.get(attribute.name, 0), index[~fixed]
        found.append(PairFeatures(scopes, values.reshape(-1), index << len(pairs)))
    return found, constant


def flatten_features(
    features: Sequence[PairFeatures], present: Bool[Array, "chains pairs"]
) -> tuple[FlatFeatures, Int[Array, "chains ground_features"]]:
    """Lay the ground features of all kinds end to end, list those that look at each pair, and find their states."""
    arity = np.concatenate([np.full(len(f.scopes), f.scopes.shape[1]) for f in features])
    pairs = np.concatenate([f.scopes.reshape(-1) for f in features])
    # The last pair of a scope is the lowest bit of a state, as the last axis of a table is the quickest.
    end = np.cumsum(arity)
    owner = np.repeat(np.arange(len(arity)), arity)
    bit = (1 << (end[owner] - 1 - np.arange(len(pairs)))).astype(np.int32)
    order = np.argsort(pairs, kind="stable")
    counts = [len(f.scopes) for f in features]
    offsets = np.cumsum([0, *(f.values.size for f in features)])
    flat = FlatFeatures(
        np.repeat(np.arange(len(features)), counts),
        np.repeat(offsets[:-1], counts) + np.concatenate([f.offset for f in features]).astype(np.int64),
        np.concatenate([f.values for f in features]),
        owner[order],
        bit[order],
        np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=present.shape[1]))]),
    )
    return flat, np.add.reduceat(present[:, pairs] * bit, end - arity, axis=1, dtype=np.int32)
