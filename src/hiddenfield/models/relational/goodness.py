"""Goodness of fit: whether a fitted model produces networks like the observed one, in what was not fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import ComplexType, RelationalScheme
from hiddenfield.models.relational.observations import Network, pair_attribute
from hiddenfield.models.relational.sampling import sample_networks
from hiddenfield.shapes import Array, Float


@dataclass(frozen=True, eq=False)
class Distribution:
    """A histogram of the observed network beside those of sampled ones.

    Parameters
    ----------
    name, labels
        What is counted, and the values that it takes.
    observed, sampled
        How often each occurs, in the data and in each sampled network.
    """

    name: str
    labels: tuple[str, ...]
    observed: Float[Array, " values"]
    sampled: Float[Array, "networks values"]

    @property
    def interval(self) -> Float[Array, "2 values"]:
        """The interval that holds at least 95 % of the sampled networks, for each value; its ends are counts."""
        low = np.quantile(self.sampled, 0.025, axis=0, method="lower")
        return np.stack([low, np.quantile(self.sampled, 0.975, axis=0, method="higher")])

    @property
    def p_values(self) -> Float[Array, " values"]:
        """Two-sided: how often sampled networks are as far out as the data, for each value; small means a misfit."""
        low = (self.sampled <= self.observed).mean(0)
        high = (self.sampled >= self.observed).mean(0)
        return np.minimum(1.0, 2 * np.minimum(low, high))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        low, high = self.interval
        return {
            "labels": list(self.labels),
            "observed": self.observed.tolist(),
            "mean": self.sampled.mean(0).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            "p_values": self.p_values.tolist(),
        }


def goodness_of_fit(
    scheme: RelationalScheme,
    network: Network,
    theta: Any,
    *,
    networks: int = 100,
    burn_in: float = 200,
    thin: float = 20,
    weights: str = "ground",
    seed: int = 0,
) -> dict[str, Distribution]:
    """Compare degrees, edgewise shared partners and geodesic distances of the data with those of sampled networks.

    Chains start from the data. Of a directed network there are out-degrees and in-degrees, and a partner of an arc is
    the middle of a path from its tail to its head. Of a two-mode network there are the degrees of each type, by its
    name, and how many neighbours any two entities of a type share.

    Parameters
    ----------
    scheme, network, theta
        The model, a complete network, and the weights.
    networks
        How many networks are sampled.
    burn_in, thin
        Sweeps before the first and between two.
    weights, seed
        What a weight counts, and the seed of the chain.

    References
    ----------
    Hunter, Goodreau and Handcock (2008), Goodness of fit of social network models.

    Examples
    --------
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational import network_from_edges
    >>> scheme = graph_scheme("edge")
    >>> network = network_from_edges(scheme, [(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> found = goodness_of_fit(scheme, network, [0.5])
    >>> found["degree"].observed, list(found)
    (array([0., 1., 2., 1.]), ['degree', 'shared_partners', 'distance'])
    """
    if not network.complete:
        raise InputError("goodness of fit compares complete networks; this one has unknown values")
    if networks < 1:
        raise InputError(f"at least one network is sampled, got {networks}")
    kind = pair_attribute(scheme).type
    observed = replace(network, ordered=kind.directed).adjacency()
    drawn = sample_networks(
        scheme,
        network.sizes,
        theta,
        samples=networks,
        burn_in=burn_in,
        thin=thin,
        start="observed",
        network=network,
        weights=weights,
        keep_networks=True,
        seed=seed,
    )
    assert drawn.networks is not None
    every = [_histograms(matrix, kind) for matrix in (observed, *drawn.networks[0])]
    result = {}
    for name in every[0]:
        rows = np.stack([histograms[name] for histograms in every])
        labels = [str(value) for value in range(rows.shape[1])]
        if name == "distance":  # none is at distance 0, and the last are those without a path
            rows, labels = rows[:, 1:], [*labels[1:-1], "inf"]
        keep = np.flatnonzero(rows.any(0))
        last = int(keep[keep < len(labels) - (name == "distance")].max(initial=0)) + 1
        chosen = [*range(last), *([len(labels) - 1] if name == "distance" else [])]
        chosen = list(dict.fromkeys(chosen))
        result[name] = Distribution(
            name, tuple(labels[i] for i in chosen), rows[0, chosen], rows[1:][:, chosen]
        )
    return result


def _histograms(matrix: Array, kind: ComplexType) -> dict[str, Array]:
    """Count vertices by degree, edges (or pairs of a type) by their number of partners, and pairs by distance."""
    counts = {}
    near, square = matrix.astype(np.float64), matrix
    if kind.two_mode:
        for name, rows in zip(kind.parts, (near, near.T), strict=True):
            shared = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
            counts[f"{name}_degree"] = (rows.sum(1), rows.shape[1] + 1)
            counts[f"{name}_shared_partners"] = (shared, rows.shape[1] + 1)
        square = np.zeros((sum(matrix.shape),) * 2, dtype=bool)
        square[: len(matrix), len(matrix) :] = matrix
        square |= square.T
    else:
        names = ("out_degree", "in_degree") if kind.directed else ("degree",)
        counts = {name: (near.sum(axis), len(near)) for name, axis in zip(names, (1, 0), strict=False)}
        each = matrix if kind.directed else np.triu(matrix)
        counts["shared_partners"] = ((near @ near)[each], len(near))
    found = {name: np.bincount(v.astype(np.int64), minlength=most) for name, (v, most) in counts.items()}
    found["distance"] = _distances(square, kind.directed)
    return {name: values.astype(np.float64) for name, values in found.items()}


def _distances(matrix: Array, directed: bool) -> Array:
    """Return how many pairs have each distance; the last are those without a path."""
    from scipy.sparse.csgraph import shortest_path

    size = len(matrix)
    distance = np.minimum(shortest_path(matrix, directed=directed, unweighted=True), size).astype(np.int64)
    each = ~np.eye(size, dtype=bool)
    return np.bincount(distance[each if directed else np.triu(each)], minlength=size + 1)
