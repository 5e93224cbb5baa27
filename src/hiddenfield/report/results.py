"""The report of a fitted estimator: its results on test structures as plain data, and one page that shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.evaluation.baselines import fit_baselines
from hiddenfield.evaluation.measuring import METRICS, Score, measure
from hiddenfield.evaluation.records import FitRecord, Metrics, SplitRecord, read_record
from hiddenfield.learning import History
from hiddenfield.machine import version
from hiddenfield.report.examples import examples
from hiddenfield.report.page import Section, facts, figures, html_table, write_html
from hiddenfield.report.panels import confusion, embedding_map, error_by_range, learning_curves, parity, roc
from hiddenfield.report.terminal import text_table
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator
    from hiddenfield.learning.task import Column

Facts = Sequence[tuple[str, Sequence[tuple[str, object]]]]
"""Groups of names and values, each under a heading."""

Shares = Callable[[Int[Array, " chosen"]], list[Float[Array, " nodes"]]]
"""For some of the structures, what each of their nodes contributes."""


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
    """

    title: str
    target: str
    structures: Structures
    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    scores: Sequence[Score]
    classes: tuple[str, ...] | None = None
    embeddings: Float[Array, "structures width"] | None = None
    histories: Sequence[History] = ()
    shares: Shares | None = None
    base: str = ""
    facts: Facts = ()


# -- collecting --------------------------------------------------------------------------------------------


def build(
    estimator: StructureEstimator,
    train: Structures,
    test: Structures,
    path: str | Path,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
    seconds: float | None = None,
) -> Results:
    """Compare a fitted estimator with baselines on test structures, and write the report.

    Parameters
    ----------
    estimator
        Fitted on `train`.
    train, test
        Packs with the target; of `test` the structures whose target is there.
    path
        Of the page.
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
    results = collect(estimator, train, test, target=target, rounds=rounds, title=title, seconds=seconds)
    write_report(path, results)
    return results


def collect(
    estimator: StructureEstimator,
    train: Structures,
    test: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
    seconds: float | None = None,
) -> Results:
    """Return what `build` writes."""
    position = _position(estimator, target)
    column = estimator.task_.columns[position]
    (train, test), words = _in_one_vocabulary(estimator, column, (train, test))
    if not len(test):
        raise InputError(
            f"no test structure has the target {column.name!r}; there is nothing to compare with"
        )
    assert test.targets is not None
    truth, predicted = test.targets[:, 0].cpu().numpy(), estimator._predictions(test)[position].mean(axis=0)
    if words is not None:
        predicted = np.pad(predicted, ((0, 0), (0, len(words) - predicted.shape[1])))
    histories = list(estimator.histories_)
    if seconds is None:
        seconds = sum(row["seconds"] for history in histories for row in history.rows)
    parameters = sum(network.num_parameters for network in estimator.networks_)
    note = f"{len(estimator.networks_)} networks" if len(estimator.networks_) > 1 else ""
    scores = [] if rounds is None else fit_baselines(train, test, rounds=rounds)
    scores.append(Score(estimator.model, measure(truth, predicted), parameters, seconds, note))
    return Results(
        title=title or f"Predicting {column.name}",
        target=column.name,
        structures=test,
        truth=truth,
        predicted=predicted,
        scores=scores,
        classes=None if words is None else tuple(str(symbol) for symbol in words.symbols),
        embeddings=estimator.embed(test),
        histories=histories,
        shares=_shares(estimator, test, predicted, position),
        base=_base(estimator, column, position),
        facts=summary(estimator, train, test, seconds),
    )


def collect_run(
    folder: str | Path,
    structures: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
) -> Results:
    """Return the results of a run of ``hiddenfield fit``: its model, on its held-out structures.

    Parameters
    ----------
    folder
        Of the run; it holds the model and which structures were trained on.
    structures
        The data of the run, as they were read.
    target, rounds, title
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
    structures = with_row_ids(structures)
    train = structures[np.sort(np.array([*split.train, *split.validation], dtype=np.int64))]
    test = structures[np.array(split.test, dtype=np.int64)]
    return collect(load(folder), train, test, target=target, rounds=rounds, title=title)


def _position(estimator: StructureEstimator, target: str | None) -> int:
    names = [column.name for column in estimator.task_.columns]
    if target is not None and target not in names:
        raise InputError(f"the model does not predict {target!r}; it predicts: {', '.join(names)}")
    return 0 if target is None else names.index(target)


def _in_one_vocabulary(
    estimator: StructureEstimator, column: Column, packs: Sequence[Structures]
) -> tuple[list[Structures], Vocabulary | None]:
    """Return the packs with this target alone and present, its classes coded as the model's, and the classes.

    Classes that the model has not seen come last: it gives them no probability.
    """
    from hiddenfield.estimators.targets import as_classes, as_numbers, attach

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
    return result if words is None else [_recoded(pack, words) for pack in result], words


def _recoded(pack: Structures, words: Vocabulary) -> Structures:
    (own,) = pack.target_vocabularies
    assert own is not None
    assert pack.targets is not None
    codes = torch.from_numpy(own.recode_to(words)).to(pack.targets)
    return pack.replace(targets=codes[pack.targets.long()], target_vocabularies=(words,))


def _shares(estimator: StructureEstimator, test: Structures, predicted: Array, position: int) -> Shares:
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


def _base(estimator: StructureEstimator, column: Column, position: int) -> str:
    if column.vocabulary is not None:
        return "The shares are of the predicted class's score before the softmax, less the mean score of all classes."
    with torch.no_grad():
        outputs = [n.head(torch.zeros(1, n.width, dtype=n.embedding.dtype)) for n in estimator.networks_]
    nothing = np.mean([estimator.task_.predictions(output)[position] for output in outputs])
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
    >>> own = Score("a guess", measure(truth, predicted))
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
    if results.classes is None:
        return f"{own.name}: mean absolute error {own.metrics['mae']:.4g} in {results.target}, on {count}."
    return f"{own.name}: {own.metrics['accuracy']:.1%} of {count} in the right class of {results.target}."


def _sections(results: Results) -> list[Section]:
    """Return the panels that the results have something for."""
    sections: list[Section] = [("Comparison", COMPARISON + scores_table(results.scores))]
    if results.facts:
        sections.append(("Summary", facts(results.facts)))
    if curves := learning_curves(results.histories):
        sections.append(("Learning curves", curves))
    if results.classes is None:
        panels = [parity(results.target, results.truth, results.predicted)]
        panels.append(error_by_range(results.target, results.truth, results.predicted))
    else:
        panels = [panel(results.classes, results.truth, results.predicted) for panel in (roc, confusion)]
    sections.append(("Predictions", figures(panels)))
    if results.embeddings is not None and np.ptp(results.embeddings) > 0:
        sections.append(
            ("Map", embedding_map(results.target, results.truth, results.embeddings, results.classes))
        )
    sections.append(("Best and worst", examples(results)))
    return sections


# -- scores ------------------------------------------------------------------------------------------------

HEADINGS = {
    "mae": "test MAE",
    "rmse": "test RMSE",
    "r2": "test R²",
    "accuracy": "test accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
}


def scores_table(scores: Sequence[Score]) -> str:
    """Return the comparison as an HTML table: the last row is the model's own, the best of each column is bold."""
    heads, rows = _score_rows(scores)
    best = {
        (row, column)
        for column, name in enumerate(scores[0].metrics, start=1)
        for row, score in enumerate(scores)
        if score.metrics[name] == _best(name, scores)
    }
    return html_table(heads, rows, text=(0, len(heads) - 1), own=len(rows) - 1, best=best)


def scores_as_text(scores: Sequence[Score]) -> str:
    """Return the comparison as a table for a terminal."""
    heads, rows = _score_rows(scores)
    return text_table(heads, rows, text=(0, len(heads) - 1))


def _score_rows(scores: Sequence[Score]) -> tuple[list[str], list[list[str]]]:
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


def _best(name: str, scores: Sequence[Score]) -> float:
    values = [score.metrics[name] for score in scores if not math.isnan(score.metrics[name])]
    return (max if METRICS[name].higher_is_better else min)(values, default=math.nan)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:z.4f}" if abs(value) < 1000 else f"{value:.4g}"


# -- text --------------------------------------------------------------------------------------------------


def fit_as_text(found: FitRecord) -> str:
    """Return the result of a fit as lines of text: model, sizes of the parts, metrics of each target."""
    counts = found.structures
    lines = [
        f"{found.task} with {found.model}, {found.parameters:,} weights, best epoch "
        f"{', '.join(map(str, found.best_epoch))} of {found.epochs[0]}",
        f"{counts.train:,} training, {counts.validation:,} validation, {counts.test:,} test structures",
    ]
    for name, measures in found.test.items():
        lines.append(f"test {name}: {_listed(measures)}")
        lines.append(f"  without a model: {_listed(found.baseline[name])}")
    return "\n".join(lines)


def _listed(measures: Metrics) -> str:
    return ", ".join(f"{name} {_known(name, value)}" for name, value in measures.items())


def _known(name: str, value: float | None) -> str:
    if value is None:
        return "undefined"
    # Errors have the target's units and may be as small as they like; a share of the variance is not.
    return f"{value:z.4f}" if name == "r2" and abs(value) < 1000 else f"{value:.4g}"


# -- summary -----------------------------------------------------------------------------------------------

OF_THE_MODEL = (
    "model",
    "dim",
    "rounds",
    "activation",
    "pooling",
    "bias",
    "representation",
    "representation_options",
    "every_round",
    "standardise",
    "node_width",
    "hidden",
    "dropout",
)
# Neither of the model nor of its training, or shown in another way.
NOT_SHOWN = ("model_options", "epochs", "checkpoint", "resume", "verbose")
SILENT: tuple[object, ...] = (None, False, 0.0)


def summary(estimator: StructureEstimator, train: Structures, test: Structures, seconds: float) -> Facts:
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


def _model(estimator: StructureEstimator) -> list[tuple[str, object]]:
    options = estimator.get_params()
    entries = [(name, options[name]) for name in OF_THE_MODEL if options.get(name) not in SILENT]
    entries += list((options.get("model_options") or {}).items())
    entries.append(("parameters", f"{sum(network.num_parameters for network in estimator.networks_):,}"))
    if len(estimator.networks_) > 1:
        entries.append(("networks", len(estimator.networks_)))
    return entries


def _training(estimator: StructureEstimator, seconds: float) -> list[tuple[str, object]]:
    options, history = estimator.get_params(), estimator.history_
    entries = [
        (name.replace("_", " "), value)
        for name, value in options.items()
        if name not in OF_THE_MODEL + NOT_SHOWN and value not in SILENT
    ]
    if history.rows:
        rates = sorted(row["structures_per_second"] for row in history.rows)
        entries += [
            ("epochs", f"{len(history.rows)}, the weights of epoch {history.best_epoch} were kept"),
            ("ended", history.reason),
            ("time", f"{seconds:.0f} s, {rates[len(rates) // 2]:,.0f} structures/s"),
        ]
    entries.append(
        (
            "versions",
            ", ".join(f"{name} {version(name) or 'from source'}" for name in ("hiddenfield", "torch")),
        )
    )
    return entries
