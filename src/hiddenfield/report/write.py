"""The report of a fitted estimator: one page, and its table of scores and summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.evaluation.measuring import METRICS, Score
from hiddenfield.evaluation.records import FitRecord, Metrics
from hiddenfield.machine import version
from hiddenfield.report.examples import examples
from hiddenfield.report.page import Section, facts, html_table, write_html
from hiddenfield.report.panels import confusion, embedding_map, error_by_range, learning_curves, parity, roc

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator
    from hiddenfield.report.results import Results

Facts = Sequence[tuple[str, Sequence[tuple[str, object]]]]
"""Groups of names and values, each under a heading."""

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
    sections.append(("Predictions", f'<div class="figures">{"".join(panels)}</div>'))
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
    names = list(scores[0].metrics)
    rows = [
        [
            score.name,
            *(_number(score.metrics[name]) for name in names),
            f"{score.parameters:,}",
            "" if score.seconds is None else f"{score.seconds:.1f}",
            score.note,
        ]
        for score in scores
    ]
    heads = ["model", *(HEADINGS[name] for name in names), "parameters", "seconds", ""]
    best = {
        (row, column)
        for column, name in enumerate(names, start=1)
        for row, score in enumerate(scores)
        if score.metrics[name] == _best(name, scores)
    }
    return html_table(heads, rows, text=(0, len(heads) - 1), own=len(rows) - 1, best=best)


def scores_as_text(scores: Sequence[Score]) -> str:
    """Return the comparison as lines of text.

    Examples
    --------
    >>> print(scores_as_text([Score("mean predictor", {"mae": 1.5, "rmse": 2.0}, 1)]))
    model           test MAE  test RMSE  parameters
    mean predictor    1.5000     2.0000           1
    """
    names = list(scores[0].metrics)
    lines = [["model", *(HEADINGS[name] for name in names), "parameters"]]
    lines += [[s.name, *(_number(s.metrics[name]) for name in names), f"{s.parameters:,}"] for s in scores]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


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
    "every_round",
    "standardise",
    "node_width",
    "hidden",
    "dropout",
)
OF_TRAINING = (
    "optimizer",
    "learning_rate",
    "schedule",
    "batch_size",
    "weight_decay",
    "loss",
    "class_weight",
    "resample",
    "monitor",
    "random_state",
)
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
        (name.replace("_", " "), options[name]) for name in OF_TRAINING if options.get(name) not in SILENT
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
