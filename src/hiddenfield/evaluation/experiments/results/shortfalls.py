"""Beside published figures: which are reached, and plainly which are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hiddenfield.evaluation.assessment.measuring import METRICS
from hiddenfield.evaluation.experiments.results.rows import (
    Row,
    best_of,
    by,
    group_of,
    interval_of,
    label_of,
    number,
    own_of,
    table,
)

__all__ = ["beside_published", "shortfalls"]


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
        "best here",
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
    lines += [f"- {_by_some(entry)}" for entry in mixed]
    if quoted and not short:
        lines.insert(0, "- Every published figure above is reached by at least one model here.")
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
    which = f"the best here, {label_of(best)}," if len(entries[0].rows) > 1 else label_of(best)
    gaps = [
        f"{number(entry.value)} of {entry.source} ({entry.protocol}), short by {number(-_gap(best, entry.value))}"
        f"{_covered(best, entry.value)}{_by_others(entry)}"
        for entry in entries
    ]
    interval = interval_of(best)
    around = "" if interval is None else f" (95 % interval {number(interval[0])} to {number(interval[1])})"
    return (
        f"**{entries[0].place}**: {which} has {number(own_of(best)['mean'])}{around}. **Not reached**: "
        f"{'; '.join(gaps)}."
    )


def _by_others(entry: Quoted) -> str:
    """Name the best of the other models, for which nobody published that figure, if it is as good."""
    if not entry.others or _gap(best_of(entry.others), entry.value) < 0:
        return ""
    best = best_of(entry.others)
    return f" (another model here, {label_of(best)}, has {number(own_of(best)['mean'])})"


def _by_some(entry: Quoted) -> str:
    best = best_of(entry.rows)
    others = [
        f"{label_of(row)}, {number(own_of(row)['mean'])}" for row in entry.rows if _gap(row, entry.value) < 0
    ]
    return (
        f"**{entry.place}**: {number(entry.value)} of {entry.source} ({entry.protocol}) is reached by {label_of(best)} "
        f"with {number(own_of(best)['mean'])}, but not by {'; '.join(others)}."
    )


def _covered(row: Row, value: float) -> str:
    interval = interval_of(row)
    if interval is None:
        return ""
    return ", within the interval" if interval[0] <= value <= interval[1] else ", outside the interval"
