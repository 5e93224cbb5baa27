"""Logarithm of the sum of exponentials of each segment, column by column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import Implementations, check_pointers, check_total, empty
from hiddenfield.ops.segment_max import segment_max_reference
from hiddenfield.ops.segment_softmax import segment_softmax
from hiddenfield.ops.segment_sum import segment_repeat, segment_repeat_reference, segment_sum_reference
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["segment_logsumexp", "segment_logsumexp_reference"]


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


def _logsumexp_cpu(rows: Tensor, ptr: Tensor) -> Tensor:
    pointers = as_array(ptr)
    check_total(pointers, rows.shape[0])
    out = empty((pointers.size - 1, *rows.shape[1:]), rows)
    flat = rows.unsqueeze(1) if rows.ndim == 1 else rows
    target = out.view(out.shape[0], flat.shape[1]).numpy()
    _logsumexp_loop(as_array(flat), pointers, target, work=4 * flat.numel())
    return out


@compiled
def _logsumexp_loop(rows: Array, ptr: Array, out: Array) -> None:
    dim = rows.shape[1]
    for segment in prange(ptr.size - 1):
        begin = ptr[segment]
        end = ptr[segment + 1]
        for column in range(dim):
            top = rows.dtype.type(-np.inf)
            for row in range(begin, end):
                if rows[row, column] > top:
                    top = rows[row, column]
            if math.isinf(top):
                top = rows.dtype.type(0)
            total = rows.dtype.type(0)
            for row in range(begin, end):
                total += math.exp(rows[row, column] - top)
            if total == 0:  # an empty segment or hard zeros alone; math.log would refuse
                out[segment, column] = -np.inf
            else:
                out[segment, column] = math.log(total) + top


_logsumexp = Implementations(reference=segment_logsumexp_reference, cpu=_logsumexp_cpu)
