r"""Maximum likelihood by sampling: Newton steps :math:`\theta \leftarrow \theta + C^{-1} (s - \bar s)`.

:math:`\bar s` and :math:`C` are the mean and covariance of the features of sampled networks. Methods differ in where
the chains stop.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from hiddenfield.fields.relational import weight_scale
from hiddenfield.learning.alternation import alternate
from hiddenfield.learning.maximum_likelihood import Ascent, maximise
from hiddenfield.models.relational.counts import independent_features
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.likelihood import (
    LIKELIHOODS,
    Likelihood,
    Penalised,
    Search,
    Values,
    sum_counts,
)
from hiddenfield.models.relational.observations import count_pairs, pair_attribute
from hiddenfield.models.relational.sampling import sample_networks
from hiddenfield.models.relational.sampling_loops import MANY, VISITS
from hiddenfield.models.relational.stepping import CLOSE, ENDING, SETTLED, Stepping, Turn
from hiddenfield.shapes import Array, Float

MOST_TURNS = 200
"""Turns after which it ends."""
MOST_PROPOSALS = 10_000_000
"""Draws of a pair at given weights, at the least effort: chains on large networks are shorter."""
BRIDGES = 16
"""Weights between those of a model with independent pairs and the fitted ones at which networks are sampled."""
UNSURE = 1.0
"""Standard error from which on a log-likelihood counts as unknown: criteria would compare nothing."""
PILOT = 3.0
"""Sweeps after which the edges of a large network tell how many pairs a sweep draws."""
MOST_TIMES = 20
"""Times as many edges as the data have at which a chain on a large network has left for another phase."""
STOPPED = (
    f"; chains are stopped where networks have more than {MOST_TIMES} times the edges of the data: where no feature "
    "counts edges alone, add one"
)
SHORTEST_BURN_IN = 10.0
"""Sweeps that chains on large networks, which start from the data, run before the first sample."""


@dataclass(eq=False)
class SampledLikelihood(Likelihood):
    """What methods that sample share: complete networks of one scheme, and Newton steps on sampled features."""

    sampled = True

    def __post_init__(self) -> None:
        """Count the observed features."""
        self.require_complete("learning by sampling")
        self.require_condition("learning by sampling")
        self._stopped = False
        self.observed = sum_counts(self.scheme, self.networks, self.weights)

    @abc.abstractmethod
    def sampling_options(self, effort: int, sweep: int) -> dict[str, Any]:
        """Return how networks are sampled in place of an observed one.

        `effort` asks for more of them; `sweep` is how many pairs a sweep draws.
        """

    def draw(
        self, theta: Float[Array, " features"], effort: int, seed: int
    ) -> Float[Array, "chains samples features"]:
        """Return the features of sampled networks, added up over the observed ones."""
        total: Any = 0.0
        for number, network in enumerate(self.networks):
            chosen: dict[str, Any] = {"start": "observed", "network": network, "weights": self.weights}
            chosen["seed"] = seed + 7919 * number
            sample = partial(sample_networks, self.scheme, network.sizes, theta, **chosen)
            sweep, most = count_pairs(self.scheme, network), math.inf
            if sweep >= MANY:
                own = len(network.pairs[pair_attribute(self.scheme).name])
                most = MOST_TIMES * max(own, sum(network.sizes.values()))
                sample = partial(sample, most_edges=most)
                edges = int(sample(samples=1, burn_in=PILOT, thin=1).edges[0, 0])
                sweep = min(sweep, VISITS * max(edges, sum(network.sizes.values())))
            drawn = sample(**self.sampling_options(effort, sweep))
            self._stopped |= bool((drawn.edges > most).any())
            total = total + drawn.statistics
        return np.asarray(total * weight_scale(self.scheme, self.weights))

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return observed minus sampled counts at each setting; the log-likelihood is not known (NaN)."""
        gradient = [self.observed - self.draw(row, effort=1, seed=0).mean((0, 1)) for row in theta]
        return Values(np.full(len(theta), np.nan), np.array(gradient))

    def ascend(self, objective: Penalised, start: Float[Array, " free"], search: Search) -> Ascent:
        """Step towards the data until observed and sampled means agree within their noise."""

        def draw(theta: Array, effort: int, seed: int) -> Array:
            return self.draw(objective.full(theta[None])[0], effort, seed)[..., objective.free]

        observed, safe = (
            self.observed[objective.free],
            self.independent(objective.free, objective.ridge)[0][objective.free],
        )
        steps = Stepping(draw, observed, safe, tuple(objective.names), objective.ridge, search.seed)
        turns = min(search.max_iterations, MOST_TURNS)
        first, self._stopped = Turn(np.array(start, dtype=np.float64)), False
        trace = [first.theta]
        end = alternate(
            steps,
            self.networks,
            first,
            tolerance=CLOSE,
            max_iterations=turns,
            settle=ENDING,
            after=lambda now: trace.append(now.parameters.theta),
        )
        status, gap, errors = "converged", np.full(len(start), np.nan), None
        if end.converged and end.statistics is not None:
            gap, errors = end.statistics.gap, end.statistics.standard_errors()
            self.diagnostics = end.statistics.chains
        else:
            status = (end.statistics.problem if end.statistics is not None else "") or (
                "no stationary point was reached: observed and sampled features still differ"
            )
            status += STOPPED * self._stopped
        return Ascent(end.parameters.theta, math.nan, gap, end.converged, status, np.array(trace), errors)

    def independent(self, free: list[int], ridge: float = 0.0) -> tuple[Float[Array, " features"], float]:
        """Return the best weights of the model whose pairs are independent, and its log-likelihood, which is exact.

        Weights are zero where a feature joins pairs, where they are not free, and where there is no maximum.
        """
        cheap = LIKELIHOODS["pseudo_likelihood"](self.scheme, self.networks, weights=self.weights)
        alone = [i for i in free if i in independent_features(self.scheme)]
        theta = np.zeros(len(self.scheme.features))
        if alone:
            zero = {i: 0.0 for i in range(len(theta)) if i not in alone}
            found = maximise(Penalised(cheap, zero, alone, ridge), np.zeros(len(alone)))
            if found.converged:
                theta[alone] = found.parameters
        return theta, float(cheap.examine(theta[None]).log_likelihood[0])


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
    :math:`(\theta - \theta_0) \cdot s - \log \tfrac1K \sum_k e^{(\theta - \theta_0) \cdot s_k}`; steps towards its
    maximum go as far as the samples reach (`hiddenfield.models.relational.stepping`), and the chains start anew. What
    comes back is the maximum-likelihood estimate up to the noise of the chains, as long as they mix: in a model with
    two phases they do not. Standard errors are from the covariance of the features, with the noise of the chains.
    Where no feature joins pairs, the likelihood is a logistic regression, and its maximum is exact.

    References
    ----------
    Geyer and Thompson (1992), Constrained Monte Carlo maximum likelihood for dependent data; Hummel, Hunter and
    Handcock (2012), Improving simulation-based algorithms for fitting ERGMs.
    """

    samples: int = 1000
    chains: int = 4
    burn_in: float = 100.0
    thin: float = 2.0

    @cached_property
    def exact(self) -> Likelihood | None:
        """The likelihood itself where pairs are independent: each pair given the others is each by itself."""
        if len(independent_features(self.scheme)) < len(self.scheme.features):
            return None
        return LIKELIHOODS["pseudo_likelihood"](self.scheme, self.networks, weights=self.weights)

    def ascend(self, objective: Penalised, start: Float[Array, " free"], search: Search) -> Ascent:
        """Sample and step towards the data, or climb the exact likelihood of independent pairs."""
        if self.exact is None:
            return super().ascend(objective, start, search)
        return self.exact.ascend(replace(objective, likelihood=self.exact), start, search)

    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return observed minus sampled counts; the log-likelihood only where pairs are independent."""
        return super().examine(theta) if self.exact is None else self.exact.examine(theta)

    def integrate(self, theta: Float[Array, " features"]) -> tuple[float, float]:
        """Return the log-likelihood by bridges and its standard error, where that is below `UNSURE`."""

        def draw(along: Array, number: int) -> Array:
            return self.draw(along, 1, 15_485_863 + 32_452_843 * number)

        reference, known = self.independent(list(range(len(theta))))
        value, error = bridge_log_likelihood(draw, theta, reference, known, self.observed)
        return (value if error < UNSURE else math.nan), error

    def sampling_options(self, effort: int, sweep: int) -> dict[str, Any]:
        """Return long chains, shorter by as much as they would take more than `MOST_PROPOSALS`."""
        longer = max(1.0, effort / SETTLED)
        sweeps = MOST_PROPOSALS / (self.chains * sweep)
        share = min(1.0, sweeps / (self.burn_in + self.samples * self.thin))
        before = max(share * self.burn_in, min(self.burn_in, SHORTEST_BURN_IN))
        own = {"chains": self.chains, "burn_in": longer * before, "thin": longer * share * self.thin}
        return {"samples": min(effort, SETTLED) * self.samples, **own}


def bridge_log_likelihood(
    draw: Callable[[Array, int], Float[Array, "chains samples features"]],
    theta: Float[Array, " features"],
    reference: Float[Array, " features"],
    value: float,
    observed: Float[Array, " features"],
) -> tuple[float, float]:
    r"""Return the log-likelihood by bridges from a reference where its value is known, and its standard error.

    `draw` samples statistics at given weights, with the number of the bridge as seed.

    Along :math:`\theta(u) = \theta_0 + u (\theta - \theta_0)`, with independent pairs at :math:`\theta_0`,

    .. math:: \log Z(\theta) - \log Z(\theta_0) = \int_0^1 (\theta - \theta_0) \cdot E_u[s]\, du

    by Gauss-Legendre quadrature of sampled means. Guarantee: an estimate; the chains must mix along the whole way.
    The error holds the noise of the chains, and that of the quadrature, which is taken to be at most the difference
    to that of the polynomial through every second point.

    References
    ----------
    Hunter and Handcock (2006), Inference in curved exponential family models for networks; Gelman and Meng (1998),
    Simulating normalizing constants: from importance sampling to bridge sampling to path sampling.
    """
    direction = theta - reference
    if not direction.any():
        return value, 0.0
    nodes, shares = np.polynomial.legendre.leggauss(BRIDGES)
    means, variance = np.zeros(BRIDGES), 0.0
    for number, (node, share) in enumerate(zip((nodes + 1) / 2, shares / 2, strict=True)):
        along = draw(reference + node * direction, number) @ direction
        noise = ChainDiagnostics(("along",), along[:, :, None]).mean_covariance[0, 0]
        means[number] = along.mean()
        variance += share**2 * float(np.nan_to_num(noise))
    total = float(shares @ means) / 2
    half = means[::2]
    coarse = float(np.polynomial.legendre.legfit(nodes[::2], half, len(half) - 1)[0])
    error = math.hypot(math.sqrt(variance), total - coarse)
    return value + float(direction @ observed) - total, error


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

    def sampling_options(self, effort: int, sweep: int) -> dict[str, float]:
        """Return one sample from each of many short chains."""
        return {"samples": 1, "chains": min(effort, SETTLED) * self.chains, "burn_in": 0, "thin": self.sweeps}
