"""Single structures: those that the model predicts best and worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.report.drawings.graph import draw_graph
from hiddenfield.report.drawings.molecule import draw_molecule
from hiddenfield.report.drawings.sequence import draw_sequence
from hiddenfield.report.page import escape
from hiddenfield.report.results import Results
from hiddenfield.shapes import Array, Float, Int

__all__ = ["best_and_worst", "examples"]

EACH = 4


def best_and_worst(results: Results, each: int = EACH) -> tuple[Int[Array, " best"], Int[Array, " worst"]]:
    """Return the positions of the smallest and of the largest errors, no position in both.

    The error of a number is the absolute difference, that of a class one minus the probability of the true one. Ties go
    to the structure that comes first.
    """
    if results.predicted.ndim == 1:
        errors = np.abs(results.predicted - results.truth)
    else:
        errors = 1.0 - results.predicted[np.arange(len(results.truth)), results.truth.astype(np.int64)]
    order = np.argsort(errors, kind="stable")
    best = order[: min(each, (len(order) + 1) // 2)]
    rest = order[len(best) :]
    return best, rest[::-1][:each]


def examples(results: Results) -> str:
    """Draw the best and the worst predictions, with each node's share of the prediction where it is known."""
    best, worst = best_and_worst(results)
    parts = [_key(results)] if results.shares is not None else []
    for heading, chosen in (("Smallest errors", best), ("Largest errors", worst)):
        if len(chosen):
            cards = _cards(results, chosen, heading.split()[0].lower())
            parts.append(f'<h3>{heading}</h3><div class="cards">{"".join(cards)}</div>')
    return "".join(parts)


def _key(results: Results) -> str:
    return (
        '<p>Colours show how each node moves the prediction: <span class="key" style="background:#ed5c4d"></span> up, '
        '<span class="key" style="background:#4d8fe6"></span> down, the deepest colour for the largest share of the '
        f"structure. {escape(results.base)}</p>"
    )


def _cards(results: Results, chosen: Int[Array, " chosen"], name: str) -> Sequence[str]:
    shares = [None] * len(chosen) if results.shares is None else results.shares(chosen)
    return [
        _card(results, int(position), own, f"{name}-{number}")
        for number, (position, own) in enumerate(zip(chosen, shares, strict=True))
    ]


def _card(results: Results, position: int, shares: Float[Array, " nodes"] | None, name: str) -> str:
    structure = results.structures[position]
    ids = results.structures.ids
    label = f"structure {position}" if ids is None else str(ids[position])
    smiles = structure.columns.get("smiles")
    line = "" if smiles is None else f"<code>{escape(_shortened(str(smiles[0]), 160))}</code>"
    return (
        f'<div class="card">{_picture(structure, shares, name)}<b>{escape(_shortened(label, 80))}</b>'
        f'<div class="values">{_values(results, position)}</div>{line}</div>'
    )


def _picture(structure: Structures, shares: Float[Array, " nodes"] | None, name: str) -> str:
    return (
        draw_molecule(structure, shares, name)
        or draw_sequence(structure, shares)
        or draw_graph(structure, shares, name)
        or f"<p>{structure.total_nodes:,} nodes: not drawn</p>"
    )


def _values(results: Results, position: int) -> str:
    truth, predicted = results.truth[position], results.predicted[position]
    if results.classes is None:
        return f"true {truth:.4g}, predicted {predicted:.4g}<br>error {predicted - truth:+.4g}"
    code, own = int(predicted.argmax()), int(truth)
    names = [escape(_shortened(results.classes[k], 40)) for k in (own, code)]
    return f"true {names[0]} ({predicted[own]:.1%})<br>predicted {names[1]} ({predicted[code]:.1%})"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
