"""Pictures of relational models: landscapes with ascents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.models.relational.landscape import Landscape
from hiddenfield.report.drawing import SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CONVENTION", "image_extent", "paint_landscape", "save_figure"]

MARK: dict[str, Any] = {"markersize": 8, "linestyle": "", "markeredgecolor": "black"}
CONVENTION = {"ground": "per ground feature", "binding": "per binding"}


def save_figure(
    path: str | Path, paint: Callable[[Figure], None], *, width: float = 5.6, height: float = 4.2
) -> None:
    """Write what `paint` draws into an image file, by its suffix."""
    import matplotlib
    from matplotlib.figure import Figure

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({**SETTINGS, "savefig.dpi": 130}):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure)
        figure.savefig(path, metadata={"Software": None} if path.suffix == ".png" else None)


def label(name: str, weights: str) -> str:
    """Return an axis label that states what a weight counts."""
    return f"weight of {name.replace('_', ' ')} ({CONVENTION[weights]})"


def paint_landscape(
    figure: Figure,
    found: Landscape,
    *,
    truth: Sequence[float] | None = None,
    depth: float | None = None,
    axes: Axes | None = None,
    title: str = "",
    legend: bool = True,
) -> None:
    """Draw a landscape: log-likelihood below its best as colour, ascents as lines, their ends as marks.

    Parameters
    ----------
    figure
        Where to draw.
    found
        The landscape.
    truth
        Weights that the data were drawn with, marked by a star.
    depth
        How far below the best the colours reach; by default so far that four fifths of the points are told apart.
    axes
        Part of the figure to draw on.
    title
        Above it.
    legend
        Whether to say below the figure what the marks are.
    """
    axes = figure.add_subplot() if axes is None else axes
    axes.grid(False)
    finite = found.log_likelihood[np.isfinite(found.log_likelihood)]
    top = float(finite.max()) if len(finite) else 0.0
    below = found.log_likelihood - top
    # A logarithm of the distance to the best tells apart both the summit and the plains.
    reach = depth if depth is not None else max(float(np.quantile(-below[np.isfinite(below)], 0.8)), 1.0)
    extent = image_extent(found.x, found.y)
    shown = np.log10(1 + np.minimum(-below, reach))
    image = axes.imshow(
        shown, origin="lower", extent=extent, aspect="auto", cmap="viridis_r", interpolation="nearest"
    )
    _draw_phases(axes, found)
    _draw_ascents(axes, found)
    if truth is not None:
        axes.plot(
            *truth, marker="*", color="white", label="weights of the samples", **{**MARK, "markersize": 14}
        )
    axes.set_xlim(extent[0], extent[1])
    axes.set_ylim(extent[2], extent[3])
    axes.set_xlabel(label(found.names[0], found.weights))
    axes.set_ylabel(label(found.names[1], found.weights))
    axes.label_outer()
    axes.set_title(title, fontsize=9)
    bar = figure.colorbar(image, ax=axes, fraction=0.05)
    ticks = [t for t in (0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7) if t <= reach]
    bar.set_ticks([float(np.log10(1 + t)) for t in ticks], labels=[f"{-t:,.0f}" if t else "0" for t in ticks])
    bar.set_label(f"log-likelihood below the best, {top:,.1f} (nats)")
    if legend:
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))
        if entries:
            figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3, fontsize=8)


def _draw_phases(axes: Axes, found: Landscape) -> None:
    """Outline where there are two phases or more; leave grey where nothing settled."""
    axes.set_facecolor("#c9ced4")
    several = (found.phases > 1).astype(float)
    if several.any():
        axes.plot([], [], color="#9aa4ae", linestyle="--", label="two phases inside")
    if several.any() and not several.all():
        style: dict[str, Any] = {"colors": "white", "linewidths": 1, "linestyles": "--"}
        axes.contour(found.x, found.y, several, levels=[0.5], **style)


def _draw_ascents(axes: Axes, found: Landscape) -> None:
    path: dict[str, Any] = {
        "color": "#20262d",
        "linewidth": 0.9,
        "marker": "o",
        "markersize": 3,
        "markevery": [0],
    }
    for ascent in found.ascents:
        axes.plot(*ascent.trace[:, :2].T, label="ascent from its start", **path)
        end = ascent.parameters[:2]
        if ascent.converged:
            axes.plot(*end, marker="^", color="#ffd23f", label="maximum", **MARK)
        else:
            axes.plot(*end, marker="X", color="#e4572e", label="ended without a maximum", **MARK)


def image_extent(x: Any, y: Any) -> tuple[float, float, float, float]:
    """Return the edges of an image whose pixels are centred on the points of two axes."""
    half_x, half_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    return (float(x[0] - half_x), float(x[-1] + half_x), float(y[0] - half_y), float(y[-1] + half_y))
