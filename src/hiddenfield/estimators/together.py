"""Fit many estimators at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiddenfield.errors import TrainingError
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.learning.together import train_together

__all__ = ["fit_together"]


def fit_together(
    models: Sequence[StructureEstimator], data: Sequence[tuple[Any, Any, Any]]
) -> list[StructureEstimator | TrainingError]:
    """Fit estimators, each to its own data; networks that are alike are trained side by side.

    Each estimator is fitted as by its own `fit`, up to rounding and the random numbers of dropout; see
    `hiddenfield.learning.together`. No checkpoints are written.

    Parameters
    ----------
    models
        Estimators that are not fitted yet.
    data
        For each X, y and the positions that are kept aside (or None), as `fit` takes them.

    Returns
    -------
    list
        The estimators; instead of one whose training failed, the error.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words, lengths = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"], [2.0, 7.0, 3.0, 1.0, 4.0, 4.0]
    >>> models = [StructureRegressor(dim=dim, epochs=2, random_state=0) for dim in (4, 8)]
    >>> [model.network_.embedding.dim for model in fit_together(models, [(words, lengths, None)] * 2)]
    [4, 8]
    """
    begun = [model._begin(X, y, aside) for model, (X, y, aside) in zip(models, data, strict=True)]
    outcomes = iter(train_together([fit for one in begun for fit in one.fits]))
    results: list[StructureEstimator | TrainingError] = []
    for model, one in zip(models, begun, strict=True):
        own = [next(outcomes) for _ in one.fits]
        failed = [outcome for outcome in own if isinstance(outcome, TrainingError)]
        results.append(
            failed[0] if failed else model._end(one, [h for h in own if not isinstance(h, TrainingError)])
        )
    return results
