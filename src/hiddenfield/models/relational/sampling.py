"""Gibbs sampling of undirected networks with incremental change statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, ground_features, weight_matrix, weight_scale
from hiddenfield.models.relational.counts import STATISTICS, as_statistics
from hiddenfield.models.relational.observations import check_undirected
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

    def __repr__(self) -> str:
        """Say how many there are, and how dense."""
        chains, samples = self.edges.shape
        density = self.edges.mean() / max(1, math.comb(self.size, 2)) if samples else math.nan
        return (
            f"NetworkSamples({samples:,} samples from each of {chains} chains, {self.size:,} vertices, "
            f"mean density {density:.3g})"
        )

    @property
    def edge_probability(self) -> Float[Array, " chains"]:
        """The mean density in each chain: chains that differ are in different phases, or too short."""
        return self.edges.mean(1) / max(1, math.comb(self.size, 2))


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
    r"""Draw undirected networks from a scheme by Gibbs sampling, a random pair at a time.

    .. math:: P(x_{ij} = 1 \mid \text{rest}) = \sigma\Big(\sum_f \theta_f\, \delta_f(i, j)\Big)

    where the change statistic :math:`\delta_f(i, j)` is what the edge adds to feature f. For ready features and
    their combinations it is counted from adjacency kept as bits (common neighbours, degrees, paths of three); for any
    other from the ground features that look at the pair.

    Guarantee: each chain has the model as its stationary distribution. It may take very long to get there: where a
    model has two phases, chains that start "empty" and "full" stay apart; run both.

    Parameters
    ----------
    scheme
        One type with one binary attribute of unordered pairs, and any features.
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
        An observed network: adjacency.
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
    check_undirected(scheme, "sampling with change statistics")
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
    observed = None if network is None else check_adjacency(network, size, "network")[0]
    free = ~np.eye(size, dtype=bool)
    begin = np.array(np.broadcast_to(_begin(start, observed, size), (chains, size, size)))
    if fixed is not None:
        if observed is None:
            raise InputError("fixed pairs take their values from an observed network: give network=…")
        free &= ~check_adjacency(fixed, size, "fixed")[0]
        begin[:, ~free] = observed[~free]
    pairs = np.argwhere(np.triu(free)).astype(np.int32)
    if len(pairs) == 0:
        raise InputError("there is no pair to draw: every one is fixed, or there is one vertex only")
    before, between = round(burn_in * len(pairs)), max(1, round(thin * len(pairs)))
    plan = Schedule(pairs[:, 0].copy(), pairs[:, 1].copy(), before, between, samples)
    random = np.random.SeedSequence(seed).generate_state(2 * chains, np.uint64).reshape(chains, 2)
    found = as_statistics(scheme, size)
    run = _Chains(begin, theta, random | np.uint64(1), plan, samples if keep_networks else 0)
    statistics, edges, networks, last = run.any_features(scheme) if found is None else run.bits(*found)
    kept = networks if keep_networks else None
    found_in = (statistics, edges, kept, last, before + samples * between, run.flips)
    return NetworkSamples(tuple(scheme.features), size, weights, *found_in)


class _Chains:
    """Chains to be run: where they begin, their weights and random numbers, and how long."""

    def __init__(self, begin: Array, theta: Array, random: Array, plan: Schedule, kept: int) -> None:
        self.begin, self.theta, self.random, self.plan, self.kept = begin, theta, random, plan, kept
        self.count, self.size = begin.shape[:2]
        self.flips = np.zeros(self.count, dtype=np.int64)
        # Several chains are worth several threads, and one is not.
        self.work = 0 if self.count == 1 else 1 << 30

    def bits(self, combine: Array, constant: Array) -> tuple[Array, Array, Array, Array]:
        """Sample with adjacency as bits: all features are combinations of `STATISTICS`."""
        packed = pack_bits(self.begin)
        rows, degree = np.zeros_like(packed), np.zeros((self.count, self.size), dtype=np.int64)
        totals = np.zeros((self.count, len(STATISTICS)))
        use = (combine != 0).any(0)
        count_bits(packed, rows, degree, totals, use, work=self.work)
        plan, every = self.plan, math.comb(self.size, 2)
        if len(plan.first) == every:  # all pairs are free: none is listed
            plan = plan._replace(first=plan.first[:0], second=plan.second[:0])
        trace = np.zeros((self.count, plan.samples, len(STATISTICS)))
        kept = np.zeros((self.count, self.kept, *rows.shape[1:]), dtype=np.uint64)
        weights, work = self.theta @ combine, self.work
        sample_bits(rows, degree, totals, weights, use, self.random, plan, trace, kept, self.flips, work=work)
        networks, last = unpack_bits(kept, self.size), unpack_bits(rows, self.size)
        return trace @ combine.T + constant, trace[:, :, 0].copy(), networks, last

    def any_features(self, scheme: RelationalScheme) -> tuple[Array, Array, Array, Array]:
        """Sample with the state of every ground feature: any scheme."""
        upper = np.triu_indices(self.size, 1)
        # The number of edges is one more feature, without weight.
        edge = (np.arange(len(upper[0]))[:, None], np.array([0.0, 1.0]))
        features = [*ground_features(scheme, self.size), edge]
        present = self.begin[:, upper[0], upper[1]]
        flat, state = flatten_features(features, present)
        theta = np.concatenate([self.theta, np.zeros((self.count, 1))], 1)
        totals = np.stack(
            [np.bincount(flat.feature, flat.values[flat.table + row], len(features)) for row in state]
        )
        trace = np.zeros((self.count, self.plan.samples, len(features)))
        kept = np.zeros((self.count, self.kept, present.shape[1]), dtype=bool)
        number = np.zeros((self.size, self.size), dtype=np.int32)
        number[upper] = np.arange(len(upper[0]))
        free = number[self.plan.first, self.plan.second]
        plan, work = self.plan._replace(first=free, second=free), self.work
        sample_any(present, state, totals, flat, theta, self.random, plan, trace, kept, self.flips, work=work)
        networks, last = square(kept, self.size), square(present, self.size)
        return trace[:, :, :-1].copy(), trace[:, :, -1].copy(), networks, last


def flatten_features(
    features: Sequence[tuple[Array, Array]], present: Bool[Array, "chains pairs"]
) -> tuple[FlatFeatures, Int[Array, "chains ground_features"]]:
    """Lay the ground features of all kinds end to end, list those that look at each pair, and find their states."""
    arity = np.concatenate([np.full(len(scopes), scopes.shape[1]) for scopes, _ in features])
    pairs = np.concatenate([scopes.reshape(-1) for scopes, _ in features])
    # The last pair of a scope is the lowest bit of a state, as the last axis of a table is the quickest.
    end = np.cumsum(arity)
    owner = np.repeat(np.arange(len(arity)), arity)
    bit = (1 << (end[owner] - 1 - np.arange(len(pairs)))).astype(np.int32)
    order = np.argsort(pairs, kind="stable")
    counts = [len(scopes) for scopes, _ in features]
    offsets = np.cumsum([0, *(table.size for _, table in features)])
    flat = FlatFeatures(
        np.repeat(np.arange(len(features)), counts),
        np.repeat(offsets[:-1], counts),
        np.concatenate([table.reshape(-1) for _, table in features]),
        owner[order],
        bit[order],
        np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=present.shape[1]))]),
    )
    return flat, np.add.reduceat(present[:, pairs] * bit, end - arity, axis=1, dtype=np.int32)


def check_adjacency(value: Any, size: int, name: str) -> Array:
    """Return adjacency as (networks, n, n) of bool; refuse anything else."""
    matrix = np.asarray(value)
    matrix = matrix[None] if matrix.ndim == 2 else matrix
    if matrix.ndim != 3 or matrix.shape[1:] != (size, size):
        raise InputError(f"{name} is an adjacency matrix of {size} vertices, got shape {np.shape(value)}")
    flags = matrix.astype(bool)
    if not np.isin(matrix, (0, 1)).all() or not (flags == flags.transpose(0, 2, 1)).all():
        raise InputError(f"{name} must be a symmetric matrix of 0 and 1")
    loops = np.argwhere(np.diagonal(flags, axis1=1, axis2=2))
    if name != "fixed" and len(loops):
        raise InputError(
            f"{name} joins vertex {loops[0, 1]} to itself; an undirected network has no self-loops"
        )
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


def square(present: Array, size: int) -> Array:
    """Return adjacency from the pairs."""
    upper = np.triu_indices(size, 1)
    out = np.zeros((*present.shape[:-1], size, size), dtype=bool)
    out[..., upper[0], upper[1]] = present
    return out | out.swapaxes(-1, -2)


def _begin(start: Any, observed: Array | None, size: int) -> Array:
    """Return the networks that chains start from."""
    if not isinstance(start, str):
        return check_adjacency(start, size, "start")
    choose("start", STARTS, start)
    if start == "observed":
        if observed is None:
            raise InputError("start='observed' needs the observed network: give network=…")
        return observed[None]
    return np.full((1, size, size), start == "full") & ~np.eye(size, dtype=bool)
