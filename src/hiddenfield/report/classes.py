"""Predicted classes against true ones: ROC curves and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.learning.metrics import roc_auc, roc_curve
from hiddenfield.report.drawing import BLUE, GREY, draw
from hiddenfield.report.page import figure_box
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["confusion", "confusion_counts", "roc"]

MOST_CURVES = 8
MOST_CELLS = 20


def roc(
    classes: Sequence[str],
    truth: Float[Array, " structures"],
    probabilities: Float[Array, "structures classes"],
) -> str:
    """Draw the ROC curve of the second of two classes, or of each of several against the rest."""
    codes = [1] if len(classes) == 2 else _most_frequent(truth, len(classes))[:MOST_CURVES]
    curves = []
    for code in codes:
        member = truth == code
        if 0 < member.sum() < len(member):
            curves.append(
                (code, roc_curve(member, probabilities[:, code]), roc_auc(member, probabilities[:, code]))
            )

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
        for k, (code, (false, true), area) in enumerate(curves):
            colour = BLUE if len(curves) == 1 else f"C{k}"
            axes.plot(false, true, color=colour, linewidth=1.5, label=f"{_short(classes[code])}: {area:.3f}")
        axes.set(
            xlabel="false positive rate",
            ylabel="true positive rate",
            aspect="equal",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        if curves:
            axes.legend(title="class: area", loc="lower right")

    caption = "ROC on the test structures: the share of a class that is found against that of the others taken for it."
    return figure_box(draw("roc", paint, width=4.6, height=4.2, title="ROC curves"), caption)


def confusion(
    classes: Sequence[str],
    truth: Float[Array, " structures"],
    probabilities: Float[Array, "structures classes"],
) -> str:
    """Draw how many structures of each class are taken for which, colours by the share of the true class."""
    chosen = np.sort(_most_frequent(truth, len(classes))[:MOST_CELLS])
    counts = confusion_counts(truth, probabilities)[np.ix_(chosen, chosen)]
    names = [_short(classes[code]) for code in chosen]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.grid(False)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        places = range(len(names))
        turned = max(len(name) for name in names) > 6
        axes.set_xticks(places, names, rotation=40 if turned else 0, ha="right" if turned else "center")
        axes.set_yticks(places, names)
        axes.set(xlabel="predicted", ylabel="true")
        for row in places:
            for column in places:
                colour = "white" if shares[row, column] > 0.6 else "#1c232b"
                axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=colour)

    more = (
        "" if len(chosen) == len(classes) else f" The {len(chosen)} most frequent of {len(classes)} classes."
    )
    caption = (
        f"Test structures by true and by predicted class; darker is a larger share of the true class.{more}"
    )
    return figure_box(draw("confusion", paint, width=4.6, height=4.2, title="confusion matrix"), caption)


def confusion_counts(
    truth: Float[Array, " structures"], probabilities: Float[Array, "structures classes"]
) -> Int[Array, "classes classes"]:
    """Count structures by true class (row) and predicted class (column).

    Examples
    --------
    >>> confusion_counts(np.array([0.0, 1.0, 1.0]), np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]))
    array([[1, 0],
           [1, 1]])
    """
    classes = probabilities.shape[1]
    cells = truth.astype(np.int64) * classes + probabilities.argmax(axis=1)
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes)


def _most_frequent(truth: Array, classes: int) -> Array:
    return np.argsort(-np.bincount(truth.astype(np.int64), minlength=classes), kind="stable")


def _short(text: str, most: int = 18) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
