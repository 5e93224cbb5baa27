r"""Learning by sampling: Monte Carlo maximum likelihood, and contrastive divergence.

Both move the weights by Newton steps :math:`\theta \leftarrow \theta + C^{-1} (s - \bar s)` with the mean
:math:`\bar s` and covariance :math:`C` of the features of sampled networks. They differ in where the chains stop.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, weight_scale
from hiddenfield.learning.maximum_likelihood import Ascent
from hiddenfield.models.relational.counts import count_features
from hiddenfield.models.relational.observations import Network, check_undirected
from hiddenfield.models.relational.sampling import sample_networks
from hiddenfield.shapes import Array, Float

__all__ = ["ContrastiveDivergence", "MonteCarloLikelihood"]

LARGEST_STEP = 1.0
"""How far a step may move the mean, in standard deviations of the samples: importance weights fail beyond."""


@dataclass(eq=False)
class _Sampled(abc.ABC):
    """What both methods share: networks of one scheme, and Newton steps on sampled features."""

    scheme: RelationalScheme
    networks: Sequence[Network]
    weights: str = "ground"

    def __post_init__(self) -> None:
        """Count the observed features."""
        check_undirected(self.scheme, "learning by sampling")
        if not all(network.complete for network in self.networks):
            raise InputError("learning by sampling needs complete networks; use method='bethe'")
        self._scale = weight_scale(self.scheme, self.weights)
        self._counts = [count_features(self.scheme, network) * self._scale for network in self.networks]
        self._observed = np.sum(self._counts, axis=0)
        self.errors: Array = np.full(len(self.scheme.features), np.nan)
        self.gradient: Array = np.full(len(self.scheme.features), np.nan)

    def _draw(self, theta: Array, effort: int, seed: int) -> Float[Array, "samples features"]:
        """Return the features of sampled networks, added up over the observed ones."""
        total: Any = 0.0
        for number, network in enumerate(self.networks):
            total = total + self._sample(network, theta, effort, seed + 7919 * number) * self._scale
        return np.asarray(total)

    @abc.abstractmethod
    def _sample(
        self, network: Network, theta: Array, effort: int, seed: int
    ) -> Float[Array, "samples features"]:
        """Return the features of networks sampled in place of an observed one; `effort` asks for more of them."""

    def climb(self, objective: Any, start: Array, max_iterations: int, seed: int) -> Ascent:
        """Step from a start until observed and sampled means agree within their noise."""
        free, theta = objective.free, np.array(start, dtype=np.float64)
        trace, status, good = [theta.copy()], "", 0
        for iteration in range(min(max_iterations, 60)):
            effort = min(1 + good, 4)
            drawn = self._draw(objective.full(theta[None])[0], effort, seed + 104729 * iteration)[:, free]
            gap = self._observed[free] - drawn.mean(0) - objective.ridge * theta
            covariance = np.atleast_2d(np.cov(drawn.T)) + objective.ridge * np.eye(len(theta))
            if np.linalg.matrix_rank(covariance) < len(theta) or not np.isfinite(covariance).all():
                status = (
                    "no stationary point: the sampled networks do not vary (all empty, full, or in one phase)"
                )
                break
            step = np.linalg.solve(covariance, gap)
            distance = math.sqrt(max(float(gap @ step), 0.0))
            theta = theta + step * min(1.0, LARGEST_STEP / max(distance, 1e-12))
            trace.append(theta.copy())
            if np.abs(theta).max() > 50:
                status = "no stationary point: the parameters run away (beyond 50)"
                break
            # The convergence ratio of SIENA and PNet: each mean within a tenth of a standard deviation.
            ratio = np.abs(gap) / np.sqrt(np.diag(covariance))
            good = good + 1 if ratio.max() < 0.1 else 0
            if good >= 4:
                self._finish(objective, theta, covariance, gap)
                return self._ascent(theta, gap, True, "converged", trace)
        else:
            status = "no stationary point was reached: observed and sampled features still differ"
        return self._ascent(theta, np.full(len(theta), np.nan), False, status, trace)

    def _finish(self, objective: Any, theta: Array, covariance: Array, gap: Array) -> None:
        self.errors = np.sqrt(np.diag(np.linalg.inv(covariance)))
        self.gradient = np.full(len(self.scheme.features), np.nan)
        self.gradient[objective.free] = gap

    @staticmethod
    def _ascent(theta: Array, gradient: Array, converged: bool, status: str, trace: list[Array]) -> Ascent:
        return Ascent(theta, math.nan if not converged else 0.0, gradient, converged, status, np.array(trace))


@dataclass(eq=False)
class MonteCarloLikelihood(_Sampled):
    r"""Markov chain Monte Carlo maximum likelihood.

    The log-likelihood relative to the weights :math:`\theta_0` that networks were sampled at is
    :math:`(\theta - \theta_0) \cdot s - \log \tfrac1K \sum_k e^{(\theta - \theta_0) \cdot s_k}`; its Newton step from
    :math:`\theta_0`, no longer than one standard deviation of the samples, is taken and the chains start anew. What
    comes back is the maximum-likelihood estimate up to the noise of the chains, as long as they mix: in a model with
    two phases they do not. Standard errors are from the covariance of the features.

    References
    ----------
    Geyer and Thompson (1992), Constrained Monte Carlo maximum likelihood for dependent data; Hummel, Hunter and
    Handcock (2012), Improving simulation-based algorithms for fitting ERGMs.
    """

    samples: int = 1000
    chains: int = 4
    burn_in: float = 100.0
    thin: float = 2.0

    def _sample(self, network: Network, theta: Array, effort: int, seed: int) -> Array:
        options = {
            "samples": effort * self.samples,
            "chains": self.chains,
            "burn_in": self.burn_in,
            "thin": self.thin,
        }
        drawn = sample_networks(
            self.scheme,
            next(iter(network.sizes.values())),
            theta,
            start="observed",
            network=adjacency_of(network),
            weights=self.weights,
            seed=seed,
            **options,  # type: ignore[arg-type]
        )
        return drawn.statistics.reshape(-1, len(self.scheme.features))


@dataclass(eq=False)
class ContrastiveDivergence(_Sampled):
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

    def _sample(self, network: Network, theta: Array, effort: int, seed: int) -> Array:
        drawn = sample_networks(
            self.scheme,
            next(iter(network.sizes.values())),
            theta,
            samples=1,
            chains=effort * self.chains,
            burn_in=0,
            thin=self.sweeps,
            start="observed",
            network=adjacency_of(network),
            weights=self.weights,
            seed=seed,
        )
        return drawn.statistics.reshape(-1, len(self.scheme.features))


def adjacency_of(network: Network) -> Array:
    """Return the symmetric adjacency matrix of a network of unordered pairs."""
    size = next(iter(network.sizes.values()))
    rows = next(iter(network.pairs.values()))
    matrix = np.zeros((size, size), dtype=bool)
    matrix[rows[:, 0], rows[:, 1]] = matrix[rows[:, 1], rows[:, 0]] = True
    return matrix
