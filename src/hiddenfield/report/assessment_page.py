"""An assessment for a person: as text in a terminal, and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.evaluation.assessment.several import Assessments
from hiddenfield.evaluation.measuring import METRICS, NAMES, capital
from hiddenfield.evaluation.records import (
    AsPublished,
    Assessment,
    BaselineRecord,
    ComparisonRecord,
    Counts,
    LeakageRecord,
    TrainingCurve,
)
from hiddenfield.report.drawing import BLUE, COLOURS, GREY, RED, plot
from hiddenfield.report.page import Section, escape, facts, figure_box, figures, html_table, write_html
from hiddenfield.report.study import Picture, Row, draw_picture
from hiddenfield.report.study.tables import copies_in_words, interval_text, number
from hiddenfield.report.terminal import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# At most so many values of a selected parameter are listed.
MOST_VALUES = 12

# Verdicts of records, for a reader.
VERDICTS = {"not told apart": "not significantly different"}


Measured = Assessment | BaselineRecord | AsPublished


def assessment_as_text(found: Assessment) -> str:
    """Return a table of the baselines and the model, and below it what a reader must know."""
    heads, rows, _ = _comparison(found)
    texts = (0, len(heads) - 2)
    lines = [text_table(heads, rows, text=texts, title=f"{NAMES[found.metric]} of {found.target}")]
    lines += filter(None, [structures_in_words(found.structures)])
    lines += [f"protocol: {found.protocol.text}"]
    if found.leakage is not None:
        lines.append(f"leakage: {leakage_in_words(found.leakage)}")
    return "\n".join([*lines, f"{found.seconds:.1f} s"])


def assessments_as_text(found: Assessments) -> str:
    """Return a table of several targets and their means, and below it those that could not be assessed."""
    heads, rows = _targets_table(found)
    lines = [text_table(heads, rows, text=(0, 1, 6, 7))]
    lines += [f"not assessed: {name}: {reason}" for name, reason in found.failed.items()]
    first = next(iter(found.targets.values()))
    lines.append(f"protocol, of each target: {first.protocol.text}")
    return "\n".join([*lines, f"{sum(one.seconds for one in found.targets.values()):.1f} s"])


def _targets_table(found: Assessments) -> tuple[list[str], list[list[str]]]:
    heads = ["target", "metric", "structures", "mean", "± std", "95 % interval"]
    heads += ["best baseline", "the model is", "copies"]
    rows = []
    for name, one in found.targets.items():
        sign = -1 if METRICS[one.metric].higher_is_better else 1
        best = min(one.baselines, key=lambda model: sign * one.baselines[model].mean, default=None)
        entry = None if best is None else one.baselines[best]
        rows.append(
            [
                name,
                NAMES[one.metric],
                f"{one.structures.used:,}",
                number(one.mean),
                "" if one.std is None else number(one.std),
                interval_text(one.interval),
                "" if entry is None else f"{best} {number(entry.mean)}",
                _verdict(None if entry is None else entry.model_against_it),
                "" if one.leakage is None else f"{one.leakage.share:.1%}",
            ]
        )
    for mean in found.means:
        std = "" if mean.std is None else number(mean.std)
        rows.append(
            [f"mean of {mean.targets}", NAMES[mean.metric], "", number(mean.mean), std, "", "", "", ""]
        )
    return heads, rows


def write_assessments(path: str | Path, found: Assessments, *, title: str = "Assessment") -> Path:
    """Write assessments of several targets as one page of HTML: a table of all, then the comparison of each.

    Parameters
    ----------
    path, found, title
        As for `write_assessment`.
    """
    means = "; ".join(f"{NAMES[m.metric]} {number(m.mean)}, mean of {m.targets} targets" for m in found.means)
    sections: list[Section] = [("All targets", html_table(*_targets_table(found), text=(0, 1, 6, 7)))]
    if found.failed:
        listed = "".join(f"<li>{escape(f'{name}: {reason}')}</li>" for name, reason in found.failed.items())
        sections.append(("Not assessed", f"<ul>{listed}</ul>"))
    for name, one in found.targets.items():
        heads, rows, own = _comparison(one)
        compared = html_table(heads, rows, text=(0, len(heads) - 2), own=own)
        leakage = "" if one.leakage is None else leakage_section(one.leakage)
        sections.append((name, f"<p>{_note(one)}</p>{compared}{leakage}{facts(_facts(one))}"))
    if found.command is not None:
        sections.append(("To reproduce it", f"<p>{escape(found.command)}</p>"))
    return write_html(path, title, f"{capital(means)}.", sections)


def _comparison(found: Assessment) -> tuple[list[str], list[list[str]], int]:
    """Return heads and rows of a table of baselines and model, and which row is the model's."""

    def row(name: str, entry: Measured, against: ComparisonRecord | None = None) -> list[str]:
        interval = None if isinstance(entry, AsPublished) else entry.interval
        size = None if isinstance(entry, AsPublished) else entry.num_parameters
        p = None if against is None else against.p_value
        return [
            name,
            number(entry.mean),
            "" if entry.std is None else number(entry.std),
            interval_text(interval),
            *["" if size is None else f"{size:,}"] * sized,
            _verdict(against),
            "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        ]

    sized = found.num_parameters is not None
    rows = [row(name, entry, entry.model_against_it) for name, entry in found.baselines.items()]
    rows.append(row(found.model, found))
    if found.as_published is not None:
        rows.append(row("as published (too good)", found.as_published))
        rows[-1][-2] = "chosen on these folds"
    heads = ["model", "mean", "± std", "95 % interval", *["weights"] * sized, "the model is", "p"]
    return heads, rows, len(found.baselines)


def against_as_text(other: Assessment, found: ComparisonRecord) -> str:
    """Return a line on the comparison with another assessment."""
    p = "" if found.p_value is None else f", p = {found.p_value:.3g}"
    return (
        f"against {other.model} ({other.mean:.4g}): {_verdict(found)}, difference {found.difference:+.4g}{p}"
    )


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
    return f"{text}; without them the mean is {number(leakage.mean_without)}"


def _verdict(against: ComparisonRecord | None) -> str:
    return "" if against is None else VERDICTS.get(against.verdict, against.verdict)


# -- the page ----------------------------------------------------------------------------------------------


def write_assessment(path: str | Path, found: Assessment, *, title: str = "Assessment") -> Path:
    """Write an assessment as one page of HTML that fetches nothing; it is there whole or not at all.

    Parameters
    ----------
    path
        Where to; folders are made.
    found
        What to show.
    title
        Of the page.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.evaluation import AssessmentSettings, assess
    >>> words = hf.data.from_sequences(["AB" * k for k in range(1, 9)], targets=["short", "long"] * 4)
    >>> quick = {"dim": 4, "epochs": 1, "hidden": 4}
    >>> found = assess("mean_field", words, settings=AssessmentSettings(folds=2), parameters=quick)
    >>> file = write_assessment(Path(tempfile.mkdtemp()) / "assessment.html", found)
    >>> "no arcs, same head" in file.read_text()
    True
    """
    interval = "" if found.interval is None else f" (95 % interval {interval_text(found.interval)})"
    lead = f"{found.model}: {NAMES[found.metric]} {number(found.mean)}{interval}. {capital(found.protocol.text)}."
    return write_html(path, title, lead, _sections(found))


def _sections(found: Assessment) -> list[Section]:
    heads, rows, own = _comparison(found)
    compared = html_table(heads, rows, text=(0, len(heads) - 2), own=own)
    sections: list[Section] = [("Comparison", f"<p>{_note(found)}</p>{compared}")]
    pictures = [_box_plots(found), *([] if found.learning_curve is None else [_curve_plot(found)])]
    sections.append(("Folds", figures(pictures)))
    if details := _detail_plots(found):
        sections.append(("Training and errors", figures(details)))
    sections.append(("Every split", _folds(found)))
    if found.leakage is not None:
        sections.append(("Leakage", leakage_section(found.leakage)))
    sections.append(("Protocol", facts(_facts(found))))
    return sections


def _note(found: Assessment) -> str:
    """Explain the numbers, and where intervals and p come from."""
    if len(found.folds) > 1:
        return (
            "Means over the test parts, which had no part in any choice. Intervals and p are corrected for folds that "
            "share their training structures (Nadeau and Bengio 2003)."
        )
    return (
        "Values on the test part, which had no part in any choice. Intervals and p come from a bootstrap of its "
        "structures: they do not account for the choice of the training part."
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


def _facts(found: Assessment) -> list[tuple[str, list[tuple[str, object]]]]:
    protocol, counts = found.protocol, found.structures
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
    parts = (("tested", counts.tested), ("in no split", counts.in_no_split))
    data: list[tuple[str, object]] = [
        ("structures", f"{counts.used:,}"),
        ("without target", counts.without_target),
        *[(name, f"{count:,}") for name, count in parts if count is not None],
        ("target", found.target),
        ("task", found.task),
    ]
    again: list[tuple[str, object]] = [
        *[("command", found.command)] * (found.command is not None),
        ("seed", protocol.seed),
        ("data", protocol.data),
        ("splits", protocol.splits),
        ("time", f"{found.seconds:.1f} s"),
    ]
    return [("How", how), ("Data", data), ("To reproduce it", again)]


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


def _box_plots(found: Assessment) -> str:
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
    return plot("boxes", caption, paint, height=max(height, 2.4), title="values by fold")


def _curve_plot(found: Assessment) -> str:
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
    return plot("curve", caption, paint, title="learning curve")


def _detail_plots(found: Assessment) -> list[str]:
    """Draw those of training curve, ROC curve and errors by range that an assessment has."""
    drawn = [] if found.training_curve is None else [_training(found.training_curve)]
    own = Row.of(found)
    if found.roc is not None:
        picture = Picture("roc", "roc", "ROC curve", "", {f"members: {found.roc.positive}": [own]})
        caption = (
            "ROC curve: mean over the folds at each false positive rate, with one standard deviation; in brackets the "
            "area under the curve of all folds together."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    if found.ranges is not None:
        picture = Picture("ranges", "ranges", "errors by range of the target", "", {"": [own]})
        caption = "Mean absolute error on the test parts by range of the target, and how many structures each holds."
        drawn.append(figure_box(draw_picture(picture), caption))
    return drawn


def _training(curve: TrainingCurve) -> str:
    """Draw the losses or, where it was recorded, the metric against the steps of the optimizer."""
    name = curve.metric.removeprefix("valid_")
    shown = ("train_loss", "valid_loss") if name not in NAMES else (curve.metric,)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for column, colour, label in zip(shown, (BLUE, RED), ("training", "held out"), strict=False):
            values = getattr(curve, column) or ()
            points = [pair for pair in zip(curve.steps, values, strict=False) if pair[1] is not None]
            mark = "o" if len(points) < 40 else None
            axes.plot(*zip(*points, strict=True), color=colour, label=label, marker=mark, markersize=3)
        axes.set_xlabel("training steps")
        axes.set_ylabel(NAMES.get(name, "loss"))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        if len(shown) > 1:
            axes.legend()

    what = f"{capital(NAMES[name])} on the held-out structures" if name in NAMES else "Losses"
    caption = f"{what}, against the steps of the optimizer: mean over folds and seeds."
    if len(set(curve.runs)) > 1:
        caption += " Networks that stopped early count as long as they trained."
    return plot("steps", caption, paint, title="training curve")
