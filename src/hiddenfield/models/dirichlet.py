"""Rows of probabilities, some of which are zero for good: estimates, Dirichlet distributions, free coordinates.

The coordinates of probabilities that sum to 1 are logarithms of their ratios to the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.learning.protocol import Arrays
from hiddenfield.shapes import Array, Bool, Float, Int

NEGLIGIBLE = 1e-100
"""Probabilities that EM drives below this are set to 0."""

LEAST = 1e-300
"""Where logarithms of probabilities of 0 are taken, so that coordinates are finite."""


def most_likely(
    counts: Float[Array, "rows columns"],
    concentration: float,
    allowed: Bool[Array, "rows columns"],
    before: Float[Array, "rows columns"],
) -> Float[Array, "rows columns"]:
    """Return the probabilities that are best for the counts and a Dirichlet prior; rows without counts stay."""
    mass = np.where(allowed, np.maximum(counts + concentration - 1, 0), 0.0)
    total = mass.sum(1, keepdims=True)
    found = np.where(total > 0, mass / np.where(total > 0, total, 1), before)
    return np.where(found < NEGLIGIBLE, 0.0, found)


def log_density(
    probabilities: Float[Array, "rows columns"], concentration: float, allowed: Bool[Array, "rows columns"]
) -> float:
    """Return the log density under the prior, up to a constant."""
    if concentration == 1:
        return 0.0
    with np.errstate(divide="ignore"):
        return float((concentration - 1) * np.log(probabilities[allowed]).sum())


def expected_logs(concentrations: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    r"""Return :math:`\exp E[\log p]` of Dirichlet distributions; where a concentration is 0, so is p."""
    from scipy.special import digamma

    total = digamma(concentrations.sum(1, keepdims=True))
    found = np.zeros_like(concentrations)
    np.subtract(digamma(np.maximum(concentrations, 1e-300)), total, out=found, where=concentrations > 0)
    return np.where(concentrations > 0, np.exp(found), 0.0)


def divergence(found: Float[Array, "rows columns"], prior: float | Float[Array, "rows columns"]) -> float:
    """Return the Kullback-Leibler divergence from the prior, summed over rows."""
    from scipy.special import digamma, gammaln

    there = found > 0
    value, totals = 0.0, found.sum(1, keepdims=True)
    before = np.where(there, prior, 0.0)
    for sign, each in ((1, found), (-1, before)):
        value += sign * (gammaln(each.sum(1)).sum() - gammaln(each[there]).sum())
    excess = (found - before) * (digamma(np.where(there, found, 1.0)) - digamma(totals))
    return float(value + excess[there].sum())


def draw(
    concentrations: Float[Array, "rows columns"], generator: np.random.Generator
) -> Float[Array, "rows columns"]:
    """Draw every row."""
    found = np.zeros_like(concentrations)
    for row, values in zip(found, concentrations, strict=True):
        row[values > 0] = generator.dirichlet(values[values > 0])
    return found


def mean(concentrations: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Return the mean of every row."""
    return concentrations / concentrations.sum(1, keepdims=True)


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
    """One array of parameters that are probabilities, rows of which sum to 1: a `Part`, with one Dirichlet prior.

    Parameters
    ----------
    key
        The name of the parameters.
    concentration
        Of the prior; 1 for none.
    allowed
        Which probabilities there are, in the shape of the array; the others are 0 for good.
    counted
        The name of the statistics, where it is another.
    """

    key: str
    concentration: float
    allowed: Bool[Array, "*shape"]
    counted: str = ""

    def _rows(self, values: Array) -> Array:
        return np.atleast_2d(np.reshape(values, self.allowed.shape))

    def _named(self, rows: Array) -> Arrays:
        return {self.key: rows.reshape(self.allowed.shape)}

    @property
    def _allowed(self) -> Bool[Array, "rows columns"]:
        return np.atleast_2d(self.allowed)

    def _counts(self, statistics: Arrays) -> Float[Array, "rows columns"]:
        return self._rows(statistics[self.counted or self.key])

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the most likely probabilities."""
        counts, before = self._counts(statistics), self._rows(parameters[self.key])
        return self._named(most_likely(counts, self.concentration, self._allowed, before))

    def log_prior(self, parameters: Arrays) -> float:
        """Return their log density."""
        return log_density(self._rows(parameters[self.key]), self.concentration, self._allowed)

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios."""
        return as_ratios(self._rows(parameters[self.key]), self._allowed)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the probabilities with these log ratios."""
        return self._named(from_ratios(vector, self._rows(parameters[self.key]), self._allowed))

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the exponents of Dirichlet distributions."""
        return self._named((self._counts(statistics) + self.concentration) * self._allowed)

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return geometric means, which do not sum to 1."""
        return self._named(expected_logs(self._rows(posterior[self.key])))

    def divergence(self, posterior: Arrays) -> float:
        """Return the divergence from the prior."""
        return divergence(self._rows(posterior[self.key]), self.concentration)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw probabilities."""
        return self._named(draw(self._rows(posterior[self.key]), generator))

    def mean(self, posterior: Arrays) -> Arrays:
        """Return their means."""
        return self._named(mean(self._rows(posterior[self.key])))
