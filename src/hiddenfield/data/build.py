"""From arrays to a pack: everything is checked here, and nothing loops over structures or arcs in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hiddenfield.data.columns import (
    Columns,
    Unit,
    as_array,
    as_attributes,
    as_extra,
    as_ids,
    as_labels,
    as_targets,
    structure_error,
    structure_name,
)
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.ops import counting_sort, match_reverse
from hiddenfield.shapes import Array, Int, Tensor

Vocabularies = Sequence[Vocabulary | None] | None


def from_arcs(
    source: Any,
    target: Any,
    *,
    node_ptr: Any,
    arc_ptr: Any = None,
    reverse: Any = None,
    node_labels: Any = None,
    node_vocabularies: Vocabularies = None,
    arc_labels: Any = None,
    arc_vocabularies: Vocabularies = None,
    node_attributes: Any = None,
    node_attribute_names: Sequence[str] | None = None,
    arc_attributes: Any = None,
    arc_attribute_names: Sequence[str] | None = None,
    targets: Any = None,
    target_names: Sequence[str] | None = None,
    target_vocabularies: Vocabularies = None,
    node_targets: Any = None,
    node_target_names: Sequence[str] | None = None,
    node_target_vocabularies: Vocabularies = None,
    ids: Any = None,
    columns: Mapping[str, Any] | None = None,
) -> Structures:
    r"""Build a pack from directed arcs, checking everything.

    Parameters
    ----------
    source, target
        Where every arc starts and ends. Node numbers within each structure when `arc_ptr` is given, through the whole
        pack, in any order, when it is not.
    node_ptr
        Bounds of every structure's nodes: N + 1 integers from 0.
    arc_ptr
        Bounds of every structure's arcs.
    reverse
        For each arc, in the given order, the number of the same edge the other way (its own for a self-loop), or -1
        where there is none. Without it the k-th arc
        :math:`i \to j` (ordered by label) is paired with the k-th arc :math:`j \to i`.
    node_labels, arc_labels
        Codes, if the vocabularies are given; otherwise the symbols themselves (strings or integers), from which
        sorted vocabularies are made. One column, or a matrix with one column per feature.
    node_attributes, arc_attributes
        Finite numbers, one row per node or arc.
    targets, node_targets
        Numbers (NaN: missing), or class symbols (None: missing); one column or several. With a vocabulary for a
        column: its codes.
    ids, columns
        N strings; further arrays of length N.

    Labels, attributes and targets may also be given as `Columns`, which bring their names and vocabularies.

    Returns
    -------
    Structures
        With arcs sorted by (target, source). Cost: linear in nodes and arcs.

    Raises
    ------
    InputError
        Naming the structure, the arc or node, the value and what was expected.

    Examples
    --------
    A path of three nodes, one way, and a single node:

    >>> pack = from_arcs([0, 1], [1, 2], node_ptr=[0, 3, 4], node_labels=["a", "b", "a", "c"])
    >>> pack.num_nodes.tolist(), pack.num_arcs.tolist(), pack.reverse.tolist()
    ([3, 1], [2, 0], [-1, -1])
    >>> from_arcs([0], [7], node_ptr=[0, 3])
    Traceback (most recent call last):
    hiddenfield.errors.InputError: structure 0: arc 0 ends at node 7, but the pack's nodes are 0 to 2
    """
    node_bounds = _bounds(node_ptr, "node_ptr")
    count = len(node_bounds) - 1
    names = as_ids(ids, count)
    start, end = _indices(source, "source"), _indices(target, "target")
    if len(start) != len(end):
        raise InputError(
            f"source and target must have one entry per arc each, got {len(start)} and {len(end)}"
        )
    if arc_ptr is not None:
        start, end = _pack_wide(start, end, node_bounds, arc_ptr, names, "arc")
    else:
        _check_pack_wide(start, end, node_bounds, names)
    total_nodes, total_arcs = int(node_bounds[-1]), len(start)
    nodes = _unit("node", range(total_nodes), node_bounds, names)
    arcs, whole = _unit("arc", start, node_bounds, names), Unit.of_structures(count, names)
    symbols = as_labels(arc_labels, arc_vocabularies, arcs)
    numbers = as_attributes(arc_attributes, arc_attribute_names, arcs)
    given = None if reverse is None else _checked_reverse(reverse, start, end, arcs.place)
    codes = None if reverse is not None or symbols is None else symbols.values
    order, in_ptr = _sort(start, end, total_nodes, codes)
    if order is not None:
        start, end = start[order], end[order]
        symbols, numbers = _taken(symbols, order), _taken(numbers, order)
    dtype = np.int32 if max(total_nodes, total_arcs) < 2**31 else np.int64
    sorted_source = torch.from_numpy(np.ascontiguousarray(start, dtype=dtype))
    sorted_ptr = torch.from_numpy(np.ascontiguousarray(in_ptr, dtype=dtype))
    if given is None:
        matched = match_reverse(sorted_source, sorted_ptr)
    else:
        if order is not None:
            place = np.empty(total_arcs + 1, dtype=np.int64)
            place[order], place[-1] = np.arange(total_arcs), -1
            given = place[given[order]]
        matched = torch.from_numpy(given.astype(dtype))
    features = {
        "node_labels": as_labels(node_labels, node_vocabularies, nodes),
        "arc_labels": symbols,
        "node_attributes": as_attributes(node_attributes, node_attribute_names, nodes),
        "arc_attributes": numbers,
        "targets": as_targets(targets, target_names, target_vocabularies, whole),
        "node_targets": as_targets(node_targets, node_target_names, node_target_vocabularies, nodes),
    }
    return Structures(
        node_ptr=torch.from_numpy(node_bounds.astype(dtype)),
        in_ptr=sorted_ptr,
        source=sorted_source,
        reverse=matched,
        features={name: columns for name, columns in features.items() if columns is not None},
        ids=names,
        columns=as_extra(columns, count),
    )


def from_edges(
    first: Any,
    second: Any,
    *,
    node_ptr: Any,
    edge_ptr: Any = None,
    edge_labels: Any = None,
    edge_attributes: Any = None,
    edge_vocabularies: Vocabularies = None,
    edge_attribute_names: Sequence[str] | None = None,
    **options: Any,
) -> Structures:
    """Build a pack from undirected edges: each becomes two arcs that are each other's reverse, a loop one arc.

    Both arcs carry the edge's labels and attributes. Everything else is as in `from_arcs`.

    Examples
    --------
    A triangle and an edge:

    >>> pack = from_edges([0, 1, 2, 3], [1, 2, 0, 4], node_ptr=[0, 3, 5], edge_labels=["s", "s", "d", "s"])
    >>> pack.num_edges.tolist(), pack.num_arcs.tolist(), pack.symmetric
    ([3, 1], [6, 2], True)
    """
    one, other = _indices(first, "first"), _indices(second, "second")
    if len(one) != len(other):
        raise InputError(
            f"first and second must have one entry per edge each, got {len(one)} and {len(other)}"
        )
    bounds = _bounds(node_ptr, "node_ptr")
    names = as_ids(options.get("ids"), len(bounds) - 1)
    if edge_ptr is not None:
        one, other = _pack_wide(one, other, bounds, edge_ptr, names, "edge")
    # The smaller end first, so that parallel edges come out in one order, however their ends were given.
    one, other = np.minimum(one, other), np.maximum(one, other)
    edges = len(one)
    two_way = np.flatnonzero(one != other)
    reverse = np.arange(edges + len(two_way))
    reverse[two_way] = edges + np.arange(len(two_way))
    reverse[edges:] = two_way
    edge_of_arc = np.concatenate([np.arange(edges), two_way])
    unit = _unit("edge", one, bounds, names)
    labels = as_labels(edge_labels, edge_vocabularies, unit)
    attributes = as_attributes(edge_attributes, edge_attribute_names, unit)
    return from_arcs(
        np.concatenate([one, other[two_way]]),
        np.concatenate([other, one[two_way]]),
        node_ptr=node_ptr,
        reverse=reverse,
        arc_labels=_taken(labels, edge_of_arc),
        arc_attributes=_taken(attributes, edge_of_arc),
        **options,
    )


def _indices(values: Any, name: str) -> Int[Array, " rows"]:
    """Return a one-dimensional int64 array; refuse what is not made of integers."""
    array = as_array(values, name)
    if array.size == 0 and array.ndim <= 1:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a one-dimensional array of integers, got shape {array.shape} of {array.dtype}"
        )
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{name} must fit 64-bit signed integers, got {array.max()}")
    return array.astype(np.int64, copy=False)


def _bounds(values: Any, name: str) -> Int[Array, " bounds"]:
    bounds = _indices(values, name)
    if len(bounds) == 0 or bounds[0] != 0:
        raise InputError(
            f"{name} must start with 0 and have one more entry than there are structures, got {bounds[:3]}"
        )
    falling = np.flatnonzero(np.diff(bounds) < 0)
    if len(falling):
        at = int(falling[0])
        raise InputError(
            f"{name} must not fall, but entry {at} is {bounds[at]} and entry {at + 1} is {bounds[at + 1]}"
        )
    return bounds


def _pack_wide(
    start: Array, end: Array, node_ptr: Array, pointers: Any, ids: Array | None, unit: str
) -> tuple[Array, Array]:
    """Turn node numbers within structures into numbers through the pack, checking their range."""
    arc_ptr = _bounds(pointers, f"{unit}_ptr")
    if len(arc_ptr) != len(node_ptr):
        raise InputError(
            f"{unit}_ptr and node_ptr must be equally long, got {len(arc_ptr)} and {len(node_ptr)}"
        )
    if arc_ptr[-1] != len(start):
        raise InputError(f"{unit}_ptr ends at {arc_ptr[-1]}, but there are {len(start)} {unit}s")
    counts = np.diff(arc_ptr)
    sizes = np.repeat(np.diff(node_ptr), counts)
    for ends, verb in ((start, "starts"), (end, "ends")):
        # Seen as unsigned, a negative number is larger than any size.
        bad = ends.view(np.uint64) >= sizes.view(np.uint64)
        if bad.any():
            arc = int(np.argmax(bad))
            owner = int(np.searchsorted(arc_ptr, arc, side="right")) - 1
            nodes = f"has nodes 0 to {sizes[arc] - 1}" if sizes[arc] else "has no nodes"
            message = (
                f"{unit} {arc - int(arc_ptr[owner])} {verb} at node {ends[arc]}, but the structure {nodes}"
            )
            raise structure_error(message, owner, ids)
    offsets = np.repeat(node_ptr[:-1], counts)
    return start + offsets, end + offsets


def _check_pack_wide(start: Array, end: Array, node_ptr: Array, ids: Array | None) -> None:
    total = int(node_ptr[-1])
    for ends, others, verb in ((start, end, "starts"), (end, start, "ends")):
        bad = np.flatnonzero((ends < 0) | (ends >= total))
        if len(bad):
            arc = int(bad[0])
            known = 0 <= others[arc] < total
            owner = int(np.searchsorted(node_ptr, others[arc], side="right")) - 1 if known else None
            place = "" if owner is None else structure_name(owner, ids) + ": "
            nodes = f"the pack's nodes are 0 to {total - 1}" if total else "the pack has no nodes"
            raise InputError(f"{place}arc {arc} {verb} at node {ends[arc]}, but {nodes}")
    if len(node_ptr) == 2:
        return
    structure = np.repeat(np.arange(len(node_ptr) - 1, dtype=np.int32), np.diff(node_ptr))
    crossing = np.flatnonzero(structure[start] != structure[end])
    if len(crossing):
        arc = int(crossing[0])
        raise InputError(
            f"arc {arc} goes from node {start[arc]} of {structure_name(int(structure[start[arc]]), ids)} "
            f"to node {end[arc]} of {structure_name(int(structure[end[arc]]), ids)}; an arc must stay within "
            "one structure"
        )


def _sort(start: Array, end: Array, total: int, labels: Tensor | None) -> tuple[Array | None, Array]:
    """Return the order of the arcs by (target, source, label), None if they stand so, and the in-bounds."""
    same_target = end[1:] == end[:-1]
    if np.all((end[1:] > end[:-1]) | (same_target & (start[1:] >= start[:-1]))):
        order, in_ptr = None, np.concatenate([[0], np.cumsum(np.bincount(end, minlength=total))])
    else:
        order, in_ptr = _order(start, end, total, np.arange(len(start)))
    if labels is not None and labels.shape[1]:
        first, second = (start, end) if order is None else (start[order], end[order])
        if bool(np.any((first[1:] == first[:-1]) & (second[1:] == second[:-1]))):
            # Parallel arcs: order them by label, so that arcs of one label are paired with each other.
            by_label = np.lexsort(labels.numpy().T[::-1])
            order, in_ptr = _order(start, end, total, by_label)
    return order, in_ptr


def _order(start: Array, end: Array, total: int, before: Array) -> tuple[Array, Array]:
    """Sort stably by source, then by target: linear time, and equal pairs stay in the order `before`."""
    by_source, _ = counting_sort(torch.from_numpy(start[before]), total)
    order = before[by_source.numpy()]
    by_target, in_ptr = counting_sort(torch.from_numpy(end[order]), total)
    return order[by_target.numpy()], in_ptr.numpy().astype(np.int64)


def _checked_reverse(reverse: Any, start: Array, end: Array, place: Any) -> Array:
    """Return the reverse that the caller gives, once every pair of arcs has been checked."""
    given = _indices(reverse, "reverse")
    arcs = len(start)
    if len(given) != arcs:
        raise InputError(f"reverse must have one entry per arc ({arcs}), got {len(given)}")
    if arcs and (given.min() < -1 or given.max() >= arcs):
        at = int(np.argmax((given < -1) | (given >= arcs)))
        error, arc = place(at)
        raise error(
            f"the reverse of {arc} must be -1 or an arc of the pack, 0 to {arcs - 1}, got {given[at]}"
        )
    own = np.arange(arcs)
    wrong = (start == end) & (given != own)
    if wrong.any():
        at = int(np.argmax(wrong))
        error, arc = place(at)
        other = -1 if given[at] < 0 else place(int(given[at]))[1]
        raise error(f"{arc} is a self-loop, which must be its own reverse, but its reverse is {other}")
    # An arc without a reverse is compared with the last one, and then left out.
    wrong = (start != end[given]) | (end != start[given]) | (given[given] != own)
    wrong &= given >= 0
    if wrong.any():
        at = int(np.argmax(wrong))
        (error, arc), (_, other) = place(at), place(int(given[at]))
        raise error(
            f"the reverse of {arc} is {other}, which does not run between the same nodes the other way and back"
        )
    return given


def _taken(columns: Columns | None, rows: Array) -> Columns | None:
    return None if columns is None else columns.take(rows)


def _unit(kind: str, node: Array | range, node_ptr: Array, ids: Array | None) -> Unit:
    """Return the nodes, arcs or edges, whose structure is found by one of their nodes each."""

    def place(row: int) -> tuple[Callable[[str], InputError], str]:
        if not 0 <= node[row] < node_ptr[-1]:
            return InputError, f"{kind} {row}"  # whose ends are refused later
        owner = int(np.searchsorted(node_ptr, node[row], side="right")) - 1
        before = np.asarray(node[:row])
        number = int(np.count_nonzero((before >= node_ptr[owner]) & (before < node_ptr[owner + 1])))
        return lambda message: structure_error(message, owner, ids), f"{kind} {number}"

    return Unit(kind, len(node), place)


# -- several packs end to end -------------------------------------------------------------------------------


def concatenate(packs: Sequence[Structures]) -> Structures:
    """Put packs end to end.

    All must carry the same kinds of features, with the same names. Vocabularies may differ: the result has their
    union, the first one's symbols first, and the codes follow.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> both = concatenate([hf.data.from_sequences(["AC"]), hf.data.from_sequences(["GC", "T"])])
    >>> len(both), both.node_vocabularies[0].symbols
    (3, ('A', 'C', 'G', 'T'))
    """
    packs = list(packs)
    if not packs:
        raise InputError("concatenate needs at least one pack, got none")
    first = packs[0]
    if len(packs) == 1:
        return first
    for position, pack in enumerate(packs[1:], start=1):
        _check_same_kind(first, pack, position)
    packs = [pack.to(first.device) for pack in packs]
    node_at = np.cumsum([0] + [pack.total_nodes for pack in packs]).tolist()
    arc_at = np.cumsum([0] + [pack.total_arcs for pack in packs]).tolist()
    dtype = torch.int32 if max(node_at[-1], arc_at[-1]) < 2**31 else torch.int64

    def shifted(name: str, offsets: list[int]) -> Tensor:
        parts = [getattr(pack, name).to(dtype) for pack in packs]
        return torch.cat([torch.where(p < 0, p, p + at) for p, at in zip(parts, offsets, strict=False)])

    def bounds(name: str, offsets: list[int]) -> Tensor:
        parts = [getattr(pack, name)[:-1].to(dtype) + at for pack, at in zip(packs, offsets, strict=False)]
        return torch.cat([*parts, parts[0].new_full((1,), offsets[-1])])

    return Structures(
        node_ptr=bounds("node_ptr", node_at),
        in_ptr=bounds("in_ptr", arc_at),
        source=shifted("source", node_at),
        reverse=shifted("reverse", arc_at),
        features={
            name: Columns.concatenate([pack.features[name] for pack in packs]) for name in first.features
        },
        ids=None if first.ids is None else np.concatenate([pack.ids for pack in packs]),
        columns={name: np.concatenate([pack.columns[name] for pack in packs]) for name in first.columns},
    )


def _check_same_kind(first: Structures, other: Structures, position: int) -> None:
    def kinds(pack: Structures) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in FEATURES:
            columns, what = pack.features.get(name), name.replace("_", " ")
            found[what] = "none" if columns is None else list(columns.names)
            if name.endswith("targets"):
                words = () if columns is None else columns.vocabularies
                found[f"classes of {what}"] = [word is not None for word in words]
        return found | {"ids": pack.ids is not None, "columns": sorted(pack.columns)}

    mine, theirs = kinds(first), kinds(other)
    for what, expected in mine.items():
        if theirs[what] != expected:
            raise InputError(
                f"packs to concatenate must carry the same features: pack 0 has {what} {expected}, pack {position} has "
                f"{theirs[what]}; use replace() to add or drop what differs"
            )
