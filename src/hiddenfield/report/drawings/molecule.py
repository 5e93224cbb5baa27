"""Molecules, drawn by RDKit from their SMILES."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.report.drawing import clean_svg
from hiddenfield.report.drawings.colours import share_colours
from hiddenfield.shapes import Array, Float

__all__ = ["draw_molecule"]

WIDTH, HEIGHT = 250, 185
COLUMN = "smiles"


def draw_molecule(structure: Structures, shares: Float[Array, " nodes"] | None, name: str) -> str | None:
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
    if shares is not None and len(shares):
        options.useBWAtomPalette()
        options.continuousHighlight = False
        options.atomHighlightsAreCircles = True
        colours = {atom: tuple(float(c) for c in colour) for atom, colour in enumerate(share_colours(shares))}
        highlight = {
            "highlightAtoms": list(colours),
            "highlightBonds": [],
            "highlightAtomColors": colours,
            "highlightAtomRadii": dict.fromkeys(colours, 0.42),
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
        codes = structure.node_labels[:, column].cpu().numpy()
        elements = np.array(structure.node_vocabularies[column].decode(codes), dtype=object)
        if [str(element) for element in elements] != [atom.GetSymbol() for atom in molecule.GetAtoms()]:
            return None
    return molecule
