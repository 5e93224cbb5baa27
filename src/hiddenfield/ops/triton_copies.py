"""Triton kernels that copy segments of rows on a GPU; imported when the first of them runs there."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from hiddenfield.shapes import Tensor

WORDS_OF_BLOCK = 256


def copy_segments(
    values: Tensor,
    bounds: Tensor,
    shifts: Tensor | None,
    num_rows: int,
    *,
    rest: tuple[int, int, int] | None = None,
) -> Tensor:
    """Copy segments of rows end to end, one program per segment.

    Parameters
    ----------
    values
        (rows,) or (rows, width), on a GPU.
    bounds
        (2, chosen + 1) int64 there: where each chosen segment begins in the result and, beneath, in `values`.
    shifts
        The same of another cut: its segments' moves are added to the values, but to negative ones.
    num_rows
        Rows of the result; known by the caller, so that nothing waits for the device.
    rest
        (times, over, most): the last segment is not copied, but fills what is left of the result. Its p-th number is
        p * times // over, to which the shift is added, and not more than `most`.

    Returns
    -------
    Tensor
        (num_rows,) or (num_rows, width).
    """
    values = values.contiguous()
    width = values.shape[1] if values.ndim == 2 else 1
    out = torch.empty(num_rows, *values.shape[1:], dtype=values.dtype, device=values.device)
    chosen = bounds.shape[1] - 1
    if out.numel() and chosen:
        with torch.cuda.device(values.device) if values.is_cuda else nullcontext():
            _kernel[(chosen,)](
                values,
                bounds,
                bounds if shifts is None else shifts,
                out,
                chosen,
                width,
                out.numel(),
                HAS_SHIFT=shifts is not None,
                REST=rest is not None,
                TIMES=rest[0] if rest else 0,
                OVER=rest[1] if rest else 1,
                most=rest[2] if rest else 0,
                BLOCK=WORDS_OF_BLOCK,
            )
    return out


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    values,
    bounds,
    shifts,
    out,
    chosen,
    width,
    words,
    most,
    HAS_SHIFT: tl.constexpr,
    REST: tl.constexpr,
    TIMES: tl.constexpr,
    OVER: tl.constexpr,
    BLOCK: tl.constexpr,
) -> Any:
    segment = tl.program_id(0)
    new = tl.load(bounds + segment) * width
    copied = True
    end = tl.load(bounds + segment + 1) * width
    if REST:
        copied = segment < chosen - 1
        end = tl.where(copied, end, words)
    length = end - new
    old = tl.load(bounds + chosen + 1 + segment) * width
    shift = tl.load(shifts + segment) - tl.load(shifts + chosen + 1 + segment) if HAS_SHIFT else 0
    for first in range(0, length, BLOCK):
        word = first + tl.arange(0, BLOCK)
        inside = word < length
        if REST:
            value = tl.load(values + old + word, mask=inside & copied, other=0)
            if TIMES > 0:
                value = tl.where(copied, value, (word * TIMES // OVER).to(value.dtype))
        else:
            value = tl.load(values + old + word, mask=inside)
        if HAS_SHIFT:
            value = tl.where(value >= 0, value + shift, value)
        if REST and TIMES > 0:
            value = tl.where(copied, value, tl.minimum(value, most))
        tl.store(out + new + word, value, mask=inside)


def repeat_rows(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    """Repeat each segment's row in all of the segment's rows, one program per segment.

    Parameters
    ----------
    values
        (segments, width), on a GPU.
    ptr
        (segments + 1,) int32 or int64 there.
    num_rows
        The last number of `ptr`.

    Returns
    -------
    Tensor
        (num_rows, width).
    """
    values = values.contiguous()
    width = values.shape[1]
    out = torch.empty(num_rows, width, dtype=values.dtype, device=values.device)
    if out.numel():
        with torch.cuda.device(values.device):
            _repeat_loop[(values.shape[0],)](values, ptr, out, width, BLOCK=triton.next_power_of_2(width))
    return out


@triton.jit
def _repeat_loop(values, ptr, out, width, BLOCK: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    segment = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(values + segment * width + column, mask=inside)
    begin = tl.load(ptr + segment).to(tl.int64)
    end = tl.load(ptr + segment + 1).to(tl.int64)
    for row in range(begin, end):
        tl.store(out + row * width + column, value, mask=inside)
