"""All networks of a few pairs: exact log partition and expectations of any model of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import (
    RelationalScheme,
    given_attributes,
    ground_variables,
    weight_matrix,
    weight_scale,
)
from hiddenfield.models.relational.observations import Network
from hiddenfield.models.relational.sampling import check_sampled
from hiddenfield.models.relational.sampling_basis import sampling_basis
from hiddenfield.models.relational.sampling_loops import count_masks
from hiddenfield.ops.equal_rows import equal_rows
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

METHODS = {name: name for name in ("auto", "all", "classes")}
MOST_PAIRS, MOST_VERTICES = 21, 8
"""Pairs up to which all networks are listed, and vertices up to which one of each class is."""
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
    Networks follow each other by a Gray code, one pair changing at a time: the cost of each is that of what the pair
    changes, as in `sample_networks`.

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
    combine, constant, changes = sampling_basis(scheme, sizes, network)
    split = sizes[attribute.type.parts[0]] if attribute.type.two_mode else 0
    where = ground_variables(scheme, sizes)[attribute.name] + np.array([0, split])
    totals = np.empty((len(masks), combine.shape[1]))
    sides = 2 if attribute.type.directed else 1
    count_masks(masks.astype(np.int64), where, sides, changes, totals, work=totals.size)
    rows = np.round(np.column_stack([totals @ combine.T + constant, totals[:, 0]]), 9) + 0.0
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


def alike_networks(scheme: RelationalScheme, networks: Sequence[Network]) -> list[tuple[Network, int]]:
    """Return one of all networks that differ in nothing but their edges, as far as features look, and how many."""
    groups: dict[Any, list[Network]] = {}
    for network in networks:
        parts = [] if vertices_alike(scheme) else [network.values, network.covariates]
        arrays = (part[name] for part in parts for name in sorted(part))
        groups.setdefault((network.shape, *(array.tobytes() for array in arrays)), []).append(network)
    return [(group[0], len(group)) for group in groups.values()]


def _extended(size: int) -> tuple[Array, Array]:
    """Join a last vertex to one network of each isomorphism class of one vertex less, in all ways.

    Returns networks as bits over the pairs, and the number of labelled ones in the class of each.
    """
    from networkx.generators.atlas import graph_atlas_g

    before, pairs = (list(combinations(range(n), 2)) for n in (size - 1, size))
    classes = [graph for graph in graph_atlas_g() if len(graph) == size - 1]
    present = np.array([[graph.has_edge(*pair) for pair in before] for graph in classes], dtype=np.int64)
    present, bits = present.reshape(len(classes), len(before)), 1 << np.arange(len(before))
    # A class has as many labelled networks as permutations of its vertices give different ones.
    same = np.zeros(len(classes))
    for order in permutations(range(size - 1)):
        moved = [before.index((min(order[i], order[j]), max(order[i], order[j]))) for i, j in before]
        same += present[:, moved] @ bits == present @ bits
    masks = present @ np.array([1 << pairs.index(pair) for pair in before], dtype=np.int64)
    ways = np.arange(1 << (size - 1))
    new = np.zeros_like(ways)
    for vertex in range(size - 1):
        new |= (ways >> vertex & 1) << pairs.index((vertex, size - 1))
    return (masks[:, None] | new).reshape(-1), np.repeat(math.factorial(size - 1) / same, len(ways))
