"""Structures: sequences, trees and graphs packed end to end, the input of everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from hiddenfield.data.columns import Columns, same_values, structure_name
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, UnknownSymbolError, checked_integer
from hiddenfield.ops import SegmentCut, Topology
from hiddenfield.shapes import Array, Bool, Float, Int, Shaped, Tensor

if TYPE_CHECKING:
    from hiddenfield.data.description import Description

# What a pack may carry besides its topology, and what each has one row for.
FEATURES = {
    "node_labels": "node",
    "arc_labels": "arc",
    "node_attributes": "node",
    "arc_attributes": "arc",
    "targets": "structure",
    "node_targets": "node",
}
LABELS = ("node_labels", "arc_labels")

T = TypeVar("T")


class _Part(Generic[T]):
    """One part (values, names or vocabularies) of one feature, as an attribute of the pack."""

    def __init__(self, feature: str, part: str) -> None:
        self.feature, self.part = feature, part

    def __get__(self, pack: Structures | None, owner: type | None = None) -> T:
        if pack is None:
            return self  # type: ignore[return-value]
        columns = pack.features.get(self.feature)
        absent: Any = None if self.part == "values" else ()
        return absent if columns is None else getattr(columns, self.part)


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
    features
        `Columns` by the names of `FEATURES`, each optional: ``node_labels`` and ``arc_labels`` (categorical),
        ``node_attributes`` and ``arc_attributes`` (continuous), ``targets`` and ``node_targets`` (what is to be
        predicted, NaN where missing). Their values, names and vocabularies are also attributes of the pack:
        `node_labels`, `node_vocabularies`, `node_attribute_names`, `targets`, `target_names` and so on.
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
    features: Mapping[str, Columns] = field(default_factory=dict)
    ids: Shaped[Array, " structures"] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)

    node_labels = _Part[Int[Tensor, "nodes node_columns"] | None]("node_labels", "values")
    node_vocabularies = _Part[tuple[Vocabulary, ...]]("node_labels", "vocabularies")
    arc_labels = _Part[Int[Tensor, "arcs arc_columns"] | None]("arc_labels", "values")
    arc_vocabularies = _Part[tuple[Vocabulary, ...]]("arc_labels", "vocabularies")
    node_attributes = _Part[Float[Tensor, "nodes node_dim"] | None]("node_attributes", "values")
    node_attribute_names = _Part[tuple[str, ...]]("node_attributes", "names")
    arc_attributes = _Part[Float[Tensor, "arcs arc_dim"] | None]("arc_attributes", "values")
    arc_attribute_names = _Part[tuple[str, ...]]("arc_attributes", "names")
    targets = _Part[Float[Tensor, "structures targets"] | None]("targets", "values")
    target_names = _Part[tuple[str, ...]]("targets", "names")
    target_vocabularies = _Part[tuple[Vocabulary | None, ...]]("targets", "vocabularies")
    node_targets = _Part[Float[Tensor, "nodes node_target_columns"] | None]("node_targets", "values")
    node_target_names = _Part[tuple[str, ...]]("node_targets", "names")
    node_target_vocabularies = _Part[tuple[Vocabulary | None, ...]]("node_targets", "vocabularies")

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
        rows = chosen.numpy()
        take: dict[str, Any] = {
            "node": nodes.take,
            "arc": arcs.take,
            "structure": lambda values: values[chosen.to(self.device, non_blocking=True)],
        }
        result = Structures(
            node_ptr=nodes.new_ptr.to(self.device, self.node_ptr.dtype, non_blocking=True),
            in_ptr=torch.cat([starts, starts.new_full((1,), int(arcs.new_ptr[-1]))]),
            source=arcs.take(self.source, nodes),
            reverse=arcs.take(self.reverse, arcs),
            features={name: columns.map(take[FEATURES[name]]) for name, columns in self.features.items()},
            ids=None if self.ids is None else self.ids[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
        )
        # What is known of the child is handed on: a batch of a symmetric pack is symmetric, its bounds are here.
        result.__dict__["_host_bounds"] = (nodes.new_ptr, arcs.new_ptr)
        result.__dict__["arc_ptr"] = arcs.new_ptr.to(self.device, self.node_ptr.dtype, non_blocking=True)
        if self.symmetric:
            result.__dict__["symmetric"] = True
        if not self.node_ptr.is_cpu or "longest_range" in vars(self):
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
        size = checked_integer(size, "the size of a batch", 1)
        order = np.random.default_rng(generator).permutation(len(self)) if shuffle else np.arange(len(self))
        return (self[order[start : start + size]] for start in range(0, len(self), size))

    # -- whole-pack operations -----------------------------------------------------------------------------

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Structures:
        """Return the pack on a device; ids and columns stay in host memory."""
        if torch.device(device) == self.device:
            return self

        def move(values: Tensor) -> Tensor:
            return values.to(device, non_blocking=non_blocking)

        arrays: dict[str, Any] = {
            name: move(getattr(self, name)) for name in ("node_ptr", "in_ptr", "source", "reverse")
        }
        features = {name: columns.map(move) for name, columns in self.features.items()}
        result = dataclasses.replace(self, features=features, **arrays)
        for name in {"_host_bounds", "symmetric"} | ({"longest_range"} & vars(self).keys()):
            result.__dict__[name] = getattr(self, name)
        return result

    def replace(self, **changes: Any) -> Structures:
        """Return the pack with some fields or attributes changed, for example ``pack.replace(ids=None, columns={})``.

        A feature is replaced by `Columns`, or in parts, such as ``targets=values, target_names=("pce",)``; what is not
        given stays, and the value None removes it.
        """
        features, parts = dict(self.features), dict[str, dict[str, Any]]()
        for name in [name for name in changes if name in PARTS]:
            parts.setdefault(PARTS[name].feature, {})[PARTS[name].part] = changes.pop(name)
        for feature, given in parts.items():
            replaced = _replaced(feature, features.pop(feature, None), given)
            features |= {} if replaced is None else {feature: replaced}
        known = [item.name for item in dataclasses.fields(self)]
        for name in set(changes) - set(known):
            raise InputError(
                f"Structures has no field {name!r}; its fields are {', '.join([*known, *PARTS])}"
            )
        return dataclasses.replace(self, **{"features": features, **changes})

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
        return self.replace(
            **{name: self.features[name].joined() for name in LABELS if name in self.features}
        )

    def recode(
        self,
        node_vocabularies: Sequence[Vocabulary] | None = None,
        arc_vocabularies: Sequence[Vocabulary] | None = None,
    ) -> Structures:
        """Return the pack with its labels in other vocabularies, as a saved model needs them.

        A symbol that the new vocabulary lacks is an `UnknownSymbolError` that names it and its structure.
        """
        features = dict(self.features)
        for kind, vocabularies in (("node", node_vocabularies), ("arc", arc_vocabularies)):
            if vocabularies is None:
                continue
            old = features.get(f"{kind}_labels")
            names, expected = [] if old is None else list(old.names), [v.name for v in vocabularies]
            if names != expected:
                raise InputError(
                    f"expected the {kind} label columns {expected}, but the structures have {names}; read them with "
                    "the same features"
                )
            if old is not None:
                features[f"{kind}_labels"] = old.recoded(vocabularies)
        unknown = self.unknown_symbols(node_vocabularies, arc_vocabularies)
        if unknown:
            position, reason = next(iter(unknown.items()))
            raise UnknownSymbolError(
                f"{self.name_of(position)}: {reason}; leave the structure out, or fit on data that has this symbol"
            )
        return dataclasses.replace(self, features=features)

    def unknown_symbols(
        self,
        node_vocabularies: Sequence[Vocabulary] | None = None,
        arc_vocabularies: Sequence[Vocabulary] | None = None,
    ) -> dict[int, str]:
        """Return the positions of structures with symbols that these vocabularies lack, and of each the first one.

        Columns of other names than the vocabularies are passed over.

        Examples
        --------
        >>> import hiddenfield as hf
        >>> hf.data.from_sequences(["TT", "CUU"]).unknown_symbols([Vocabulary("symbol", ("C", "T"))])
        {1: "symbol 'U' of node 1 is not among the 2 known symbols"}
        """
        found: dict[int, str] = {}
        for kind, words in (("node", node_vocabularies), ("arc", arc_vocabularies)):
            columns = self.features.get(f"{kind}_labels")
            if words is None or columns is None or columns.names != tuple(word.name for word in words):
                continue
            bounds = self._host_bounds[kind == "arc"].numpy()
            for codes, old, new in zip(columns.values.T, columns.vocabularies, words, strict=True):
                lost = None if old is None or old == new else old.recode_to(new) < 0
                if old is None or lost is None or not lost.any():
                    continue
                numbers = codes.cpu().numpy()
                rows = np.flatnonzero(lost[numbers])
                owners, first = np.unique(np.searchsorted(bounds, rows, side="right") - 1, return_index=True)
                for owner, row in zip(owners.tolist(), rows[first].tolist(), strict=True):
                    place = f"{old.name} {old.symbols[numbers[row]]!r} of {kind} {row - bounds[owner]}"
                    found.setdefault(owner, f"{place} is not among the {len(new)} known symbols")
        return dict(sorted(found.items()))

    def describe(self) -> Description:
        """Count and summarise: sizes, degrees, label and target distributions, what is missing."""
        from hiddenfield.data.description import describe

        return describe(self)

    def name_of(self, position: int) -> str:
        """Name a structure for a message: its number and, where there is one, its id."""
        return structure_name(position, self.ids)

    def __eq__(self, other: object) -> bool:
        """Compare everything, whatever the device; missing targets equal each other."""
        if not isinstance(other, Structures):
            return NotImplemented
        arrays = ("node_ptr", "in_ptr", "source", "reverse", "ids")
        return (
            self.features.keys() == other.features.keys()
            and self.columns.keys() == other.columns.keys()
            and all(same_values(getattr(self, name), getattr(other, name)) for name in arrays)
            and all(same_values(values, other.columns[name]) for name, values in self.columns.items())
            and all(columns == other.features[name] for name, columns in self.features.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Sizes and what the pack carries, on one line."""
        plural = "" if len(self) == 1 else "s"
        parts = [f"{len(self):,} structure{plural}, {self.total_nodes:,} nodes, {self.total_arcs:,} arcs"]
        for feature in FEATURES:
            names: Sequence[str] = getattr(self.features.get(feature), "names", ())
            if not names:
                continue
            if feature in LABELS:
                words = self.features[feature].vocabularies
                names = [f"{name} ({len(word or ())})" for name, word in zip(names, words, strict=True)]
            shown = str(len(names)) if feature.endswith("attributes") else ", ".join(names)
            parts.append(f"{feature.replace('_', ' ')}: {shown}")
        if self.device.type != "cpu":
            parts.append(f"on {self.device}")
        return f"Structures({'; '.join(parts)})"


PARTS = {name: part for name, part in vars(Structures).items() if isinstance(part, _Part)}


def _replaced(feature: str, old: Columns | None, given: dict[str, Any]) -> Columns | None:
    """Return a feature with some of its parts changed; what is not given stays where it still fits."""
    values = given.get("values", old)
    if values is None:
        return None
    if isinstance(values, Columns):
        old, values = values, values.values
    width = values.shape[1]
    kept = old if old is not None and len(old.names) == width else None
    words = given.get("vocabularies", (None,) * width if kept is None else kept.vocabularies)
    if feature in LABELS:
        names = tuple(word.name for word in words)
    else:
        names = given.get("names", () if kept is None else kept.names)
    return Columns(values, tuple(names), tuple(words))


# -- what may stand between the brackets of structures[index] ----------------------------------------------

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
    if isinstance(index, tuple):
        raise InputError(f"{EXPECTED}, got the tuple {index!r}; structures have one axis")
    try:
        array = np.asarray(index.detach().cpu() if isinstance(index, torch.Tensor) else index)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{EXPECTED}, got {type(index).__name__}: {index!r}"[:300])
    if array.ndim > 1:
        raise InputError(f"{EXPECTED}, got an array of shape {array.shape}")
    if array.dtype == bool and array.shape == (length,):
        return torch.from_numpy(np.flatnonzero(array))
    if array.dtype.kind in "bf" and array.size:
        what = f"a mask of shape {array.shape}" if array.dtype == bool else f"numbers of type {array.dtype}"
        raise InputError(f"{EXPECTED} for {length} structures, got {what}")
    chosen = array.astype(np.int64).reshape(-1)
    bad = (chosen < -length) | (chosen >= length)
    if bad.any():
        raise _OutOfRange(f"there are {length} structures (0 to {length - 1}), got index {chosen[bad][0]}")
    return torch.from_numpy(np.where(chosen < 0, chosen + length, chosen))


class _OutOfRange(InputError, IndexError):
    """An index beyond the pack; also an IndexError, so that Python's own protocols understand it."""


def segment_count(marked: Bool[Tensor, " rows"], ptr: Int[Tensor, " bounds"]) -> Int[Tensor, " segments"]:
    """Count the marked rows of every segment.

    Examples
    --------
    >>> segment_count(torch.tensor([True, False, True, True]), torch.tensor([0, 3, 3, 4]))
    tensor([2, 0, 1])
    """
    running = torch.cat([ptr.new_zeros(1, dtype=torch.int64), marked.cumsum(0)])
    return running[ptr.long()].diff().to(ptr.dtype)
