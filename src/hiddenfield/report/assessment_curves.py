"""More figures of an assessment: how training went, the ROC curve, where the errors are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiddenfield.evaluation.assessment.measuring import NAMES, capital
from hiddenfield.report.drawing import BLUE, RED, draw
from hiddenfield.report.experiment_figures import draw_picture
from hiddenfield.report.page import figure_box
from hiddenfield.report.results_pages.pictures import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["detail_plots"]


def detail_plots(content: Any) -> list[str]:
    """Draw those of training curve, ROC curve and errors by range that an assessment has."""
    found = []
    if "training_curve" in content:
        found.append(_training(content["training_curve"]))
    own = {**content, "column": "", "variant": ""}
    if "roc" in content:
        picture = Picture(
            "roc", "roc", "ROC curve", "", ((f"members: {content['roc']['positive']}", (own,)),)
        )
        caption = (
            "ROC curve: mean over the folds at each false positive rate, with one standard deviation; in brackets the "
            "area under the curve of all folds together."
        )
        found.append(figure_box(draw_picture(picture), caption))
    if "ranges" in content:
        picture = Picture("ranges", "ranges", "errors by range of the target", "", (("", (own,)),))
        caption = "Mean absolute error on the test parts by range of the target, and how many structures each holds."
        found.append(figure_box(draw_picture(picture), caption))
    return found


def _training(curve: Any) -> str:
    """Draw the losses or, where it was recorded, the metric against the steps of the optimizer."""
    name = curve["metric"].removeprefix("valid_")
    shown = ("train_loss", "valid_loss") if name not in NAMES else (curve["metric"],)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for column, colour, label in zip(shown, (BLUE, RED), ("training", "kept aside"), strict=False):
            points = [
                pair
                for pair in zip(curve["steps"], curve.get(column, ()), strict=False)
                if pair[1] is not None
            ]
            mark = "o" if len(points) < 40 else None
            axes.plot(*zip(*points, strict=True), color=colour, label=label, marker=mark, markersize=3)
        axes.set_xlabel("training steps")
        axes.set_ylabel(NAMES.get(name, "loss"))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        if len(shown) > 1:
            axes.legend()

    what = f"{capital(NAMES[name])} on the structures kept aside" if name in NAMES else "Losses"
    caption = f"{what}, against the steps of the optimizer: mean over folds and seeds."
    if len(set(curve["runs"])) > 1:
        caption += " Networks that stopped early count as long as they trained."
    return figure_box(draw("steps", paint, title="training curve"), caption)
