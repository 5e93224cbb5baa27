r"""Distributions of the parameters of linear Gaussian models: normal and inverse gamma, conjugate given the factors.

With :math:`w_j = (b_j, \lambda_j)` of column j, and :math:`\psi_g` of the noise g that the column has,

.. math::

    w_j \mid \psi_g \sim N(m_j, \psi_g S_j), \qquad \psi_g \sim \operatorname{IG}(a_g, c_g).

The prior is weak: it counts as a hundredth of a row for the coefficients, and as two rows with half of the column's
variance for the noise. It is the same for all rotations of the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from hiddenfield.learning.protocol import Arrays
from hiddenfield.shapes import Array, Bool, Float, Int

PRECISION, SHAPE, SHARE = 0.01, 1.0, 0.5


@dataclass(frozen=True, eq=False)
class FactorPrior:
    """The weak prior, and what follows from it.

    Parameters
    ----------
    allowed
        Which coefficients each column has, that of the constant first.
    tied
        The number of the noise of each column.
    spread
        Standard deviations of the columns.
    """

    allowed: Bool[Array, "columns coefficients"]
    tied: Int[Array, " columns"]
    spread: Float[Array, " columns"]

    @property
    def scale(self) -> Float[Array, " noises"]:
        """Of the inverse gamma distributions."""
        return SHAPE * SHARE * np.bincount(self.tied, self.spread**2) / np.bincount(self.tied)

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return mean, precision, shape and scale given second moments; coefficients that are not allowed stay 0."""
        both = self.allowed[:, :, None] & self.allowed[:, None, :]
        precision = statistics["gram"] * both + PRECISION * np.eye(self.allowed.shape[1])
        cross = statistics["cross"] * self.allowed
        mean = np.linalg.solve(precision, cross[:, :, None])[:, :, 0]
        left = np.maximum(statistics["square"] - (cross * mean).sum(axis=1), 0.0)
        shape = SHAPE + np.bincount(self.tied, statistics["seen"]) / 2
        return {
            "mean": mean,
            "precision": precision,
            "shape": shape,
            "scale": self.scale + np.bincount(self.tied, left) / 2,
        }

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters for the E step, with what their uncertainty adds to the quadratic form of the factors."""
        spread = np.linalg.inv(posterior["precision"]) * (self.allowed[:, :, None] & self.allowed[:, None, :])
        log_noise = np.log(posterior["scale"]) - digamma(posterior["shape"])
        return self._parameters(posterior["mean"], posterior["scale"] / posterior["shape"]) | {
            "spread": spread,
            "log_noise": log_noise,
        }

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        mean, precision, shape, scale = (posterior[name] for name in ("mean", "precision", "shape", "scale"))
        size = mean.shape[1]
        spread = PRECISION * np.trace(np.linalg.inv(precision), axis1=1, axis2=2) - size
        volume = np.linalg.slogdet(precision)[1] - size * np.log(PRECISION)
        away = PRECISION * (mean**2).sum(axis=1) * (shape / scale)[self.tied]
        normal = 0.5 * (spread + volume + away).sum()
        gamma = (shape - SHAPE) * digamma(shape) - gammaln(shape) + gammaln(SHAPE)
        gamma += SHAPE * np.log(scale / self.scale) + shape * (self.scale - scale) / scale
        return float(normal + gamma.sum())

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        noise = posterior["scale"] / generator.gamma(posterior["shape"])
        normal = generator.standard_normal(posterior["mean"].shape)
        # With L L' the precision, the solution of L' w = z has its inverse for a covariance.
        roots = np.linalg.cholesky(posterior["precision"]).transpose(0, 2, 1)
        away = np.linalg.solve(roots, normal[:, :, None])[:, :, 0]
        return self._parameters(posterior["mean"] + np.sqrt(noise)[self.tied, None] * away, noise)

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the means of the parameters."""
        return self._parameters(
            posterior["mean"], posterior["scale"] / np.maximum(posterior["shape"] - 1, 0.5)
        )

    def _parameters(
        self, weights: Float[Array, "columns coefficients"], noise: Float[Array, " noises"]
    ) -> Arrays:
        weights = weights * self.allowed
        return {"intercept": weights[:, 0], "loadings": weights[:, 1:], "noise": noise}
