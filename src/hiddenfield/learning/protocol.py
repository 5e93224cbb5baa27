"""What can be learned, as the drivers of this folder see it: parameters, an objective or statistics, data, a score.

Three drivers move parameters, and each asks for one small protocol. `maximise` climbs an `Objective` by its gradient.
`alternate` takes turns on an `Alternating` model: expected statistics given the parameters, then the parameters that
are best for these statistics. Newton steps on sampled statistics are such a model, and `fit_em` makes one of any
`LatentModel`, whose parameters and statistics are arrays by name, so that statistics of parts of the data add up.
`train` fits a network to structures in batches, for whatever a `Supervised` task scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.shapes import Array, Float, Tensor

Data = TypeVar("Data", contravariant=True)
Parameters = TypeVar("Parameters")
Statistics = TypeVar("Statistics")

Arrays = dict[str, Array]
"""Parameters or statistics, by name."""


@runtime_checkable
class Objective(Protocol):
    """A function of a vector of parameters, with its gradient; the data are its own."""

    def batch(
        self, rows: Float[Array, "points parameters"]
    ) -> tuple[Float[Array, " points"], Float[Array, "points parameters"]]:
        """Return the values and gradients at several points at once."""


@runtime_checkable
class Alternating(Protocol[Data, Parameters, Statistics]):
    """A model learned by turns: what the data and the parameters say of the statistics, and what these say back."""

    def expected_statistics(self, data: Data, parameters: Parameters) -> Statistics:
        """Return the expectation of the sufficient statistics given the data (the E step)."""

    def maximize(self, statistics: Statistics, parameters: Parameters) -> Parameters:
        """Return the next parameters: those most likely for the statistics, or a step towards them (the M step)."""

    def score(self, statistics: Statistics) -> float:
        """Return the objective at the parameters that the statistics were computed with; NaN where it is unknown."""

    def residual(self, statistics: Statistics) -> float:
        """Return how far these parameters are from a stationary point; NaN where it cannot go on from here."""


@dataclass(frozen=True)
class Fill:
    """How the E step fills in what is hidden: "expectation", "mode" or "sample" (with a generator)."""

    kind: str = "expectation"
    generator: np.random.Generator | None = None


@runtime_checkable
class Estimated(Protocol):
    """Parameters that are best for statistics and a prior, and that have free coordinates."""

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the parameters that are best for the statistics and the prior (the M step)."""

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters, up to a constant; 0 without a prior."""

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope, in free coordinates, of the log-likelihood of the filled data and the log prior.

        With statistics that were expected at these parameters it is the slope of the objective (Fisher's identity).
        """

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return the parameters in free coordinates (log ratios, Cholesky factors), one per degree of freedom."""

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates; `parameters` give what has none (fixed values, zeros)."""


@runtime_checkable
class LatentModel(Estimated, Protocol[Data]):
    r"""A model with something hidden, as EM sees it.

    Statistics are sums over the data. They have two entries of that name in every model: ``"objective"``, the
    log-likelihood :math:`\sum_n w_n \log p(x_n \mid \theta)` (with "mode" and "sample" that of the data as filled
    in), and ``"count"``, :math:`\sum_n w_n`.
    """

    def start(self, data: Data, how: str, generator: np.random.Generator) -> Arrays:
        """Return parameters to start from: "k_means", "random", or what else the model offers; "auto" is its choice."""

    def expected_statistics(self, data: Data, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the sufficient statistics with what is hidden filled in, summed over the data (the E step)."""


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


@runtime_checkable
class Supervised(Protocol):
    """What is predicted and how predictions are scored, for `train`."""

    @property
    def of_nodes(self) -> bool:
        """Whether labels of nodes are learned, which batches then keep."""

    @property
    def kind(self) -> str:
        """What tasks whose networks are trained side by side must have in common."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of what `metrics` returns; each can be monitored."""

    def check(self, structures: Structures, what: str) -> None:
        """Raise an `InputError` that begins with `what` where the structures have no targets for this task."""

    def standardize(
        self, targets: Float[Tensor, "structures targets"]
    ) -> Float[Tensor, "structures targets"]:
        """Return the targets as `entries` takes them."""

    def entries(
        self, outputs: Float[Tensor, "structures outputs"], standardized: Float[Tensor, "structures targets"]
    ) -> tuple[Float[Tensor, " structures"], Float[Tensor, " structures"]]:
        """Return for every structure its loss, summed over targets, and its weight; the objective is their ratio."""

    def metrics(
        self, outputs: Float[Tensor, "structures outputs"], targets: Float[Tensor, "structures targets"]
    ) -> dict[str, float]:
        """Return the metrics by name; every name can be monitored."""

    def as_dict(self) -> Mapping[str, Any]:
        """Return plain values that identify the task in a checkpoint."""


def weighted_entries(
    task: Supervised,
    outputs: Float[Tensor, "structures outputs"],
    standardized: Float[Tensor, "structures targets"],
    factors: Float[Tensor, " structures"] | None = None,
) -> tuple[Float[Tensor, " structures"], Float[Tensor, " structures"]]:
    """Return the task's entries, each times the factor of its structure."""
    losses, weights = task.entries(outputs, standardized)
    if factors is None:
        return losses, weights
    return losses * factors.to(losses.dtype), weights * factors.to(weights.dtype)


def objective(
    task: Supervised,
    outputs: Float[Tensor, "structures outputs"],
    standardized: Float[Tensor, "structures targets"],
    factors: Float[Tensor, " structures"] | None = None,
) -> Float[Tensor, ""]:
    """Return what training makes small: the sum of the losses over the sum of the weights, 0 if nothing counts."""
    losses, weights = weighted_entries(task, outputs, standardized, factors)
    return losses.sum() / weights.sum().clamp(min=1e-12)
