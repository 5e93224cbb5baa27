"""Pictures of a report: of an assessment, its folds, training and errors; of predictions and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

from hiddenfield.evaluation.assessment.details import GRID, mean_roc
from hiddenfield.evaluation.measuring import NAMES, capital
from hiddenfield.evaluation.records import Assessment, Roc, TrainingCurve
from hiddenfield.report.drawing import BLUE, COLOURS, GREY, MANY_POINTS, RED, plain_log_scale, plot
from hiddenfield.report.page import figure_box, shortened
from hiddenfield.report.results import Panels
from hiddenfield.report.study import Picture, Row, draw_picture
from hiddenfield.report.study.pictures import roc_panel
from hiddenfield.shapes import Array, Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES = 8
MOST_CELLS = 20
MOST_COLOURS = 9
# Times the median distance from the middle, beyond which a structure is an outlier of the map.
FAR = 8.0


# -- assessments -----------------------------------------------------------------------------------------


def box_plots(found: Assessment, key: str) -> str:
    """Draw a box for each model over the folds, with every fold as a point."""
    columns = {name: entry.folds for name, entry in found.baselines.items()} | {found.model: found.values}
    names, last = list(columns), len(columns) - 1

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, name in enumerate(names):
            values = np.asarray(columns[name], dtype=np.float64)
            colour = BLUE if place == last else GREY
            style: dict[str, Any] = {
                f"{part}props": {"color": colour} for part in ("whisker", "cap", "median")
            }
            style["boxprops"] = {"facecolor": colour + "33", "edgecolor": colour}
            style["medianprops"]["linewidth"] = 1.8
            style |= {"orientation": "horizontal", "showfliers": False, "patch_artist": True, "widths": 0.55}
            axes.boxplot(values, positions=[place], **style)
            # The folds keep their order from top to bottom, so that points of the same fold can be followed.
            spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            axes.plot(values, place + spread, "o", color=colour, markersize=3.2, alpha=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(last + 0.6, -0.6)
        axes.set_xlabel(NAMES[found.metric])
        axes.grid(False, axis="y")

    height = 1.0 + 0.5 * len(names)
    caption = "Every fold is a point; the box holds the middle half of them, the line is the median."
    return plot(f"boxes{key}", caption, paint, height=max(height, 2.4), title="values by fold")


def curve_plot(found: Assessment, key: str) -> str:
    """Draw the metric against the number of training structures: mean over the folds, and their deviation."""
    rows = found.learning_curve or []
    sizes = [row.train for row in rows]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for colour, name in zip((GREY, *COLOURS[1:]), rows[0].baselines, strict=False):
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
    return plot(f"curve{key}", caption, paint, title="learning curve")


def prediction_plots(found: Assessment, panels: Panels | None, key: str) -> list[str]:
    """Draw the errors of a target: ROC curves or ranges of the number, and of a fitted model every prediction."""
    drawn, row = [], Row.of(found)
    if panels is not None and panels.classes is None:
        drawn.append(parity(found.target, panels.truth, panels.predicted, key))
    if found.roc is not None:
        picture = Picture("roc", f"roc{key}", "ROC curve", "", {f"members: {found.roc.positive}": [row]})
        folds = "mean over the folds at each false positive rate, with one standard deviation; "
        caption = (
            f"ROC curve: {folds * (len(found.folds) > 1)}in brackets the area under the curve"
            f"{' of all folds together' * (len(found.folds) > 1)}."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    elif panels is not None and panels.classes is not None:
        drawn.append(roc(panels.classes, panels.truth, panels.predicted, key))
    if panels is not None and panels.classes is not None:
        drawn.append(confusion(panels.classes, panels.truth, panels.predicted, key))
    if found.ranges is not None:
        picture = Picture("ranges", f"ranges{key}", "errors by range of the target", "", {"": [row]})
        caption = (
            "Mean absolute error on the test structures by range of the target, and how many each holds."
        )
        drawn.append(figure_box(draw_picture(picture), caption))
    return drawn


def training_plots(curve: TrainingCurve, kept: Sequence[int], key: str) -> list[str]:
    """Draw the losses and, where it was recorded, the metric by epoch; dashed lines mark the epochs that were kept."""

    def paint(figure: Figure, columns: Mapping[str, tuple[str, str]], label: str) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for column, (colour, name) in columns.items():
            values = getattr(curve, column) or ()
            points = [pair for pair in zip(curve.epochs, values, strict=False) if pair[1] is not None]
            mark = "o" if len(points) < 40 else None
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=name, marker=mark, markersize=3)
        for epoch in kept:
            axes.axvline(epoch, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
        axes.set(xlabel="epoch", ylabel=label)
        if len(columns) > 1:
            plain_log_scale(axes, (1.0, 2.0, 5.0))
            axes.legend()
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    early = " Networks that stopped early count as long as they trained." * (len(set(curve.runs)) > 1)
    losses = {"train_loss": (BLUE, "training"), "valid_loss": (RED, "held out")}
    many = f"mean of {max(curve.runs)} networks" if max(curve.runs) > 1 else "one network"
    caption = f"Loss by epoch, {many}; dashed: the epochs whose weights were kept.{early}"
    drawn = []
    if curve.train_loss is not None:
        drawn.append(
            plot(
                f"losses{key}", caption, lambda figure: paint(figure, losses, "loss"), title="losses by epoch"
            )
        )
    name = curve.metric.removeprefix("valid_")
    if name in NAMES:
        column, title = {curve.metric: (RED, "held out")}, NAMES[name]
        caption = (
            f"{capital(title)} on the held-out structures by epoch, {many}; dashed: the epochs whose weights were kept."
            f"{early}"
        )
        drawn.append(
            plot(
                f"metric{key}", caption, lambda figure: paint(figure, column, title), title="metric by epoch"
            )
        )
    return drawn


# -- numbers -----------------------------------------------------------------------------------------------


def parity(
    target: str, truth: Float[Array, " structures"], predicted: Float[Array, " structures"], key: str = ""
) -> str:
    """Draw predictions against the truth; a perfect model has all points on the diagonal.

    The `key` distinguishes this picture from others of its kind on one page, here and below.
    """

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

    caption = "Test structures: predicted against true. On the line the prediction is right."
    title = "predicted against true values"
    return plot(f"parity{key}", caption, paint, width=4.6, height=4.2, title=title)


# -- classes -----------------------------------------------------------------------------------------------


def roc(
    classes: Sequence[str],
    truth: Float[Array, " structures"],
    probabilities: Float[Array, "structures classes"],
    key: str = "",
) -> str:
    """Draw the ROC curve of each of several classes against the rest."""
    codes = _most_frequent(truth, len(classes))[:MOST_CURVES]
    curves = {}
    for code in codes:
        found = mean_roc([(truth == code).astype(np.float64)], [probabilities[:, code]])
        if found is not None:
            name = shortened(classes[code], 18)
            name = f"{name} {code}" if name in curves else name
            curves[name] = Roc(name, GRID.tolist(), found.true_positive, None, found.auc, {})
    caption = (
        "ROC on the test structures: the share of a class that is found against that of the others taken for it; in "
        "brackets the area under the curve."
    )
    colours = dict(zip(curves, COLOURS, strict=False))
    return plot(
        f"roc{key}",
        caption,
        lambda figure: roc_panel(figure.add_subplot(), "", curves, colours),
        width=4.6,
        height=4.2,
        title="ROC curves",
    )


def confusion(
    classes: Sequence[str],
    truth: Float[Array, " structures"],
    probabilities: Float[Array, "structures classes"],
    key: str = "",
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
    return plot(f"confusion{key}", caption, paint, width=4.6, height=4.2, title="confusion matrix")


def _most_frequent(truth: Array, classes: int) -> Array:
    return np.argsort(-np.bincount(truth.astype(np.int64), minlength=classes), kind="stable")


# -- embeddings --------------------------------------------------------------------------------------------


def principal_components(
    rows: Float[Array, "structures width"], count: int = 2, of: Bool[Array, " structures"] | None = None
) -> tuple[Float[Array, "structures components"], Float[Array, " components"]]:
    """Return the coordinates along the directions of largest variance, and the share of the variance of each.

    The sign of a direction is the one that makes its largest entry positive, so that the map does not flip from one run
    to the next. Missing directions are zeros. Where `of` says so, only some of the rows decide on the directions.

    Examples
    --------
    >>> places, shares = principal_components(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> places[:, 0].tolist(), shares.round(6).tolist()
    ([-5.0, 0.0, 5.0], [1.0, 0.0])
    """
    deciding = rows if of is None else rows[of]
    found = PCA(min(count, *deciding.shape), svd_solver="full").fit(deciding)
    missing = (0, count - found.n_components_)
    shares = found.explained_variance_ / max(float(deciding.var(axis=0, ddof=1).sum()), 1e-300)
    return np.pad(found.transform(rows), ((0, 0), missing)), np.pad(shares, missing)


def far_rows(rows: Float[Array, "structures width"]) -> Bool[Array, " structures"]:
    """Say which rows lie so far from the others that a map to their scale would show nothing else.

    These are the rows more than `FAR` times as far from the median, column by column, as half of all rows; none where
    that is more than a twentieth of them, which is then a group and not a few outliers.

    Examples
    --------
    >>> far_rows(np.array([[k / 50, 0.0] for k in range(50)] + [[1e3, 0.0]])).nonzero()[0].tolist()
    [50]
    """
    distances = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    far = distances > FAR * max(float(np.median(distances)), 1e-300)
    return far & (far.mean() <= 0.05)


def embedding_map(
    target: str,
    truth: Float[Array, " structures"],
    embeddings: Float[Array, "structures width"],
    classes: Sequence[str] | None,
) -> str:
    """Draw the test structures by the two main components of their embeddings, coloured by the target.

    A few that lie far from all others have no part in the directions and the scale, and are drawn at the edge.
    """
    wide = embeddings.astype(np.float64)
    far = far_rows(wide)
    places, shares = principal_components(wide, of=~far)
    low, high = places[~far].min(axis=0), places[~far].max(axis=0)
    places = np.clip(places, low - 0.04 * (high - low), high + 0.04 * (high - low)) if far.any() else places

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
        if far.any():
            x, y = places[far].T
            axes.scatter(x, y, s=40, facecolors="none", edgecolors=RED, linewidths=1.0)
        axes.set_xlabel(f"component 1 ({shares[0]:.0%} of the variance)")
        axes.set_ylabel(f"component 2 ({shares[1]:.0%})")

    width = embeddings.shape[1]
    caption = f"Embeddings of the test structures, {width} numbers each, along their main directions."
    if far.any():
        verb, they = ("lies", "it is") if far.sum() == 1 else ("lie", "they are")
        caption += f" {int(far.sum())} (circled) {verb} far outside: {they} drawn at the edge."
    return plot("map", caption, paint, width=7.0, height=4.6, title="map of the embeddings")


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
