"""Confidence intervals, and tests whether one model is better than another, from few folds or a single split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.evaluation.measuring import METRICS, Metric, better
from hiddenfield.evaluation.records import Assessment, ComparisonRecord, Summary, finite
from hiddenfield.shapes import Array, Float


@dataclass(frozen=True)
class Comparison:
    """Test whether A is better than B.

    Parameters
    ----------
    difference
        Mean of A's values less B's.
    low, high
        95 % confidence interval of the difference.
    statistic, p_value
        Student's t, corrected, and the two-sided probability of one as large if there were no difference; NaN where
        they are not defined.
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
        One per fold.
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
        raise InputError("one fold is not enough to compare two models; use two or more")
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


def summarise(values: list[float], test_share: float, metric: Metric) -> Summary:
    """Return mean, standard deviation over the folds (n - 1) and the corrected 95 % interval of the mean.

    The interval is cut at the limits of the metric.

    Examples
    --------
    >>> summarise([0.8, 0.9], 1.0, METRICS["accuracy"]).interval
    [0.0, 1.0]
    """
    bounds = np.clip(confidence_interval(values, test_share), metric.lowest, metric.highest).tolist()
    return Summary(
        float(np.mean(values)),
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
        bounds if np.isfinite(bounds[0]) else None,
    )


def compare(first: Assessment, second: Assessment) -> Comparison:
    """Test whether the first model is better than the second, by the corrected resampled t-test.

    Both must be of the same metric on the same splits of the same data.

    Returns
    -------
    Comparison
        With the difference of the first less the second.
    """
    check_same(first, second.metric, second.protocol.data, second.protocol.splits)
    return corrected_t_test(first.values, second.values, first.protocol.test_share)


def check_same(
    other: Assessment,
    metric: str,
    data: str,
    splits: str,
    said: str = "the assessments cannot be compared",
    where: tuple[str, str] = ("in one", "in the other"),
) -> None:
    """Refuse to compare an assessment with one of another metric, or of other data or splits (fingerprints)."""
    for name, there, here in (
        ("metric", other.metric, metric),
        ("data", other.protocol.data, data),
        ("splits", other.protocol.splits, splits),
    ):
        if there != here:
            raise InputError(
                f"{said}: {name} is {there} {where[0]} and {here} {where[1]}; assess both on the same data, splits and "
                f"metric"
            )


def comparison_record(found: Comparison, metric: str, method: str | None = None) -> ComparisonRecord:
    """Return a comparison as it is written, with its verdict: a difference is significant where p < 0.05."""
    ahead = better(METRICS[metric], found.difference, 0.0)
    verdict = "not told apart" if not found.p_value < 0.05 else "better" if ahead else "worse"
    low, high = finite(found.low), finite(found.high)
    interval = None if low is None or high is None else [low, high]
    return ComparisonRecord(finite(found.difference), interval, finite(found.p_value), verdict, method)


def bootstrap_interval(values: Float[Array, " draws"]) -> list[float] | None:
    """Return the 95 % percentile interval of bootstrap draws; None where more than half of the draws are undefined.

    Examples
    --------
    >>> bootstrap_interval(np.arange(1001.0))
    [25.0, 975.0]
    """
    known = values[np.isfinite(values)]
    return None if len(known) < len(values) / 2 else np.quantile(known, [0.025, 0.975]).tolist()


def bootstrap_comparison(
    mean: float, own: Float[Array, " draws"], other: Float[Array, " draws"], metric: str
) -> ComparisonRecord | None:
    r"""Compare two models by their differences d on the same B bootstrap draws; None where too many are undefined.

    .. math:: p = 2 \min\bigl(1 + \#\{d \le 0\},\, 1 + \#\{d \ge 0\}\bigr) / (B + 1)

    and at most 1. It accounts for the choice of the test structures, not for that of the training structures, of which
    there is one set.

    Parameters
    ----------
    mean
        The difference on the test structures themselves.
    own, other
        The metric of both on the draws.
    metric
        Its name.

    References
    ----------
    B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapters 13 and 15.

    Examples
    --------
    >>> bootstrap_comparison(0.1, np.full(999, 0.9), np.full(999, 0.8), "accuracy").p_value
    0.002
    """
    differences = own - other
    bounds = bootstrap_interval(differences)
    if bounds is None:
        return None
    known = differences[np.isfinite(differences)]
    fewer = 1 + min(int((known <= 0).sum()), int((known >= 0).sum()))
    found = Comparison(mean, bounds[0], bounds[1], math.nan, min(1.0, 2 * fewer / (len(known) + 1)))
    return comparison_record(found, metric, "paired bootstrap of the test structures")
