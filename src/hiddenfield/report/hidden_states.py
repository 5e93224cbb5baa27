"""What a contextual graph Markov model has to show: its states by class, its accuracy by depth, and states of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.cgmm_predictors import CGMMPredictor
from hiddenfield.evaluation.measuring import NAMES, measure
from hiddenfield.models.cgmm.fingerprints import fingerprints
from hiddenfield.report.drawing import BLUE, plot
from hiddenfield.report.examples import picture_of
from hiddenfield.report.page import Section, escape, figures, shortened
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LAYERS, MOST_CLASSES, DRAWN = 6, 20, 4


def state_sections(model: CGMMPredictor, train: Structures, test: Structures) -> list[Section]:
    """Return the sections of a report: frequencies of states, the metric by depth, and states of nodes.

    Parameters
    ----------
    model
        Fitted to one target or several, of which the structures have the first.
    train, test
        Structures with that target; heads for fewer layers are fitted to the one and measured on the other.
    """
    sections = [("Hidden states", figures([_frequencies(model, test)]) + _drawn(model, test))]
    if len(model.task_.columns) == 1 and len(model.stack_.layers) > 1:
        sections.insert(0, ("Depth", figures([_by_depth(model, train, test)])))
    return sections


def _by_depth(model: CGMMPredictor, train: Structures, test: Structures) -> str:
    assert test.targets is not None
    truth = test.targets[:, 0].cpu().numpy()
    known = [measure(truth, _wide(one._predictions(test)[0][0], truth)) for one in model.by_depth(train)]
    name = next(iter(known[0]))
    values = [metrics[name] for metrics in known]

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        axes.plot(range(1, len(values) + 1), values, color=BLUE, marker="o", markersize=4)
        axes.set(xlabel="layers", ylabel=NAMES[name])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    caption = "Test structures: the head fitted to the fingerprints of so many layers. Do not choose the depth by this."
    title = f"{NAMES[name]} by number of layers"
    return plot("depth", caption, paint, width=4.6, height=3.2, title=title)


def _wide(predicted: Array, truth: Float[Array, " structures"]) -> Array:
    """Return probabilities with a column for classes that the model has not seen."""
    if predicted.ndim == 1:
        return predicted
    missing = max(int(truth.max(initial=0)) + 1 - predicted.shape[1], 0)
    return np.pad(predicted, ((0, 0), (0, missing)))


def average_fingerprints(
    model: CGMMPredictor, structures: Structures, group: Int[Array, " structures"]
) -> Float[Array, "layers groups states"]:
    """Return the share of the nodes of each group of structures that is in each state, by layer."""
    coded = model.features_.encode(structures)
    found = []
    for states in model.stack_.infer(coded, model._values(coded))[0]:
        counts = fingerprints(coded, [states], model.num_states, "unigram").toarray()
        sums = np.stack([counts[group == one].sum(axis=0) for one in range(group.max() + 1)])
        found.append(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1))
    return np.stack(found)


def _frequencies(model: CGMMPredictor, test: Structures) -> str:
    """Draw the states' frequencies in every class, or in quarters of a number, layer by layer."""
    assert test.targets is not None
    values, (words,) = test.targets[:, 0].cpu().numpy(), test.target_vocabularies
    if words is None:
        edges = np.quantile(values, [0.25, 0.5, 0.75])
        group, names = (
            np.searchsorted(edges, values),
            ["lowest quarter", "second", "third", "highest quarter"],
        )
    else:
        group, names = values.astype(np.int64), [shortened(str(symbol), 24) for symbol in words.symbols]
    tables = average_fingerprints(model, test, group)[:MOST_LAYERS, :MOST_CLASSES]
    # States have no order: those that a layer has most of come first.
    tables = np.stack([table[:, np.argsort(-table.sum(axis=0), kind="stable")] for table in tables])

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        panels = np.atleast_1d(figure.subplots(len(tables), 1, sharex=True))
        for number, (axes, table) in enumerate(zip(panels, tables, strict=True), start=1):
            image = axes.imshow(table, aspect="auto", cmap="magma", vmin=0, vmax=tables.max())
            axes.set_yticks(range(len(table)), names[: len(table)])
            axes.set_title(f"layer {number}", loc="left", fontsize=9)
            axes.grid(visible=False)
        axes.set_xlabel("state, by its frequency in the layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.colorbar(image, ax=panels, label="share of the nodes")

    height = 0.9 + len(tables) * (0.35 + 0.2 * tables.shape[1])
    caption = "Average fingerprints: how many of the nodes of each class are in which state."
    title = "average fingerprint of each class by layer"
    return plot("states", caption, paint, width=6.4, height=height, title=title)


def _drawn(model: CGMMPredictor, test: Structures) -> str:
    """Draw a few structures with a colour for the state of every node in the last layer."""
    from matplotlib import colormaps

    chosen = np.unique(np.linspace(0, len(test) - 1, DRAWN).astype(int))
    some = test[chosen]
    states = [each.argmax(axis=1) for each in model.posterior(some.replace(targets=None))]
    # The commonest states get the colours that are easiest to tell apart.
    order = np.argsort(-np.bincount(np.concatenate(states), minlength=model.num_states), kind="stable")
    palette = colormaps["tab20"](np.r_[0:20:2, 1:20:2])[:, :3]
    colour = np.empty((model.num_states, 3))
    colour[order] = 0.45 + 0.55 * palette[np.arange(model.num_states) % len(palette)]
    cards = ""
    for place, own in enumerate(states):
        picture = picture_of(some[[place]], colour[own], f"nodes-{place}")
        cards += f'<div class="card">{picture}<b>{escape(shortened(some.name_of(place), 80))}</b></div>'
    text = "Nodes by their most likely state in the last layer; equal colours are equal states"
    more = (
        f", except that of {model.num_states} states some share a colour"
        if model.num_states > len(palette)
        else ""
    )
    return f'<h3>States of nodes</h3><p>{text}{more}.</p><div class="cards">{cards}</div>'
