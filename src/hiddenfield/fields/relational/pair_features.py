"""Schemes of undirected networks (one binary attribute of unordered pairs): their features as counts over graphs."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import FEATURES, Feature, RelationalScheme, graph_scheme, ground
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

__all__ = ["check_network_scheme", "ground_features", "library_names", "weight_scale"]

WEIGHTS = {name: name for name in ("ground", "binding")}


def check_network_scheme(scheme: RelationalScheme, task: str) -> None:
    """Raise an `InputError` unless the scheme has one type and one binary attribute, of unordered pairs."""
    kinds = [attribute.type for attribute in scheme.attributes.values()]
    fits = len(scheme.types) == 1 and len(kinds) == 1 and kinds[0].unordered and len(kinds[0].parts) == 2
    if not fits or next(iter(scheme.attributes.values())).num_values != 2:
        raise InputError(
            f"{task} is for undirected networks: a scheme of one type with one binary attribute of unordered pairs, "
            f"got {scheme}; take the ground field with method 'exact' or 'gibbs' instead"
        )


def weight_scale(scheme: RelationalScheme, weights: str) -> Float[Array, " features"]:
    """Return what a weight is multiplied by to count once for each different ground feature; see `factor_kinds`."""
    choose("weights", WEIGHTS, weights)
    symmetric = [float(len(feature.symmetries)) for feature in scheme.features.values()]
    return np.array(symmetric if weights == "binding" else [1.0] * len(symmetric))


def ground_features(
    scheme: RelationalScheme, size: int
) -> list[tuple[Int[Array, "ground_features arity"], Float[Array, " states"]]]:
    """Return for each feature its different ground features: the pairs that each looks at, and its values.

    Pairs are numbered (0, 1), (0, 2), ..., (n - 2, n - 1). The values are flat: state ``sum(x[i] << i)`` has bit i from
    the i-th pair of the scope.
    """
    field = ground(scheme, size, np.ones(len(scheme.features)))
    groups = iter(field.groups)
    found = []
    for feature in scheme.features.values():
        arity = len(feature.atoms)
        values = feature.table.astype(np.float64).transpose(range(arity)[::-1]).reshape(-1)
        if arity == 1:
            scopes = np.arange(size * (size - 1) // 2)[:, None]
        elif feature.count_distinct({next(iter(scheme.types)): size}) == 0:
            scopes = np.zeros((0, arity), dtype=np.int64)
        else:
            scopes = next(groups).scopes.numpy()
        found.append((scopes.astype(np.int64), values))
    return found


def library_names(scheme: RelationalScheme) -> list[str | None]:
    """Return for each feature the ready feature that it is, whatever it is called, or None.

    Examples
    --------
    >>> scheme = graph_scheme("edge")
    >>> exist = scheme.attributes["exist"]
    >>> wedge = scheme.feature("wedge", lambda a, b, c: exist[a, b] & exist[b, c])
    >>> odd = scheme.feature("odd", lambda a, b, c: exist[a, b] & ~exist[b, c])
    >>> library_names(scheme)
    ['edge', 'star2', None]
    """
    ready = graph_scheme(*FEATURES)
    known = {_signature(feature): name for name, feature in ready.features.items()}
    return [known.get(_signature(feature)) for feature in scheme.features.values()]


def _signature(feature: Feature) -> tuple[int, bytes]:
    """Describe a feature up to the names of its arguments: the sum of its ground features on one set of vertices."""
    size = len(feature.arguments)
    if size > 4:
        return size, b""
    pairs = {pair: i for i, pair in enumerate(combinations(range(size), 2))}
    place = {name: i for i, name in enumerate(feature.arguments)}
    states = np.array(list(product(range(2), repeat=len(pairs))), dtype=np.int64).reshape(-1, len(pairs))
    total = np.zeros(len(states))
    for order in permutations(range(size)):
        index = []
        for atom in feature.atoms:
            ends = sorted(order[place[name]] for name in atom.arguments)
            index.append(states[:, pairs[ends[0], ends[1]]])
        total += feature.table[tuple(index)]
    return size, (total / len(feature.symmetries) + 0.0).tobytes()
