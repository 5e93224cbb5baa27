"""How good a prediction or an inference is: metrics, and simple models or other methods to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.baselines import fit_baselines
    from hiddenfield.evaluation.method_comparison import MethodResult, compare_methods
    from hiddenfield.evaluation.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc
    from hiddenfield.evaluation.query import Answer, ask
    from hiddenfield.evaluation.score import Score

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Answer": "hiddenfield.evaluation.query",
        "MethodResult": "hiddenfield.evaluation.method_comparison",
        "Score": "hiddenfield.evaluation.score",
        "accuracy": "hiddenfield.evaluation.metrics",
        "ask": "hiddenfield.evaluation.query",
        "balanced_accuracy": "hiddenfield.evaluation.metrics",
        "compare_methods": "hiddenfield.evaluation.method_comparison",
        "fit_baselines": "hiddenfield.evaluation.baselines",
        "mae": "hiddenfield.evaluation.metrics",
        "r2": "hiddenfield.evaluation.metrics",
        "rmse": "hiddenfield.evaluation.metrics",
        "roc_auc": "hiddenfield.evaluation.metrics",
    },
)
