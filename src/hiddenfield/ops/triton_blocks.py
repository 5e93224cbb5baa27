"""The Triton kernels of products block by block; imported when the first of them runs on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Tensor

if TYPE_CHECKING:
    from hiddenfield.ops.blocks import RowBlocks

TILE, COLUMNS, DEPTH = 64, 64, 32

# Rows that one program adds up in `outer`; a longer block is shared by several.
ROWS_OF_PROGRAM, MOST_PARTS = 1024, 64


def product(rows: Tensor, weight: Tensor, blocks: RowBlocks) -> Tensor:
    """Return `block_product` of single precision: one program per tile of rows, exact products."""
    rows = rows.contiguous()
    inputs, outputs = rows.shape[1], weight.shape[1]
    out = torch.empty(blocks.rows, outputs, dtype=rows.dtype, device=rows.device)
    if not out.numel():
        return out
    owner, first = blocks.tiles
    with torch.cuda.device(rows.device):
        _product[(len(owner), triton.cdiv(outputs, COLUMNS))](
            rows,
            weight,
            out,
            blocks.ptr,
            owner,
            first,
            len(blocks),
            inputs,
            outputs,
            *weight.stride(),
            TILE=TILE,
            COLUMNS=COLUMNS,
            DEPTH=DEPTH,
        )
    return out


def outer(left: Tensor, right: Tensor, blocks: RowBlocks) -> Tensor:
    """Return `block_outer` of single precision: partial sums over parts of every block, then their sum."""
    left, right = left.contiguous(), right.contiguous()
    outputs, inputs = left.shape[1], right.shape[1]
    parts = max(1, min(MOST_PARTS, blocks.rows // (len(blocks) * ROWS_OF_PROGRAM)))
    partial = torch.empty(len(blocks), parts, outputs, inputs, dtype=left.dtype, device=left.device)
    if not partial.numel():
        return partial.sum(1)
    grid = (len(blocks) * parts, triton.cdiv(outputs, COLUMNS), triton.cdiv(inputs, COLUMNS))
    with torch.cuda.device(left.device):
        _outer[grid](left, right, partial, blocks.ptr, parts, outputs, inputs, COLUMNS=COLUMNS, DEPTH=DEPTH)
    return partial[:, 0] if parts == 1 else partial.sum(1)


@triton.jit
def _product(  # type: ignore[no-untyped-def]
    rows,
    weight,
    out,
    ptr,
    owner,
    first,
    count,
    inputs,
    outputs,
    weight_block,
    weight_output,
    weight_input,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> Any:
    tile = tl.program_id(0)
    block = tl.load(owner + tile)
    if block < count:
        end = tl.load(ptr + block + 1).to(tl.int64)
        begin = tl.load(ptr + block).to(tl.int64) + (tile - tl.load(first + block)) * TILE
        row = begin + tl.arange(0, TILE)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside, there = (row < end)[:, None], (column < outputs)[None, :]
        total = tl.zeros((TILE, COLUMNS), dtype=tl.float32)
        for start in range(0, inputs, DEPTH):
            deep = start + tl.arange(0, DEPTH)
            x = tl.load(
                rows + row[:, None] * inputs + deep[None, :],
                mask=inside & (deep < inputs)[None, :],
                other=0.0,
            )
            w = tl.load(
                weight
                + block * weight_block
                + deep[:, None] * weight_input
                + column[None, :] * weight_output,
                mask=(deep < inputs)[:, None] & there,
                other=0.0,
            )
            total += tl.dot(x, w, input_precision="ieee")
        tl.store(out + row[:, None] * outputs + column[None, :], total, mask=inside & there)


@triton.jit
def _outer(  # type: ignore[no-untyped-def]
    left, right, partial, ptr, parts, outputs, inputs, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
) -> Any:
    place = tl.program_id(0)
    block, part = place // parts, place % parts
    begin = tl.load(ptr + block).to(tl.int64)
    end = tl.load(ptr + block + 1).to(tl.int64)
    length = (end - begin + parts - 1) // parts
    begin = begin + part * length
    end = tl.minimum(end, begin + length)
    output = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, COLUMNS), dtype=tl.float32)
    for start in range(begin, end, DEPTH):
        row = start + tl.arange(0, DEPTH)
        inside = row < end
        g = tl.load(
            left + row[None, :] * outputs + output[:, None],
            mask=inside[None, :] & (output < outputs)[:, None],
            other=0.0,
        )
        x = tl.load(
            right + row[:, None] * inputs + column[None, :],
            mask=inside[:, None] & (column < inputs)[None, :],
            other=0.0,
        )
        total += tl.dot(g, x, input_precision="ieee")
    where = partial + (place * outputs + output[:, None]).to(tl.int64) * inputs + column[None, :]
    tl.store(where, total, mask=(output < outputs)[:, None] & (column < inputs)[None, :])
