"""Sum of the rows of each segment, and its transpose, one value repeated along each segment."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import Implementations, check_pointers, check_total, empty, over_segments
from hiddenfield.shapes import Array, Float, Int, Tensor

# On a GPU one program sums a segment from end to end; long ones are better shared among many.
LONG_SEGMENT = 512


def segment_sum(
    rows: Float[Tensor, " rows *dim"], ptr: Int[Tensor, " segment_bounds"]
) -> Float[Tensor, " segments *dim"]:
    r"""Sum the rows of each segment: :math:`y_s = \sum_{r = p_s}^{p_{s+1} - 1} x_r`.

    Parameters
    ----------
    rows
        (rows,) or (rows, dim), floating point.
    ptr
        (segments + 1,) int32 or int64, rising from 0 to the number of rows.

    Returns
    -------
    Tensor
        (segments,) or (segments, dim); an empty segment gives 0. Rows are added in their order, whatever the
        number of threads. Differentiable twice and more; the gradient is `segment_repeat`.

    Notes
    -----
    O(rows * dim), one pass.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_sum
    >>> segment_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 2, 3]))
    tensor([3., 0., 4.])
    """
    check_pointers(rows, ptr)
    if rows.requires_grad and torch.is_grad_enabled():
        return _SegmentSum.apply(rows, ptr)
    return _sum(rows, ptr)


def segment_repeat(
    values: Float[Tensor, " segments *dim"], ptr: Int[Tensor, " segment_bounds"], num_rows: int
) -> Float[Tensor, " rows *dim"]:
    r"""Repeat each segment's value in all of its rows: :math:`y_r = x_s` for :math:`p_s \le r < p_{s+1}`.

    Parameters
    ----------
    values
        (segments,) or (segments, dim), floating point.
    ptr
        (segments + 1,) int32 or int64, rising from 0 to `num_rows`.
    num_rows
        The last number of `ptr`; asked for so that no device has to be waited for.

    Returns
    -------
    Tensor
        (num_rows,) or (num_rows, dim). Differentiable twice and more; the gradient is `segment_sum`.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_repeat
    >>> segment_repeat(torch.tensor([3.0, 5.0, 4.0]), torch.tensor([0, 2, 2, 3]), 3)
    tensor([3., 3., 4.])
    """
    check_pointers(
        values, ptr, segments=values.shape[0] if isinstance(values, Tensor) and values.ndim else None
    )
    if values.requires_grad and torch.is_grad_enabled():
        return _SegmentRepeat.apply(values, ptr, num_rows)
    return _repeat(values, ptr, num_rows)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ptr: Tensor) -> Tensor:
        ctx.ptr, ctx.num_rows = ptr, rows.shape[0]
        return _sum(rows, ptr)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return segment_repeat(gradient, ctx.ptr, ctx.num_rows), None


class _SegmentRepeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
        ctx.ptr = ptr
        return _repeat(values, ptr, num_rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        return segment_sum(gradient, ctx.ptr), None, None


def segment_sum_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Add each row into the row of its segment."""
    segment = segment_of_row(ptr, rows.shape[0])
    return rows.new_zeros(ptr.shape[0] - 1, *rows.shape[1:]).index_add(0, segment, rows)


def segment_repeat_reference(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    """Repeat with PyTorch; the known length spares a wait for the device."""
    return torch.repeat_interleave(values, torch.diff(ptr), dim=0, output_size=num_rows)


def segment_of_row(ptr: Int[Tensor, " segment_bounds"], num_rows: int) -> Int[Tensor, " rows"]:
    """Return the segment that each row belongs to, int64."""
    return segment_repeat_reference(torch.arange(ptr.shape[0] - 1, device=ptr.device), ptr, num_rows)


def _sum_cuda(rows: Tensor, ptr: Tensor) -> Tensor:
    segments = ptr.shape[0] - 1
    if rows.shape[0] > LONG_SEGMENT * segments:
        return segment_sum_reference(rows, ptr)
    from hiddenfield.ops.triton_sums import ranged_sum

    flat = rows.unsqueeze(1) if rows.ndim == 1 else rows
    return ranged_sum(flat, ptr, num_out=segments).view(segments, *rows.shape[1:])


def _repeat_cuda(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    if num_rows > LONG_SEGMENT * len(values):
        return segment_repeat_reference(values, ptr, num_rows)
    from hiddenfield.ops.triton_copies import repeat_rows

    flat = values.unsqueeze(1) if values.ndim == 1 else values
    return repeat_rows(flat, ptr, num_rows).view(num_rows, *values.shape[1:])


def _repeat_cpu(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    pointers = as_array(ptr)
    check_total(pointers, num_rows)
    out = empty((num_rows, *values.shape[1:]), values)
    flat = values.unsqueeze(1) if values.ndim == 1 else values
    _repeat_loop(as_array(flat), pointers, out.view(out.shape[0], flat.shape[1]).numpy(), work=out.numel())
    return out


@compiled
def _sum_loop(rows: Array, ptr: Array, out: Array) -> None:
    dim = rows.shape[1]
    for segment in prange(ptr.size - 1):
        begin = ptr[segment]
        end = ptr[segment + 1]
        if dim == 1:
            total = rows.dtype.type(0)
            for row in range(begin, end):
                total += rows[row, 0]
            out[segment, 0] = total
        elif begin == end:
            for column in range(dim):
                out[segment, column] = 0
        else:
            for column in range(dim):
                out[segment, column] = rows[begin, column]
            for row in range(begin + 1, end):
                for column in range(dim):
                    out[segment, column] += rows[row, column]


@compiled
def _repeat_loop(values: Array, ptr: Array, out: Array) -> None:
    dim = values.shape[1]
    for segment in prange(ptr.size - 1):
        for row in range(ptr[segment], ptr[segment + 1]):
            for column in range(dim):
                out[row, column] = values[segment, column]


_sum = Implementations(reference=segment_sum_reference, cpu=partial(over_segments, _sum_loop), cuda=_sum_cuda)
_repeat = Implementations(reference=segment_repeat_reference, cpu=_repeat_cpu, cuda=_repeat_cuda)
