"""Products of blocks of rows, each block with a matrix of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch

from hiddenfield.ops.dispatch import Implementations, reject
from hiddenfield.ops.segments import segment_of_row
from hiddenfield.shapes import Float, Int, Tensor

# Rows of a tile: what one program of the GPU multiplies; no tile holds rows of two blocks.
TILE = 64


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Rows in consecutive blocks.

    Parameters
    ----------
    ptr
        (blocks + 1,), rising from 0 to `rows`, on the device of the rows.
    rows
        How many; given, so that no device has to be waited for.

    Examples
    --------
    >>> RowBlocks(torch.tensor([0, 2, 2, 3]), 3).owner
    tensor([0, 0, 2])
    """

    ptr: Int[Tensor, " block_bounds"]
    rows: int

    def __len__(self) -> int:
        """Return the number of blocks."""
        return self.ptr.shape[0] - 1

    @cached_property
    def owner(self) -> Int[Tensor, " rows"]:
        """The block of every row."""
        return segment_of_row(self.ptr, self.rows)

    @cached_property
    def sizes(self) -> list[int]:
        """How many rows every block has, in host memory, checked."""
        bounds: list[int] = self.ptr.tolist()
        if bounds[0] != 0 or bounds[-1] != self.rows or bounds != sorted(bounds):
            reject(
                f"ptr must rise from 0 to the number of rows, {self.rows}, got {bounds[:5]} to {bounds[-1]}"
            )
        return [after - before for before, after in pairwise(bounds)]

    def parts(self, rows: Float[Tensor, "rows dim"]) -> tuple[Float[Tensor, "_ dim"], ...]:
        """Return the rows of each block."""
        return rows.split(self.sizes)

    @cached_property
    def tiles(self) -> tuple[Int[Tensor, " tiles"], Int[Tensor, " block_bounds"]]:
        """The block of every tile, ``len(self)`` for those that are not needed, and each block's first tile."""
        counts = (self.ptr.diff().long() + TILE - 1) // TILE
        first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        every = torch.arange(self.rows // TILE + len(self), device=self.ptr.device)
        return torch.searchsorted(first[1:], every, right=True), first


def block_product(
    rows: Float[Tensor, "rows inputs"], weight: Float[Tensor, "blocks outputs inputs"], blocks: RowBlocks
) -> Float[Tensor, "rows outputs"]:
    r"""Multiply every row by the matrix of its block: :math:`y_r = W_{b(r)} x_r`.

    Networks that are trained side by side have their structures in one batch, each network's together; this is their
    common linear layer.

    Parameters
    ----------
    rows
        (rows, inputs), floating point.
    weight
        (blocks, outputs, inputs).
    blocks
        Which rows belong to which matrix.

    Returns
    -------
    Tensor
        (rows, outputs). Differentiable twice and more.

    Notes
    -----
    O(rows * inputs * outputs); on a GPU one launch, however many blocks there are.

    Examples
    --------
    >>> weight = torch.tensor([[[1.0, 1.0]], [[0.0, 2.0]]])
    >>> block_product(torch.ones(3, 2), weight, RowBlocks(torch.tensor([0, 1, 3]), 3)).T
    tensor([[2., 2., 2.]])
    """
    _check(rows, "rows", blocks)
    if weight.ndim != 3 or weight.shape[0] != len(blocks) or weight.shape[2] != rows.shape[1]:
        reject(
            f"weight must have shape ({len(blocks)}, outputs, {rows.shape[1]}), one matrix per block, got "
            f"{tuple(weight.shape)}"
        )
    if weight.dtype != rows.dtype or weight.device != rows.device:
        reject(
            f"weight must be of the rows' type and on their device, {rows.dtype} on {rows.device}, got {weight.dtype} "
            f"on {weight.device}"
        )
    return _product(rows, weight, blocks)


def block_outer(
    left: Float[Tensor, "rows outputs"], right: Float[Tensor, "rows inputs"], blocks: RowBlocks
) -> Float[Tensor, "blocks outputs inputs"]:
    r"""Sum the outer products of two rows over every block: :math:`W_b = \sum_{r \in b} g_r x_r^\top`.

    It is the gradient of `block_product` by its matrices.

    Examples
    --------
    >>> values = torch.tensor([[1.0], [2.0], [3.0]])
    >>> block_outer(values, values, RowBlocks(torch.tensor([0, 1, 3]), 3)).flatten()
    tensor([ 1., 13.])
    """
    _check(left, "left", blocks)
    _check(right, "right", blocks)
    return _outer(left, right, blocks)


def _check(rows: Tensor, name: str, blocks: RowBlocks) -> None:
    if rows.ndim != 2 or rows.shape[0] != blocks.rows:
        reject(
            f"{name} must have shape ({blocks.rows}, dim), one row for each in a block, got {tuple(rows.shape)}"
        )


def _product_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    (rows, weight), blocks = ctx.saved_tensors, ctx.arguments[2]
    return (
        block_product(gradient, weight.transpose(1, 2), blocks) if ctx.needs_input_grad[1] else None,
        block_outer(gradient, rows, blocks) if ctx.needs_input_grad[2] else None,
    )


def _outer_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
    (left, right), blocks = ctx.saved_tensors, ctx.arguments[2]
    return block_product(right, gradient, blocks), block_product(left, gradient.transpose(1, 2), blocks)


def block_product_reference(rows: Tensor, weight: Tensor, blocks: RowBlocks) -> Tensor:
    """Multiply block by block."""
    out = rows.new_empty(rows.shape[0], weight.shape[1])
    for own, matrix, result in zip(blocks.parts(rows), weight.mT, blocks.parts(out), strict=True):
        torch.mm(own, matrix, out=result)
    return out


def block_outer_reference(left: Tensor, right: Tensor, blocks: RowBlocks) -> Tensor:
    """Multiply block by block."""
    out = left.new_empty(len(blocks), left.shape[1], right.shape[1])
    for gradient, own, result in zip(blocks.parts(left), blocks.parts(right), out, strict=True):
        torch.mm(gradient.T, own, out=result)
    return out


def _product_cuda(rows: Tensor, weight: Tensor, blocks: RowBlocks) -> Tensor:
    if rows.dtype != torch.float32:
        return block_product_reference(rows, weight, blocks)
    from hiddenfield.ops.triton_blocks import product

    return product(rows, weight, blocks)


def _outer_cuda(left: Tensor, right: Tensor, blocks: RowBlocks) -> Tensor:
    if left.dtype != torch.float32:
        return block_outer_reference(left, right, blocks)
    from hiddenfield.ops.triton_blocks import outer

    return outer(left, right, blocks)


_product = Implementations(
    block_product_reference, None, _product_cuda, _product_gradient, lambda out, *given: given[:2]
)
_outer = Implementations(
    block_outer_reference, None, _outer_cuda, _outer_gradient, lambda out, *given: given[:2]
)
