"""What may stand between the brackets of ``structures[index]``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.shapes import Bool, Int, Tensor

__all__ = ["resolve_index", "segment_count"]

EXPECTED = "expected an integer, a slice, a boolean mask or a one-dimensional array of integers"


def resolve_index(index: Any, length: int) -> Int[Tensor, " chosen"]:
    """Return the positions that an index names, as non-negative int64 in host memory.

    Examples
    --------
    >>> resolve_index(slice(None, None, -2), 5)
    tensor([4, 2, 0])
    >>> resolve_index([True, False, True], 3), resolve_index(-1, 3)
    (tensor([0, 2]), tensor([2]))
    """
    if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
        index = index[0]  # as scikit-learn writes it, for any number of axes; here there is one
    if isinstance(index, slice):
        return torch.from_numpy(np.arange(length)[index].copy())
    if isinstance(index, torch.Tensor):
        array = index.detach().cpu()
    else:
        array = _as_tensor(index)
    if array.ndim > 1:
        raise InputError(f"{EXPECTED}, got an array of shape {tuple(array.shape)}")
    if array.dtype == torch.bool:
        return _from_mask(array, length)
    if array.is_floating_point() or array.is_complex():
        raise InputError(f"{EXPECTED}, got numbers of type {array.dtype}; convert them to integers first")
    chosen = array.to(torch.int64).reshape(-1)
    bad = (chosen < -length) | (chosen >= length)
    if bool(bad.any()):
        raise _OutOfRange(
            f"there are {length} structures (0 to {length - 1}), got index {int(chosen[bad][0])}"
        )
    return torch.where(chosen < 0, chosen + length, chosen) if bool((chosen < 0).any()) else chosen


class _OutOfRange(InputError, IndexError):
    """An index beyond the pack; also an IndexError, so that Python's own protocols understand it."""


def _as_tensor(index: Any) -> Tensor:
    if isinstance(index, tuple):
        raise InputError(f"{EXPECTED}, got the tuple {index!r}; structures have one axis")
    try:
        array = np.asarray(index)
    except ValueError:
        array = np.asarray(None)
    if array.dtype == object or array.dtype.kind not in "iufb":
        raise InputError(f"{EXPECTED}, got {type(index).__name__}: {index!r}"[:300])
    if array.size == 0:
        return torch.zeros(0, dtype=torch.int64)
    array = np.ascontiguousarray(array.astype(np.int64) if array.dtype.kind == "u" else array)
    # One entry is contiguous whatever its stride, and torch takes no negative ones.
    return torch.from_numpy(array.copy() if min(array.strides, default=0) < 0 else array)


def _from_mask(mask: Tensor, length: int) -> Tensor:
    if mask.ndim != 1 or mask.shape[0] != length:
        raise InputError(
            f"a boolean mask must have one entry a structure ({length}), got {tuple(mask.shape)}"
        )
    return mask.nonzero().reshape(-1)


def segment_count(marked: Bool[Tensor, " rows"], ptr: Int[Tensor, " bounds"]) -> Int[Tensor, " segments"]:
    """Count the marked rows of every segment.

    Examples
    --------
    >>> segment_count(torch.tensor([True, False, True, True]), torch.tensor([0, 3, 3, 4]))
    tensor([2, 0, 1])
    """
    running = torch.cat([ptr.new_zeros(1, dtype=torch.int64), marked.cumsum(0)])
    return running[ptr.long()].diff().to(ptr.dtype)
