"""How an assessment was done, in words and in parts."""

from __future__ import annotations

from typing import Any

from hiddenfield.evaluation.assessment.cells import Context, accepts_aside
from hiddenfield.evaluation.assessment.finished import Finished
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import digest

__all__ = ["describe_protocol"]


def describe_protocol(
    context: Context, settings: AssessmentSettings, finished: Finished, share: float
) -> dict[str, Any]:
    """Return plain values; ``text`` is for a reader.

    Parameters
    ----------
    context, settings, finished
        Of the assessment.
    share
        Test structures for each training structure.
    """
    how = settings.split if isinstance(settings.split, str) else "given"
    how = "files" if how == "auto" and settings.split_file is not None else how
    if how == "auto":
        how = "k_fold" if context.problem.codes is None else "stratified"
        how = "repeated" if settings.repeats > 1 else how
    return {
        "text": _in_words(context, settings, finished, how),
        "split": how,
        "folds": len(context.splits),
        "nested": settings.nested,
        "inner": settings.inner_in_words() if settings.nested else None,
        "candidates": [dict(candidate) for candidate in finished.candidates],
        "seeds": finished.seeds,
        "seed": settings.seed,
        "test_share": share,
        "interval": "corrected resampled t"
        if len(context.splits) > 1
        else "bootstrap of the test structures",
        "data": context.problem.fingerprint(),
        "splits": digest(context.splits),
    }


def _in_words(context: Context, settings: AssessmentSettings, finished: Finished, how: str) -> str:
    parts = [f"{len(context.splits)} split{'s' * (len(context.splits) > 1)} ({how})"]
    inner = settings.inner_in_words()
    if settings.inner == "hold_out" and any(split.validation is not None for split in context.splits):
        inner = "inner hold-out as given"
    if settings.nested:
        count = len(finished.candidates)
        drawn = "" if settings.draws is None else " drawn at random"
        parts.append(
            f"{count} candidate{'s' * (count > 1)}{drawn}, selected by {context.metric.name} on {inner}"
        )
    else:
        parts.append("settings fixed beforehand")
    if hasattr(context.estimator, "validation_fraction"):
        where = (
            "the inner validation part"
            if settings.nested and accepts_aside(context.estimator)
            else "a share of the training part"
        )
        parts.append(f"epoch chosen on {where}")
    parts.append(f"{finished.seeds} final fit{'s' * (finished.seeds > 1)} a split")
    return "; ".join(parts)
