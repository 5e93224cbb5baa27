"""Relation: arcs from rows of one kind to rows of another, structure by structure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from hiddenfield.data.structures import resolve_index
from hiddenfield.ops import SegmentCut, Topology
from hiddenfield.shapes import Int, Tensor


@dataclass(frozen=True, eq=False)
class Relation:
    """For each of N structures, arcs from its rows of one kind (say, cycles) to its rows of another (say, nodes).

    A pack's own topology relates nodes to nodes; what an algorithm derives from it may relate other things, and is
    then cut into batches in the same way.

    Parameters
    ----------
    row_ptr
        Bounds of every structure's receiving rows.
    source_ptr
        Bounds of every structure's sending rows.
    in_ptr
        Bounds of the arcs into every receiving row.
    source
        Sending row of every arc, numbered through the whole pack.

    Examples
    --------
    Two structures with one triangle each, of nodes 0, 1, 2 and 4, 5, 6:

    >>> bounds = torch.tensor([0, 1, 2])
    >>> members = Relation(
    ...     bounds, torch.tensor([0, 4, 7]), torch.tensor([0, 3, 6]), torch.tensor([0, 1, 2, 4, 5, 6])
    ... )
    >>> members[[1]].source
    tensor([0, 1, 2])
    """

    row_ptr: Int[Tensor, " structure_bounds"]
    source_ptr: Int[Tensor, " structure_bounds"]
    in_ptr: Int[Tensor, " row_bounds"]
    source: Int[Tensor, " arcs"]

    def __len__(self) -> int:
        """Return the number of structures."""
        return self.row_ptr.shape[0] - 1

    @cached_property
    def topology(self) -> Topology:
        """The arcs as the ops take them."""
        return Topology(self.source, self.in_ptr, num_sources=int(self._host_bounds[1][-1]))

    @cached_property
    def _host_bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Bounds of receiving rows, sending rows and arcs in host memory, so that cutting waits for no device."""
        arc_ptr = self.in_ptr.index_select(0, self.row_ptr)
        return self.row_ptr.cpu(), self.source_ptr.cpu(), arc_ptr.cpu()

    def __getitem__(self, index: Any) -> Relation:
        """Return the relation of the chosen structures, in that order."""
        chosen = resolve_index(index, len(self))
        rows, sources, arcs = (SegmentCut(bounds, chosen) for bounds in self._host_bounds)
        starts = rows.take(self.in_ptr[:-1], arcs)
        result = Relation(
            rows.new_ptr.to(self.row_ptr.device, self.row_ptr.dtype, non_blocking=True),
            sources.new_ptr.to(self.row_ptr.device, self.row_ptr.dtype, non_blocking=True),
            torch.cat([starts, starts.new_full((1,), int(arcs.new_ptr[-1]))]),
            arcs.take(self.source, sources),
        )
        result.__dict__["_host_bounds"] = (rows.new_ptr, sources.new_ptr, arcs.new_ptr)
        return result

    def to(self, device: torch.device | str) -> Relation:
        """Return the relation on a device."""
        if torch.device(device) == self.source.device:
            return self
        moved = Relation(
            *(part.to(device) for part in (self.row_ptr, self.source_ptr, self.in_ptr, self.source))
        )
        moved.__dict__["_host_bounds"] = self._host_bounds
        return moved
