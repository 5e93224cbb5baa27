"""Draw the pictures of docs/incomplete-data.md and of the pages of its models: ``python -m tools.incomplete``.

Corpora are read from the folder that HIDDENFIELD_DATA names.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data import as_documents
from hiddenfield.data.rows import Rows
from hiddenfield.estimators import (
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
    RestrictedBoltzmannMachine,
    VariationalAutoencoder,
)
from hiddenfield.report.drawing import BLUE, GREY, RED, colour_of, save_figure
from hiddenfield.report.learned_pictures import NINETY
from hiddenfield.report.page import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def two_groups() -> tuple[np.ndarray, np.ndarray]:
    """Return points of two groups, and the group of each."""
    generator = np.random.default_rng(0)
    group = np.repeat([0, 1], [120, 80])
    points = generator.standard_normal((200, 2)) * np.where(group[:, None] == 0, [0.7, 1.0], [1.0, 0.6])
    return points + np.where(group[:, None] == 0, [0.0, 0.0], [2.5, 2.0]), group


def casino() -> tuple[list[list[str]], np.ndarray]:
    """Return ten evenings of 300 rolls of a die that is exchanged for a loaded one now and then, and which it was."""
    generator = np.random.default_rng(1)
    loaded = np.zeros((10, 300), int)
    for t in range(1, 300):
        loaded[:, t] = generator.random(10) < np.where(loaded[:, t - 1] == 1, 0.95, 0.03)
    sixes = generator.random(loaded.shape) < np.where(loaded == 1, 0.6, 1 / 6)
    rolls = np.where(sixes, 6, generator.integers(1, 6, loaded.shape))
    return [[str(roll) for roll in evening] for evening in rolls], loaded


def lost_values() -> tuple[np.ndarray, np.ndarray]:
    """Return complete pairs, and the same with the second number lost where the first is large."""
    generator = np.random.default_rng(0)
    pairs = generator.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], 300)
    lost = generator.random(300) < 1 / (1 + np.exp(-3 * pairs[:, 0]))
    return pairs, np.where(lost[:, None] & [False, True], np.nan, pairs)


def paint_mixture(figure: Figure) -> None:
    """Draw the alternation: points coloured by their posterior, components as ellipses, turn after turn."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Ellipse

    points, _ = two_groups()
    colours = np.array([to_rgb(colour_of(k)) for k in range(2)])
    start: dict[str, Any] = {
        "weights": np.array([0.5, 0.5]),
        "means": np.array([[0.0, 3.0], [2.0, -1.0]]),
        "covariances": np.tile(np.eye(2), (2, 1, 1)),
    }
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    for axes, turns in zip(panels, (0, 2, 20, 60), strict=True):
        model = GaussianMixture(
            2, start=start, max_iterations=turns + 1, tolerance=1e-12, acceleration="none"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(points)
        shares = model.posterior(points)
        axes.scatter(*points.T, s=7, c=shares @ colours, linewidths=0)
        for k in range(2):
            lengths, vectors = np.linalg.eigh(model.covariances_[k])
            angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
            width, height = 2 * np.sqrt(NINETY * lengths[::-1])
            axes.add_patch(
                Ellipse(
                    model.means_[k],
                    width,
                    height,
                    angle=angle,
                    fill=False,
                    edgecolor=colours[k],
                    linewidth=1.6,
                )
            )
        axes.set_title("start" if turns == 0 else f"after {turns} turn{'s' * (turns > 1)}", fontsize=9)


def paint_casino(figure: Figure) -> None:
    """Draw the rolls, the true state, and its posterior."""
    rolls, loaded = casino()
    model = HiddenMarkovModel(2, restarts=4).fit(rolls)
    sixes = model.parameters_["probabilities.symbol"][:, -1]
    posterior = model.posterior(rolls)[0][:, sixes.argmax()]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2])
    faces = np.array(rolls[0], int)
    steps = np.arange(len(faces))
    upper.scatter(steps, faces, s=5, c=np.where(faces == 6, RED, GREY), linewidths=0)
    upper.set_ylabel("roll")
    lower.fill_between(
        steps, loaded[0], step="mid", color=GREY, alpha=0.35, linewidth=0, label="loaded, in truth"
    )
    lower.plot(steps, posterior, color=BLUE, linewidth=1.3, label="posterior of the loaded die")
    lower.set(xlabel="step", ylabel="probability", xlim=(0, len(faces)), ylim=(0, 1.25))
    lower.legend(loc="upper right", ncols=2)


def paint_missing(figure: Figure) -> None:
    """Draw what was lost, the mean by complete rows, by the mean filled in, and by the model."""
    complete, holed = lost_values()
    model = GaussianMixture(1).fit(holed)
    lost = np.isnan(holed[:, 1])
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    mean = np.nanmean(holed[:, 1])
    left.scatter(*complete[lost].T, s=9, facecolors="none", edgecolors=GREY, linewidths=0.6, label="lost")
    left.scatter(*complete[~lost].T, s=9, color=BLUE, linewidths=0, label="there")
    left.axhline(0, color=GREY, linewidth=0.8)
    left.axhline(mean, color=RED, linewidth=1.3)
    left.text(1.2, mean - 0.35, "mean of what is there", color=RED, fontsize=8)
    left.legend(loc="upper left")
    drawn = model.sample_missing(holed, 1)[0]
    right.scatter(*drawn[lost].T, s=9, color="#c9802b", alpha=0.7, linewidths=0, label="drawn")
    right.scatter(*model.impute(holed)[lost].T, s=5, color="#1c232b", linewidths=0, label="expected")
    right.scatter(*holed[~lost].T, s=9, color=BLUE, linewidths=0)
    right.axhline(0, color=GREY, linewidth=0.8)
    right.axhline(model.means_[0, 1], color=RED, linewidth=1.3)
    right.text(1.9, model.means_[0, 1] - 0.45, "mean, learned", color=RED, fontsize=8)
    right.legend(loc="upper left")
    for axes in (left, right):
        axes.set(xlabel="first", ylabel="second")


def paint_topics(figure: Figure) -> None:
    """Draw the words of the most frequent topics of newswire articles, and the shares of topics in some articles."""
    folder = Path(os.environ.get("HIDDENFIELD_DATA", "../shared/data")) / "incomplete"
    documents = as_documents(folder / "lda_reuters.ldac.txt.xz")
    model = LatentDirichletAllocation(12, fill="gibbs", max_iterations=400).fit(documents)
    shares = model.transform(documents)
    order = np.argsort(-documents.lengths @ shares, kind="stable")[:6].tolist()
    upper, lower = figure.subfigures(2, 1, height_ratios=[3, 2])
    for k, axes in zip(order, upper.subplots(1, 6), strict=True):
        words = np.argsort(-model.topics_[k], kind="stable")[:8]
        axes.barh(range(8), model.topics_[k, words], height=0.75, color=colour_of(order.index(k)))
        axes.set_yticks(range(8), model.feature_names_in_[words], fontsize=7.5)
        axes.set_xticks([])
        axes.set_ylim(7.6, -0.6)
    axes = lower.subplots()
    chosen = [int(np.argmax(shares[:, k])) for k in order[:3]]
    chosen += np.argsort(-np.sort(shares[:, order], axis=1)[:, -2], kind="stable")[:2].tolist()
    begin = np.zeros(len(chosen))
    for number, k in enumerate(order):
        axes.barh(range(len(chosen)), shares[chosen, k], left=begin, height=0.7, color=colour_of(number))
        begin += shares[chosen, k]
    axes.barh(range(len(chosen)), 1 - begin, left=begin, height=0.7, color="#dddddd")
    titles = [shortened(str(documents.ids[d]).split(" ", 1)[1], 60) for d in chosen]
    axes.set_yticks(range(len(chosen)), titles, fontsize=7.5)
    axes.set(xlim=(0, 1), xlabel="share of topics (grey: other topics)")
    axes.invert_yaxis()
    axes.grid(False)


def paint_machine(figure: Figure) -> None:
    """Draw digits with their lower halves lost and filled by a machine, digits that it draws, and what it looks for."""
    from sklearn.datasets import load_digits

    pixels = (load_digits().data >= 8).astype(float)
    names = [f"pixel {j}" for j in range(64)]
    model = RestrictedBoltzmannMachine(100, epochs=300, kinds="binary")
    model.fit(dict(zip(names, pixels[:1500].T.astype(int).tolist(), strict=True)))
    data, generator = model.model_, np.random.default_rng(3)
    holed = pixels[1500:1512].copy()
    holed[:, 32:] = np.nan
    filled = [data.sample_missing(Rows(holed), model.parameters_, generator) for _ in range(40)]
    drawn, _ = data.sample(24, model.parameters_, generator)
    weights = model.parameters_["weights"]
    strongest = weights[np.argsort(-np.square(weights).sum(axis=1), kind="stable")[:24]]
    for k, (title, images) in enumerate(
        (
            ("lower halves filled in; below each the truth", np.mean(filled, axis=0)),
            ("draws", drawn),
            ("weights of hidden variables", strongest),
        )
    ):
        axes = figure.add_subplot(1, 3, k + 1)
        rows = 4 if k == 0 else 6
        if k == 0:  # what there was below what was expected
            images = np.concatenate([images[:6], pixels[1500:1506], images[6:], pixels[1506:1512]])
        own = np.pad(images.reshape(rows, -1, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
        whole = own.transpose(0, 2, 1, 3).reshape(rows * 10, -1)
        top = np.nanmax(np.abs(whole))
        axes.imshow(whole, cmap="RdBu_r" if k == 2 else "Greys", vmin=-top if k == 2 else 0, vmax=top)
        axes.set_title(title, fontsize=8)
        axes.set_axis_off()


def paint_autoencoder(figure: Figure) -> None:
    """Draw penguins on the map of an autoencoder, and measured and drawn ones beside each other."""
    from hiddenfield.data import as_table

    folder = Path(os.environ.get("HIDDENFIELD_DATA", "../shared/data")) / "incomplete"
    table = as_table(folder / "penguins.csv.xz")
    rest = table.select([name for name in table.names if name != "species"])
    model = VariationalAutoencoder(2, max_iterations=300).fit(rest)
    where, species = model.transform(rest), table.decoded(table.names.index("species"))
    left, middle, right = figure.subplots(1, 3)
    for number, name in enumerate(sorted(set(species))):
        own = np.array([each == name for each in species])
        left.scatter(*where[own].T, s=7, color=colour_of(number), linewidths=0, label=name)
    left.set(xlabel="first latent number", ylabel="second", title="the map (species not learned from)")
    left.legend(fontsize=7)
    names = ["bill_length_mm", "bill_depth_mm"]
    drawn, _ = model.sample(len(rest), random_state=0)
    cells = drawn if isinstance(drawn, dict) else drawn.to_dict()
    measured = rest.select(names).values
    middle.scatter(*measured.T, s=7, color=BLUE, linewidths=0)
    right.scatter(cells[names[0]], cells[names[1]], s=7, color="#c9802b", linewidths=0)
    for axes, title in ((middle, "measured"), (right, "drawn")):
        axes.set(
            xlabel="bill length, mm", ylabel="bill depth, mm", title=title, xlim=(31, 61), ylim=(12.5, 22.5)
        )


def main() -> None:
    """Draw all of them."""
    for name, paint, width, height in (
        ("incomplete-mixture", paint_mixture, 9.0, 2.7),
        ("incomplete-casino", paint_casino, 9.0, 3.2),
        ("incomplete-missing", paint_missing, 8.0, 3.6),
        ("topics", paint_topics, 9.5, 4.4),
        ("boltzmann", paint_machine, 9.5, 3.4),
        ("autoencoder", paint_autoencoder, 9.5, 3.2),
    ):
        save_figure(PICTURES / f"{name}.png", paint, width=width, height=height)


if __name__ == "__main__":
    main()
