"""Metrics, predictions in the form in which metrics take them, and scores of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.estimators.supervised import PredictsClasses
from hiddenfield.evaluation.records import Metrics, finite_metrics
from hiddenfield.learning.metrics import (
    accuracy as accuracy,
    balanced_accuracy as balanced_accuracy,
    mae as mae,
    r2 as r2,
    rmse as rmse,
    roc_auc as roc_auc,
)
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from hiddenfield.evaluation.assessment.problem import Problem


@dataclass(frozen=True)
class Metric:
    """A number for how good predictions are: its function, title and task, which way is better, and where it ends."""

    of: Callable[[Array, Array], float]
    title: str
    task: str
    higher_is_better: bool = True
    lowest: float = 0.0
    highest: float = 1.0

    @property
    def name(self) -> str:
        """Its name in options and records."""
        return self.of.__name__


METRICS = {
    metric.name: metric
    for metric in (
        Metric(accuracy, "accuracy", "classification"),
        Metric(balanced_accuracy, "balanced accuracy", "classification"),
        Metric(roc_auc, "ROC AUC", "classification"),
        Metric(mae, "mean absolute error", "regression", False, highest=math.inf),
        Metric(rmse, "root mean square error", "regression", False, highest=math.inf),
        Metric(r2, "R²", "regression", lowest=-math.inf),
    )
}

# For a reader.
NAMES = {name: metric.title for name, metric in METRICS.items()}


def capital(text: str) -> str:
    """Return the text with a capital first letter, and the others as they are.

    Examples
    --------
    >>> capital("mean absolute error"), capital("ROC AUC")
    ('Mean absolute error', 'ROC AUC')
    """
    return text[:1].upper() + text[1:]


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
    """Return whether the first value is better than the second; anything is better than NaN."""
    if math.isnan(first) or math.isnan(second):
        return math.isnan(second) and not math.isnan(first)
    return first > second if metric.higher_is_better else first < second


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
        Chosen settings.
    predictions
        Predicted numbers or probabilities, where they were kept; one row where it is the same for all structures.
    """

    name: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    seconds: float | None = None
    note: str = ""
    predictions: Float[Array, "structures ..."] | None = field(default=None, repr=False, compare=False)


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
        Predicted class codes, by which accuracies are measured; None where they are those of the highest score. A model
        with a threshold of its own predicts others.

    Examples
    --------
    >>> measure(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    {'mae': 0.3333, 'rmse': 0.5774, 'r2': 0.7857}
    >>> measure(np.array([0.0, 1.0]), np.array([[0.9, 0.1], [0.8, 0.2]]), "accuracy", labels=np.array([0, 1]))
    {'accuracy': 1.0}
    """
    task = "regression" if predicted.ndim == 1 else "classification"
    if labels is None:
        labels = predicted if predicted.ndim == 1 else predicted.argmax(axis=1)
    return {
        name: metric.of(truth, predicted if name == "roc_auc" else labels)
        for name, metric in METRICS.items()
        if metric.task == task and only in (None, name)
    }


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model on a test part.

    Parameters
    ----------
    values
        Predicted numbers (N,), or (N, classes) probabilities of the classes, or scores where there are none.
    labels
        (N,) predicted class codes; None where they are those of the highest score, or for numbers.
    """

    values: Float[Array, "structures ..."]
    labels: Int[Array, " structures"] | None = None

    @classmethod
    def spread(cls, values: Float[Array, "structures ..."], count: int) -> Predictions:
        """Return predictions for every structure, of which a constant has one row for all."""
        return cls(np.repeat(values, count, axis=0) if len(values) == 1 else values)

    def measure(self, truth: Float[Array, " structures"], only: str | None = None) -> dict[str, float]:
        """Return the metrics of the task, or `only` one."""
        return measure(truth, self.values, only, self.labels)

    def __getitem__(self, chosen: Array) -> Predictions:
        """Return those of some structures."""
        return Predictions(self.values[chosen], None if self.labels is None else self.labels[chosen])


def predicted(estimator: Any, X: Any, problem: Problem) -> Predictions:
    """Return what a fitted estimator predicts.

    Classes that it has not seen get the lowest score. Without probabilities and decision function the predicted
    class has 1 and the others 0.
    """
    if problem.classes is None:
        values = np.asarray(estimator.predict(X), dtype=np.float64)
        return Predictions(values[:, 0] if values.ndim == 2 else values)
    scores, seen = _class_scores(estimator, X)
    table = class_table(scores, seen, problem.classes)
    return Predictions(
        table, _labels(estimator, X, {label: code for code, label in enumerate(problem.classes)}, table)
    )


def class_table(
    scores: Float[Array, "structures seen"], seen: Sequence[Any], classes: Sequence[Any]
) -> Float[Array, "structures classes"]:
    """Return scores of the classes that a model has seen as scores of all; the others get the lowest.

    Examples
    --------
    >>> class_table(np.array([[0.3, 0.7]]), ["a", "c"], ["a", "b", "c"]).tolist()
    [[0.3, 0.0, 0.7]]
    """
    code_of = {label: code for code, label in enumerate(classes)}
    table = np.full((len(scores), len(classes)), min(float(scores.min(initial=0.0)), 0.0))
    for column, label in enumerate(seen):
        table[:, code_of[label]] = scores[:, column]
    return table


def _labels(
    estimator: Any, X: Any, code_of: Mapping[Any, int], table: Float[Array, "structures classes"]
) -> Int[Array, " structures"] | None:
    """Return the predicted class codes; None where they are everywhere those of the highest score."""
    if getattr(type(estimator), "predict", None) is PredictsClasses.predict:
        return None  # predicts that class by definition, and would compute everything twice
    said = np.asarray(estimator.predict(X)).reshape(len(table)).tolist()
    unknown = [label for label in said if label not in code_of]
    if unknown:
        raise InputError(
            f"{type(estimator).__name__} predicted {unknown[0]!r}, which is no class of the target; there are: "
            f"{', '.join(map(repr, code_of))}"
        )
    codes = np.array([code_of[label] for label in said], dtype=np.int64)
    return None if (codes == table.argmax(axis=1)).all() else codes


def _class_scores(estimator: Any, X: Any) -> tuple[Float[Array, "structures classes"], list[Any]]:
    for name in ("predict_proba", "decision_function"):
        if hasattr(estimator, name):
            scores = np.asarray(getattr(estimator, name)(X), dtype=np.float64)
            scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
            seen = np.asarray(estimator.classes_).tolist()
            if scores.shape[1] == len(seen):  # and not one for each pair of classes
                return scores, seen
    labels = np.asarray(estimator.predict(X))
    found = np.unique(labels)
    return (labels[:, None] == found).astype(np.float64), found.tolist()


def measured(metric: Metric, truth: Float[Array, " structures"], found: Predictions) -> Metrics:
    """Return all metrics of the task, None for what is undefined; the one asked for must be defined.

    Examples
    --------
    >>> measured(METRICS["mae"], np.array([1.0, 3.0]), Predictions(np.array([1.0, 2.0])))["mae"]
    0.5
    """
    values = found.values
    if not np.isfinite(values).all():
        wrong = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
        raise InputError(f"the model's prediction number {wrong} is not finite; there is nothing to measure")
    result = finite_metrics(found.measure(truth))
    if result[metric.name] is None:
        raise InputError(
            f"{metric.name} is undefined on the {len(truth)} structures of a test or validation part, which are of "
            f"one class or fewer than two; use fewer folds, a stratified split or another metric"
        )
    return result


def rounded(value: float | None, digits: int) -> float | None:
    """Return so many significant digits; None for what JSON has no number for."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
