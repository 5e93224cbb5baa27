"""Gibbs sampling of networks with incremental change statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import (
    Attribute,
    RelationalScheme,
    ground_variables,
    weight_matrix,
    weight_scale,
)
from hiddenfield.machine import available_memory
from hiddenfield.models.relational.observations import Network, pair_attribute
from hiddenfield.models.relational.pair_features import edge_feature, features_of_pairs, flatten_features
from hiddenfield.models.relational.sampling_basis import Basis, sampling_basis
from hiddenfield.models.relational.sampling_loops import (
    Schedule,
    count_bits,
    sample_any,
    sample_bits,
)
from hiddenfield.models.relational.term_counts import check_terms
from hiddenfield.ops.compile import WATCHED_WORK
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
    sizes
        Number of vertices of each type.
    weights
        "ground" or "binding": what a weight counted; the statistics are counts of different ground features always.
    statistics
        Features of every sample.
    edges
        Number of edges of every sample.
    networks
        Adjacency of every sample where it was asked for, otherwise None; of a two-mode network, a row for each entity
        of the first type and a column for each of the second.
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
    sizes: dict[str, int]
    weights: str
    statistics: Float[Array, "chains samples features"]
    edges: Float[Array, "chains samples"]
    networks: Bool[Array, "chains samples tails heads"] | None
    last: Bool[Array, "chains tails heads"]
    proposals: int
    flips: Int[Array, " chains"]
    directed: bool = False

    def __repr__(self) -> str:
        """Say how many there are, and how dense."""
        chains, samples = self.edges.shape
        density = self.edges.mean() / self.num_pairs if samples else math.nan
        return (
            f"NetworkSamples({samples:,} samples from each of {chains} chains, {self._described()}, "
            f"mean density {density:.3g})"
        )

    def _described(self) -> str:
        if len(self.sizes) == 1:
            return f"{self.size:,} vertices"
        return " and ".join(f"{size:,} {kind}" for kind, size in self.sizes.items())

    @property
    def size(self) -> int:
        """Number of vertices, of both types in a two-mode network."""
        return sum(self.sizes.values())

    @property
    def num_pairs(self) -> int:
        """Number of pairs, at least 1."""
        if len(self.sizes) == 2:
            return math.prod(self.sizes.values())
        return max(1, math.perm(self.size, 2) if self.directed else math.comb(self.size, 2))

    @property
    def edge_probability(self) -> Float[Array, " chains"]:
        """The mean density in each chain: chains that differ are in different phases, or too short."""
        return self.edges.mean(1) / self.num_pairs


def sample_networks(
    scheme: RelationalScheme,
    size: Mapping[str, int] | int,
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
    most_edges: int | None = None,
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
        With one binary attribute of pairs, of one type or between two, and any features; attributes of vertices are
        taken from `network`.
    size
        Number of vertices; of a two-mode network, that of each type, as in ``{"person": 18, "event": 14}``.
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
        Which pairs stay as they are in `network` (a matrix as of adjacency): the others are drawn given these, as with
        missing data. By default none.
    weights
        What a weight counts: each different ground feature once ("ground") or each legal binding ("binding").
    keep_networks
        Whether to return all networks, not only their features.
    most_edges
        A chain of an undirected network that has more edges stays as it is: on the way to an almost full one every
        proposal takes far longer, and nothing is learned. By default there is no such number.
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
    whole = all(isinstance(number, (int, np.integer)) for number in (samples, chains))
    if not (whole and samples >= 0 and chains >= 1 and 0 <= burn_in < math.inf and 0 < thin < math.inf):
        raise InputError(
            f"expected samples and burn_in of at least 0, at least one chain and thin above 0, "
            f"got {samples}, {burn_in}, {chains} and {thin}"
        )
    rows = weight_matrix(scheme.features, theta).numpy()
    if len(rows) not in {1, chains}:
        raise InputError(
            f"expected one row of weights, or one for each of the {chains} chains, got {len(rows)}"
        )
    theta = np.array(np.broadcast_to(rows, (chains, rows.shape[1]))) * weight_scale(scheme, weights)
    domain = _domain(attribute, scheme.check_sizes(size))
    _check_memory(scheme, domain, chains, samples if keep_networks else 0)
    given = network if isinstance(network, Network) else None
    observed = None
    if network is not None:
        shown = adjacency_of(network, domain.directed) if given is not None else network
        observed = check_adjacency(shown, domain, "network")[0]
    begin = np.array(np.broadcast_to(_begin(start, observed, domain), (chains, *domain.shape)))
    pairs, number = np.zeros((0, 2), dtype=np.int32), attribute.type.count(domain.sizes)
    if fixed is not None:
        if observed is None:
            raise InputError("fixed pairs take their values from an observed network: give network=…")
        free = domain.pairs() & ~check_adjacency(fixed, domain, "fixed")[0]
        begin[:, ~free] = observed[~free]
        pairs = np.argwhere(np.triu(free) if domain.unordered else free).astype(np.int32)
        number = len(pairs)
    elif domain.two_mode:
        pairs = np.argwhere(domain.pairs()).astype(np.int32)
    if number == 0:
        raise InputError("there is no pair to draw: every one is fixed, or there is one vertex only")
    before, between = round(burn_in * number), max(1, round(thin * number))
    plan = Schedule(pairs[:, 0].copy(), pairs[:, 1].copy(), before, between, samples)
    plan = plan if most_edges is None else plan._replace(most=most_edges)
    random = np.random.SeedSequence(seed).generate_state(2 * chains, np.uint64).reshape(chains, 2)
    found = sampling_basis(scheme, domain.sizes, given)
    if found is None:
        _check_ground(scheme, domain, chains)
    run = _Chains(begin, theta, random | np.uint64(1), plan, samples if keep_networks else 0, domain)
    statistics, edges, networks, last = (
        run.any_features(scheme, attribute, given) if found is None else run.bits(found)
    )
    kept = networks if keep_networks else None
    found_in = (statistics, edges, kept, last, before + samples * between, run.flips, domain.directed)
    return NetworkSamples(tuple(scheme.features), domain.sizes, weights, *found_in)


class _Domain(NamedTuple):
    """The vertices of a network by type, and what its pairs are."""

    sizes: dict[str, int]
    unordered: bool
    two_mode: bool

    @property
    def directed(self) -> bool:
        """Whether pairs are ordered pairs of one type."""
        return not (self.unordered or self.two_mode)

    @property
    def shape(self) -> tuple[int, int]:
        """Of an adjacency matrix."""
        sizes = tuple(self.sizes.values())
        return sizes[0], sizes[-1]

    def pairs(self) -> Bool[Array, "tails heads"]:
        """Return which entries of an adjacency matrix are pairs: not those of a vertex with itself."""
        return np.ones(self.shape, dtype=bool) if self.two_mode else ~np.eye(self.shape[0], dtype=bool)


def _domain(attribute: Attribute, sizes: Mapping[str, int]) -> _Domain:
    kind = attribute.type
    return _Domain({part: sizes[part] for part in kind.parts}, kind.unordered, kind.two_mode)


def _check_memory(scheme: RelationalScheme, domain: _Domain, chains: int, kept: int) -> None:
    """Raise a `TooLargeError` at once where adjacency would not fit into half of the memory that is available."""
    vertices = sum(domain.sizes.values())
    numbers = [f for f in scheme.features.values() if any(len(atom.arguments) == 1 for atom in f.atoms)]
    numbers += [f for f in scheme.features.values() if f.term is not None and f.term.independent]
    # Adjacency of each chain and sample as bytes and as bits; lists of pairs, where there are any; numbers of pairs.
    listed = 0 if domain.unordered else 24
    need = vertices**2 * (2 + listed + 16 * len(numbers) + 2.25 * chains + 1.25 * chains * kept)
    limit = available_memory() / 2
    if need > limit:
        raise TooLargeError(
            f"chains hold every pair: {chains * max(kept, 1):,} networks of {vertices:,} vertices would take about "
            f"{need / 2**30:,.3g} GiB, more than half of the {2 * limit / 2**30:,.3g} GiB that are available; draw "
            "smaller or fewer networks, or use the template (infer, method='bethe'), whose cost does not grow with them"
        )


def _check_ground(scheme: RelationalScheme, domain: _Domain, chains: int) -> None:
    """Raise a `TooLargeError` where the ground features of all kinds would not fit into half of the memory."""
    held = [f for f in scheme.features.values() if f.term is None]
    # Lists of entities and pairs, by ground feature and by pair, and a state in each chain.
    need = sum(
        f.count_distinct(domain.sizes) * (64 * len(f.atoms) + 8 * len(f.arguments) + 4 * chains) for f in held
    )
    if need > available_memory() / 2:
        names = ", ".join(f.name for f in held if len(f.arguments) > 2)
        raise TooLargeError(
            f"the ground features of {names} would take about {need / 2**30:,.3g} GiB, more than half of the memory "
            "that is available; draw smaller networks, or use ready features (triangles, stars), which are counted on "
            "adjacency alone"
        )


def as_drawn(scheme: RelationalScheme, drawn: NetworkSamples, given: Network | None = None) -> list[Network]:
    """Return the networks of all chains that were kept, with the attributes and names of `given` where sizes agree."""
    if drawn.networks is None:
        raise InputError("the networks were not kept: sample with keep_networks=True")
    attribute = pair_attribute(scheme)
    name, unordered = attribute.name, attribute.type.unordered
    matrices = drawn.networks.reshape(-1, *drawn.networks.shape[2:])
    pairs = [np.argwhere(np.triu(one) if unordered else one) for one in matrices]
    if given is not None and given.sizes == drawn.sizes:
        return [replace(given, pairs={name: rows}, unknown={}) for rows in pairs]
    return [Network(drawn.sizes, {name: rows}, ordered=drawn.directed) for rows in pairs]


class _Chains:
    """Chains to be run: where they begin, their weights and random numbers, and how long."""

    def __init__(
        self, begin: Array, theta: Array, random: Array, plan: Schedule, kept: int, domain: _Domain
    ) -> None:
        self.begin, self.theta, self.random, self.plan, self.kept = begin, theta, random, plan, kept
        self.count, self.domain = len(begin), domain
        self.flips = np.zeros(self.count, dtype=np.int64)
        # Several chains are worth several threads, and one is not, unless it is long: then it must hear Ctrl-C.
        proposals = plan.burn_in + plan.samples * plan.thin
        self.work = 0 if self.count == 1 and proposals < WATCHED_WORK else 1 << 30

    def bits(self, basis: Basis) -> tuple[Array, Array, Array, Array]:
        """Sample with adjacency as bits: all features are combinations of the basis.

        A two-mode network is an undirected one whose vertices are numbered one type after the other.
        """
        combine, constant, extra = basis
        begin, plan, split = self.begin, self.plan, self.domain.shape[0] if self.domain.two_mode else 0
        size = sum(self.domain.sizes.values())
        if split:
            begin = np.zeros((self.count, size, size), dtype=bool)
            begin[:, :split, split:] = self.begin
            begin |= begin.swapaxes(1, 2)
            plan = plan._replace(second=plan.second + np.int32(split))
        packed = pack_bits(begin)
        rows, degree = np.zeros_like(packed), np.zeros((self.count, size), dtype=np.int64)
        totals = np.zeros((self.count, combine.shape[1]))
        use = (combine != 0).any(0)
        count_bits(packed, rows, degree, totals, use, extra, work=self.work)
        trace = np.zeros((self.count, plan.samples, combine.shape[1]))
        kept = np.zeros((self.count, self.kept, *rows.shape[1:]), dtype=np.uint64)
        weights, work = self.theta @ combine, self.work
        sample_bits(
            rows, degree, totals, weights, use, extra, self.random, plan, trace, kept, self.flips, work=work
        )
        networks, last = (unpack_bits(part, size) for part in (kept, rows))
        if split:
            networks, last = (part[..., :split, split:] for part in (networks, last))
        return trace @ combine.T + constant, trace[:, :, 0].copy(), networks, last

    def any_features(
        self, scheme: RelationalScheme, attribute: Attribute, network: Network | None
    ) -> tuple[Array, Array, Array, Array]:
        """Sample with the state of every ground feature: any scheme of one attribute of pairs."""
        where = ground_variables(scheme, self.domain.sizes)[attribute.name]
        features, constant = features_of_pairs(scheme, self.domain.sizes, attribute, network)
        features.append(edge_feature(len(where)))  # without weight
        present = self.begin[:, where[:, 0], where[:, 1]]
        flat, state = flatten_features(features, present)
        theta = np.concatenate([self.theta, np.zeros((self.count, 1))], 1)
        totals = np.stack(
            [np.bincount(flat.feature, flat.values[flat.table + row], len(features)) for row in state]
        )
        trace = np.zeros((self.count, self.plan.samples, len(features)))
        kept = np.zeros((self.count, self.kept, present.shape[1]), dtype=bool)
        number = np.zeros(self.domain.shape, dtype=np.int32)
        number[where[:, 0], where[:, 1]] = np.arange(len(where))
        listed = len(self.plan.first) > 0
        free = number[self.plan.first, self.plan.second] if listed else np.arange(len(where), dtype=np.int32)
        plan, work = self.plan._replace(first=free, second=free), self.work
        sample_any(present, state, totals, flat, theta, self.random, plan, trace, kept, self.flips, work=work)
        networks, last = (as_matrices(part, where, self.domain) for part in (kept, present))
        return trace[:, :, :-1] + constant, trace[:, :, -1].copy(), networks, last


def check_sampled(scheme: RelationalScheme, network: Any) -> Attribute:
    """Return the attribute that is sampled; a scheme that cannot be, or lacks attributes of vertices, is an error."""
    attribute = pair_attribute(scheme)
    check_terms(scheme)
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


def adjacency_of(network: Network, directed: bool) -> Bool[Array, "tails heads"]:
    """Return the adjacency of a network, symmetric unless pairs are ordered or of two types."""
    return replace(network, ordered=directed).adjacency()


def check_adjacency(value: Any, domain: _Domain, name: str) -> Array:
    """Return adjacency as (networks, tails, heads) of bool; refuse anything else."""
    matrix = np.asarray(value)
    matrix = matrix[None] if matrix.ndim == 2 else matrix
    if matrix.ndim != 3 or matrix.shape[1:] != domain.shape:
        wanted = (
            " rows and ".join(f"{size} {kind}" for kind, size in domain.sizes.items()) + " columns"
            if domain.two_mode
            else f"{domain.shape[0]} vertices"
        )
        raise InputError(f"{name} is an adjacency matrix of {wanted}, got shape {np.shape(value)}")
    flags = matrix.astype(bool)
    symmetric = not domain.unordered or (flags == flags.transpose(0, 2, 1)).all()
    if not np.isin(matrix, (0, 1)).all() or not symmetric:
        raise InputError(f"{name} must be a {'symmetric ' if domain.unordered else ''}matrix of 0 and 1")
    loops = np.argwhere(np.diagonal(flags, axis1=1, axis2=2))
    if len(loops) and name != "fixed" and not domain.two_mode:
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


def as_matrices(present: Array, where: Array, domain: _Domain) -> Array:
    """Return adjacency from the pairs."""
    out = np.zeros((*present.shape[:-1], *domain.shape), dtype=bool)
    out[..., where[:, 0], where[:, 1]] = present
    return out | out.swapaxes(-1, -2) if domain.unordered else out


def _begin(start: Any, observed: Array | None, domain: _Domain) -> Array:
    """Return the networks that chains start from."""
    if not isinstance(start, str):
        return check_adjacency(start, domain, "start")
    choose("start", STARTS, start)
    if start == "observed":
        if observed is None:
            raise InputError("start='observed' needs the observed network: give network=…")
        return observed[None]
    return domain.pairs()[None] & (start == "full")
