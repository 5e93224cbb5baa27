"""The likelihood itself, by enumeration of all networks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hiddenfield.fields.relational import weight_scale
from hiddenfield.models.relational.enumeration import enumerate_networks
from hiddenfield.models.relational.likelihood import LIKELIHOODS, SmoothLikelihood, Values, sum_counts
from hiddenfield.shapes import Array, Float


@LIKELIHOODS.register(
    "exact",
    guarantee="exact, up to eight vertices",
    summary="all networks of up to eight vertices",
    reference="",
)
@dataclass(eq=False)
class ExactLikelihood(SmoothLikelihood):
    """The likelihood itself, by enumeration: for complete undirected networks of up to eight vertices."""

    def __post_init__(self) -> None:
        """Count the features, and all networks of each size."""
        self.require_complete("the exact likelihood")
        sizes = Counter(next(iter(network.sizes.values())) for network in self.networks)
        self._tables = [
            (repeats, enumerate_networks(self.scheme, size, weights=self.weights))
            for size, repeats in sizes.items()
        ]
        self.observed = sum_counts(self.scheme, self.networks, self.weights)

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return log-likelihoods and gradients at several settings at once."""
        scale = weight_scale(self.scheme, self.weights)
        value, gradient = theta @ self.observed, np.tile(self.observed, (len(theta), 1))
        for repeats, table in self._tables:
            value = value - repeats * table.log_partition(theta)
            gradient = gradient - repeats * table.expectations(theta) * scale
        return Values(value, gradient)
