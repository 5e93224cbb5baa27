"""How an assessment was done, in words and in parts."""

from __future__ import annotations

from typing import Any

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.cells import Context, accepts_aside
from hiddenfield.evaluation.assessment.finished import Finished
from hiddenfield.evaluation.assessment.settings import DEFAULT_SPACE, AssessmentSettings
from hiddenfield.evaluation.assessment.simple import finite_table
from hiddenfield.evaluation.search import Between, grid
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
    note = _note(context, settings)
    return {
        "text": "; ".join([_in_words(context, settings, finished, how), *([] if note is None else [note])]),
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
    } | ({} if note is None else {"note": note})


def _note(context: Context, settings: AssessmentSettings) -> str | None:
    """Say which simple model is not there, and why; None where all are."""
    X = context.problem.X
    if not settings.baselines or isinstance(X, Structures) or finite_table(X) is not None:
        return None
    return "no linear model beside it: not all features are finite numbers"


def _in_words(context: Context, settings: AssessmentSettings, finished: Finished, how: str) -> str:
    parts = [f"{len(context.splits)} split{'s' * (len(context.splits) > 1)} ({how})"]
    inner = settings.inner_in_words()
    if settings.inner == "hold_out" and any(split.validation is not None for split in context.splits):
        inner = "inner hold-out as given"
    if settings.nested:
        count, drawn = len(finished.candidates), " drawn at random" * _are_drawn(settings, finished)
        parts.append(
            f"{count} candidates{drawn}, selected by {context.metric.name} on {inner}"
            if count > 1
            else f"1 candidate{drawn}, nothing to select from"
        )
    else:
        parts.append("settings given, none selected")
    where = _epoch_chosen_on(context, settings)
    if where is not None:
        # Without a selection that names it, the inner split is named here.
        named = f" ({inner})" if settings.nested and len(finished.candidates) == 1 else ""
        parts.append(f"epoch chosen on {where}{named}")
    parts.append(f"{finished.seeds} final fit{'s' * (finished.seeds > 1)} a split")
    return "; ".join(parts)


def _epoch_chosen_on(context: Context, settings: AssessmentSettings) -> str | None:
    """Say where the epoch is chosen; None where it is not, or an estimator from elsewhere does not tell.

    Others have a parameter `validation_fraction` too, which some of them use only if yet another says so.
    """
    if settings.nested and accepts_aside(context.estimator):
        return "the inner validation part"
    own = isinstance(context.estimator, StructureEstimator)
    return "a share of the training part" if own and context.estimator.validation_fraction else None


def _are_drawn(settings: AssessmentSettings, finished: Finished) -> bool:
    """Say whether there were more candidates than were tried."""
    if settings.draws is None:
        return False
    space = settings.space or {name: DEFAULT_SPACE[name] for name in finished.candidates[0]}
    return any(isinstance(values, Between) for values in space.values()) or len(grid(space)) > len(
        finished.candidates
    )
