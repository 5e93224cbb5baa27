"""Beside published figures: which are reached, and plainly which are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hiddenfield.evaluation.measuring import METRICS
from hiddenfield.report.results_pages.rows import (
    Row,
    best_of,
    by,
    group_of,
    interval_of,
    label_of,
    number,
    own_of,
    short_source,
    table,
)

__all__ = ["beside_published", "shortfalls"]

# Rows that there is room to name.
FEW = 1


@dataclass(frozen=True)
class Quoted:
    """A published figure, and all rows that are to be set beside it."""

    data: str
    group: str
    value: float
    source: str
    protocol: str
    rows: tuple[Row, ...]
    others: tuple[Row, ...] = ()

    @property
    def best(self) -> str:
        """What the best of the rows is called: the best of a model where the figure is of that model."""
        row = best_of(self.rows)
        models = by([*self.rows, *self.others], lambda row: row["model"])
        own = by(self.rows, lambda row: row["model"])
        whose = f" {row['model']}" if len(own) == 1 and len(models) > 1 else ""
        return f"the best{whose} here, {label_of(row)}," if len(self.rows) > 1 else label_of(row)

    @property
    def place(self) -> str:
        """Which number it is."""
        return ", ".join(filter(None, (self.data, self.group)))


def beside_published(rows: Sequence[Row], partial: bool) -> list[str]:
    """Return a table with a line for each published figure: the best here, and by how much it is better."""
    body = []
    for quoted in _quoted(rows):
        best = best_of(quoted.rows)
        gap = _gap(best, quoted.value)
        verdict = "" if partial else "reached" if gap >= 0 else f"short by {number(-gap)}"
        here = f"{number(own_of(best)['mean'])}"
        body.append(
            [
                quoted.place,
                quoted.source,
                quoted.protocol,
                label_of(best),
                number(quoted.value),
                here,
                verdict,
            ]
        )
    heads = [
        "data",
        "published by",
        "their protocol",
        "beside it",
        "published",
        "here",
        "" if partial else "verdict",
    ]
    heads, body = (heads[:-1], [line[:-1] for line in body]) if partial else (heads, body)
    if not body:
        return []
    several = any(len(quoted.rows) > 1 for quoted in _quoted(rows))
    note = "The best of several rows is chosen by the number itself, and so is a little too good."
    return [*([note, ""] if several else []), *table(heads, body, text_columns=4)]


def shortfalls(rows: Sequence[Row], remarks: Sequence[str], partial: bool) -> list[str]:
    """Say where a published figure is not reached: by how much, and whether the interval covers it."""
    quoted = [] if partial else _quoted(rows)
    short = [entry for entry in quoted if _gap(best_of(entry.rows), entry.value) < 0]
    mixed = [
        entry
        for entry in quoted
        if entry not in short and any(_gap(row, entry.value) < 0 for row in entry.rows)
    ]
    places = by(short, lambda entry: (entry.place, label_of(best_of(entry.rows))))
    lines = [f"- {_not_reached(entries)}" for entries in places.values()]
    if quoted and not short:
        lines.append("- Every published figure above is reached by at least one model here.")
    if mixed:
        lines.append(f"- Reached, but not by every row that was to: {'; '.join(map(_by_some, mixed))}.")
    lines += [] if partial else [f"- {text}" for text in _simple_is_better(rows)]
    lines += [f"- {remark}" for remark in remarks]
    return [*lines, ""] if lines else []


def _quoted(rows: Sequence[Row]) -> list[Quoted]:
    pairs: list[tuple[Row, Mapping[str, Any]]] = [(row, figure) for row in rows for figure in row["figures"]]
    found = by(
        pairs,
        lambda pair: (
            str(pair[0]["data"]),
            group_of(pair[0]),
            float(pair[1]["value"]),
            str(pair[1]["source"]),
            str(pair[1]["protocol"]),
        ),
    )
    result = []
    for key, members in found.items():
        own = tuple(row for row, _ in members)
        others = [row for row in rows if (str(row["data"]), group_of(row)) == key[:2] and row not in own]
        result.append(Quoted(*key, own, tuple(others)))
    return result


def _gap(row: Row, value: float) -> float:
    """Return by how much the row is better than the value."""
    own = float(own_of(row)["mean"])
    return own - value if METRICS[row["metric"]].higher_is_better else value - own


def _not_reached(entries: Sequence[Quoted]) -> str:
    """Name the figures of one place that its best row does not reach."""
    best = best_of(entries[0].rows)
    gaps = [
        f"{number(entry.value)} of {entry.source} ({entry.protocol}), short by {number(-_gap(best, entry.value))}"
        f"{_covered(best, entry.value)}"
        for entry in entries
    ]
    interval = None if "as_published" in best else interval_of(best)
    around = "" if interval is None else f" (95 % interval {number(interval[0])} to {number(interval[1])})"
    return (
        f"**{entries[0].place}**: {entries[0].best} has {number(own_of(best)['mean'])}{around}. **Not reached**: "
        f"{'; '.join(gaps)}.{_by_others(entries[0])}"
    )


def _by_others(entry: Quoted) -> str:
    """Name the best of the other models, for which nobody published that figure, if it is better."""
    own = float(own_of(best_of(entry.rows))["mean"])
    if not entry.others or _gap(best_of(entry.others), own) <= 0:
        return ""
    best = best_of(entry.others)
    return f" Another model here, {label_of(best)}, has {number(own_of(best)['mean'])}."


def _by_some(entry: Quoted) -> str:
    others = [
        f"{label_of(row)}, {number(own_of(row)['mean'])}" for row in entry.rows if _gap(row, entry.value) < 0
    ]
    told = "; ".join(others) if len(others) <= FEW else f"{len(others)} of {len(entry.rows)} rows"
    return f"{entry.place}, {number(entry.value)} of {short_source(entry.source)} (not by {told})"


def _covered(row: Row, value: float) -> str:
    # What was selected on the reported folds is too high, and its interval with it: it says nothing here.
    interval = None if "as_published" in row else interval_of(row)
    if interval is None:
        return ""
    return ", within the interval" if interval[0] <= value <= interval[1] else ", outside the interval"


def _simple_is_better(rows: Sequence[Row]) -> list[str]:
    """Say where a simple model has a better mean than every row on the same splits."""
    told = []
    for (data, group), members in by(rows, lambda row: (str(row["data"]), group_of(row))).items():
        best = best_of(members)
        simple = [
            (name, entry) for row in members for name, entry in row["baselines"].items() if "mean" in entry
        ]
        better = {name: entry for name, entry in simple if _gap(best, float(entry["mean"])) < 0}
        if better and "as_published" not in best:
            names = ", ".join(f"{name} with {number(entry['mean'])}" for name, entry in better.items())
            place = ", ".join(filter(None, (data, group)))
            told.append(f"{place}: {names}; the best network, {label_of(best)}, has {number(best['mean'])}")
    return [f"Simple models that are better than every network here. {'. '.join(told)}."] if told else []
