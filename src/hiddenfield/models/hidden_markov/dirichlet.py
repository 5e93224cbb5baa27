"""Rows of probabilities, some of which are zero for good: estimates, Dirichlet distributions, free coordinates."""

from __future__ import annotations

import numpy as np

from hiddenfield.models.log_ratios import log_ratios, with_ratios
from hiddenfield.shapes import Array, Bool, Float

NEGLIGIBLE = 1e-100
"""Probabilities that EM drives below this are set to 0."""


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


def divergence(found: Float[Array, "rows columns"], concentration: float) -> float:
    """Return the Kullback-Leibler divergence from the prior, summed over rows."""
    from scipy.special import digamma, gammaln

    there = found > 0
    safe = np.where(there, found, 1.0)
    number, total = there.sum(1), found.sum(1)
    prior = gammaln(concentration * number) - number * gammaln(concentration)
    own = gammaln(total) - np.where(there, gammaln(safe), 0).sum(1)
    excess = np.where(there, (safe - concentration) * (digamma(safe) - digamma(total)[:, None]), 0).sum(1)
    return float((own - prior + excess).sum())


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
