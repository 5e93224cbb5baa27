"""Softmax and log sum of exponentials within each segment, column by column."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch

from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.dispatch import Implementations, check_pointers, over_segments
from hiddenfield.ops.segment_max import segment_max_reference
from hiddenfield.ops.segment_sum import (
    segment_repeat,
    segment_repeat_reference,
    segment_sum,
    segment_sum_reference,
)
from hiddenfield.shapes import Array, Float, Int, Tensor


def segment_softmax(
    rows: Float[Tensor, " rows *dim"], ptr: Int[Tensor, " segment_bounds"]
) -> Float[Tensor, " rows *dim"]:
    r"""Normalise the exponentials within each segment: :math:`y_r = e^{x_r} / \sum_{r' \in s(r)} e^{x_{r'}}`.

    Parameters
    ----------
    rows
        (rows,) or (rows, dim), floating point; -inf is allowed.
    ptr
        (segments + 1,) int32 or int64, rising from 0 to the number of rows.

    Returns
    -------
    Tensor
        Of the shape of `rows`; each segment sums to one. A segment of -inf alone (no state is possible) gives
        zeros, with zero gradients, and not NaN. Differentiable twice and more.

    Notes
    -----
    O(rows * dim); the greatest row is subtracted first, so nothing overflows.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_softmax
    >>> segment_softmax(torch.tensor([0.0, 0.0, 7.0]), torch.tensor([0, 2, 2, 3]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    check_pointers(rows, ptr)
    if rows.requires_grad and torch.is_grad_enabled():
        return _SegmentSoftmax.apply(rows, ptr)
    return _softmax(rows, ptr)


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ptr: Tensor) -> Tensor:
        out = _softmax(rows, ptr)
        ctx.save_for_backward(out)
        ctx.ptr = ptr
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (out,) = ctx.saved_tensors
        weighted = out * gradient
        mean = segment_repeat(segment_sum(weighted, ctx.ptr), ctx.ptr, out.shape[0])
        return weighted - out * mean, None


def segment_softmax_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Subtract the maximum (0 for -inf), exponentiate, divide by the sum (1 for 0)."""
    top = segment_max_reference(rows.detach(), ptr)
    top = top.masked_fill(top == -torch.inf, 0)
    weight = torch.exp(rows - segment_repeat_reference(top, ptr, rows.shape[0]))
    total = segment_sum_reference(weight, ptr)
    total = total.masked_fill(total == 0, 1)
    return weight / segment_repeat_reference(total, ptr, rows.shape[0])


def segment_logsumexp(
    rows: Float[Tensor, " rows *dim"], ptr: Int[Tensor, " segment_bounds"]
) -> Float[Tensor, " segments *dim"]:
    r"""Take the log of the sum of exponentials: :math:`y_s = \log \sum_{p_s \le r < p_{s+1}} e^{x_r}`.

    Parameters
    ----------
    rows
        (rows,) or (rows, dim), floating point; -inf is allowed.
    ptr
        (segments + 1,) int32 or int64, rising from 0 to the number of rows.

    Returns
    -------
    Tensor
        (segments,) or (segments, dim); -inf for an empty segment and for one of -inf alone. Differentiable
        twice and more; the gradient is `segment_softmax`, hence zero (and not NaN) where all rows are -inf.

    Notes
    -----
    O(rows * dim); the greatest row is subtracted first, so nothing overflows.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_logsumexp
    >>> segment_logsumexp(torch.tensor([100.0, 100.0, 7.0]), torch.tensor([0, 2, 2, 3]))
    tensor([100.6931,     -inf,   7.0000])
    """
    check_pointers(rows, ptr)
    if rows.requires_grad and torch.is_grad_enabled():
        return _SegmentLogsumexp.apply(rows, ptr)
    return _logsumexp(rows, ptr)


class _SegmentLogsumexp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.ptr = ptr
        return _logsumexp(rows, ptr)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (rows,) = ctx.saved_tensors
        return segment_softmax(rows, ctx.ptr) * segment_repeat(gradient, ctx.ptr, rows.shape[0]), None


def segment_logsumexp_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Subtract the maximum, exponentiate, sum, take the logarithm; an infinite maximum counts as 0."""
    top = segment_max_reference(rows.detach(), ptr)
    finite = top.masked_fill(top.isinf(), 0)
    weight = torch.exp(rows - segment_repeat_reference(finite, ptr, rows.shape[0]))
    total = segment_sum_reference(weight, ptr)
    return torch.log(total) + finite


@subroutine
def top_of(rows: Array, begin: int, end: int, column: int) -> float:
    """Return the largest entry of a column of a segment, or 0 where it is -inf."""
    top = rows.dtype.type(-np.inf)
    for row in range(begin, end):
        if rows[row, column] > top:
            top = rows[row, column]
    return top if top > -np.inf else rows.dtype.type(0)


@compiled
def _softmax_loop(rows: Array, ptr: Array, out: Array) -> None:
    dim = rows.shape[1]
    for segment in prange(ptr.size - 1):
        begin = ptr[segment]
        end = ptr[segment + 1]
        for column in range(dim):
            top = top_of(rows, begin, end, column)
            total = rows.dtype.type(0)
            for row in range(begin, end):
                weight = math.exp(rows[row, column] - top)
                out[row, column] = weight
                total += weight
            if total != 0:
                for row in range(begin, end):
                    out[row, column] /= total


@compiled
def _logsumexp_loop(rows: Array, ptr: Array, out: Array) -> None:
    dim = rows.shape[1]
    for segment in prange(ptr.size - 1):
        begin = ptr[segment]
        end = ptr[segment + 1]
        for column in range(dim):
            top = top_of(rows, begin, end, column)
            if math.isinf(top):
                top = rows.dtype.type(0)
            total = rows.dtype.type(0)
            for row in range(begin, end):
                total += math.exp(rows[row, column] - top)
            if total == 0:  # an empty segment or hard zeros alone; math.log would refuse
                out[segment, column] = -np.inf
            else:
                out[segment, column] = math.log(total) + top


_softmax = Implementations(
    segment_softmax_reference, partial(over_segments, _softmax_loop, each_row=True, effort=4)
)
_logsumexp = Implementations(segment_logsumexp_reference, partial(over_segments, _logsumexp_loop, effort=4))
