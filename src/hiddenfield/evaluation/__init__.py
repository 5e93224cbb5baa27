"""How good a model or an inference is: assessment, splits, metrics, and simple models or other methods beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.assessment.assessing import assess
    from hiddenfield.evaluation.assessment.outcome import Assessment, compare
    from hiddenfield.evaluation.assessment.settings import AssessmentSettings
    from hiddenfield.evaluation.baselines import fit_baselines
    from hiddenfield.evaluation.leakage import Leakage, find_leakage
    from hiddenfield.evaluation.method_comparison import MethodResult, compare_methods
    from hiddenfield.evaluation.query import Answer, ask
    from hiddenfield.evaluation.score import Score
    from hiddenfield.evaluation.search import Between
    from hiddenfield.evaluation.significance import Comparison, confidence_interval, corrected_t_test
    from hiddenfield.evaluation.splits.base import Request, Split
    from hiddenfield.evaluation.splits.making import SPLITTERS, make_splits
    from hiddenfield.learning.metrics import accuracy, balanced_accuracy, mae, r2, rmse, roc_auc

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Answer": "hiddenfield.evaluation.query",
        "Assessment": "hiddenfield.evaluation.assessment.outcome",
        "AssessmentSettings": "hiddenfield.evaluation.assessment.settings",
        "Between": "hiddenfield.evaluation.search",
        "Comparison": "hiddenfield.evaluation.significance",
        "Leakage": "hiddenfield.evaluation.leakage",
        "MethodResult": "hiddenfield.evaluation.method_comparison",
        "Request": "hiddenfield.evaluation.splits.base",
        "SPLITTERS": "hiddenfield.evaluation.splits.making",
        "Score": "hiddenfield.evaluation.score",
        "Split": "hiddenfield.evaluation.splits.base",
        "accuracy": "hiddenfield.learning.metrics",
        "ask": "hiddenfield.evaluation.query",
        "assess": "hiddenfield.evaluation.assessment.assessing",
        "balanced_accuracy": "hiddenfield.learning.metrics",
        "compare": "hiddenfield.evaluation.assessment.outcome",
        "compare_methods": "hiddenfield.evaluation.method_comparison",
        "confidence_interval": "hiddenfield.evaluation.significance",
        "corrected_t_test": "hiddenfield.evaluation.significance",
        "find_leakage": "hiddenfield.evaluation.leakage",
        "fit_baselines": "hiddenfield.evaluation.baselines",
        "mae": "hiddenfield.learning.metrics",
        "make_splits": "hiddenfield.evaluation.splits.making",
        "r2": "hiddenfield.learning.metrics",
        "rmse": "hiddenfield.learning.metrics",
        "roc_auc": "hiddenfield.learning.metrics",
    },
)
