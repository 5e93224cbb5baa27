r"""Conjugate distributions of the parameters of `ColumnFamilies`: Dirichlet, normal-gamma and gamma ones.

Each is given by sums of features, those of the prior being as many rows as its strength says, alike to the whole table:
a Dirichlet distribution with exponents :math:`s_l`, of precision and mean
:math:`\tau^{(n-1)/2} e^{-\tau (s_2 - 2 \mu s_1 + n \mu^2) / 2}`, of rates :math:`\lambda^{s} e^{-n \lambda}`.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.learning.em import Arrays
from hiddenfield.models.column_families import ColumnFamilies
from hiddenfield.shapes import Array, Float


def dirichlet_divergence(
    found: Float[Array, "levels classes"], prior: Float[Array, "levels classes"]
) -> float:
    """Return the Kullback-Leibler divergence of Dirichlet distributions, one for each class, summed."""
    from scipy.special import digamma, gammaln

    total = found.sum(axis=0)
    value = (
        gammaln(total) - gammaln(found).sum(axis=0) - gammaln(prior.sum(axis=0)) + gammaln(prior).sum(axis=0)
    )
    return float((value + ((found - prior) * (digamma(found) - digamma(total))).sum(axis=0)).sum())


def _gamma_divergence(shape: Array, rate: Array, shape0: Array, rate0: Array) -> float:
    from scipy.special import digamma, gammaln

    value = (shape - shape0) * digamma(shape) - gammaln(shape) + gammaln(shape0)
    return float((value + shape0 * (np.log(rate) - np.log(rate0)) + shape * (rate0 - rate) / rate).sum())


def _normal_gamma(families: ColumnFamilies, sums: Array) -> tuple[Array, Array, Array, Array]:
    """Return rows, mean, shape and rate of the standardised numbers."""
    at = families.starts("continuous")
    rows = sums[at]
    mean = sums[at + 1] / rows
    return rows, mean, (rows + 1) / 2, (sums[at + 2] - rows * mean**2) / 2


def _shapes(families: ColumnFamilies, sums: Array) -> tuple[Array, Array]:
    """Return shape and rate of the rates of counts."""
    at = families.starts("count")
    return sums[at + 1] + 1, sums[at]


def _numbers(families: ColumnFamilies, means: Array, variances: Array) -> Arrays:
    """Return means and variances in the columns' own units."""
    own = families.of_kind("continuous")
    centre, spread = families.centre[own, None], families.spread[own, None]
    return {"means": centre + spread * means, "variances": spread**2 * variances}


def plug_in(families: ColumnFamilies, sums: Float[Array, "features classes"]) -> Arrays:
    r"""Return parameters, not normalised, with :math:`\eta = E_q[\eta]`."""
    from scipy.special import digamma

    found: Arrays = {}
    if families.discrete:
        exponents = sums[families.states] + 1
        found["probabilities"] = np.exp(digamma(exponents) - digamma(families.per_column(exponents)))
    if len(families.starts("continuous")):
        rows, mean, shape, rate = _normal_gamma(families, sums)
        found |= _numbers(families, mean, rate / shape)
        found["mean_offsets"] = 0.5 * (digamma(shape) - np.log(shape) - 1 / rows)
    if len(families.starts("count")):
        shape, rate = _shapes(families, sums)
        found["rates"] = np.exp(digamma(shape)) / rate
        found["rate_offsets"] = found["rates"] - shape / rate
    return found


def divergence(
    families: ColumnFamilies, sums: Float[Array, "features classes"], prior: Float[Array, "features classes"]
) -> float:
    """Return the Kullback-Leibler divergence from the prior."""
    value = 0.0
    for j in families.discrete:
        block = families.blocks[j]
        value += dirichlet_divergence(sums[block] + 1, prior[block] + 1)
    if len(families.starts("continuous")):
        rows, mean, shape, rate = _normal_gamma(families, sums)
        rows0, mean0, shape0, rate0 = _normal_gamma(families, prior)
        value += _gamma_divergence(shape, rate, shape0, rate0)
        ratio = rows0 / rows
        value += float(0.5 * (ratio - 1 - np.log(ratio) + rows0 * (mean - mean0) ** 2 * shape / rate).sum())
    if len(families.starts("count")):
        value += _gamma_divergence(*_shapes(families, sums), *_shapes(families, prior))
    return value


def draw(
    families: ColumnFamilies, sums: Float[Array, "features classes"], generator: np.random.Generator
) -> Arrays:
    """Draw parameters."""
    found: Arrays = {}
    if families.discrete:
        drawn = generator.standard_gamma(sums[families.states] + 1)
        found["probabilities"] = drawn / families.per_column(drawn)
    if len(families.starts("continuous")):
        rows, mean, shape, rate = _normal_gamma(families, sums)
        variances = rate / generator.standard_gamma(shape)
        means = mean + np.sqrt(variances / rows) * generator.standard_normal(mean.shape)
        found |= _numbers(families, means, variances)
    if len(families.starts("count")):
        shape, rate = _shapes(families, sums)
        found["rates"] = generator.standard_gamma(shape) / rate
    return found


def mean(families: ColumnFamilies, sums: Float[Array, "features classes"]) -> Arrays:
    """Return the mean of the parameters; of a variance that has none, one over the mean precision."""
    found: Arrays = {}
    if families.discrete:
        exponents = sums[families.states] + 1
        found["probabilities"] = exponents / families.per_column(exponents)
    if len(families.starts("continuous")):
        _, centre, shape, rate = _normal_gamma(families, sums)
        found |= _numbers(families, centre, rate / np.where(shape > 1, shape - 1, shape))
    if len(families.starts("count")):
        shape, rate = _shapes(families, sums)
        found["rates"] = shape / rate
    return found
