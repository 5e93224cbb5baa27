"""An assessment for a person: as text in a terminal and as a page, of one target or several, or of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.measuring import METRICS, NAMES, capital
from hiddenfield.evaluation.records import (
    Assessment,
    Assessments,
    BaselineRecord,
    ComparisonRecord,
    Counts,
    FittedModel,
    LeakageRecord,
    TrainingCurve,
)
from hiddenfield.report.drawing import BLUE, COLOURS, GREY, RED, plain_log_scale, plot
from hiddenfield.report.examples import examples
from hiddenfield.report.page import Section, escape, facts, figure_box, figures, html_table, write_html
from hiddenfield.report.panels import confusion, embedding_map, parity, roc
from hiddenfield.report.results import Facts, Panels, Results, blend_in_words, collect
from hiddenfield.report.study import Picture, Row, draw_picture
from hiddenfield.report.study.tables import copies_in_words, number
from hiddenfield.report.terminal import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hiddenfield.estimators.base import Fitted

# At most so many values of a selected parameter are listed.
MOST_VALUES = 12
# Targets whose pictures a page shows, at most.
MOST_PICTURED = 12

# Verdicts of records for a reader: in a table, and in a sentence.
SHORT = {"better": "model better", "worse": "model worse", "not told apart": "not significant"}
VERDICTS = {"not told apart": "not significantly different"}

UNDEFINED = "undefined"

# Headings of metrics.
HEADS = NAMES | {"mae": "MAE", "rmse": "RMSE", "balanced_accuracy": "balanced"}

# Headings of columns that are text.
OF_TEXT = ("model", "target", "metric", "best baseline", "verdict", "note")

Cells = Mapping[str, str]
"""A row of a table: texts by heading."""


# -- text --------------------------------------------------------------------------------------------------


def assessment_as_text(found: Assessment | Assessments) -> str:
    """Return a table of the baselines and the model, or of the targets, and around it what a reader must know."""
    several = _several(found)
    every, lines = list(several.targets.values()), []
    if several.fitted is not None:
        lines += _fitted_lines(several.fitted)
    if len(every) == 1:
        title = f"{NAMES[every[0].metric]} of {every[0].target}"
        heads, rows, texts = _laid_out(_comparison(every[0]), without=("note",))
        lines.append(text_table(heads, rows, text=texts, title=title))
    elif every:
        heads, rows, texts = _laid_out(_targets_table(several), without=("R²", "ROC AUC"))
        lines.append(text_table(heads, rows, text=texts))
    lines += [f"not assessed: {name}: {reason}" for name, reason in several.failed.items()]
    if len(every) == 1:
        lines += filter(None, [structures_in_words(every[0].structures)])
    if every:
        lines.append(f"protocol{', of each target' * (len(every) > 1)}: {every[0].protocol.text}")
    if len(every) == 1 and every[0].leakage is not None:
        lines.append(f"leakage: {leakage_in_words(every[0].leakage)}")
    lines += [f"warning: {text}" for text in several.warnings]
    if several.fitted is None:
        lines.append(f"{sum(one.seconds for one in every):.1f} s")
    return "\n".join(lines)


def _several(found: Assessment | Assessments) -> Assessments:
    if isinstance(found, Assessments):
        return found
    return Assessments.of({found.target: found}, {}, command=found.command)


def _fitted_lines(fitted: FittedModel) -> list[str]:
    """Say what was fitted, and to how many structures."""
    counts = fitted.structures
    left_out = f"; {counts.without_target:,} without a target left out" if counts.without_target else ""
    many = f"{len(fitted.epochs)} networks of " if len(fitted.epochs) > 1 else ""
    best, most = (", ".join(map(str, each)) for each in (fitted.best_epoch, dict.fromkeys(fitted.epochs)))
    lines = [
        f"{fitted.task} with {many}{fitted.model}, {fitted.num_parameters:,} weights"
        + (f", best epoch {best} of {most}" if fitted.epochs else ""),
        f"{counts.train:,} training, {counts.validation:,} validation, {counts.test:,} test structures{left_out}",
    ]
    if fitted.epochs and not counts.validation and (share := fitted.settings.get("validation_fraction")):
        lines.append(
            f"each network holds out another {100 * share:.0f} % of the training structures to choose its epoch"
        )
    if fitted.blend.get("networks", 1.0) < 1.0:
        lines.append(f"predictions: {blend_in_words(fitted.blend)}")
    return lines


def against_as_text(other: Assessment, found: ComparisonRecord) -> str:
    """Return a line on the comparison with another assessment."""
    p = "" if found.p_value is None else f", p = {found.p_value:.3g}"
    verdict = VERDICTS.get(found.verdict, found.verdict)
    return f"against {other.model} ({other.mean:.4g}): {verdict}, difference {found.difference:+.4g}{p}"


def structures_in_words(counts: Counts) -> str:
    """Count the structures, if some have no target or are in no split; the empty text if all take part.

    Examples
    --------
    >>> structures_in_words(Counts(180, 2, 100, 8))
    '180 structures; 2 without a target left out; 8 in no split'
    """
    left_out = {"without a target left out": counts.without_target, "in no split": counts.in_no_split}
    parts = [f"{count:,} {words}" for words, count in left_out.items() if count]
    return "; ".join([f"{counts.used:,} structures", *parts]) if parts else ""


def leakage_in_words(leakage: LeakageRecord) -> str:
    """Count the test structures with copies in training, and give the mean without them."""
    text = copies_in_words(leakage)
    if not leakage.count or leakage.mean_without is None:
        return text
    return f"{text}; without them the result is {number(leakage.mean_without)}"


# -- tables ------------------------------------------------------------------------------------------------


def _laid_out(
    rows: Sequence[Cells], without: Sequence[str] = ()
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return heads, rows and the places of text, of the columns that are not empty."""
    heads = [
        name for name in max(rows, key=len) if name not in without and any(row.get(name) for row in rows)
    ]
    cells = [[row.get(name, "") for name in heads] for row in rows]
    return heads, cells, [place for place, name in enumerate(heads) if name in OF_TEXT]


def _as_html(rows: Sequence[Cells], own: int | None = None) -> str:
    """Return a table for a page; beside an own row the best value of every metric is bold."""
    heads, cells, texts = _laid_out(rows)
    bold = set()
    for metric in METRICS.values() if own is not None else ():
        name = HEADS[metric.name]
        known = [
            (float(row[name]), k) for k, row in enumerate(rows) if row.get(name, "") not in ("", UNDEFINED)
        ]
        if known:
            top = (max if metric.higher_is_better else min)(value for value, _ in known)
            bold |= {(k, heads.index(name)) for value, k in known if value == top}
    return html_table(heads, cells, text=texts, own=own, best=bold)


def _comparison(found: Assessment) -> list[Cells]:
    """Return the rows of the baselines and, after them, the model."""
    timed = any(entry.seconds is not None for entry in found.baselines.values())

    def row(name: str, entry: Assessment | BaselineRecord) -> Cells:
        against = entry.model_against_it if isinstance(entry, BaselineRecord) else None
        p = None if against is None else against.p_value
        others = {key: value for key, value in (entry.metrics or {}).items() if key != found.metric}
        return {
            "model": name,
            **_values(found.metric, entry.mean, entry.std, entry.interval),
            **{HEADS[key]: _known(value, key) for key, value in others.items()},
            "weights": "" if entry.num_parameters is None else f"{entry.num_parameters:,}",
            "seconds": f"{entry.seconds:.1f}" if timed and entry.seconds is not None else "",
            **_verdict(against),
            "p": "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
            "note": entry.note if isinstance(entry, BaselineRecord) else "",
        }

    rows = [row(name, entry) for name, entry in found.baselines.items()]
    rows.append(row(found.model, found))
    if found.as_published is not None:
        values = _values(found.metric, found.as_published.mean, found.as_published.std)
        rows.append({"model": "as published (too good)", **values, "verdict": "chosen on these folds"})
    return rows


def _targets_table(found: Assessments) -> list[Cells]:
    """Return a row for every target, and one for the mean of those with the same metric."""
    several = len(found.means) > 1
    rows: list[Cells] = []
    for name, one in found.targets.items():
        best, second = one.best_baseline, "r2" if one.task == "regression" else "roc_auc"
        compared = one.constant if best is None else one.baselines[best]
        rows.append(
            {
                "target": name,
                **({"metric": NAMES[one.metric]} if several else {}),
                "tested": "" if one.structures.tested is None else f"{one.structures.tested:,}",
                **_values(one.metric, one.mean, one.std, one.interval, "mean" if several else None),
                HEADS[second]: _known(one.metrics[second], second) if second != one.metric else "",
                "no model": "" if one.constant is None else _known(one.constant.mean, one.metric),
                "best baseline": ""
                if best is None
                else f"{best} {_known(one.baselines[best].mean, one.metric)}",
                **_verdict(None if compared is None else compared.model_against_it),
                "copies": "" if one.leakage is None else f"{one.leakage.share:.1%}",
            }
        )
    for over in found.means:
        name, metric = f"mean of {over.targets}", {"metric": NAMES[over.metric]} if several else {}
        std = over.std if any(one.std is not None for one in found.targets.values()) else None
        values = _values(over.metric, over.mean, std, name="mean" if several else None)
        rows.append({"target": name, **metric, **values})
    return rows


def _values(
    metric: str,
    mean: float,
    std: float | None,
    interval: Sequence[float] | None = None,
    name: str | None = None,
) -> Cells:
    """Return the cells of a metric, under its own heading or another name."""
    return {
        name or HEADS[metric]: _known(mean, metric),
        "± std": "" if std is None else _known(std, metric),
        "95 % interval": "" if interval is None else _interval(interval, metric),
    }


def _verdict(against: ComparisonRecord | None) -> Cells:
    return {"verdict": "" if against is None else SHORT[against.verdict]}


def _interval(interval: Sequence[float], metric: str) -> str:
    return f"{_known(interval[0], metric)} to {_known(interval[1], metric)}"


def _known(value: float | None, metric: str) -> str:
    """Return a number with four significant digits, or decimals where it is a share."""
    small = metric in ("mae", "rmse") and value is not None and 0 < abs(value) < 0.01
    return UNDEFINED if value is None else f"{value:.4g}" if small else number(value)


# -- the page ----------------------------------------------------------------------------------------------


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
    several = found.found if isinstance(found, Results) else _several(found)
    title = title or ("Assessment" if results is None else results.title)
    return write_html(path, title, _lead(several), _sections(several, results))


def _lead(found: Assessments) -> str:
    if len(found.targets) != 1:
        means = (
            f"{NAMES[m.metric]} {_known(m.mean, m.metric)}, mean of {m.targets} targets" for m in found.means
        )
        return f"{capital('; '.join(means))}."
    (one,) = found.targets.values()
    interval = "" if one.interval is None else f" (95 % interval {_interval(one.interval, one.metric)})"
    value = f"{one.model}: {NAMES[one.metric]} {_known(one.mean, one.metric)}{interval} of {one.target}"
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
        sections.append(("All targets", _as_html(_targets_table(found))))
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
    sections = [("Comparison", f"<p>{_note(found)}</p>" + _as_html(_comparison(found), len(found.baselines)))]
    folds = [_box_plots(found, key)] if len(found.folds) > 1 else []
    folds += [] if found.learning_curve is None else [_curve_plot(found, key)]
    if folds and pictured:
        sections.append(("Folds" if len(found.folds) > 1 else "Learning curve", figures(folds)))
    if len(found.folds) > 1 or found.folds[0].selected:
        sections.append(("Every split", _folds(found)))
    if found.leakage is not None:
        sections.append(("Leakage", leakage_section(found.leakage)))
    if found.training_curve is not None and curve:
        kept = sorted({epoch for fold in found.folds for epoch in fold.epochs or ()})
        sections.append(("Training", figures(_training(found.training_curve, kept, key))))
    predictions = _predictions(found, panels, key) if pictured else []
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
    several = found.protocol.seeds > 1
    selected = any(fold.selected for fold in found.folds)
    epochs = any(fold.epochs is not None for fold in found.folds)
    rows = []
    for fold in found.folds:
        cells = [
            fold.name.replace(" ", "\N{NO-BREAK SPACE}"),
            f"{fold.train:,}",
            f"{fold.test:,}",
            number(fold.value),
        ]
        cells += [" ".join(map(number, fold.seeds))] * several
        cells += [" ".join(map(str, fold.epochs or []))] * epochs
        cells += [", ".join(f"{name} {value}" for name, value in fold.selected.items())] * selected
        rows.append(cells)
    heads = ["split", "train", "test", NAMES[found.metric]]
    heads += ["by seed"] * several + ["epochs kept"] * epochs + ["selected"] * selected
    return html_table(heads, rows, text=(0, len(heads) - 1) if selected else (0,))


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


# -- figures -----------------------------------------------------------------------------------------------


def _box_plots(found: Assessment, key: str) -> str:
    """Draw a box for each model over the folds, with every fold as a point."""
    columns = {name: entry.folds for name, entry in found.baselines.items()} | {found.model: found.values}
    names, last = list(columns), len(columns) - 1

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, name in enumerate(names):
            values = np.asarray(columns[name], dtype=np.float64)
            colour = BLUE if place == last else GREY
            style: dict[str, Any] = {
                f"{part}props": {"color": colour} for part in ("whisker", "cap", "median")
            }
            style["boxprops"] = {"facecolor": colour + "33", "edgecolor": colour}
            style["medianprops"]["linewidth"] = 1.8
            style |= {"orientation": "horizontal", "showfliers": False, "patch_artist": True, "widths": 0.55}
            axes.boxplot(values, positions=[place], **style)
            # The folds keep their order from top to bottom, so that points of the same fold can be followed.
            spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            axes.plot(values, place + spread, "o", color=colour, markersize=3.2, alpha=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(last + 0.6, -0.6)
        axes.set_xlabel(NAMES[found.metric])
        axes.grid(False, axis="y")

    height = 1.0 + 0.5 * len(names)
    caption = "Every fold is a point; the box holds the middle half of them, the line is the median."
    return plot(f"boxes{key}", caption, paint, height=max(height, 2.4), title="values by fold")


def _curve_plot(found: Assessment, key: str) -> str:
    """Draw the metric against the number of training structures: mean over the folds, and their deviation."""
    rows = found.learning_curve or []
    sizes = [row.train for row in rows]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for colour, name in zip((GREY, *COLOURS[1:]), rows[0].baselines, strict=False):
            values = [np.mean(np.array(row.baselines[name], dtype=np.float64)) for row in rows]
            axes.plot(sizes, values, color=colour, marker="o", markersize=3, linewidth=1.2, label=name)
        means = np.array([np.mean(row.values) for row in rows])
        spread = np.array([np.std(row.values, ddof=1) if len(row.values) > 1 else 0.0 for row in rows])
        axes.fill_between(sizes, means - spread, means + spread, color=BLUE, alpha=0.15, linewidth=0)
        axes.plot(sizes, means, color=BLUE, marker="o", markersize=4, linewidth=1.8, label=found.model)
        axes.set_xlabel("training structures")
        axes.set_ylabel(NAMES[found.metric])
        axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axes.legend()

    caption = (
        "Learning curve: mean over the folds by the number of training structures; the band is one standard deviation. "
        "A curve that still rises (or, for errors, falls) at its end asks for more data."
    )
    return plot(f"curve{key}", caption, paint, title="learning curve")


def _predictions(found: Assessment, panels: Panels | None, key: str) -> list[str]:
    """Draw the errors of a target: ROC curves or ranges of the number, and of a fitted model every prediction."""
    drawn, row = [], Row.of(found)
    if panels is not None and panels.classes is None:
        drawn.append(parity(found.target, panels.truth, panels.predicted, key))
    if found.roc is not None:
        picture = Picture("roc", f"roc{key}", "ROC curve", "", {f"members: {found.roc.positive}": [row]})
        folds = "mean over the folds at each false positive rate, with one standard deviation; "
        caption = (
            f"ROC curve: {folds * (len(found.folds) > 1)}in brackets the area under the curve"
            f"{' of all folds together' * (len(found.folds) > 1)}."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    elif panels is not None and panels.classes is not None:
        drawn.append(roc(panels.classes, panels.truth, panels.predicted, key))
    if panels is not None and panels.classes is not None:
        drawn.append(confusion(panels.classes, panels.truth, panels.predicted, key))
    if found.ranges is not None:
        picture = Picture("ranges", f"ranges{key}", "errors by range of the target", "", {"": [row]})
        caption = (
            "Mean absolute error on the test structures by range of the target, and how many each holds."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    return drawn


def _training(curve: TrainingCurve, kept: Sequence[int], key: str) -> list[str]:
    """Draw the losses and, where it was recorded, the metric by epoch; dashed lines mark the epochs that were kept."""

    def paint(figure: Figure, columns: Mapping[str, tuple[str, str]], label: str) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for column, (colour, name) in columns.items():
            values = getattr(curve, column) or ()
            points = [pair for pair in zip(curve.epochs, values, strict=False) if pair[1] is not None]
            mark = "o" if len(points) < 40 else None
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=name, marker=mark, markersize=3)
        for epoch in kept:
            axes.axvline(epoch, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
        axes.set(xlabel="epoch", ylabel=label)
        if len(columns) > 1:
            plain_log_scale(axes, (1.0, 2.0, 5.0))
            axes.legend()
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    early = " Networks that stopped early count as long as they trained." * (len(set(curve.runs)) > 1)
    losses = {"train_loss": (BLUE, "training"), "valid_loss": (RED, "held out")}
    many = f"mean of {max(curve.runs)} networks" if max(curve.runs) > 1 else "one network"
    caption = f"Loss by epoch, {many}; dashed: the epochs whose weights were kept.{early}"
    drawn = []
    if curve.train_loss is not None:
        drawn.append(
            plot(
                f"losses{key}", caption, lambda figure: paint(figure, losses, "loss"), title="losses by epoch"
            )
        )
    name = curve.metric.removeprefix("valid_")
    if name in NAMES:
        column, title = {curve.metric: (RED, "held out")}, NAMES[name]
        caption = (
            f"{capital(title)} on the held-out structures by epoch, {many}; dashed: the epochs whose weights were kept."
            f"{early}"
        )
        drawn.append(
            plot(
                f"metric{key}", caption, lambda figure: paint(figure, column, title), title="metric by epoch"
            )
        )
    return drawn
