"""The metrics that an assessment may be about, and predictions in the form in which metrics take them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.score import measure
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

__all__ = ["METRICS", "NAMES", "Metric", "better", "choose_metric", "finite", "measured", "predicted"]


@dataclass(frozen=True)
class Metric:
    """A number for how good predictions are: its task, which way is better, and where it ends."""

    name: str
    task: str
    higher_is_better: bool
    lowest: float = 0.0
    highest: float = 1.0


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "classification", True),
        Metric("balanced_accuracy", "classification", True),
        Metric("roc_auc", "classification", True),
        Metric("mae", "regression", False, highest=math.inf),
        Metric("rmse", "regression", False, highest=math.inf),
        Metric("r2", "regression", True, lowest=-math.inf),
    )
}

# For a reader.
NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "r2": "R²",
}


def choose_metric(name: str | None, task: str) -> Metric:
    """Return the metric of that name; by default accuracy for classes and the mean absolute error for numbers.

    Examples
    --------
    >>> choose_metric("rmse", "classification")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: unknown metric of a classification 'rmse'; choose from: accuracy, ...
    """
    fitting = {metric.name: metric for metric in METRICS.values() if metric.task == task}
    return choose(f"metric of a {task}", fitting, next(iter(fitting)) if name is None else name)


def better(metric: Metric, first: float, second: float) -> bool:
    """Say whether the first value is better than the second; anything is better than NaN."""
    if math.isnan(first) or math.isnan(second):
        return math.isnan(second) and not math.isnan(first)
    return first > second if metric.higher_is_better else first < second


def predicted(estimator: Any, X: Any, problem: Problem) -> Float[Array, "structures ..."]:
    """Return predicted numbers (N,), or (N, classes) probabilities of the classes, or scores where there are none.

    Classes that an estimator has not seen get the lowest score. Without probabilities and decision function the
    predicted class has 1 and the others 0.
    """
    if problem.classes is None:
        values = np.asarray(estimator.predict(X), dtype=np.float64)
        return values[:, 0] if values.ndim == 2 else values
    scores, seen = _class_scores(estimator, X)
    code_of = {label: code for code, label in enumerate(problem.classes)}
    table = np.full((len(scores), len(problem.classes)), min(float(scores.min(initial=0.0)), 0.0))
    for column, label in enumerate(seen):
        table[:, code_of[label]] = scores[:, column]
    return table


def _class_scores(estimator: Any, X: Any) -> tuple[Float[Array, "structures classes"], list[Any]]:
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X), dtype=np.float64), np.asarray(
            estimator.classes_
        ).tolist()
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        return scores, np.asarray(estimator.classes_).tolist()
    labels = np.asarray(estimator.predict(X))
    seen = np.unique(labels)
    return (labels[:, None] == seen).astype(np.float64), seen.tolist()


def measured(metric: Metric, truth: Float[Array, " structures"], values: Array) -> dict[str, float | None]:
    """Return all metrics of the task, None for what cannot be told; the one asked for must be there.

    Examples
    --------
    >>> measured(METRICS["mae"], np.array([1.0, 3.0]), np.array([1.0, 2.0]))["mae"]
    0.5
    """
    if not np.isfinite(values).all():
        wrong = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
        raise InputError(f"the model's prediction number {wrong} is not finite; there is nothing to measure")
    result = {name: finite(value) for name, value in measure(truth, values).items()}
    if result[metric.name] is None:
        raise InputError(
            f"{metric.name} cannot be told on the {len(truth)} structures of a test or validation part, which are of "
            f"one class or fewer than two; use fewer folds, a stratified split or another metric"
        )
    return result


def finite(value: float) -> float | None:
    """Return None for what JSON has no number for."""
    return float(value) if math.isfinite(value) else None
