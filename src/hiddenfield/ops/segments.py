"""Sum, maximum, softmax and log sum of exponentials within each segment of rows, column by column."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import Implementations, check_pointers, check_total, over_segments
from hiddenfield.shapes import Array, Float, Int, Tensor

# On a GPU one program sums a segment from end to end; long ones are better shared among many.
LONG_SEGMENT = 512

# Beyond this many rows a segment has a program of its own.
SHORT_SEGMENT = 8


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
    if ptr.is_cpu:
        check_total(as_array(ptr), num_rows)
    return _repeat(values, ptr, num_rows)


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
    from hiddenfield.ops.triton_sums import ranged_sum, segment_rows

    flat = rows.unsqueeze(1) if rows.ndim == 1 else rows
    long = rows.shape[0] > SHORT_SEGMENT * segments
    found = segment_rows(flat, ptr) if long else ranged_sum(flat, ptr, num_out=segments)
    return found.view(segments, *rows.shape[1:])


def _repeat_cuda(values: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    if num_rows > LONG_SEGMENT * len(values):
        return segment_repeat_reference(values, ptr, num_rows)
    from hiddenfield.ops.triton_copies import repeat_rows

    flat = values.unsqueeze(1) if values.ndim == 1 else values
    return repeat_rows(flat, ptr, num_rows).view(num_rows, *values.shape[1:])


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


def segment_max(
    rows: Float[Tensor, " rows *dim"], ptr: Int[Tensor, " segment_bounds"]
) -> Float[Tensor, " segments *dim"]:
    r"""Take the maximum over each segment: :math:`y_s = \max_{p_s \le r < p_{s+1}} x_r`.

    Parameters
    ----------
    rows
        (rows,) or (rows, dim), floating point; -inf is allowed, NaN wins over every number.
    ptr
        (segments + 1,) int32 or int64, rising from 0 to the number of rows.

    Returns
    -------
    Tensor
        (segments,) or (segments, dim); an empty segment gives -inf. Differentiable: the gradient goes to the
        first of the maximal rows (one subgradient among several, the same on every device), also in a segment
        of -inf alone.

    Notes
    -----
    O(rows * dim).

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_max
    >>> segment_max(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 2, 3]))
    tensor([2., -inf, 4.])
    """
    return _take_winners(rows, segment_argmax(rows, ptr))


def segment_argmax(
    rows: Float[Tensor, " rows *dim"], ptr: Int[Tensor, " segment_bounds"]
) -> Int[Tensor, " segments *dim"]:
    """Find the first maximal row of each segment, column by column; -1 for an empty segment.

    Parameters and cost are those of `segment_max`; the result is int64 and has no gradient.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import segment_argmax
    >>> segment_argmax(torch.tensor([1.0, 2.0, 2.0, 4.0]), torch.tensor([0, 3, 3, 4]))
    tensor([ 1, -1,  3])
    """
    check_pointers(rows, ptr)
    return _argmax(rows.detach(), ptr)


def segment_max_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Take the rows that `segment_argmax_reference` finds."""
    return _take_winners(rows, segment_argmax_reference(rows.detach(), ptr))


def segment_argmax_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Find each segment's maximum, then the first row that equals it."""
    num_rows = rows.shape[0]
    segment = segment_of_row(ptr, num_rows)
    place = torch.arange(num_rows, device=rows.device)
    if rows.ndim == 2:
        segment, place = segment.unsqueeze(1).expand_as(rows), place.unsqueeze(1)
    shape = (ptr.shape[0] - 1, *rows.shape[1:])
    top = rows.new_full(shape, -torch.inf).scatter_reduce(0, segment, rows, "amax").gather(0, segment)
    is_top = (rows == top) | (rows.isnan() & top.isnan())
    candidates = torch.where(is_top, place, num_rows)
    first = candidates.new_full(shape, num_rows).scatter_reduce(0, segment, candidates, "amin")
    return torch.where(first == num_rows, -1, first)


def _take_winners(rows: Tensor, winner: Tensor) -> Tensor:
    if rows.shape[0] == 0:
        # Nothing to take; the empty sum keeps the result in the graph of `rows`.
        return rows.sum(0) + rows.new_full(winner.shape, -torch.inf)
    return rows.gather(0, winner.clamp(min=0)).masked_fill(winner < 0, -torch.inf)


@compiled
def _argmax_loop(rows: Array, ptr: Array, out: Array) -> None:
    dim = rows.shape[1]
    for segment in prange(ptr.size - 1):
        begin = ptr[segment]
        end = ptr[segment + 1]
        for column in range(dim):
            winner = -1
            if begin < end:
                winner = begin
                top = rows[begin, column]
                for row in range(begin + 1, end):
                    value = rows[row, column]
                    if value > top or (value != value and top == top):
                        winner = row
                        top = value
            out[segment, column] = winner


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
    top = segment_max(rows.detach(), ptr)
    weight = torch.exp(rows - segment_repeat(top.masked_fill(top == -torch.inf, 0), ptr, rows.shape[0]))
    total = segment_sum(weight, ptr)
    return weight / segment_repeat(total.masked_fill(total == 0, 1), ptr, rows.shape[0])


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
    return _logsumexp(rows, ptr)


def segment_logsumexp_reference(rows: Tensor, ptr: Tensor) -> Tensor:
    """Subtract the maximum, exponentiate, sum, take the logarithm; an infinite maximum counts as 0."""
    top = segment_max_reference(rows.detach(), ptr)
    finite = top.masked_fill(top.isinf(), 0)
    weight = torch.exp(rows - segment_repeat_reference(finite, ptr, rows.shape[0]))
    total = segment_sum_reference(weight, ptr)
    return torch.log(total) + finite


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


# -- gradients ---------------------------------------------------------------------------------------------


def _sum_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor]:
    rows, ptr = ctx.arguments
    return (segment_repeat(gradient, ptr, rows),)


def _repeat_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor]:
    return (segment_sum(gradient, ctx.arguments[1]),)


def _logsumexp_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor]:
    (values,), (rows, ptr) = ctx.saved_tensors, ctx.arguments
    return (segment_softmax(values, ptr) * segment_repeat(gradient, ptr, rows),)


_sum = Implementations(segment_sum_reference, partial(over_segments, _sum_loop), _sum_cuda, _sum_gradient)
_repeat = Implementations(segment_repeat_reference, None, _repeat_cuda, _repeat_gradient)
_argmax = Implementations(segment_argmax_reference, partial(over_segments, _argmax_loop, dtype=torch.int64))
_logsumexp = Implementations(
    segment_logsumexp_reference,
    partial(over_segments, _logsumexp_loop, effort=4),
    gradient=_logsumexp_gradient,
    keep=lambda out, rows, ptr: [rows],
)
