"""From an Arrow table to a pack: whoever made the table, what comes out has been checked throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow.features import Lists, Reader, Source, first_null, to_numpy
from hiddenfield.data.arrow.schema import Layout, parse_layout
from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import StructureError
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.errors import InputError, ReadError
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
    rows = {"structure": len(sizes), "node": int(node_ptr[-1]), "arc": int(arc_ptr[-1])}
    reader = Reader(source, layout.known, node_lists | arc_lists)
    features: dict[str, Any] = {
        name: reader.read(name, parts, rows[FEATURES[name]]) for name, parts in layout.features.items()
    }
    try:
        return from_arcs(
            start,
            end,
            node_ptr=node_ptr,
            arc_ptr=arc_ptr,
            reverse=_reverse(source, starts.lengths, arc_ptr),
            ids=reader.ids() if layout.ids else None,
            columns={column.name: reader.further(column.field) for column in layout.columns},
            **features,
        )
    except StructureError as error:
        raise source.refuse(error.reason, error.structure) from None


def _reverse(source: Source, counts: Array, arc_ptr: Array) -> Int[Array, " arcs"] | None:
    """Return the column of reverse arcs, numbered through the pack; None where the table has none."""
    if "reverse" not in source.table.column_names:
        return None
    lists = source.lists("reverse")
    _same_lengths(source, lists, counts, "column 'source'")
    local, owner = source.small_integers(lists), np.repeat(np.arange(len(counts)), counts)
    wrong = (local < -1) | (local >= counts[owner])
    if wrong.any():
        arc = int(np.argmax(wrong))
        row = int(owner[arc])
        raise source.refuse(
            f"the reverse of arc {arc - arc_ptr[row]} is {local[arc]}, but the structure has {counts[row]} arcs",
            row,
        )
    return np.where(local < 0, -1, local + arc_ptr[owner])


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
