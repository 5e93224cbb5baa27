"""ROC curves of two classes: the mean over the folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hiddenfield.learning.metrics import roc_auc, roc_curve
from hiddenfield.shapes import Array, Float

__all__ = ["GRID", "mean_roc"]

# The false positive rates at which curves are averaged.
GRID = np.linspace(0.0, 1.0, 101)


def mean_roc(
    truths: Sequence[Float[Array, " _"]], scores: Sequence[Float[Array, " _"]]
) -> dict[str, Any] | None:
    """Return the ROC curves of several folds, averaged at fixed false positive rates (vertical averaging).

    Parameters
    ----------
    truths
        For each fold the class codes, 1 for members.
    scores
        For each fold a number that is higher for what is more probably a member.

    Returns
    -------
    dict or None
        ``true_positive`` and ``std``, its deviation over the folds (None for one fold), at the rates of `GRID`;
        ``auc``, the area of all folds pooled: it compares scores across folds, which the mean of their areas does not.
        Folds of one class are left out of the curve; None where all are.

    References
    ----------
    T. Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006).

    Examples
    --------
    >>> found = mean_roc(
    ...     [np.array([0.0, 1.0, 1.0])] * 2, [np.array([0.1, 0.9, 0.8]), np.array([0.5, 0.9, 0.1])]
    ... )
    >>> found["auc"], found["true_positive"][0], found["std"][100]
    (0.8125, 0.75, 0.0)
    """
    pooled = roc_auc(np.concatenate(list(truths)), np.concatenate(list(scores)))
    curves = [
        _at_grid(*roc_curve(truth == 1, values))
        for truth, values in zip(truths, scores, strict=True)
        if 0 < (truth == 1).sum() < len(truth)
    ]
    if not curves or math.isnan(pooled):
        return None
    table = np.stack(curves)
    return {
        "true_positive": table.mean(axis=0).round(4).tolist(),
        "std": table.std(axis=0, ddof=1).round(4).tolist() if len(table) > 1 else None,
        "auc": round(pooled, 6),
    }


def _at_grid(false: Float[Array, " points"], true: Float[Array, " points"]) -> Float[Array, " grid"]:
    """Return the true positive rates at the grid: the highest where the curve is vertical, else on its line."""
    before = np.searchsorted(false, GRID + 1e-9, side="right") - 1
    after = np.minimum(before + 1, len(false) - 1)
    width = np.maximum(false[after] - false[before], 1e-12)
    share = np.clip((GRID - false[before]) / width, 0.0, 1.0)
    return true[before] + share * (true[after] - true[before])
