"""Rubin's rules: one answer from analyses of several imputed data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float


@dataclass(frozen=True, eq=False)
class Pooled:
    r"""What several imputed data sets say together.

    Parameters
    ----------
    estimate
        The mean of the estimates.
    standard_error
        :math:`\sqrt{W + (1 + 1/m) B}`, with W the mean of the variances and B the variance of the estimates.
    degrees_of_freedom
        Of the t distribution that intervals are taken from.
    missing_information
        The share of the information about each estimate that was missing.
    """

    estimate: Float[Array, " estimates"]
    standard_error: Float[Array, " estimates"]
    degrees_of_freedom: Float[Array, " estimates"]
    missing_information: Float[Array, " estimates"]

    def interval(self, level: float = 0.95) -> Float[Array, "estimates 2"]:
        """Return the ends of confidence intervals."""
        from scipy.stats import t

        reach = t.ppf(0.5 + level / 2, self.degrees_of_freedom) * self.standard_error
        return np.column_stack([self.estimate - reach, self.estimate + reach])


def pool(estimates: Sequence[Any], variances: Sequence[Any], *, complete_freedom: float = np.inf) -> Pooled:
    """Combine estimates of m imputed data sets by Rubin's rules.

    Parameters
    ----------
    estimates, variances
        One entry for each data set: a number, or one for each of several estimates, and their squared standard errors.
    complete_freedom
        Degrees of freedom that the analysis has with complete data, where they are few (Barnard and Rubin).

    References
    ----------
    Rubin (1987), Multiple imputation for nonresponse in surveys; Barnard and Rubin (1999), Small-sample degrees of
    freedom with multiple imputation.

    Examples
    --------
    >>> pooled = pool([1.0, 1.2, 0.8], [0.01, 0.01, 0.01])
    >>> pooled.estimate, pooled.standard_error.round(3), pooled.missing_information.round(2)
    (array([1.]), array([0.252]), array([0.9]))
    """
    values, within = (np.asarray(each, float) for each in (estimates, variances))
    values, within = values.reshape(len(values), -1), within.reshape(len(within), -1)
    if values.shape != within.shape or len(values) < 2:
        raise InputError(
            "pooling takes estimates and variances of at least two imputed data sets, the same number of each; got "
            f"{values.shape} and {within.shape}"
        )
    count, inside, between = len(values), within.mean(0), values.var(0, ddof=1)
    total = inside + (1 + 1 / count) * between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (1 + 1 / count) * between / total, 0.0)
        freedom = (count - 1) / share**2
        if np.isfinite(complete_freedom):
            observed = (complete_freedom + 1) / (complete_freedom + 3) * complete_freedom * (1 - share)
            freedom = 1 / (1 / freedom + 1 / observed)
    missing = share + 2 * (1 - share) / (freedom + 3)
    return Pooled(values.mean(0), np.sqrt(total), freedom, missing)
