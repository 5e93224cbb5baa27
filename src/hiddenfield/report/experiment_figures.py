"""The pictures of an experiment's page: ROC curves, error by training steps, error by range of the target."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.evaluation.measuring import METRICS, NAMES
from hiddenfield.report.drawing import GREY, draw
from hiddenfield.report.page import escape
from hiddenfield.report.results_pages.pictures import Picture
from hiddenfield.report.results_pages.rows import Row, label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_picture", "picture_file"]

COLOURS = ("#3b6ea5", "#c9702d", "#4f8f6b", "#9467a8", "#b5483a", "#7a6a3a", "#2f8f9d", "#a8577e")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
# A band of one standard deviation tells something while there are few curves.
FEW = 3
PANELS_ACROSS = 3


def picture_file(picture: Picture) -> str:
    """Return a picture as an SVG document of its own, on white, in the size in which it was drawn.

    Examples
    --------
    >>> row = {
    ...     "model": "m",
    ...     "column": "honest",
    ...     "roc": {"false_positive": [0, 1], "true_positive": [0, 1], "auc": 0.5},
    ... }
    >>> text = picture_file(Picture("roc", "roc", "ROC curves", "", (("data", (row,)),)))
    >>> text.startswith("<svg xmlns=") and "m (0.5000)" in text
    True
    """
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


def _roc(picture: Picture) -> str:
    count = len(picture.panels)
    across = 2 if count == 4 else min(PANELS_ACROSS, count)
    down = math.ceil(len(picture.panels) / across)
    names = list(dict.fromkeys(label_of(row) for _, rows in picture.panels for row in rows))
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}

    def paint(figure: Figure) -> None:
        _with_room(figure)
        for k, (heading, rows) in enumerate(picture.panels):
            _roc_panel(figure.add_subplot(down, across, k + 1), heading, rows, colours)

    # A single panel is square too, but the picture is as wide as others, so that its text is as large as theirs.
    width, height = (3.7 * across, 3.8 * down) if across > 1 else (5.6, 4.1)
    return draw(picture.name, paint, width=width, height=height, title=picture.title)


def _roc_panel(axes: Axes, heading: str, rows: Sequence[Row], colours: dict[str, str]) -> None:
    axes.plot([0, 1], [0, 1], color="#c5ccd3", linewidth=0.9, linestyle=":")
    for row in rows:
        roc, colour = row["roc"], colours[label_of(row)]
        if roc.get("std") and len(rows) <= FEW:
            mean, std = np.array(roc["true_positive"]), np.array(roc["std"])
            low, high = np.clip(mean - std, 0, 1), np.clip(mean + std, 0, 1)
            axes.fill_between(roc["false_positive"], low, high, color=colour, alpha=0.12, linewidth=0)
        _roc_line(axes, roc["false_positive"], roc, label_of(row), colour, "-")
    for name, curve in _beside(rows):
        _roc_line(axes, rows[0]["roc"]["false_positive"], curve, name, GREY, "--")
    axes.set(xlim=(-0.015, 1.015), ylim=(-0.015, 1.015))
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.set_title(heading, fontsize=9.5)
    axes.set_aspect("equal")
    legend = axes.legend(
        loc="lower right",
        fontsize=7 if len(rows) <= 5 else 6,
        handlelength=1.6,
        labelspacing=0.3,
        frameon=True,
    )
    # A poor curve may run below it.
    legend.get_frame().set(facecolor="#ffffff", edgecolor="none", alpha=0.85)


def _beside(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    """Return the curve of the counted colours, once: it does not depend on the model."""
    for row in rows:
        for name, curve in (row["roc"].get("baselines") or {}).items():
            if name.startswith("WL"):
                return [(name, curve)]
    return []


def _roc_line(axes: Axes, false: Sequence[float], curve: Any, name: str, colour: str, style: str) -> None:
    # From the corner: at a rate of 0 the curve may already be high.
    x, y = [0.0, *false], [0.0, *curve["true_positive"]]
    axes.plot(x, y, color=colour, linestyle=style, linewidth=1.4, label=f"{name} ({curve['auc']:.4f})")


# -- error by training steps -------------------------------------------------------------------------------


def _training(picture: Picture) -> str:
    ((_, rows),) = picture.panels
    return draw(
        picture.name, lambda figure: _curves(figure, rows), width=7.4, height=4.4, title=picture.title
    )


def _curves(figure: Figure, rows: Sequence[Row]) -> None:
    _with_room(figure)
    axes = figure.add_subplot()
    families = list(dict.fromkeys(_family(row) for row in rows))
    rounds = sorted({_rounds(row) for row in rows})
    column = rows[0]["training_curve"]["metric"]
    for row in rows:
        curve = row["training_curve"]
        # Where most networks have stopped, the mean is one of the few that had reason to go on.
        points = [
            (step, value)
            for step, value, runs in zip(curve["steps"], curve[curve["metric"]], curve["runs"], strict=True)
            if value is not None and 2 * runs >= curve["runs"][0]
        ]
        family, place = families.index(_family(row)), rounds.index(_rounds(row))
        axes.plot(
            *zip(*points, strict=True),
            color=_shade(COLOURS[family % len(COLOURS)], place, len(rounds)),
            linestyle=("-", (0, (5, 2)), (0, (1, 1.2)), "-.")[family % 4],
            linewidth=1.5,
            label=label_of(row),
        )
    name = column.removeprefix("valid_")
    _error_scale(axes, rows, falls=name not in METRICS or not METRICS[name].higher_is_better)
    axes.set_xlabel("training steps")
    axes.set_ylabel(f"{NAMES.get(name, 'loss')}, validation")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    figure.legend(loc="outside right upper", fontsize=8)


def _error_scale(axes: Axes, rows: Sequence[Row], *, falls: bool) -> None:
    """Give errors a logarithmic axis with plain numbers, where they fall by much."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.dataLim.y0, axes.dataLim.y1
    if not falls or low <= 0 or high < 3 * low:
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _family(row: Row) -> str:
    return ", ".join(filter(None, (row["model"], row.get("variant"))))


def _rounds(row: Row) -> int:
    return int(row["column"].split("=")[1])


def _shade(colour: str, place: int, count: int) -> str:
    """Return the colour, the lighter the earlier its place."""
    share = 1.0 if count == 1 else 0.45 + 0.55 * place / (count - 1)
    channels = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - share * (255 - channel)):02x}" for channel in channels)


# -- error by range ----------------------------------------------------------------------------------------


def _ranges(picture: Picture) -> str:
    across = len(picture.panels)

    def paint(figure: Figure) -> None:
        _with_room(figure)
        grid = figure.add_gridspec(2, across, height_ratios=(3, 1))
        for k, (heading, rows) in enumerate(picture.panels):
            top = figure.add_subplot(grid[0, k])
            _range_panel(top, figure.add_subplot(grid[1, k], sharex=top), rows)
            if across > 1:
                figure.axes[-1].set_xlabel(f"target ({heading})")

    return draw(picture.name, paint, width=5.8 * across, height=4.6, title=picture.title)


def _range_panel(top: Axes, bottom: Axes, rows: Sequence[Row]) -> None:
    parts = rows[0]["ranges"]
    middles = [(part["low"] + part["high"]) / 2 for part in parts]
    for k, row in enumerate(rows):
        values = [np.nan if part["mae"] is None else part["mae"] for part in row["ranges"]]
        colour, mark = COLOURS[k % len(COLOURS)], MARKS[k % len(MARKS)]
        top.plot(middles, values, color=colour, marker=mark, markersize=4, linewidth=1.4, label=label_of(row))
    top.set_ylabel("mean absolute error")
    top.margins(y=0.12)
    top.set_ylim(bottom=0)
    top.tick_params(labelbottom=False)
    if len(rows) > 1:
        columns = 2 if len(rows) < 5 else 3
        top.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, borderaxespad=0.2)
    width = parts[0]["high"] - parts[0]["low"]
    bottom.bar(middles, [part["count"] for part in parts], width=0.9 * width, color="#c5ccd3")
    bottom.set_ylabel("structures")
    bottom.set_xlabel("target")
    bottom.yaxis.set_major_formatter("{x:,.0f}")
    bottom.grid(False, axis="x")


DRAWN: dict[str, Callable[[Picture], str]] = {"roc": _roc, "training": _training, "ranges": _ranges}
