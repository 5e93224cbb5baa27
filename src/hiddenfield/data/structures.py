"""Structures: sequences, trees and graphs packed end to end, the input of everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.index import resolve_index, segment_count
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.ops import SegmentCut, Topology
from hiddenfield.shapes import Array, Float, Int, Shaped, Tensor

if TYPE_CHECKING:
    from hiddenfield.data.description import Description

__all__ = ["Structures"]

NODE_ROWS = ("node_labels", "node_attributes", "node_targets")
ARC_ROWS = ("arc_labels", "arc_attributes")


@dataclass(frozen=True, eq=False, repr=False)
class Structures:
    r"""N sequences, trees or graphs in one pack of arrays. Immutable; N may be one or ten million.

    Nodes are numbered through the whole pack: structure n owns the nodes ``node_ptr[n]:node_ptr[n + 1]``. Arcs
    are sorted by (target, source), so that the arcs into node i are ``in_ptr[i]:in_ptr[i + 1]`` and those of
    structure n are ``arc_ptr[n]:arc_ptr[n + 1]``. An undirected edge is two arcs that know each other through
    `reverse`; a self-loop is one arc and its own reverse; a one-way arc has reverse -1.

    Build one with `from_arcs` or `from_edges` (arrays), with the converters of `hiddenfield.data`, or with
    `hiddenfield.read`; the constructor itself trusts what it is given.

    Parameters
    ----------
    node_ptr, in_ptr, source, reverse
        The topology. int32, or int64 where a count needs it.
    node_labels, arc_labels
        Categorical features, one column each, as codes of `node_vocabularies` and `arc_vocabularies`.
    node_attributes, arc_attributes
        Continuous features, finite, with a name a column.
    targets, node_targets
        What is to be predicted, per structure and per node; NaN is missing. A column that has a vocabulary holds
        class codes, one that has None holds numbers.
    ids
        N strings, or None: then a structure is named by its position.
    columns
        Further arrays of length N that travel along, for example SMILES.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", "T"], targets=[1.0, 0.5, 0.1])
    >>> words
    Structures(3 structures, 11 nodes, 16 arcs; node labels: symbol (4); targets: target)
    >>> words[[2, 0, 0]].num_nodes.tolist()
    [1, 7, 7]
    """

    node_ptr: Int[Tensor, " structure_bounds"]
    in_ptr: Int[Tensor, " node_bounds"]
    source: Int[Tensor, " arcs"]
    reverse: Int[Tensor, " arcs"]
    node_labels: Int[Tensor, "nodes node_columns"] | None = None
    node_vocabularies: tuple[Vocabulary, ...] = ()
    arc_labels: Int[Tensor, "arcs arc_columns"] | None = None
    arc_vocabularies: tuple[Vocabulary, ...] = ()
    node_attributes: Float[Tensor, "nodes node_dim"] | None = None
    node_attribute_names: tuple[str, ...] = ()
    arc_attributes: Float[Tensor, "arcs arc_dim"] | None = None
    arc_attribute_names: tuple[str, ...] = ()
    targets: Float[Tensor, "structures targets"] | None = None
    target_names: tuple[str, ...] = ()
    target_vocabularies: tuple[Vocabulary | None, ...] = ()
    node_targets: Float[Tensor, "nodes node_target_columns"] | None = None
    node_target_names: tuple[str, ...] = ()
    node_target_vocabularies: tuple[Vocabulary | None, ...] = ()
    ids: Shaped[Array, " structures"] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)

    # -- building ------------------------------------------------------------------------------------------

    @classmethod
    def from_arcs(cls, source: Any, target: Any, *, node_ptr: Any, **options: Any) -> Structures:
        """Build a pack from directed arcs; see `hiddenfield.data.from_arcs`."""
        from hiddenfield.data.build import from_arcs

        return from_arcs(source, target, node_ptr=node_ptr, **options)

    @classmethod
    def from_edges(cls, first: Any, second: Any, *, node_ptr: Any, **options: Any) -> Structures:
        """Build a pack from undirected edges; see `hiddenfield.data.from_edges`."""
        from hiddenfield.data.build import from_edges

        return from_edges(first, second, node_ptr=node_ptr, **options)

    # -- sizes and derived arrays --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of structures."""
        return self.node_ptr.shape[0] - 1

    @property
    def shape(self) -> tuple[int]:
        """``(len(structures),)``: scikit-learn indexes what has a shape as a whole, anything else entry by entry."""
        return (len(self),)

    @property
    def total_nodes(self) -> int:
        """Number of nodes in the whole pack."""
        return self.in_ptr.shape[0] - 1

    @property
    def total_arcs(self) -> int:
        """Number of arcs in the whole pack."""
        return self.source.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the pack lives."""
        return self.node_ptr.device

    @cached_property
    def arc_ptr(self) -> Int[Tensor, " structure_bounds"]:
        """Bounds of every structure's arcs: ``in_ptr[node_ptr]``."""
        return self.in_ptr.index_select(0, self.node_ptr)

    @property
    def target(self) -> Int[Tensor, " arcs"]:
        """Node that every arc arrives at."""
        return self.topology.target

    @property
    def num_nodes(self) -> Int[Tensor, " structures"]:
        """Nodes of every structure."""
        return self.node_ptr.diff()

    @property
    def num_arcs(self) -> Int[Tensor, " structures"]:
        """Arcs of every structure."""
        return self.arc_ptr.diff()

    @property
    def num_edges(self) -> Int[Tensor, " structures"]:
        """Undirected edges of every structure: an arc and its reverse count once, a one-way arc or a loop once."""
        own = torch.arange(self.total_arcs, device=self.device)
        counted = (self.reverse < 0) | (self.reverse >= own)
        return segment_count(counted, self.arc_ptr)

    @cached_property
    def symmetric(self) -> bool:
        """Whether every arc has a reverse."""
        return bool((self.reverse >= 0).all())

    @cached_property
    def topology(self) -> Topology:
        """Who sends to whom, as the ops take it."""
        topology = Topology(
            self.source, self.in_ptr, self.reverse, symmetric=self.symmetric, num_sources=self.total_nodes
        )
        if "longest_range" in self.__dict__:
            topology.__dict__["longest_range"] = self.longest_range
        return topology

    @cached_property
    def longest_range(self) -> int:
        """A bound for the arcs into or out of one node; a batch takes over that of the pack it was cut from."""
        return self.topology.longest_range

    @cached_property
    def structure_of_node(self) -> Int[Tensor, " nodes"]:
        """Return the number of the structure that each node belongs to."""
        numbers = torch.arange(len(self), device=self.device, dtype=self.node_ptr.dtype)
        return torch.repeat_interleave(numbers, self.num_nodes.long(), output_size=self.total_nodes)

    @cached_property
    def _host_bounds(self) -> tuple[Int[Tensor, " structure_bounds"], Int[Tensor, " structure_bounds"]]:
        """Keep node and arc bounds in host memory, so that cutting on a device needs no synchronisation."""
        return self.node_ptr.cpu(), self.arc_ptr.cpu()

    # -- cutting -------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Structures:
        """Return the structures at an integer, slice, boolean mask or integer array, in that order.

        Repeats and reordering are allowed; an integer gives a pack of one. Cost: proportional to what is cut,
        with no Python loop over structures; on a device the batch is cut there.
        """
        chosen = resolve_index(index, len(self))
        node_bounds, arc_bounds = self._host_bounds
        nodes, arcs = SegmentCut(node_bounds, chosen), SegmentCut(arc_bounds, chosen)
        starts = nodes.take(self.in_ptr[:-1], arcs)
        cut: dict[str, Any] = {
            "node_ptr": nodes.new_ptr.to(self.device, self.node_ptr.dtype, non_blocking=True),
            "in_ptr": torch.cat([starts, starts.new_full((1,), int(arcs.new_ptr[-1]))]),
            "source": arcs.take(self.source, nodes),
            "reverse": arcs.take(self.reverse, arcs),
            "targets": None
            if self.targets is None
            else self.targets[chosen.to(self.device, non_blocking=True)],
        }
        for name in NODE_ROWS:
            cut[name] = _apply(nodes.take, getattr(self, name))
        for name in ARC_ROWS:
            cut[name] = _apply(arcs.take, getattr(self, name))
        if self.ids is not None or self.columns:
            rows = chosen.numpy()
            cut["ids"] = None if self.ids is None else self.ids[rows]
            cut["columns"] = {name: column[rows] for name, column in self.columns.items()}
        result = dataclasses.replace(self, **cut)
        # What is known of the child is handed on: a batch of a symmetric pack is symmetric, its bounds are here.
        result.__dict__["_host_bounds"] = (nodes.new_ptr, arcs.new_ptr)
        result.__dict__["arc_ptr"] = arcs.new_ptr.to(self.device, self.node_ptr.dtype, non_blocking=True)
        if self.symmetric:
            result.__dict__["symmetric"] = True
        if not self.node_ptr.is_cpu:
            result.__dict__["longest_range"] = self.longest_range
        return result

    def __iter__(self) -> Iterator[Structures]:
        """Iterate over the structures, each as a pack of one."""
        return (self[position] for position in range(len(self)))

    def batches(
        self, size: int, *, shuffle: bool = False, generator: np.random.Generator | int | None = None
    ) -> Iterator[Structures]:
        """Cut the pack into batches of `size` structures; the last one may be smaller.

        Parameters
        ----------
        size
            Structures in a batch.
        shuffle
            Whether the order is drawn anew on every call.
        generator
            A numpy generator or a seed; needed only with `shuffle`.

        Examples
        --------
        >>> import hiddenfield as hf
        >>> words = hf.data.from_sequences(["AB", "B", "ABA"])
        >>> [len(batch) for batch in words.batches(2, shuffle=True, generator=0)]
        [2, 1]
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"the size of a batch must be an integer of at least 1, got {size!r}")
        if shuffle:
            order = torch.from_numpy(np.random.default_rng(generator).permutation(len(self)))
        else:
            order = torch.arange(len(self))
        return (self[order[start : start + size]] for start in range(0, len(self), int(size)))

    # -- whole-pack operations -----------------------------------------------------------------------------

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Structures:
        """Return the pack on a device; ids and columns stay in host memory."""
        if torch.device(device) == self.device:
            return self
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking)
            for name, value in self._fields().items()
            if isinstance(value, Tensor)
        }
        result = dataclasses.replace(self, **moved)
        result.__dict__["_host_bounds"] = self._host_bounds
        result.__dict__["symmetric"] = self.symmetric
        return result

    def replace(self, **changes: Any) -> Structures:
        """Return the pack with some fields changed, for example ``pack.replace(ids=None, columns={})``."""
        unknown = set(changes) - set(self._fields())
        if unknown:
            raise InputError(
                f"Structures has no field {sorted(unknown)[0]!r}; its fields are {', '.join(self._fields())}"
            )
        return dataclasses.replace(self, **changes)

    def single_labels(self) -> Structures:
        """Return the pack with every node's label columns joined into one, and every arc's likewise.

        The new vocabulary holds the combinations that occur, as text with ``|`` between the columns. Kernels and
        models of one categorical label read this.

        Examples
        --------
        >>> import hiddenfield as hf
        >>> pack = hf.data.from_sequences([["a", "b"]], arc_labels="direction").single_labels()
        >>> pack.arc_vocabularies[0].symbols
        ('next', 'previous')
        """
        from hiddenfield.data.labels import join_columns

        node_labels, node_vocabularies = join_columns(self.node_labels, self.node_vocabularies)
        arc_labels, arc_vocabularies = join_columns(self.arc_labels, self.arc_vocabularies)
        return dataclasses.replace(
            self,
            node_labels=node_labels,
            node_vocabularies=node_vocabularies,
            arc_labels=arc_labels,
            arc_vocabularies=arc_vocabularies,
        )

    def recode(
        self,
        node_vocabularies: Sequence[Vocabulary] | None = None,
        arc_vocabularies: Sequence[Vocabulary] | None = None,
    ) -> Structures:
        """Return the pack with its labels in other vocabularies, as a saved model needs them.

        A symbol that the new vocabulary lacks is an `UnknownSymbolError` that names it and its structure.
        """
        from hiddenfield.data.labels import recode_columns

        changes: dict[str, Any] = {}
        if node_vocabularies is not None:
            changes["node_labels"] = recode_columns(self, "node", tuple(node_vocabularies))
            changes["node_vocabularies"] = tuple(node_vocabularies)
        if arc_vocabularies is not None:
            changes["arc_labels"] = recode_columns(self, "arc", tuple(arc_vocabularies))
            changes["arc_vocabularies"] = tuple(arc_vocabularies)
        return dataclasses.replace(self, **changes)

    def describe(self) -> Description:
        """Count and summarise: sizes, degrees, label and target distributions, what is missing."""
        from hiddenfield.data.description import describe

        return describe(self)

    def name_of(self, position: int) -> str:
        """Name a structure for a message: its number and, where there is one, its id."""
        return f"structure {position}" + ("" if self.ids is None else f" ({str(self.ids[position])!r})")

    def _fields(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def __eq__(self, other: object) -> bool:
        """Compare everything, whatever the device; missing targets equal each other."""
        if not isinstance(other, Structures):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        return all(_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Sizes and what the pack carries, on one line."""
        plural = "" if len(self) == 1 else "s"
        parts = [f"{len(self):,} structure{plural}, {self.total_nodes:,} nodes, {self.total_arcs:,} arcs"]
        for kind, vocabularies in (("node", self.node_vocabularies), ("arc", self.arc_vocabularies)):
            if vocabularies:
                parts.append(f"{kind} labels: " + ", ".join(f"{v.name} ({len(v)})" for v in vocabularies))
        for kind, names in (("node", self.node_attribute_names), ("arc", self.arc_attribute_names)):
            if names:
                parts.append(f"{kind} attributes: {len(names)}")
        if self.target_names:
            parts.append("targets: " + ", ".join(self.target_names))
        if self.node_target_names:
            parts.append("node targets: " + ", ".join(self.node_target_names))
        if self.device.type != "cpu":
            parts.append(f"on {self.device}")
        return f"Structures({'; '.join(parts)})"


def _apply(function: Any, values: Tensor | None) -> Tensor | None:
    return None if values is None else function(values)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        if left.shape != right.shape:
            return False
        left, right = left.cpu(), right.cpu()
        same = left == right
        if left.is_floating_point() and right.is_floating_point():
            same |= left.isnan() & right.isnan()
        return bool(same.all())
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        same_kind = left.dtype.kind == "f" and right.dtype.kind == "f"
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=same_kind))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return type(left) is type(right) and bool(left == right)
