r"""The parameters of `ColumnFamilies` as a part of a mixture, with their conjugate distributions.

These are Dirichlet, normal-gamma and gamma ones, each given by sums of features, those of the prior being as many rows
as its strength says, alike to the whole table: a Dirichlet distribution with exponents :math:`s_l`, of precision and
mean :math:`\tau^{(n-1)/2} e^{-\tau (s_2 - 2 \mu s_1 + n \mu^2) / 2}`, of rates :math:`\lambda^{s} e^{-n \lambda}`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays
from hiddenfield.models import dirichlet
from hiddenfield.models.column_families import ColumnFamilies
from hiddenfield.models.dirichlet import log_ratios, with_ratios
from hiddenfield.shapes import Array, Float, Int

NUMBERS = ("means", "variances", "rates")


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


@dataclass(frozen=True, eq=False)
class ColumnPrior:
    r"""Families and a prior: as if every class had seen some rows like the whole table.

    Parameters
    ----------
    families
        Of the columns.
    smoothing
        How many rows, :math:`\log p(\theta) = s \sum_k \bar T \cdot \eta_k`. With 0 there is no prior.
    """

    families: ColumnFamilies
    smoothing: float

    @property
    def prior(self) -> Float[Array, "features 1"]:
        """The features of these rows."""
        return self.smoothing * self.families.profile[:, None]

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the most likely parameters for what each class and the prior hold."""
        return self.families.estimates(statistics["sums"] + self.prior)

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters."""
        if not self.smoothing:
            return 0.0
        return self.smoothing * float((self.families.profile @ self.families.natural(parameters)).sum())

    # -- free coordinates ----------------------------------------------------------------------------------

    def _owner(self, probabilities: Float[Array, "levels classes"]) -> Int[Array, " entries"]:
        """Return which probabilities sum to 1 together."""
        own = self.families.owner[:, None] * probabilities.shape[1] + np.arange(probabilities.shape[1])
        return np.unique(own, return_inverse=True)[1].reshape(-1)

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return means, other logarithms, and log ratios of probabilities to the first of their column."""
        found = [np.zeros(0)]
        for name in NUMBERS:
            if name in parameters:
                values = parameters[name].ravel()
                found.append(values if name == "means" else np.log(np.maximum(values, dirichlet.LEAST)))
        if "probabilities" in parameters:
            values = parameters["probabilities"]
            found.append(log_ratios(values.ravel(), self._owner(values)))
        return np.concatenate(found)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates; probabilities of 0 stay 0."""
        found: Arrays = {}
        for name in NUMBERS:
            if name in parameters:
                part, vector = np.split(vector, [parameters[name].size])
                found[name] = (part if name == "means" else np.exp(part)).reshape(parameters[name].shape)
        if "probabilities" in parameters:
            values = parameters["probabilities"]
            found["probabilities"] = with_ratios(vector, values.ravel(), self._owner(values)).reshape(
                values.shape
            )
        return found

    # -- Bayes ---------------------------------------------------------------------------------------------

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the features of prior and rows together."""
        if self.smoothing <= 0:
            raise InputError(
                "variational Bayes and Gibbs sampling need a proper prior: smoothing must be above 0"
            )
        return {"sums": statistics["sums"] + self.prior}

    def plug_in(self, posterior: Arrays) -> Arrays:
        r"""Return parameters, not normalised, with :math:`\eta = E_q[\eta]`."""
        from scipy.special import digamma

        families, sums = self.families, posterior["sums"]
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

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        families, sums = self.families, posterior["sums"]
        prior, value = np.broadcast_to(self.prior, sums.shape), 0.0
        for j in families.discrete:
            block = families.blocks[j]
            value += dirichlet.divergence(sums[block].T + 1, prior[block].T + 1)
        if len(families.starts("continuous")):
            rows, mean, shape, rate = _normal_gamma(families, sums)
            rows0, mean0, shape0, rate0 = _normal_gamma(families, prior)
            value += _gamma_divergence(shape, rate, shape0, rate0)
            ratio = rows0 / rows
            value += float(
                0.5 * (ratio - 1 - np.log(ratio) + rows0 * (mean - mean0) ** 2 * shape / rate).sum()
            )
        if len(families.starts("count")):
            value += _gamma_divergence(*_shapes(families, sums), *_shapes(families, prior))
        return value

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        families, sums = self.families, posterior["sums"]
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

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters; of a variance that has none, one over the mean precision."""
        families, sums = self.families, posterior["sums"]
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
