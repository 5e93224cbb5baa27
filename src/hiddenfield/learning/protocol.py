"""What can be learned, as the drivers of this folder see it: parameters, an objective or statistics, data, a score.

Three drivers move parameters, and each asks for one small protocol. `maximise` climbs an `Objective` by its gradient.
`alternate` takes turns on an `Alternating` model: expected statistics given the parameters, then the parameters that
are best for these statistics; EM and its relatives are such models, and so are Newton steps on sampled statistics.
`train` fits a network to structures in batches, for whatever a `Supervised` task scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from hiddenfield.data.structures import Structures
from hiddenfield.shapes import Array, Float, Tensor

Data = TypeVar("Data", contravariant=True)
Parameters = TypeVar("Parameters")
Statistics = TypeVar("Statistics")


@runtime_checkable
class Objective(Protocol):
    """A function of a vector of parameters, with its gradient; the data are its own."""

    def batch(
        self, rows: Float[Array, "points parameters"]
    ) -> tuple[Float[Array, " points"], Float[Array, "points parameters"]]:
        """Return the values and gradients at several points at once."""


@runtime_checkable
class Alternating(Protocol[Data, Parameters, Statistics]):
    """A model learned by turns: what the data and the parameters say of the statistics, and what these say back.

    Statistics of parts of the data add up, so that a driver may collect them part by part.
    """

    def expected_statistics(self, data: Data, parameters: Parameters) -> Statistics:
        """Return the expectation of the sufficient statistics given the data (the E step)."""

    def maximize(self, statistics: Statistics, parameters: Parameters) -> Parameters:
        """Return the next parameters: those most likely for the statistics, or a step towards them (the M step)."""

    def score(self, statistics: Statistics) -> float:
        """Return the objective at the parameters that the statistics were computed with; NaN where it is unknown."""

    def residual(self, statistics: Statistics) -> float:
        """Return how far these parameters are from a stationary point; NaN where it cannot go on from here."""


@runtime_checkable
class Supervised(Protocol):
    """What is predicted and how predictions are scored, for `train`."""

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

    def score(
        self, outputs: Float[Tensor, "structures outputs"], standardized: Float[Tensor, "structures targets"]
    ) -> Float[Tensor, ""]:
        """Return the objective, the sum of the losses over the sum of the weights."""

    def metrics(
        self, outputs: Float[Tensor, "structures outputs"], targets: Float[Tensor, "structures targets"]
    ) -> dict[str, float]:
        """Return the metrics by name; every name can be monitored."""

    def as_dict(self) -> Mapping[str, Any]:
        """Return plain values that identify the task in a checkpoint."""
