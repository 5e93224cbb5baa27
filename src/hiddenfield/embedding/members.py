"""Members: which rows of a batch belong to which of several networks that work side by side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from hiddenfield.data.structures import Structures
from hiddenfield.ops import RowBlocks, block_product
from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["ALONE", "Members", "product"]


@dataclass(frozen=True, eq=False)
class Members:
    """The rows of each of several networks in a batch that they share, one network's after the other's.

    Every weight of such networks has one more axis, the first, over the networks; see `NetworkStack`.

    Parameters
    ----------
    structures, nodes, arcs
        Blocks of structures, nodes and arcs; None where there is but one network.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "A"])
    >>> Members.of(words, torch.tensor([0, 1, 3])).nodes.bounds
    [0, 7, 11]
    """

    structures: RowBlocks | None = None
    nodes: RowBlocks | None = None
    arcs: RowBlocks | None = None

    @classmethod
    def of(cls, structures: Structures, ptr: Int[Tensor, " networks+1"]) -> Members:
        """Find the rows of networks whose structures are given as bounds."""
        ptr = ptr.to(structures.device, non_blocking=True)
        nodes = structures.node_ptr.index_select(0, ptr)
        arcs = structures.in_ptr.index_select(0, nodes)
        return cls(
            RowBlocks(ptr, len(structures)),
            RowBlocks(nodes, structures.total_nodes),
            RowBlocks(arcs, structures.total_arcs),
        )

    def rows(self, ptr: Int[Tensor, " structures+1"], total: int) -> RowBlocks | None:
        """Return the blocks of other rows, whose bounds in every structure are given."""
        if self.structures is None:
            return None
        return RowBlocks(ptr.index_select(0, self.structures.ptr), total)


ALONE = Members()


def product(
    rows: Float[Tensor, "rows inputs"],
    weight: Float[Tensor, "*networks outputs inputs"],
    blocks: RowBlocks | None,
    constant: Tensor | None = None,
) -> Float[Tensor, "rows outputs"]:
    """Return every row times the matrix, or times the matrix of its block, with a constant added if there is one.

    Examples
    --------
    >>> product(torch.ones(1, 2), torch.ones(1, 2), None, torch.ones(1, 1))
    tensor([[3.]])
    """
    if blocks is None:
        return (
            functional.linear(rows, weight)
            if constant is None
            else torch.addmm(constant, rows, weight.transpose(0, 1))
        )
    result = block_product(rows, weight, blocks)
    return result if constant is None else result + constant
