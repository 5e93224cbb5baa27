"""The page of an assessment: of one target or several, or of a fitted model with its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.evaluation.records import Assessment, Assessments, LeakageRecord
from hiddenfield.report.assessment_text import (
    as_html,
    comparison,
    interval_in_words,
    known,
    leakage_in_words,
    several_of,
    targets_table,
)
from hiddenfield.report.examples import examples
from hiddenfield.report.page import Section, escape, facts, figures, write_html
from hiddenfield.report.panels import box_plots, curve_plot, embedding_map, prediction_plots, training_plots
from hiddenfield.report.results import Facts, Panels, Results, collect
from hiddenfield.report.study.tables import number

if TYPE_CHECKING:
    from hiddenfield.estimators.base import Fitted

# At most so many values of a selected parameter are listed.
MOST_VALUES = 12
# Targets whose pictures a page shows, at most.
MOST_PICTURED = 12


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
        What the page shows; ``results.found`` has the numbers.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words = hf.data.from_sequences(
    ...     ["A" * k + "B" for k in range(30)], targets=[float(k) for k in range(30)]
    ... )
    >>> model = StructureRegressor(dim=4, epochs=2, random_state=0).fit(words[:20])
    >>> results = build(model, words[:20], words[20:], Path(tempfile.mkdtemp()) / "report.html")
    >>> list(results.found.targets["target"].baselines)
    ['mean predictor', 'labels + ridge', 'WL-3 + ridge']
    """
    results = collect(estimator, train, test, **options)
    write_report(path, results)
    return results


def write_report(
    path: str | Path, found: Assessment | Assessments | Results, *, title: str | None = None
) -> Path:
    """Write an assessment as one page of HTML that fetches nothing and opens in any browser.

    The file is there whole or not at all. Text that comes from data (ids, labels, SMILES, names) is escaped.

    Parameters
    ----------
    path
        Where to; folders are made.
    found
        What to show: of one target or of several, or of a fitted model with its predictions.
    title
        Of the page.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.evaluation import AssessmentSettings, assess
    >>> words = hf.data.from_sequences(["AB" * k for k in range(1, 9)], targets=["short", "long"] * 4)
    >>> quick = {"dim": 4, "epochs": 1, "hidden": 4}
    >>> found = assess("mean_field", words, settings=AssessmentSettings(folds=2), parameters=quick)
    >>> file = write_report(Path(tempfile.mkdtemp()) / "assessment.html", found)
    >>> "no arcs, same head" in file.read_text()
    True
    """
    results = found if isinstance(found, Results) else None
    several = found.found if isinstance(found, Results) else several_of(found)
    title = title or ("Assessment" if results is None else results.title)
    return write_html(path, title, _lead(several), _sections(several, results))


def _lead(found: Assessments) -> str:
    if len(found.targets) != 1:
        means = [
            f"{NAMES[over.metric]} {known(over.mean, over.metric)}"
            + f", mean of {over.targets} targets" * (over.targets > 1)
            for over in found.means
        ]
        return f"{capital('; '.join(means))}."
    (one,) = found.targets.values()
    interval = (
        "" if one.interval is None else f" (95 % interval {interval_in_words(one.interval, one.metric)})"
    )
    value = f"{one.model}: {NAMES[one.metric]} {known(one.mean, one.metric)}{interval} of {one.target}"
    if one.structures.tested is not None:
        value += f", on {one.structures.tested:,} test structures"
    return f"{value}. {capital(one.protocol.text)}."


def _sections(found: Assessments, results: Results | None) -> list[Section]:
    """Return the sections that there is something for: warnings, each target, and what a fitted model shows."""
    sections: list[Section] = []
    if found.warnings:
        listed = "".join(f"<li>{escape(capital(text))}.</li>" for text in found.warnings)
        sections.append(("Read this first", f"<ul>{listed}</ul>"))
    if len(found.targets) != 1:
        sections.append(("All targets", as_html(targets_table(found))))
    if found.failed:
        listed = "".join(f"<li>{escape(f'{name}: {reason}')}</li>" for name, reason in found.failed.items())
        sections.append(("Not assessed", f"<ul>{listed}</ul>"))
    shared = [] if results is None else list(results.own)
    for place, (name, one) in enumerate(found.targets.items()):
        panels = None if results is None else results.panels.get(name)
        key = f"-{place + 1}" if place else ""
        own = _of_target(one, panels, key, pictured=place < MOST_PICTURED, curve=results is None or not place)
        if len(found.targets) == 1:
            sections += own
        else:
            sections.append((name, "".join(f"<h3>{heading}</h3>{content}" for heading, content in own)))
    sections += shared
    if results is not None:
        shown = results.shown
        if results.embeddings is not None and np.ptp(results.embeddings, axis=0).any():
            picture = embedding_map(results.target, shown.truth, results.embeddings, shown.classes)
            sections.append(("Map", picture))
        sections.append(("Best and worst", examples(results)))
    return [*sections, ("Summary", facts(_facts(found, results)))]


def _of_target(
    found: Assessment, panels: Panels | None, key: str, *, pictured: bool, curve: bool
) -> list[Section]:
    """Return the sections of one target; the `key` distinguishes its pictures from those of others on the page."""
    sections = [("Comparison", f"<p>{_note(found)}</p>" + as_html(comparison(found), len(found.baselines)))]
    folds = [box_plots(found, key)] if len(found.folds) > 1 else []
    folds += [] if found.learning_curve is None else [curve_plot(found, key)]
    if folds and pictured:
        sections.append(("Folds" if len(found.folds) > 1 else "Learning curve", figures(folds)))
    if len(found.folds) > 1 or found.folds[0].selected:
        sections.append(("Every split", _folds(found)))
    if found.leakage is not None:
        sections.append(("Leakage", leakage_section(found.leakage)))
    if found.training_curve is not None and curve:
        kept = sorted({epoch for fold in found.folds for epoch in fold.epochs or ()})
        sections.append(("Training", figures(training_plots(found.training_curve, kept, key))))
    predictions = prediction_plots(found, panels, key) if pictured else []
    return sections + ([("Predictions", figures(predictions))] if predictions else [])


def _note(found: Assessment) -> str:
    """Explain the numbers, and where intervals and p come from."""
    if len(found.folds) > 1:
        return (
            "Means over the test parts, which had no part in any choice. Intervals and p are corrected for folds that "
            "share their training structures (Nadeau and Bengio 2003). The best of each metric is bold."
        )
    return (
        "Values on the test part, which had no part in any choice. Intervals and p come from a bootstrap of its "
        "structures: they do not account for the choice of the training part. The best of each metric is bold."
    )


def _folds(found: Assessment) -> str:
    """Return a table of the folds: sizes, value, epochs kept, selected parameters."""
    rows = [
        {
            "split": fold.name.replace(" ", "\N{NO-BREAK SPACE}"),
            "train": f"{fold.train:,}",
            "test": f"{fold.test:,}",
            NAMES[found.metric]: known(fold.value, found.metric),
            "by seed": " ".join(map(number, fold.seeds)) if len(fold.seeds) > 1 else "",
            "epochs kept": " ".join(map(str, fold.epochs or ())),
            "selected": ", ".join(f"{name} {value}" for name, value in fold.selected.items()),
        }
        for fold in found.folds
    ]
    return as_html(rows)


def leakage_section(leakage: LeakageRecord) -> str:
    """Return HTML that counts copies and lists the first."""
    text = f"<p>{escape(capital(leakage_in_words(leakage)))}.</p>"
    if not leakage.ids:
        return text
    shown = ", ".join(f"{first} = {second}" for first, second in leakage.ids[:20])
    more = f", and {leakage.count - 20} more" if leakage.count > 20 else ""
    return f"{text}<p>Test structure = training structure: {escape(shown + more)}.</p>"


def _facts(found: Assessments, results: Results | None) -> Facts:
    """Return how the assessment was done, of what, and how to reproduce it; of a fitted model also its settings."""
    if not found.targets:
        return []
    one = next(iter(found.targets.values()))
    protocol, seconds = one.protocol, sum(each.seconds for each in found.targets.values())
    selected = len(protocol.candidates) > 1
    none = "none: 1 candidate" if protocol.inner else "none: settings given, none selected"
    how: list[tuple[str, object]] = [
        ("split", f"{protocol.split}, {protocol.folds} in all"),
        ("selection", protocol.inner if protocol.inner and selected else none),
        ("final fits", f"{protocol.seeds} per split"),
        ("interval", protocol.interval),
    ]
    if selected:
        how.insert(2, ("candidates", _candidates(protocol.candidates)))
    again: list[tuple[str, object]] = [
        *[("command", found.command)] * (found.command is not None),
        ("seed", protocol.seed),
        *[("data", protocol.data), ("splits", protocol.splits)] * (len(found.targets) == 1),
        *[("time", f"{seconds:.1f} s")] * (found.fitted is None),
    ]
    groups = [("How", how), ("Data", _data_facts(found)), ("To reproduce it", again)]
    return groups if results is None else [groups[0], groups[1], *results.facts, groups[2]]


def _data_facts(found: Assessments) -> list[tuple[str, object]]:
    entries: list[tuple[str, object]] = []
    if found.fitted is not None:
        parts = found.fitted.structures
        entries += [
            ("training", f"{parts.train:,} structures"),
            ("validation", f"{parts.validation:,} structures, which chose the epoch"),
            ("test", f"{parts.test:,} structures"),
            ("without target", f"{parts.without_target:,}, left out"),
        ]
    if len(found.targets) > 1:
        return [*entries, ("targets", len(found.targets))]
    (one,) = found.targets.values()
    if found.fitted is None:
        counts = one.structures
        further = (("tested", counts.tested), ("in no split", counts.in_no_split))
        entries += [("structures", f"{counts.used:,}"), ("without target", counts.without_target)]
        entries += [(name, f"{count:,}") for name, count in further if count is not None]
    return [*entries, ("target", one.target), ("task", one.task)]


def _candidates(candidates: list[dict[str, Any]]) -> str:
    """Count them, and list the values of each parameter.

    Examples
    --------
    >>> _candidates([{"dim": 32, "rounds": 2}, {"dim": 64, "rounds": 2}])
    '2: dim 32, 64; rounds 2'
    """
    values: dict[str, list[str]] = {}
    for candidate in candidates:
        for name, value in candidate.items():
            values.setdefault(name, []).append(str(value))
    parts = []
    for name, several in values.items():
        different = list(dict.fromkeys(several))
        more = f" and {len(different) - MOST_VALUES} more" if len(different) > MOST_VALUES else ""
        parts.append(f"{name} {', '.join(different[:MOST_VALUES])}{more}")
    return f"{len(candidates)}: {'; '.join(parts)}"
