r"""What a fit is worth: networks simulated from the fitted model beside the observed ones.

At the maximum of the likelihood the expected features are the observed ones. With the mean :math:`\bar s` and the
covariance :math:`C` of the features of simulated networks, the Newton step :math:`C^{-1} (s - \bar s)` says how far the
weights are from there, and :math:`\sqrt{(C^{-1})_{ff}}` is the standard error of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, weight_scale
from hiddenfield.models.relational.enumeration import alike_networks
from hiddenfield.models.relational.observations import Network, count_pairs
from hiddenfield.models.relational.sampling import check_sampled, sample_networks
from hiddenfield.shapes import Array, Bool, Float

CHAINS, BURN_IN, SAMPLES = 4, 50, 200
"""Chains from the observed network, sweeps before the first sample, and samples from each, two sweeps apart."""
MOST_PROPOSALS = 20_000_000
"""Draws of a pair in all; networks that leave fewer than `FEWEST` sweeps are not simulated."""
FEWEST = 20
FAR = 0.5
"""Standard errors that a weight may be off, beyond the noise of the simulation."""


@dataclass(frozen=True, eq=False)
class SimulationCheck:
    """Features of networks simulated from a fitted model beside the observed ones.

    Parameters
    ----------
    names
        The features.
    observed, simulated, spread
        Counts in the data, and mean and standard deviation over simulated data, in the convention of the weights.
    steps
        By how many standard errors simulation would move each weight; 0 for those that are held.
    noise
        Of `steps`, from the differences between chains.
    """

    names: tuple[str, ...]
    observed: Float[Array, " features"]
    simulated: Float[Array, " features"]
    spread: Float[Array, " features"]
    steps: Float[Array, " features"]
    noise: Float[Array, " features"]

    @property
    def off(self) -> Bool[Array, " features"]:
        """Which weights are off by more than half a standard error and the noise."""
        return ~(np.abs(self.steps) <= FAR + 3 * self.noise)

    @property
    def agrees(self) -> bool:
        """Whether simulated networks look like the data, as far as the features tell."""
        return not bool(self.off.any())

    def __str__(self) -> str:
        """Say what differs."""
        if self.agrees:
            return "simulated networks agree with the data"
        parts = [
            f"{name} {self.simulated[i]:.4g} simulated, {self.observed[i]:.4g} observed"
            + (
                f" (weight off by {abs(self.steps[i]):.2g} standard errors)"
                if math.isfinite(self.steps[i])
                else ""
            )
            for i, name in enumerate(self.names)
            if self.off[i]
        ]
        return f"simulated networks disagree with the data: {'; '.join(parts)}"


def check_by_simulation(
    scheme: RelationalScheme,
    networks: Sequence[Network],
    theta: Float[Array, " features"],
    observed: Float[Array, " features"],
    *,
    weights: str = "ground",
    free: Sequence[int] | None = None,
    ridge: float = 0.0,
    seed: int = 0,
) -> SimulationCheck | None:
    """Simulate networks from a fitted model and compare their features with the observed ones.

    Chains start from the observed networks. None where networks are not simulated: partly unknown, or so large that
    chains would be too short to tell.

    References
    ----------
    Hunter, Goodreau and Handcock (2008), Goodness of fit of social network models.
    """
    try:
        for network in networks:
            check_sampled(scheme, network)
    except InputError:
        return None
    groups = alike_networks(scheme, networks)
    sweeps = MOST_PROPOSALS / CHAINS / max(sum(count_pairs(scheme, first) for first, _ in groups), 1)
    if sweeps < FEWEST or not all(network.complete for network in networks):
        return None
    # Several networks have a smaller standard error: their simulation must be as much less noisy.
    burn_in = min(BURN_IN, sweeps / 4)
    samples = int(min(SAMPLES * math.sqrt(len(networks)), (sweeps - burn_in) / 2))
    count = len(scheme.features)
    means, covariance = np.zeros((CHAINS, count)), np.zeros((count, count))
    for number, (first, many) in enumerate(groups):
        drawn = sample_networks(
            scheme,
            first.sizes,
            theta,
            samples=samples,
            chains=CHAINS,
            burn_in=burn_in,
            thin=2,
            start="observed",
            network=first,
            weights=weights,
            seed=seed + 7919 * number,
        )
        features = drawn.statistics * weight_scale(scheme, weights)
        means += many * features.mean(1)
        covariance += many * np.atleast_2d(np.cov(features.reshape(-1, count).T))
    kept = np.arange(count) if free is None else np.array(free)
    steps, noise = np.zeros(count), np.zeros(count)
    # What simulation always gives the same says nothing about its weight, unless it is not what was observed.
    here = covariance[np.ix_(kept, kept)] + ridge * np.eye(len(kept))
    spread = np.sqrt(np.diag(here))
    gap = observed[kept] - means.mean(0)[kept] - ridge * theta[kept]
    constant = spread <= 1e-9 * np.maximum(np.abs(observed[kept]), 1.0)
    unit = np.where(constant, 1.0, spread)
    inverse = np.linalg.pinv(here / unit / unit[:, None], rcond=1e-8, hermitian=True) / unit / unit[:, None]
    error = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    own = (means - means.mean(0))[:, kept] @ inverse / error
    steps[kept] = np.where(constant, np.where(np.abs(gap) > 0.5, np.inf, 0.0), inverse @ gap / error)
    noise[kept] = np.where(constant, 0.0, own.std(0, ddof=1) / math.sqrt(CHAINS))
    return SimulationCheck(
        tuple(scheme.features), observed, means.mean(0), np.sqrt(np.diag(covariance)), steps, noise
    )
