"""The pseudo-likelihood: each pair given all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from hiddenfield.errors import TooLargeError
from hiddenfield.fields.relational import ground_variables
from hiddenfield.models.relational.likelihood import LIKELIHOODS, SmoothLikelihood, Values, sum_counts
from hiddenfield.models.relational.observations import count_pairs
from hiddenfield.models.relational.sampling_basis import change_statistics
from hiddenfield.shapes import Array, Float

MOST_PAIRS = 50_000_000


@LIKELIHOODS.register(
    "pseudo_likelihood",
    guarantee="consistent; standard errors too small",
    summary="each pair given the others",
    reference="Strauss & Ikeda 1990",
)
@dataclass(eq=False)
class PseudoLikelihood(SmoothLikelihood):
    r"""The product of each pair's probability given all others: a logistic regression on change statistics.

    :math:`\ell(\theta) = \sum_{ij} \log p(x_{ij} \mid x_{-ij})` (Besag 1975; Strauss and Ikeda 1990). Cheap and
    concave; consistent, but its standard errors ignore the dependence between pairs and are too small. Attributes of
    single entities are taken as given.
    """

    quantity = "log pseudo-likelihood"

    def __post_init__(self) -> None:
        """Compute the change statistics of all pairs once."""
        self.require_complete("pseudo-likelihood")
        self.require_condition("pseudo_likelihood")
        pairs_in_all = sum(count_pairs(self.scheme, network) for network in self.networks)
        if pairs_in_all > MOST_PAIRS:
            raise TooLargeError(
                f"the pseudo-likelihood looks at every pair, {pairs_in_all:,} here, and at most {MOST_PAIRS:,}; use "
                "method='bethe', whose cost does not grow with the network"
            )
        rows, answers = [], []
        for network in self.networks:
            name = next(iter(network.pairs))
            pairs = ground_variables(self.scheme, network.sizes)[name]
            present = np.zeros(network.shape, dtype=bool)
            present[*network.pairs[name].T] = True
            rows.append(change_statistics(self.scheme, network, pairs, weights=self.weights))
            answers.append(present[*pairs.T].astype(np.float64))
        self._rows, self._answers = np.concatenate(rows), np.concatenate(answers)
        self.observed = sum_counts(self.scheme, self.networks, self.weights)

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return log pseudo-likelihoods and gradients at several settings at once."""
        log_odds = self._rows @ theta.T
        value = (self._answers[:, None] * log_odds - np.logaddexp(0, log_odds)).sum(0)
        return Values(value, (self._answers[:, None] - expit(log_odds)).T @ self._rows)
