"""Probabilities that sum to 1 in groups, some of them 0 for good: estimates, Dirichlet distributions, free coordinates.

The coordinates of probabilities that sum to 1 are logarithms of their ratios to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.learning.protocol import Arrays
from hiddenfield.shapes import Array, Bool, Float, Int

NEGLIGIBLE = 1e-100
"""Probabilities that EM drives below this are set to 0."""

LEAST = 1e-300
"""Where logarithms of probabilities of 0 are taken, so that coordinates are finite."""


def mean(concentrations: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Return the mean of Dirichlet distributions, one for each row."""
    return concentrations / concentrations.sum(1, keepdims=True)


def shares(
    mass: Float[Array, " entries"], owner: Int[Array, " entries"], before: Float[Array, " entries"]
) -> Float[Array, " entries"]:
    """Return each entry's share of its owner's mass; where an owner has none, entries stay as before."""
    total = np.bincount(owner, mass)[owner]
    found = np.where(total > 0, mass / np.where(total > 0, total, 1), before)
    return np.where(found < NEGLIGIBLE, 0.0, found)


def as_ratios(
    probabilities: Float[Array, "rows columns"], allowed: Bool[Array, "rows columns"]
) -> Float[Array, " free"]:
    """Return the free coordinates of allowed probabilities; see `log_ratios`."""
    return log_ratios(probabilities[allowed], np.nonzero(allowed)[0])


def from_ratios(
    ratios: Float[Array, " free"],
    probabilities: Float[Array, "rows columns"],
    allowed: Bool[Array, "rows columns"],
) -> Float[Array, "rows columns"]:
    """Return the probabilities at these coordinates; those that are 0 stay."""
    found = np.zeros_like(probabilities)
    found[allowed] = with_ratios(ratios, probabilities[allowed], np.nonzero(allowed)[0])
    return found


def free_ratios(owner: Int[Array, " entries"]) -> Bool[Array, " entries"]:
    """Return which entries are coordinates: all but the first of each owner."""
    free = np.ones(len(owner), np.bool_)
    free[np.unique(owner, return_index=True)[1]] = False
    return free


def log_ratios(values: Float[Array, " entries"], owner: Int[Array, " entries"]) -> Float[Array, " free"]:
    """Return the coordinates of probabilities; entries of one owner sum to 1.

    Examples
    --------
    >>> owner = np.array([0, 0, 1, 1, 1])
    >>> values = np.array([0.8, 0.2, 0.25, 0.25, 0.5])
    >>> log_ratios(values, owner).round(2), with_ratios(np.array([0.0, 0.0, 0.0]), values, owner).round(2)
    (array([-1.39,  0.  ,  0.69]), array([0.5 , 0.5 , 0.33, 0.33, 0.33]))
    """
    logs, (_, first, inverse) = (
        np.log(np.maximum(values, LEAST)),
        np.unique(owner, return_index=True, return_inverse=True),
    )
    return (logs - logs[first][inverse])[free_ratios(owner)]


def with_ratios(
    vector: Float[Array, " free"], values: Float[Array, " entries"], owner: Int[Array, " entries"]
) -> Float[Array, " entries"]:
    """Return the probabilities at other coordinates; those of 0 stay 0."""
    logs = np.zeros(len(values))
    logs[free_ratios(owner)] = vector
    logs[values <= 0] = -np.inf
    top = np.full(int(owner.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(top, owner, logs)
    odds = np.exp(logs - top[owner])
    return odds / np.bincount(owner, weights=odds)[owner]


@dataclass(frozen=True, eq=False)
class Probabilities:
    """One array of parameters that are probabilities, rows of which sum to 1: a `Part`, with Dirichlet priors.

    Parameters
    ----------
    key
        The name of the parameters.
    concentration
        Of the prior: 1 for none, or one number for each entry of a row, or of the array.
    allowed
        Which probabilities there are, in the shape of the array; the others are 0 for good.
    counted
        The name of the statistics, where it is another.
    owners
        Entries that have the same number sum to 1, where these are not rows.
    of_ratios
        Whether the prior is the density of log ratios rather than of probabilities: its mode is then the mean, and all
        concentrations above 0 are proper (MacKay 1998).
    """

    key: str
    concentration: float | Float[Array, ...]
    allowed: Bool[Array, "*shape"]
    counted: str = ""
    owners: Int[Array, " entries"] | None = None
    of_ratios: bool = False

    @cached_property
    def _owner(self) -> Int[Array, " entries"]:
        if self.owners is not None:
            return self.owners
        return np.nonzero(self.allowed.reshape(-1, self.allowed.shape[-1]))[0]

    @cached_property
    def _prior(self) -> Float[Array, " entries"]:
        return np.broadcast_to(np.asarray(self.concentration, float), self.allowed.shape)[self.allowed]

    @property
    def _pseudo(self) -> Float[Array, " entries"]:
        """What the prior adds to counts of the most likely probabilities."""
        return self._prior if self.of_ratios else self._prior - 1

    def _of(self, arrays: Arrays, name: str = "") -> Float[Array, " entries"]:
        return np.reshape(arrays[name or self.key], self.allowed.shape)[self.allowed]

    def _named(self, entries: Float[Array, " entries"]) -> Arrays:
        found = np.zeros(self.allowed.shape)
        found[self.allowed] = entries
        return {self.key: found}

    def _sums(self, entries: Float[Array, " entries"]) -> Float[Array, " entries"]:
        return np.bincount(self._owner, entries)[self._owner]

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the most likely probabilities; those without counts stay."""
        mass = np.maximum(self._of(statistics, self.counted) + self._pseudo, 0)
        return self._named(shares(mass, self._owner, self._of(parameters)))

    def log_prior(self, parameters: Arrays) -> float:
        """Return their log density, up to a constant."""
        there = self._pseudo != 0
        with np.errstate(divide="ignore"):
            return float(self._pseudo[there] @ np.log(self._of(parameters)[there]))

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return counts less those that the probabilities would have of as many."""
        counts = self._of(statistics, self.counted) + self._pseudo
        return (counts - self._sums(counts) * self._of(parameters))[free_ratios(self._owner)]

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios."""
        return log_ratios(self._of(parameters), self._owner)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the probabilities with these log ratios; those of 0 stay 0."""
        return self._named(with_ratios(vector, self._of(parameters), self._owner))

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the exponents of Dirichlet distributions."""
        if (self._prior <= 0).any():
            raise InputError("variational Bayes and Gibbs sampling need a prior: pseudo-counts above 0")
        return self._named(self._of(statistics, self.counted) + self._prior)

    def plug_in(self, posterior: Arrays) -> Arrays:
        r"""Return the geometric means :math:`\exp E[\log p]`, which do not sum to 1."""
        from scipy.special import digamma

        found = self._of(posterior)
        return self._named(np.exp(digamma(found) - digamma(self._sums(found))))

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        from scipy.special import digamma, gammaln

        found = self._of(posterior)
        value = (found - self._prior) @ (digamma(found) - digamma(self._sums(found)))
        for sign, each in ((1, found), (-1, self._prior)):
            value += sign * (gammaln(np.bincount(self._owner, each)).sum() - gammaln(each).sum())
        return float(value)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw probabilities."""
        drawn = np.maximum(generator.standard_gamma(self._of(posterior)), LEAST)
        return self._named(drawn / self._sums(drawn))

    def mean(self, posterior: Arrays) -> Arrays:
        """Return their means."""
        found = self._of(posterior)
        return self._named(found / self._sums(found))
