"""A fitted estimator on its held-out structures: an assessment of every target on one split, and warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from sklearn.base import is_classifier

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import Fitted
from hiddenfield.estimators.parameters import plain
from hiddenfield.estimators.targets import select_targets
from hiddenfield.evaluation.assessment.cells import (
    Cell,
    Context,
    FinalResult,
    baseline_result,
    training_records,
)
from hiddenfield.evaluation.assessment.details import Finished
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.assessment.tables import collect
from hiddenfield.evaluation.baselines import constant_score, problem_baselines
from hiddenfield.evaluation.measuring import NAMES, Predictions, choose_metric, class_table, measured
from hiddenfield.evaluation.records import (
    Assessment,
    Assessments,
    BaselineRecord,
    FittedModel,
    PartSizes,
)
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.kernels.refinement import copy_classes
from hiddenfield.shapes import Array, Float

# Parameters of an estimator that belong to the run, not to the result.
OF_THE_RUN = ("checkpoint", "resume", "verbose", "random_state")
# With fewer test structures nothing can be said about a difference.
FEW_TESTED = 20
# From this share of test structures on, copies are worth a warning.
WORTH_WARNING = 0.01
# Names of baselines that can be fitted by name.
LINEAR = re.compile(r" \+ (ridge|logistic)$")
# Targets that a warning lists.
MOST_LISTED = 5


@dataclass(frozen=True, eq=False)
class Tested:
    """One target of a fitted estimator on the test part of a split.

    Parameters
    ----------
    problem, split
        The structures that have the target, and the split of these.
    predicted
        What is predicted for the test part: numbers, or probabilities of the problem's classes.
    own
        The same as the estimator gives it: probabilities of the classes that it knows.
    """

    problem: Problem
    split: Split
    predicted: Predictions
    own: Float[Array, "structures ..."]


def on_test_part(
    estimator: Fitted, structures: Structures, split: Split
) -> Iterator[tuple[str, Tested | None]]:
    """Yield the predictions of every target by name, None for one that no structure of the test part has."""
    columns = estimator.task_.columns
    predictions = estimator._predictions(structures[split.test]) if len(split.test) else [None] * len(columns)
    copies = copy_classes(structures) if len(split.test) else None
    for column, members in zip(columns, predictions, strict=True):
        task = "regression" if column.vocabulary is None else "classification"
        problem = Problem.of(select_targets(structures, [column.name]), task=task)
        place = np.full(len(structures), -1, dtype=np.int64)
        place[problem.positions] = np.arange(len(problem))
        there, part = place[split.test] >= 0, split.renumbered(place)
        if members is None or copies is None or not there.any():
            yield column.name, None
            continue
        own = members.mean(axis=0)[there]
        problem = replace(problem, copies=copies[problem.positions])
        if column.classes is None or problem.classes is None:
            yield column.name, Tested(problem, part, Predictions(own), own)
            continue
        # Classes that the model knows, and no structure here is of, come last.
        unseen = [label for label in column.classes if label not in problem.classes]
        classes = (*problem.classes, *unseen)
        problem = replace(problem, classes=classes)
        yield (
            column.name,
            Tested(problem, part, Predictions(class_table(own, column.classes, classes)), own),
        )


def measure_fit(
    estimator: Fitted,
    structures: Structures,
    split: Split,
    settings: AssessmentSettings,
    *,
    command: str | None = None,
) -> Assessments:
    """Assess every target of a fitted estimator on one split, as `assess` does on several.

    Parameters
    ----------
    estimator
        Fitted to ``split.train``, of which ``split.validation`` chose the epoch.
    structures
        With the targets. Those without any are in no part of the split.
    split
        Positions.
    settings
        How the split was drawn, the seed, and whether linear models on counted labels and colours are fitted too.
    command
        The command line, for the record.

    Returns
    -------
    Assessments
        Targets that no test structure has are listed as failed.
    """
    found: dict[str, Assessment] = {}
    failed: dict[str, str] = {}
    # One at a time: each may be a pack of its own.
    for name, tested in on_test_part(estimator, structures, split):
        if tested is None:
            failed[name] = "no test structure has it"
        else:
            found[name] = _assessment(estimator, tested, settings)
    own = {name: plain(value) for name, value in estimator.get_params().items() if name not in OF_THE_RUN}
    validation = 0 if split.validation is None else len(split.validation)
    sizes = len(split.train) - validation, validation, len(split.test)
    fitted = FittedModel(
        "classification" if is_classifier(estimator) else "regression",
        str(estimator.model),
        PartSizes(*sizes, len(structures) - sum(sizes)),
        estimator.num_parameters_,
        [len(history.rows) for history in estimator.histories_],
        [history.best_epoch for history in estimator.histories_],
        own | dict(estimator.resolved_),
        dict(estimator.blend_),
    )
    return Assessments.of(found, failed if found else {}, command=command, fitted=fitted)


def _assessment(estimator: Fitted, tested: Tested, settings: AssessmentSettings) -> Assessment:
    """Return the assessment of one target: what `assess` makes of its cells, of the fitted estimator."""
    problem, split = tested.problem, tested.split
    metric, truth = choose_metric(settings.metric, problem.task), problem.truth[split.test]
    # The fingerprint of the split is that of `assess`, which does not know what the estimator held out for its epochs.
    drawn = replace(split, validation=None)
    context = Context(problem, estimator, metric, (drawn,), ((),), settings.seed)
    if settings.baselines:
        scores = problem_baselines(problem, split.train, split.test, settings.wl_rounds)
    else:
        classes = None if problem.classes is None else len(problem.classes)
        scores = [constant_score(problem.truth[split.train], truth, classes)]
    seconds = {score.name: score.seconds for score in scores}
    histories = estimator.histories_
    final = FinalResult(
        measured(metric, truth, tested.predicted),
        tested.predicted.values.tolist(),
        epochs=[history.best_epoch for history in histories] or None,
        num_parameters=estimator.num_parameters_,
        training=training_records(histories),
    )
    results = {
        Cell("final", 0).key: final,
        Cell("simple", 0).key: msgspec.structs.replace(
            baseline_result(context, split, scores), seconds=seconds
        ),
    }
    found = collect(context, settings, Finished(results, [{}], [{}], 1), 0.0)
    validation = None if split.validation is None else len(split.validation)
    folds = [msgspec.structs.replace(found.folds[0], validation=validation)]
    return msgspec.structs.replace(found, folds=folds, seconds=round(estimator.seconds_, 3))


# -- what a person must know -------------------------------------------------------------------------------


def warnings_of(found: Assessments, *, molecules: bool) -> list[str]:
    """Say in plain words why the numbers, or the model, may not be what they seem.

    Parameters
    ----------
    found
        What `measure_fit` returned.
    molecules
        Whether a split by scaffolds is possible.
    """
    targets = found.targets
    told = _of_copies(found, molecules) if targets else []
    few = [name for name, one in targets.items() if one.folds[0].test < FEW_TESTED]
    rest = [name for name in targets if name not in few]
    if few:
        least = min(targets[name].folds[0].test for name in few)
        told.append(
            f"{_which(few, found)}{least} test structure{'s are' if least > 1 else ' is'} too few to tell whether the "
            f"model is better than no model; hold out more (--test-fraction), or use hiddenfield evaluate"
        )
    losing = [name for name in rest if _verdict(targets[name].constant) != "better"]
    nothing = [name for name in losing if not _ranks(targets[name])]
    if nothing:
        told.append(_of_nothing(nothing, found))
    ranked = [name for name in losing if _ranks(targets[name])]
    if ranked:
        areas = ", ".join(f"{targets[name].metrics['roc_auc']:.2f}" for name in ranked)
        told.append(
            f"{_which(ranked, found)}the predicted classes are no better than always the most frequent one, although "
            f"the probabilities do rank the structures (ROC AUC {areas}); "
            f"use predict --probabilities with a threshold of your own, or fit with --parameter class_weight=balanced"
        )
    return told + no_better_than_baselines(found, rest, nothing)


def _verdict(baseline: BaselineRecord | None) -> str:
    against = None if baseline is None else baseline.model_against_it
    return "" if against is None else against.verdict


def _against_best(one: Assessment) -> str:
    return "" if one.best_baseline is None else _verdict(one.baselines[one.best_baseline])


def _ranks(one: Assessment) -> bool:
    """Whether the area under the ROC curve is above one half, which is what no model has."""
    interval = one.intervals.get("roc_auc")
    return interval is not None and interval[0] > 0.5


def _of_copies(found: Assessments, molecules: bool) -> list[str]:
    name, one = max(found.targets.items(), key=lambda pair: pair[1].folds[0].test)
    leakage = one.leakage
    if leakage is None or leakage.share < WORTH_WARNING:
        return []
    text = (
        f"{leakage.count:,} of {one.folds[0].test:,} test structures ({leakage.share:.0%}) have a "
        f"copy in training, so that the numbers are too good for new structures"
    )
    if leakage.metrics_without is not None:
        values = ", ".join(f"{NAMES[key]} {_text(value)}" for key, value in leakage.metrics_without.items())
        text += f"; without copies {name} has {values}"
    if one.protocol.split == "group_hold_out":
        return [text + "; equal structures are in different groups"]
    text += "; --split group_hold_out keeps copies together (--group COLUMN whatever belongs together)"
    return [text + ", --split scaffold_hold_out tests on new scaffolds" * molecules]


def _of_nothing(nothing: Sequence[str], found: Assessments) -> str:
    first = found.targets[nothing[0]]
    always = "the mean of the training targets" if first.task == "regression" else "the most frequent class"
    text = f"{_which(nothing, found)}the model is no better than always predicting {always}"
    if len(nothing) == 1 and first.constant is not None:
        interval = (
            ""
            if first.interval is None
            else f", 95 % interval {first.interval[0]:.4g} to {first.interval[1]:.4g}"
        )
        text += f" ({NAMES[first.metric]} {_text(first.mean)}{interval}, without a model {_text(first.constant.mean)})"
    return (
        f"{text}; do not use its predictions: check that the target depends on the structure, and give more structures "
        f"or longer training (--epochs)"
    )


def no_better_than_baselines(
    found: Assessments, names: Sequence[str], nothing: Sequence[str] = ()
) -> list[str]:
    """Say where networks are worse than a linear model on counts or, but for targets of `nothing`, no better."""
    networks = [name for name in names if not found.targets[name].model.startswith("kernel:")]
    rest = [name for name in networks if LINEAR.search(found.targets[name].best_baseline or "")]
    told, useful = [], [name for name in rest if name not in nothing]
    for verdict, words, names in (
        ("worse", "is worse than", rest),
        ("not told apart", "is not significantly better than", useful),
    ):
        several = [name for name in names if _against_best(found.targets[name]) == verdict]
        if not several:
            continue
        best = {name: str(found.targets[name].best_baseline) for name in several}
        text = f"{_which(several, found)}the model {words} {', '.join(dict.fromkeys(best.values()))}"
        if len(several) == 1:
            one = found.targets[several[0]]
            other = one.baselines[best[several[0]]]
            text += f" ({NAMES[one.metric]} {_text(one.mean)} against {_text(other.mean)})"
        told.append(
            f"{text}, a linear model on counted labels or neighbourhoods; --model kernel:wl_subtree --parameter "
            f"head=linear --parameter normalise=false fits one (of labels alone with --parameter rounds=0), and "
            f"hiddenfield evaluate --nested selects other settings of this model"
        )
    return told


def _which(some: Sequence[str], found: Assessments) -> str:
    """Return which targets something is said of, if it is not all of them."""
    if len(found.targets) == 1:
        return ""
    if len(some) == len(found.targets):
        return f"all {len(some)} targets: "
    names = ", ".join(some[:MOST_LISTED]) + ", ..." * (len(some) > MOST_LISTED)
    return f"{len(some)} of {len(found.targets)} targets ({names}): "


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
