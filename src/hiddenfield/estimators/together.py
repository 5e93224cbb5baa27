"""Fit many estimators at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hiddenfield.errors import InputError, TrainingError
from hiddenfield.estimators.base import Begun, StructureEstimator
from hiddenfield.learning.checkpoint import History
from hiddenfield.learning.together import train_in_parts


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
        For each X, y and the held-out positions (or None), as `fit` takes them.

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
    results: dict[int, StructureEstimator | TrainingError] = dict(fit_in_parts(models, data))
    return [results[position] for position in range(len(models))]


def fit_in_parts(
    models: Sequence[StructureEstimator], data: Sequence[tuple[Any, Any, Any]]
) -> Iterator[tuple[int, StructureEstimator | TrainingError]]:
    """Do as `fit_together`, and yield positions and results as soon as those that were trained at once are done."""
    if len(models) != len(data):
        raise InputError(
            f"every estimator needs its data: got {len(models)} estimators and data for {len(data)}"
        )
    begun = [model._begin(X, y, aside) for model, (X, y, aside) in zip(models, data, strict=True)]
    owner = [position for position, one in enumerate(begun) for _ in one.fits]
    outcomes: list[dict[int, History | TrainingError]] = [{} for _ in begun]
    for place, outcome in train_in_parts([fit for one in begun for fit in one.fits]):
        position = owner[place]
        outcomes[position][place] = outcome
        if len(outcomes[position]) == len(begun[position].fits):
            yield position, _ended(models[position], begun[position], outcomes[position])


def _ended(
    model: StructureEstimator, begun: Begun, outcomes: dict[int, History | TrainingError]
) -> StructureEstimator | TrainingError:
    own = [outcomes[place] for place in sorted(outcomes)]
    failed = [outcome for outcome in own if isinstance(outcome, TrainingError)]
    return failed[0] if failed else model._end(begun, [h for h in own if not isinstance(h, TrainingError)])
