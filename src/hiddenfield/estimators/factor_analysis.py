"""Factor analysis and probabilistic principal components of rows with holes, and what all models with factors share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from hiddenfield.errors import ConvergenceWarning, InputError
from hiddenfield.estimators.latent import LATENT, OF_LEARNING, LatentEstimator
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.models.factor_analysis import FactorScores, LinearGaussian, loading_pattern
from hiddenfield.models.factor_rows import FactorRows, rows_with_moments
from hiddenfield.shapes import Array, Bool, Float, Int

SHARE = Interval(Real, 0, 1, closed="neither")

MOST_SWEEPS = 1000
"""Of rotations of all pairs of factors."""


def varimax(loadings: Float[Array, "columns factors"]) -> Float[Array, "factors factors"]:
    r"""Return the rotation that makes squared loadings vary most within each factor.

    The orthogonal :math:`T` that maximises :math:`\sum_k \operatorname{var}_j (\Lambda T)_{jk}^2` with rows of
    :math:`\Lambda` brought to length one (Kaiser 1958): two factors at a time are turned by the best angle, which has a
    closed form, so that each turn raises it.

    Examples
    --------
    >>> simple = np.array([[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]])
    >>> turned = simple @ np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> np.abs(turned @ varimax(turned)).round(3).tolist()
    [[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]]
    """
    lengths = np.linalg.norm(loadings, axis=1, keepdims=True)
    turned = loadings / np.where(lengths > 0, lengths, 1.0)
    factors = loadings.shape[1]
    rotation = np.eye(factors)
    for _ in range(MOST_SWEEPS):
        largest = 0.0
        for pair in combinations(range(factors), 2):
            x, y = turned[:, pair].T
            doubled = (x + 1j * y) ** 2
            angle = np.angle((doubled**2).sum() - doubled.sum() ** 2 / len(x)) / 4
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            turned[:, pair], rotation[:, pair] = turned[:, pair] @ turn, rotation[:, pair] @ turn
            largest = max(largest, abs(angle))
        if largest < 1e-9:
            break
    return rotation


def promax(
    loadings: Float[Array, "columns factors"], *, power: float = 4.0
) -> Float[Array, "factors factors"]:
    r"""Return an oblique rotation towards powers of the varimax loadings (Hendrickson and White 1964).

    With :math:`\Lambda U` as the loadings, the factors have the correlations :math:`(U^\top U)^{-1}`.
    """
    rotation = varimax(loadings)
    turned = loadings @ rotation
    target = turned * np.abs(turned) ** (power - 1)
    oblique = np.linalg.lstsq(turned, target, rcond=None)[0]
    lengths = np.sqrt(np.diag(np.linalg.inv(oblique.T @ oblique)))
    return rotation @ (oblique * lengths)


ROTATIONS: Mapping[str, Callable[[Array], Array]] = {"varimax": varimax, "promax": promax}


@dataclass(kw_only=True, eq=False, repr=False)
class FactorEstimator(TransformerMixin, LatentEstimator):  # type: ignore[misc]
    """What estimators of linear Gaussian models share.

    Attributes
    ----------
    mean_
        Of each column.
    loadings_
        Of each column on each factor, rotated; factors that explain most come first.
    noise_variance_
        Of each column, what the factors leave of its variance.
    uniquenesses_
        The same as a share of the variance of the column.
    covariance_
        Of the columns, as the model has it.
    factor_correlations_
        1 on the diagonal and 0 elsewhere, but for "promax".
    heywood_
        Columns whose noise ended at the least that is allowed.
    """

    _kept: ClassVar[tuple[str, ...]] = (*LatentEstimator._kept, "centre_", "spread_")
    _size: ClassVar[str] = "num_factors"

    def _sides(self) -> tuple[Bool[Array, "columns factors"], Int[Array, " columns"]]:
        """Return which factors each column may load on, and the number of its noise."""
        raise TypeError(
            f"{type(self).__name__} has no loadings; a subclass of FactorEstimator gives `_sides`"
        )

    def _model(self) -> LinearGaussian:
        allowed, tied = self._sides()
        size, factors = allowed.shape
        if factors > size:
            asked = "num_factors + num_own" if hasattr(self, "num_own") else "num_factors"
            raise InputError(
                f"{factors} factors are more than the {size} columns (n_features = {size}); ask for fewer ({asked})"
            )
        # Below a millionth the likelihood of columns that factors explain to the last bit is lost in rounding.
        share = getattr(self, "min_noise", 1e-6)
        floor = share * np.bincount(tied, self.spread_**2) / np.bincount(tied)
        return LinearGaussian(allowed, tied, floor, self.centre_, self.spread_)

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> FactorRows:
        rows = self._rows(X, fitting, sample_weight)
        if fitting:
            self._describe(rows)
        return FactorRows(rows.values, rows.weights, centre=self.centre_)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the parameters; see `LatentEstimator.fit`. A warning names columns that are left without noise."""
        super().fit(X, y, sample_weight)
        if len(self.heywood_):
            warnings.warn(
                f"Heywood case: the factors explain all of {', '.join(self.heywood_)}, whose noise ended at the least "
                "that is allowed; ask for fewer factors, or leave out a column that others determine",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_covariance(self, covariance: Any, count: float, mean: Any = None) -> Any:
        """Learn the parameters from a covariance matrix alone, as publications print it.

        Parameters
        ----------
        covariance
            Of the columns, or their correlations; a data frame names them.
        count
            Of the rows that it was computed from. It is taken to be that by 1 / count.
        mean
            Of the columns; 0 by default.

        Returns
        -------
        self
        """
        matrix = np.asarray(covariance, np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
            raise InputError(f"a covariance matrix is square and symmetric, got shape {matrix.shape}")
        centre = np.zeros(len(matrix)) if mean is None else np.asarray(mean, np.float64)
        rows = rows_with_moments(matrix, centre, count)
        values: Any = rows.values
        if hasattr(covariance, "columns"):
            import pandas

            values = pandas.DataFrame(values, columns=covariance.columns)
        return self.fit(values, sample_weight=rows.weights)

    # -- what was found ------------------------------------------------------------------------------------

    @property
    def mean_(self) -> Float[Array, " columns"]:
        """Of each column."""
        return self.model_.centre + self.parameters_["intercept"]

    @property
    def noise_variance_(self) -> Float[Array, " columns"]:
        """What the factors leave of each column's variance."""
        return self.parameters_["noise"][self.model_.tied]

    @property
    def covariance_(self) -> Float[Array, "columns columns"]:
        """Of the columns."""
        loadings = self.parameters_["loadings"]
        return loadings @ loadings.T + np.diag(self.noise_variance_)

    @property
    def uniquenesses_(self) -> Float[Array, " columns"]:
        """The share of each column's variance that the factors leave."""
        return self.noise_variance_ / np.diag(self.covariance_)

    @property
    def loadings_(self) -> Float[Array, "columns factors"]:
        """Of each column on each factor, rotated."""
        return self.parameters_["loadings"] @ self._rotation()

    @property
    def factor_correlations_(self) -> Float[Array, "factors factors"]:
        """Of the factors, once they are rotated."""
        rotation = self._rotation()
        return np.linalg.inv(rotation.T @ rotation)

    @property
    def heywood_(self) -> list[str]:
        """Columns whose noise ended at the least that is allowed."""
        low = (self.parameters_["noise"] <= self.model_.floor * (1 + 1e-6))[self.model_.tied]
        return [self._column(int(number)) for number in np.flatnonzero(low)]

    def _rotation(self) -> Float[Array, "factors factors"]:
        """Return what loadings are multiplied by: rotations of the factors that load on the same columns."""
        loadings = self.parameters_["loadings"] / np.sqrt(np.diag(self.covariance_))[:, None]
        whitened = self.parameters_["loadings"] / np.sqrt(self.noise_variance_)[:, None]
        result = np.zeros((loadings.shape[1],) * 2)
        for factors in self.model_.rotatable():
            rotation = np.linalg.svd(whitened[:, factors], full_matrices=False)[2].T
            chosen = getattr(self, "rotation", None)
            if chosen is not None and len(factors) > 1:
                rotation = rotation @ ROTATIONS[chosen](loadings[:, factors] @ rotation)
                explained = ((loadings[:, factors] @ rotation) ** 2).sum(axis=0)
                rotation = rotation[:, np.argsort(-explained)]
            turned = loadings[:, factors] @ rotation
            signs = np.where(turned.sum(axis=0) < 0, -1.0, 1.0)
            result[np.ix_(factors, factors)] = rotation * signs
        return result

    # -- rows ----------------------------------------------------------------------------------------------

    def posterior(self, X: Any) -> FactorScores:
        """Return the means of the (rotated) factors of each row given what it has, and their standard deviations."""
        model, data, parameters = self._fitted(X)
        back = np.linalg.inv(self._rotation()).T
        return model.infer(data, parameters, back)

    def transform(self, X: Any) -> Float[Array, "rows factors"]:
        """Return the scores: the mean of each factor given what a row has."""
        return self.posterior(X).mean

    def predict(self, X: Any) -> Any:
        """Return what the factors say of each column, with a hole or without."""
        model, data, parameters = self._fitted(X)
        return model.expected(model.infer(data, parameters).mean, parameters)

    def outlyingness(self, X: Any) -> Float[Array, " rows"]:
        r"""Return the probability that another row lies nearer to the mean, from 0 to 1.

        It is that of a :math:`\chi^2` distribution with as many degrees of freedom as the row has values, at its
        squared Mahalanobis distance.
        """
        from scipy.stats import chi2

        model, data, parameters = self._fitted(X)
        return chi2.cdf(model.distances(data, parameters), np.maximum((~data.missing).sum(axis=1), 1))

    def icl(self, X: Any, y: Any = None) -> float:
        """Refuse: there are no components."""
        raise InputError("the integrated completed likelihood is of mixtures; use bic or aic")

    @property
    def _n_features_out(self) -> int:
        return self.parameters_["loadings"].shape[1]


@LATENT.register(
    "factor_analysis",
    summary="columns of numbers explained by a few hidden factors, each with noise of its own",
    reference="Rubin and Thayer 1982",
    data="table",
)
@dataclass(eq=False, repr=False)
class FactorAnalysis(FactorEstimator):
    r"""Factor analysis of rows of numbers with holes, by maximum likelihood.

    .. math::

        x = b + \Lambda z + \varepsilon, \qquad z \sim N(0, I), \qquad \varepsilon \sim N(0, \operatorname{diag} \psi)

    The number of factors is chosen by `bic` or by cross-validation (``GridSearchCV`` scores by log-likelihood). The
    other parameters are those of `LatentEstimator`; its fills are all but "mode".

    Parameters
    ----------
    num_factors
        How many.
    rotation
        None for the canonical axes, on which factors explain as much as they can one after the other; "varimax" for
        orthogonal and "promax" for correlated factors with simple loadings. The likelihood is the same.
    min_noise
        The least share of a column's variance that is noise. Where it ends there, the likelihood would rise on to a
        column without noise, a Heywood case, and a warning names the column.

    References
    ----------
    Rubin and Thayer (1982), EM algorithms for ML factor analysis; Kaiser (1958), The varimax criterion for analytic
    rotation in factor analysis; Hendrickson and White (1964), Promax.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.estimators import FactorAnalysis
    >>> generator = np.random.default_rng(0)
    >>> hidden, noise = generator.standard_normal((500, 1)), generator.standard_normal((500, 4))
    >>> X = hidden * [0.9, 0.8, 0.7, 0.6] + 0.5 * noise
    >>> X[generator.random(X.shape) < 0.2] = np.nan
    >>> model = FactorAnalysis(1).fit(X)
    >>> model.loadings_[:, 0].round(1).tolist()
    [1.0, 0.8, 0.8, 0.6]
    >>> bool(np.isnan(model.impute(X)).any())
    False
    """

    num_factors: int = 2
    rotation: str | None = None
    min_noise: float = 0.005

    _parameter_constraints = OF_LEARNING | {
        "num_factors": [COUNT],
        "rotation": [StrOptions(set(ROTATIONS)), None],
        "min_noise": [SHARE],
    }

    def _sides(self) -> tuple[Bool[Array, "columns factors"], Int[Array, " columns"]]:
        size = len(self.centre_)
        return loading_pattern([(size, self.num_factors)]), np.arange(size)


@LATENT.register(
    "probabilistic_pca",
    summary="columns of numbers on their principal axes, with the same noise in all",
    reference="Tipping and Bishop 1999",
    data="table",
)
@dataclass(eq=False, repr=False)
class ProbabilisticPCA(FactorEstimator):
    r"""Principal components of rows of numbers with holes, as the maximum-likelihood fit of a model.

    Factor analysis whose columns share one variance of the noise; without holes the loadings are the principal axes,
    times :math:`\sqrt{\lambda_k - \sigma^2}`. Columns should have comparable units. The other parameters are those of
    `LatentEstimator`; its fills are all but "mode".

    Parameters
    ----------
    num_factors
        How many principal components.

    References
    ----------
    Tipping and Bishop (1999), Probabilistic principal component analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.estimators import ProbabilisticPCA
    >>> X = np.random.default_rng(0).standard_normal((300, 3)) * [3.0, 1.0, 1.0]
    >>> X[::7, 0] = np.nan
    >>> np.abs(ProbabilisticPCA(1).fit(X).loadings_[:, 0]).round(0).tolist()
    [3.0, 0.0, 0.0]
    """

    num_factors: int = 2

    _parameter_constraints = OF_LEARNING | {"num_factors": [COUNT]}

    def _sides(self) -> tuple[Bool[Array, "columns factors"], Int[Array, " columns"]]:
        size = len(self.centre_)
        return loading_pattern([(size, self.num_factors)]), np.zeros(size, np.int64)
