"""Contrastive divergence: short chains from the data."""

from __future__ import annotations

from dataclasses import dataclass

from hiddenfield.models.relational.likelihood import LIKELIHOODS
from hiddenfield.models.relational.likelihoods.monte_carlo import SampledLikelihood

__all__ = ["ContrastiveDivergence"]


@LIKELIHOODS.register(
    "contrastive_divergence",
    guarantee="biased towards the pseudo-likelihood",
    summary="short chains from the data",
    reference="Hinton 2002",
)
@dataclass(eq=False, kw_only=True)
class ContrastiveDivergence(SampledLikelihood):
    """Contrastive divergence: chains from the observed network, `sweeps` long, over and over.

    The chains have no time to leave the phase that the data are in, so that it settles where maximum likelihood by
    sampling breaks down; the price is a bias towards the pseudo-likelihood's estimate, and its standard errors describe
    the short chains, not the model: too small.

    References
    ----------
    Hinton (2002), Training products of experts by minimizing contrastive divergence; Krivitsky (2017), Using
    contrastive divergence to seed Monte Carlo MLE for exponential-family random graph models.
    """

    sweeps: float = 1.0
    chains: int = 1000

    def sampling_options(self, effort: int) -> dict[str, float]:
        """Return one sample from each of many short chains."""
        return {"samples": 1, "chains": effort * self.chains, "burn_in": 0, "thin": self.sweeps}
