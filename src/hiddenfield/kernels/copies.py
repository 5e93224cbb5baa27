"""Structures that refinement cannot tell apart: copies of each other, up to the order of their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.kernels.refinement import _arc_numbers, _counts, _neighbourhoods, columns_in, look_up
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["copy_classes"]

# Colours travel one arc per round. What differs only farther from every node than this is taken for a copy.
MOST_ROUNDS = 64


def copy_classes(structures: Structures) -> Int[Array, " structures"]:
    """Give structures equal numbers where refinement finds the same colours in them, equally often.

    Colours are refined as in `weisfeiler_lehman` until they no longer split, at most 64 times; labels and continuous
    attributes both count, targets and ids do not. Isomorphic structures have equal numbers, always. The converse holds
    for trees, sequences and almost every graph; regular graphs of one degree are the known exception.

    Returns
    -------
    (structures,)
        From 0, by first appearance.

    Notes
    -----
    After every round only the structures that still have an equal are refined further, so that a set without copies
    costs a few rounds whatever its size.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> copy_classes(hf.data.from_sequences(["GAT", "TAG", "GAT", "CAT"])).tolist()
    [0, 0, 0, 1]
    """
    structures = _attributes_as_labels(structures)
    numbers = np.zeros(len(structures), dtype=np.int64)
    left = np.arange(len(structures))
    pack = structures
    colours, _ = look_up(Rows.of_table(columns_in(pack, "node", None)[0]), None)
    distinct = -1
    for _ in range(MOST_ROUNDS):
        found = _equal_counts(colours, pack)
        numbers[left] = numbers.max(initial=0) + 1 + found
        again = np.bincount(found)[found] > 1
        if not again.any():
            break
        if not again.all():
            kept = np.flatnonzero(again)
            colours = colours[again[pack.structure_of_node.cpu().numpy()]]
            left, pack, distinct = left[kept], pack[kept], -1
        arcs, _, arc_rows = _arc_numbers(pack, True, None)
        colours, table = look_up(_neighbourhoods(colours, arcs, len(arc_rows), pack), None)
        if len(table) == distinct:
            break
        distinct = len(table)
    return number_rows(Rows.of_table(numbers[:, None]))[0]


def _equal_counts(colours: Int[Array, " nodes"], pack: Structures) -> Int[Array, " structures"]:
    """Return one number per structure, the same where the counts of colours are."""
    counts = _counts(colours[None].copy(), pack, (0, int(colours.max(initial=-1)) + 1))
    # A row of (colour, count) pairs, end to end.
    values = np.stack([counts.indices.astype(np.int64), counts.data.astype(np.int64)], axis=1).reshape(-1)
    return number_rows(Rows(2 * counts.indptr.astype(np.int64), values))[0]


def _attributes_as_labels(structures: Structures) -> Structures:
    """Return the structures with every distinct row of attributes as one more label."""
    changes: dict[str, Any] = {}
    for kind in ("node", "arc"):
        attributes: Float[Tensor, "rows dim"] | None = getattr(structures, f"{kind}_attributes")
        if attributes is None or not len(attributes):
            continue
        _, codes = np.unique(attributes.cpu().numpy(), axis=0, return_inverse=True)
        labels: Tensor | None = getattr(structures, f"{kind}_labels")
        column = torch.from_numpy(codes.reshape(-1, 1)).to(attributes.device)
        joined = column if labels is None else torch.cat([labels.to(column.dtype), column], dim=1)
        words = Vocabulary("attributes", tuple(range(int(codes.max()) + 1)))
        changes[f"{kind}_labels"] = joined
        changes[f"{kind}_vocabularies"] = (*getattr(structures, f"{kind}_vocabularies"), words)
    return structures.replace(**changes)
