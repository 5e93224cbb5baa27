"""Sequences as coloured text."""

from __future__ import annotations

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.report.drawings.colours import as_hex, share_colours
from hiddenfield.report.page import escape
from hiddenfield.shapes import Array, Float

__all__ = ["draw_sequence", "is_chain"]

MOST_SYMBOLS = 600


def is_chain(structure: Structures) -> bool:
    """Say whether a structure is a sequence: each node joined to the next, and to nothing else.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> (
    ...     is_chain(hf.data.from_sequences(["CAT"])),
    ...     is_chain(hf.Structures.from_edges([0, 0], [1, 2], node_ptr=[0, 3])),
    ... )
    (True, False)
    """
    source, target = structure.source.cpu().numpy(), structure.target.cpu().numpy()
    forward = np.unique(np.minimum(source, target))
    return bool(np.all(np.abs(source - target) == 1)) and len(forward) == max(structure.total_nodes - 1, 0)


def draw_sequence(structure: Structures, shares: Float[Array, " nodes"] | None) -> str | None:
    """Return the symbols as HTML, each on the colour of its share; None if the structure is no sequence of labels."""
    if structure.node_labels is None or structure.total_nodes == 0 or not is_chain(structure):
        return None
    codes = structure.node_labels[:MOST_SYMBOLS, 0].cpu().numpy()
    symbols = [str(symbol) for symbol in structure.node_vocabularies[0].decode(codes)]
    gap = " " if any(len(symbol) > 1 for symbol in symbols) else ""
    if shares is None:
        text = escape(gap.join(symbols))
    else:
        colours = [as_hex(colour) for colour in share_colours(shares)]
        text = gap.join(
            f'<span style="background:{colour}">{escape(symbol)}</span>'
            for symbol, colour in zip(symbols, colours, strict=False)
        )
    more = structure.total_nodes - len(symbols)
    return f'<div class="sequence">{text}{f" … and {more:,} more" if more else ""}</div>'
