"""Unknown pairs of a network given the rest: link prediction by lifted belief propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.lifting.compression import compress
from hiddenfield.fields.relational import RelationalScheme, ground, ground_index
from hiddenfield.inference.infer import infer
from hiddenfield.models.relational.observations import Network, evidence_of, pair_attribute
from hiddenfield.shapes import Array, Float, Int


@dataclass(frozen=True, eq=False)
class PairPrediction:
    """Probabilities of the unknown pairs of a network.

    Parameters
    ----------
    pairs
        The unknown pairs, one row each: numbers of vertices.
    probability
        Of an edge, for each.
    ratio
        How many times fewer ports the lifted field had than the ground field.
    converged, status
        Of belief propagation.
    """

    pairs: Int[Array, "pairs 2"]
    probability: Float[Array, " pairs"]
    ratio: float
    converged: bool
    status: str


def predict_pairs(
    scheme: RelationalScheme,
    network: Network,
    theta: Any,
    *,
    bindings: str = "auto",
    weights: str = "ground",
    tolerance: float = 1e-8,
) -> PairPrediction:
    """Return the marginal probability of every unknown pair given all that is known of the network.

    The ground field with the known part as evidence is compressed: variables and factors that belief propagation cannot
    tell apart become one, and the answer is that of the ground field (an estimate). Cost: that of refining the ground
    field once, then of iterations on the classes.

    Examples
    --------
    One edge of five vertices is known; all others are not.

    >>> from itertools import combinations
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> from hiddenfield.models.relational import network_from_edges, predict_pairs
    >>> scheme = graph_scheme("edge", "triangle")
    >>> rest = [pair for pair in combinations(range(5), 2) if pair != (0, 1)]
    >>> network = network_from_edges(scheme, [(0, 1)], unknown=rest)
    >>> sorted(set(predict_pairs(scheme, network, [-1.0, 0.5]).probability.round(6)))
    [np.float64(0.305977), np.float64(0.329745)]
    """
    attribute = pair_attribute(scheme)
    unknown = network.unknown.get(attribute.name, np.zeros((0, 2), dtype=np.int64))
    if not len(unknown):
        raise InputError("the network has no unknown pairs to predict; mark some as unknown")
    field = ground(scheme, network.sizes, theta, bindings=bindings, weights=weights)
    lifted = compress(field, evidence_of(scheme, network))
    posterior = infer(lifted.field, "loopy_bp", tolerance=tolerance)
    if not bool(posterior.converged.all()):
        posterior = infer(lifted.field, "loopy_bp", tolerance=tolerance, damping=0.7, max_iterations=5000)
    marginals = lifted.expand(posterior)
    places = ground_index(scheme, network.sizes, attribute.name, unknown)
    return PairPrediction(
        unknown,
        marginals[torch.from_numpy(places), 1].numpy(),
        lifted.ratio,
        bool(posterior.converged.all()),
        posterior.status,
    )
