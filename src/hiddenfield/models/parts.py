"""Models whose parameters are learned part by part: weights, Gaussians, probabilities, each with its own prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hiddenfield.learning.protocol import Arrays, Conjugate, Estimated
from hiddenfield.shapes import Array, Float


@runtime_checkable
class Part(Estimated, Conjugate, Protocol):
    """Some of the parameters of a model, and what can be said of these alone."""


class Composed:
    """Base of models, and of larger parts, whose parameters are those of their `parts`; a subclass names these."""

    @property
    def parts(self) -> Sequence[Part]:
        """What the parameters belong to."""
        raise TypeError(f"{type(self).__name__} has no parts; a subclass of Composed names them")

    def _merged(self, name: str, *given: Any) -> Arrays:
        found: Arrays = {}
        for part in self.parts:
            found |= getattr(part, name)(*given)
        return found

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the parameters that are best for the statistics and the prior (the M step)."""
        return self._merged("maximize", statistics, parameters)

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters under the prior, up to a constant."""
        return float(sum(part.log_prior(parameters) for part in self.parts))

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of the log-likelihood of the filled data and the log prior, part after part."""
        return np.concatenate([part.gradient(statistics, parameters) for part in self.parts])

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return free coordinates, part after part."""
        return np.concatenate([part.as_vector(parameters) for part in self.parts])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        sizes = [len(part.as_vector(parameters)) for part in self.parts]
        found: Arrays = {}
        for part, own in zip(self.parts, np.split(vector, np.cumsum(sizes)[:-1]), strict=True):
            found |= part.from_vector(own, parameters)
        return found

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the distributions of the parameters given filled-in statistics."""
        return self._merged("posterior", statistics)

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters at which the E step computes the expected log joint; they need not be normalised."""
        return self._merged("plug_in", posterior)

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        return float(sum(part.divergence(posterior) for part in self.parts))

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        return self._merged("draw", posterior, generator)

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters."""
        return self._merged("mean", posterior)
