r"""Maximum likelihood by sampling: Newton steps :math:`\theta \leftarrow \theta + C^{-1} (s - \bar s)`.

:math:`\bar s` and :math:`C` are the mean and covariance of the features of sampled networks. Methods differ in where
the chains stop.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.fields.relational import weight_scale
from hiddenfield.learning.alternation import alternate
from hiddenfield.learning.maximum_likelihood import BOUND, Ascent
from hiddenfield.models.relational.likelihood import (
    LIKELIHOODS,
    Likelihood,
    Penalised,
    Search,
    Values,
    sum_counts,
)
from hiddenfield.models.relational.observations import Network, check_undirected
from hiddenfield.models.relational.sampling import sample_networks
from hiddenfield.shapes import Array, Float

LARGEST_STEP = 1.0
"""How far a step may move the mean, in standard deviations of the samples: importance weights fail beyond."""
CLOSE = 0.1
"""The convergence ratio of SIENA and PNet: each mean within a tenth of a standard deviation."""
CONSTANT = "no stationary point: the sampled networks do not vary (all empty, full, or in one phase)"
SETTLED, MOST_TURNS = 4, 60
"""Turns in a row that must be close, and turns after which it ends."""


@dataclass(eq=False)
class SampledLikelihood(Likelihood):
    """What methods that sample share: complete networks of one scheme, and Newton steps on sampled features."""

    sampled = True

    def __post_init__(self) -> None:
        """Count the observed features."""
        check_undirected(self.scheme, "learning by sampling")
        self.require_complete("learning by sampling")
        self.observed = sum_counts(self.scheme, self.networks, self.weights)

    @abc.abstractmethod
    def sampling_options(self, effort: int) -> dict[str, Any]:
        """Return how networks are sampled in place of an observed one; `effort` asks for more of them."""

    def draw(
        self, theta: Float[Array, " features"], effort: int, seed: int
    ) -> Float[Array, "samples features"]:
        """Return the features of sampled networks, added up over the observed ones."""
        total: Any = 0.0
        for number, network in enumerate(self.networks):
            drawn = sample_networks(
                self.scheme,
                next(iter(network.sizes.values())),
                theta,
                start="observed",
                network=network.adjacency(),
                weights=self.weights,
                seed=seed + 7919 * number,
                **self.sampling_options(effort),
            )
            total = total + drawn.statistics.reshape(-1, len(self.scheme.features))
        return np.asarray(total * weight_scale(self.scheme, self.weights))

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return observed minus sampled counts at each setting; the log-likelihood is not known (NaN)."""
        gradient = [self.observed - self.draw(row, effort=1, seed=0).mean(0) for row in theta]
        return Values(np.full(len(theta), np.nan), np.array(gradient))

    def ascend(self, objective: Penalised, start: Float[Array, " free"], search: Search) -> Ascent:
        """Step from a start until observed and sampled means agree within their noise."""
        steps = _NewtonSteps(self, objective, search.seed)
        first = _Turn(np.array(start, dtype=np.float64), 0, 0)
        turns = min(search.max_iterations, MOST_TURNS)
        end = alternate(steps, self.networks, first, tolerance=CLOSE, max_iterations=turns, settle=SETTLED)
        status, gap, errors = "converged", np.full(len(start), np.nan), None
        if end.converged and end.statistics is not None:
            gap = end.statistics.gap
            errors = np.sqrt(np.diag(np.linalg.inv(end.statistics.covariance)))
        else:
            status = (end.statistics.problem if end.statistics is not None else "") or (
                "no stationary point was reached: observed and sampled features still differ"
            )
        trace = np.array([turn.theta for turn in end.trace])
        return Ascent(end.parameters.theta, math.nan, gap, end.converged, status, trace, errors)


class _Turn(NamedTuple):
    """The free weights, and which turn it is: after how many in all and how many in a row that were close."""

    theta: Array
    number: int
    close: int


class _Drawn(NamedTuple):
    """The gradient by sampling, the covariance of the features, and why it cannot go on from here, if so."""

    gap: Array
    covariance: Array
    problem: str = ""


@dataclass(frozen=True)
class _NewtonSteps:
    """Newton steps on sampled features, as turns of `alternate`."""

    likelihood: SampledLikelihood
    objective: Penalised
    seed: int

    def expected_statistics(self, data: Sequence[Network], parameters: _Turn) -> _Drawn:
        """Sample networks at the weights; the closer it is, the more of them."""
        theta, ridge = parameters.theta, self.objective.ridge
        free, count = self.objective.free, len(parameters.theta)
        unknown = np.full(count, np.nan), np.full((count, count), np.nan)
        if np.abs(theta).max() > BOUND:
            return _Drawn(*unknown, f"no stationary point: the parameters run away (beyond {BOUND:g})")
        effort, seed = min(1 + parameters.close, SETTLED), self.seed + 104729 * parameters.number
        drawn = self.likelihood.draw(self.objective.full(theta[None])[0], effort, seed)[:, free]
        gap = self.likelihood.observed[free] - drawn.mean(0) - ridge * theta
        covariance = np.atleast_2d(np.cov(drawn.T)) + ridge * np.eye(count)
        varied = np.isfinite(covariance).all() and np.linalg.matrix_rank(covariance) == count
        return _Drawn(gap, covariance, "" if varied else CONSTANT)

    def maximize(self, statistics: _Drawn, parameters: _Turn) -> _Turn:
        """Step no further than samples reach."""
        step = np.linalg.solve(statistics.covariance, statistics.gap)
        distance = math.sqrt(max(float(statistics.gap @ step), 0.0))
        theta = parameters.theta + step * min(1.0, LARGEST_STEP / max(distance, 1e-12))
        close = parameters.close + 1 if self.residual(statistics) <= CLOSE else 0
        return _Turn(theta, parameters.number + 1, close)

    def score(self, statistics: _Drawn) -> float:
        """Return NaN: the log-likelihood is not known."""
        return math.nan

    def residual(self, statistics: _Drawn) -> float:
        """Return the largest difference of observed and sampled means, in standard deviations."""
        if statistics.problem:
            return math.nan
        return float((np.abs(statistics.gap) / np.sqrt(np.diag(statistics.covariance))).max())


@LIKELIHOODS.register(
    "monte_carlo",
    guarantee="the maximum, up to the noise of chains that mix",
    summary="sampled networks",
    reference="Geyer & Thompson 1992",
)
@dataclass(eq=False, kw_only=True)
class MonteCarloLikelihood(SampledLikelihood):
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

    def sampling_options(self, effort: int) -> dict[str, Any]:
        """Return long chains."""
        own = {"chains": self.chains, "burn_in": self.burn_in, "thin": self.thin}
        return {"samples": effort * self.samples, **own}


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
