"""All networks of a few pairs: exact log partition and expectations of any model of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import (
    Attribute,
    RelationalScheme,
    given_attributes,
    ground_variables,
    weight_matrix,
    weight_scale,
)
from hiddenfield.models.relational.observations import Network
from hiddenfield.models.relational.pair_features import edge_feature, features_of_pairs, flatten_features
from hiddenfield.models.relational.sampling import check_sampled
from hiddenfield.models.relational.sampling_loops import count_masks
from hiddenfield.models.relational.term_counts import count_term_of_masks
from hiddenfield.ops.equal_rows import equal_rows
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

METHODS = {name: name for name in ("auto", "all", "classes")}
MOST_PAIRS, MOST_VERTICES = 21, 8
"""Pairs up to which all networks are listed, and vertices up to which one of each class is."""
AT_ONCE = 2048
"""Networks whose relabelings are compared at once."""
MOST_SCORES = 1 << 23
"""Networks times settings of the weights that are held at once."""


@dataclass(frozen=True, eq=False)
class NetworkCounts:
    r"""How many labelled networks have which features: with it every model of them is exact, in a sum over the rows.

    .. math:: \log Z(\theta) = \log \sum_r N_r \exp(\theta \cdot f_r)

    Parameters
    ----------
    features
        Names.
    sizes
        Number of vertices of each type.
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
    num_pairs
        Number of pairs, at least 1.
    log_constant
        Added to every log partition: log 2 for each self pair, where the scheme has them.
    """

    features: tuple[str, ...]
    sizes: dict[str, int]
    weights: str
    values: Float[Array, "rows features"]
    edges: Int[Array, " rows"]
    counts: Float[Array, " rows"]
    scale: Float[Array, " features"]
    num_pairs: int
    log_constant: float = 0.0

    def log_partition(self, theta: Any) -> Float[Array, " settings"]:
        """Return the exact log partition for each row of weights."""
        return np.concatenate([value for value, _ in self._solve(theta)])

    def expectations(self, theta: Any) -> Float[Array, "settings features"]:
        """Return the expected number of different ground features of each kind, exactly.

        The gradient of the log partition is this times the symmetries of each feature where weights are per binding.
        """
        return self.solve(theta)[1]

    def solve(self, theta: Any) -> tuple[Float[Array, " settings"], Float[Array, "settings features"]]:
        """Return log partition and expectations at once."""
        found = [(value, probability @ self.values) for value, probability in self._solve(theta)]
        return np.concatenate([value for value, _ in found]), np.concatenate([mean for _, mean in found])

    def edge_probability(self, theta: Any) -> Float[Array, " settings"]:
        """Return the probability of an edge, exactly: the mean over all pairs, which differ only where vertices do."""
        means = [probability @ self.edges for _, probability in self._solve(theta)]
        return np.concatenate(means) / self.num_pairs

    def covariance(self, theta: Any) -> Float[Array, "settings features features"]:
        """Return the covariance of the features: the Fisher information where weights are per ground feature."""
        found = []
        for _, probability in self._solve(theta):
            mean = probability @ self.values
            second = np.einsum("sr,rf,rg->sfg", probability, self.values, self.values, optimize=True)
            found.append(second - mean[:, :, None] * mean[:, None, :])
        return np.concatenate(found)

    def _solve(self, theta: Any) -> Iterator[tuple[Array, Array]]:
        """Yield log partition and the probability of each row, some settings at a time."""
        settings = weight_matrix(self.features, theta).numpy(force=True) * self.scale
        step = max(1, MOST_SCORES // len(self.counts))
        for begin in range(0, max(len(settings), 1), step):
            scores = settings[begin : begin + step] @ self.values.T + np.log(self.counts)
            top = scores.max(1, keepdims=True)
            mass = np.exp(scores - top)
            total = mass.sum(1, keepdims=True)
            yield (top + np.log(total))[:, 0] + self.log_constant, mass / total


def enumerate_networks(
    scheme: RelationalScheme,
    size: Mapping[str, int] | int,
    *,
    network: Network | None = None,
    weights: str = "ground",
    method: str = "auto",
) -> NetworkCounts:
    r"""Count all labelled networks of a size by their features.

    .. math:: N_r = |\{x : f(x) = f_r\}|

    Guarantee: exact, for any scheme with one binary attribute of pairs: undirected, directed or two-mode.

    Parameters
    ----------
    scheme
        The scheme.
    size
        Number of vertices, or that of each type. There may be 21 pairs (seven vertices, or five of a directed network),
        or eight vertices where method "classes" takes them.
    network
        Its attributes and covariates of vertices are taken as given, where features look at some.
    weights
        What a weight counts: each different ground feature once ("ground") or each legal binding ("binding").
    method
        "all": each of the :math:`2^p` networks of p pairs. "classes": one network of each isomorphism class of n - 1
        vertices, with the size of the class, extended in all 2^(n-1) ways: 133,632 instead of 268,435,456 for eight
        vertices; for undirected networks whose vertices do not differ. "auto": "classes" where it can be.

    Returns
    -------
    NetworkCounts
        A row for each combination of features that occurs: (rows, features) values, (rows,) counts.

    Notes
    -----
    Networks follow each other by a Gray code, one pair changing at a time: the cost of each is that of the ground
    features that look at the pair.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> counts = enumerate_networks(graph_scheme("edge", "triangle"), 5)
    >>> counts.log_partition([-1.0, 0.5]).round(6), counts.edge_probability([-1.0, 0.5]).round(6)
    (array([3.274085]), array([0.30196]))
    """
    attribute = check_sampled(scheme, network)
    sizes = {part: scheme.check_sizes(size)[part] for part in attribute.type.parts}
    alike = attribute.type.unordered and vertices_alike(scheme)
    choose("method", METHODS, method)
    if method == "classes" and not alike:
        raise InputError(
            "method 'classes' is for undirected networks whose vertices do not differ; use method 'all'"
        )
    pairs = attribute.type.count(sizes)
    classes = alike and method != "all"
    if sum(sizes.values()) > MOST_VERTICES if classes else pairs > MOST_PAIRS:
        most = f"{MOST_VERTICES} vertices" if classes else f"{MOST_PAIRS} pairs"
        raise TooLargeError(
            f"all networks of at most {most} can be enumerated, and these have {pairs} pairs; sample larger ones with "
            "sample_networks, or learn with method='monte_carlo'"
        )
    if classes:
        masks, weight = _extended(next(iter(sizes.values())))
    else:
        order = np.arange(1 << pairs)
        masks, weight = order ^ (order >> 1), np.ones(1 << pairs)
    rows = np.round(_count_features(scheme, sizes, masks, attribute, network), 9) + 0.0
    number, first = equal_rows(rows)
    return NetworkCounts(
        tuple(scheme.features),
        sizes,
        weights,
        rows[first, :-1],
        rows[first, -1].astype(np.int64),
        np.bincount(number, weights=weight),
        weight_scale(scheme, weights),
        max(1, pairs),
        attribute.type.self_count(sizes) * math.log(2),
    )


def vertices_alike(scheme: RelationalScheme) -> bool:
    """Whether features look at no attributes and no numbers of vertices or pairs."""
    terms = [feature.term for feature in scheme.features.values() if feature.term is not None]
    return not given_attributes(scheme) and not any(term.independent for term in terms)


def _count_features(
    scheme: RelationalScheme,
    sizes: Mapping[str, int],
    masks: Array,
    attribute: Attribute,
    network: Network | None,
) -> Float[Array, "networks columns"]:
    """Return the features of networks given as bits over the pairs, then their numbers of edges."""
    where = ground_variables(scheme, sizes)[attribute.name]
    whole = {n: f for n, f in scheme.features.items() if f.term is not None and not f.term.independent}
    local = RelationalScheme()
    local.types, local.attributes = scheme.types, scheme.attributes
    local.features = {name: f for name, f in scheme.features.items() if name not in whole}
    features, constant = features_of_pairs(local, sizes, attribute, network)
    features.append(edge_feature(len(where)))
    flat, _ = flatten_features(features, np.zeros((1, len(where)), dtype=bool))
    begin = np.bincount(flat.feature, flat.values[flat.table], len(features)) + np.append(constant, 0.0)
    counted = np.empty((len(masks), len(features)))
    count_masks(masks.astype(np.int64), begin, flat, counted, work=len(masks) * len(features))
    if not whole:
        return counted
    out = np.empty((len(masks), len(scheme.features) + 1))
    out[:, [*(i for i, name in enumerate(scheme.features) if name not in whole), -1]] = counted
    present = np.ascontiguousarray(_bits(masks, len(where)).T)
    for column, name in enumerate(scheme.features):
        if name in whole:
            out[:, column] = count_term_of_masks(whole[name], present, where, sizes)
    return out


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
