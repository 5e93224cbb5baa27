"""Who sends to whom: the arcs over which every op runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.dispatch import check_index
from hiddenfield.ops.segments import segment_repeat_reference
from hiddenfield.ops.sorting import counting_sort
from hiddenfield.shapes import Array, Int, Tensor


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
