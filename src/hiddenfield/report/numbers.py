"""Predicted numbers against true ones: parity, and the error by range of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.report.drawing import BLUE, GREY, MANY_POINTS, RED, draw
from hiddenfield.report.page import figure_box
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["error_by_range", "parity"]

MOST_BINS = 12


def parity(target: str, truth: Float[Array, " structures"], predicted: Float[Array, " structures"]) -> str:
    """Draw predictions against the truth; a perfect model has all points on the diagonal."""

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        both = np.concatenate([truth, predicted])
        room = 0.03 * (both.max() - both.min() or 1.0)
        ends = (both.min() - room, both.max() + room)
        axes.plot(ends, ends, color=GREY, linewidth=1, zorder=1)
        size, opacity = (14, 0.6) if len(truth) <= 300 else (5, 0.35)
        axes.scatter(
            truth,
            predicted,
            s=size,
            color=BLUE,
            alpha=opacity,
            linewidths=0,
            rasterized=len(truth) > MANY_POINTS,
            zorder=2,
        )
        axes.set(
            xlim=ends,
            ylim=ends,
            aspect="equal",
            xlabel=f"{_short(target)}, true",
            ylabel=f"{_short(target)}, predicted",
        )

    picture = draw("parity", paint, width=4.6, height=4.2, title="predicted against true values")
    return figure_box(
        picture, "Test structures: predicted against true. On the line the prediction is right."
    )


def error_by_range(
    target: str, truth: Float[Array, " structures"], predicted: Float[Array, " structures"]
) -> str:
    """Draw the mean absolute error in bins of the target, and below it how many structures each bin holds."""
    edges, counts, errors, spread = binned_errors(truth, predicted)

    def paint(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        there = counts > 0
        upper.bar(middle[there], errors[there], 0.92 * width[there], color=RED)
        upper.errorbar(
            middle[there], errors[there], spread[there], fmt="none", ecolor="#5c6873", elinewidth=1, capsize=2
        )
        upper.axhline(np.abs(truth - predicted).mean(), color=GREY, linewidth=1, linestyle="--")
        upper.set_ylabel("mean absolute error")
        lower.bar(middle, counts, 0.92 * width, color=BLUE)
        lower.set(xlabel=f"{_short(target)}, true", ylabel="structures")

    picture = draw("ranges", paint, width=5.0, height=4.2, title="mean absolute error by range of the target")
    caption = "Error in ranges of the target, with its standard error; dashed: over all. Below, the structures in each."
    return figure_box(picture, caption)


def binned_errors(
    truth: Float[Array, " structures"], predicted: Float[Array, " structures"]
) -> tuple[Array, Array, Array, Array]:
    """Return the bounds of equally wide bins of the truth and, for each, count, mean absolute error, standard error.

    Examples
    --------
    >>> edges, counts, errors, _ = binned_errors(
    ...     np.array([0.0, 1.0, 1.0, 1.0]), np.array([0.5, 1.0, 1.0, 2.0])
    ... )
    >>> counts.tolist(), errors.round(2).tolist()
    ([1, 3], [0.5, 0.33])
    """
    bins = int(min(MOST_BINS, max(1, np.sqrt(len(truth)))))
    edges = np.histogram_bin_edges(truth, bins=bins)
    bin_of = np.clip(np.searchsorted(edges, truth, side="right") - 1, 0, bins - 1)
    absolute = np.abs(truth - predicted)
    counts = np.bincount(bin_of, minlength=bins)
    some = np.maximum(counts, 1)
    means = np.bincount(bin_of, absolute, minlength=bins) / some
    variances = np.bincount(bin_of, (absolute - means[bin_of]) ** 2, minlength=bins) / np.maximum(
        counts - 1, 1
    )
    return edges, counts, means, np.sqrt(variances / some)


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
