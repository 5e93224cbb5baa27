"""The figures of an assessment: folds, learning curve, training, ROC curve, errors by range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.evaluation.records import Assessment, TrainingCurve
from hiddenfield.report.drawing import BLUE, GREY, RED, draw
from hiddenfield.report.page import figure_box
from hiddenfield.report.study import Picture, Row, draw_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["box_plots", "curve_plot", "detail_plots"]

COLOURS = ("#8a949e", "#c08a3e", "#4f8f6b", "#9467a8")


def box_plots(found: Assessment) -> str:
    """Draw a box for each model over the folds, with every fold as a point."""
    columns = {name: entry.folds for name, entry in found.baselines.items()} | {found.model: found.values}
    names, last = list(columns), len(columns) - 1

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, name in enumerate(names):
            values = np.asarray(columns[name], dtype=np.float64)
            colour = BLUE if place == last else GREY
            axes.boxplot(
                values,
                positions=[place],
                widths=0.55,
                orientation="horizontal",
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": colour + "33", "edgecolor": colour},
                medianprops={"color": colour, "linewidth": 1.8},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
            # The folds keep their order from top to bottom, so that points of the same fold can be followed.
            spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            axes.plot(values, place + spread, "o", color=colour, markersize=3.2, alpha=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(last + 0.6, -0.6)
        axes.set_xlabel(NAMES[found.metric])
        axes.grid(False, axis="y")

    height = 1.0 + 0.5 * len(names)
    caption = "Every fold is a point; the box holds the middle half of them, the line is the median."
    return figure_box(draw("boxes", paint, height=max(height, 2.4), title="values by fold"), caption)


def curve_plot(found: Assessment) -> str:
    """Draw the metric against the number of training structures: mean over the folds, and their deviation."""
    rows = found.learning_curve or []
    sizes = [row.train for row in rows]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for colour, name in zip(COLOURS, rows[0].baselines, strict=False):
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
    return figure_box(draw("curve", paint, title="learning curve"), caption)


def detail_plots(found: Assessment) -> list[str]:
    """Draw those of training curve, ROC curve and errors by range that an assessment has."""
    drawn = [] if found.training_curve is None else [_training(found.training_curve)]
    own = Row.of(found)
    if found.roc is not None:
        picture = Picture("roc", "roc", "ROC curve", "", ((f"members: {found.roc.positive}", (own,)),))
        caption = (
            "ROC curve: mean over the folds at each false positive rate, with one standard deviation; in brackets the "
            "area under the curve of all folds together."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    if found.ranges is not None:
        picture = Picture("ranges", "ranges", "errors by range of the target", "", (("", (own,)),))
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
    return figure_box(draw("steps", paint, title="training curve"), caption)
