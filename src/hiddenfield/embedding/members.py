"""Batches that several networks share, and the product with the matrix of each network."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch.nn import functional

from hiddenfield.data.structures import Structures
from hiddenfield.ops import RowBlocks, block_product
from hiddenfield.shapes import Float, Int, Tensor


@dataclass(frozen=True, eq=False)
class Members:
    """Which rows of a batch belong to which network; all None where there is only one.

    Parameters
    ----------
    structures, nodes, arcs
        Blocks of structures, nodes and arcs, one block per network.
    """

    structures: RowBlocks | None = None
    nodes: RowBlocks | None = None
    arcs: RowBlocks | None = None

    def rows(self, ptr: Int[Tensor, " structure_bounds"], total: int) -> RowBlocks | None:
        """Return the blocks of other rows, whose bounds in every structure are given."""
        if self.structures is None:
            return None
        return RowBlocks(ptr.index_select(0, self.structures.ptr), total)


ALONE = Members()


@dataclass(frozen=True, eq=False, repr=False)
class SharedBatch(Structures):
    """Structures of several networks in one batch, those of the first network first.

    Every weight of such networks has one more axis, the first, over the networks; see `PredictorStack`. An embedding
    runs on such a batch as on any other, as long as it multiplies by its matrices with `product`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "A"])
    >>> SharedBatch.of(words, torch.tensor([0, 1, 3])).members.nodes.sizes
    [7, 4]
    """

    members: Members = ALONE

    @classmethod
    def of(cls, structures: Structures, ptr: Int[Tensor, " network_bounds"]) -> SharedBatch:
        """Divide structures among networks: network m owns those from ``ptr[m]`` to ``ptr[m + 1]``."""
        ptr = ptr.to(structures.device, non_blocking=True)
        nodes = structures.node_ptr.index_select(0, ptr)
        arcs = structures.in_ptr.index_select(0, nodes)
        members = Members(
            RowBlocks(ptr, len(structures)),
            RowBlocks(nodes, structures.total_nodes),
            RowBlocks(arcs, structures.total_arcs),
        )
        batch = cls(**{f.name: getattr(structures, f.name) for f in fields(Structures)}, members=members)
        vars(batch).update(vars(structures))  # with what was derived of the structures before
        return batch


def members_of(structures: Structures) -> Members:
    """Return which rows of a batch belong to which network."""
    return structures.members if isinstance(structures, SharedBatch) else ALONE


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
