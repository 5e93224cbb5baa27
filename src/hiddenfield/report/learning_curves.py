"""How training went, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hiddenfield.learning import History
from hiddenfield.report.drawing import BLUE, GREY, RED, draw
from hiddenfield.report.page import figure_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["learning_curves"]

METRICS = {"valid_mae": "mean absolute error", "valid_accuracy": "accuracy"}


def learning_curves(histories: Sequence[History]) -> str:
    """Draw the losses and the validation metric of every network; a vertical line marks the epoch that was kept."""
    if not any(history.rows for history in histories):
        return ""
    pictures = [
        figure_box(
            draw("losses", lambda figure: _losses(figure, histories), title="losses by epoch"),
            "Loss on standardised targets: of the training structures while they are learned, and of those kept aside.",
        )
    ]
    metric = next((name for name in METRICS if name in histories[0].rows[-1]), None)
    if metric is not None:
        pictures.append(
            figure_box(
                draw(
                    "metric",
                    lambda figure: _metric(figure, histories, metric),
                    title="validation metric by epoch",
                ),
                f"{METRICS[metric].capitalize()} on the structures kept aside; the line marks the epoch that was kept.",
            )
        )
    return f'<div class="figures">{"".join(pictures)}</div>'


def _losses(figure: Figure, histories: Sequence[History]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes = figure.add_subplot()
    for number, history in enumerate(histories):
        for name, colour, label in (("train_loss", BLUE, "training"), ("valid_loss", RED, "kept aside")):
            _line(axes, history, name, colour, label if number == 0 else None)
    axes.set_yscale("log")
    # Plain numbers: the usual labels of a logarithmic axis are equations, which names from files must not become.
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    _finish(axes, "loss")
    axes.legend()


def _metric(figure: Figure, histories: Sequence[History], metric: str) -> None:
    axes = figure.add_subplot()
    for history in histories:
        _line(axes, history, metric, RED, None)
        axes.axvline(history.best_epoch, color=GREY, linewidth=0.9, linestyle="--")
    _finish(axes, METRICS[metric])


def _line(axes: Axes, history: History, name: str, colour: str, label: str | None) -> None:
    points: list[tuple[Any, Any]] = [(row["epoch"], row[name]) for row in history.rows if name in row]
    if points:
        marker = "o" if len(points) < 40 else None
        axes.plot(
            *zip(*points, strict=True), color=colour, label=label, marker=marker, markersize=3, linewidth=1.4
        )


def _finish(axes: Axes, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
