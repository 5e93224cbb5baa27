"""A fitted estimator on its held-out structures: metrics with intervals, baselines, copies, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.estimators import StructureEstimator
from hiddenfield.evaluation.assessment.details import find_leakage, metric_draws
from hiddenfield.evaluation.baselines import constant_score, fit_baselines
from hiddenfield.evaluation.measuring import METRICS, NAMES, Predictions, Score, better, measure
from hiddenfield.evaluation.records import (
    ComparisonRecord,
    Interval,
    LeakageRecord,
    Metrics,
    PartSizes,
    ScoreRecord,
    finite_metrics,
)
from hiddenfield.evaluation.significance import bootstrap_comparison, bootstrap_interval, comparison_record
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.shapes import Array, Bool, Float

METHOD = "paired bootstrap of the test structures"

# With fewer test structures nothing can be said about a difference.
FEW_TESTED = 20
# From this share of test structures on, copies are worth a warning.
WORTH_WARNING = 0.01
# Targets that a warning lists.
MOST_LISTED = 5


@dataclass(frozen=True)
class Measured:
    """One target on the test structures: metrics, intervals, comparison (the model last), counts of its entries."""

    target: str
    metrics: Metrics
    intervals: Mapping[str, Interval | None]
    comparison: Sequence[ScoreRecord]
    entries: PartSizes
    without_copies: Metrics | None

    @property
    def constant(self) -> ScoreRecord:
        """Predicting without a model: the mean, or the class frequencies."""
        return self.comparison[0]

    @property
    def main(self) -> str:
        """The metric by which models are compared."""
        return "mae" if "mae" in self.metrics else "accuracy"

    def value(self, name: str) -> float:
        """Return a metric of the model; NaN where it is not defined."""
        found = self.metrics[name]
        return np.nan if found is None else found

    def best_baseline(self) -> ScoreRecord | None:
        """Return the best of the baselines that see something of the structures; None where none was fitted."""
        best, known = None, np.nan
        for score in self.comparison[1:-1]:
            value = score.metrics[self.main]
            if value is not None and better(METRICS[self.main], value, known):
                best, known = score, value
        return best


def measure_targets(
    estimator: StructureEstimator,
    structures: Structures,
    split: Split,
    *,
    seed: int = 0,
    baselines: bool = True,
) -> tuple[list[Measured], LeakageRecord | None]:
    """Measure every target of a fitted estimator on the test part of a split, and find copies in training.

    Parameters
    ----------
    estimator
        Fitted to ``split.train``, of which ``split.validation`` chose the epoch.
    structures
        With the targets, as the estimator was given them.
    split
        Positions.
    seed
        Of the bootstrap.
    baselines
        Whether linear models on counted labels and colours are fitted too, for every target.

    Returns
    -------
    list of Measured, LeakageRecord
        Targets that no test structure has are left out. The record is None without test structures.
    """
    if not len(split.test):
        return [], None
    assert structures.targets is not None
    truth = structures.targets.cpu().numpy().astype(np.float64)
    copies = find_leakage(structures, [split], truth[:, 0] if truth.shape[1] == 1 else None)
    leakage = LeakageRecord(**copies.as_dict(), mean_without=None)
    parameters = sum(network.num_parameters for network in estimator.networks_)
    seconds = sum(row["seconds"] for history in estimator.histories_ for row in history.rows)
    found = []
    for k, members in enumerate(estimator._predictions(structures[split.test])):
        name, predicted = structures.target_names[k], members.mean(axis=0)
        present = ~np.isnan(truth[split.test, k])
        if not present.any():
            continue
        own = Score(str(estimator.model), measure(truth[split.test, k][present], predicted[present]))
        own = Score(own.name, own.metrics, parameters, seconds, _networks(estimator), predicted[present])
        others = _baselines(structures, split, k, name, own, baselines)
        found.append(_measured(truth[:, k], split, name, own, others, ~copies.leaked[0][present], seed))
    return found, leakage


def _networks(estimator: StructureEstimator) -> str:
    return f"{len(estimator.networks_)} networks" if len(estimator.networks_) > 1 else ""


def _baselines(
    structures: Structures, split: Split, k: int, name: str, own: Score, fitted: bool
) -> list[Score]:
    """Return the constant and, if wanted and possible, the linear baselines of one target."""
    assert structures.targets is not None
    values = structures.targets[:, k].cpu().numpy().astype(np.float64)
    before, after = (values[part][~np.isnan(values[part])] for part in (split.train, split.test))
    classes = None if own.predictions is None or own.predictions.ndim == 1 else own.predictions.shape[1]
    if fitted and (classes is None or len(np.unique(before)) > 1):
        return fit_baselines(structures[split.train], structures[split.test], target=name)
    return [constant_score(before, after, classes)]


def _measured(
    values: Float[Array, " structures"],
    split: Split,
    name: str,
    own: Score,
    others: Sequence[Score],
    clean: Bool[Array, " tested"],
    seed: int,
) -> Measured:
    truth = values[split.test][~np.isnan(values[split.test])]
    main = next(iter(own.metrics))
    assert own.predictions is not None
    mine = metric_draws(truth, {"": [Predictions(own.predictions)]}, seed)[""]
    tables = {score.name: [Predictions(_spread(score, len(truth)))] for score in others}
    draws = metric_draws(truth, tables, seed, main)
    rows = []
    for score in others:
        difference = own.metrics[main] - score.metrics[main]
        test = bootstrap_comparison(difference, mine[main], draws[score.name][main])
        against = None if test is None else comparison_record(test, main, METHOD)
        rows.append(_row(score, against))
    cleaned = measure(truth[clean], own.predictions[clean]) if clean.any() and not clean.all() else None
    validation = split.validation if split.validation is not None else split.test[:0]
    rest = np.setdiff1d(split.train, validation)
    return Measured(
        name,
        finite_metrics(own.metrics),
        {metric: bootstrap_interval(drawn) for metric, drawn in mine.items()},
        [*rows, _row(own, None)],
        PartSizes(*(int((~np.isnan(values[part])).sum()) for part in (rest, validation, split.test))),
        None if cleaned is None else finite_metrics(cleaned),
    )


def _row(score: Score, against: ComparisonRecord | None) -> ScoreRecord:
    return ScoreRecord(**score.as_dict(), model_against_it=against)


def _spread(score: Score, count: int) -> Float[Array, "structures ..."]:
    """Return the predictions of a baseline for every test structure; a constant keeps one row for all."""
    assert score.predictions is not None
    values = score.predictions
    return np.repeat(values, count, axis=0) if len(values) == 1 else values


# -- what a person must know -------------------------------------------------------------------------------


def warnings_of(
    found: Sequence[Measured], leakage: LeakageRecord | None, split: str, *, molecules: bool
) -> list[str]:
    """Say in plain words why the numbers, or the model, may not be what they seem.

    Parameters
    ----------
    found, leakage
        What `measure_targets` returned.
    split
        How the test part was drawn.
    molecules
        Whether a split by scaffolds is possible.
    """
    told = [] if leakage is None else _of_copies(found, leakage, split, molecules)
    few = [one for one in found if one.entries.test < FEW_TESTED]
    rest = [one for one in found if one.entries.test >= FEW_TESTED]
    if few:
        told.append(
            f"{_which(few, found)}{min(one.entries.test for one in few)} test structures are too few to tell whether "
            f"the model is better than no model; hold out more (--test-fraction), or use hiddenfield evaluate"
        )
    nothing = [one for one in rest if not _beats(one.constant) and not _ranks(one)]
    if nothing:
        told.append(_of_nothing(nothing, found))
    ranked = [one for one in rest if not _beats(one.constant) and _ranks(one)]
    if ranked:
        told.append(
            f"{_which(ranked, found)}the predicted classes are no better than always the most frequent one, although "
            f"the probabilities do rank the structures (ROC AUC {_listed(one.value('roc_auc') for one in ranked)}); "
            f"use predict --probabilities with a threshold of your own, or fit with --parameter class_weight=balanced"
        )
    return told + _of_baselines(rest, nothing, found)


def _beats(score: ScoreRecord) -> bool:
    return score.model_against_it is not None and score.model_against_it.verdict == "better"


def _ranks(one: Measured) -> bool:
    """Whether the area under the ROC curve is above one half, which is what no model has."""
    interval = one.intervals.get("roc_auc")
    return interval is not None and interval[0] > 0.5


def _of_copies(found: Sequence[Measured], leakage: LeakageRecord, split: str, molecules: bool) -> list[str]:
    if leakage.share < WORTH_WARNING:
        return []
    without = next((one for one in found if one.without_copies is not None), None)
    text = (
        f"{leakage.count:,} of {round(leakage.count / leakage.share):,} test structures ({leakage.share:.0%}) have a "
        f"copy in training, so that the numbers are too good for new structures"
    )
    if without is not None and without.without_copies is not None:
        values = ", ".join(f"{name} {_text(value)}" for name, value in without.without_copies.items())
        text += f"; without copies {without.target} has {values}"
    if split == "group_hold_out":
        return [text + "; equal structures are in different groups"]
    text += "; --split group_hold_out keeps copies together (--group COLUMN whatever belongs together)"
    return [text + ", --split scaffold_hold_out tests on new scaffolds" * molecules]


def _of_nothing(nothing: Sequence[Measured], found: Sequence[Measured]) -> str:
    first = nothing[0]
    always = "the mean of the training targets" if first.main == "mae" else "the most frequent class"
    text = f"{_which(nothing, found)}the model is no better than always predicting {always}"
    if len(nothing) == 1:
        text += (
            f" ({NAMES[first.main]} {first.value(first.main):.4g}{_interval(first)}, without a model "
            f"{_text(first.constant.metrics[first.main])})"
        )
    return (
        f"{text}; do not use its predictions: check that the target depends on the structure, and give more structures "
        f"or longer training (--epochs)"
    )


def _of_baselines(
    rest: Sequence[Measured], nothing: Sequence[Measured], found: Sequence[Measured]
) -> list[str]:
    """Say where a baseline is better, and where a model that is worth something is no better than one."""
    told = []
    for verdict, words in (
        ("worse", "is worse than"),
        ("not told apart", "is not significantly better than"),
    ):
        several = [
            one
            for one in rest
            if (best := one.best_baseline()) is not None
            and best.model_against_it is not None
            and best.model_against_it.verdict == verdict
            and (verdict == "worse" or one not in nothing)
        ]
        if not several:
            continue
        names = ", ".join(dict.fromkeys(b.name for one in several if (b := one.best_baseline()) is not None))
        text = f"{_which(several, found)}the model {words} {names}"
        if len(several) == 1 and (best := several[0].best_baseline()) is not None:
            one = several[0]
            text += f" ({NAMES[one.main]} {one.value(one.main):.4g} against {_text(best.metrics[one.main])})"
        told.append(
            f"{text}, a linear model on counted labels or neighbourhoods; that is enough here, or the settings are "
            f"not right: hiddenfield evaluate --nested selects them"
        )
    return told


def _which(some: Sequence[Measured], found: Sequence[Measured]) -> str:
    """Return which targets something is said of, if it is not all of them."""
    if len(found) == 1:
        return ""
    if len(some) == len(found):
        return f"all {len(found)} targets: "
    names = ", ".join(one.target for one in some[:MOST_LISTED]) + ", ..." * (len(some) > MOST_LISTED)
    return f"{len(some)} of {len(found)} targets ({names}): "


def _interval(one: Measured) -> str:
    bounds = one.intervals.get(one.main)
    return "" if bounds is None else f", 95 % interval {bounds[0]:.4g} to {bounds[1]:.4g}"


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
