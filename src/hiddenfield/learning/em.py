r"""The EM driver: infer what is hidden, re-estimate the parameters, repeat.

A model is plain functions of data and parameters (`LatentModel`); parameters and expected statistics are arrays by
name, so that statistics of parts of the data add up and parameters can be saved, whatever the model is. What is hidden,
missing values included, is filled in by one of the alternatives of `FILLS`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from hiddenfield.errors import ConvergenceWarning, InputError, TrainingError
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

Arrays = dict[str, Array]
"""Parameters or statistics, by name."""

Data = TypeVar("Data", contravariant=True)

FILLS: Mapping[str, str] = {
    "expectation": "by its posterior distribution: EM, which climbs the likelihood",
    "mode": "by its most likely value: hard EM, which climbs the likelihood of the filled data",
    "sample": "by a draw from its posterior: stochastic EM",
    "variational": "by its posterior under a distribution of the parameters: variational Bayes",
    "gibbs": "by draws, of it and of the parameters in turns: a posterior sample",
}
"""How what is hidden is filled in, and what that makes of the alternation."""


@dataclass(frozen=True)
class Fill:
    """How the E step fills in what is hidden: "expectation", "mode" or "sample" (with a generator)."""

    kind: str = "expectation"
    generator: np.random.Generator | None = None


@runtime_checkable
class LatentModel(Protocol[Data]):
    r"""A model with something hidden, as EM sees it.

    Statistics are sums over the data. They have two entries of that name in every model: ``"objective"``, the
    log-likelihood :math:`\sum_n w_n \log p(x_n \mid \theta)` (with "mode" and "sample" that of the data as filled
    in), and ``"count"``, :math:`\sum_n w_n`.
    """

    def start(self, data: Data, how: str, generator: np.random.Generator) -> Arrays:
        """Return parameters to start from: "k_means", "random", or what else the model offers; "auto" is its choice."""

    def expected_statistics(self, data: Data, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the sufficient statistics with what is hidden filled in, summed over the data (the E step)."""

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the parameters that are best for the statistics and the prior (the M step)."""

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters, up to a constant; 0 without a prior."""

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return the parameters in free coordinates (log ratios, Cholesky factors), one per degree of freedom."""

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates; `parameters` give what has none (fixed values, zeros)."""


@runtime_checkable
class Conjugate(Protocol):
    r"""What a model with conjugate priors offers besides, for `variational` and `gibbs`.

    A distribution of the parameters is given by its own parameters, again arrays by name.
    """

    def posterior(self, statistics: Arrays) -> Arrays:
        r"""Return the distribution :math:`q(\theta)` given filled-in statistics; that of no data is the prior."""

    def plug_in(self, posterior: Arrays) -> Arrays:
        r"""Return what the E step takes for :math:`\exp E_q[\log p(x, z \mid \theta)]`; it need not be normalised."""

    def divergence(self, posterior: Arrays) -> float:
        r"""Return :math:`KL(q(\theta) \,\|\, p(\theta))`."""

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of the alternation, from one start.

    Parameters
    ----------
    parameters
        The last ones; with "variational" and "gibbs" the posterior mean.
    posterior
        The distribution of the parameters, with "variational"; None otherwise.
    objective
        The log-likelihood plus the log prior, or the evidence lower bound.
    trace
        The objective of every turn.
    converged
        Whether it rose by at most the tolerance per datum at the end.
    status
        "converged", or why it ended otherwise.
    """

    parameters: Arrays
    posterior: Arrays | None
    objective: float
    trace: list[float] = field(default_factory=list)
    converged: bool = False
    status: str = ""

    @property
    def iterations(self) -> int:
        """How many turns were taken."""
        return len(self.trace)


@dataclass(frozen=True, eq=False)
class Learned:
    """What EM found: the best run, all runs, and with "gibbs" draws of the parameters from their posterior."""

    best: Run
    runs: list[Run]
    status: str
    draws: list[Arrays] = field(default_factory=list)

    @property
    def parameters(self) -> Arrays:
        """Those of the best run."""
        return self.best.parameters


def fit_em(
    model: LatentModel[Any],
    data: Any,
    *,
    fill: str = "expectation",
    start: str | Arrays = "auto",
    restarts: int = 1,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
) -> Learned:
    r"""Learn the parameters of a model with something hidden, by turns: infer it, then re-estimate.

    .. math::

        s \leftarrow E[s(x, z) \mid x, \theta], \qquad
        \theta \leftarrow \arg\max_\theta \log p(s \mid \theta) + \log p(\theta)

    With "expectation" every turn raises :math:`\log p(x \mid \theta) + \log p(\theta)`; a fall beyond rounding is a
    `TrainingError`, since only a mistake in the model can cause it.

    Parameters
    ----------
    model, data
        What is learned, from what.
    fill
        One of `FILLS`.
    start
        How each run starts, or parameters that a single run starts from.
    restarts
        Runs from different starts; the best is kept.
    tolerance
        Of the rise of the objective per datum.
    max_iterations
        Turns of each run.
    seed
        Of the starts and of what is sampled.
    advance
        Called with 1 after each turn, for a progress bar.

    Returns
    -------
    Learned
        A local maximum: the best of those that the starts led to.
    """
    choose("fill", FILLS, fill)
    if restarts < 1 or tolerance <= 0 or max_iterations < 1:
        raise InputError(
            f"restarts and max_iterations must be at least 1 and the tolerance positive, got {restarts}, "
            f"{max_iterations} and {tolerance}"
        )
    runs = []
    for generator in np.random.default_rng(seed).spawn(restarts):
        first = model.start(data, start, generator) if isinstance(start, str) else start
        runs.append(_run(model, data, first, fill, generator, tolerance, max_iterations, advance))
    best = max(runs, key=lambda run: -math.inf if math.isnan(run.objective) else run.objective)
    status = "converged"
    if not best.converged:
        status = f"not converged after {best.iterations:,} turns; raise max_iterations or the tolerance"
        warnings.warn(status, ConvergenceWarning, stacklevel=2)
    return Learned(best, runs, status)


def _run(
    model: Any,
    data: Any,
    parameters: Arrays,
    fill: str,
    generator: np.random.Generator,
    tolerance: float,
    max_iterations: int,
    advance: Callable[..., None] | None,
) -> Run:
    """Take turns from one start."""
    trace: list[float] = []
    converged = False
    for _ in range(max_iterations):
        statistics = model.expected_statistics(data, parameters, Fill(fill, generator))
        objective = float(statistics["objective"]) + model.log_prior(parameters)
        if trace and fill == "expectation" and objective < trace[-1] - 1e-7 * (1 + abs(objective)):
            raise TrainingError(
                f"the objective fell from {trace[-1]:.10g} to {objective:.10g}, which EM cannot do; the model is wrong"
            )
        small = bool(trace) and abs(objective - trace[-1]) <= tolerance * float(statistics["count"])
        trace.append(objective)
        if advance is not None:
            advance(1)
        if small:
            converged = True
            break
        parameters = model.maximize(statistics, parameters)
    return Run(parameters, None, trace[-1], trace, converged)
