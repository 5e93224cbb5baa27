"""What some models alone have to show: CGMM its states and its accuracy by depth, a kernel its substructures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.cgmm_predictors import CGMMPredictor
from hiddenfield.estimators.kernel_machines import KernelPredictor
from hiddenfield.evaluation.measuring import NAMES, measure
from hiddenfield.kernels.base import FeatureKernel
from hiddenfield.models.cgmm.fingerprints import fingerprints
from hiddenfield.report.drawing import BLUE, plot
from hiddenfield.report.examples import picture_of, share_colours
from hiddenfield.report.page import Section, escape, figures, shortened
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LAYERS, MOST_CLASSES, DRAWN = 6, 20, 4
MOST_SUBSTRUCTURES, SMALLEST = 8, 3
"""Substructures on the page, and the fewest training structures that one must occur in."""
TEXT = (
    "Each column of the features of {kernel} stands for a substructure; drawn are those with the largest weights of "
    "all that occur in at least {least} training structures, coloured at one place of one structure: red where they "
    "speak for {positive}, blue against it. They are correlated, so that a weight is no effect of its own."
)


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


# -- kernels ---------------------------------------------------------------------------------------------


def substructure_section(model: KernelPredictor) -> list[Section]:
    """Return the section of a report: the substructures with the largest weights, of the first target."""
    kernel, structures = model.kernel_, model.structures_
    weights = model.substructure_weights()
    if weights is None or not isinstance(kernel, FeatureKernel):
        return []
    counts = kernel.transform(structures).tocsc() if model.counts_ is None else model.counts_.tocsc()
    often = np.diff(counts.indptr)
    strength = np.where(often >= min(SMALLEST, len(structures)), np.abs(weights).max(axis=1), 0.0)
    sizes, cards = np.diff(structures.node_ptr.cpu().numpy()), ""
    classes = model.task_.columns[0].classes
    for number, column in enumerate(np.argsort(-strength, kind="stable")[:MOST_SUBSTRUCTURES]):
        output = int(np.abs(weights[column]).argmax())
        weight = float(weights[column, output])
        holders = counts.indices[counts.indptr[column] : counts.indptr[column + 1]]
        if not strength[column] or not len(holders):
            break
        chosen = int(holders[np.argmin(sizes[holders])])
        own = kernel.occurrence(structures[[chosen]], int(column))
        shares = np.zeros(sizes[chosen])
        shares[own if own is not None else slice(0, 0)] = np.sign(weight)
        named = (
            "" if classes is None or weights.shape[1] == 1 else f" for {shortened(str(classes[output]), 30)}"
        )
        text = f"{weight:+.3g}{named}, in {often[column]:,} of {len(structures):,} structures"
        picture = picture_of(structures[[chosen]], share_colours(shares), f"substructure-{number}")
        cards += f'<div class="card">{picture}<div class="values">{escape(text)}</div></div>'
    if not cards:
        return []
    positive = "a larger value" if classes is None else "its class"
    if classes is not None and weights.shape[1] == 1:
        positive = shortened(str(classes[1]), 40)
    text = TEXT.format(kernel=model.kernel, least=min(SMALLEST, len(structures)), positive=positive)
    return [("Substructures", f'<p>{escape(text)}</p><div class="cards">{cards}</div>')]
