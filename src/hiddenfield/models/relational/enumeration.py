"""All undirected networks of up to eight vertices: exact log partition and expectations of any model of them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, ground_features, weight_scale
from hiddenfield.models.relational.observations import check_undirected
from hiddenfield.models.relational.term_counts import count_term_of_masks
from hiddenfield.ops.equal_rows import equal_rows
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

MOST_VERTICES = {"all": 7, "classes": 8, "auto": 8}
"""Sizes up to which each method goes."""
AT_ONCE = 2048
"""Networks whose relabelings are compared at once."""


@dataclass(frozen=True, eq=False)
class NetworkCounts:
    r"""How many labelled networks have which features: with it every model of them is exact, in a sum over the rows.

    .. math:: \log Z(\theta) = \log \sum_r N_r \exp(\theta \cdot f_r)

    Parameters
    ----------
    features
        Names.
    size
        Number of vertices.
    weights
        "ground" or "binding": what a weight counts; see `hiddenfield.fields.relational.factor_kinds`.
    values
        Rows of features, each feature as its number of different ground features (sum of values where it is no 0 or 1).
    edges
        Number of edges in each row.
    counts
        Number of labelled networks with these features and so many edges.
    scale
        What each weight is multiplied by, by `weights`.
    log_constant
        Added to every log partition: log 2 for each self pair, where the scheme has them.
    """

    features: tuple[str, ...]
    size: int
    weights: str
    values: Float[Array, "rows features"]
    edges: Int[Array, " rows"]
    counts: Float[Array, " rows"]
    scale: Float[Array, " features"]
    log_constant: float = 0.0

    def log_partition(self, theta: Any) -> Float[Array, " settings"]:
        """Return the exact log partition for each row of weights."""
        return self._solve(theta)[0]

    def expectations(self, theta: Any) -> Float[Array, "settings features"]:
        """Return the expected number of different ground features of each kind, exactly.

        The gradient of the log partition is this times the symmetries of each feature where weights are per binding.
        """
        return self._solve(theta)[1] @ self.values

    def edge_probability(self, theta: Any) -> Float[Array, " settings"]:
        """Return the probability of an edge, exactly: all pairs have the same."""
        pairs = max(1, math.comb(self.size, 2))
        return self._solve(theta)[1] @ self.edges / pairs

    def covariance(self, theta: Any) -> Float[Array, "settings features features"]:
        """Return the covariance of the features: the Fisher information where weights are per ground feature."""
        probability = self._solve(theta)[1]
        mean = probability @ self.values
        second = np.einsum("sr,rf,rg->sfg", probability, self.values, self.values, optimize=True)
        return second - mean[:, :, None] * mean[:, None, :]

    def _solve(self, theta: Any) -> tuple[Array, Array]:
        """Return log partition and the probability of each row, for each setting."""
        weights = np.asarray(theta, dtype=np.float64)
        if weights.ndim == 0 or weights.shape[-1] != len(self.features):
            raise InputError(
                f"one weight for each of the features {', '.join(self.features)}, got shape {weights.shape}"
            )
        scores = (weights.reshape(-1, len(self.features)) * self.scale) @ self.values.T + np.log(self.counts)
        top = scores.max(1, keepdims=True)
        mass = np.exp(scores - top)
        total = mass.sum(1, keepdims=True)
        return (top + np.log(total))[:, 0] + self.log_constant, mass / total


def enumerate_networks(
    scheme: RelationalScheme, size: int, *, weights: str = "ground", method: str = "auto"
) -> NetworkCounts:
    r"""Count all labelled undirected networks of `size` vertices by their features.

    .. math:: N_r = |\{x : f(x) = f_r\}|

    Guarantee: exact, for any scheme of one type with one binary attribute of unordered pairs.

    Parameters
    ----------
    scheme
        The scheme.
    size
        Number of vertices, at most 8 (7 with method "all").
    weights
        What a weight counts: each different ground feature once ("ground") or each legal binding ("binding").
    method
        "all": each of the 2^(n(n-1)/2) networks. "classes": one network of each isomorphism class of n - 1 vertices,
        with the size of the class, extended in all 2^(n-1) ways: 133,632 instead of 268,435,456 for eight vertices.
        "auto": "classes".

    Returns
    -------
    NetworkCounts
        A row for each combination of features that occurs: (rows, features) values, (rows,) counts.

    Notes
    -----
    The cost is that of the ground features of each network that is looked at.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> counts = enumerate_networks(graph_scheme("edge", "triangle"), 5)
    >>> counts.log_partition([-1.0, 0.5]).round(6), counts.edge_probability([-1.0, 0.5]).round(6)
    (array([3.274085]), array([0.30196]))
    """
    check_undirected(scheme, "exact enumeration")
    if not 1 <= size <= choose("method", MOST_VERTICES, method):
        raise InputError(
            f"networks of 1 to {MOST_VERTICES[method]} vertices can be enumerated by method {method!r}, got {size}; "
            "sample larger ones with sample_networks"
        )
    if method == "all":
        masks = np.arange(1 << math.comb(size, 2))
        weight = np.ones(len(masks))
    else:
        masks, weight = _extended(size)
    rows = np.round(_count_features(scheme, size, masks), 9) + 0.0
    number, first = equal_rows(rows)
    counts = np.bincount(number, weights=weight)
    attribute = next(iter(scheme.attributes.values()))
    selves = attribute.type.self_count({next(iter(scheme.types)): size})
    return NetworkCounts(
        tuple(scheme.features),
        size,
        weights,
        rows[first, 1:],
        rows[first, 0].astype(np.int64),
        counts,
        weight_scale(scheme, weights),
        selves * math.log(2),
    )


def _count_features(scheme: RelationalScheme, size: int, masks: Array) -> Float[Array, "networks columns"]:
    """Return the number of edges, then the features of networks given as bits over the pairs."""
    present = np.ascontiguousarray(_bits(masks, math.comb(size, 2)).T)
    out = np.zeros((1 + len(scheme.features), len(masks)))
    out[0] = present.sum(0)
    held = {name: feature for name, feature in scheme.features.items() if feature.term is None}
    for row, feature in enumerate(scheme.features.values(), start=1):
        if feature.term is not None:
            out[row] = count_term_of_masks(feature, present, size)
    rows = [row for row, name in enumerate(scheme.features, start=1) if name in held]
    for row, (scopes, table) in zip(rows, ground_features(scheme, size, held), strict=True):
        for scope in scopes:
            # The state of a ground feature is a number whose bits are its pairs, the last one lowest.
            state = np.zeros(len(masks), dtype=np.int32)
            for pair in scope:
                state = 2 * state + present[pair]
            out[row] += np.take(table, state)
    return np.ascontiguousarray(out.T)


def _bits(masks: Array, num_pairs: int) -> Array:
    """Return which pairs are edges, one row per network."""
    return ((masks[:, None] >> np.arange(num_pairs)) & 1).astype(np.uint8)


@functools.cache
def _classes(size: int) -> tuple[Array, Array]:
    """Return a network of each isomorphism class, as bits over the pairs, and the number of labelled ones in it."""
    masks, weight = _extended(size)
    pairs = {pair: i for i, pair in enumerate(combinations(range(size), 2))}
    moved = np.array(
        [[pairs[min(p[i], p[j]), max(p[i], p[j])] for i, j in pairs] for p in permutations(range(size))]
    )
    # The least word that a relabeling of the vertices gives is the same for isomorphic networks; words are exact in
    # double precision.
    words = 2.0 ** moved.reshape(math.factorial(size), len(pairs)).T
    least = np.concatenate(
        [
            (_bits(masks[begin : begin + AT_ONCE], len(pairs)) @ words).min(1)
            for begin in range(0, len(masks), AT_ONCE)
        ]
    )
    _, first, number = np.unique(least, return_index=True, return_inverse=True)
    return masks[first], np.bincount(number, weights=weight)


def _extended(size: int) -> tuple[Array, Array]:
    """Join a last vertex to one network of each class of one vertex less, in all ways."""
    if size == 1:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    masks, weight = _classes(size - 1)
    before = {pair: i for i, pair in enumerate(combinations(range(size - 1), 2))}
    ways = np.arange(1 << (size - 1), dtype=np.int64)
    new = np.zeros((len(masks), len(ways)), dtype=np.int64)
    for place, (i, j) in enumerate(combinations(range(size), 2)):
        bit = (ways[None, :] >> i) & 1 if j == size - 1 else (masks[:, None] >> before[i, j]) & 1
        new |= bit << place
    return new.reshape(-1), np.repeat(weight, len(ways))
