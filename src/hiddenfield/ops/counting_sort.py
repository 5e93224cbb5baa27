"""Group rows by a small integer key, keeping their order."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import Implementations, check_index
from hiddenfield.shapes import Array, Int, Tensor


def counting_sort(
    keys: Int[Tensor, " rows"], num_keys: int
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " key_bounds"]]:
    """Sort rows by key, rows of one key in their old order.

    Parameters
    ----------
    keys
        (rows,) int32 or int64, from 0 to ``num_keys - 1``. Refused otherwise in host memory; on a device,
        where looking would mean waiting, it is the caller's duty.
    num_keys
        How many keys there may be.

    Returns
    -------
    order
        (rows,) such that ``keys[order]`` rises; of the dtype of `keys`.
    ptr
        (num_keys + 1,); ``order[ptr[k]:ptr[k + 1]]`` are the rows with key `k`; of the same dtype.

    Notes
    -----
    O(rows + num_keys), one thread.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import counting_sort
    >>> counting_sort(torch.tensor([2, 0, 2, 1]), 4)
    (tensor([1, 3, 0, 2]), tensor([0, 1, 2, 4, 4]))
    """
    check_index(keys, "keys")
    if num_keys < 0:
        raise InputError(f"num_keys must not be negative, got {num_keys}")
    return _implementations(keys, num_keys)


def counting_sort_reference(keys: Tensor, num_keys: int) -> tuple[Tensor, Tensor]:
    """Sort with PyTorch's stable sort; O(rows log rows)."""
    ordered, order = torch.sort(keys, stable=True)
    bounds = torch.arange(num_keys + 1, dtype=keys.dtype, device=keys.device)
    ptr = torch.searchsorted(ordered, bounds)
    return order.to(keys.dtype), ptr.to(keys.dtype)


def _counting_sort_cpu(keys: Tensor, num_keys: int) -> tuple[Tensor, Tensor]:
    order = torch.empty(keys.shape, dtype=keys.dtype)
    ptr = torch.zeros(num_keys + 1, dtype=keys.dtype)
    cursor = np.zeros(num_keys, dtype=np.int64)
    bad = np.full(1, -1, dtype=np.int64)
    _sort(as_array(keys), cursor, as_array(order), as_array(ptr), bad, work=len(keys))
    if bad[0] >= 0:
        first = int(bad[0])
        raise InputError(f"row {first} has key {int(keys[first])}, but keys go from 0 to {num_keys - 1}")
    return order, ptr


@compiled
def _sort(keys: Array, cursor: Array, order: Array, ptr: Array, bad: Array) -> None:
    num_keys = cursor.size
    for row in range(keys.size):
        key = keys[row]
        if key < 0 or key >= num_keys:
            bad[0] = row
            return
        cursor[key] += 1
    total = 0
    for key in range(num_keys):
        ptr[key] = total
        count = cursor[key]
        cursor[key] = total
        total += count
    ptr[num_keys] = total
    for row in range(keys.size):
        key = keys[row]
        order[cursor[key]] = row
        cursor[key] += 1


_implementations = Implementations(reference=counting_sort_reference, cpu=_counting_sort_cpu)
