"""What a handful of folds can tell: confidence intervals, and whether one model is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError

__all__ = ["Comparison", "confidence_interval", "corrected_t_test"]


@dataclass(frozen=True)
class Comparison:
    """Whether A is better than B.

    Parameters
    ----------
    difference
        Mean of A's values less B's.
    low, high
        95 % confidence interval of it.
    statistic, p_value
        Student's t, corrected, and the two-sided probability of one as large if there were no difference; NaN where
        that cannot be told.
    """

    difference: float
    low: float
    high: float
    statistic: float
    p_value: float


def confidence_interval(
    values: Sequence[float], test_share: float, *, level: float = 0.95
) -> tuple[float, float]:
    r"""Return a confidence interval of the mean over folds that share their training structures.

    .. math:: \bar v \pm t_{J-1} \sqrt{\left(\frac1J + \frac{n_{test}}{n_{train}}\right) s^2}

    with J values of variance s². The second term is the correction of Nadeau and Bengio: folds overlap in what they
    are trained on, so that their values are not independent, and the usual interval is far too narrow.

    Parameters
    ----------
    values
        One a fold; an estimate.
    test_share
        n_test / n_train.
    level
        How probably the interval is to hold the mean.

    Returns
    -------
    low, high
        NaN for fewer than two values. An approximation: no unbiased estimate of the variance exists.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003).

    Examples
    --------
    >>> confidence_interval([0.8, 0.9, 0.85], 1 / 9)
    (0.7066, 0.9934)
    """
    from scipy.stats import t

    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2 or not np.isfinite(array).all():
        return math.nan, math.nan
    width = _error(array, test_share) * float(t.ppf(0.5 + level / 2, len(array) - 1))
    return float(array.mean() - width), float(array.mean() + width)


def corrected_t_test(first: Sequence[float], second: Sequence[float], test_share: float) -> Comparison:
    r"""Test whether two models, measured on the same folds, differ: the corrected resampled t-test.

    .. math:: t = \bar d \Big/ \sqrt{\left(\frac1J + \frac{n_{test}}{n_{train}}\right) s_d^2}

    with d the differences fold by fold, and J - 1 degrees of freedom (Nadeau and Bengio 2003). Where all
    differences are equal there is no variance to judge by, as with two folds of few structures: p is then 1 if they are
    0, and NaN if not, as are t and the interval.

    Parameters
    ----------
    first, second
        Values of A and of B, fold by fold.
    test_share
        n_test / n_train.

    Examples
    --------
    >>> corrected_t_test([0.9, 0.8, 0.9, 0.8], [0.7, 0.7, 0.75, 0.6], 1 / 3).p_value
    0.0212
    """
    from scipy.stats import t

    if len(first) != len(second):
        raise InputError(
            f"models are compared fold by fold, but there are {len(first)} and {len(second)} values"
        )
    if len(first) < 2:
        raise InputError("one fold tells nothing about the difference of two models; use two or more")
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    mean, error = float(differences.mean()), _error(differences, test_share)
    if not np.isfinite(differences).all():
        return Comparison(mean, math.nan, math.nan, math.nan, math.nan)
    if not differences.any():
        return Comparison(0.0, 0.0, 0.0, 0.0, 1.0)
    if error <= 1e-12 * abs(mean):
        return Comparison(mean, math.nan, math.nan, math.nan, math.nan)
    low, high = confidence_interval(differences.tolist(), test_share)
    statistic = mean / error
    return Comparison(mean, low, high, statistic, float(2 * t.sf(abs(statistic), len(differences) - 1)))


def _error(values: np.ndarray, test_share: float) -> float:
    return float(np.sqrt((1 / len(values) + test_share) * values.var(ddof=1)))
