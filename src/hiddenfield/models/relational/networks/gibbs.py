"""Gibbs sampling of undirected networks with incremental change statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.fields.relational.pair_features import (
    check_network_scheme,
    ground_features,
    library_names,
    weight_scale,
)
from hiddenfield.models.relational.networks.adjacency import (
    check_adjacency,
    count_statistics,
    pack_bits,
    square,
    unpack_bits,
)
from hiddenfield.models.relational.networks.enumeration_loops import flatten_features
from hiddenfield.models.relational.networks.gibbs_loops import STATISTICS, Schedule, sample_any, sample_bits
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

__all__ = ["NetworkSamples", "sample_networks"]

STARTS = {name: name for name in ("empty", "full", "observed")}

# Each ready feature as a combination of what the fast kernel counts.
COMBINATIONS = {
    "edge": (1, 0, 0, 0, 0),
    "triangle": (0, 1, 0, 0, 0),
    "open_chain": (0, -3, 1, 0, 0),
    "star2": (0, 0, 1, 0, 0),
    "star3": (0, 0, 0, 1, 0),
    "quadruplet": (0, 0, 0, 0, 1),
}


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

    where the change statistic :math:`\delta_f(i, j)` is what the edge adds to feature f. For ready features it is
    counted from adjacency kept as bits (common neighbours, degrees, paths of three); for any other from the ground
    features that look at the pair.

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
    check_network_scheme(scheme, "sampling with change statistics")
    if samples < 0 or chains < 1 or burn_in < 0 or thin <= 0:
        raise InputError(
            f"expected samples and burn_in of at least 0, at least one chain and thin above 0, "
            f"got {samples}, {burn_in}, {chains} and {thin}"
        )
    theta = _theta(scheme, theta, chains) * weight_scale(scheme, weights)
    observed = None if network is None else check_adjacency(network, size, "network")[0]
    free = ~np.eye(size, dtype=bool)
    if fixed is not None:
        free &= ~check_adjacency(fixed, size, "fixed")[0]
        if observed is None:
            raise InputError("fixed pairs take their values from an observed network: give network=…")
    begin = np.array(np.broadcast_to(_begin(start, observed, size), (chains, size, size)))
    if fixed is not None and observed is not None:
        begin[:, ~free] = observed[~free]
    pairs = np.argwhere(np.triu(free))
    if len(pairs) == 0:
        raise InputError("there is no pair to draw: every one is fixed, or there is one vertex only")
    every = len(pairs) == math.comb(size, 2)
    between = max(1, round(thin * len(pairs)))
    plan = Schedule(
        np.zeros(0, np.int32) if every else pairs[:, 0].astype(np.int32),
        np.zeros(0, np.int32) if every else pairs[:, 1].astype(np.int32),
        round(burn_in * len(pairs)),
        between,
        samples,
    )
    random = np.random.SeedSequence(seed).generate_state(2 * chains, np.uint64).reshape(
        chains, 2
    ) | np.uint64(1)
    names = library_names(scheme)
    run = _run_bits if all(name is not None for name in names) else _run_any
    statistics, edges, networks, last, flips = run(scheme, begin, theta, random, plan, pairs, keep_networks)
    proposals = plan.burn_in + samples * between
    return NetworkSamples(
        tuple(scheme.features), size, weights, statistics, edges, networks, last, proposals, flips
    )


Run = tuple[Array, Array, Array | None, Array, Array]


def _run_bits(
    scheme: RelationalScheme,
    begin: Array,
    theta: Array,
    random: Array,
    plan: Schedule,
    pairs: Array,
    keep: bool,
) -> Run:
    """Sample with adjacency as bits: all features are ready ones."""
    chains, size = begin.shape[:2]
    combine = np.array([COMBINATIONS[str(name)] for name in library_names(scheme)], dtype=np.float64)
    combine = combine.reshape(-1, len(STATISTICS))
    rows = pack_bits(begin)
    degree = begin.sum(2).astype(np.int64)
    use = (combine != 0).any(0)
    counts = [count_statistics(network, bool(use[4])) for network in begin]
    totals = np.array(counts)
    trace = np.zeros((chains, plan.samples, len(STATISTICS)))
    kept = np.zeros((chains, plan.samples if keep else 0, *rows.shape[1:]), dtype=np.uint64)
    flips = np.zeros(chains, dtype=np.int64)
    sample_bits(
        rows, degree, totals, theta @ combine, use, random, plan, trace, kept, flips, work=_work(chains)
    )
    networks = unpack_bits(kept, size) if keep else None
    return trace @ combine.T, trace[:, :, 0].copy(), networks, unpack_bits(rows, size), flips


def _run_any(
    scheme: RelationalScheme,
    begin: Array,
    theta: Array,
    random: Array,
    plan: Schedule,
    pairs: Array,
    keep: bool,
) -> Run:
    """Sample with the state of every ground feature: any scheme."""
    chains, size = begin.shape[:2]
    upper = np.triu_indices(size, 1)
    number = np.zeros((size, size), dtype=np.int64)
    number[upper] = np.arange(len(upper[0]))
    features = ground_features(scheme, size)
    # The number of edges is one more feature, without weight.
    features.append((np.arange(len(upper[0]))[:, None], np.array([0.0, 1.0])))
    flat = flatten_features(features, len(upper[0]))
    theta = np.concatenate([theta, np.zeros((chains, 1))], 1)
    present = begin[:, upper[0], upper[1]]
    bits = present[:, flat.pairs].astype(np.int64) << (
        np.arange(len(flat.pairs)) - np.repeat(flat.ptr[:-1], np.diff(flat.ptr))
    )
    state = np.add.reduceat(bits, flat.ptr[:-1], axis=1).astype(np.int32)
    totals = np.zeros((chains, len(features)))
    for chain in range(chains):
        values = flat.values[flat.table + state[chain]]
        totals[chain] = np.bincount(flat.feature, weights=values, minlength=len(features))
    trace = np.zeros((chains, plan.samples, len(features)))
    kept = np.zeros((chains, plan.samples if keep else 0, present.shape[1]), dtype=bool)
    flips = np.zeros(chains, dtype=np.int64)
    free = number[pairs[:, 0], pairs[:, 1]].astype(np.int32)
    plan = plan._replace(first=free, second=free)
    sample_any(present, state, totals, flat, theta, random, plan, trace, kept, flips, work=_work(chains))
    networks = square(kept, size) if keep else None
    return trace[:, :, :-1].copy(), trace[:, :, -1].copy(), networks, square(present, size), flips


def _work(chains: int) -> int:
    """Say that several chains are worth several threads, and one is not."""
    return 0 if chains == 1 else 1 << 30


def _theta(scheme: RelationalScheme, theta: Any, chains: int) -> Float[Array, "chains features"]:
    """Return a row of weights for each chain."""
    names = list(scheme.features)
    if hasattr(theta, "items"):
        unknown = [name for name in theta if name not in names]
        missing = [name for name in names if name not in theta]
        if unknown or missing:
            raise InputError(
                f"weights for the features {', '.join(names)}: unknown {unknown}, missing {missing}"
            )
        theta = [float(theta[name]) for name in names]
    values = np.asarray(theta, dtype=np.float64)
    if values.shape not in {(len(names),), (chains, len(names))} or not np.isfinite(values).all():
        raise InputError(
            f"a finite weight for each of the features {', '.join(names)}, or a row of them for each of the "
            f"{chains} chains, got shape {values.shape}"
        )
    return np.array(np.broadcast_to(values, (chains, len(names))))


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
