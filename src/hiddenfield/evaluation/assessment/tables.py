"""From the results of the cells to the tables of an assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.bootstrap import METHOD, OWN, difference, draw_again, interval
from hiddenfield.evaluation.assessment.cells import Cell, Context
from hiddenfield.evaluation.assessment.details import details, mean_size
from hiddenfield.evaluation.assessment.finished import Finished
from hiddenfield.evaluation.assessment.measuring import Predictions, better
from hiddenfield.evaluation.assessment.outcome import comparison_as_dict, summarise
from hiddenfield.evaluation.assessment.protocol import describe_protocol
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.assessment.simple import BLIND_NAME
from hiddenfield.evaluation.leakage import find_leakage
from hiddenfield.evaluation.significance import corrected_t_test
from hiddenfield.shapes import Array, Bool, Float

__all__ = ["collect"]


def collect(context: Context, settings: AssessmentSettings, finished: Finished) -> dict[str, Any]:
    """Return plain values: everything but the seconds."""
    name, problem = context.metric.name, context.problem
    folds = [_fold(context, finished, fold) for fold in range(len(context.splits))]
    values = [fold["value"] for fold in folds]
    share = float(
        np.mean([len(s.test) for s in context.splits]) / np.mean([len(s.train) for s in context.splits])
    )
    summary = summarise(values, share, context.metric)
    again = draw_again(context, finished) if len(folds) == 1 else {}
    if again:
        summary["interval"] = interval(again[OWN])
    estimator = context.estimator
    model = getattr(estimator, "model", None)
    content: dict[str, Any] = {
        "metric": name,
        **summary,
        "metrics": _mean_metrics([fold["metrics"] for fold in folds]),
        "task": problem.task,
        "target": problem.target,
        "model": model if isinstance(model, str) else type(estimator).__name__,
        "structures": _counts(context),
        "folds": folds,
        "protocol": describe_protocol(context, settings, finished, share),
        "baselines": _baselines(context, finished, values, share, again),
        "leakage": _leakage(context, finished),
    }
    content |= details(context, finished)
    if settings.learning_curve:
        content["learning_curve"] = _learning_curve(context, settings, finished, values)
    if settings.as_published:
        content["as_published"] = _as_published(context, finished)
    return content


def _counts(context: Context) -> dict[str, int]:
    """Return how many structures there are, and how many of them some split tests on, and none contains."""
    tested, seen = np.zeros((2, len(context.problem)), dtype=bool)
    for split in context.splits:
        tested[split.test] = True
        seen[split.train] = True
    return {
        "used": len(context.problem),
        "without target": context.problem.unanswered,
        "tested": int(tested.sum()),
        "in no split": int((~(tested | seen)).sum()),
    }


def _fold(context: Context, finished: Finished, fold: int) -> dict[str, Any]:
    split, results = context.splits[fold], finished.of("final", fold)
    metrics = _mean_metrics([result["metrics"] for result in results])
    entry: dict[str, Any] = {
        "name": split.name,
        "value": metrics[context.metric.name],
        "seeds": [result["metrics"][context.metric.name] for result in results],
        "metrics": metrics,
        "train": len(split.train),
        "test": len(split.test),
        "selected": dict(finished.chosen[fold]),
    }
    if all("epochs" in result for result in results):
        entry["epochs"] = [epoch for result in results for epoch in result["epochs"]]
    return entry


def _mean_metrics(several: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    return {
        name: None if any(m[name] is None for m in several) else float(np.mean([m[name] for m in several]))  # type: ignore[arg-type]
        for name in several[0]
    }


# -- beside the model --------------------------------------------------------------------------------------


def _baselines(
    context: Context,
    finished: Finished,
    values: Sequence[float],
    share: float,
    again: Mapping[str, Float[Array, " draws"]],
) -> dict[str, dict[str, Any]]:
    name, folds = context.metric.name, range(len(context.splits))
    columns: dict[str, list[Any]] = {}
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for fold in folds:
        for result in finished.of("simple", fold)[:1]:
            for model, metrics in result["scores"].items():
                columns.setdefault(model, []).append(metrics[name])
                count = result.get("num_parameters", {}).get(model)
                cells.setdefault(model, []).append({"metrics": metrics, "num_parameters": count})
        blind = finished.of("blind", fold)
        if blind:
            columns.setdefault(BLIND_NAME, []).append(
                _mean_metrics([result["metrics"] for result in blind])[name]
            )
            cells.setdefault(BLIND_NAME, []).extend(blind)
    result = {}
    for model, column in columns.items():
        if None in column:
            continue
        entry = {**summarise(column, share, context.metric), "folds": column}
        entry["metrics"] = _mean_metrics([cell["metrics"] for cell in cells[model]])
        size = mean_size(cells[model])
        if size is not None:
            entry["num_parameters"] = size
        if len(column) > 1:
            found = corrected_t_test(list(values), column, share)
            entry["model_against_it"] = comparison_as_dict(found, name)
        elif model in again:
            entry |= _of_draws(values[0] - column[0], again[OWN], again[model], name)
        result[model] = entry
    return result


def _of_draws(
    mean: float, own: Float[Array, " draws"], other: Float[Array, " draws"], metric: str
) -> dict[str, Any]:
    """Return the interval of a simple model on a single split, and how the assessed one compares."""
    entry: dict[str, Any] = {"interval": interval(other)}
    found = difference(mean, own, other)
    if found is not None:
        entry["model_against_it"] = comparison_as_dict(found, metric) | {"method": METHOD}
    return entry


def _leakage(context: Context, finished: Finished) -> dict[str, Any] | None:
    """Return which test structures had copies in training, and the mean without them; None for a table."""
    problem = context.problem
    if not isinstance(problem.X, Structures):
        return None
    found = find_leakage(problem.X, context.splits, problem.truth)
    return found.as_dict() | {"mean_without": _mean_without(context, finished, found.leaked)}


def _mean_without(context: Context, finished: Finished, leaked: Sequence[Bool[Array, " _"]]) -> float | None:
    """Return what the mean would be on the test structures that have no copy in training."""
    values = []
    for fold, split in enumerate(context.splits):
        clean = ~leaked[fold]
        for result in finished.of("final", fold):
            truth, table = context.problem.truth[split.test][clean], Predictions.kept(result)[clean]
            values.append(table.measure(truth)[context.metric.name] if clean.any() else np.nan)
    return float(np.mean(values)) if np.isfinite(values).all() else None


def _learning_curve(
    context: Context, settings: AssessmentSettings, finished: Finished, values: Sequence[float]
) -> list[dict[str, Any]]:
    """Return a row for every share of the training structures, the whole last."""
    name, folds = context.metric.name, range(len(context.splits))
    rows = []
    for share in sorted(settings.learning_curve):
        results = [finished.results[Cell("curve", fold, fraction=share).key] for fold in folds]
        row: dict[str, Any] = {
            "share": share,
            "train": float(np.mean([result["size"] for result in results])),
            "values": [result["metrics"][name] for result in results],
            "baselines": {},
        }
        keys = [Cell("simple", fold, fraction=share).key for fold in folds]
        if all(key in finished.results for key in keys):
            for model in finished.results[keys[0]]["scores"]:
                row["baselines"][model] = [finished.results[key]["scores"][model][name] for key in keys]
        rows.append(row)
    last: dict[str, Any] = {
        "share": 1.0,
        "train": float(np.mean([len(s.train) for s in context.splits])),
        "values": list(values),
        "baselines": {},
    }
    for model in rows[0]["baselines"]:
        last["baselines"][model] = [finished.of("simple", f)[0]["scores"][model][name] for f in folds]
    return [*rows, last]


def _as_published(context: Context, finished: Finished) -> dict[str, Any]:
    """Return what selecting settings and epoch by the mean over the reported folds would have printed."""
    folds, best = range(len(context.splits)), None
    for part, candidate in enumerate(finished.candidates):
        curves = [finished.results[Cell("published", fold, part=part).key]["curve"] for fold in folds]
        length = min(map(len, curves))
        table = np.array([[np.nan if v is None else v for v in curve[:length]] for curve in curves])
        means = table.mean(axis=0)
        signed = np.where(np.isnan(means), -np.inf, means if context.metric.higher_is_better else -means)
        epoch = int(signed.argmax())
        if best is None or better(context.metric, float(means[epoch]), best["mean"]):
            best = {
                "mean": float(means[epoch]),
                "std": float(table[:, epoch].std(ddof=1)) if len(table) > 1 else None,
                "folds": table[:, epoch].tolist(),
                "selected": dict(candidate),
                "epoch": epoch + 1,
            }
    assert best is not None
    return best | {"text": "settings and epoch selected by the mean over the reported folds: too good"}
