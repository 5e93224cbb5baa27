"""PartialLeastSquares: targets predicted from columns with holes, through the hidden factors that they share."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.estimators.factor_analysis import SHARE, FactorEstimator
from hiddenfield.estimators.latent import LATENT, OF_LEARNING
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.models.factor_analysis import loading_pattern
from hiddenfield.models.factor_rows import FactorRows
from hiddenfield.shapes import Array, Bool, Float, Int


@LATENT.register(
    "partial_least_squares",
    summary="targets and columns that share hidden factors; columns also have factors of their own",
    reference="Murphy 2012, section 12.5",
    data="table",
    targets=True,
)
@dataclass(eq=False, repr=False)
class PartialLeastSquares(RegressorMixin, FactorEstimator):  # type: ignore[misc]
    r"""Probabilistic partial least squares: targets from columns with holes, through hidden factors that they share.

    .. math::

        y = b_Y + W_Y z_S + \varepsilon_Y, \qquad x = b_X + W_X z_S + B_X z_X + \varepsilon_X,

    with standard normal :math:`z_S` (shared) and :math:`z_X` (of the columns alone), so that what varies in the columns
    and has nothing to do with the targets need not be explained by the shared factors. Targets may have holes too. The
    other parameters are those of `LatentEstimator`; its fills are all but "mode".

    Parameters
    ----------
    num_factors
        Shared factors.
    num_own
        Factors of the columns alone.
    noise
        "diagonal": each column and each target has its own; "tied": one variance for all columns, one for all targets.
    min_noise
        As in `FactorAnalysis`.

    Attributes
    ----------
    target_loadings_
        Of the targets on the shared factors. The attributes of all estimators of this kind, such as ``loadings_``, have
        a row for each column and then for each target.

    References
    ----------
    Murphy (2012), Machine learning: a probabilistic perspective, section 12.5.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.estimators import PartialLeastSquares
    >>> generator = np.random.default_rng(0)
    >>> shared, own = generator.standard_normal((2, 400, 1))
    >>> X = np.hstack([shared + own, own - shared, 3 * own]) + 0.3 * generator.standard_normal((400, 3))
    >>> y = 2 * shared[:, 0] + 0.3 * generator.standard_normal(400)
    >>> X[generator.random(X.shape) < 0.1] = np.nan
    >>> round(PartialLeastSquares(1, 1).fit(X, y).score(X, y), 1)
    0.9
    """

    num_factors: int = 2
    num_own: int = 1
    noise: str = "diagonal"
    min_noise: float = 0.005

    _parameter_constraints = OF_LEARNING | {
        "num_factors": [COUNT],
        "num_own": [Interval(Integral, 0, None, closed="left")],
        "noise": [StrOptions({"diagonal", "tied"})],
        "min_noise": [SHARE],
    }
    _kept: ClassVar[tuple[str, ...]] = (*FactorEstimator._kept, "num_targets_", "single_target_")

    def _sides(self) -> tuple[Bool[Array, "columns factors"], Int[Array, " columns"]]:
        targets: int = self.num_targets_
        columns = len(self.centre_) - targets
        allowed = loading_pattern([(columns, self.num_factors + self.num_own), (targets, self.num_factors)])
        sides = np.repeat([0, 1], [columns, targets])
        return allowed, np.arange(len(allowed)) if self.noise == "diagonal" else sides

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> FactorRows:
        rows = self._rows(X, fitting, sample_weight)
        if fitting and y is None:
            raise InputError("PartialLeastSquares requires y to be passed, but the target y is None")
        if y is None:
            targets = np.full((len(rows), self.num_targets_), np.nan)
        else:
            targets = self._targets(y, len(rows))
        if fitting:
            self.num_targets_: int = targets.shape[1]
            self.single_target_ = np.asarray(y).ndim == 1
        both = Rows(np.hstack([rows.values, targets]), rows.weights)
        if fitting:
            self._describe(both)
        return FactorRows(both.values, both.weights, centre=self.centre_)

    def _targets(self, y: Any, rows: int) -> Float[Array, "rows targets"]:
        targets = np.asarray(y, np.float64)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape[0] != rows:
            raise InputError(f"y has one entry for each of the {rows} rows, got {targets.shape[0]}")
        if np.isinf(targets).any():
            row = int(np.argmax(np.isinf(targets).any(axis=1)))
            raise InputError(f"Input y contains infinity, in row {row}; a missing value is NaN")
        return targets

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the expected targets given what each row has; on request with their standard deviations."""
        model, data, parameters = self._fitted(X)
        own = slice(len(self.centre_) - self.num_targets_, None)
        mean = model.impute(data, parameters)[:, own]
        mean = mean[:, 0] if self.single_target_ else mean
        if not return_std:
            return mean
        deviation = np.sqrt(model.variances(data, parameters)[:, own])
        return mean, deviation[:, 0] if self.single_target_ else deviation

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        r"""Return :math:`R^2`, the share of the targets' variance that is predicted; of the targets that are known."""
        from sklearn.metrics import r2_score

        truth, found = self._targets(y, len(y)), self.predict(X)
        known = ~np.isnan(truth).any(axis=1)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(truth[known], found[known], sample_weight=weights))

    def log_likelihood(self, X: Any, y: Any = None) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row, with its targets where they are given."""
        model, _, parameters = self._fitted(X)
        return model.log_likelihood(self._read(X, y=y), parameters)

    def __sklearn_tags__(self) -> Any:
        """Say that there may be several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _column(self, number: Any) -> str:
        columns = self.n_features_in_
        if number < columns:
            return super()._column(number)
        return "y" if self.single_target_ else f"y[{number - columns}]"

    def _like(self, X: Any, data: Any, filled: Array) -> Any:
        return super()._like(X, data, filled[:, : self.n_features_in_])

    @property
    def target_loadings_(self) -> Float[Array, "targets factors"]:
        """Of the targets on the shared factors."""
        return self.loadings_[len(self.centre_) - self.num_targets_ :, : self.num_factors]
