"""Assessment: an estimate of how good a model is that one can stake money on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.assessment.assessing import assess
    from hiddenfield.evaluation.assessment.outcome import Assessment, compare
    from hiddenfield.evaluation.assessment.settings import AssessmentSettings

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Assessment": "hiddenfield.evaluation.assessment.outcome",
        "AssessmentSettings": "hiddenfield.evaluation.assessment.settings",
        "assess": "hiddenfield.evaluation.assessment.assessing",
        "compare": "hiddenfield.evaluation.assessment.outcome",
    },
)
