"""Details of an assessment: size, training curve, ROC curve, errors by range, bootstrap draws, leakage."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.cells import BLIND_NAME, BaselineResult, Cell, Context, FinalResult
from hiddenfield.evaluation.measuring import Predictions, rounded
from hiddenfield.evaluation.records import ErrorRange, LeakageRecord, Roc, RocCurve, TrainingCurve
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.kernels.refinement import copy_classes
from hiddenfield.learning.metrics import roc_auc, roc_curve
from hiddenfield.shapes import Array, Bool, Float, Int

# The false positive rates at which ROC curves are averaged.
GRID = np.linspace(0.0, 1.0, 101)
# Points of a training curve, at most.
POINTS = 200
# Equally wide ranges of the target.
RANGES = 10
# More pairs of ids of copies than this are counted, not listed.
MOST_LISTED = 100
# Bootstrap draws of the test structures of a single split, and structures in all draws.
RESAMPLES, FEWEST_RESAMPLES, MOST_DRAWN = 1000, 200, 20_000_000

M = TypeVar("M", bound=Hashable)


@dataclass(frozen=True)
class Finished:
    """Results of all cells.

    Parameters
    ----------
    results
        By the key of the cell.
    candidates
        What was selected from.
    chosen
        For every fold the selected parameters.
    seeds
        Final fits per fold.
    """

    results: Mapping[str, Any]
    candidates: Sequence[Mapping[str, Any]]
    chosen: Sequence[Mapping[str, Any]]
    seeds: int

    def finals(self, fold: int, kind: str = "final") -> list[FinalResult]:
        """Return the final results of one fold, seed by seed; those without arcs where `kind` is ``"blind"``."""
        keys = [Cell(kind, fold, seed=seed).key for seed in range(self.seeds)]
        return [self.results[key] for key in keys if key in self.results]

    def baselines(self, fold: int, share: float = 1.0) -> BaselineResult:
        """Return the results of the baselines in one fold, fitted to a share of the training part; none without any."""
        return self.results.get(Cell("simple", fold, fraction=share).key, BaselineResult({}))

    def predictions(self, fold: int, kind: str = "final") -> Array:
        """Return the predictions of one fold, averaged over the seeds."""
        return np.mean([np.asarray(result.predictions) for result in self.finals(fold, kind)], axis=0)


def mean_size(sizes: Sequence[int | None]) -> int | None:
    """Return the mean number of trained weights, rounded; None where one is unknown."""
    known = [size for size in sizes if size is not None]
    return round(float(np.mean(known))) if known and len(known) == len(sizes) else None


# -- a single split ----------------------------------------------------------------------------------------


def bootstrap_draws(
    context: Context, finished: Finished
) -> tuple[dict[str, Float[Array, " draws"]], dict[str, Float[Array, " draws"]]]:
    """Return all metrics of the model, and the one of each baseline, on 1000 bootstrap draws of the test structures.

    The draws are the same for all, and the value of a draw is the mean over the seeds. Baselines are included whose
    predictions were kept. The metric of a draw where it is not defined, for example with one class only, is NaN.
    """
    truth, name = context.problem.truth[context.splits[0].test], context.metric.name
    own = metric_draws(truth, {"": [result.kept() for result in finished.finals(0)]}, context.seed)[""]
    others = metric_draws(truth, _kept_baselines(finished, len(truth)), context.seed, name)
    return own, {model: draws[name] for model, draws in others.items()}


def metric_draws(
    truth: Float[Array, " structures"],
    tables: Mapping[M, Sequence[Predictions]],
    seed: int,
    only: str | None = None,
) -> dict[M, dict[str, Float[Array, " draws"]]]:
    """Return metrics of models, or `only` one, on the same bootstrap draws of the test structures.

    There are 1000 draws, fewer for more than 20,000 structures, at least 200. Draws of a single structure say nothing:
    they are NaN.

    Parameters
    ----------
    truth
        Numbers, or class codes.
    tables
        For every model its predictions, seed by seed; the value of a draw is the mean over the seeds.
    seed
        Of the draws.
    only
        A metric.
    """
    count, generator = len(truth), np.random.default_rng(seed)
    found: dict[M, dict[str, list[float]]] = {model: {} for model in tables}
    for _ in range(max(FEWEST_RESAMPLES, min(RESAMPLES, MOST_DRAWN // max(count, 1)))):
        drawn = generator.integers(count, size=count)
        for model, several in tables.items():
            values = [table[drawn].measure(truth[drawn], only) for table in several]
            for name in values[0]:
                value = float(np.mean([value[name] for value in values])) if count > 1 else math.nan
                found[model].setdefault(name, []).append(value)
    return {model: {name: np.array(v) for name, v in draws.items()} for model, draws in found.items()}


def _kept_baselines(finished: Finished, count: int) -> dict[str, list[Predictions]]:
    found: dict[str, list[Predictions]] = {}
    for name, rows in finished.baselines(0).tables.items():
        found[name] = [Predictions.spread(np.asarray(rows, dtype=np.float64), count)]
    blind = [result.kept() for result in finished.finals(0, "blind")]
    return found | ({BLIND_NAME: blind} if blind else {})


# -- training ----------------------------------------------------------------------------------------------


def training_curve(records: Sequence[Mapping[str, Sequence[float | None]]], metric: str) -> TrainingCurve:
    """Return the means over the records after each epoch, at most 200 of them, evenly spread, the last included.

    Networks that stopped early count as long as they trained; ``runs`` says how many those were.

    Parameters
    ----------
    records
        One per network, as a `FinalResult` keeps them.
    metric
        The one that the assessment reports.

    Returns
    -------
    TrainingCurve
        Its ``metric`` names the column to look at: the metric itself where it was recorded, else the loss.

    Examples
    --------
    >>> records = [
    ...     {"steps": [5, 10], "valid_loss": [1.0, 0.5]},
    ...     {"steps": [5, 10, 15], "valid_loss": [2.0, 1.5, 0.3]},
    ... ]
    >>> found = training_curve(records, "roc_auc")
    >>> found.metric, found.steps, found.runs, found.valid_loss
    ('valid_loss', [5, 10, 15], [2, 2, 1], [1.5, 1.0, 0.3])
    """
    count = max(len(record["steps"]) for record in records)
    shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64))
    known = [name for name in records[0] if name in TrainingCurve.__struct_fields__ and name != "steps"]
    columns = [name for name in known if all(name in record for record in records)]
    chosen = next((name for name in (f"valid_{metric}", "valid_loss") if name in columns), "train_loss")
    # (records, epochs), NaN where there is nothing.
    tables = {
        name: np.array([*zip_longest(*(record[name] for record in records))], dtype=np.float64).T
        for name in ("steps", *columns)
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        means = {name: np.nanmean(table, axis=0)[shown] for name, table in tables.items()}
    return TrainingCurve(
        metric=chosen,
        epochs=(shown + 1).tolist(),
        steps=[round(value) for value in means["steps"].tolist()],
        runs=(~np.isnan(tables["steps"])).sum(axis=0)[shown].tolist(),
        **{name: [rounded(value, 5) for value in means[name].tolist()] for name in columns},
    )


# -- ROC curves --------------------------------------------------------------------------------------------


def find_roc(context: Context, finished: Finished) -> Roc | None:
    """Return the curve of the model on two classes and those of the baselines that kept their scores in every fold."""
    problem, folds = context.problem, range(len(context.splits))
    truths = [problem.truth[split.test] for split in context.splits]
    own = mean_roc(truths, [finished.predictions(fold)[:, 1] for fold in folds])
    if own is None or problem.classes is None:
        return None
    scores: dict[str, list[Float[Array, " _"]]] = {}
    for fold in folds:
        for name, values in finished.baselines(fold).predictions.items():
            scores.setdefault(name, []).append(np.asarray(values, dtype=np.float64))
        if finished.finals(fold, "blind"):
            scores.setdefault(BLIND_NAME, []).append(finished.predictions(fold, "blind")[:, 1])
    curves = {name: mean_roc(truths, column) for name, column in scores.items() if len(column) == len(folds)}
    return Roc(
        str(problem.classes[1]),
        GRID.round(4).tolist(),
        own.true_positive,
        own.std,
        own.auc,
        {name: curve for name, curve in curves.items() if curve is not None},
    )


def mean_roc(truths: Sequence[Float[Array, " _"]], scores: Sequence[Float[Array, " _"]]) -> RocCurve | None:
    """Return the ROC curves of several folds, averaged at fixed false positive rates (vertical averaging).

    Parameters
    ----------
    truths
        For each fold the class codes, 1 for members.
    scores
        For each fold a number that is higher for what is more probably a member.

    Returns
    -------
    RocCurve or None
        True positive rates and their deviation over the folds (None for one fold), at the rates of `GRID`; the area of
        all folds pooled: it compares scores across folds, which the mean of their areas does not. Folds of one class
        are left out of the curve; None where all are.

    References
    ----------
    T. Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006).

    Examples
    --------
    >>> found = mean_roc(
    ...     [np.array([0.0, 1.0, 1.0])] * 2, [np.array([0.1, 0.9, 0.8]), np.array([0.5, 0.9, 0.1])]
    ... )
    >>> found.auc, found.true_positive[0], found.std[100]
    (0.8125, 0.75, 0.0)
    """
    pooled = roc_auc(np.concatenate(list(truths)), np.concatenate(list(scores)))
    known = [
        roc_curve(truth == 1, values)
        for truth, values in zip(truths, scores, strict=True)
        if 0 < (truth == 1).sum() < len(truth)
    ]
    # Where a curve is vertical, this is its upper end.
    curves = [np.interp(GRID.round(9), false.round(9), true) for false, true in known]
    if not curves or math.isnan(pooled):
        return None
    table = np.stack(curves)
    std = table.std(axis=0, ddof=1).round(4).tolist() if len(table) > 1 else None
    return RocCurve(table.mean(axis=0).round(4).tolist(), std, round(pooled, 6))


# -- errors ------------------------------------------------------------------------------------------------


def error_ranges(
    truth: Float[Array, " predictions"], predicted: Float[Array, " predictions"], parts: int = RANGES
) -> list[ErrorRange]:
    """Return the mean absolute error and the bias in equally wide ranges of the target, None in an empty range.

    Examples
    --------
    >>> error_ranges(np.array([0.0, 1.0, 10.0]), np.array([0.5, 1.0, 8.0]), parts=2)[1]
    ErrorRange(low=5.0, high=10.0, count=1, mae=2.0, bias=-2.0)
    """
    bounds = np.linspace(truth.min(), truth.max(), parts + 1).tolist()
    place = np.clip(np.searchsorted(bounds, truth, side="right") - 1, 0, parts - 1)
    rows = []
    for part in range(parts):
        errors = (predicted - truth)[place == part]
        mae = float(np.abs(errors).mean()) if len(errors) else None
        bias = float(errors.mean()) if len(errors) else None
        rows.append(ErrorRange(bounds[part], bounds[part + 1], len(errors), mae, bias))
    return rows


# -- leakage -----------------------------------------------------------------------------------------------


def find_leakage(
    structures: Structures,
    splits: Sequence[Split],
    y: Any = None,
    copies: Int[Array, " structures"] | None = None,
) -> tuple[LeakageRecord, list[Bool[Array, " _"]]]:
    """Find the test structures of which an isomorphic copy, with the same labels and attributes, is trained on.

    Copies are found by `hiddenfield.kernels.copy_classes`. They are reported and left where they are: whether a copy is
    a mistake or a fact of the world (two stereoisomers, written without their centres) is for the user to say.

    Parameters
    ----------
    structures
        All of them.
    splits
        Their splits.
    y
        (structures,) targets, to count the copies that contradict each other.
    copies
        Their numbers by `hiddenfield.kernels.copy_classes`, where they are known.

    Returns
    -------
    The record, with the ids of at most 100 pairs and without a mean, and for every split which of its test structures
    have a copy in its training part.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GAT", "TAG", "CAT", "CC"])
    >>> found, leaked = find_leakage(words, [Split("fold 1", np.array([0, 2]), np.array([1, 3]))])
    >>> found.count, found.ids, leaked
    (1, [['1', '0']], [array([ True, False])])
    """
    numbers, names = copy_classes(structures) if copies is None else copies, structures.ids
    names = np.arange(len(structures)) if names is None else names
    answers = None if y is None else np.asarray(y)
    leaked, pairs, contradicting = [], [], 0
    for split in splits:
        # Sorted by class, and as they were within one, so that copies stand together and are not looked for each time.
        train = split.train[np.argsort(numbers[split.train], kind="stable")]
        low, high = (np.searchsorted(numbers[train], numbers[split.test], side) for side in ("left", "right"))
        copied = low < high
        leaked.append(copied)
        for place in np.flatnonzero(copied).tolist():
            position, copies = int(split.test[place]), train[low[place] : high[place]]
            pairs.append([str(names[position]), str(names[copies[0]])])
            contradicting += answers is not None and not bool((answers[copies] == answers[position]).any())
    folds = [int(part.sum()) for part in leaked]
    share = sum(folds) / max(sum(map(len, leaked)), 1)
    return LeakageRecord(sum(folds), share, contradicting, folds, pairs[:MOST_LISTED], None), leaked
