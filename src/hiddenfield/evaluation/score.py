"""Score: what a model reached on structures that it has not seen, and at which price."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hiddenfield.learning.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc
from hiddenfield.shapes import Array, Float, Int

__all__ = ["Score", "measure"]


@dataclass(frozen=True)
class Score:
    """One row of a comparison.

    Parameters
    ----------
    name
        Of the model.
    metrics
        By name: ``mae``, ``rmse`` and ``r2`` for numbers; ``accuracy``, ``balanced_accuracy`` and ``roc_auc`` for
        classes.
    parameters
        Numbers that were fitted.
    seconds
        That fitting took, choice of settings included; None where it is not known.
    note
        What was chosen.
    predictions
        What it was measured by, where that was kept.
    """

    name: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    seconds: float | None = None
    note: str = ""
    predictions: Float[Array, "structures ..."] | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, without the predictions; None for a metric that has no value, for JSON has no NaN."""
        metrics = {name: None if math.isnan(value) else value for name, value in self.metrics.items()}
        values = asdict(replace(self, predictions=None)) | {"metrics": metrics}
        return {name: value for name, value in values.items() if name != "predictions"}


NUMBERS: dict[str, Callable[[Array, Array], float]] = {"mae": mae, "rmse": rmse, "r2": r2}
# Of classes, those that look at which class is said, and those that look at the scores.
LABELS: dict[str, Callable[[Array, Array], float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
}
SCORES: dict[str, Callable[[Array, Array], float]] = {"roc_auc": roc_auc}


def measure(
    truth: Float[Array, " structures"],
    predicted: Float[Array, "structures ..."],
    only: str | None = None,
    labels: Int[Array, " structures"] | None = None,
) -> dict[str, float]:
    """Return the metrics of predicted numbers (N,), or of predicted probabilities of classes (N, C); or `only` one.

    Parameters
    ----------
    truth
        Numbers, or class codes.
    predicted
        Numbers, or for each class a probability or score.
    only
        A metric, where the others are not needed.
    labels
        The codes of the classes that are said, by which accuracies are measured; None where that is the one of the
        highest score. A model with a threshold of its own says others.

    Examples
    --------
    >>> import numpy as np
    >>> measure(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    {'mae': 0.3333, 'rmse': 0.5774, 'r2': 0.7857}
    >>> measure(np.array([0.0, 1.0]), np.array([[0.9, 0.1], [0.8, 0.2]]), "accuracy", labels=np.array([0, 1]))
    {'accuracy': 1.0}
    """
    if predicted.ndim == 1:
        return {name: of(truth, predicted) for name, of in NUMBERS.items() if only in (None, name)}
    said = predicted.argmax(axis=1) if labels is None else labels
    found = {name: of(truth, said) for name, of in LABELS.items() if only in (None, name)}
    return found | {name: of(truth, predicted) for name, of in SCORES.items() if only in (None, name)}
