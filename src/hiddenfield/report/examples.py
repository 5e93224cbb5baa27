"""Single structures: those predicted best and worst, drawn with the contributions of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.convert.sequences import first_other
from hiddenfield.data.structures import Structures
from hiddenfield.report.drawing import clean_svg, draw
from hiddenfield.report.page import escape, shortened
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hiddenfield.report.results import Results

Colours = Float[Array, "nodes channels"] | None
"""Red, green and blue of every node, between 0 and 1, or None."""

EACH = 4
# Where the colour is deepest, dark text on it must still be readable.
RED, BLUE = np.array([0.93, 0.36, 0.30]), np.array([0.30, 0.56, 0.90])
# Beyond this a layout takes long and shows nothing.
MOST_NODES = 400
# Kamada and Kawai's layout is the better and the slower one.
SMALL = 60
MOST_SYMBOLS = 600
# Of a molecule, in pixels.
WIDTH, HEIGHT = 250, 185
COLUMN = "smiles"
KEY = (
    'Colours show how each node moves the prediction: <span class="key" style="background:#ed5c4d"></span> up, '
    '<span class="key" style="background:#4d8fe6"></span> down, the deepest colour for the largest share of the '
    "structure."
)


def best_and_worst(results: Results, each: int = EACH) -> tuple[Int[Array, " best"], Int[Array, " worst"]]:
    """Return the positions of the smallest and of the largest errors, no position in both.

    The error of a number is the absolute difference, that of a class one minus the probability of the true one. Ties go
    to the structure that comes first.
    """
    truth, predicted = results.shown.truth, results.shown.predicted
    if predicted.ndim == 1:
        errors = np.abs(predicted - truth)
    else:
        errors = 1.0 - predicted[np.arange(len(truth)), truth.astype(np.int64)]
    order = np.argsort(errors, kind="stable")
    best = order[: min(each, (len(order) + 1) // 2)]
    rest = order[len(best) :]
    return best, rest[::-1][:each]


def examples(results: Results) -> str:
    """Draw the best and the worst predictions, with each node's share of the prediction where it is known."""
    text = "" if results.shares is None else f"<p>{KEY} {escape(results.base)}</p>"
    for name, chosen in zip(("Smallest", "Largest"), best_and_worst(results), strict=True):
        shares = [None] * len(chosen) if results.shares is None else results.shares(chosen)
        cards = [
            _card(results, int(position), own, f"{name.lower()}-{number}")
            for number, (position, own) in enumerate(zip(chosen, shares, strict=True))
        ]
        text += f'<h3>{name} errors</h3><div class="cards">{"".join(cards)}</div>' if cards else ""
    return text


def _card(results: Results, position: int, shares: Float[Array, " nodes"] | None, name: str) -> str:
    structure = results.structures[position]
    ids = results.structures.ids
    label = f"structure {position}" if ids is None else str(ids[position])
    smiles = structure.columns.get(COLUMN)
    line = "" if smiles is None else f"<code>{escape(shortened(str(smiles[0]), 160))}</code>"
    picture = picture_of(structure, None if shares is None else share_colours(shares), name)
    return (
        f'<div class="card">{picture}<b>{escape(shortened(label, 80))}</b>'
        f'<div class="values">{_values(results, position)}</div>{line}</div>'
    )


def _values(results: Results, position: int) -> str:
    shown = results.shown
    truth, predicted = shown.truth[position], shown.predicted[position]
    if shown.classes is None:
        return f"true {truth:.4g}, predicted {predicted:.4g}<br>error {predicted - truth:+.4g}"
    code, own = int(predicted.argmax()), int(truth)
    names = [escape(shortened(shown.classes[k], 40)) for k in (own, code)]
    return f"true {names[0]} ({predicted[own]:.1%})<br>predicted {names[1]} ({predicted[code]:.1%})"


# -- drawings ----------------------------------------------------------------------------------------------


def share_colours(shares: Float[Array, " nodes"]) -> Float[Array, "nodes channels"]:
    """Return red, green and blue between 0 and 1 for every share; the largest of the structure is deepest.

    Examples
    --------
    >>> share_colours(np.array([0.0, 2.0, -1.0])).round(2).tolist()
    [[1.0, 1.0, 1.0], [0.93, 0.36, 0.3], [0.65, 0.78, 0.95]]
    """
    finite = np.nan_to_num(shares)
    top = np.abs(finite).max(initial=0.0)
    depth = (np.abs(finite) / top if top > 0 else np.zeros_like(finite))[:, None]
    return 1.0 - depth * (1.0 - np.where(finite[:, None] >= 0, RED, BLUE))


def picture_of(structure: Structures, colours: Colours, name: str) -> str:
    """Draw a structure as what it is: a molecule, a sequence or a graph, its nodes in their colours."""
    return (
        draw_molecule(structure, colours, name)
        or draw_sequence(structure, colours)
        or draw_graph(structure, colours, name)
        or f"<p>{structure.total_nodes:,} nodes: not drawn</p>"
    )


def draw_molecule(structure: Structures, colours: Colours, name: str) -> str | None:
    """Return the molecule as SVG, or None where it cannot be drawn.

    It can if RDKit is installed, there is a column ``smiles``, RDKit reads the text, and its atoms are as many as the
    nodes and, where the nodes have elements, of the same elements in the same order.
    """
    molecule = _molecule(structure)
    if molecule is None:
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options: Any = canvas.drawOptions()
    options.clearBackground = False
    options.padding = 0.04
    options.bondLineWidth = 1.4
    highlight: dict[str, Any] = {}
    if colours is not None and len(colours):
        options.useBWAtomPalette()
        options.continuousHighlight = False
        options.atomHighlightsAreCircles = True
        of_atoms = {atom: tuple(float(c) for c in colour) for atom, colour in enumerate(colours)}
        highlight = {
            "highlightAtoms": list(of_atoms),
            "highlightBonds": [],
            "highlightAtomColors": of_atoms,
            "highlightAtomRadii": dict.fromkeys(of_atoms, 0.42),
        }
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, molecule, **highlight)
    canvas.FinishDrawing()
    return clean_svg(canvas.GetDrawingText(), name, "molecule")


def _molecule(structure: Structures) -> Any:
    if COLUMN not in structure.columns:
        return None
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        return None
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(str(structure.columns[COLUMN][0]))
    if molecule is None or molecule.GetNumAtoms() != structure.total_nodes or not structure.total_nodes:
        return None
    words = [vocabulary.name for vocabulary in structure.node_vocabularies]
    if "element" in words and structure.node_labels is not None:
        column = words.index("element")
        elements = structure.node_vocabularies[column].decode(structure.node_labels[:, column].cpu().numpy())
        if [str(element) for element in elements] != [atom.GetSymbol() for atom in molecule.GetAtoms()]:
            return None
    return molecule


def draw_sequence(structure: Structures, colours: Colours) -> str | None:
    """Return the symbols as HTML, each on its colour; None if the structure is no sequence of labels."""
    if structure.node_labels is None or structure.total_nodes == 0 or first_other(structure) is not None:
        return None
    codes = structure.node_labels[:MOST_SYMBOLS, 0].cpu().numpy()
    symbols = [str(symbol) for symbol in structure.node_vocabularies[0].decode(codes)]
    gap = " " if any(len(symbol) > 1 for symbol in symbols) else ""
    if colours is None:
        text = escape(gap.join(symbols))
    else:
        from matplotlib.colors import to_hex

        text = gap.join(
            f'<span style="background:{to_hex(colour)}">{escape(symbol)}</span>'
            for symbol, colour in zip(symbols, colours, strict=False)
        )
    more = structure.total_nodes - len(symbols)
    return f'<div class="sequence">{text}{f" … and {more:,} more" if more else ""}</div>'


def draw_graph(structure: Structures, colours: Colours, name: str) -> str | None:
    """Return the structure as SVG, its nodes with their first label; None if it is too large or empty."""
    if not 0 < structure.total_nodes <= MOST_NODES:
        return None
    places = layout(structure)
    shown: Any = "#e9edf1" if colours is None else colours
    ends = np.stack([structure.source.cpu().numpy(), structure.target.cpu().numpy()], axis=1)
    size = float(np.clip(2600 / structure.total_nodes, 12, 150))

    def paint(figure: Figure) -> None:
        from matplotlib.collections import LineCollection

        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.add_collection(LineCollection(list(places[ends]), colors="#9aa4ae", linewidths=1.0, zorder=1))
        x, y = places.T
        axes.scatter(x, y, s=size, c=shown, edgecolors="#6b7782", linewidths=0.6, zorder=2)
        if structure.node_labels is not None and structure.total_nodes <= SMALL:
            codes = structure.node_labels[:, 0].cpu().numpy()
            for place, symbol in zip(places, structure.node_vocabularies[0].decode(codes), strict=True):
                axes.annotate(str(symbol)[:3], place, ha="center", va="center", fontsize=6.5, zorder=3)
        axes.margins(0.12)

    return draw(name, paint, width=3.0, height=2.2, title="graph")


def layout(structure: Structures) -> Float[Array, "nodes axes"]:
    """Return a place in the plane for every node; the same structure always has the same."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(structure.total_nodes))
    graph.add_edges_from(zip(structure.source.tolist(), structure.target.tolist(), strict=True))
    if structure.total_nodes <= SMALL and structure.total_nodes > 1 and networkx.is_connected(graph):
        places = networkx.kamada_kawai_layout(graph)
    else:
        places = networkx.spring_layout(graph, seed=0)
    return np.array([places[node] for node in range(structure.total_nodes)], dtype=np.float64).reshape(-1, 2)
