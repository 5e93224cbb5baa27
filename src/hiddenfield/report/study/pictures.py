"""Plots of a study: ROC curves, error by training steps, error by range of the target."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.evaluation.measuring import METRICS, NAMES
from hiddenfield.evaluation.records import ErrorRange, Roc, RocCurve
from hiddenfield.report.drawing import GREY, colour_of, draw, plain_log_scale
from hiddenfield.report.page import escape
from hiddenfield.report.study.records import Result, Row, best_of, by
from hiddenfield.report.study.tables import number, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("roc", "training", "ranges")
# Curves that can be distinguished in one panel.
MOST_CURVES = 6
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
# A band of one standard deviation is legible while there are few curves.
FEW = 3
PANELS_ACROSS = 3


@dataclass(frozen=True)
class Picture:
    """One picture.

    Parameters
    ----------
    kind
        ``"roc"``, ``"training"`` or ``"ranges"``.
    name
        Name of its file, after that of the experiment.
    title, caption
        Alternative text, and the text below it.
    panels
        Headings, each with the rows that are drawn below it.
    """

    kind: str
    name: str
    title: str
    caption: str
    panels: Mapping[str, Sequence[Row]]


def pictures_of(content: Result) -> list[Picture]:
    """Return the pictures that the rows allow: ROC curves, error by steps for T = 1, 2, ..., error by range.

    Rows as published have none: the curves are of other fits than the numbers.
    """
    rows = [row for row in content.rows if row.as_published is None]
    found = [] if content.layout == "ablation" else _roc_picture([row for row in rows if row.roc])
    for data, members in by(rows, lambda row: row.data).items():
        found += _training_picture(data, [row for row in members if row.rounds])
        found += _ranges_picture(data, [row for row in members if row.ranges])
    return found


def _roc_picture(rows: Sequence[Row]) -> list[Picture]:
    if not rows:
        return []
    every = by(rows, lambda row: row.heading)
    panels = {heading: _few_enough(members) for heading, members in every.items()}
    caption = (
        "ROC curves: mean over the folds at each false positive rate; in brackets the area under the curve, pooled "
        "over the folds."
    )
    if any(row.roc and row.roc.baselines for row in rows):
        caption += (
            " Grey: the baseline of Weisfeiler-Lehman colour counts and a linear model, on the same folds."
        )
    if any(len(panels[heading]) < len(members) for heading, members in every.items()):
        caption += " Of several ways to train a model only the best is drawn, and the one that baselines were run with."
    return [Picture("roc", "roc", "ROC curves", caption, panels)]


def _few_enough(rows: Sequence[Row]) -> list[Row]:
    """Return the rows; where they are many, the best of every model and those with baselines."""
    if len(rows) <= MOST_CURVES:
        return list(rows)
    best = [best_of(members) for members in by(rows, lambda row: row.model).values()]
    return [row for row in rows if (row.roc and row.roc.baselines) or row in best]


def _training_picture(data: str, rows: Sequence[Row]) -> list[Picture]:
    curves = [row.training_curve for row in rows if row.training_curve is not None]
    if len(curves) < 2:
        return []
    name = NAMES.get(curves[0].metric.removeprefix("valid_"), "loss")
    caption = (
        f"{data}: {name} on the validation set against training steps, mean over folds and seeds, for each number of "
        "rounds T."
    )
    title = f"{name} against training steps on {data}"
    return [Picture("training", f"training-{_word(data)}", title, caption, {data: rows})]


def _ranges_picture(data: str, rows: Sequence[Row]) -> list[Picture]:
    if not rows:
        return []
    caption = (
        f"{data}: mean absolute error on the test sets by range of the target, for the best of each model; below, the "
        "number of structures in each range."
    )
    title = f"error by range of the target on {data}"
    chosen = {
        heading: [best_of(same) for same in by(members, lambda row: (row.model, row.variant)).values()]
        for heading, members in by(rows, lambda row: row.heading).items()
    }
    return [Picture("ranges", f"ranges-{_word(data)}", title, caption, chosen)]


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


# -- on the page -------------------------------------------------------------------------------------------


def picture_lines(content: Result, stem: str) -> list[str]:
    """Return the pictures as Markdown, with the numbers of the error ranges."""
    lines = []
    for picture in pictures_of(content):
        lines += [f"![{picture.title}]({stem}-{picture.name}.svg)", "", f"*{picture.caption}*", ""]
        if picture.kind == "ranges":
            for heading, rows in picture.panels.items():
                lines += [*([f"{heading}:", ""] if len(picture.panels) > 1 else []), *_range_table(rows)]
    return lines


def _range_table(rows: Sequence[Row]) -> list[str]:
    parts = [row.ranges for row in rows if row.ranges is not None]
    body = [
        [
            f"{same[0].low:.3g} to {same[0].high:.3g}",
            f"{same[0].count:,}",
            *("" if part.mae is None else number(part.mae) for part in same),
        ]
        for same in zip(*parts, strict=True)
    ]
    return table(["range of the target", "structures", *(row.label for row in rows)], body)


# -- drawing -----------------------------------------------------------------------------------------------


def picture_file(picture: Picture) -> str:
    """Return a picture as an SVG document of its own, on white, in the size in which it was drawn."""
    text = draw_picture(picture)
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert found is not None
    width, height = (math.ceil(float(side) * 4 / 3) for side in found.groups())
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = text.replace("<svg ", f'<svg {names} width="{width}" height="{height}" ', 1)
    opening, rest = text.split(">", 1)
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f"{opening}>\n<title>{escape(picture.title)}</title>\n{ground}{rest}\n"


def draw_picture(picture: Picture) -> str:
    """Return a picture as an SVG element for a page."""
    return DRAWN[picture.kind](picture)


def _with_room(figure: Figure) -> None:
    """Leave some room around panels and at the edge."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(w_pad=0.09, h_pad=0.09)  # type: ignore[call-arg]


# -- ROC curves --------------------------------------------------------------------------------------------


def _draw_roc(picture: Picture) -> str:
    count = len(picture.panels)
    across = 2 if count == 4 else min(PANELS_ACROSS, count)
    down = math.ceil(count / across)
    names = list(dict.fromkeys(row.label for rows in picture.panels.values() for row in rows))
    colours = {name: colour_of(k) for k, name in enumerate(names)}

    def paint(figure: Figure) -> None:
        _with_room(figure)
        for k, (heading, rows) in enumerate(picture.panels.items()):
            curves = {row.label: row.roc for row in rows if row.roc is not None}
            roc_panel(figure.add_subplot(down, across, k + 1), heading, curves, colours)

    # A single panel is square too, but the picture is as wide as others, so that its text is as large as theirs.
    width, height = (3.7 * across, 3.8 * down) if across > 1 else (5.6, 4.1)
    return draw(picture.name, paint, width=width, height=height, title=picture.title)


def roc_panel(axes: Axes, heading: str, curves: Mapping[str, Roc], colours: Mapping[str, str]) -> None:
    """Draw ROC curves by name, with bands where there are few, and the baseline that counts colours."""
    axes.plot([0, 1], [0, 1], color="#c5ccd3", linewidth=0.9, linestyle=":")
    for name, roc in curves.items():
        if roc.std and len(curves) <= FEW:
            mean, std = np.array(roc.true_positive), np.array(roc.std)
            low, high = np.clip(mean - std, 0, 1), np.clip(mean + std, 0, 1)
            axes.fill_between(roc.false_positive, low, high, color=colours[name], alpha=0.12, linewidth=0)
        _roc_line(axes, roc.false_positive, roc, name, colours[name], "-")
    # The colour counts do not depend on the model: one curve is enough.
    counts = [
        (roc.false_positive, curve, name)
        for roc in curves.values()
        for name, curve in roc.baselines.items()
        if name.startswith("WL")
    ]
    for false, curve, name in counts[:1]:
        _roc_line(axes, false, curve, name, GREY, "--")
    axes.set(xlim=(-0.015, 1.015), ylim=(-0.015, 1.015))
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.set_title(heading, fontsize=9.5)
    axes.set_aspect("equal")
    if not curves:
        return
    size = 7 if len(curves) <= 5 else 6
    legend = axes.legend(loc="lower right", fontsize=size, handlelength=1.6, labelspacing=0.3, frameon=True)
    # A poor curve may run below it.
    legend.get_frame().set(facecolor="#ffffff", edgecolor="none", alpha=0.85)


def _roc_line(
    axes: Axes, false: Sequence[float], curve: Roc | RocCurve, name: str, colour: str, style: str
) -> None:
    # From the corner: at a rate of 0 the curve may already be high.
    x, y = [0.0, *false], [0.0, *curve.true_positive]
    axes.plot(x, y, color=colour, linestyle=style, linewidth=1.4, label=f"{name} ({curve.auc:.4f})")


# -- error by training steps -------------------------------------------------------------------------------


def _draw_training(picture: Picture) -> str:
    (rows,) = picture.panels.values()
    return draw(picture.name, _curves, rows, width=7.4, height=4.4, title=picture.title)


def _curves(figure: Figure, rows: Sequence[Row]) -> None:
    _with_room(figure)
    axes = figure.add_subplot()
    families = list(by(rows, _family))
    rounds = sorted({_rounds(row) for row in rows})
    name = ""
    for row in rows:
        curve = row.training_curve
        if curve is None:
            continue
        name = curve.metric.removeprefix("valid_")
        # Where most networks have stopped, the mean is over the few that still improved.
        points = [
            (step, value)
            for step, value, runs in zip(curve.steps, getattr(curve, curve.metric), curve.runs, strict=True)
            if value is not None and 2 * runs >= curve.runs[0]
        ]
        family, place = families.index(_family(row)), rounds.index(_rounds(row))
        axes.plot(
            *zip(*points, strict=True),
            color=_shade(colour_of(family), place, len(rounds)),
            linestyle=("-", (0, (5, 2)), (0, (1, 1.2)), "-.")[family % 4],
            linewidth=1.5,
            label=row.label,
        )
    low, high = axes.dataLim.y0, axes.dataLim.y1
    falls = name not in METRICS or not METRICS[name].higher_is_better
    if falls and low > 0 and high >= 3 * low:
        plain_log_scale(axes, (1.0, 2.0, 3.0, 5.0))
    axes.set_xlabel("training steps")
    axes.set_ylabel(f"{NAMES.get(name, 'loss')}, validation")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    figure.legend(loc="outside right upper", fontsize=8)


def _family(row: Row) -> str:
    return ", ".join(filter(None, (row.model, row.variant)))


def _rounds(row: Row) -> int:
    return int(row.rounds.split("=")[1])


def _shade(colour: str, place: int, count: int) -> str:
    """Return the colour, the lighter the earlier its place."""
    share = 1.0 if count == 1 else 0.45 + 0.55 * place / (count - 1)
    channels = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - share * (255 - channel)):02x}" for channel in channels)


# -- error by range ----------------------------------------------------------------------------------------


def _draw_ranges(picture: Picture) -> str:
    across = len(picture.panels)

    def paint(figure: Figure) -> None:
        _with_room(figure)
        grid = figure.add_gridspec(2, across, height_ratios=(3, 1))
        for k, (heading, rows) in enumerate(picture.panels.items()):
            top = figure.add_subplot(grid[0, k])
            ranges = {row.label: row.ranges for row in rows if row.ranges is not None}
            range_panel(top, figure.add_subplot(grid[1, k], sharex=top), ranges)
            if across > 1:
                figure.axes[-1].set_xlabel(f"target ({heading})")

    return draw(picture.name, paint, width=5.8 * across, height=4.6, title=picture.title)


def range_panel(top: Axes, bottom: Axes, lines: Mapping[str, Sequence[ErrorRange]]) -> None:
    """Draw errors in ranges of the target by name, and below them how many structures each range holds."""
    parts = next(iter(lines.values()))
    middles = [(part.low + part.high) / 2 for part in parts]
    for k, (name, ranges) in enumerate(lines.items()):
        values = [np.nan if part.mae is None else part.mae for part in ranges]
        colour, mark = colour_of(k), MARKS[k % len(MARKS)]
        top.plot(middles, values, color=colour, marker=mark, markersize=4, linewidth=1.4, label=name)
    top.set_ylabel("mean absolute error")
    top.margins(y=0.12)
    top.set_ylim(bottom=0)
    top.tick_params(labelbottom=False)
    if len(lines) > 1:
        columns = 2 if len(lines) < 5 else 3
        top.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, borderaxespad=0.2)
    width = parts[0].high - parts[0].low or 1.0
    bottom.bar(middles, [part.count for part in parts], width=0.9 * width, color="#c5ccd3")
    bottom.set_ylabel("structures")
    bottom.set_xlabel("target")
    bottom.yaxis.set_major_formatter("{x:,.0f}")
    bottom.grid(False, axis="x")


DRAWN: dict[str, Callable[[Picture], str]] = {
    "roc": _draw_roc,
    "training": _draw_training,
    "ranges": _draw_ranges,
}
