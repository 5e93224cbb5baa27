"""How good a prediction is: metrics, and simple models to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.baselines import fit_baselines
    from hiddenfield.evaluation.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc
    from hiddenfield.evaluation.score import Score

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Score": "hiddenfield.evaluation.score",
        "accuracy": "hiddenfield.evaluation.metrics",
        "balanced_accuracy": "hiddenfield.evaluation.metrics",
        "fit_baselines": "hiddenfield.evaluation.baselines",
        "mae": "hiddenfield.evaluation.metrics",
        "r2": "hiddenfield.evaluation.metrics",
        "rmse": "hiddenfield.evaluation.metrics",
        "roc_auc": "hiddenfield.evaluation.metrics",
    },
)
