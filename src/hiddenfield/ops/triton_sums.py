"""The one Triton kernel behind the sums on a GPU; imported when the first of them runs there."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Tensor

ROWS_OF_BLOCK = 16
"""Rows of a program; of narrow rows as many as make up `ENTRIES_OF_BLOCK`."""

ENTRIES_OF_BLOCK = 512


def ranged_sum(
    values: Tensor,
    ptr: Tensor,
    *,
    num_out: int,
    key: Tensor | None = None,
    read: Tensor | None = None,
    skip: Tensor | None = None,
    constant: Tensor | None = None,
    rectify: bool = False,
) -> Tensor:
    r"""Sum ranges of rows, leaving one out.

    .. math:: y_r = \rho\Bigl(c_r + \sum_{p = \mathrm{ptr}(k_r)}^{\mathrm{ptr}(k_r + 1) - 1}
        [\mathrm{read}(p) \ne \mathrm{skip}(r)]\; x_{\mathrm{read}(p)}\Bigr)

    With `key` and `read` the identity this is `segment_sum`, with `read` the sources `gather_sum`, with `key` the
    senders and `skip` the reverse arcs `cavity_sum`. Each row is summed by one program in a fixed order: the result is
    the same every time, which sums by atomic additions are not. Half precision is summed in single precision.

    Parameters
    ----------
    values
        (rows, dim), on a GPU.
    ptr, key, read, skip
        int32 or int64; see the equation.
    num_out
        Rows of the result.
    constant, rectify
        As in `gather_sum`.

    Returns
    -------
    Tensor
        (num_out, dim). Cost: the sum of the ranges' lengths times dim, one launch.
    """
    values = values.contiguous()
    dim = values.shape[1]
    out = torch.empty(num_out, dim, dtype=values.dtype, device=values.device)
    if num_out == 0 or dim == 0:
        return out
    constant = None if constant is None else constant.contiguous()
    width = min(128, triton.next_power_of_2(dim))
    block = max(ROWS_OF_BLOCK, ENTRIES_OF_BLOCK // width)
    grid = (triton.cdiv(num_out, block), triton.cdiv(dim, width))
    nothing = ptr  # a pointer that is never followed
    with torch.cuda.device(values.device):
        _kernel[grid](
            values,
            ptr,
            nothing if key is None else key,
            nothing if read is None else read,
            nothing if skip is None else skip,
            values if constant is None else constant,
            out,
            num_out,
            dim,
            HAS_KEY=key is not None,
            HAS_READ=read is not None,
            HAS_SKIP=skip is not None,
            HAS_CONSTANT=constant is not None,
            RECTIFY=rectify,
            DOUBLE=values.dtype == torch.float64,
            BLOCK=block,
            WIDTH=width,
        )
    return out


def segment_rows(values: Tensor, ptr: Tensor) -> Tensor:
    """Sum long ranges of rows, one program for each; for short ones `ranged_sum` is faster.

    Parameters
    ----------
    values
        (rows, dim), on a GPU.
    ptr
        (segments + 1,) int32 or int64.
    """
    values = values.contiguous()
    segments, dim = ptr.shape[0] - 1, values.shape[1]
    out = torch.empty(segments, dim, dtype=values.dtype, device=values.device)
    if out.numel():
        width = min(128, triton.next_power_of_2(dim))
        with torch.cuda.device(values.device):
            _segment_kernel[(segments, triton.cdiv(dim, width))](
                values, ptr, out, dim, DOUBLE=values.dtype == torch.float64, BLOCK=2 * ROWS_OF_BLOCK, WIDTH=width
            )  # fmt: skip
    return out


@triton.jit
def _segment_kernel(  # type: ignore[no-untyped-def]
    values, ptr, out, dim, DOUBLE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
) -> Any:
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    begin = tl.load(ptr + segment).to(tl.int64)
    end = tl.load(ptr + segment + 1).to(tl.int64)
    kind: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    total = tl.zeros((BLOCK, WIDTH), dtype=kind)
    for first in range(begin, end, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        take = (rows < end)[:, None] & (columns < dim)[None, :]
        total += tl.load(values + rows[:, None] * dim + columns[None, :], mask=take, other=0).to(kind)
    tl.store(out + segment * dim + columns, tl.sum(total, axis=0), mask=columns < dim)


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    values,
    ptr,
    key,
    read,
    skip,
    constant,
    out,
    num_out,
    dim,
    HAS_KEY: tl.constexpr,
    HAS_READ: tl.constexpr,
    HAS_SKIP: tl.constexpr,
    HAS_CONSTANT: tl.constexpr,
    RECTIFY: tl.constexpr,
    DOUBLE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
) -> Any:
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = rows < num_out
    whole = inside[:, None] & (columns < dim)[None, :]
    place = rows[:, None] * dim + columns[None, :]
    keys = tl.load(key + rows, mask=inside, other=0).to(tl.int64) if HAS_KEY else rows
    begin = tl.load(ptr + keys, mask=inside, other=0).to(tl.int64)
    end = tl.load(ptr + keys + 1, mask=inside, other=0).to(tl.int64)
    left_out = tl.load(skip + rows, mask=inside, other=-1).to(tl.int64) if HAS_SKIP else rows
    kind: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    if HAS_CONSTANT:
        total = tl.load(constant + place, mask=whole, other=0).to(kind)
    else:
        total = tl.zeros((BLOCK, WIDTH), dtype=kind)
    longest = tl.max(end - begin, axis=0)
    for step in range(longest):
        position = begin + step
        live = position < end
        chosen = tl.load(read + position, mask=live, other=0).to(tl.int64) if HAS_READ else position
        if HAS_SKIP:
            live = live & (chosen != left_out)
        take = live[:, None] & (columns < dim)[None, :]
        total += tl.load(values + chosen[:, None] * dim + columns[None, :], mask=take, other=0).to(kind)
    if RECTIFY:
        total = tl.maximum(total, 0)
    tl.store(out + place, total, mask=whole)
