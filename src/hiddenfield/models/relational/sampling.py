"""Gibbs sampling of networks with incremental change statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.relational import (
    Attribute,
    RelationalScheme,
    weight_matrix,
    weight_scale,
)
from hiddenfield.machine import available_memory
from hiddenfield.models.relational.counts import check_terms
from hiddenfield.models.relational.observations import Network, pair_attribute
from hiddenfield.models.relational.sampling_basis import as_bits, from_bits, sampling_basis
from hiddenfield.models.relational.sampling_loops import Schedule, count_bits, sample_bits
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
    num_pairs
        Number of pairs, at least 1.
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
    num_pairs: int = 1

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

    where the change statistic :math:`\delta_f(i, j)` is what the edge adds to feature f. It is counted from adjacency
    kept as bits: from common neighbours and degrees, or along the edges around the pair.

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
        A chain whose network has more edges stays as it is: on the way to an almost full one every proposal takes far
        longer, and nothing is learned. By default there is no such number.
    seed
        Of the random numbers; results do not depend on the number of threads.

    Notes
    -----
    A proposal costs n / 64 words for triangles, nothing that grows for stars, and for other patterns n / 64 words for
    each way to bind all vertices but the last: for each neighbour for quadruplets.

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
    kind, sizes = attribute.type, scheme.check_sizes(size)
    domain = Network({part: sizes[part] for part in kind.parts}, {}, ordered=kind.directed)
    _check_memory(scheme, domain, chains, samples if keep_networks else 0)
    given = network if isinstance(network, Network) else None
    observed = None
    if network is not None:
        shown = network if given is None else replace(given, ordered=domain.ordered).adjacency()
        observed = check_adjacency(shown, domain, "network")[0]
    begin = np.array(np.broadcast_to(_begin(start, observed, domain), (chains, *domain.shape)))
    pairs, number = np.zeros((0, 2), dtype=np.int32), attribute.type.count(domain.sizes)
    if fixed is not None:
        if observed is None:
            raise InputError("fixed pairs take their values from an observed network: give network=…")
        free = _pairs(domain) & ~check_adjacency(fixed, domain, "fixed")[0]
        begin[:, ~free] = observed[~free]
        pairs = np.argwhere(np.triu(free) if kind.unordered else free).astype(np.int32)
        number = len(pairs)
    elif domain.two_mode:
        pairs = np.argwhere(_pairs(domain)).astype(np.int32)
    if number == 0:
        raise InputError("there is no pair to draw: every one is fixed, or there is one vertex only")
    before, between = round(burn_in * number), max(1, round(thin * number))
    plan = Schedule(pairs[:, 0].copy(), pairs[:, 1].copy() + np.int32(domain.split), before, between, samples)
    plan = plan if most_edges is None else plan._replace(most=most_edges)
    random = np.random.SeedSequence(seed).generate_state(2 * chains, np.uint64).reshape(chains, 2)
    combine, constant, changes = sampling_basis(scheme, domain.sizes, given)
    packed = as_bits(begin, domain)
    rows = np.zeros((chains, 2 if domain.ordered else 1, *packed.shape[1:]), dtype=np.uint64)
    degree = np.zeros((chains, packed.shape[1]), dtype=np.int64)
    totals, flips = np.zeros((chains, combine.shape[1])), np.zeros(chains, dtype=np.int64)
    trace = np.zeros((chains, samples, combine.shape[1]))
    kept = np.zeros((chains, samples if keep_networks else 0, *packed.shape[1:]), dtype=np.uint64)
    # Several chains are worth several threads, and one is not, unless it is long: then it must hear Ctrl-C.
    proposals = before + samples * between
    work = 0 if chains == 1 and proposals < WATCHED_WORK else 1 << 30
    count_bits(packed, rows, degree, totals, changes, work=work)
    weight = theta @ combine
    sample_bits(
        rows, degree, totals, weight, changes, random | np.uint64(1), plan, trace, kept, flips, work=work
    )
    return NetworkSamples(
        tuple(scheme.features),
        domain.sizes,
        weights,
        trace @ combine.T + constant,
        trace[:, :, 0].copy(),
        from_bits(kept, domain) if keep_networks else None,
        from_bits(rows[:, 0], domain),
        proposals,
        flips,
        max(1, kind.count(domain.sizes)),
    )


def _check_memory(scheme: RelationalScheme, domain: Network, chains: int, kept: int) -> None:
    """Raise a `TooLargeError` at once where adjacency would not fit into half of the memory that is available."""
    vertices = sum(domain.sizes.values())
    numbers = [f for f in scheme.features.values() if f.term is not None and f.term.independent]
    # Adjacency of each chain and sample as bytes and as bits; lists of pairs, where there are any; numbers of pairs.
    need = vertices**2 * (2 + 24 * domain.two_mode + 16 * len(numbers) + 2.4 * chains + 1.25 * chains * kept)
    limit = available_memory() / 2
    if need > limit:
        raise TooLargeError(
            f"chains hold every pair: {chains * max(kept, 1):,} networks of {vertices:,} vertices would take about "
            f"{need / 2**30:,.3g} GiB, more than half of the {2 * limit / 2**30:,.3g} GiB that are available; draw "
            "smaller or fewer networks, or use the template (infer, method='bethe'), whose cost does not grow with them"
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
    return [Network(drawn.sizes, {name: rows}, ordered=attribute.type.directed) for rows in pairs]


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


def check_adjacency(value: Any, domain: Network, name: str) -> Array:
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
    unordered = not (domain.ordered or domain.two_mode)
    if not np.isin(matrix, (0, 1)).all() or (unordered and (flags != flags.transpose(0, 2, 1)).any()):
        raise InputError(f"{name} must be a {'symmetric ' * unordered}matrix of 0 and 1")
    loops = np.argwhere(np.diagonal(flags, axis1=1, axis2=2))
    if len(loops) and name != "fixed" and not domain.two_mode:
        raise InputError(f"{name} joins vertex {loops[0, 1]} to itself; a network has no self-loops")
    return flags


def _pairs(domain: Network) -> Bool[Array, "tails heads"]:
    """Return which entries of an adjacency matrix are pairs: not those of a vertex with itself."""
    return np.ones(domain.shape, dtype=bool) if domain.two_mode else ~np.eye(domain.shape[0], dtype=bool)


def _begin(start: Any, observed: Array | None, domain: Network) -> Array:
    """Return the networks that chains start from."""
    if not isinstance(start, str):
        return check_adjacency(start, domain, "start")
    choose("start", STARTS, start)
    if start == "observed":
        if observed is None:
            raise InputError("start='observed' needs the observed network: give network=…")
        return observed[None]
    return _pairs(domain)[None] & (start == "full")
