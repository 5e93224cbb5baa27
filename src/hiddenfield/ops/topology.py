"""Who sends to whom: the arcs over which every op runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import Implementations, check_index
from hiddenfield.ops.segments import segment_of_row, segment_repeat_reference
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


@dataclass(frozen=True, eq=False)
class Topology:
    """Who sends to whom: arcs grouped by the node that receives.

    Arc ``a`` goes from row ``source[a]`` to node ``i`` where ``in_ptr[i] <= a < in_ptr[i + 1]``. Building one
    checks shapes, dtypes and devices, which is O(1); that the indices are in range is the duty of whoever
    builds it (a pack does), since the compiled loops read memory without asking. `validate` checks all of it.

    Parameters
    ----------
    source
        (arcs,) int32 or int64, the row that each arc reads from.
    in_ptr
        (nodes + 1,) int32 or int64; arcs ``in_ptr[i]:in_ptr[i + 1]`` arrive at node `i`.
    reverse
        (arcs,) index of the same edge the other way, -1 where there is none; a self-loop is its own reverse.
        Needed by `cavity_sum` alone.
    symmetric
        Every arc has a reverse. Known when it is built, so that no device has to be asked.
    num_sources
        Rows of the values that are read; the number of nodes unless another is given.

    Examples
    --------
    The path 0 - 1 - 2, every edge both ways:

    >>> import torch
    >>> from hiddenfield.ops import Topology
    >>> path = Topology(
    ...     source=torch.tensor([1, 0, 2, 1]),
    ...     in_ptr=torch.tensor([0, 1, 3, 4]),
    ...     reverse=torch.tensor([1, 0, 3, 2]),
    ...     symmetric=True,
    ... )
    >>> path.target
    tensor([0, 1, 1, 2])
    >>> path.transpose is path
    True
    >>> path.validate()
    """

    source: Int[Tensor, " arcs"]
    in_ptr: Int[Tensor, " node_bounds"]
    reverse: Int[Tensor, " arcs"] | None = None
    symmetric: bool = False
    num_sources: int = -1

    def __post_init__(self) -> None:
        check_index(self.source, "source")
        check_index(self.in_ptr, "in_ptr", self.source.device)
        if self.in_ptr.shape[0] == 0:
            raise InputError("in_ptr must hold nodes + 1 numbers, beginning with 0, got none")
        if self.in_ptr.is_cpu and int(self.in_ptr[-1]) != self.num_arcs:
            raise InputError(
                f"the last number of in_ptr must be the number of arcs, {self.num_arcs}, "
                f"got {int(self.in_ptr[-1])}"
            )
        if self.reverse is not None:
            check_index(self.reverse, "reverse", self.source.device)
            if self.reverse.shape != self.source.shape:
                raise InputError(
                    f"reverse must hold one number for each of the {self.num_arcs} arcs, "
                    f"got {len(self.reverse)}"
                )
        if self.num_sources < 0:
            object.__setattr__(self, "num_sources", self.num_nodes)
        if self.num_sources != self.num_nodes and (self.symmetric or self.reverse is not None):
            raise InputError(
                f"arcs with a reverse need as many senders as receivers, got num_sources={self.num_sources} "
                f"and {self.num_nodes} nodes; leave reverse out"
            )

    @property
    def num_nodes(self) -> int:
        """Nodes that receive."""
        return self.in_ptr.shape[0] - 1

    @property
    def num_arcs(self) -> int:
        """Arcs."""
        return self.source.shape[0]

    @functools.cached_property
    def target(self) -> Int[Tensor, " arcs"]:
        """The node that each arc arrives at. O(arcs), once."""
        nodes = torch.arange(self.num_nodes, dtype=self.source.dtype, device=self.source.device)
        return segment_repeat_reference(nodes, self.in_ptr, self.num_arcs)

    @functools.cached_property
    def outgoing(self) -> tuple[Int[Tensor, " arcs"], Int[Tensor, " source_bounds"]]:
        """The arcs grouped by the row that sends, and where each group begins.

        In a symmetric topology the arcs out of a node are the reverses of the arcs into it; otherwise this is
        one counting sort, O(arcs), once.
        """
        if self.symmetric and self.reverse is not None:
            return self.reverse, self.in_ptr
        return counting_sort(self.source, self.num_sources)

    @functools.cached_property
    def transpose(self) -> Topology:
        """The same arcs the other way, grouped by the node that sends; itself when symmetric.

        Its `num_nodes` is this one's `num_sources` and the other way round. The arcs come in another order.
        """
        if self.symmetric:
            return self
        order, out_ptr = self.outgoing
        reverse = None
        if self.reverse is not None:
            place = torch.empty_like(order)
            place[order.long()] = torch.arange(self.num_arcs, dtype=order.dtype, device=order.device)
            old = self.reverse[order.long()]
            reverse = (
                torch.where(old < 0, old, place[old.clamp(min=0).long()].to(old.dtype)) if len(old) else old
            )
        return Topology(self.target[order.long()], out_ptr, reverse, num_sources=self.num_nodes)

    @functools.cached_property
    def longest_range(self) -> int:
        """The largest number of arcs into one node or out of one row; a pack that knows a bound sets it.

        On a device, computing it waits for the device.
        """
        lengths = [torch.diff(bounds) for bounds in (self.in_ptr, self.outgoing[1])]
        return max((int(part.max()) for part in lengths if len(part)), default=0)

    @functools.cached_property
    def sending(self) -> Topology:
        """From nodes to arcs: arc a, taken as a receiver, reads the row of the node that it comes from."""
        bounds = torch.arange(self.num_arcs + 1, dtype=self.in_ptr.dtype, device=self.in_ptr.device)
        sending = Topology(self.source, bounds, num_sources=self.num_sources)
        order, out_ptr = self.outgoing
        back = Topology(order, out_ptr, num_sources=self.num_arcs)
        sending.__dict__["transpose"], back.__dict__["transpose"] = back, sending
        return sending

    @functools.cached_property
    def reversing(self) -> Topology:
        """From arcs to arcs: arc a, taken as a receiver, reads its reverse, or nothing; its own transpose."""
        if self.reverse is None:
            raise InputError(
                "this topology has no reverse; build it with reverse=match_reverse(source, in_ptr)"
            )
        if self.symmetric:
            source = self.reverse
            bounds = torch.arange(self.num_arcs + 1, dtype=self.in_ptr.dtype, device=self.in_ptr.device)
        else:
            paired = self.reverse >= 0
            source = self.reverse[paired]
            bounds = torch.cat([self.in_ptr.new_zeros(1), paired.cumsum(0, dtype=self.in_ptr.dtype)])
        reversing = Topology(source, bounds, num_sources=self.num_arcs)
        reversing.__dict__["transpose"] = reversing
        return reversing

    @functools.cached_property
    def arrays(self) -> tuple[Array, Array]:
        """`source` and `in_ptr` as NumPy views for the compiled loops; on the CPU only."""
        return as_array(self.source), as_array(self.in_ptr)

    def to(self, device: torch.device | str) -> Topology:
        """Return the topology on `device`; itself when it is there already."""
        if self.source.device == torch.device(device):
            return self
        reverse = None if self.reverse is None else self.reverse.to(device)
        source, in_ptr = self.source.to(device), self.in_ptr.to(device)
        return Topology(source, in_ptr, reverse, self.symmetric, self.num_sources)

    def validate(self) -> None:
        """Check every index, O(arcs), and raise an `InputError` that names the first bad node or arc."""
        lengths = torch.diff(self.in_ptr)
        _refuse_first(
            lengths < 0, lengths, "node {} has a negative number of arcs into it, {}: in_ptr must not fall"
        )
        if int(self.in_ptr[0]) != 0 or int(self.in_ptr[-1]) != self.num_arcs:
            raise InputError(
                f"in_ptr must go from 0 to the number of arcs, {self.num_arcs}, "
                f"got {int(self.in_ptr[0])} to {int(self.in_ptr[-1])}"
            )
        wrong = (self.source < 0) | (self.source >= self.num_sources)
        _refuse_first(
            wrong, self.source, f"arc {{}} reads from row {{}}, but there are {self.num_sources} rows"
        )
        if self.reverse is not None:
            self._validate_reverse(self.reverse)

    def _validate_reverse(self, reverse: Tensor) -> None:
        lowest = 0 if self.symmetric else -1
        wrong = (reverse < lowest) | (reverse >= self.num_arcs)
        note = " and symmetric=True promises a reverse for each" if self.symmetric else ""
        _refuse_first(wrong, reverse, f"arc {{}} has reverse {{}}, but there are {self.num_arcs} arcs{note}")
        if self.num_arcs == 0:
            return
        other = reverse.clamp(min=0).long()
        paired = reverse >= 0
        arcs = torch.arange(self.num_arcs, device=reverse.device)
        wrong = (self.source[other] != self.target) | (self.target[other] != self.source)
        _refuse_first(
            wrong & paired, reverse, "arc {} has reverse {}, which does not join the same two nodes"
        )
        _refuse_first(
            (reverse[other] != arcs) & paired, reverse, "arc {} has reverse {}, whose own reverse is another"
        )
        loop = (self.source == self.target) & (reverse != arcs)
        _refuse_first(loop, reverse, "arc {} is a self-loop and must be its own reverse, got {}")


def _refuse_first(wrong: Tensor, values: Tensor, message: str) -> None:
    if bool(wrong.any()):
        first = int(torch.nonzero(wrong)[0])
        raise InputError(message.format(first, int(values[first])))
