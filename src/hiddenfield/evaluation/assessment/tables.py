"""From the results of the cells to the tables of an assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.cells import Cell, Context, accepts_aside
from hiddenfield.evaluation.assessment.measuring import better
from hiddenfield.evaluation.assessment.outcome import comparison_as_dict, summarise
from hiddenfield.evaluation.assessment.ranges import error_ranges
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.assessment.simple import BLIND_NAME
from hiddenfield.evaluation.leakage import find_leakage
from hiddenfield.evaluation.score import measure
from hiddenfield.evaluation.significance import corrected_t_test
from hiddenfield.evaluation.splits.base import digest
from hiddenfield.shapes import Array, Bool

__all__ = ["Finished", "collect"]

RESAMPLES = 1000


@dataclass(frozen=True)
class Finished:
    """What the cells gave.

    Parameters
    ----------
    results
        By key.
    candidates
        What was selected from.
    chosen
        For every fold what was selected.
    seeds
        Final fits a fold.
    """

    results: Mapping[str, Mapping[str, Any]]
    candidates: Sequence[Mapping[str, Any]]
    chosen: Sequence[Mapping[str, Any]]
    seeds: int

    def of(self, kind: str, fold: int) -> list[Mapping[str, Any]]:
        """Return the results of one kind in one fold, seed by seed; those that are there."""
        keys = [Cell(kind, fold, seed=seed).key for seed in range(self.seeds)]
        return [self.results[key] for key in keys if key in self.results]


def collect(context: Context, settings: AssessmentSettings, finished: Finished) -> dict[str, Any]:
    """Return plain values: everything but the seconds."""
    name, problem = context.metric.name, context.problem
    folds = [_fold(context, finished, fold) for fold in range(len(context.splits))]
    values = [fold["value"] for fold in folds]
    share = float(
        np.mean([len(s.test) for s in context.splits]) / np.mean([len(s.train) for s in context.splits])
    )
    summary = summarise(values, share, context.metric)
    if len(folds) == 1:
        summary["interval"] = _bootstrap(context, finished)
    estimator = context.estimator
    model = getattr(estimator, "model", None)
    content: dict[str, Any] = {
        "metric": name,
        **summary,
        "task": problem.task,
        "target": problem.target,
        "model": model if isinstance(model, str) else type(estimator).__name__,
        "structures": {"used": len(problem), "without target": problem.unanswered},
        "folds": folds,
        "protocol": _protocol(context, settings, finished, share),
        "baselines": _baselines(context, finished, values, share),
        "leakage": _leakage(context, finished),
    }
    if problem.classes is None:
        truth = np.concatenate([problem.truth[split.test] for split in context.splits])
        values_of = [_predictions(finished, fold) for fold in range(len(context.splits))]
        content["ranges"] = error_ranges(truth, np.concatenate(values_of))
    if settings.learning_curve:
        content["learning_curve"] = _learning_curve(context, settings, finished, values)
    if settings.as_published:
        content["as_published"] = _as_published(context, finished)
    return content


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


def _predictions(finished: Finished, fold: int) -> Array:
    """Return the predictions of one fold, averaged over the seeds."""
    return np.mean([np.asarray(result["predictions"]) for result in finished.of("final", fold)], axis=0)


def _bootstrap(context: Context, finished: Finished) -> list[float] | None:
    """Return a 95 % interval for a single split, from test structures drawn again with replacement."""
    truth, values = context.problem.truth[context.splits[0].test], _predictions(finished, 0)
    generator = np.random.default_rng(context.seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = generator.integers(len(truth), size=len(truth))
        found.append(measure(truth[drawn], values[drawn])[context.metric.name])
    known = np.array(found)[np.isfinite(found)]
    return None if len(known) < RESAMPLES / 2 else np.quantile(known, [0.025, 0.975]).tolist()


# -- beside the model --------------------------------------------------------------------------------------


def _baselines(
    context: Context, finished: Finished, values: Sequence[float], share: float
) -> dict[str, dict[str, Any]]:
    name, folds = context.metric.name, range(len(context.splits))
    columns: dict[str, list[Any]] = {}
    for fold in folds:
        for result in finished.of("simple", fold)[:1]:
            for model, metrics in result["scores"].items():
                columns.setdefault(model, []).append(metrics[name])
        blind = finished.of("blind", fold)
        if blind:
            columns.setdefault(BLIND_NAME, []).append(
                _mean_metrics([result["metrics"] for result in blind])[name]
            )
    result = {}
    for model, column in columns.items():
        if None in column:
            continue
        entry = {**summarise(column, share, context.metric), "folds": column}
        if len(column) > 1:
            found = corrected_t_test(list(values), column, share)
            entry["model_against_it"] = comparison_as_dict(found, name)
        result[model] = entry
    return result


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
            table = np.asarray(result["predictions"])[clean]
            value = (
                measure(context.problem.truth[split.test][clean], table)[context.metric.name]
                if clean.any()
                else np.nan
            )
            values.append(value)
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


# -- the protocol ------------------------------------------------------------------------------------------


def _protocol(
    context: Context, settings: AssessmentSettings, finished: Finished, share: float
) -> dict[str, Any]:
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
        parts.append(f"{count} candidate{'s' * (count > 1)}, selected by {context.metric.name} on {inner}")
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
