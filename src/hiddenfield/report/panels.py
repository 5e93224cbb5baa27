"""Panels of a report: learning curves, parity, errors by range, ROC curves, confusion matrix, map of embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import confusion_matrix

from hiddenfield.learning import History
from hiddenfield.learning.metrics import roc_auc, roc_curve
from hiddenfield.report.drawing import BLUE, GREY, MANY_POINTS, RED, draw, plain_log_scale
from hiddenfield.report.page import figure_box, shortened
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {"valid_mae": "mean absolute error", "valid_accuracy": "accuracy"}
MOST_BINS = 12
MOST_CURVES = 8
MOST_CELLS = 20
MOST_COLOURS = 9


# -- training ----------------------------------------------------------------------------------------------


def learning_curves(histories: Sequence[History]) -> str:
    """Draw the losses and the validation metric of every network; a vertical line marks the epoch that was kept."""
    if not any(history.rows for history in histories):
        return ""

    def losses(figure: Figure) -> None:
        columns = {"train_loss": (BLUE, "training"), "valid_loss": (RED, "validation")}
        axes = _by_epoch(figure, histories, "loss", columns)
        plain_log_scale(axes, (1.0, 2.0, 5.0))
        axes.legend()

    def kept(figure: Figure) -> None:
        assert metric is not None
        axes = _by_epoch(figure, histories, METRICS[metric], {metric: (RED, "")})
        for history in histories:
            axes.axvline(history.best_epoch, color=GREY, linewidth=0.9, linestyle="--")

    caption = "Loss on standardised targets: on the training structures during training, and on validation structures."
    pictures = [figure_box(draw("losses", losses, title="losses by epoch"), caption)]
    metric = next((name for name in METRICS if name in histories[0].rows[-1]), None)
    if metric is not None:
        name = METRICS[metric].capitalize()
        caption = f"{name} on the validation structures; the line marks the epoch that was kept."
        pictures.append(figure_box(draw("metric", kept, title="validation metric by epoch"), caption))
    return f'<div class="figures">{"".join(pictures)}</div>'


def _by_epoch(
    figure: Figure, histories: Sequence[History], label: str, columns: Mapping[str, tuple[str, str]]
) -> Axes:
    """Draw columns of the histories, each in its colour; those of the first history have a label."""
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot()
    for number, history in enumerate(histories):
        for name, (colour, what) in columns.items():
            points: list[Any] = [(row["epoch"], row[name]) for row in history.rows if name in row]
            style: dict[str, Any] = {
                "marker": "o" if len(points) < 40 else None,
                "markersize": 3,
                "linewidth": 1.4,
            }
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=None if number else what, **style)
    axes.set(xlabel="epoch", ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return axes


# -- numbers -----------------------------------------------------------------------------------------------


def parity(target: str, truth: Float[Array, " structures"], predicted: Float[Array, " structures"]) -> str:
    """Draw predictions against the truth; a perfect model has all points on the diagonal."""

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        both = np.concatenate([truth, predicted])
        room = 0.03 * (both.max() - both.min() or 1.0)
        ends = (both.min() - room, both.max() + room)
        axes.plot(ends, ends, color=GREY, linewidth=1, zorder=1)
        size, opacity = (14, 0.6) if len(truth) <= 300 else (5, 0.35)
        options: dict[str, Any] = {"linewidths": 0, "rasterized": len(truth) > MANY_POINTS, "zorder": 2}
        axes.scatter(truth, predicted, s=size, color=BLUE, alpha=opacity, **options)
        axes.set(xlim=ends, ylim=ends, aspect="equal")
        axes.set(xlabel=f"{shortened(target, 40)}, true", ylabel=f"{shortened(target, 40)}, predicted")

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
        style: dict[str, Any] = {"fmt": "none", "ecolor": "#5c6873", "elinewidth": 1, "capsize": 2}
        upper.errorbar(middle[there], errors[there], spread[there], **style)
        upper.axhline(np.abs(truth - predicted).mean(), color=GREY, linewidth=1, linestyle="--")
        upper.set_ylabel("mean absolute error")
        lower.bar(middle, counts, 0.92 * width, color=BLUE)
        lower.set(xlabel=f"{shortened(target, 40)}, true", ylabel="structures")

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
    squares = np.bincount(bin_of, (absolute - means[bin_of]) ** 2, minlength=bins)
    return edges, counts, means, np.sqrt(squares / np.maximum(counts - 1, 1) / some)


# -- classes -----------------------------------------------------------------------------------------------


def roc(
    classes: Sequence[str],
    truth: Float[Array, " structures"],
    probabilities: Float[Array, "structures classes"],
) -> str:
    """Draw the ROC curve of the second of two classes, or of each of several against the rest."""
    codes = [1] if len(classes) == 2 else _most_frequent(truth, len(classes))[:MOST_CURVES]
    members = {code: truth == code for code in codes}
    curves = {code: own for code, own in members.items() if 0 < own.sum() < len(own)}

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
        for k, (code, own) in enumerate(curves.items()):
            false, true = roc_curve(own, probabilities[:, code])
            label = f"{shortened(classes[code], 18)}: {roc_auc(own, probabilities[:, code]):.3f}"
            axes.plot(false, true, color=BLUE if len(curves) == 1 else f"C{k}", linewidth=1.5, label=label)
        axes.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
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
    counts = confusion_matrix(truth.astype(np.int64), probabilities.argmax(axis=1), labels=chosen)
    names = [shortened(classes[code], 18) for code in chosen]

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

    caption = "Test structures by true and by predicted class; darker is a larger share of the true class."
    if len(chosen) < len(classes):
        caption += f" The {len(chosen)} most frequent of {len(classes)} classes."
    return figure_box(draw("confusion", paint, width=4.6, height=4.2, title="confusion matrix"), caption)


def _most_frequent(truth: Array, classes: int) -> Array:
    return np.argsort(-np.bincount(truth.astype(np.int64), minlength=classes), kind="stable")


# -- embeddings --------------------------------------------------------------------------------------------


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
            # A few extreme targets must not take all the colours.
            low, high = np.quantile(truth, [0.01, 0.99])
            x, y = places.T
            points = axes.scatter(x, y, c=truth, cmap="viridis", vmin=low, vmax=high, **options)
            extend = "both" if len(truth) > 100 else "neither"
            figure.colorbar(points, ax=axes, label=target[:40], extend=extend)
        else:
            _by_class(axes, places, truth, classes, options)
        axes.set_xlabel(f"component 1 ({shares[0]:.0%} of the variance)")
        axes.set_ylabel(f"component 2 ({shares[1]:.0%})")

    width = embeddings.shape[1]
    caption = f"Embeddings of the test structures, {width} numbers each, along their main directions."
    return figure_box(draw("map", paint, width=7.0, height=4.6, title="map of the embeddings"), caption)


def _by_class(
    axes: Axes, places: Array, truth: Array, classes: Sequence[str], options: dict[str, Any]
) -> None:
    for k, code in enumerate(_most_frequent(truth, len(classes))):
        own = truth == code
        if own.any():
            few = k < MOST_COLOURS
            label = classes[code][:30] if few else "others" if k == MOST_COLOURS else None
            axes.scatter(*places[own].T, color=f"C{k}" if few else GREY, label=label, **options)
    axes.legend(markerscale=2, loc="best")
