"""Greatest row of each segment, column by column."""

from __future__ import annotations

from functools import partial

import torch

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.dispatch import Implementations, check_pointers, over_segments
from hiddenfield.ops.segment_sum import segment_of_row
from hiddenfield.shapes import Array, Float, Int, Tensor


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


_argmax = Implementations(segment_argmax_reference, partial(over_segments, _argmax_loop, dtype=torch.int64))
