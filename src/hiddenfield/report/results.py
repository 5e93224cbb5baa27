"""The report of a fitted estimator: its results on test structures as plain data, and one page that shows them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError
from hiddenfield.estimators.cgmm_predictors import CGMMPredictor
from hiddenfield.estimators.kernel_machines import KernelPredictor
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.evaluation.baselines import fit_baselines
from hiddenfield.evaluation.measuring import METRICS, NAMES, Score, capital, measure
from hiddenfield.evaluation.records import FitRecord, Metrics, ScoreRecord, SplitRecord, read_record
from hiddenfield.learning import History
from hiddenfield.machine import version
from hiddenfield.report.assessment_page import VERDICTS, leakage_section
from hiddenfield.report.examples import examples
from hiddenfield.report.hidden_states import state_sections
from hiddenfield.report.page import Section, escape, facts, figures, html_table, write_html
from hiddenfield.report.panels import confusion, embedding_map, error_by_range, learning_curves, parity, roc
from hiddenfield.report.study.tables import copies_in_words
from hiddenfield.report.substructures import substructure_section
from hiddenfield.report.terminal import text_table
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from hiddenfield.estimators.base import Fitted
    from hiddenfield.learning.task import Column

Facts = Sequence[tuple[str, Sequence[tuple[str, object]]]]
"""Groups of names and values, each under a heading."""

Shares = Callable[[Int[Array, " chosen"]], list[Float[Array, " nodes"]]]
"""For some of the structures, what each of their nodes contributes."""


@dataclass(frozen=True, eq=False)
class Panels:
    """Truth and predictions of one target, as `Results` has them."""

    target: str
    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """Results of a model on test structures.

    Parameters
    ----------
    title
        Of the page.
    target
        The name of what is predicted.
    structures
        The N test structures.
    truth
        (N,) numbers, or class codes; none missing.
    predicted
        (N,) numbers, or (N, C) probabilities of the classes.
    scores
        The comparison; the model itself comes last.
    classes
        The classes' names; None for a target that is a number.
    embeddings
        (N, width), or None for no map.
    histories
        How training went, one for each network.
    shares
        What the nodes of chosen structures contribute, or None.
    base
        What the shares of a structure's nodes add up to, in words.
    facts
        The summary.
    fit
        The record of the run, of which the page shows intervals, copies, warnings and how to reproduce it.
    others
        Further targets of the same model.
    own
        Sections of what this kind of model has to show.
    """

    title: str
    target: str
    structures: Structures
    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    scores: Sequence[ScoreRecord]
    classes: tuple[str, ...] | None = None
    embeddings: Float[Array, "structures width"] | None = None
    histories: Sequence[History] = ()
    shares: Shares | None = None
    base: str = ""
    facts: Facts = ()
    fit: FitRecord | None = None
    others: Sequence[Panels] = ()
    own: Sequence[Section] = ()


# -- collecting --------------------------------------------------------------------------------------------


def build(
    estimator: Fitted, train: Structures, test: Structures, path: str | Path, **options: Any
) -> Results:
    """Compare a fitted estimator with baselines on test structures, and write the report.

    Parameters
    ----------
    estimator, train, test, options
        As `collect` takes them.
    path
        Of the page.

    Returns
    -------
    Results
        What the page shows; ``results.scores`` is the comparison.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words = hf.data.from_sequences(
    ...     ["A" * k + "B" for k in range(30)], targets=[float(k) for k in range(30)]
    ... )
    >>> model = StructureRegressor(dim=4, epochs=2, random_state=0).fit(words[:20])
    >>> results = build(model, words[:20], words[20:], Path(tempfile.mkdtemp()) / "report.html")
    >>> [score.name for score in results.scores]
    ['mean predictor', 'labels + ridge', 'WL-3 + ridge', 'loopy_bp']
    """
    results = collect(estimator, train, test, **options)
    write_report(path, results)
    return results


def collect(
    estimator: Fitted,
    train: Structures,
    test: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
    seconds: float | None = None,
) -> Results:
    """Compare a fitted estimator with baselines on test structures.

    Parameters
    ----------
    estimator
        Fitted on `train`.
    train, test
        Packs with the target; of `test` the structures whose target is there.
    target
        Which of the estimator's targets the page is about; the first by default.
    rounds
        Rounds of the Weisfeiler-Lehman features that are compared with; None for no baselines.
    title
        Of the page.
    seconds
        That fitting took, if known; otherwise the time of the epochs is shown.

    Returns
    -------
    Results
        What the page shows; ``results.scores`` is the comparison.
    """
    names = [column.name for column in estimator.task_.columns]
    if target is not None and target not in names:
        raise InputError(f"the model does not predict {target!r}; it predicts: {', '.join(names)}")
    position = 0 if target is None else names.index(target)
    column = estimator.task_.columns[position]
    (train, test), own = _panels(estimator, position, (train, test))
    if not len(test):
        raise InputError(
            f"no test structure has the target {column.name!r}; there is nothing to compare with"
        )
    histories = list(estimator.histories_)
    seconds = estimator.seconds_ if seconds is None else seconds
    note = f"{len(estimator.networks_)} networks" if len(estimator.networks_) > 1 else ""
    scores = [] if rounds is None else fit_baselines(train, test, rounds=rounds)
    metrics = measure(own.truth, own.predicted)
    scores.append(Score(estimator.model, metrics, estimator.num_parameters_, seconds, note))
    return Results(
        title=title or f"Predicting {column.name}",
        target=own.target,
        structures=test,
        truth=own.truth,
        predicted=own.predicted,
        scores=[score.record() for score in scores],
        classes=own.classes,
        embeddings=estimator.embed(test),
        histories=histories,
        shares=_shares(estimator, test, own.predicted, position) if estimator.networks_ else None,
        base=_base(estimator, column, position) if estimator.networks_ else "",
        facts=summary(estimator, train, test, seconds),
        own=_own_sections(estimator, train, test),
    )


def _own_sections(estimator: Fitted, train: Structures, test: Structures) -> Sequence[Section]:
    """Return what only such an estimator has to show."""
    if isinstance(estimator, CGMMPredictor):
        return state_sections(estimator, train, test)
    return substructure_section(estimator) if isinstance(estimator, KernelPredictor) else ()


def collect_run(
    folder: str | Path,
    structures: Structures,
    *,
    target: str | None = None,
    title: str | None = None,
) -> Results:
    """Return the results of a run of ``hiddenfield fit``: its model, on its held-out structures.

    Parameters
    ----------
    folder
        Of the run; it holds the model, what was measured, and which structures were trained on.
    structures
        The data of the run, as they were read.
    target, title
        As in `build`.

    Returns
    -------
    Results
        For `write_report`.
    """
    from hiddenfield.estimators.saving import load

    file = Path(folder) / "split.json"
    split = read_record(file, SplitRecord, "the split of a run; fit again")
    highest = max((*split.train, *split.validation, *split.test), default=-1)
    if highest >= len(structures):
        raise ReadError(
            f"names structure {highest}, and there are {len(structures)}; give the data of the run", file=file
        )
    record = read_record(Path(folder) / "metrics.json", FitRecord, "what a run measured; fit again")
    estimator, structures = load(folder), with_row_ids(structures)
    train = structures[np.sort(np.array([*split.train, *split.validation], dtype=np.int64))]
    test = structures[np.array(split.test, dtype=np.int64)]
    found = collect(estimator, train, test, target=target, rounds=None, title=title)
    return replace(
        found,
        scores=record.comparison.get(found.target, found.scores),
        fit=record,
        facts=_run_facts(found.facts, record),
        others=_other_panels(estimator, test, found.target),
    )


def _run_facts(groups: Facts, record: FitRecord) -> Facts:
    """Return the summary with the counts of the run, and how to reproduce it."""
    (heading, data), *rest = groups
    counts = record.structures
    numbers: list[tuple[str, object]] = [
        ("training", f"{counts.train:,} structures"),
        ("validation", f"{counts.validation:,} structures, which chose the epoch"),
        ("test", f"{counts.test:,} structures"),
        ("without target", f"{record.without_target:,}, left out"),
    ]
    again: list[tuple[str, object]] = [("split", record.split), ("seed", record.seed)]
    again += [] if record.command is None else [("command", record.command)]
    own = [entry for entry in data if entry[0] not in ("training", "test")]
    return [(heading, [*numbers, *own]), *rest, ("To reproduce it", again)]


def _other_panels(estimator: Fitted, test: Structures, shown: str) -> list[Panels]:
    """Return the panels of the targets that a page is not about, at most so many."""
    names = [column.name for column in estimator.task_.columns]
    every = (_panels(estimator, k, (test,))[1] for k, name in enumerate(names) if name != shown)
    return list(itertools.islice((panels for panels in every if len(panels.truth)), MOST_PANELS))


def _panels(estimator: Fitted, position: int, packs: Sequence[Structures]) -> tuple[list[Structures], Panels]:
    """Return the packs with one target alone and present, and truth and predictions of the last of them.

    Classes are coded as the model's; those that it has not seen come last, and it gives them no probability.
    """
    from hiddenfield.estimators.targets import as_classes, as_numbers, attach

    column = estimator.task_.columns[position]
    result, words = [], column.vocabulary
    for pack in packs:
        found = [answers for answers in attach(pack, None)[0] if answers.name == column.name]
        if not found:
            names = ", ".join(pack.target_names)
            raise InputError(
                f"the structures have no target {column.name!r}, which the model predicts; they have: {names}"
            )
        alone = as_numbers(pack, found) if words is None else as_classes(pack, found)
        (own,) = alone.target_vocabularies
        words = None if words is None or own is None else words.union(own)
        assert alone.targets is not None
        result.append(alone[np.flatnonzero(~alone.targets[:, 0].isnan().cpu().numpy())])
    if words is not None:
        result = [pack.replace(targets=pack.features["targets"].recoded((words,))) for pack in result]
    test = result[-1]
    classes = None if words is None else tuple(str(symbol) for symbol in words.symbols)
    assert test.targets is not None
    predicted: Array = estimator._predictions(test)[position].mean(axis=0) if len(test) else np.zeros(0)
    if classes is not None and len(test):
        predicted = np.pad(predicted, ((0, 0), (0, len(classes) - predicted.shape[1])))
    return result, Panels(column.name, test.targets[:, 0].cpu().numpy(), predicted, classes)


def _shares(estimator: Fitted, test: Structures, predicted: Array, position: int) -> Shares:
    """Return a function that divides predictions among nodes: numbers, or scores of the predicted class."""
    from hiddenfield.estimators.contributions import contributions

    part = estimator.task_.slices()[position]

    def shares(chosen: Int[Array, " chosen"]) -> list[Float[Array, " nodes"]]:
        pack = estimator.features_.encode(test[chosen])
        members = [contributions(network, estimator.task_, pack)[:, part] for network in estimator.networks_]
        table = torch.stack(members).mean(dim=0).double().numpy()
        outputs = np.zeros(len(chosen), dtype=np.int64)
        if predicted.ndim == 2:
            # The softmax does not see what all classes' scores have in common.
            table = table - table.mean(axis=1, keepdims=True)
            outputs = predicted[chosen].argmax(axis=1)
        bounds = pack.node_ptr.cpu().numpy()
        return [table[bounds[k] : bounds[k + 1], outputs[k]] for k in range(len(chosen))]

    return shares


def _base(estimator: Fitted, column: Column, position: int) -> str:
    if column.vocabulary is not None:
        return "The shares are of the predicted class's score before the softmax, less the mean score of all classes."
    with torch.no_grad():
        outputs = [n.head(torch.zeros(1, n.width, dtype=n.embedding.dtype)) for n in estimator.networks_]
    nothing = np.mean([estimator.task_.predictions(output)[position] for output in outputs])
    if estimator.blend_["networks"] < 1.0:
        return (
            f"The shares are of the networks' prediction, which is {100 * estimator.blend_['networks']:.0f} % of the "
            f"whole: they add up to it less {nothing:.4g}, their prediction for a structure without nodes."
        )
    return (
        f"The shares of a structure add up to the prediction less {nothing:.4g}, the prediction for a structure "
        "without nodes."
    )


# -- the page ----------------------------------------------------------------------------------------------

COMPARISON = (
    "<p>On test structures that no model has seen. Whatever had to be chosen, the strength of a penalty or the epoch "
    "whose weights are kept, was chosen on a part of the training structures. The best of each column is bold.</p>"
)


def write_report(path: str | Path, results: Results) -> Path:
    """Write results as a page of HTML: one file, that fetches nothing and opens in any browser.

    The file is there whole or not at all. Text that comes from data (ids, labels, SMILES, names) is escaped.

    Parameters
    ----------
    path
        Where to; folders are made.
    results
        What to show.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.evaluation.measuring import measure
    >>> from hiddenfield.report import Results
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "TAG"], ids=["a", "b", "c"])
    >>> truth, predicted = np.array([7.0, 3.0, 3.0]), np.array([6.0, 3.5, 3.0])
    >>> own = Score("a guess", measure(truth, predicted)).record()
    >>> file = write_report(
    ...     Path(tempfile.mkdtemp()) / "report.html",
    ...     Results("Words", "length", words, truth, predicted, [own]),
    ... )
    >>> "GATTACA" in file.read_text() or "G</span>" in file.read_text()
    True
    """
    if not len(results.truth) or not len(results.scores):
        raise InputError("there is nothing to report: no test structures with a target, or no scores")
    return write_html(path, results.title, _lead(results), _sections(results))


def _lead(results: Results) -> str:
    own, count = results.scores[-1], f"{len(results.truth):,} test structures"
    intervals = {} if results.fit is None else results.fit.intervals.get(results.target, {})
    if results.classes is None:
        sure = interval_in_words(intervals.get("mae"))
        return (
            f"{own.name}: mean absolute error {own.metrics['mae']:.4g}{sure} in {results.target}, on {count}."
        )
    sure = interval_in_words(intervals.get("accuracy"))
    return (
        f"{own.name}: {own.metrics['accuracy']:.1%}{sure} of {count} in the right class of {results.target}."
    )


def interval_in_words(bounds: Sequence[float] | None) -> str:
    """Return an interval in brackets; nothing where it is not defined.

    Examples
    --------
    >>> interval_in_words([0.12345, 0.2])
    ' (95 % interval 0.1235 to 0.2)'
    """
    return "" if bounds is None else f" (95 % interval {bounds[0]:.4g} to {bounds[1]:.4g})"


def _sections(results: Results) -> list[Section]:
    """Return the panels that the results have something for."""
    sections: list[Section] = []
    fit = results.fit
    if fit is not None and fit.warnings:
        listed = "".join(f"<li>{escape(capital(text))}.</li>" for text in fit.warnings)
        sections.append(("Read this first", f"<ul>{listed}</ul>"))
    intervals = {} if fit is None else fit.intervals.get(results.target, {})
    sections.append(("Comparison", COMPARISON + scores_table(results.scores) + _intervals(intervals)))
    if fit is not None and len(fit.test) > 1:
        sections.append(("All targets", html_table(*targets_table(fit))))
    if fit is not None and fit.leakage is not None:
        sections.append(("Leakage", leakage_section(fit.leakage)))
    if results.facts:
        sections.append(("Summary", facts(results.facts)))
    if curves := learning_curves(results.histories):
        sections.append(("Learning curves", curves))
    sections += results.own
    every: list[Panels | Results] = [results, *results.others]
    for number, shown in enumerate(every, start=1):
        heading, key = (f"Predictions: {shown.target}", f"-{number}") if number > 1 else ("Predictions", "")
        sections.append((heading, figures(_predictions(shown, key))))
    if results.embeddings is not None and np.ptp(results.embeddings) > 0:
        sections.append(
            ("Map", embedding_map(results.target, results.truth, results.embeddings, results.classes))
        )
    sections.append(("Best and worst", examples(results)))
    return sections


def _predictions(shown: Panels | Results, key: str) -> list[str]:
    if shown.classes is None:
        panels = (parity, error_by_range)
        return [panel(shown.target, shown.truth, shown.predicted, key) for panel in panels]
    return [panel(shown.classes, shown.truth, shown.predicted, key) for panel in (roc, confusion)]


def _intervals(intervals: Mapping[str, Sequence[float] | None]) -> str:
    known = [
        f"{NAMES[name]} {bounds[0]:.4g} to {bounds[1]:.4g}" for name, bounds in intervals.items() if bounds
    ]
    if not known:
        return ""
    text = "95 % intervals of the model, from a bootstrap of the test structures: "
    return f"<p>{escape(text + '; '.join(known))}.</p>"


# -- scores ------------------------------------------------------------------------------------------------

HEADINGS = {
    "mae": "test MAE",
    "rmse": "test RMSE",
    "r2": "test R²",
    "accuracy": "test accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
}


def scores_table(scores: Sequence[ScoreRecord]) -> str:
    """Return the comparison as an HTML table: the last row is the model's own, the best of each column is bold."""
    heads, rows = _score_rows(scores)
    best = {
        (row, column)
        for column, name in enumerate(scores[0].metrics, start=1)
        for row, score in enumerate(scores)
        if score.metrics[name] == _best(name, scores)
    }
    return html_table(heads, rows, text=(0, len(heads) - 1), own=len(rows) - 1, best=best)


def scores_as_text(scores: Sequence[ScoreRecord]) -> str:
    """Return the comparison as a table for a terminal."""
    heads, rows = _score_rows(scores)
    return text_table(heads, rows, text=(0, len(heads) - 1))


def _score_rows(scores: Sequence[ScoreRecord]) -> tuple[list[str], list[list[str]]]:
    heads = ["model", *(HEADINGS[name] for name in scores[0].metrics), "parameters", "seconds", ""]
    rows = [
        [
            score.name,
            *map(_number, score.metrics.values()),
            f"{score.parameters:,}",
            "" if score.seconds is None else f"{score.seconds:.1f}",
            score.note,
        ]
        for score in scores
    ]
    return heads, rows


def _best(name: str, scores: Sequence[ScoreRecord]) -> float:
    values = [value for score in scores if (value := score.metrics[name]) is not None]
    return (max if METRICS[name].higher_is_better else min)(values, default=math.nan)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:z.4f}" if abs(value) < 1000 else f"{value:.4g}"


# -- text --------------------------------------------------------------------------------------------------


def fit_as_text(found: FitRecord) -> str:
    """Return the result of a fit as lines of text: model, sizes of the parts, metrics of each target."""
    counts = found.structures
    left_out = f"; {found.without_target:,} without a target left out" if found.without_target else ""
    how = f" ({found.split})" if found.split else ""
    many = f"{len(found.epochs)} networks of " if len(found.epochs) > 1 else ""
    best, most = (", ".join(map(str, each)) for each in (found.best_epoch, dict.fromkeys(found.epochs)))
    lines = [
        f"{found.task} with {many}{found.model}, {found.parameters:,} weights"
        + (f", best epoch {best} of {most}" if found.epochs else ""),
        f"{counts.train:,} training, {counts.validation:,} validation, {counts.test:,} test structures{how}{left_out}",
    ]
    if found.epochs and not counts.validation and (share := found.settings.get("validation_fraction")):
        lines.append(
            f"each network holds out another {100 * share:.0f} % of the training structures to choose its epoch"
        )
    if found.blend.get("networks", 1.0) < 1.0:
        lines.append(f"predictions: {blend_in_words(found.blend)}")
    if len(found.test) > 1:
        heads, rows = targets_table(found)
        lines.append(text_table(heads, rows, text=(0, 6, 7)))
    else:
        for name, measures in found.test.items():
            lines.append(f"test {name}: {_listed(measures, found.intervals.get(name))}")
            lines.append(f"  without a model: {_listed(found.baseline[name])}")
            if len(scores := found.comparison.get(name, ())) > 2:
                lines.append(scores_as_text(scores))
    if found.leakage is not None:
        lines.append(f"leakage: {copies_in_words(found.leakage)}")
    return "\n".join(lines + [f"warning: {text}" for text in found.warnings])


def blend_in_words(blend: Mapping[str, float]) -> str:
    """Say what predictions are made of.

    Examples
    --------
    >>> blend_in_words({"networks": 0.6, "linear": 0.4, "forest": 0.0})
    '60 % networks, 40 % linear models on counts'
    """
    named = {"networks": "networks", "linear": "linear models on counts", "forest": "forests on counts"}
    return ", ".join(f"{100 * share:.0f} % {named[kind]}" for kind, share in blend.items() if share)


def targets_table(found: FitRecord) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of a table of all targets, and their mean."""
    main = found.main
    second = "r2" if found.task == "regression" else "roc_auc"
    heads = ["target", "tested", HEADINGS[main], "95 % interval", HEADINGS[second]]
    heads += ["no model", "best baseline", ""]
    rows = []
    for name, measures in found.test.items():
        bounds = found.intervals[name].get(main)
        constant, best = found.comparison[name][0], found.best_baseline(name)
        against = constant if best is None else best
        verdict = "" if against.model_against_it is None else against.model_against_it.verdict
        rows.append(
            [
                name,
                f"{found.entries[name].test:,}",
                _known(main, measures[main]),
                "" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}",
                _known(second, measures[second]),
                _known(main, constant.metrics[main]),
                "" if best is None else f"{best.name} {_known(main, best.metrics[main])}",
                VERDICTS.get(verdict, verdict),
            ]
        )
    every = [[v for m in found.test.values() if (v := m[name]) is not None] for name in (main, second)]
    means = [float(np.mean(values)) if values else None for values in every]
    rows.append(["mean", "", _known(main, means[0]), "", _known(second, means[1]), "", "", ""])
    return heads, rows


def _listed(measures: Metrics, intervals: Mapping[str, Sequence[float] | None] | None = None) -> str:
    return ", ".join(
        f"{name} {_known(name, value)}{interval_in_words((intervals or {}).get(name))}"
        for name, value in measures.items()
    )


def _known(name: str, value: float | None) -> str:
    if value is None:
        return "undefined"
    # Errors have the target's units and may be as small as they like; a share of the variance is not.
    return f"{value:z.4f}" if name == "r2" and abs(value) < 1000 else f"{value:.4g}"


# -- summary -----------------------------------------------------------------------------------------------

OF_THE_MODEL = (
    *("model", "dim", "rounds", "activation", "pooling", "bias", "representation", "representation_options"),
    *(
        "every_round",
        "standardise",
        "node_width",
        "hidden",
        "dropout",
        "num_states",
        "depth",
        "previous",
        "states",
    ),
    *("fingerprint", "layers", "head"),
)
# Neither of the model nor of its training, or shown in another way.
NOT_SHOWN = ("model_options", "epochs", "checkpoint", "resume", "verbose")
SILENT: tuple[object, ...] = (None, False, 0.0)
# Further targets whose predictions a page shows, at most.
MOST_PANELS = 11


def summary(estimator: Fitted, train: Structures, test: Structures, seconds: float) -> Facts:
    """Return what a reader needs to judge the numbers, or to reproduce them."""
    return [
        ("Data", _data(train, test)),
        ("Model", _model(estimator)),
        ("Training", _training(estimator, seconds)),
    ]


def _data(train: Structures, test: Structures) -> list[tuple[str, object]]:
    entries: list[tuple[str, object]] = [
        ("training", f"{len(train):,} structures"),
        ("test", f"{len(test):,} structures"),
        ("nodes", f"{train.total_nodes / max(len(train), 1):.1f} per structure"),
        ("arcs", f"{train.total_arcs / max(len(train), 1):.1f} per structure"),
    ]
    for kind, words in (("node", train.node_vocabularies), ("arc", train.arc_vocabularies)):
        if words:
            entries.append((f"{kind} labels", ", ".join(f"{word.name} ({len(word)})" for word in words)))
    for kind, names in (("node", train.node_attribute_names), ("arc", train.arc_attribute_names)):
        if names:
            entries.append((f"{kind} attributes", f"{len(names)}"))
    (name,), (classes,) = train.target_names, train.target_vocabularies
    if classes is not None:
        return [*entries, ("target", f"{name}: {len(classes)} classes")]
    assert train.targets is not None
    values = train.targets[:, 0]
    spread = f"mean {values.mean():.4g}, deviation {values.std(unbiased=False):.4g}"
    return [*entries, ("target", f"{name}: {values.min():.4g} to {values.max():.4g}, {spread}")]


def _model(estimator: Fitted) -> list[tuple[str, object]]:
    options = estimator.get_params() | dict(estimator.resolved_)
    entries = [(name, options[name]) for name in OF_THE_MODEL if options.get(name) not in SILENT]
    entries += list((options.get("model_options") or {}).items())
    entries.append(("parameters", f"{estimator.num_parameters_:,}"))
    if len(estimator.networks_) > 1:
        entries.append(("networks", len(estimator.networks_)))
    if estimator.blend_.get("networks", 1.0) < 1.0:
        entries.append(("predictions", blend_in_words(estimator.blend_)))
    return entries


def _training(estimator: Fitted, seconds: float) -> list[tuple[str, object]]:
    options = estimator.get_params() | dict(estimator.resolved_)
    entries = [
        (name.replace("_", " "), value)
        for name, value in options.items()
        if name not in OF_THE_MODEL + NOT_SHOWN and value not in SILENT
    ]
    history = next(iter(estimator.histories_), None)
    if history is None:
        entries.append(("time", f"{seconds:.0f} s"))
    elif history.rows:
        rates = sorted(row["structures_per_second"] for row in history.rows)
        entries += [
            ("epochs", _epochs(history, estimator.resolved_.get("epochs"))),
            ("ended", history.reason),
            ("time", f"{seconds:.0f} s, {rates[len(rates) // 2]:,.0f} structures/s"),
        ]
    versions = [f"{name} {version(name) or 'from source'}" for name in ("hiddenfield", "torch")]
    return [*entries, ("versions", ", ".join(versions))]


def _epochs(history: History, planned: int | None) -> str:
    most = "" if planned in (None, len(history.rows)) else f" of at most {planned}"
    return f"{len(history.rows)}{most}, the weights of epoch {history.best_epoch} were kept"
