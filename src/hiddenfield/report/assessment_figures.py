"""The figures of an assessment: box plots over the folds, and the learning curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.report.drawing import BLUE, GREY, draw
from hiddenfield.report.page import figure_box

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["box_plots", "curve_plot"]

COLOURS = ("#8a949e", "#c08a3e", "#4f8f6b", "#9467a8")


def box_plots(content: Any, label: str) -> str:
    """Draw a box for each model over the folds, with every fold as a point."""
    columns = {name: entry["folds"] for name, entry in content["baselines"].items()}
    columns[content["model"]] = [fold["value"] for fold in content["folds"]]
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
        axes.set_xlabel(label)
        axes.grid(False, axis="y")

    height = 1.0 + 0.5 * len(names)
    caption = "Every fold is a point; the box holds the middle half of them, the line is the median."
    return figure_box(draw("boxes", paint, height=max(height, 2.4), title="values by fold"), caption)


def curve_plot(content: Any, label: str) -> str:
    """Draw the metric against the number of training structures: mean over the folds, and their deviation."""
    rows = content["learning_curve"]
    sizes = [row["train"] for row in rows]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for colour, name in zip(COLOURS, rows[0]["baselines"], strict=False):
            values = [np.mean(row["baselines"][name]) for row in rows]
            axes.plot(sizes, values, color=colour, marker="o", markersize=3, linewidth=1.2, label=name)
        means = np.array([np.mean(row["values"]) for row in rows])
        spread = np.array([np.std(row["values"], ddof=1) if len(row["values"]) > 1 else 0.0 for row in rows])
        axes.fill_between(sizes, means - spread, means + spread, color=BLUE, alpha=0.15, linewidth=0)
        axes.plot(sizes, means, color=BLUE, marker="o", markersize=4, linewidth=1.8, label=content["model"])
        axes.set_xlabel("training structures")
        axes.set_ylabel(label)
        axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axes.legend()

    caption = (
        "Learning curve: mean over the folds by the number of training structures; the band is one standard deviation. "
        "A curve that still rises (or, for errors, falls) at its end asks for more data."
    )
    return figure_box(draw("curve", paint, title="learning curve"), caption)
