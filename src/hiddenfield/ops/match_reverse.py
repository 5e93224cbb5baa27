"""Find, for each arc, the arc of the same edge the other way."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import Implementations, check_index
from hiddenfield.ops.segment_sum import segment_of_row
from hiddenfield.shapes import Array, Int, Tensor


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
    return _implementations(source, in_ptr)


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


_implementations = Implementations(reference=match_reverse_reference, cpu=_match_reverse_cpu)
