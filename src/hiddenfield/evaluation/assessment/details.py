"""What an assessment tells beside its mean: size, training, ROC curve, where the errors are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hiddenfield.evaluation.assessment.cells import Context
from hiddenfield.evaluation.assessment.finished import Finished
from hiddenfield.evaluation.assessment.ranges import error_ranges
from hiddenfield.evaluation.assessment.roc import GRID, mean_roc
from hiddenfield.evaluation.assessment.simple import BLIND_NAME
from hiddenfield.evaluation.assessment.training import training_curve
from hiddenfield.shapes import Array, Float

__all__ = ["details", "mean_size"]


def details(context: Context, finished: Finished) -> dict[str, Any]:
    """Return those of ``num_parameters``, ``training_curve``, ``roc`` and ``ranges`` that can be told."""
    problem, folds = context.problem, range(len(context.splits))
    finals = [result for fold in folds for result in finished.of("final", fold)]
    content: dict[str, Any] = {}
    size = mean_size(finals)
    if size is not None:
        content["num_parameters"] = size
    if all("training" in result for result in finals):
        records = [record for result in finals for record in result["training"]]
        content["training_curve"] = training_curve(records, context.metric.name)
    if problem.classes is None:
        truth = np.concatenate([problem.truth[split.test] for split in context.splits])
        content["ranges"] = error_ranges(truth, np.concatenate([finished.predictions(f) for f in folds]))
    elif len(problem.classes) == 2:
        roc = _roc(context, finished)
        content |= {} if roc is None else {"roc": roc}
    return content


def mean_size(results: list[Mapping[str, Any]]) -> int | None:
    """Return the mean number of trained weights, rounded; None where some result does not tell."""
    sizes = [result.get("num_parameters") for result in results]
    known = [size for size in sizes if size is not None]
    return round(float(np.mean(known))) if known and len(known) == len(sizes) else None


def _roc(context: Context, finished: Finished) -> dict[str, Any] | None:
    """Return the curve of the model and, in ``baselines``, those that stand beside it."""
    problem, folds = context.problem, range(len(context.splits))
    truths = [problem.truth[split.test] for split in context.splits]
    own = mean_roc(truths, [finished.predictions(fold)[:, 1] for fold in folds])
    if own is None:
        return None
    beside = {name: mean_roc(truths, scores) for name, scores in _beside(finished, len(truths)).items()}
    return {
        "positive": str(problem.classes[1]) if problem.classes else "",
        "false_positive": GRID.round(4).tolist(),
        **own,
        "baselines": {name: curve for name, curve in beside.items() if curve is not None},
    }


def _beside(finished: Finished, folds: int) -> dict[str, list[Float[Array, " _"]]]:
    """Return the scores, fold by fold, of the simple models that kept them in every fold."""
    columns: dict[str, list[Float[Array, " _"]]] = {}
    for fold in range(folds):
        for result in finished.of("simple", fold)[:1]:
            for name, values in result.get("predictions", {}).items():
                columns.setdefault(name, []).append(np.asarray(values, dtype=np.float64))
        if finished.of("blind", fold):
            columns.setdefault(BLIND_NAME, []).append(finished.predictions(fold, "blind")[:, 1])
    return {name: column for name, column in columns.items() if len(column) == folds}
