"""From the results of the cells to the record of an assessment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.cells import BLIND_NAME, Cell, Context, accepts_held_out
from hiddenfield.evaluation.assessment.details import (
    Finished,
    bootstrap_draws,
    error_ranges,
    find_leakage,
    find_roc,
    mean_size,
    training_curve,
)
from hiddenfield.evaluation.assessment.settings import DEFAULT_SPACE, AssessmentSettings, Between, grid
from hiddenfield.evaluation.baselines import finite_table
from hiddenfield.evaluation.measuring import better
from hiddenfield.evaluation.records import (
    AsPublished,
    Assessment,
    BaselineRecord,
    ComparisonRecord,
    Counts,
    FoldRecord,
    LeakageRecord,
    LearningPoint,
    Metrics,
    Protocol,
    finite,
    finite_metrics,
)
from hiddenfield.evaluation.significance import (
    bootstrap_comparison,
    bootstrap_interval,
    comparison_record,
    corrected_t_test,
    summarise,
)
from hiddenfield.evaluation.splits.base import automatic_split, digest
from hiddenfield.shapes import Array, Float

Draws = Mapping[str, Float[Array, " draws"]]
"""By metric, or by baseline."""


def collect(context: Context, settings: AssessmentSettings, finished: Finished, started: float) -> Assessment:
    """Return the record of an assessment that was started at a time of `time.perf_counter`."""
    problem, places = context.problem, range(len(context.splits))
    folds = [_fold(context, finished, fold) for fold in places]
    values = [fold.value for fold in folds]
    share = float(
        np.mean([len(s.test) for s in context.splits]) / np.mean([len(s.train) for s in context.splits])
    )
    summary = summarise(values, share, context.metric)
    drawn, others = bootstrap_draws(context, finished) if len(folds) == 1 else ({}, {})
    intervals = {name: bootstrap_interval(values) for name, values in drawn.items()}
    finals = [result for fold in places for result in finished.finals(fold)]
    records = [result.training for result in finals]
    curves = [record for several in records for record in several or ()]
    ranges = None
    if problem.classes is None:
        truth = np.concatenate([problem.truth[split.test] for split in context.splits])
        ranges = error_ranges(truth, np.concatenate([finished.predictions(fold) for fold in places]))
    model = getattr(context.estimator, "model", None)
    return Assessment(
        metric=context.metric.name,  # type: ignore[arg-type]
        mean=summary.mean,
        std=summary.std,
        interval=intervals.get(context.metric.name, summary.interval),
        metrics=_mean_metrics([fold.metrics for fold in folds]),
        intervals=intervals,
        task=problem.task,
        target=problem.target,
        model=model if isinstance(model, str) else type(context.estimator).__name__,
        structures=_counts(context),
        folds=folds,
        protocol=_protocol(context, settings, finished, share),
        baselines=_baselines(context, finished, values, share, drawn.get(context.metric.name), others),
        leakage=_leakage(context, finished),
        num_parameters=mean_size([result.num_parameters for result in finals]),
        training_curve=None if None in records else training_curve(curves, context.metric.name),
        roc=find_roc(context, finished) if len(problem.classes or ()) == 2 else None,
        ranges=ranges,
        learning_curve=_learning_curve(context, settings, finished, values),
        as_published=_as_published(context, finished) if settings.as_published else None,
        seconds=round(time.perf_counter() - started, 3),
    )


def _counts(context: Context) -> Counts:
    """Count the structures, those in some test part, and those in no part of any split."""
    problem = context.problem
    tested = np.unique(np.concatenate([split.test for split in context.splits]))
    seen = np.unique(np.concatenate([tested, *(split.train for split in context.splits)]))
    return Counts(len(problem), problem.unanswered, len(tested), len(problem) - len(seen))


def _fold(context: Context, finished: Finished, fold: int) -> FoldRecord:
    split, results, name = context.splits[fold], finished.finals(fold), context.metric.name
    metrics = _mean_metrics([result.metrics for result in results])
    epochs = [result.epochs for result in results]
    return FoldRecord(
        split.name,
        _value(metrics, name),
        [_value(result.metrics, name) for result in results],
        metrics,
        len(split.train),
        len(split.test),
        dict(finished.chosen[fold]),
        None if None in epochs else [epoch for several in epochs for epoch in several or ()],
        None if split.validation is None else len(split.validation),
    )


def _value(metrics: Metrics, name: str) -> float:
    """Return a metric that is known to be there: a cell whose metric is not defined is an error."""
    value = metrics[name]
    assert value is not None
    return value


def _mean_metrics(several: Sequence[Metrics]) -> Metrics:
    # None becomes NaN, and NaN None.
    return {
        name: finite(np.array([metrics[name] for metrics in several], dtype=np.float64).mean())
        for name in several[0]
    }


# -- baselines ---------------------------------------------------------------------------------------------


def _baselines(
    context: Context,
    finished: Finished,
    values: list[float],
    share: float,
    own: Float[Array, " draws"] | None,
    others: Draws,
) -> dict[str, BaselineRecord]:
    """Return those whose metric is defined in every fold."""
    name = context.metric.name
    # For every baseline and fold the metrics and the sizes, seed by seed.
    found: dict[str, list[list[tuple[Metrics, int | None]]]] = {}
    for fold in range(len(context.splits)):
        result = finished.baselines(fold)
        for model, metrics in result.scores.items():
            found.setdefault(model, []).append([(metrics, result.num_parameters.get(model))])
        blind = finished.finals(fold, "blind")
        if blind:
            found.setdefault(BLIND_NAME, []).append([(cell.metrics, cell.num_parameters) for cell in blind])
    records = {}
    for model, cells in found.items():
        column = [_mean_metrics([metrics for metrics, _ in seeds])[name] for seeds in cells]
        folds = [value for value in column if value is not None]
        if len(folds) < len(column):
            continue
        summary = summarise(folds, share, context.metric)
        interval = bootstrap_interval(others[model]) if model in others else summary.interval
        against: ComparisonRecord | None = None
        if len(folds) > 1:
            against = comparison_record(corrected_t_test(values, folds, share), name)
        elif own is not None and model in others:
            against = bootstrap_comparison(values[0] - folds[0], own, others[model], name)
        records[model] = BaselineRecord(
            summary.mean,
            summary.std,
            interval,
            folds,
            _mean_metrics([metrics for seeds in cells for metrics, _ in seeds]),
            mean_size([size for seeds in cells for _, size in seeds]),
            against,
            finished.baselines(0).seconds.get(model),
            finished.baselines(0).notes.get(model, ""),
        )
    return records


def _leakage(context: Context, finished: Finished) -> LeakageRecord | None:
    """Return which test structures had copies in training, and the means without them; None for a table."""
    problem = context.problem
    values: list[Metrics] = []
    if not isinstance(problem.X, Structures):
        return None
    found, leaked = find_leakage(problem.X, context.splits, problem.truth, problem.copies)
    for fold, split in enumerate(context.splits):
        clean = ~leaked[fold]
        for result in finished.finals(fold):
            truth, table = problem.truth[split.test][clean], result.kept()[clean]
            values.append(
                finite_metrics(table.measure(truth)) if clean.any() else dict.fromkeys(result.metrics)
            )
    without = _mean_metrics(values)
    known = without if any(value is not None for value in without.values()) else None
    return msgspec.structs.replace(found, mean_without=without[context.metric.name], metrics_without=known)


def _learning_curve(
    context: Context, settings: AssessmentSettings, finished: Finished, values: list[float]
) -> list[LearningPoint] | None:
    """Return a point for every share of the training structures, the whole last; None where none was requested."""
    if not settings.learning_curve:
        return None
    name, folds = context.metric.name, range(len(context.splits))
    points = []
    for share in (*sorted(settings.learning_curve), 1.0):
        if share < 1.0:
            results = [finished.results[Cell("curve", fold, fraction=share).key] for fold in folds]
            size = float(np.mean([result.size for result in results]))
            column = [result.metrics[name] for result in results]
        else:
            size, column = float(np.mean([len(split.train) for split in context.splits])), values
        scores = [finished.baselines(fold, share).scores for fold in folds]
        baselines = {model: [fold[model][name] for fold in scores] for model in scores[0]}
        points.append(LearningPoint(share, size, column, baselines))
    return points


def _as_published(context: Context, finished: Finished) -> AsPublished:
    """Return the result of selecting settings and epoch by the mean over the reported folds."""
    folds, best = range(len(context.splits)), None
    for part, candidate in enumerate(finished.candidates):
        curves = [finished.results[Cell("published", fold, part=part).key].curve for fold in folds]
        length = min(map(len, curves))
        table = np.array([curve[:length] for curve in curves], dtype=np.float64)  # None becomes NaN
        means = table.mean(axis=0)
        signed = np.where(np.isnan(means), -np.inf, means if context.metric.higher_is_better else -means)
        epoch = int(signed.argmax())
        if best is None or better(context.metric, float(means[epoch]), best.mean):
            best = AsPublished(
                float(means[epoch]),
                float(table[:, epoch].std(ddof=1)) if len(table) > 1 else None,
                table[:, epoch].tolist(),
                dict(candidate),
                epoch + 1 if length > 1 else None,
                f"settings {'and epoch ' * (length > 1)}selected by the mean over the reported folds: too good",
            )
    assert best is not None
    return best


# -- protocol ----------------------------------------------------------------------------------------------


def _protocol(context: Context, settings: AssessmentSettings, finished: Finished, share: float) -> Protocol:
    """Describe how the assessment was done; `share` is n_test / n_train."""
    how = settings.split if isinstance(settings.split, str) else "given"
    if how == "auto":
        how = automatic_split(settings.split_file, settings.repeats, context.problem.classes is not None)
    words, X, note = _in_words(context, settings, finished, how), context.problem.X, None
    if settings.baselines and not isinstance(X, Structures) and finite_table(X) is None:
        note = "no linear baseline: not all features are finite numbers"
    return Protocol(
        text=words if note is None else f"{words}; {note}",
        split=how,
        folds=len(context.splits),
        nested=settings.nested,
        inner=settings.inner_in_words() if settings.nested else None,
        candidates=[dict(candidate) for candidate in finished.candidates],
        seeds=finished.seeds,
        seed=settings.seed,
        test_share=share,
        interval="corrected resampled t" if len(context.splits) > 1 else "bootstrap of the test structures",
        data=context.problem.fingerprint(),
        splits=digest(context.splits),
        note=note,
    )


def _in_words(context: Context, settings: AssessmentSettings, finished: Finished, how: str) -> str:
    parts = [f"{len(context.splits)} split{'s' * (len(context.splits) > 1)} ({how})"]
    inner = settings.inner_in_words()
    if settings.inner == "hold_out" and any(split.validation is not None for split in context.splits):
        inner = "inner hold-out as given"
    if settings.nested:
        count, drawn = len(finished.candidates), " drawn at random" * _are_drawn(settings, finished)
        several = f"{count} candidates{drawn}, selected by {context.metric.name} on {inner}"
        parts.append(several if count > 1 else f"1 candidate{drawn}, nothing to select from")
    else:
        parts.append("settings given, none selected")
    where = _epoch_chosen_on(context, settings)
    if where is not None:
        # Without a selection that names it, the inner split is named here.
        named = f" ({inner})" if settings.nested and len(finished.candidates) == 1 else ""
        parts.append(f"epoch chosen on {where}{named}")
    parts.append(f"{finished.seeds} final fit{'s' * (finished.seeds > 1)} per split")
    return "; ".join(parts)


def _epoch_chosen_on(context: Context, settings: AssessmentSettings) -> str | None:
    """Return where the epoch is chosen; None where it is not, or is unknown, as of estimators from elsewhere.

    Others have a parameter `validation_fraction` too, which some of them use only together with another one.
    """
    if settings.nested and accepts_held_out(context.estimator):
        return "the inner validation part"
    own = isinstance(context.estimator, StructureEstimator)
    return "a share of the training part" if own and context.estimator.validation_fraction else None


def _are_drawn(settings: AssessmentSettings, finished: Finished) -> bool:
    """Return whether there were more candidates than were tried."""
    if settings.draws is None:
        return False
    space = settings.space or {name: DEFAULT_SPACE[name] for name in finished.candidates[0]}
    ranges = any(isinstance(values, Between) for values in space.values())
    return ranges or len(grid(space)) > len(finished.candidates)
