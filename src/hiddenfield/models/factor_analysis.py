r"""Linear Gaussian models with factors: factor analysis, probabilistic principal components and partial least squares.

They differ in which columns a factor may load on, and in which columns share their noise:

.. math::

    x = b + \Lambda z + \varepsilon, \qquad z \sim N(0, I), \qquad \varepsilon \sim N(0, \operatorname{diag} \psi).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from hiddenfield.errors import CollapseError, InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.factor_rows import FactorRows, Moments
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Bool, Float, Int

LOG_TWO_PI = float(np.log(2 * np.pi))

PRECISION, SHAPE, SHARE = 0.01, 1.0, 0.5
"""Of the prior: rows that it counts as for the coefficients, the shape of the noise's, the share that is noise."""


class FactorScores(NamedTuple):
    """What is known of the factors of each row: their means and standard deviations."""

    mean: Float[Array, "rows factors"]
    deviation: Float[Array, "rows factors"]


class Drawn(NamedTuple):
    """Rows that were drawn, and their factors."""

    values: Float[Array, "rows columns"]
    labels: Float[Array, "rows factors"]


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    r"""Columns that depend linearly on hidden factors, with Gaussian noise: what EM needs of it.

    Given the factors the columns are independent, so that only the factors are filled in: a hole takes no part in the
    regression of its column on them. With :math:`o` the observed columns of a row,

    .. math::

        z \mid x_o \sim N(M \Lambda_o^\top \Psi_o^{-1} (x_o - b_o),\ M), \qquad
        M = (I + \Lambda_o^\top \Psi_o^{-1} \Lambda_o)^{-1}.

    The M step regresses each column on the factors, and then rescales these to covariance one (PX-EM, Liu, Rubin and
    Wu 1998), which raises the likelihood further and takes far fewer turns.

    Parameters
    ----------
    allowed
        Which factors each column may load on. Factors with the same columns can be rotated into each other; those with
        more columns come first.
    tied
        The number of the noise that each column has; columns with the same number share its variance.
    floor
        The least variance of each noise.
    centre, spread
        Where each column lies, from which parameters and data are measured, and its standard deviation.

    Notes
    -----
    EM has no prior. `variational` and `gibbs` have a weak one, the same for all rotations of the factors: with
    :math:`w_j = (b_j, \lambda_j)` of column j, and :math:`\psi_g` of the noise g that the column has,

    .. math::

        w_j \mid \psi_g \sim N(m_j, \psi_g S_j), \qquad \psi_g \sim \operatorname{IG}(a_g, c_g),

    conjugate given the factors. It counts as a hundredth of a row for the coefficients, and as two rows with half of
    the column's variance for the noise.

    A turn costs :math:`O(P D K^2)` for P patterns of missingness in D columns and K factors, however many rows there
    are, as long as patterns repeat.

    References
    ----------
    Rubin and Thayer 1982, "EM algorithms for ML factor analysis"; Tipping and Bishop 1999, "Probabilistic principal
    component analysis".
    """

    allowed: Bool[Array, "columns factors"]
    tied: Int[Array, " columns"]
    floor: Float[Array, " noises"]
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]

    @property
    def num_factors(self) -> int:
        """How many hidden factors there are."""
        return self.allowed.shape[1]

    @property
    def coefficients(self) -> Bool[Array, "columns coefficients"]:
        """Which coefficients each column has, that of the constant first."""
        return np.column_stack([np.ones(len(self.allowed), bool), self.allowed])

    # -- the E step ----------------------------------------------------------------------------------------

    def start(self, data: FactorRows, how: str, generator: np.random.Generator) -> Arrays:
        """Return "principal" axes of the observed columns, jittered ("auto"), or "random" loadings."""
        choose("start", dict.fromkeys(("auto", "principal", "random")), how)
        size, factors = self.allowed.shape
        if how == "random":
            loadings = generator.standard_normal((size, factors)) / np.sqrt(factors)
        else:
            moments = data.moments
            scaled = moments.rows / self.spread
            together = moments.observed.T @ (moments.count[:, None] * moments.observed)
            values, vectors = np.linalg.eigh(scaled.T @ scaled / np.maximum(together, 1.0))
            loadings = (vectors * np.sqrt(np.maximum(values, 0.05)))[:, ::-1][:, :factors]
            loadings = loadings * generator.uniform(0.8, 1.2, loadings.shape)
        share = generator.uniform(0.3, 0.7, size)
        noise = self._tie(share * self.spread**2, np.ones(size))
        loadings = loadings * self.allowed * self.spread[:, None]
        return {"intercept": np.zeros(size), "loadings": loadings, "noise": np.maximum(noise, self.floor)}

    def conditional(
        self, data: Moments, parameters: Arrays
    ) -> tuple[Float[Array, "rows factors"], Float[Array, "patterns factors factors"], Float[Array, " rows"]]:
        r"""Return the means of the factors of each row, their covariance for each pattern, and the exponents.

        The exponents are :math:`-\frac{1}{2}` times the squared Mahalanobis distance of what is observed of a row.
        """
        loadings, noise = parameters["loadings"], parameters["noise"][self.tied]
        ratio = loadings / noise[:, None]
        products = (loadings[:, :, None] * ratio[:, None, :]).reshape(len(loadings), -1)
        residual = self._residual(data, parameters)
        pull, square = residual @ ratio, (residual**2 / noise).sum(axis=1)
        if "spread" in parameters:  # the uncertainty of the parameters, in variational Bayes
            spread = parameters["spread"]
            products = products + spread[:, 1:, 1:].reshape(len(spread), -1)
            pull = pull - data.unit[:, None] * (data.observed @ spread[:, 0, 1:])[data.pattern]
            square = square + data.unit**2 * (data.observed @ spread[:, 0, 0])[data.pattern]
        shape = (-1, self.num_factors, self.num_factors)
        covariance = np.linalg.inv(np.eye(self.num_factors) + (data.observed @ products).reshape(shape))
        mean = (covariance[data.pattern] @ pull[:, :, None])[:, :, 0]
        return mean, covariance, -0.5 * (square - (pull * mean).sum(axis=1))

    def log_normalisers(
        self, data: Moments, covariance: Float[Array, "patterns factors factors"], parameters: Arrays
    ) -> Float[Array, " patterns"]:
        """Return what the log density of a row adds to its exponent, for each pattern."""
        log_noise = parameters.get("log_noise", np.log(parameters["noise"]))[self.tied] + LOG_TWO_PI
        return -0.5 * (data.observed @ log_noise - np.linalg.slogdet(covariance)[1])

    def expected_statistics(self, data: FactorRows, parameters: Arrays, fill: Fill) -> Arrays:
        """Return, for each column, the second moments of factors and column over the rows that have it."""
        if fill.kind not in ("expectation", "sample"):
            raise InputError(
                f"factors cannot be filled in by fill={fill.kind!r}: the likelihood of the filled data has no maximum; "
                "choose expectation or sample"
            )
        moments = data.moments if fill.kind == "expectation" else data.weighted
        parts = [self._statistics(part, parameters, fill) for part in moments.blocks(self.num_factors)]
        return {name: np.asarray(sum(part[name] for part in parts)) for name in parts[0]}

    def _statistics(self, data: Moments, parameters: Arrays, fill: Fill) -> Arrays:
        mean, covariance, exponents = self.conditional(data, parameters)
        normalisers = self.log_normalisers(data, covariance, parameters)
        objective = float(exponents.sum() + data.count @ normalisers)
        factors = self.num_factors
        if fill.kind == "sample":
            assert fill.generator is not None
            roots = np.linalg.cholesky(covariance)[data.pattern] * data.unit[:, None, None]
            mean = mean + _rotated(roots, fill.generator)
            objective = self._filled_likelihood(data, mean, parameters)
            covariance = np.zeros_like(covariance)
        extended = np.column_stack([data.unit, mean])
        outer = (extended[:, :, None] * extended[:, None, :]).reshape(len(extended), -1)
        starts = np.searchsorted(data.pattern, np.arange(len(data.observed)))
        gram = np.add.reduceat(outer, starts, axis=0).reshape(-1, factors + 1, factors + 1)
        gram[:, 1:, 1:] += data.count[:, None, None] * covariance
        size = data.rows.shape[1]
        by_column = (data.observed.T @ gram.reshape(len(gram), -1)).reshape(size, factors + 1, factors + 1)
        return {
            "objective": np.array(objective),
            "count": np.array(data.count.sum()),
            "factors": gram.sum(axis=0),
            "gram": by_column,
            "cross": data.rows.T @ extended,
            "square": (data.rows**2).sum(axis=0),
            "seen": data.observed.T @ data.count,
        }

    def _residual(self, data: Moments, parameters: Arrays) -> Float[Array, "rows columns"]:
        centre = parameters["intercept"] * data.observed
        return data.rows - data.unit[:, None] * centre[data.pattern]

    def _filled_likelihood(
        self, data: Moments, factors: Float[Array, "rows factors"], parameters: Arrays
    ) -> float:
        noise = parameters["noise"][self.tied]
        error = (
            self._residual(data, parameters)
            - factors @ parameters["loadings"].T * data.observed[data.pattern]
        )
        constants = data.observed @ (np.log(noise) + LOG_TWO_PI) + self.num_factors * LOG_TWO_PI
        return float(-0.5 * (data.count @ constants + (error**2 / noise).sum() + (factors**2).sum()))

    # -- the M step ----------------------------------------------------------------------------------------

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Regress each column on the factors that it may load on, then bring these to mean 0 and covariance 1."""
        allowed = self.coefficients
        gram = statistics["gram"] * (allowed[:, :, None] & allowed[:, None, :])
        gram = gram + np.eye(allowed.shape[1]) * ~allowed[:, None, :]
        cross = statistics["cross"] * allowed
        moments = statistics["factors"] / statistics["count"]
        mean = moments[0, 1:]
        try:
            weights = np.linalg.solve(gram, cross[:, :, None])[:, :, 0]
            root = np.linalg.cholesky(moments[1:, 1:] - np.outer(mean, mean))
        except np.linalg.LinAlgError:
            raise CollapseError(
                f"{self.num_factors} factors drawn for so few rows that columns cannot be regressed on them; with "
                "fill='expectation' they can"
            ) from None
        fitted = (gram @ weights[:, :, None])[:, :, 0]
        squares = statistics["square"] + ((fitted - 2 * cross) * weights).sum(axis=1)
        noise = np.maximum(self._tie(squares, statistics["seen"]), self.floor)
        loadings = weights[:, 1:] * self.allowed
        turned = self.triangular(loadings @ root)  # so that parameters of different turns can be averaged
        return {"intercept": weights[:, 0] + loadings @ mean, "loadings": turned, "noise": noise}

    def _tie(
        self, squares: Float[Array, " columns"], counts: Float[Array, " columns"]
    ) -> Float[Array, " noises"]:
        return np.bincount(self.tied, squares) / np.bincount(self.tied, counts)

    def log_prior(self, parameters: Arrays) -> float:
        """Return 0: there is no prior, but the least variance of the noise."""
        return 0.0

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope in intercept, free loadings and the logarithms of the noise: that of regressions."""
        weights = np.column_stack([parameters["intercept"], parameters["loadings"]])
        noise = parameters["noise"][self.tied]
        fitted = (statistics["gram"] @ weights[:, :, None])[:, :, 0]
        squares = statistics["square"] + ((fitted - 2 * statistics["cross"]) * weights).sum(axis=1)
        slope = (statistics["cross"] - fitted) / noise[:, None]
        of_noise = np.bincount(self.tied, 0.5 * (squares / noise - statistics["seen"]))
        return np.concatenate([slope[:, 0], slope[:, 1:][self._free()], of_noise])

    # -- distributions of the parameters -------------------------------------------------------------------

    @property
    def _scale(self) -> Float[Array, " noises"]:
        """Of the prior's inverse gamma distributions."""
        return SHAPE * SHARE * np.bincount(self.tied, self.spread**2) / np.bincount(self.tied)

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return mean, precision, shape and scale given second moments; coefficients that are not allowed stay 0."""
        allowed = self.coefficients
        both = allowed[:, :, None] & allowed[:, None, :]
        precision = statistics["gram"] * both + PRECISION * np.eye(allowed.shape[1])
        cross = statistics["cross"] * allowed
        mean = np.linalg.solve(precision, cross[:, :, None])[:, :, 0]
        left = np.maximum(statistics["square"] - (cross * mean).sum(axis=1), 0.0)
        shape = SHAPE + np.bincount(self.tied, statistics["seen"]) / 2
        return {
            "mean": mean,
            "precision": precision,
            "shape": shape,
            "scale": self._scale + np.bincount(self.tied, left) / 2,
        }

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters for the E step, with what their uncertainty adds to the quadratic form of the factors."""
        allowed = self.coefficients
        spread = np.linalg.inv(posterior["precision"]) * (allowed[:, :, None] & allowed[:, None, :])
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
        gamma += SHAPE * np.log(scale / self._scale) + shape * (self._scale - scale) / scale
        return float(normal + gamma.sum())

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters; loadings are turned alike, so that draws can be averaged."""
        drawn = self._draw(posterior, generator)
        return drawn | {"loadings": self.triangular(drawn["loadings"])}

    def _draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
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
        weights = weights * self.coefficients
        return {"intercept": weights[:, 0], "loadings": weights[:, 1:], "noise": noise}

    # -- rows ----------------------------------------------------------------------------------------------

    def log_likelihood(self, data: FactorRows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log density of what each row has; 0 where it has nothing."""
        found = []
        for part in data.by_pattern().blocks(self.num_factors):
            _, covariance, exponents = self.conditional(part, parameters)
            found.append(exponents + self.log_normalisers(part, covariance, parameters)[part.pattern])
        return _unsorted(data, np.concatenate(found))

    def distances(self, data: FactorRows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the squared Mahalanobis distance of each row from the mean, by what it has."""
        parts = data.by_pattern().blocks(self.num_factors)
        return _unsorted(data, np.concatenate([-2 * self.conditional(part, parameters)[2] for part in parts]))

    def infer(
        self, data: FactorRows, parameters: Arrays, onto: Float[Array, "factors axes"] | None = None
    ) -> FactorScores:
        """Return means and standard deviations of the factors of each row, or of these times a matrix `onto`."""
        onto = np.eye(self.num_factors) if onto is None else onto
        means, deviations = [], []
        for part in data.by_pattern().blocks(self.num_factors):
            mean, covariance, _ = self.conditional(part, parameters)
            means.append(mean @ onto)
            variances = ((covariance @ onto) * onto).sum(axis=1)
            deviations.append(np.sqrt(variances)[part.pattern])
        return FactorScores(
            _unsorted(data, np.concatenate(means)), _unsorted(data, np.concatenate(deviations))
        )

    def variances(self, data: FactorRows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the variance of each column given what a row has, as if the column itself were missing or new."""
        spread = self.infer(data, parameters, parameters["loadings"].T).deviation
        return spread**2 + parameters["noise"][self.tied]

    def expected(
        self, scores: Float[Array, "rows factors"], parameters: Arrays
    ) -> Float[Array, "rows columns"]:
        """Return what the factors say of every column."""
        return self.centre + parameters["intercept"] + scores @ parameters["loadings"].T

    def impute(self, data: FactorRows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the rows, their holes filled with what is expected given the rest."""
        expected = self.expected(self.infer(data, parameters).mean, parameters)
        return np.where(data.missing, expected, data.values)

    def sample_missing(
        self, data: FactorRows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the rows, their holes filled with a draw given the rest."""
        drawn = []
        for part in data.by_pattern().blocks(self.num_factors):
            mean, covariance, _ = self.conditional(part, parameters)
            drawn.append(mean + _rotated(np.linalg.cholesky(covariance)[part.pattern], generator))
        values = self._noisy(_unsorted(data, np.concatenate(drawn)), parameters, generator)
        return np.where(data.missing, values, data.values)

    def sample(self, count: int, parameters: Arrays, generator: np.random.Generator) -> Drawn:
        """Draw complete rows, with their factors."""
        factors = generator.standard_normal((count, self.num_factors))
        return Drawn(self._noisy(factors, parameters, generator), factors)

    def _noisy(
        self, factors: Float[Array, "rows factors"], parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        expected = self.expected(factors, parameters)
        return expected + generator.standard_normal(expected.shape) * np.sqrt(parameters["noise"][self.tied])

    # -- free coordinates ----------------------------------------------------------------------------------

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return intercept, loadings that are turned into a lower triangle, and the logarithms of the noise."""
        turned = self.triangular(parameters["loadings"])
        return np.concatenate([parameters["intercept"], turned[self._free()], np.log(parameters["noise"])])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        free, size = self._free(), len(self.allowed)
        loadings = np.zeros(self.allowed.shape)
        loadings[free] = vector[size : size + free.sum()]
        noise = np.maximum(np.exp(vector[size + free.sum() :]), self.floor)
        return {"intercept": vector[:size].copy(), "loadings": loadings, "noise": noise}

    def triangular(self, loadings: Float[Array, "columns factors"]) -> Float[Array, "columns factors"]:
        """Rotate factors that load on the same columns, so that of these the first loads on the first factor alone."""
        turned = loadings.copy()
        for factors in self.rotatable():
            rows = np.flatnonzero(self.allowed[:, factors[0]])
            rotation, triangle = np.linalg.qr(
                loadings[np.ix_(rows[: len(factors)], factors)].T, mode="complete"
            )
            signs = np.ones(len(factors))
            diagonal = np.diag(triangle)
            signs[: len(diagonal)] = np.where(diagonal < 0, -1.0, 1.0)
            turned[:, factors] = loadings[:, factors] @ (rotation * signs)
        return turned

    def rotatable(self) -> list[Int[Array, " factors"]]:
        """Return the sets of factors that load on the same columns."""
        _, kinds = np.unique(self.allowed, axis=1, return_inverse=True)
        return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]

    def _free(self) -> Bool[Array, "columns factors"]:
        free = self.allowed.copy()
        for factors in self.rotatable():
            rows = np.flatnonzero(self.allowed[:, factors[0]])
            for place, factor in enumerate(factors):
                free[rows[:place], factor] = False
        return free


def _rotated(
    roots: Float[Array, "rows factors factors"], generator: np.random.Generator
) -> Float[Array, "rows factors"]:
    """Draw normal numbers with these roots of their covariances."""
    return (roots @ generator.standard_normal((*roots.shape[:2], 1)))[:, :, 0]


def _unsorted(data: FactorRows, values: Float[Array, "rows ..."]) -> Float[Array, "rows ..."]:
    """Return what was computed pattern by pattern, in the order of the rows."""
    result = np.empty_like(values)
    result[data.patterns.order] = values
    return result


def loading_pattern(sizes: Sequence[tuple[int, int]]) -> Bool[Array, "columns factors"]:
    """Return which factors columns load on: those of each group of columns on the first so many factors.

    Examples
    --------
    >>> loading_pattern([(2, 3), (1, 2)]).astype(int).tolist()
    [[1, 1, 1], [1, 1, 1], [1, 1, 0]]
    """
    factors = max(most for _, most in sizes)
    return np.concatenate([np.tile(np.arange(factors) < most, (columns, 1)) for columns, most in sizes])
