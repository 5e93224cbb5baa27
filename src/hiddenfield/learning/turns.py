r"""The turns of `fit_em`: each way to fill in what is hidden, as a model that `alternate` can drive."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.errors import TrainingError
from hiddenfield.learning.protocol import Arrays, Fill
from hiddenfield.learning.shards import Shards, batches
from hiddenfield.shapes import Array, Float

CLIMBING = ("expectation", "mode", "variational")
"""Fills whose objective rises with every turn."""

ROUNDING = 1e-8
"""A fall by less than this part of the objective (and of a datum each) is rounding."""


@dataclass(frozen=True, eq=False)
class Turn:
    """What a turn begins with.

    Parameters
    ----------
    parameters
        Those to look at; with "variational" their distribution.
    fallback, least
        Where `parameters` are a leap: the plain step beside it, and the objective that it must reach.
    before
        The coordinates that the last step started from, where the next may be a leap.
    known, objective
        The parameters looked at last, and their objective.
    running, steps, count
        Of stepwise EM: mean statistics of a datum, batches so far, and the number of data.
    """

    parameters: Arrays
    fallback: Arrays | None = None
    least: float = -math.inf
    before: Float[Array, " free"] | None = None
    known: Arrays | None = None
    objective: float = -math.inf
    running: Arrays | None = None
    steps: int = 0
    count: float = 0.0


class Found(NamedTuple):
    """What the E step found, for which parameters, and how much the objective has risen per datum.

    Of stepwise EM also the number of batches so far, and of data.
    """

    parameters: Arrays
    statistics: Arrays
    objective: float
    rise: float
    steps: int = 0
    data: float = 0.0


def add_up(model: Any, data: Any, parameters: Arrays, fill: Fill) -> Arrays:
    """Return the expected statistics, those of shards added up."""
    if not isinstance(data, Shards):
        return model.expected_statistics(data, parameters, fill)
    total: Arrays = {}
    for part in data:
        found = model.expected_statistics(part, parameters, fill)
        total = {name: np.asarray(total.get(name, 0.0) + value) for name, value in found.items()}
    return total


def mix(first: Arrays, second: Arrays, share: float) -> Arrays:
    """Return :math:`(1 - a) s + a t`."""
    return {name: np.asarray((1 - share) * value + share * second[name]) for name, value in first.items()}


@dataclass(frozen=True, eq=False)
class Turns:
    """EM with expectation, mode or sample, as turns.

    Parameters
    ----------
    model
        A `LatentModel`.
    fill
        How what is hidden is filled in.
    accelerate
        Whether every other step is extrapolated by SQUAREM.
    """

    model: Any
    fill: Fill
    accelerate: bool = False

    # -- what differs from fill to fill --------------------------------------------------------------------

    def statistics(self, data: Any, parameters: Arrays) -> tuple[Arrays, float]:
        """Return the statistics and the objective."""
        found = add_up(self.model, data, parameters, self.fill)
        return found, float(found["objective"]) + self.model.log_prior(parameters)

    def improve(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the next parameters."""
        return self.model.maximize(statistics, parameters)

    # -- turns ---------------------------------------------------------------------------------------------

    def _look(self, data: Any, parameters: Arrays, before: float) -> Found:
        statistics, objective = self.statistics(data, parameters)
        if math.isnan(objective):
            raise TrainingError("the objective is not a number; the data or the parameters are too extreme")
        count = max(float(statistics["count"]), 1e-300)
        return Found(parameters, statistics, objective, (objective - before) / count)

    def expected_statistics(self, data: Any, parameters: Turn) -> Found:
        """Infer what is hidden; where a leap has gained less than plain steps would, go back to the plain one."""
        turn = parameters
        if turn.fallback is not None:
            try:
                with np.errstate(all="ignore"):
                    found = self._look(data, turn.parameters, turn.objective)
                if found.objective >= turn.least:
                    return found
            except (TrainingError, np.linalg.LinAlgError):
                pass  # beyond what is possible
        found = self._look(data, turn.fallback or turn.parameters, turn.objective)
        count = float(found.statistics["count"])
        slack = ROUNDING * (abs(found.objective) + count)
        climbs = self.fill.kind in CLIMBING and getattr(self.model, "monotone", True)  # not with estimates
        if climbs and found.objective < turn.objective - slack:
            raise TrainingError(
                f"the objective fell from {turn.objective:.10g} to {found.objective:.10g}, which cannot be where each "
                f"step is right (fill={self.fill.kind!r}); the model is wrong"
            )
        return found

    def maximize(self, statistics: Found, parameters: Turn) -> Turn:
        """Re-estimate, and leap ahead after two plain steps."""
        found = statistics
        following = Turn(self.improve(found.statistics, found.parameters), known=found.parameters)
        following = replace(following, objective=found.objective)
        if not self.accelerate:
            return following
        with np.errstate(all="ignore"):  # at a boundary, such as a probability of 0, there is nowhere to leap
            here = self.model.as_vector(found.parameters)
            if parameters.before is None:
                return replace(following, before=here)
            leap = squarem(parameters.before, here, self.model.as_vector(following.parameters))
            if leap is None:
                return following
            ahead = self.model.from_vector(leap, following.parameters)
        least = found.objective + max(found.objective - parameters.objective, 0.0)
        return replace(following, parameters=ahead, fallback=following.parameters, least=least)

    def score(self, statistics: Found) -> float:
        """Return the objective."""
        return statistics.objective

    def residual(self, statistics: Found) -> float:
        """Return how much it has risen per datum; draws go on to the end."""
        return abs(statistics.rise) if self.fill.kind in CLIMBING else math.inf


def squarem(
    first: Float[Array, " free"], second: Float[Array, " free"], third: Float[Array, " free"]
) -> Float[Array, " free"] | None:
    r"""Extrapolate two steps of a fixed-point iteration by the squared method S3.

    .. math::

        r = x_1 - x_0, \quad v = x_2 - 2 x_1 + x_0, \quad a = \lVert r \rVert / \lVert v \rVert, \quad
        x' = x_0 + 2 a r + a^2 v

    Returns None where it is no further than the two steps.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm.

    Examples
    --------
    A linear iteration that halves the distance to 1 is solved at once:

    >>> squarem(np.array([0.0]), np.array([0.5]), np.array([0.75]))
    array([1.])
    """
    step, bend = second - first, third - 2 * second + first
    size = float(np.linalg.norm(bend))
    if not np.isfinite(third).all() or not np.isfinite(size) or size == 0:
        return None
    length = float(np.linalg.norm(step)) / size
    return None if length <= 1 else first + 2 * length * step + length**2 * bend


@dataclass(frozen=True, eq=False)
class VariationalTurns(Turns):
    """Variational Bayes: what moves is the distribution of the parameters, and the objective is the lower bound."""

    def statistics(self, data: Any, parameters: Arrays) -> tuple[Arrays, float]:
        """Return the statistics at the expected log parameters, and the evidence lower bound."""
        found = add_up(self.model, data, self.model.plug_in(parameters), Fill())
        return found, float(found["objective"]) - self.model.divergence(parameters)

    def improve(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the distribution given the statistics."""
        return self.model.posterior(statistics)


@dataclass(frozen=True, eq=False)
class GibbsTurns(Turns):
    """Gibbs sampling: draw what is hidden, then the parameters."""

    def improve(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Draw the parameters given what was filled in."""
        return self.model.draw(self.model.posterior(statistics), self.fill.generator)


@dataclass(frozen=True, eq=False)
class StepwiseTurns(Turns):
    r"""Stepwise EM: the statistics are a running mean over batches, and each batch is a step.

    .. math::

        s \leftarrow (1 - \gamma_t)\, s + \gamma_t\, \tfrac{N}{N_b} E[s_b \mid x_b, \theta], \qquad
        \gamma_t = (t + 2)^{-0.7}

    With "variational" what moves is the distribution of the parameters given these statistics: stochastic variational
    inference, whose steps are natural gradients (Hoffman et al. 2013). A turn is a pass over the data; its objective,
    the sum over batches, each at the parameters of its time, is an estimate and may fall.

    References
    ----------
    Cappé and Moulines (2009), Online expectation-maximization algorithm for latent data models; Liang and Klein (2009),
    Online EM for unsupervised models.
    """

    batch_size: int = 1

    def expected_statistics(self, data: Any, parameters: Turn) -> Found:
        """Pass over the data once."""
        assert self.fill.generator is not None
        turn, now, objective, count = parameters, parameters.parameters, 0.0, 0.0
        running, steps, bayes = turn.running, turn.steps, self.fill.kind == "variational"
        needed = 0 if bayes else 2 * len(self.model.as_vector(now))  # a prior does with few data
        for batch in batches(data, self.batch_size, self.fill.generator):
            given = self.model.plug_in(now) if bayes and running is not None else now
            found = self.model.expected_statistics(batch, given, Fill() if bayes else self.fill)
            size = float(found["count"])
            if size == 0:
                continue
            objective, count, steps = objective + float(found["objective"]), count + size, steps + 1
            rate = (
                1 / steps
                if running is None or (count < needed and turn.known is None)
                else (steps + 2) ** -0.7
            )
            each = {name: np.asarray(value / size) for name, value in found.items()}
            running = each if running is None else mix(running, each, rate)
            if count >= needed or turn.known is not None:  # before, statistics are of too few data
                total = max(turn.count, count)
                sums = {n: np.asarray(total * value) for n, value in running.items()}
                now = self.model.posterior(sums) if bayes else self.model.maximize(sums, now)
        if running is None:
            raise TrainingError("all weights are zero; there is nothing to learn")
        objective += -self.model.divergence(now) if bayes else self.model.log_prior(now)
        rise = (objective - turn.objective) / count
        return Found(now, running, objective, rise, steps, count)

    def maximize(self, statistics: Found, parameters: Turn) -> Turn:
        """Go on with the running mean."""
        found = statistics
        return Turn(
            found.parameters,
            known=found.parameters,
            objective=found.objective,
            running=found.statistics,
            steps=found.steps,
            count=found.data,
        )

    def residual(self, statistics: Found) -> float:
        """Return how much the estimated objective has changed per datum."""
        return abs(statistics.rise)
