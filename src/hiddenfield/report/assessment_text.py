"""Assessments as text: tables of models and of targets, and sentences, for terminals and pages alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiddenfield.evaluation.measuring import METRICS, NAMES
from hiddenfield.evaluation.records import (
    Assessment,
    Assessments,
    BaselineRecord,
    ComparisonRecord,
    Counts,
    FittedModel,
    LeakageRecord,
)
from hiddenfield.report.page import html_table
from hiddenfield.report.results import blend_in_words
from hiddenfield.report.study.tables import copies_in_words, number
from hiddenfield.report.terminal import text_table

# Verdicts of records for a reader: in a table, and in a sentence.
SHORT = {"better": "model better", "worse": "model worse", "not told apart": "not significant"}
VERDICTS = {"not told apart": "not significantly different"}

UNDEFINED = "undefined"

# Headings of metrics.
HEADS = NAMES | {"mae": "MAE", "rmse": "RMSE", "balanced_accuracy": "balanced"}

# Headings of columns that are text.
OF_TEXT = ("model", "target", "metric", "best baseline", "verdict", "note", "split", "selected")

Cells = Mapping[str, str]
"""A row of a table: texts by heading."""


# -- text --------------------------------------------------------------------------------------------------


def assessment_as_text(found: Assessment | Assessments) -> str:
    """Return a table of the baselines and the model, or of the targets, and around it what a reader must know."""
    several = several_of(found)
    every, lines = list(several.targets.values()), []
    if several.fitted is not None:
        lines += _fitted_lines(several.fitted)
    if len(every) == 1:
        title = f"{NAMES[every[0].metric]} of {every[0].target}"
        heads, rows, texts = _laid_out(comparison(every[0]), without=("note",))
        lines.append(text_table(heads, rows, text=texts, title=title))
    elif every:
        heads, rows, texts = _laid_out(targets_table(several), without=("R²", "ROC AUC"))
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


def several_of(found: Assessment | Assessments) -> Assessments:
    """Return assessments of several targets, of which there may be one."""
    if isinstance(found, Assessments):
        return found
    return Assessments.of({found.target: found}, {}, command=found.command)


def _fitted_lines(fitted: FittedModel) -> list[str]:
    """Say what was fitted, and to how many structures."""
    counts = fitted.structures
    left_out = f"; {counts.without_target:,} without a target left out" if counts.without_target else ""
    many = f"{len(fitted.epochs)} networks of " if len(fitted.epochs) > 1 else ""
    alike = len(set(fitted.epochs)) < 2
    ends = fitted.best_epoch if alike else map("{} of {}".format, fitted.best_epoch, fitted.epochs)
    best = ", ".join(map(str, ends)) + (f" of {fitted.epochs[0]}" if alike and fitted.epochs else "")
    lines = [
        f"{fitted.task} with {many}{fitted.model}, {fitted.num_parameters:,} weights"
        + (f", best epoch {best}" if fitted.epochs else ""),
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
    every: list[str] = []
    for row in sorted(rows, key=len, reverse=True):
        place = 0
        for name in row:
            if name not in every:
                every.insert(place, name)
            place = every.index(name) + 1
    heads = [name for name in every if name not in without and any(row.get(name) for row in rows)]
    cells = [[row.get(name, "") for name in heads] for row in rows]
    return heads, cells, [place for place, name in enumerate(heads) if name in OF_TEXT]


def as_html(rows: Sequence[Cells], own: int | None = None) -> str:
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


def comparison(found: Assessment) -> list[Cells]:
    """Return the rows of the baselines and, after them, the model."""
    timed = any(entry.seconds is not None for entry in found.baselines.values())

    def row(name: str, entry: Assessment | BaselineRecord) -> Cells:
        against = entry.model_against_it if isinstance(entry, BaselineRecord) else None
        p = None if against is None else against.p_value
        others = {key: value for key, value in (entry.metrics or {}).items() if key != found.metric}
        return {
            "model": name,
            **_values(found.metric, entry.mean, entry.std, entry.interval),
            **{HEADS[key]: known(value, key) for key, value in others.items()},
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


def targets_table(found: Assessments) -> list[Cells]:
    """Return a row for every target, and one for the mean of those with the same metric."""
    several = len(found.means) > 1
    rows: list[Cells] = []
    for name, one in found.targets.items():
        best, second = one.best_baseline, "r2" if one.task == "regression" else "roc_auc"
        compared = one.constant if best is None else one.baselines[best]
        rows.append(
            {
                "target": name,
                **({"metric": HEADS[one.metric]} if several else {}),
                "tested": "" if one.structures.tested is None else f"{one.structures.tested:,}",
                **_values(one.metric, one.mean, one.std, one.interval, "mean" if several else None),
                HEADS[second]: known(one.metrics[second], second) if second != one.metric else "",
                "no model": "" if one.constant is None else known(one.constant.mean, one.metric),
                "best baseline": ""
                if best is None
                else f"{best} {known(one.baselines[best].mean, one.metric)}",
                **_verdict(None if compared is None else compared.model_against_it),
                "copies": "" if one.leakage is None else f"{one.leakage.share:.1%}",
            }
        )
    for over in (mean for mean in found.means if mean.targets > 1):
        name, metric = f"mean of {over.targets}", {"metric": HEADS[over.metric]} if several else {}
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
        name or HEADS[metric]: known(mean, metric),
        "± std": "" if std is None else known(std, metric),
        "95 % interval": "" if interval is None else interval_in_words(interval, metric),
    }


def _verdict(against: ComparisonRecord | None) -> Cells:
    return {"verdict": "" if against is None else SHORT[against.verdict]}


def interval_in_words(interval: Sequence[float], metric: str) -> str:
    """Return both bounds, as `known` writes them."""
    return f"{known(interval[0], metric)} to {known(interval[1], metric)}"


def known(value: float | None, metric: str) -> str:
    """Return a number with four significant digits, or decimals where it is a share."""
    small = metric in ("mae", "rmse") and value is not None and 0 < abs(value) < 0.01
    return UNDEFINED if value is None else f"{value:.4g}" if small else number(value)
