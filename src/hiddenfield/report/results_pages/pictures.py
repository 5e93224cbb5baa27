"""Which pictures a result has: what each shows, of which rows. Drawing is left to the report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hiddenfield.evaluation.measuring import NAMES
from hiddenfield.report.results_pages.rows import (
    ROUNDS,
    Row,
    best_of,
    by,
    group_of,
    label_of,
    number,
    table,
)

__all__ = ["KINDS", "Picture", "picture_lines", "pictures_of"]

KINDS = ("roc", "training", "ranges")

# Curves in one panel that can be told apart.
MOST_CURVES = 6


@dataclass(frozen=True)
class Picture:
    """One picture.

    Parameters
    ----------
    kind
        ``"roc"``, ``"training"`` or ``"ranges"``.
    name
        What its file is called, after the experiment.
    title, caption
        For those who cannot see it, and for those who can.
    panels
        Headings, each with the rows that are drawn below it.
    """

    kind: str
    name: str
    title: str
    caption: str
    panels: tuple[tuple[str, tuple[Row, ...]], ...]


def pictures_of(content: Mapping[str, Any]) -> list[Picture]:
    """Return the pictures that the rows allow: ROC curves, error by steps for T = 1, 2, ..., error by range.

    Rows as published have none: their curves would be those of other fits than their numbers.
    """
    rows = [row for row in content["rows"] if "as_published" not in row]
    found = [] if content.get("layout") == "ablation" else _roc([row for row in rows if row.get("roc")])
    for data, members in by(rows, lambda row: str(row["data"])).items():
        found += _training(data, [row for row in members if ROUNDS.fullmatch(row["column"])])
        found += _ranges(data, [row for row in members if row.get("ranges")])
    return found


def _roc(rows: Sequence[Row]) -> list[Picture]:
    if not rows:
        return []
    every = by(rows, lambda row: ", ".join(filter(None, (str(row["data"]), group_of(row)))))
    panels = {heading: _to_be_told_apart(members) for heading, members in every.items()}
    caption = (
        "ROC curves: mean over the folds at each false positive rate; in brackets the area under the curve of all "
        "folds together."
    )
    if any(row["roc"].get("baselines") for row in rows):
        caption += " Grey: counted Weisfeiler-Lehman colours and a linear model, on the same folds."
    if any(len(panels[heading]) < len(members) for heading, members in every.items()):
        caption += (
            " Of several ways to train a model the best is drawn, and the one beside which grey stands."
        )
    return [Picture("roc", "roc", "ROC curves", caption, _frozen(panels))]


def _to_be_told_apart(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, or where they are many the best of every model and those that bring other curves along."""
    if len(rows) <= MOST_CURVES:
        return list(rows)
    best = [best_of(members) for members in by(rows, lambda row: row["model"]).values()]
    return [row for row in rows if row["roc"].get("baselines") or row in best]


def _training(data: str, rows: Sequence[Row]) -> list[Picture]:
    rows = [row for row in rows if row.get("training_curve")]
    if len(rows) < 2:
        return []
    name = NAMES.get(rows[0]["training_curve"]["metric"].removeprefix("valid_"), "loss")
    caption = (
        f"{data}: {name} on the validation part against training steps, mean over folds and seeds, for each number of "
        "rounds T."
    )
    title = f"{name} against training steps on {data}"
    return [Picture("training", f"training-{_word(data)}", title, caption, ((data, tuple(rows)),))]


def _ranges(data: str, rows: Sequence[Row]) -> list[Picture]:
    if not rows:
        return []
    caption = (
        f"{data}: mean absolute error on the test parts by range of the target, of the best of each model; below, how "
        "many structures each range holds."
    )
    title = f"error by range of the target on {data}"
    groups = by(rows, lambda row: ", ".join(filter(None, (data, group_of(row)))))
    chosen = {heading: _best_of_each(members) for heading, members in groups.items()}
    return [Picture("ranges", f"ranges-{_word(data)}", title, caption, _frozen(chosen))]


def _best_of_each(rows: Sequence[Row]) -> list[Row]:
    return [best_of(members) for members in by(rows, lambda row: (row["model"], row.get("variant"))).values()]


def _frozen(panels: Mapping[str, Sequence[Row]]) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    return tuple((heading, tuple(rows)) for heading, rows in panels.items())


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


# -- on the page -------------------------------------------------------------------------------------------


def picture_lines(content: Mapping[str, Any], stem: str) -> list[str]:
    """Return the pictures as Markdown, and beside that of the ranges its numbers."""
    lines = []
    for picture in pictures_of(content):
        lines += [f"![{picture.title}]({stem}-{picture.name}.svg)", "", f"*{picture.caption}*", ""]
        if picture.kind == "ranges":
            for heading, rows in picture.panels:
                lines += [*([f"{heading}:", ""] if len(picture.panels) > 1 else []), *_range_table(rows)]
    return lines


def _range_table(rows: Sequence[Row]) -> list[str]:
    body = []
    for k, part in enumerate(rows[0]["ranges"]):
        own = [row["ranges"][k] for row in rows]
        values = ["" if entry["mae"] is None else number(entry["mae"]) for entry in own]
        body.append([f"{part['low']:.3g} to {part['high']:.3g}", f"{part['count']:,}", *values])
    return table(["range of the target", "structures", *(label_of(row) for row in rows)], body)
