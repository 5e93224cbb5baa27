"""Group rows by a small integer key; find, for each arc, the arc of the same edge the other way."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import Implementations, check_index
from hiddenfield.ops.segments import segment_of_row
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
    return _sorting(keys, num_keys)


def counting_sort_reference(keys: Tensor, num_keys: int) -> tuple[Tensor, Tensor]:
    """Sort with PyTorch's stable sort; O(rows log rows)."""
    ordered, order = torch.sort(keys, stable=True)
    bounds = torch.arange(num_keys + 1, dtype=keys.dtype, device=keys.device)
    ptr = torch.searchsorted(ordered, bounds)
    return order.to(keys.dtype), ptr.to(keys.dtype)


def _counting_sort_cpu(keys: Tensor, num_keys: int) -> tuple[Tensor, Tensor]:
    """Transpose a sparse matrix with one entry per row, in the column of its key; of few rows, sort."""
    codes, rows = as_array(keys), len(keys)
    for row in np.flatnonzero((codes < 0) | (codes >= num_keys))[:1].tolist():
        raise InputError(f"row {row} has key {int(codes[row])}, but keys go from 0 to {num_keys - 1}")
    if rows <= FEW_ROWS:
        ptr = np.zeros(num_keys + 1, dtype=codes.dtype)
        np.cumsum(np.bincount(codes, minlength=num_keys), out=ptr[1:])
        order = codes.argsort(kind="stable").astype(codes.dtype)
        return torch.from_numpy(order), torch.from_numpy(ptr)
    from scipy.sparse import csr_array

    entries = np.ones(rows, dtype=np.int8), codes, np.arange(rows + 1, dtype=codes.dtype)
    grouped = csr_array(entries, shape=(rows, num_keys)).tocsc()
    return torch.from_numpy(grouped.indices).to(keys.dtype), torch.from_numpy(grouped.indptr).to(keys.dtype)


# Up to so many rows a sort (20 µs for 500) takes less than SciPy needs to make its matrices (50 µs).
FEW_ROWS = 2000

_sorting = Implementations(reference=counting_sort_reference, cpu=_counting_sort_cpu)


def match_reverse(source: Int[Tensor, " arcs"], in_ptr: Int[Tensor, " node_bounds"]) -> Int[Tensor, " arcs"]:
    """Pair the arcs i -> j with the arcs j -> i: the k-th of the ones with the k-th of the others.

    Parameters
    ----------
    source
        (arcs,) int32 or int64, the node that each arc comes from; arcs sorted by (target, source). In host
        memory an unsorted or out-of-range arc is refused; on a device it is the caller's duty.
    in_ptr
        (nodes + 1,); arcs ``in_ptr[i]:in_ptr[i + 1]`` arrive at node `i`.

    Returns
    -------
    Tensor
        (arcs,) of the dtype of `source`: the index of the reverse, the arc itself for a self-loop, -1 where
        there is none (also for the arcs in excess where one direction has more parallel arcs than the other).

    Notes
    -----
    O(arcs + nodes): arcs are visited by rising target, so the search within the arcs into a node only moves
    on.

    Examples
    --------
    Arcs 1->0, 0->1, 2->1 and the loop 2->2:

    >>> import torch
    >>> from hiddenfield.ops import match_reverse
    >>> match_reverse(torch.tensor([1, 0, 2, 2]), torch.tensor([0, 1, 3, 4]))
    tensor([ 1,  0, -1,  3])
    """
    check_index(source, "source")
    check_index(in_ptr, "in_ptr", source.device)
    if in_ptr.shape[0] == 0:
        raise InputError("in_ptr must hold nodes + 1 numbers, beginning with 0, got none")
    return _matching(source, in_ptr)


def match_reverse_reference(source: Tensor, in_ptr: Tensor) -> Tensor:
    """Search each arc's mirror image, with its rank among parallels, in the sorted list; O(arcs log arcs)."""
    num_nodes, num_arcs = in_ptr.shape[0] - 1, source.shape[0]
    if num_arcs == 0:
        return torch.empty_like(source)
    target, wide = segment_of_row(in_ptr, num_arcs), source.long()
    key, mirrored = target * num_nodes + wide, wide * num_nodes + target
    arc = torch.arange(num_arcs, device=source.device)
    rank = arc - torch.searchsorted(key, key)
    place = torch.searchsorted(key, mirrored) + rank
    found = place.clamp(max=num_arcs - 1)
    hit = (place < num_arcs) & (key[found] == mirrored)
    return torch.where(hit, found, -1).to(source.dtype)


def _match_reverse_cpu(source: Tensor, in_ptr: Tensor) -> Tensor:
    sources, pointers = as_array(source), as_array(in_ptr)
    if pointers[0] != 0 or pointers[-1] != sources.size:
        raise InputError(
            f"in_ptr must go from 0 to the number of arcs, {sources.size}, "
            f"got {pointers[0]} to {pointers[-1]}"
        )
    out = torch.empty_like(source, memory_format=torch.contiguous_format)
    bad = np.full(1, -1, dtype=np.int64)
    _match_loop(sources, pointers, pointers[:-1].astype(np.int64), out.numpy(), bad, work=sources.size)
    if bad[0] >= 0:
        arc = int(bad[0])
        raise InputError(
            f"arc {arc} comes from node {sources[arc]}: expected nodes from 0 to {pointers.size - 2}, "
            "rising within the arcs into one node; sort the arcs by (target, source)"
        )
    return out


@compiled
def _match_loop(source: Array, in_ptr: Array, cursor: Array, out: Array, bad: Array) -> None:
    num_nodes = in_ptr.size - 1
    for node in range(num_nodes):
        for arc in range(in_ptr[node], in_ptr[node + 1]):
            other = source[arc]
            if other < 0 or other >= num_nodes or (arc > in_ptr[node] and other < source[arc - 1]):
                bad[0] = arc
                return
    for node in range(num_nodes):
        for arc in range(in_ptr[node], in_ptr[node + 1]):
            other = source[arc]
            place = cursor[other]
            end = in_ptr[other + 1]
            while place < end and source[place] < node:
                place += 1
            if place < end and source[place] == node:
                out[arc] = place
                place += 1
            else:
                out[arc] = -1
            cursor[other] = place


_matching = Implementations(reference=match_reverse_reference, cpu=_match_reverse_cpu)
