"""From an Arrow table to a pack: whoever made the table, what comes out has been checked throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.arrow.features import Lists, Reader, Source, first_null, to_numpy
from hiddenfield.data.arrow.schema import Layout, parse_layout
from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import as_extra, as_ids
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.errors import InputError, ReadError
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    import pyarrow


def from_arrow(table: pyarrow.Table, *, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from an Arrow table with one row per structure.

    Parameters
    ----------
    table
        With the list columns ``source`` and ``target``: node numbers within each structure, from 0. Everything else
        is optional: ``num_nodes`` (otherwise as many as the node columns have entries, or as the arcs need), ``id``,
        ``reverse``, ``node_label_<name>``, ``arc_label_<name>`` (lists of texts or integers), ``node_attributes``
        (lists of lists of numbers) or ``node_attribute_<name>`` (lists of numbers), the same for arcs,
        ``target_<name>`` and ``node_target_<name>`` (numbers or texts; null is missing). Any other column travels
        along. A table that `to_arrow` made says in its metadata what its codes stand for.
    columns
        The other columns to keep; all of them by default.

    Returns
    -------
    Structures

    Raises
    ------
    ReadError
        Naming the row, counted from 0.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table(
    ...     {"source": [[0, 1], []], "target": [[1, 0], []], "node_label_atom": [["C", "O"], ["N"]]}
    ... )
    >>> from_arrow(table)
    Structures(2 structures, 3 nodes, 2 arcs; node labels: atom (3))
    """
    layout = parse_layout(table.schema.metadata, table.column_names, None)
    return decode(Source(table), layout, columns)


def decode(source: Source, layout: Layout, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from a table whose layout is known; every failure is a `ReadError` with the file and row."""
    import pyarrow

    try:
        source.table.validate(full=True)
        return _decode(source, layout, columns)
    except ReadError:
        raise
    except (InputError, pyarrow.ArrowException, NotImplementedError, UnicodeDecodeError) as error:
        raise ReadError(str(error), file=source.file) from None
    except MemoryError:
        raise ReadError("does not fit into memory; is it damaged?", file=source.file) from None


def _decode(source: Source, layout: Layout, columns: Sequence[str] | None) -> Structures:
    layout = _checked_layout(source, layout, columns)
    starts, ends = source.lists("source"), source.lists("target")
    _same_lengths(source, ends, starts.lengths, "column 'source'")
    start, end = source.small_integers(starts), source.small_integers(ends)
    node_lists, arc_lists = _lists(source, layout, "node"), _lists(source, layout, "arc")
    sizes = _sizes(source, starts, start, end, node_lists)
    for lists in node_lists.values():
        _same_lengths(source, lists, sizes, "num_nodes")
    for lists in arc_lists.values():
        _same_lengths(source, lists, starts.lengths, "column 'source'")
    node_ptr, arc_ptr = (np.concatenate([[0], np.cumsum(counts)]) for counts in (sizes, starts.lengths))
    reverse = None
    if "reverse" in source.table.column_names:
        pairs = source.lists("reverse")
        _same_lengths(source, pairs, starts.lengths, "column 'source'")
        reverse = source.small_integers(pairs)
    start, end, reverse, in_ptr, ordered = _lay_out(source, node_ptr, arc_ptr, start, end, reverse)
    rows = {"structure": len(sizes), "node": int(node_ptr[-1]), "arc": int(arc_ptr[-1])}
    reader = Reader(source, layout.known, node_lists | arc_lists)
    features: dict[str, Any] = {
        name: reader.read(name, parts, rows[FEATURES[name]]) for name, parts in layout.features.items()
    }
    ids = as_ids(reader.ids() if layout.ids else None, len(sizes))
    extra = as_extra({column.name: reader.further(column.field) for column in layout.columns}, len(sizes))
    if not ordered or reverse is None:
        options = {"ids": ids, "columns": extra, **features}
        return from_arcs(start, end, node_ptr=node_ptr, reverse=reverse, **options)
    return Structures(
        node_ptr=torch.from_numpy(node_ptr.astype(in_ptr.dtype)),
        in_ptr=torch.from_numpy(in_ptr),
        source=torch.from_numpy(start),
        reverse=torch.from_numpy(reverse),
        features=features,
        ids=ids,
        columns=extra,
    )


def _checked_layout(source: Source, layout: Layout, columns: Sequence[str] | None) -> Layout:
    names = source.table.column_names
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise source.refuse(f"column {min(twice)!r} occurs twice; rename one")
    if not {"source", "target"} <= set(names):
        has = ", ".join(names)[:300]
        raise source.refuse(
            f"needs the columns 'source' and 'target' with lists of node numbers, it has: {has}"
        )
    if columns is None:
        return layout
    unknown = set(columns) - {column.name for column in layout.columns}
    if unknown:
        there = ", ".join(column.name for column in layout.columns) or "none"
        raise InputError(f"there is no further column {min(unknown)!r}; there are: {there}")
    return dataclasses.replace(layout, columns=tuple(c for c in layout.columns if c.name in columns))


def _lists(source: Source, layout: Layout, unit: str) -> dict[str, Lists]:
    """Return the list columns that have one entry per node, or per arc."""
    parts = [columns for name, columns in layout.features.items() if FEATURES[name] == unit]
    return {column.field: source.lists(column.field) for columns in parts for column in columns}


def _sizes(
    source: Source, starts: Lists, start: Array, end: Array, nodes: dict[str, Lists]
) -> Int[Array, " rows"]:
    """Return the number of nodes of each row: given, or as the node columns have it, or as the arcs need it."""
    import pyarrow

    if "num_nodes" in source.table.column_names:
        column = source.table["num_nodes"]
        source.expect("num_nodes", column.type, "integer")
        if column.null_count:
            raise source.refuse("column 'num_nodes' holds null", first_null(column))
        sizes = to_numpy(source.cast(column, pyarrow.int64(), "num_nodes"))
        bad = (sizes < 0) | (sizes >= 2**31)
        if bad.any():
            row = int(np.argmax(bad))
            raise source.refuse(f"num_nodes must be from 0 to 2**31 - 1, got {sizes[row]}", row)
        # Without a column that has an entry per node, this number alone would say how much memory is taken.
        if not nodes and int(sizes.sum()) >= 2**31:
            raise source.refuse(
                f"num_nodes adds up to {int(sizes.sum())} nodes that have no feature; split the table"
            )
        return sizes
    if nodes:
        return next(iter(nodes.values())).lengths
    needed = np.zeros(len(starts.lengths), dtype=np.int64)
    owner = np.repeat(np.arange(len(needed)), starts.lengths)
    np.maximum.at(needed, owner, np.maximum(start, end).astype(np.int64) + 1)
    return needed


def _same_lengths(source: Source, lists: Lists, expected: Array, reason: str) -> None:
    if not np.array_equal(lists.lengths, expected):
        row = int(np.argmax(lists.lengths != expected))
        raise source.refuse(
            f"column {lists.field!r} has {lists.lengths[row]} entries, but {reason} says {expected[row]}", row
        )


# -- the topology: checked and numbered through the pack in one compiled pass -------------------------------

WORDS = (
    "",
    "arc {arc} starts at node {value}, but the structure {nodes}",
    "arc {arc} ends at node {value}, but the structure {nodes}",
    "the reverse of arc {arc} is {value}, but the structure has {arcs} arcs",
    "the reverse of arc {arc} is arc {value}, which does not run between the same nodes the other way and back",
    "arc {arc} is a self-loop, which must be its own reverse, but its reverse is {value}",
)


def _lay_out(
    table: Source, node_ptr: Array, arc_ptr: Array, source: Array, target: Array, reverse: Array | None
) -> tuple[Array, Array, Array | None, Array, bool]:
    """Check the arcs of every structure and number nodes and arcs through the pack, in one pass.

    Every end must be a node of its structure; a reverse must be -1, or an arc of the structure that runs between the
    same two nodes the other way and whose own reverse is this one. A self-loop is its own reverse.

    Parameters
    ----------
    table
        For the error that names the first row whose arcs are wrong.
    node_ptr, arc_ptr
        int64 bounds of the structures' nodes and arcs.
    source, target, reverse
        int32, node and arc numbers within each structure.

    Returns
    -------
    Source, target, reverse and in_ptr, and whether the arcs stand by (target, source), as a pack has them.
    """
    nodes, arcs = int(node_ptr[-1]), int(arc_ptr[-1])
    dtype = np.int32 if max(nodes, arcs) < 2**31 else np.int64
    given = np.zeros(0, dtype=np.int32) if reverse is None else reverse
    new_source, new_target = np.empty(arcs, dtype=dtype), np.empty(arcs, dtype=dtype)
    new_reverse = np.empty(0 if reverse is None else arcs, dtype=dtype)
    in_ptr = np.zeros(nodes + 1, dtype=dtype)
    report = np.zeros(4, dtype=np.int64)  # ordered, problem, row, arc
    new = (new_source, new_target, new_reverse, in_ptr)
    _number(node_ptr, arc_ptr, source, target, given, *new, report, work=0)
    ordered, problem, row, arc = report.tolist()
    if problem:
        size, count = int(np.diff(node_ptr)[row]), int(np.diff(arc_ptr)[row])
        value = int((source, target, given, given, given)[problem - 1][arc])
        held = f"has nodes 0 to {size - 1}" if size else "has no nodes"
        number = arc - int(arc_ptr[row])
        raise table.refuse(WORDS[problem].format(arc=number, value=value, nodes=held, arcs=count), row)
    return new_source, new_target, None if reverse is None else new_reverse, in_ptr, bool(ordered)


@compiled
def _number(
    node_ptr: Array,
    arc_ptr: Array,
    source: Array,
    target: Array,
    reverse: Array,
    new_source: Array,
    new_target: Array,
    new_reverse: Array,
    in_ptr: Array,
    report: Array,
) -> None:
    ordered = 1
    for row in range(node_ptr.size - 1):
        first, size = node_ptr[row], node_ptr[row + 1] - node_ptr[row]
        start, end = arc_ptr[row], arc_ptr[row + 1]
        for arc in range(start, end):
            if source[arc] < 0 or source[arc] >= size:
                report[1], report[2], report[3] = 1, row, arc
                return
            if target[arc] < 0 or target[arc] >= size:
                report[1], report[2], report[3] = 2, row, arc
                return
            if arc > start and (
                target[arc] < target[arc - 1]
                or (target[arc] == target[arc - 1] and source[arc] < source[arc - 1])
            ):
                ordered = 0
            new_source[arc] = first + source[arc]
            new_target[arc] = first + target[arc]
            in_ptr[first + target[arc] + 1] += 1
        if reverse.size == 0:
            continue
        for arc in range(start, end):
            back = reverse[arc]
            if back < -1 or back >= end - start:
                report[1], report[2], report[3] = 3, row, arc
                return
            if source[arc] == target[arc] and back != arc - start:
                report[1], report[2], report[3] = 5, row, arc
                return
            new_reverse[arc] = -1
            if back >= 0:
                other = start + back
                same = source[other] == target[arc] and target[other] == source[arc]
                if not same or reverse[other] != arc - start:
                    report[1], report[2], report[3] = 4, row, arc
                    return
                new_reverse[arc] = other
    for node in range(in_ptr.size - 1):
        in_ptr[node + 1] += in_ptr[node]
    report[0] = ordered
