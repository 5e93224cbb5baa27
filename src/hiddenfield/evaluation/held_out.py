"""A fitted estimator on its held-out structures: metrics with intervals, baselines, copies, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import Fitted
from hiddenfield.estimators.parameters import plain
from hiddenfield.evaluation.assessment.details import find_leakage, metric_draws
from hiddenfield.evaluation.baselines import constant_score, fit_baselines
from hiddenfield.evaluation.measuring import NAMES, Predictions, Score, measure
from hiddenfield.evaluation.records import (
    FitRecord,
    LeakageRecord,
    PartSizes,
    ScoreRecord,
    finite_metrics,
)
from hiddenfield.evaluation.significance import bootstrap_comparison, bootstrap_interval
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.shapes import Array, Bool, Float

# Parameters of an estimator that belong to the run, not to the result.
OF_THE_RUN = ("checkpoint", "resume", "verbose", "random_state")
# With fewer test structures nothing can be said about a difference.
FEW_TESTED = 20
# From this share of test structures on, copies are worth a warning.
WORTH_WARNING = 0.01
# Targets that a warning lists.
MOST_LISTED = 5


def measure_fit(
    estimator: Fitted,
    structures: Structures,
    split: Split,
    *,
    how: str = "",
    seed: int = 0,
    baselines: bool = True,
    **about: Any,
) -> FitRecord:
    """Measure every target of a fitted estimator on the test part of a split, and find copies in training.

    Parameters
    ----------
    estimator
        Fitted to ``split.train``, of which ``split.validation`` chose the epoch.
    structures
        With the targets, as the estimator was given them.
    split
        Positions.
    how
        Name of the split.
    seed
        Of the run, and of the bootstrap.
    baselines
        Whether linear models on counted labels and colours are fitted too, for every target.
    about
        Further fields of the record.

    Returns
    -------
    FitRecord
        Without targets that no test structure has, and without warnings.
    """
    assert structures.targets is not None
    truth = structures.targets.cpu().numpy().astype(np.float64)
    leakage, leaked = None, np.zeros(0, dtype=bool)
    if len(split.test):
        leakage, (leaked,) = find_leakage(structures, [split], truth[:, 0] if truth.shape[1] == 1 else None)
    parameters, seconds = estimator.num_parameters_, estimator.seconds_
    settings = {name: plain(v) for name, v in estimator.get_params().items() if name not in OF_THE_RUN}
    found = FitRecord(
        "classification" if is_classifier(estimator) else "regression",
        str(estimator.model),
        _sizes(split, np.ones(len(structures), dtype=bool)),
        parameters,
        [len(history.rows) for history in estimator.histories_],
        [history.best_epoch for history in estimator.histories_],
        {},
        {},
        leakage=leakage,
        split=how if len(split.test) else "",
        seed=seed,
        settings=settings | dict(estimator.resolved_),
        blend=dict(estimator.blend_),
        **about,
    )
    networks = f"{len(estimator.networks_)} networks" if len(estimator.networks_) > 1 else ""
    for k, members in enumerate(estimator._predictions(structures[split.test]) if len(split.test) else ()):
        present = ~np.isnan(truth[split.test, k])
        if present.any():
            predicted = members.mean(axis=0)[present]
            metrics = measure(truth[split.test, k][present], predicted)
            own = Score(found.model, metrics, parameters, seconds, networks, predicted)
            others = _baselines(structures, split, k, own, baselines)
            _add(found, structures.target_names[k], truth[:, k], split, own, others, ~leaked[present])
    return found


def _sizes(split: Split, there: Bool[Array, " structures"]) -> PartSizes:
    """Count what is there in each part."""
    validation = split.test[:0] if split.validation is None else split.validation
    rest = np.setdiff1d(split.train, validation)
    return PartSizes(*(int(there[part].sum()) for part in (rest, validation, split.test)))


def _baselines(structures: Structures, split: Split, k: int, own: Score, fitted: bool) -> list[Score]:
    """Return the constant and, if wanted and possible, the linear baselines of one target."""
    assert structures.targets is not None
    values = structures.targets[:, k].cpu().numpy().astype(np.float64)
    before, after = (values[part][~np.isnan(values[part])] for part in (split.train, split.test))
    classes = None if own.predictions is None or own.predictions.ndim == 1 else own.predictions.shape[1]
    if fitted and (classes is None or len(np.unique(before)) > 1):
        name = structures.target_names[k]
        return fit_baselines(structures[split.train], structures[split.test], target=name)
    return [constant_score(before, after, classes)]


def _add(
    found: FitRecord,
    name: str,
    values: Float[Array, " structures"],
    split: Split,
    own: Score,
    others: Sequence[Score],
    clean: Bool[Array, " tested"],
) -> None:
    """Add one target to a record: metrics, intervals, comparison (the model last), counts of its entries."""
    there = ~np.isnan(values)
    truth = values[split.test][there[split.test]]
    assert own.predictions is not None
    mine = metric_draws(truth, {"": [Predictions(own.predictions)]}, found.seed or 0)[""]
    known = ((score.name, score.predictions) for score in others if score.predictions is not None)
    tables = {other: [Predictions.spread(values, len(truth))] for other, values in known}
    draws = metric_draws(truth, tables, found.seed or 0, found.main)
    rows = []
    for score in others:
        difference = own.metrics[found.main] - score.metrics[found.main]
        drawn = mine[found.main], draws[score.name][found.main]
        rows.append(score.record(bootstrap_comparison(difference, *drawn, found.main)))
    found.test[name], found.baseline[name] = finite_metrics(own.metrics), rows[0].metrics
    found.intervals[name] = {metric: bootstrap_interval(drawn) for metric, drawn in mine.items()}
    found.entries[name] = _sizes(split, there)
    found.comparison[name] = [*rows, own.record()]
    if clean.any() and not clean.all():
        found.without_copies[name] = finite_metrics(measure(truth[clean], own.predictions[clean]))


# -- what a person must know -------------------------------------------------------------------------------


def warnings_of(found: FitRecord, *, molecules: bool) -> list[str]:
    """Say in plain words why the numbers, or the model, may not be what they seem.

    Parameters
    ----------
    found
        What `measure_fit` returned.
    molecules
        Whether a split by scaffolds is possible.
    """
    told = [] if found.leakage is None else _of_copies(found, found.leakage, molecules)
    few = [name for name in found.test if found.entries[name].test < FEW_TESTED]
    rest = [name for name in found.test if found.entries[name].test >= FEW_TESTED]
    if few:
        least = min(found.entries[name].test for name in few)
        told.append(
            f"{_which(few, found)}{least} test structure{'s are' if least > 1 else ' is'} too few to tell whether the "
            f"model is better than no model; hold out more (--test-fraction), or use hiddenfield evaluate"
        )
    losing = [name for name in rest if _verdict(found.comparison[name][0]) != "better"]
    nothing = [name for name in losing if not _ranks(found, name)]
    if nothing:
        told.append(_of_nothing(nothing, found))
    ranked = [name for name in losing if _ranks(found, name)]
    if ranked:
        areas = ", ".join(f"{found.test[name]['roc_auc']:.2f}" for name in ranked)
        told.append(
            f"{_which(ranked, found)}the predicted classes are no better than always the most frequent one, although "
            f"the probabilities do rank the structures (ROC AUC {areas}); "
            f"use predict --probabilities with a threshold of your own, or fit with --parameter class_weight=balanced"
        )
    return told + _of_baselines(rest, nothing, found)


def _verdict(score: ScoreRecord | None) -> str:
    against = None if score is None else score.model_against_it
    return "" if against is None else against.verdict


def _ranks(found: FitRecord, name: str) -> bool:
    """Whether the area under the ROC curve is above one half, which is what no model has."""
    interval = found.intervals[name].get("roc_auc")
    return interval is not None and interval[0] > 0.5


def _of_copies(found: FitRecord, leakage: LeakageRecord, molecules: bool) -> list[str]:
    if leakage.share < WORTH_WARNING:
        return []
    text = (
        f"{leakage.count:,} of {round(leakage.count / leakage.share):,} test structures ({leakage.share:.0%}) have a "
        f"copy in training, so that the numbers are too good for new structures"
    )
    for target, metrics in list(found.without_copies.items())[:1]:
        values = ", ".join(f"{name} {_text(value)}" for name, value in metrics.items())
        text += f"; without copies {target} has {values}"
    if found.split == "group_hold_out":
        return [text + "; equal structures are in different groups"]
    text += "; --split group_hold_out keeps copies together (--group COLUMN whatever belongs together)"
    return [text + ", --split scaffold_hold_out tests on new scaffolds" * molecules]


def _of_nothing(nothing: Sequence[str], found: FitRecord) -> str:
    main, first = found.main, nothing[0]
    always = "the mean of the training targets" if main == "mae" else "the most frequent class"
    text = f"{_which(nothing, found)}the model is no better than always predicting {always}"
    if len(nothing) == 1:
        bounds = found.intervals[first].get(main)
        interval = "" if bounds is None else f", 95 % interval {bounds[0]:.4g} to {bounds[1]:.4g}"
        text += (
            f" ({NAMES[main]} {_text(found.test[first][main])}{interval}, without a model "
            f"{_text(found.baseline[first][main])})"
        )
    return (
        f"{text}; do not use its predictions: check that the target depends on the structure, and give more structures "
        f"or longer training (--epochs)"
    )


def _of_baselines(rest: Sequence[str], nothing: Sequence[str], found: FitRecord) -> list[str]:
    """Say where a baseline is better, and where a model that is worth something is no better than one."""
    told, useful = [], [name for name in rest if name not in nothing]
    for verdict, words, names in (
        ("worse", "is worse than", rest),
        ("not told apart", "is not significantly better than", useful),
    ):
        pairs = [(name, best) for name in names if (best := found.best_baseline(name)) is not None]
        several = {name: best for name, best in pairs if _verdict(best) == verdict}
        if not several:
            continue
        whose = ", ".join(dict.fromkeys(best.name for best in several.values()))
        text = f"{_which([*several], found)}the model {words} {whose}"
        if len(several) == 1:
            ((name, best),) = several.items()
            main = found.main
            text += f" ({NAMES[main]} {_text(found.test[name][main])} against {_text(best.metrics[main])})"
        told.append(
            f"{text}, a linear model on counted labels or neighbourhoods; --model kernel:wl_subtree --parameter "
            f"head=linear --parameter normalise=false fits one (of labels alone with --parameter rounds=0), and "
            f"hiddenfield evaluate --nested selects other settings of this model"
        )
    return told


def _which(some: Sequence[str], found: FitRecord) -> str:
    """Return which targets something is said of, if it is not all of them."""
    if len(found.test) == 1:
        return ""
    if len(some) == len(found.test):
        return f"all {len(found.test)} targets: "
    names = ", ".join(some[:MOST_LISTED]) + ", ..." * (len(some) > MOST_LISTED)
    return f"{len(some)} of {len(found.test)} targets ({names}): "


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
