"""The substructures by which a kernel predicts most, drawn where they occur."""

from __future__ import annotations

import numpy as np

from hiddenfield.estimators.kernel_machines import KernelPredictor
from hiddenfield.kernels.base import FeatureKernel
from hiddenfield.report.examples import picture_of, share_colours
from hiddenfield.report.page import Section, escape, shortened

DRAWN, SMALLEST = 8, 3
"""Substructures on the page, and the fewest training structures that one must occur in."""
TEXT = (
    "Each column of the features of {kernel} stands for a substructure; drawn are those with the largest weights of "
    "all that occur in at least {least} training structures, coloured at one place of one structure: red where they "
    "speak for {positive}, blue against it. They are correlated, so that a weight is no effect of its own."
)


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
    for number, column in enumerate(np.argsort(-strength, kind="stable")[:DRAWN]):
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
