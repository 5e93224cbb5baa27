"""Markdown tables of a study: models by data set, ablations, and every number with its interval and protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.evaluation.records import AsPublished, Assessment, BaselineRecord, LeakageRecord
from hiddenfield.evaluation.significance import Comparison, corrected_t_test
from hiddenfield.report.study.records import Row, best_of, by, gap

# Columns that a page has room for, beside the first.
WIDE = 6
# Baselines that a cell has room to name.
FEW = 2
# Baselines that ignore the structures.
TRIVIAL = ("class frequencies", "mean predictor")
# The error to show beside the one that is reported: papers report both.
OTHER_ERROR = {"rmse": "MAE", "mae": "RMSE"}
# Marks a number whose settings were found while results on the same test parts were seen.
SEEN = "†"
# Verdicts of a comparison with a baseline.
WORDS = {"better": "better than", "worse": "worse than", "not told apart": "not significantly different from"}
OPTIMISTIC = "Settings and epoch were selected on the reported folds: **these numbers are too optimistic.**"
SELECTED = "Settings were selected within each training part, never on the test part."
FIXED = "Settings are fixed; the test parts are used neither for training nor for choosing the epoch."
MIXED = "Nothing was selected on the test parts: settings are fixed or selected within each training part."


# -- text --------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a value with four significant digits.

    Examples
    --------
    >>> number(0.8828), number(123.456)
    ('0.8828', '123.5')
    """
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"


def signed(value: float) -> str:
    """Return a value with its sign.

    Examples
    --------
    >>> signed(0.5), signed(-0.5)
    ('+0.5000', '−0.5000')
    """
    return ("+" if value >= 0 else "−") + number(abs(value))


def _value(entry: Assessment | AsPublished | BaselineRecord) -> str:
    """Return the mean and, where it is known, the standard deviation."""
    return number(entry.mean) + ("" if entry.std is None else f" ± {number(entry.std)}")


def interval_text(found: Sequence[float] | None) -> str:
    """Return the bounds of an interval; nothing where there is none."""
    return "" if found is None else f"{number(found[0])} to {number(found[1])}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1) -> list[str]:
    """Return the lines of a Markdown table, numbers aligned to the right.

    Examples
    --------
    >>> table(["model", "value"], [["a", "1"]])
    ['| model | value |', '|---|--:|', '| a | 1 |', '']
    """
    rule = "|" + "|".join("---" if k < text_columns else "--:" for k in range(len(heads))) + "|"
    return [_line(heads), rule, *map(_line, rows), ""]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def short_source(source: str) -> str:
    """Return the name of a source: what comes before the first comma."""
    return source.split(",")[0]


def ordered_runs(rows: Sequence[Row]) -> list[Any]:
    """Return the distinct runs that rows come from, in order of appearance."""
    return [members[0].run for members in by(rows, lambda row: repr(row.run)).values()]


def _groups(rows: Sequence[Row]) -> list[tuple[list[str], list[Row]]]:
    """Return the rows that are compared with each other, with heading and protocol above them."""
    found = []
    groups = by(rows, lambda row: row.group)
    for group, members in groups.items():
        texts = by(members, lambda row: row.protocol_text)
        protocol = (
            f"Protocol: {next(iter(texts))}."
            if len(texts) == 1
            else "Details are under *Appendix: protocols*."
        )
        above = [f"### {capital(group)}", ""] if len(groups) > 1 else []
        found.append(([*above, f"{_honesty(members)} {protocol}", ""], members))
    return found


def _honesty(rows: Sequence[Row]) -> str:
    """Say whether anything was selected on the reported test parts."""
    if any(row.as_published is not None for row in rows):
        return OPTIMISTIC
    nested = {row.protocol.nested and len(row.protocol.candidates) > 1 for row in rows}
    return MIXED if len(nested) > 1 else SELECTED if nested.pop() else FIXED


# -- models by data set ------------------------------------------------------------------------------------


def summary(rows: Sequence[Row]) -> list[str]:
    """Return, for each protocol, a table of models by data set, with published figures; the longer side runs down."""
    lines = []
    for above, members in _groups(rows):
        lines += above
        data, models = list(by(members, lambda row: row.data)), list(by(members, lambda row: row.label))
        models += by(
            [
                *(f"*{name}*" for name in baselines_of(members)),
                *(f"*{short_source(figure.source)}*" for row in members for figure in row.figures),
            ],
            str,
        )
        cells = _cells(members)
        models_down = len(data) <= min(len(by(members, lambda row: row.label)), WIDE)
        head, down, across = ("model", models, data) if models_down else ("data", data, models)
        for start in range(0, len(across), WIDE):
            part = across[start : start + WIDE]
            body = [
                [one, *(cells.get((two, one) if models_down else (one, two), "") for two in part)]
                for one in down
            ]
            lines += table([head, *part], body)
    return lines


def _cells(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return the text for each data set and model or source; the best model is bold."""
    cells = {}
    for data, members in by(rows, lambda row: row.data).items():
        best = best_of(members)
        for row in members:
            text = _value(row.shown) + SEEN * row.marked
            cells[data, row.label] = f"**{text}**" if row is best and len(members) > 1 else text
        for name, entry in baselines_of(members).items():
            cells[data, f"*{name}*"] = _value(entry)
        figures = [figure for row in members for figure in row.figures]
        for source, same in by(figures, lambda figure: short_source(figure.source)).items():
            values = sorted({figure.value for figure in same})
            cells[data, f"*{source}*"] = " / ".join(map(number, values))
    return cells


def baselines_of(rows: Sequence[Row]) -> dict[str, BaselineRecord]:
    """Return the baselines that see something of the structures; of several with one name, the best."""
    found: dict[str, BaselineRecord] = {}
    for row in rows:
        for name, entry in row.baselines.items():
            if name not in TRIVIAL and (
                name not in found or gap(row.metric, entry.mean, found[name].mean) > 0
            ):
                found[name] = entry
    return found


# -- ablation ----------------------------------------------------------------------------------------------


def ablation(rows: Sequence[Row]) -> list[str]:
    """Return a table for each protocol: one line per ingredient, two columns per data set.

    A difference is paired by fold, with the 95 % interval of the corrected resampled t-test; bold where that excludes
    0. It is taken from the variant that rows name as their reference (without that, from the first ingredient of the
    table); where that row is missing there are no differences.
    """
    lines = []
    for above, members in _groups(rows):
        names, data = list(by(members, _ingredient)), by(members, lambda row: row.data)
        body = [[name] for name in names]
        for column in data.values():
            found = {name: texts for _, name, *texts in ingredients_of(column, names[0])}
            for line, name in zip(body, names, strict=True):
                line += found.get(name, ["", ""])
        heads = ["ingredient", *(head for name in data for head in (name, f"difference on {name}"))]
        lines += [*above, *table(heads, body)]
    return lines


def ingredients_of(rows: Sequence[Row], reference: str | None = None) -> list[tuple[Row, str, str, str]]:
    """Return for every variant on one data set the row, its name, its value, and the difference from the reference."""
    found = {_ingredient(row): row for row in rows}
    usual = next(iter(found)) if reference is None else reference
    return [
        (
            row,
            name,
            _value(row.shown) + SEEN * row.marked,
            _difference(row, found.get(row.reference or usual)),
        )
        for name, row in found.items()
    ]


def _ingredient(row: Row) -> str:
    return row.variant or row.model


def _difference(row: Row, first: Row | None) -> str:
    if first is None or row is first:
        return ""
    found = paired_difference(row, first)
    if found is None:
        other = "" if row.protocol.splits == first.protocol.splits else " (other folds)"
        return signed(row.shown.mean - first.shown.mean) + other
    text = f"{signed(found.difference)} ({signed(found.low)} to {signed(found.high)})"
    return f"**{text}**" if found.low > 0 or found.high < 0 else text


def paired_difference(row: Row, first: Row) -> Comparison | None:
    """Return the difference of two rows, fold by fold; None where their folds differ or are too few."""
    values, others = (
        entry.values if entry.as_published is None else entry.as_published.folds for entry in (row, first)
    )
    if row.protocol.splits != first.protocol.splits or len(values) != len(others) or len(values) < 2:
        return None
    found = corrected_t_test(values, others, row.protocol.test_share)
    return found if math.isfinite(found.low) else None


# -- every number ------------------------------------------------------------------------------------------


def every_number(rows: Sequence[Row]) -> list[str]:
    """Return a table for each data set: baselines, then all rows, with interval, size, protocol and run."""
    lines = []
    runs = ordered_runs(rows)
    for data, members in by(rows, lambda row: row.data).items():
        metric = members[0].metric
        heads = ["model", "variant", "protocol", "remark"]
        texts = len(heads)
        heads += [NAMES[metric], "95 % interval", OTHER_ERROR.get(metric, ""), "weights"]
        body = [*_baseline_lines(members), *(_full_line(row, runs) for row in members)]
        filled = [k for k in range(len(heads)) if any(line[k] for line in body)]
        lines += [f"### {data}", "", f"{members[0].structures.used:,} structures.", ""]
        lines += table(
            [heads[k] for k in filled],
            [[line[k] for k in filled] for line in body],
            text_columns=sum(k < texts for k in filled),
        )
        lines += [line for row in members for line in _learning_curve(row)]
        lines += _leakage(members)
    return lines


def _full_line(row: Row, runs: Sequence[Any]) -> list[str]:
    # The weights of a row as published would be those of fits with fixed settings, which it is not about.
    published = row.as_published is not None
    size = None if published else row.num_parameters
    run = f"run {runs.index(row.run) + 1}" if len(runs) > 1 else ""
    return [
        f"{row.model} ({row.rounds})" if row.rounds else row.model,
        row.variant,
        ", ".join(filter(None, (row.group + " (optimistic)" * published + f" {SEEN}" * row.marked, run))),
        _remark(row),
        _value(row.shown),
        interval_text(row.shown_interval),
        "" if published else _other_error(row.metrics, row.metric),
        "" if size is None else f"{size:,}",
    ]


def _other_error(metrics: Mapping[str, float | None] | None, metric: str) -> str:
    value = (metrics or {}).get(OTHER_ERROR.get(metric, "").lower())
    return "" if value is None else number(value)


def _remark(row: Row) -> str:
    """Return the settings that a number as published was selected with, or how the row compares with the baselines."""
    if row.as_published is not None:
        chosen = [f"{name} {value}" for name, value in row.as_published.selected.items()]
        epoch = row.as_published.epoch
        return ", ".join(chosen if epoch is None else [*chosen, f"epoch {epoch}"])
    compared = {
        name: entry.model_against_it.verdict
        for name, entry in row.baselines.items()
        if entry.model_against_it is not None
    }
    verdicts = by(compared, lambda name: compared[name])
    told = []
    for verdict, names in sorted(verdicts.items(), key=lambda pair: list(WORDS).index(pair[0])):
        count = f"{len(names)} of {len(compared)} baselines"
        named = verdict != "better" and len(names) <= FEW
        told.append(f"{WORDS[verdict]} {' and '.join(names) if named else count}")
    return "; ".join(told)


def _baseline_lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the baselines; one with the same numbers beside several rows is listed once."""
    found = by(
        [(row, name, entry) for row in rows for name, entry in row.baselines.items()],
        lambda triple: (triple[1], _value(triple[2]), triple[0].protocol.splits),
    )
    lines = []
    for (name, text, splits), triples in found.items():
        there, entry = [row for row, _, _ in triples], triples[0][2]
        others = [row for row in rows if row.baselines and row.protocol.splits == splits]
        remark = "" if len(there) == len(others) else "beside " + "; ".join(row.label for row in there)
        groups = ", ".join(filter(None, by(there, lambda row: row.group)))
        other = _other_error(entry.metrics, there[0].metric)
        size = "" if entry.num_parameters is None else f"{entry.num_parameters:,}"
        lines.append([f"*{name}*", "", groups, remark, text, interval_text(entry.interval), other, size])
    return sorted(lines, key=lambda line: bool(line[3]))


def _learning_curve(row: Row) -> list[str]:
    """Return the means over the splits for shares of the training structures, of the row and of the baselines."""
    if not row.learning_curve:
        return []
    names = list(row.learning_curve[0].baselines)
    body = [
        [f"{point.train:,.0f}", *(number(fmean(v)) for v in (point.values, *map(point.baselines.get, names)))]  # type: ignore[arg-type]
        for point in row.learning_curve
    ]
    heads = ["training structures", row.label, *(f"*{name}*" for name in names)]
    return [f"{capital(NAMES[row.metric])} by the number of training structures:", "", *table(heads, body)]


def _leakage(rows: Sequence[Row]) -> list[str]:
    """Return, for each way to split, how many test structures have copies in training, and the means without them."""
    lines = []
    for members in by(rows, lambda row: row.protocol.splits).values():
        leakage = members[0].leakage
        if leakage is None:
            continue
        groups = ", ".join(by(members, lambda row: row.group or "all rows"))
        lines += [f"Leakage ({groups}): {copies_in_words(leakage)}.", ""]
        without = [
            [row.label, number(row.mean), number(row.leakage.mean_without)]
            for row in members
            if row.as_published is None and row.leakage and row.leakage.mean_without is not None
        ]
        lines += table(["model", "mean", "without copies"], without) if leakage.count and without else []
    return lines


def copies_in_words(leakage: LeakageRecord) -> str:
    """Return in words how many copies there are.

    Examples
    --------
    >>> copies_in_words(LeakageRecord(12, 0.06, 1, [12], [], None))
    '12 test structures (6.0%) have a copy in training; the label of 1 contradicts all its copies'
    """
    count, against = leakage.count, leakage.contradicting
    if not count:
        return "no test structure has a copy in training"
    noun, verb = ("test structures", "have") if count > 1 else ("test structure", "has")
    text = f"{count:,} {noun} ({leakage.share:.1%}) {verb} a copy in training"
    if not against:
        return text
    whose = (
        "the labels of {:,} contradict all their" if against > 1 else "the label of {} contradicts all its"
    )
    return f"{text}; {whose.format(against)} copies"
