r"""Stepping towards the data: Newton steps on sampled statistics that ask for no more than samples can tell.

At weights :math:`\theta` networks are sampled; m and C are the mean and covariance of their statistics, s is observed.
A step aims at :math:`\xi = \gamma s + (1 - \gamma) m`, with the largest :math:`\gamma \le 1` for which
:math:`m + 1.05\, (\xi - m)` lies in the convex hull of the samples:

.. math:: \theta \leftarrow \theta + C^{-1} (\xi - m)

the maximum of the log-normal approximation of the likelihood ratio (Hummel, Hunter and Handcock 2012). A step that ends
in another phase, or where sampled networks do not vary, is taken back by half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.learning.maximum_likelihood import BOUND
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.shapes import Array, Float

MARGIN = 1.05
"""How far inside the hull of the samples a target lies."""
LONGEST = 2.0
"""How far a step may move the mean, in standard deviations: the log-normal approximation is local."""
CLOSE = 0.1
"""The convergence ratio of SIENA and PNet: each mean within a tenth of a standard deviation."""
FAR = 5.0
"""A sampled mean this many standard deviations (of the samples before) from where a step aimed is in another phase."""
SETTLED, ENDING = 4, 2
"""Turns in a row that must be close, and those of them that are asked for where chains are longer than usual."""
MOST_IN_HULL = 2000
"""Different samples of which the hull is taken."""
MOST_EFFORT = 64
OUTSIDE = 6
"""Turns in a row near the data, but with the data outside of the hull, after which they are said to be at an edge."""
SHORTEST = 0.02
"""Length of steps below which it ends: whatever is tried, chains leave the data's phase."""
HOPELESS = 0.5
"""Part of the way to the data below which the first start is left for the safe one."""
APART, LONG_APART = 2.0, 3
"""R-hat from which on chains that start from the same data are in different phases, and turns in a row after which they
are said to stay there: more samples would not bring them together."""
ENOUGH = 400.0
"""Effective samples that are asked for near the end."""
CONSTANT = "no stationary point: the sampled networks do not vary (all empty, full, or in one phase)"
DEGENERATE = (
    "no stationary point: close to weights that would give the data, sampled networks leave for another phase (almost "
    "empty or full). The model is degenerate for these data; replace triangles and stars by gwesp and gwdegree"
)
RUNAWAY = f"no stationary point: the parameters run away (beyond {BOUND:g})"


def hull_step(
    sampled: Float[Array, "samples features"], observed: Float[Array, " features"], *, margin: float = MARGIN
) -> float:
    r"""Return the largest :math:`\gamma \le 1` with :math:`m + 1.05\, \gamma (s - m)` in the hull of the samples.

    One linear program: maximise :math:`\gamma` over weights :math:`w \ge 0`, :math:`\sum_k w_k = 1`, with
    :math:`\sum_k w_k s_k = m + 1.05\, \gamma\, (s - m)`.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]])
    >>> round(hull_step(square, np.array([11.0, 1.0]), margin=1.0), 3)
    0.1
    """
    from scipy.optimize import linprog

    mean, rows = sampled.mean(0), np.unique(sampled, axis=0)
    rows = rows[:: -(-len(rows) // MOST_IN_HULL)]
    spread = np.maximum(rows.std(0), 1e-12)
    points, target = (rows - mean) / spread, margin * (observed - mean) / spread
    if not target.any():
        return 1.0
    equal = np.vstack([np.column_stack([points.T, -target]), np.append(np.ones(len(points)), 0.0)])
    aim = np.zeros(len(points) + 1)
    aim[-1] = -1.0
    bounds = [(0.0, None)] * len(points) + [(0.0, 1.0)]
    found = linprog(aim, A_eq=equal, b_eq=np.append(np.zeros(len(mean)), 1.0), bounds=bounds, method="highs")
    return float(found.x[-1]) if found.status == 0 else 0.0


class Turn(NamedTuple):
    """The free weights of a turn, and what it takes from the turns before.

    Parameters
    ----------
    theta
        The weights.
    number, close
        Which turn it is, and how many in a row before it were close.
    effort
        How many times the usual number of samples are drawn.
    good, aim, precision
        The last weights to go back to, the mean that the step from there aims at, and the inverse covariance there.
    radius
        How far a step may go, in standard deviations.
    outside
        In how many turns in a row samples were near the data and did not surround them.
    apart
        In how many turns in a row chains were in different phases.
    left, distance
        The start that was left for the safe weights, and the distance of the data from its samples: where the safe
        ones are farther, it goes back.
    """

    theta: Array
    number: int = 0
    close: int = 0
    effort: int = 1
    good: Array | None = None
    aim: Array | None = None
    precision: Array | None = None
    radius: float = LONGEST
    outside: int = 0
    apart: int = 0
    left: Array | None = None
    distance: float = math.inf


class Sampled(NamedTuple):
    """What sampled networks say at some weights.

    Parameters
    ----------
    gap, covariance
        The gradient, and the covariance of the statistics (with that of the prior).
    chains
        The statistics along the chains.
    distance
        Of the data from the mean, in standard deviations; infinite where networks do not vary.
    step, gamma
        The step, as far as samples allow, and which part of the whole it is.
    outside
        Whether samples near the data do not surround them.
    apart
        Whether the chains are in different phases.
    retreat
        Whether to go back.
    early
        Whether further turns are wanted although this one may be close.
    problem
        Why it cannot go on, if so.
    """

    gap: Array
    covariance: Array
    chains: ChainDiagnostics
    distance: float
    step: Array
    gamma: float
    outside: bool = False
    apart: bool = False
    retreat: bool = False
    early: bool = False
    problem: str = ""

    def standard_errors(self) -> Float[Array, " free"]:
        r"""Return :math:`\sqrt{\operatorname{diag}(C^{-1} + C^{-1} V C^{-1})}`, V the noise of the sampled mean."""
        inverse = np.linalg.inv(self.covariance)
        noise = np.nan_to_num(self.chains.mean_covariance)
        return np.sqrt(np.diag(inverse + inverse @ noise @ inverse))


@dataclass(frozen=True)
class Stepping:
    """Steps towards the data, as turns of `hiddenfield.learning.alternation.alternate`.

    Parameters
    ----------
    draw
        Samples statistics of free weights: called with weights, effort and seed.
    observed
        Statistics of the data.
    safe
        Weights of a model without dependence, whose samples vary: where to go when the start is hopeless.
    names, ridge, seed
        Names of the free weights, precision of the prior, first seed.
    """

    draw: Callable[[Array, int, int], Array]
    observed: Array
    safe: Array
    names: tuple[str, ...]
    ridge: float = 0.0
    seed: int = 0

    def expected_statistics(self, data: Sequence[Any], parameters: Turn) -> Sampled:
        """Sample networks at the weights, and find how far a step may go."""
        theta, count = parameters.theta, len(parameters.theta)
        if np.abs(theta).max() > BOUND:
            empty = ChainDiagnostics(self.names, np.zeros((1, 0, count)))
            none = np.full(count, np.nan)
            return Sampled(none, np.outer(none, none), empty, math.inf, none, 0.0, problem=RUNAWAY)
        drawn = self.draw(theta, parameters.effort, self.seed + 104729 * parameters.number)
        flat = drawn.reshape(-1, count)
        gap = self.observed - flat.mean(0) - self.ridge * theta
        covariance = np.atleast_2d(np.cov(flat.T)) + self.ridge * np.eye(count)
        chains = ChainDiagnostics(self.names, drawn)
        scale = np.sqrt(np.diag(covariance))
        varied = np.isfinite(covariance).all() and (scale > 0).all()
        varied = varied and np.linalg.matrix_rank(covariance / np.outer(scale, scale), tol=1e-9) == count
        newton = np.linalg.solve(covariance, gap) if varied else np.zeros(count)
        distance = math.sqrt(max(float(gap @ newton), 0.0)) if varied else math.inf
        gamma = hull_step(flat, self.observed - self.ridge * theta) if varied else 0.0
        outside, apart = distance < 1 and gamma < 1, bool((chains.r_hat > APART).any())
        gamma = min(gamma, parameters.radius / max(distance, 1e-12))
        retreat = not varied or self._strayed(flat.mean(0), gamma, distance, parameters)
        problem = ""
        if retreat and parameters.radius < SHORTEST:
            problem = (
                DEGENERATE
                if np.isfinite(parameters.theta).all() and parameters.good is not None
                else CONSTANT
            )
        elif not varied and bool(np.abs(theta - self.safe).max() < 1e-6):
            problem = CONSTANT
        elif outside and parameters.outside >= OUTSIDE and self.ridge == 0:
            problem = self._edge(flat)
        elif apart and parameters.apart >= LONG_APART:
            problem = DEGENERATE
        early = parameters.effort <= SETTLED and parameters.close < SETTLED - ENDING
        step = gamma * newton
        return Sampled(
            gap, covariance, chains, distance, step, gamma, outside, apart, retreat, early, problem
        )

    def _strayed(self, mean: Array, gamma: float, distance: float, parameters: Turn) -> bool:
        """Whether samples are far from where the last step aimed, or another start is better."""
        if parameters.aim is None or parameters.precision is None:
            if parameters.left is not None:
                return distance > parameters.distance
            return bool(gamma < HOPELESS and np.abs(parameters.theta - self.safe).max() > 1e-6)
        off = mean - parameters.aim
        return bool(off @ parameters.precision @ off > FAR**2)

    def _edge(self, sampled: Array) -> str:
        """Say which statistics of the data no sampled network goes beyond."""
        least, most = sampled.min(0) >= self.observed, sampled.max(0) <= self.observed
        which = [
            f"{name} ({'least' if low else 'most'})"
            for name, low, high in zip(self.names, least, most, strict=True)
            if low or high
        ]
        return (
            "no stationary point: the data are at an edge of what the model can give, "
            f"so that weights run away; drop or fix {', '.join(which) or 'a combination of features'}, or add a ridge"
        )

    def maximize(self, statistics: Sampled, parameters: Turn) -> Turn:
        """Step as far as samples allow, or go back."""
        number = parameters.number + 1
        parameters = parameters._replace(apart=parameters.apart + 1 if statistics.apart else 0)
        if statistics.retreat:
            if parameters.good is not None:
                back, radius = (parameters.theta + parameters.good) / 2, parameters.radius / 2
                return parameters._replace(theta=back, number=number, close=0, radius=radius)
            if parameters.left is not None:
                return parameters._replace(theta=parameters.left, number=number, distance=math.inf)
            here = parameters._replace(theta=self.safe, number=number)
            return here._replace(left=parameters.theta, distance=statistics.distance)
        close = parameters.close + 1 if self.residual(statistics._replace(early=False)) <= CLOSE else 0
        effort = max(parameters.effort, min(1 + close, SETTLED))
        if statistics.distance < 1 and not (statistics.chains.effective_size >= ENOUGH).all():
            effort = min(2 * effort, MOST_EFFORT)
        mean = statistics.chains.trace.mean((0, 1))
        return Turn(
            parameters.theta + statistics.step,
            number,
            close,
            effort,
            parameters.theta,
            mean + statistics.covariance @ statistics.step,
            np.linalg.inv(statistics.covariance),
            min(1.5 * parameters.radius, LONGEST),
            parameters.outside + 1 if statistics.outside else 0,
            parameters.apart,
        )

    def score(self, statistics: Sampled) -> float:
        """Return NaN: the log-likelihood is not known."""
        return math.nan

    def residual(self, statistics: Sampled) -> float:
        """Return the largest difference of observed and sampled means, in standard deviations.

        It is infinite where further turns are wanted, and where samples do not surround the data: a mean comes as close
        to an edge as one likes.
        """
        if statistics.problem:
            return math.nan
        if statistics.retreat or statistics.outside or statistics.early:
            return math.inf
        return float((np.abs(statistics.gap) / np.sqrt(np.diag(statistics.covariance))).max())
