r"""Log-likelihoods of relational models: what all methods of learning have in common.

A log-likelihood of the weights :math:`\theta` given complete networks is
:math:`\ell(\theta) = \theta \cdot \sum_d s_d - \sum_d \log Z_d(\theta)`, with :math:`s_d` the observed counts; its
gradient is *observed minus expected counts*. Where part of a network is unknown, the first term becomes the log
partition of the field with the known part as evidence.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import RelationalScheme, given_attributes
from hiddenfield.learning.maximum_likelihood import Ascent, climb_ridge, confirm_maximum, maximise
from hiddenfield.models.relational.counts import count_features
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.observations import Network
from hiddenfield.registry import Registry, choose
from hiddenfield.shapes import Array, Float, Int


class Values(NamedTuple):
    """Log-likelihoods and their gradients at several settings of the weights, and the number of phases at each.

    No phase is where nothing settled; `phases` is None where the method does without.
    """

    log_likelihood: Float[Array, " settings"]
    gradient: Float[Array, "settings features"]
    phases: Int[Array, " settings"] | None = None


class Search(NamedTuple):
    """How an ascent looks for a maximum."""

    optimiser: str = "lbfgs"
    tolerance: float = 1e-5
    max_iterations: int = 200
    seed: int = 0


@dataclass(eq=False, kw_only=True)
class Likelihood(abc.ABC):
    """A log-likelihood of observed networks as a function of the weights, and how it is climbed.

    Parameters
    ----------
    scheme, networks
        The model, and one or several networks.
    bindings, weights
        See `hiddenfield.fields.relational.factor_kinds`; bindings matter to Bethe's approximation only.
    condition
        Whether the attributes of single entities are taken as given, or are modelled too; the latter by Bethe's
        approximation only.

    Attributes
    ----------
    quantity
        What `examine` gives the value of.
    sampled
        Whether values are unknown and gradients are noisy, so that there are no landscapes and one ascent is enough.
    observed
        Counts of the features, in the convention of the weights.
    diagnostics
        Of the chains at the end of the last ascent, where a method samples; None elsewhere.
    """

    quantity: ClassVar[str] = "log-likelihood"
    sampled: ClassVar[bool]
    scheme: RelationalScheme = field(kw_only=False)
    networks: Sequence[Network] = field(kw_only=False)
    bindings: str = "auto"
    weights: str = "ground"
    condition: bool = True
    observed: Float[Array, " features"] = field(init=False, repr=False)
    diagnostics: ChainDiagnostics | None = field(init=False, repr=False, default=None)

    @abc.abstractmethod
    def examine(self, theta: Float[Array, "settings features"]) -> Values:
        """Return log-likelihoods, gradients and numbers of phases at several settings at once."""

    @abc.abstractmethod
    def ascend(self, objective: Penalised, start: Float[Array, " free"], search: Search) -> Ascent:
        """Climb this likelihood, penalised and in its free weights, from a start."""

    def integrate(self, theta: Float[Array, " features"]) -> tuple[float, float]:
        """Return the log-likelihood and its standard error where `examine` does without; NaN where it stays unknown."""
        return math.nan, 0.0

    def require_complete(self, method: str) -> None:
        """Refuse networks with unknown values."""
        if not all(network.complete for network in self.networks):
            raise InputError(f"{method} needs complete networks; use method='bethe' where values are unknown")

    def require_condition(self, method: str) -> None:
        """Refuse to model the attributes of vertices together with the pairs."""
        if not self.condition and given_attributes(self.scheme):
            raise InputError(
                f"{method} takes the attributes of vertices as given; use method='bethe' where condition=False models "
                "them too"
            )


class SmoothLikelihood(Likelihood):
    """A likelihood whose value and gradient are known everywhere."""

    sampled = False

    def __call__(self, theta: Float[Array, " features"]) -> tuple[float, Float[Array, " features"]]:
        """Return the log-likelihood and its gradient."""
        value, gradient, _ = self.examine(theta[None])
        return float(value[0]), gradient[0]

    def ascend(self, objective: Penalised, start: Float[Array, " free"], search: Search) -> Ascent:
        """Climb by gradients, and confirm the maximum by Newton's method."""
        found = maximise(
            objective,
            start,
            optimiser=search.optimiser,
            tolerance=search.tolerance,
            max_iterations=search.max_iterations,
            scale=objective.units,
        )
        return confirm_maximum(objective, found, objective.names)

    def ascend_ridge(self, objective: Penalised, end: Ascent) -> Ascent:
        """Climb on along a ridge, from where gradients failed."""
        return confirm_maximum(objective, climb_ridge(objective, end), objective.names)


@dataclass(eq=False)
class Penalised:
    r"""A log-likelihood less :math:`\tfrac{\lambda}{2} \lVert\theta\rVert^2`, as a function of the free weights."""

    likelihood: Likelihood
    held: Mapping[int, float]
    free: list[int]
    ridge: float = 0.0

    @property
    def names(self) -> list[str]:
        """The features whose weights are free."""
        return [list(self.likelihood.scheme.features)[i] for i in self.free]

    @property
    def units(self) -> Float[Array, " free"]:
        """About a standard error of each free weight: one over the root of the feature's count."""
        return 1 / np.sqrt(np.maximum(np.abs(self.likelihood.observed[self.free]), 1.0))

    def full(self, rows: Float[Array, "settings free"]) -> Float[Array, "settings features"]:
        """Return all weights, the held ones too."""
        theta = np.zeros((len(rows), len(self.likelihood.scheme.features)))
        theta[:, self.free] = rows
        for place, value in self.held.items():
            theta[:, place] = value
        return theta

    def batch(self, rows: Float[Array, "settings free"]) -> tuple[Array, Array]:
        """Return values and gradients at several settings at once."""
        value, gradient, _ = self.likelihood.examine(self.full(rows))
        return value - self.ridge / 2 * (rows**2).sum(1), gradient[:, self.free] - self.ridge * rows


LIKELIHOODS: Registry[Callable[..., Likelihood]] = Registry(
    "method of learning", "hiddenfield.models.relational.likelihoods"
)
"""The methods of learning by name; each takes (scheme, networks, bindings=, weights=)."""


def sum_counts(
    scheme: RelationalScheme, networks: Sequence[Network], weights: str
) -> Float[Array, " features"]:
    """Count the features over several complete networks."""
    counts = [count_features(scheme, network, weights=weights) for network in networks]
    return np.sum(counts, axis=0) if counts else np.zeros(len(scheme.features))


def as_list(networks: Network | Sequence[Network]) -> list[Network]:
    """Return one or several networks as a list."""
    return [networks] if isinstance(networks, Network) else list(networks)


def find_feature(scheme: RelationalScheme, name: str) -> int:
    """Return the place of a feature; an unknown one is an error that lists what the scheme has."""
    choose("feature", scheme.features, name)
    return list(scheme.features).index(name)


def check_weights(scheme: RelationalScheme, given: Mapping[str, Any] | None, what: str) -> dict[int, float]:
    """Return weights by the place of their feature; an unknown feature or what is no finite number is an error."""
    found = {}
    for name, value in (given or {}).items():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(f"{what} is a finite number, got {value!r} for {name!r}")
        found[find_feature(scheme, name)] = float(value)
    return found
