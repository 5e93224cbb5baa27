"""Pictures of models with something hidden: what is missing, how EM went, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.report.drawing import BLUE, GREY, MANY_POINTS, RED, colour_of
from hiddenfield.report.page import shortened
from hiddenfield.shapes import Array, Bool, Float, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PATTERNS = 24
"""Patterns of missingness that a picture shows."""

MOST_STATES = 12
"""States that a diagram shows."""

LEAST_SHARE = 0.02
"""Probability of a transition from which on a diagram shows it."""

NINETY = 4.605
"""Squared Mahalanobis distance within which 90 % of a Gaussian in the plane lies."""


def paint_patterns(
    figure: Figure,
    names: Sequence[str],
    observed: Bool[Array, "patterns columns"],
    counts: Int[Array, " patterns"],
) -> None:
    """Draw which columns are missing together: a line for each pattern, with how many rows have it."""
    from matplotlib.colors import ListedColormap

    shown = min(len(counts), MOST_PATTERNS)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[max(len(names), 3), 3])
    colours = ListedColormap(["#dfe8f2", RED])
    left.pcolormesh(~observed[:shown], cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=1)
    left.set_xticks(
        np.arange(len(names)) + 0.5, [shortened(name, 18) for name in names], rotation=60, ha="right"
    )
    left.set_yticks([])
    left.set_ylim(shown, 0)
    left.grid(False)
    places = np.arange(shown) + 0.5
    right.barh(places, counts[:shown], height=0.8, color=GREY)
    for place, count in zip(places, counts[:shown], strict=True):
        right.text(count, place, f" {count:,}", va="center", fontsize=7.5)
    right.margins(x=0.25)
    right.set(xlabel="rows")


def paint_traces(figure: Figure, traces: Sequence[Sequence[float]], best: int) -> None:
    """Draw the objective of every run by turn; the best run stands out."""
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot()
    for number, trace in sorted(enumerate(traces), key=lambda entry: entry[0] == best):
        own = number == best
        style: dict[str, Any] = {"color": BLUE if own else GREY, "linewidth": 1.8 if own else 0.9}
        axes.plot(range(1, len(trace) + 1), trace, marker="." if len(trace) < 30 else None, **style)
    if len(traces) > 1:
        axes.plot([], [], color=BLUE, label="kept")
        axes.plot([], [], color=GREY, label="other runs")
        axes.legend(loc="lower right")
    # The first turns rise so far that nothing could be seen of the others.
    last = [value for trace in traces for value in trace[max(1, len(trace) // 10) :]]
    if len(last) > 3:
        low, high = min(last), max(last)
        axes.set_ylim(low - 0.05 * (high - low or 1.0), high + 0.05 * (high - low or 1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set(xlabel="iteration", ylabel="objective")


def paint_sizes(
    figure: Figure, sizes: Sequence[int], criteria: Mapping[str, Sequence[float]], chosen: int, word: str
) -> None:
    """Draw criteria of model choice against the size of the model; a line marks the one that was chosen."""
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot()
    for number, (name, values) in enumerate(criteria.items()):
        axes.plot(sizes, values, marker="o", markersize=4, color=colour_of(number), label=name)
    axes.axvline(chosen, color=GREY, linestyle="--", linewidth=0.9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=word, ylabel="criterion (lower is better)")
    axes.legend()


def paint_ellipses(
    figure: Figure,
    values: Float[Array, "rows columns"],
    owners: Int[Array, " rows"],
    means: Float[Array, "components columns"],
    covariances: Float[Array, "components columns columns"],
    names: Sequence[str],
) -> None:
    """Draw two columns of the rows that have both, and the ellipse of each component that holds 90 % of it."""
    from matplotlib.patches import Ellipse

    axes = figure.add_subplot()
    seen = ~np.isnan(values).any(axis=1)
    size = 14 if seen.sum() <= 300 else 5
    colours = [colour_of(int(owner)) for owner in owners[seen]]
    x, y = values[seen].T
    axes.scatter(x, y, s=size, c=colours, alpha=0.55, linewidths=0, rasterized=len(x) > MANY_POINTS)
    for number, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        lengths, axes_of = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(axes_of[1, 1], axes_of[0, 1]))
        width, height = 2 * np.sqrt(NINETY * np.maximum(lengths[::-1], 0.0))
        shape = Ellipse(
            mean, width, height, angle=angle, fill=False, edgecolor=colour_of(number), linewidth=1.8
        )
        axes.add_patch(shape)
        axes.annotate(str(number), mean, ha="center", va="center", fontweight="bold", color=colour_of(number))
    axes.autoscale_view()
    axes.set(xlabel=shortened(names[0], 40), ylabel=shortened(names[1], 40))


def paint_profile(figure: Figure, name: str, profile: Mapping[str, Sequence[float]]) -> None:
    """Draw one column by class: the probabilities of its symbols, or its mean with a standard deviation each way."""
    axes = figure.add_subplot()
    mean = np.array(profile.get("mean", profile.get("rate", ())))
    places = np.arange(len(next(iter(profile.values()))))
    if not len(mean):
        start = np.zeros(len(places))
        for code, (symbol, shares) in enumerate(profile.items()):
            style: dict[str, Any] = {"color": colour_of(code), "label": shortened(symbol, 16)}
            axes.barh(places, shares, left=start, height=0.75, **style)
            start = start + shares
        axes.set_xlim(0, 1)
        options: dict[str, Any] = {"fontsize": 6.5, "ncols": 4, "handlelength": 0.8, "columnspacing": 0.8}
        figure.legend(loc="outside lower center", **options)
    else:
        spread = np.sqrt(mean) if "rate" in profile else profile["deviation"]
        axes.errorbar(mean, places, xerr=spread, fmt="none", ecolor=GREY, capsize=2, linewidth=1, zorder=1)
        axes.scatter(mean, places, c=[colour_of(int(number)) for number in places], s=26, zorder=2)
    axes.set_yticks(places, [str(number) for number in places])
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.set_title(shortened(name, 30), fontsize=9)
    axes.grid(axis="y", visible=False)


def paint_words(figure: Figure, words: Sequence[str], shares: Float[Array, " words"], number: int) -> None:
    """Draw the probabilities of the first words of a topic."""
    axes = figure.add_subplot()
    places = np.arange(len(words))
    axes.barh(places, shares, height=0.75, color=colour_of(number))
    axes.set_yticks(places, [shortened(word, 16) for word in words])
    axes.set_ylim(len(words) - 0.4, -0.6)
    axes.set_title(f"topic {number}", fontsize=9)
    axes.grid(axis="y", visible=False)


def paint_loadings(
    figure: Figure,
    loadings: Float[Array, "columns factors"],
    noise: Float[Array, " columns"],
    names: Sequence[str],
    factors: Sequence[str],
    targets: int = 0,
) -> None:
    """Draw standardised loadings, and the share of each column's variance that the factors leave; targets are last."""
    shown = np.column_stack([loadings, noise])
    axes = figure.add_subplot()
    axes.pcolormesh(loadings, cmap="RdBu_r", vmin=-1, vmax=1, edgecolors="white", linewidth=1)
    for row, values in enumerate(shown):
        for column, value in enumerate(values):
            dark = column < loadings.shape[1] and abs(value) > 0.6
            place = column + 0.5 + 0.15 * (column == loadings.shape[1])
            colour = "white" if dark else "#1c232b"
            axes.text(place, row + 0.5, f"{value:z.2f}", ha="center", va="center", fontsize=8, color=colour)
    if targets:
        axes.axhline(len(names) - targets, color="#1c232b", linewidth=1.2)
    axes.set_xticks([*(np.arange(len(factors)) + 0.5), len(factors) + 0.65], [*factors, "uniqueness"])
    axes.set_yticks(np.arange(len(names)) + 0.5, [shortened(name, 24) for name in names])
    axes.set_xlim(0, len(factors) + 1.15)
    axes.set_ylim(len(names), 0)
    axes.xaxis.tick_top()
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def paint_states(
    figure: Figure,
    transitions: Float[Array, "states states"],
    stationary: Float[Array, " states"],
    labels: Sequence[str],
) -> None:
    """Draw states on a circle, as large as they are frequent, and transitions as wide as they are probable."""
    from matplotlib.patches import Circle, FancyArrowPatch

    count = len(transitions)
    angles = (np.pi if count == 2 else np.pi / 2) - 2 * np.pi * np.arange(count) / count
    places = np.column_stack([np.cos(angles), np.sin(angles)]) if count > 1 else np.zeros((1, 2))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    radii = 0.13 + 0.2 * np.sqrt(stationary) * min(1.0, 4 / count)
    for number in range(count):
        axes.add_patch(Circle(places[number], radii[number], color=colour_of(number), alpha=0.85, zorder=3))
        axes.annotate(
            f"{number}\n{transitions[number, number]:.2f}", places[number], ha="center", va="center", color="white",
            fontsize=8, fontweight="bold", zorder=4,
        )  # fmt: skip
        outward = places[number] * (1 + radii[number] + 0.12) - [0, (radii[0] + 0.12) * (count == 1)]
        side = "left" if outward[0] > 0.2 else "right" if outward[0] < -0.2 else "center"
        edge = "bottom" if outward[1] > 0 else "top"
        axes.annotate(labels[number], outward, ha=side, va=edge, fontsize=7.5, color="#46525e")
    shown = np.argwhere((transitions >= LEAST_SHARE) & ~np.eye(count, dtype=bool))
    for source, target in shown:
        share, way = transitions[source, target], places[target] - places[source]
        way /= np.linalg.norm(way)
        start, end = places[source] + way * radii[source], places[target] - way * radii[target]
        arrow = FancyArrowPatch(
            start, end, connectionstyle="arc3,rad=-0.18", arrowstyle="-|>", mutation_scale=11,
            linewidth=0.6 + 4 * share, color=colour_of(source), alpha=0.75, shrinkA=1, shrinkB=1, zorder=2,
        )  # fmt: skip
        axes.add_patch(arrow)
        across = np.array([-way[1], way[0]]) * 0.13 * np.linalg.norm(end - start)
        axes.annotate(
            f"{share:.2g}", 0.6 * start + 0.4 * end + across, ha="center", va="center", fontsize=7.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}, zorder=5,
        )  # fmt: skip
    axes.set(xlim=(-1.75, 1.75), ylim=(-0.7, 0.7) if count == 2 else (-1.55, 1.55))


def paint_decoded(
    figure: Figure,
    path: Int[Array, " steps"],
    posterior: Float[Array, "steps states"],
    series: Array | None,
    label: str,
) -> None:
    """Draw a sequence with its most likely path as a coloured band, and the posterior probabilities of the states."""
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2] if series is not None else [1, 3])
    steps = np.arange(len(path))
    changes = np.flatnonzero(np.diff(path)) + 1
    for start, end in zip([0, *changes], [*changes, len(path)], strict=True):
        upper.axvspan(start - 0.5, end - 0.5, color=colour_of(int(path[start])), alpha=0.3, linewidth=0)
    if series is not None:
        marker = "." if len(path) <= 150 else None
        upper.plot(steps, series, color="#1c232b", linewidth=0.9, marker=marker, markersize=4)
        upper.set_ylabel(shortened(label, 24))
    else:
        upper.set_yticks([])
    colours = [colour_of(number) for number in range(posterior.shape[1])]
    lower.stackplot(steps, posterior.T, colors=colours, alpha=0.85, linewidth=0)
    lower.set(xlabel="step", ylabel="posterior", ylim=(0, 1), xlim=(-0.5, len(path) - 0.5))
    upper.grid(False)


def paint_outliers(
    figure: Figure, outlyingness: Float[Array, " rows"], chosen: Int[Array, " outliers"], label: str
) -> None:
    """Draw how outlying each row is, the most outlying in red with their numbers."""
    axes = figure.add_subplot()
    rows = np.arange(len(outlyingness))
    axes.scatter(
        rows, outlyingness, s=6, color=BLUE, alpha=0.5, linewidths=0, rasterized=len(rows) > MANY_POINTS
    )
    axes.scatter(chosen, outlyingness[chosen], s=18, color=RED, linewidths=0)
    for row in chosen[:12]:
        axes.annotate(f" {row}", (row, outlyingness[row]), fontsize=7, va="center")
    axes.set(xlabel="row", ylabel=label)
