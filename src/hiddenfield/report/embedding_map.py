"""A map of the embeddings: their two main directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.report.drawing import GREY, MANY_POINTS, draw
from hiddenfield.report.page import figure_box
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["embedding_map", "principal_components"]

MOST_COLOURS = 9


def principal_components(
    rows: Float[Array, "structures width"], count: int = 2
) -> tuple[Float[Array, "structures components"], Float[Array, " components"]]:
    """Return the coordinates along the directions of largest variance, and the share of the variance of each.

    The sign of a direction is the one that makes its largest entry positive, so that the map does not flip from one run
    to the next. Missing directions are zeros.

    Examples
    --------
    >>> places, shares = principal_components(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> places[:, 0].tolist(), shares.round(6).tolist()
    ([-5.0, 0.0, 5.0], [1.0, 0.0])
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(-variances, kind="stable")[:count]
    chosen = directions[:, order]
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    places, total = centred @ chosen, max(float(variances.sum()), 1e-300)
    shares = np.clip(variances[order], 0, None) / total
    missing = count - places.shape[1]
    return np.pad(places, ((0, 0), (0, missing))), np.pad(shares, (0, missing))


def embedding_map(
    target: str,
    truth: Float[Array, " structures"],
    embeddings: Float[Array, "structures width"],
    classes: Sequence[str] | None,
) -> str:
    """Draw the test structures by the two main components of their embeddings, coloured by the target."""
    places, shares = principal_components(embeddings)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        options: dict[str, Any] = {
            "s": 14 if len(truth) <= 300 else 6,
            "linewidths": 0,
            "alpha": 0.8,
            "rasterized": len(truth) > MANY_POINTS,
        }
        if classes is None:
            low, high = np.quantile(
                truth, [0.01, 0.99]
            )  # a few extreme targets must not take all the colours
            points = axes.scatter(
                places[:, 0], places[:, 1], c=truth, cmap="viridis", vmin=low, vmax=high, **options
            )
            figure.colorbar(
                points, ax=axes, label=target[:40], extend="both" if len(truth) > 100 else "neither"
            )
        else:
            _by_class(axes, places, truth, classes, options)
        axes.set_xlabel(f"component 1 ({shares[0]:.0%} of the variance)")
        axes.set_ylabel(f"component 2 ({shares[1]:.0%})")

    picture = draw("map", paint, width=7.0, height=4.6, title="map of the embeddings")
    return figure_box(
        picture,
        f"Embeddings of the test structures, {embeddings.shape[1]} numbers each, along their main directions.",
    )


def _by_class(
    axes: Axes, places: Array, truth: Array, classes: Sequence[str], options: dict[str, Any]
) -> None:
    order = np.argsort(-np.bincount(truth.astype(np.int64), minlength=len(classes)), kind="stable")
    for k, code in enumerate(order):
        own = truth == code
        if own.any():
            few = k < MOST_COLOURS
            label = classes[code][:30] if few else "others" if k == MOST_COLOURS else None
            axes.scatter(
                places[own, 0], places[own, 1], color=f"C{k}" if few else GREY, label=label, **options
            )
    axes.legend(markerscale=2, loc="best")
