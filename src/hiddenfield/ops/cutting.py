"""Cut chosen segments out of packed rows: the batch loader."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import empty
from hiddenfield.ops.segments import segment_of_row
from hiddenfield.shapes import Array, Int, Shaped, Tensor

# Where a batch is cut into arrays of a fixed size: nodes of each structure that takes up what is left over, and loops
# at each of these nodes.
NODES_OF_REST, ARCS_OF_REST = 64, 4


class SegmentCut:
    """A choice of segments, applied to several arrays that have them: what all share is computed and moved once.

    With values on a device the size of the result is known here and nothing waits for the device; two numbers a chosen
    segment travel there. No gradient flows: this cuts data.

    Parameters
    ----------
    ptr
        (segments + 1,) int32 or int64; segment `s` is rows ``ptr[s]:ptr[s + 1]``. In host memory.
    index
        (chosen,) int32 or int64, segments in any order, repeated or not. In host memory; trusted.

    Attributes
    ----------
    new_ptr, shift
        Where each segment begins afterwards, and how far it moves.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import SegmentCut
    >>> cut = SegmentCut(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
    >>> cut.take(torch.tensor([5, 6, 7, 8, 9])), cut.new_ptr, cut.shift
    (tensor([7, 8, 9, 5, 6]), tensor([0, 3, 5]), tensor([-2,  3]))
    """

    def __init__(self, ptr: Int[Tensor, " segment_bounds"], index: Int[Tensor, " chosen"]) -> None:
        self.ptr, self.index = ptr, index
        self.starts = ptr.index_select(0, index)
        self.new_ptr = torch.zeros(len(index) + 1, dtype=torch.int64)
        torch.cumsum(ptr.index_select(0, index + 1) - self.starts, 0, dtype=torch.int64, out=self.new_ptr[1:])
        self.shift = self.new_ptr[:-1] - self.starts
        self._on_device: Tensor | None = None

    def take(
        self, values: Shaped[Tensor, " rows *width"], moved: SegmentCut | None = None
    ) -> Shaped[Tensor, " taken *width"]:
        """Copy the chosen segments' rows, one after another, of any dtype.

        With `moved`, values that number the rows of that cut are renumbered; negative ones, such as -1 for "no
        reverse", stay as they are.
        """
        values, shift = values.detach(), None if moved is None else moved.shift
        if values.is_cpu:
            return self._copied(values, shift)
        if not values.is_cuda:
            return take_segments_reference(values, self.ptr, self.index, self.new_ptr, shift)
        from hiddenfield.ops.triton_copies import copy_segments

        shifts = None if moved is None else moved.on_device(values.device)
        return copy_segments(values, self.on_device(values.device), shifts, int(self.new_ptr[-1]))

    def _copied(self, values: Tensor, shift: Tensor | None) -> Tensor:
        """Copy block by block, on several threads."""
        out = empty((int(self.new_ptr[-1]), *values.shape[1:]), values)
        width = values.shape[1] if values.ndim == 2 else 1
        if shift is None:
            source, target, width = _as_words(values.contiguous(), out, width)
            moves = source[:0]
        else:
            source, target = as_array(values).reshape(-1), out.numpy().reshape(-1)
            moves = shift.numpy().astype(source.dtype)
        places = self.starts.numpy(), self.new_ptr.numpy()
        _copy_loop(source, *places, moves, width, target, work=target.size)
        return out

    def on_device(self, device: torch.device) -> Int[Tensor, "two chosen_bounds"]:
        """Return new bounds and, beneath them, old starts on the device; moved there once."""
        if self._on_device is None:
            both = torch.stack([self.new_ptr, torch.cat([self.starts.long(), self.new_ptr[-1:]])])
            self._on_device = both.to(device, non_blocking=True)
        return self._on_device


def take_segments_reference(
    values: Tensor, ptr: Tensor, index: Tensor, new_ptr: Tensor, shift: Tensor | None = None
) -> Tensor:
    """Compute the old place of each new row, and copy."""
    num_rows, device = int(new_ptr[-1]), values.device
    offset = (ptr.index_select(0, index) - new_ptr[:-1]).to(device, non_blocking=True)
    segment = segment_of_row(new_ptr.to(device, non_blocking=True), num_rows)
    out = values.index_select(0, torch.arange(num_rows, device=device) + offset.index_select(0, segment))
    if shift is None:
        return out
    moved = shift.to(device, out.dtype, non_blocking=True).index_select(0, segment)
    return torch.where(out < 0, out, out + (moved.unsqueeze(1) if out.ndim == 2 else moved))


def _as_words(values: Tensor, out: Tensor, width: int) -> tuple[Array, Array, int]:
    """See both as vectors of 1, 4 or 8-byte words, so that three compiled loops serve every dtype."""
    row_bytes = width * values.element_size()
    word = np.dtype(np.int64 if row_bytes % 8 == 0 else np.int32 if row_bytes % 4 == 0 else np.uint8)
    if values.data_ptr() % word.itemsize:  # a slice that begins within a word
        word = np.dtype(np.uint8)
    # A contiguous tensor of one element may come from numpy with stride 0, which cannot be viewed as bytes.
    vectors = (tensor.as_strided((tensor.numel(),), (1,)) for tensor in (values, out))
    flat = [vector.view(torch.uint8).numpy().view(word) for vector in vectors]
    return flat[0], flat[1], row_bytes // word.itemsize


@compiled
def _copy_loop(values: Array, starts: Array, new_ptr: Array, shift: Array, width: int, out: Array) -> None:
    moved = shift.size > 0
    for place in prange(starts.size):
        # Unsigned: no test for negative positions stands in the loops, so that they run several words at a time.
        begin = np.uint64(starts[place] * width)
        new = np.uint64(new_ptr[place] * width)
        length = np.uint64(new_ptr[place + 1] * width) - new
        if moved:
            add = shift[place]
            for word in range(np.uint64(0), length):
                value = values[begin + word]
                out[new + word] = value + add if value >= 0 else value
        else:
            for word in range(np.uint64(0), length):
                out[new + word] = values[begin + word]
