"""Gibbs sampling of networks with incremental change statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import (
    Attribute,
    RelationalScheme,
    ground_features,
    ground_index,
    ground_variables,
    weight_matrix,
    weight_scale,
)
from hiddenfield.models.relational.observations import Network, covariate_of, pair_attribute
from hiddenfield.models.relational.sampling_basis import Basis, sampling_basis
from hiddenfield.models.relational.sampling_loops import (
    FlatFeatures,
    Schedule,
    count_bits,
    sample_any,
    sample_bits,
)
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

STARTS = {name: name for name in ("empty", "full", "observed")}


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSamples:
    """Networks drawn by several chains: their features, and the networks themselves where they were kept.

    Parameters
    ----------
    features
        Names.
    size
        Number of vertices.
    weights
        "ground" or "binding": what a weight counted; the statistics are counts of different ground features always.
    statistics
        Features of every sample.
    edges
        Number of edges of every sample.
    networks
        Adjacency of every sample where it was asked for, otherwise None.
    last
        Where each chain ended: a start for going on.
    proposals
        Draws of a pair in each chain, burn-in included.
    flips
        How many of them changed the network, chain by chain.
    directed
        Whether pairs are ordered, so that adjacency need not be symmetric.
    """

    features: tuple[str, ...]
    size: int
    weights: str
    statistics: Float[Array, "chains samples features"]
    edges: Float[Array, "chains samples"]
    networks: Bool[Array, "chains samples vertices vertices"] | None
    last: Bool[Array, "chains vertices vertices"]
    proposals: int
    flips: Int[Array, " chains"]
    directed: bool = False

    def __repr__(self) -> str:
        """Say how many there are, and how dense."""
        chains, samples = self.edges.shape
        density = self.edges.mean() / self.num_pairs if samples else math.nan
        return (
            f"NetworkSamples({samples:,} samples from each of {chains} chains, {self.size:,} vertices, "
            f"mean density {density:.3g})"
        )

    @property
    def num_pairs(self) -> int:
        """Number of pairs, at least 1."""
        return max(1, math.perm(self.size, 2) if self.directed else math.comb(self.size, 2))

    @property
    def edge_probability(self) -> Float[Array, " chains"]:
        """The mean density in each chain: chains that differ are in different phases, or too short."""
        return self.edges.mean(1) / self.num_pairs


def sample_networks(
    scheme: RelationalScheme,
    size: int,
    theta: Any,
    *,
    samples: int = 1000,
    chains: int = 1,
    burn_in: float = 100,
    thin: float = 1,
    start: Any = "empty",
    network: Any = None,
    fixed: Any = None,
    weights: str = "ground",
    keep_networks: bool = False,
    seed: int = 0,
) -> NetworkSamples:
    r"""Draw networks from a scheme by Gibbs sampling, a random pair at a time.

    .. math:: P(x_{ij} = 1 \mid \text{rest}) = \sigma\Big(\sum_f \theta_f\, \delta_f(i, j)\Big)

    where the change statistic :math:`\delta_f(i, j)` is what the edge adds to feature f. For ready features and
    their combinations it is counted from adjacency kept as bits (common neighbours, degrees, paths of three); for any
    other from the ground features that look at the pair.

    Guarantee: each chain has the model as its stationary distribution. It may take very long to get there: where a
    model has two phases, chains that start "empty" and "full" stay apart; run both.

    Parameters
    ----------
    scheme
        One type with one binary attribute of pairs, and any features; attributes of vertices are taken from `network`.
    size
        Number of vertices.
    theta
        A weight for each feature (a mapping or a vector), or a row of weights for each chain.
    samples, chains
        Samples kept from each chain, and number of chains (on several threads).
    burn_in, thin
        Sweeps before the first sample, and between samples; a sweep is as many proposals as there are free pairs.
    start
        "empty", "full", "observed" (`network`), or adjacency for all or for each of the chains.
    network
        An observed network: adjacency, or a `Network`, whose attributes and covariates of vertices are taken as given.
    fixed
        Which pairs stay as they are in `network` (a symmetric matrix): the others are drawn given these, as with
        missing data. By default none.
    weights
        What a weight counts: each different ground feature once ("ground") or each legal binding ("binding").
    keep_networks
        Whether to return all networks, not only their features.
    seed
        Of the random numbers; results do not depend on the number of threads.

    Notes
    -----
    A proposal costs n / 64 words for triangles, nothing that grows for stars, and n / 64 words for each neighbour for
    quadruplets.

    References
    ----------
    Snijders (2002), Markov chain Monte Carlo estimation of exponential random graph models.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> sampled = sample_networks(graph_scheme("edge", "triangle"), 30, [-2.0, 0.1], samples=2000, chains=2)
    >>> sampled
    NetworkSamples(2,000 samples from each of 2 chains, 30 vertices, mean density 0.123)
    """
    attribute = check_sampled(scheme, network)
    if samples < 0 or chains < 1 or burn_in < 0 or thin <= 0:
        raise InputError(
            f"expected samples and burn_in of at least 0, at least one chain and thin above 0, "
            f"got {samples}, {burn_in}, {chains} and {thin}"
        )
    rows = weight_matrix(scheme, theta).numpy()
    if len(rows) not in {1, chains}:
        raise InputError(
            f"expected one row of weights, or one for each of the {chains} chains, got {len(rows)}"
        )
    theta = np.array(np.broadcast_to(rows, (chains, rows.shape[1]))) * weight_scale(scheme, weights)
    directed = not attribute.type.unordered
    given = network if isinstance(network, Network) else None
    observed = None
    if network is not None:
        shown = adjacency_of(network, directed) if given is not None else network
        observed = check_adjacency(shown, size, "network", directed=directed)[0]
    free = ~np.eye(size, dtype=bool)
    begin = np.array(np.broadcast_to(_begin(start, observed, size, directed), (chains, size, size)))
    if fixed is not None:
        if observed is None:
            raise InputError("fixed pairs take their values from an observed network: give network=…")
        free &= ~check_adjacency(fixed, size, "fixed", directed=directed)[0]
        begin[:, ~free] = observed[~free]
    pairs = np.argwhere(free if directed else np.triu(free)).astype(np.int32)
    if len(pairs) == 0:
        raise InputError("there is no pair to draw: every one is fixed, or there is one vertex only")
    before, between = round(burn_in * len(pairs)), max(1, round(thin * len(pairs)))
    plan = Schedule(pairs[:, 0].copy(), pairs[:, 1].copy(), before, between, samples)
    random = np.random.SeedSequence(seed).generate_state(2 * chains, np.uint64).reshape(chains, 2)
    found = None if directed else sampling_basis(scheme, size, given)
    run = _Chains(begin, theta, random | np.uint64(1), plan, samples if keep_networks else 0)
    statistics, edges, networks, last = (
        run.any_features(scheme, attribute, given) if found is None else run.bits(found)
    )
    kept = networks if keep_networks else None
    found_in = (statistics, edges, kept, last, before + samples * between, run.flips, directed)
    return NetworkSamples(tuple(scheme.features), size, weights, *found_in)


def as_drawn(scheme: RelationalScheme, drawn: NetworkSamples, given: Network | None = None) -> list[Network]:
    """Return the networks of all chains that were kept, with the attributes and names of `given` where sizes agree."""
    if drawn.networks is None:
        raise InputError("the networks were not kept: sample with keep_networks=True")
    kind, name = next(iter(scheme.types)), pair_attribute(scheme).name
    matrices = drawn.networks.reshape(-1, drawn.size, drawn.size)
    pairs = [np.argwhere(one if drawn.directed else np.triu(one)) for one in matrices]
    if given is not None and given.sizes[kind] == drawn.size:
        return [replace(given, pairs={name: rows}, unknown={}) for rows in pairs]
    return [Network({kind: drawn.size}, {name: rows}) for rows in pairs]


class _Chains:
    """Chains to be run: where they begin, their weights and random numbers, and how long."""

    def __init__(self, begin: Array, theta: Array, random: Array, plan: Schedule, kept: int) -> None:
        self.begin, self.theta, self.random, self.plan, self.kept = begin, theta, random, plan, kept
        self.count, self.size = begin.shape[:2]
        self.flips = np.zeros(self.count, dtype=np.int64)
        # Several chains are worth several threads, and one is not.
        self.work = 0 if self.count == 1 else 1 << 30

    def bits(self, basis: Basis) -> tuple[Array, Array, Array, Array]:
        """Sample with adjacency as bits: all features are combinations of the basis."""
        combine, constant, extra = basis
        packed = pack_bits(self.begin)
        rows, degree = np.zeros_like(packed), np.zeros((self.count, self.size), dtype=np.int64)
        totals = np.zeros((self.count, combine.shape[1]))
        use = (combine != 0).any(0)
        count_bits(packed, rows, degree, totals, use, extra, work=self.work)
        plan, every = self.plan, math.comb(self.size, 2)
        if len(plan.first) == every:  # all pairs are free: none is listed
            plan = plan._replace(first=plan.first[:0], second=plan.second[:0])
        trace = np.zeros((self.count, plan.samples, combine.shape[1]))
        kept = np.zeros((self.count, self.kept, *rows.shape[1:]), dtype=np.uint64)
        weights, work = self.theta @ combine, self.work
        sample_bits(
            rows, degree, totals, weights, use, extra, self.random, plan, trace, kept, self.flips, work=work
        )
        networks, last = unpack_bits(kept, self.size), unpack_bits(rows, self.size)
        return trace @ combine.T + constant, trace[:, :, 0].copy(), networks, last

    def any_features(
        self, scheme: RelationalScheme, attribute: Attribute, network: Network | None
    ) -> tuple[Array, Array, Array, Array]:
        """Sample with the state of every ground feature: any scheme of one attribute of pairs."""
        where = ground_variables(scheme, self.size)[attribute.name]
        features, constant = features_of_pairs(scheme, self.size, attribute, network)
        # The number of edges is one more feature, without weight.
        features.append(
            PairFeatures(np.arange(len(where))[:, None], np.array([0.0, 1.0]), np.zeros(len(where)))
        )
        present = self.begin[:, where[:, 0], where[:, 1]]
        flat, state = flatten_features(features, present)
        theta = np.concatenate([self.theta, np.zeros((self.count, 1))], 1)
        totals = np.stack(
            [np.bincount(flat.feature, flat.values[flat.table + row], len(features)) for row in state]
        )
        trace = np.zeros((self.count, self.plan.samples, len(features)))
        kept = np.zeros((self.count, self.kept, present.shape[1]), dtype=bool)
        number = np.zeros((self.size, self.size), dtype=np.int32)
        number[where[:, 0], where[:, 1]] = np.arange(len(where))
        free = number[self.plan.first, self.plan.second]
        plan, work = self.plan._replace(first=free, second=free), self.work
        sample_any(present, state, totals, flat, theta, self.random, plan, trace, kept, self.flips, work=work)
        unordered = attribute.type.unordered
        networks, last = (square(part, where, self.size, unordered=unordered) for part in (kept, present))
        return trace[:, :, :-1] + constant, trace[:, :, -1].copy(), networks, last


class PairFeatures(NamedTuple):
    """Ground features of one kind given the attributes of vertices: pairs, all tables, where each one's begins."""

    scopes: Int[Array, "ground_features arity"]
    values: Float[Array, " values"]
    offset: Array


def features_of_pairs(
    scheme: RelationalScheme, size: int, attribute: Attribute, network: Network | None
) -> tuple[list[PairFeatures], Float[Array, " features"]]:
    """Return each feature as ground features of pairs, given attributes of vertices, and what it counts besides."""
    kind = next(iter(scheme.types))
    names = list(scheme.attributes)
    where = ground_variables(scheme, size)[attribute.name]
    first = {
        name: int(ground_index(scheme, size, name, row[None])[0]) for name, row in _first_rows(scheme, size)
    }
    local = [name for name, feature in scheme.features.items() if feature.term is None]
    grounds = iter(ground_features(scheme, size, local))
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
            assert name in names
            assert kind in network.sizes
            index = index * table.shape[i] + network.values[name][scopes[:, i] - first[name]]
        values = np.ascontiguousarray(np.transpose(table, single + pairs)).reshape(-1)
        if pairs:
            offset = index << len(pairs)
            found.append(PairFeatures(scopes[:, pairs] - first[attribute.name], values, offset))
        else:  # of attributes alone: a constant, and a feature that never counts
            constant[place] = values[index].sum()
            found.append(PairFeatures(np.zeros((1, 1), dtype=np.int64), np.zeros(2), np.zeros(1)))
    return found, constant


def _first_rows(scheme: RelationalScheme, size: int) -> list[tuple[str, Array]]:
    """Return the first entity of each attribute."""
    return [(name, rows[0]) for name, rows in ground_variables(scheme, size).items() if len(rows)]


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


def check_sampled(scheme: RelationalScheme, network: Any) -> Attribute:
    """Return the attribute that is sampled; a scheme that cannot be, or lacks attributes of vertices, is an error."""
    attribute = pair_attribute(scheme)
    if len(scheme.types) != 1:
        raise InputError(f"networks are sampled for schemes of one type of entities, got {scheme}")
    given = network if isinstance(network, Network) else None
    for name, other in scheme.attributes.items():
        if other is not attribute and (given is None or (given.values.get(name, np.array([-1])) < 0).any()):
            raise InputError(
                f"the attribute {name!r} of vertices is given and not sampled: pass network=, a Network with its values"
            )
    needed = [f for f in scheme.features.values() if f.term is not None and f.term.independent]
    if needed and given is None:
        raise InputError(
            f"the feature {needed[0].name!r} takes numbers of a network: pass network=, a Network with its covariates"
        )
    return attribute


def adjacency_of(network: Network, directed: bool) -> Bool[Array, "vertices vertices"]:
    """Return the adjacency of a network, symmetric unless pairs are ordered."""
    if not directed:
        return network.adjacency()
    size, rows = next(iter(network.sizes.values())), next(iter(network.pairs.values()))
    matrix = np.zeros((size, size), dtype=bool)
    matrix[rows[:, 0], rows[:, 1]] = True
    return matrix


def check_adjacency(value: Any, size: int, name: str, *, directed: bool = False) -> Array:
    """Return adjacency as (networks, n, n) of bool; refuse anything else."""
    matrix = np.asarray(value)
    matrix = matrix[None] if matrix.ndim == 2 else matrix
    if matrix.ndim != 3 or matrix.shape[1:] != (size, size):
        raise InputError(f"{name} is an adjacency matrix of {size} vertices, got shape {np.shape(value)}")
    flags = matrix.astype(bool)
    if not np.isin(matrix, (0, 1)).all() or not (directed or (flags == flags.transpose(0, 2, 1)).all()):
        raise InputError(f"{name} must be a {'' if directed else 'symmetric '}matrix of 0 and 1")
    loops = np.argwhere(np.diagonal(flags, axis1=1, axis2=2))
    if name != "fixed" and len(loops):
        raise InputError(f"{name} joins vertex {loops[0, 1]} to itself; a network has no self-loops")
    return flags


def pack_bits(networks: Array) -> Array:
    """Return adjacency as bits: (chains, n, words)."""
    size = networks.shape[-1]
    padded = np.zeros((*networks.shape[:-1], 64 * -(-size // 64)), dtype=bool)
    padded[..., :size] = networks
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def unpack_bits(rows: Array, size: int) -> Array:
    """Return adjacency from bits."""
    parts = np.ascontiguousarray(rows.astype("<u8")).view(np.uint8)
    return np.unpackbits(parts, axis=-1, bitorder="little")[..., :size].astype(bool)


def square(present: Array, where: Array, size: int, *, unordered: bool) -> Array:
    """Return adjacency from the pairs."""
    out = np.zeros((*present.shape[:-1], size, size), dtype=bool)
    out[..., where[:, 0], where[:, 1]] = present
    return out | out.swapaxes(-1, -2) if unordered else out


def _begin(start: Any, observed: Array | None, size: int, directed: bool) -> Array:
    """Return the networks that chains start from."""
    if not isinstance(start, str):
        return check_adjacency(start, size, "start", directed=directed)
    choose("start", STARTS, start)
    if start == "observed":
        if observed is None:
            raise InputError("start='observed' needs the observed network: give network=…")
        return observed[None]
    return np.full((1, size, size), start == "full") & ~np.eye(size, dtype=bool)
