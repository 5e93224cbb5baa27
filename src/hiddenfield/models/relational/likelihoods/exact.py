"""The likelihood itself, by enumeration of all networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.fields.relational import weight_scale
from hiddenfield.models.relational.enumeration import alike_networks, enumerate_networks
from hiddenfield.models.relational.likelihood import LIKELIHOODS, SmoothLikelihood, Values, sum_counts
from hiddenfield.shapes import Array, Float


@LIKELIHOODS.register(
    "exact",
    guarantee="exact, for a few vertices",
    summary="all networks of up to 21 pairs (eight vertices if undirected and alike)",
    reference="",
)
@dataclass(eq=False)
class ExactLikelihood(SmoothLikelihood):
    """The likelihood itself, by enumeration: for complete networks of a few vertices, given their attributes."""

    def __post_init__(self) -> None:
        """Count the features, and all networks of each size with the same attributes."""
        self.require_complete("the exact likelihood")
        self.require_condition("exact")
        self._tables = [
            (many, enumerate_networks(self.scheme, first.sizes, network=first, weights=self.weights))
            for first, many in alike_networks(self.scheme, self.networks)
        ]
        self.observed = sum_counts(self.scheme, self.networks, self.weights)

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return log-likelihoods and gradients at several settings at once."""
        scale = weight_scale(self.scheme, self.weights)
        value, gradient = theta @ self.observed, np.tile(self.observed, (len(theta), 1))
        for repeats, table in self._tables:
            log_partition, expected = table.solve(theta)
            value, gradient = value - repeats * log_partition, gradient - repeats * expected * scale
        return Values(value, gradient)
