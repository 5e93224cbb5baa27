"""From an Arrow table to a pack: whoever made the table, what comes out has been checked throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.arrow.arcs import Arcs, Problem, lay_out
from hiddenfield.data.arrow.columns import Lists, Source, first_null, to_numpy
from hiddenfield.data.arrow.features import features
from hiddenfield.data.arrow.schema import Layout, parse_layout
from hiddenfield.data.build import from_arcs
from hiddenfield.data.features import as_attributes, as_columns, as_ids, as_labels, as_targets
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    import pyarrow

__all__ = ["decode", "from_arrow"]


def from_arrow(table: pyarrow.Table, *, columns: Sequence[str] | None = None) -> Structures:
    """Build a pack from an Arrow table with one row a structure.

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
    node_lists = _node_lists(source, layout)
    sizes = _sizes(source, starts, start, end, node_lists)
    for lists in node_lists.values():
        _same_lengths(source, lists, sizes, "num_nodes")
    node_ptr, arc_ptr = _bounds(sizes), _bounds(starts.lengths)
    reverse = None
    if "reverse" in source.table.column_names:
        pairs = source.lists("reverse")
        _same_lengths(source, pairs, starts.lengths, "column 'source'")
        reverse = source.small_integers(pairs)
    arcs = lay_out(node_ptr, arc_ptr, start, end, reverse)
    if isinstance(arcs, Problem):
        raise source.refuse(arcs.message, arcs.row)
    found = features(source, layout, node_lists, _arc_lists(source, layout, starts.lengths))
    found = _stacked(found, int(node_ptr[-1]), int(arc_ptr[-1]), len(sizes))
    return _assemble(arcs, node_ptr, arc_ptr, found)


def _checked_layout(source: Source, layout: Layout, columns: Sequence[str] | None) -> Layout:
    names = source.table.column_names
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise source.refuse(f"column {min(twice)!r} occurs twice; rename one")
    for name in ("source", "target"):
        if name not in names:
            raise source.refuse(
                f"needs the columns 'source' and 'target' with lists of node numbers, it has: {', '.join(names)}"[
                    :400
                ]
            )
    if columns is None:
        return layout
    unknown = set(columns) - {column.name for column in layout.columns}
    if unknown:
        there = ", ".join(column.name for column in layout.columns) or "none"
        raise InputError(f"there is no further column {min(unknown)!r}; there are: {there}")
    return dataclasses.replace(layout, columns=tuple(c for c in layout.columns if c.name in columns))


def _node_lists(source: Source, layout: Layout) -> dict[str, Lists]:
    parts = (*(layout.node_labels or ()), *(layout.node_attributes or ()), *(layout.node_targets or ()))
    return {field: source.lists(field) for field in dict.fromkeys(column.field for column in parts)}


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
        # Without a column that has an entry a node, this number alone would say how much memory is taken.
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
    return np.maximum(needed, 0)


def _same_lengths(source: Source, lists: Lists, expected: Array, reason: str) -> None:
    if not np.array_equal(lists.lengths, expected):
        row = int(np.argmax(lists.lengths != expected))
        raise source.refuse(
            f"column {lists.field!r} has {lists.lengths[row]} entries, but {reason} says {expected[row]}", row
        )


def _bounds(lengths: Array) -> Int[Array, " bounds"]:
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _arc_lists(source: Source, layout: Layout, lengths: Array) -> dict[str, Lists]:
    parts = (*(layout.arc_labels or ()), *(layout.arc_attributes or ()))
    lists = {field: source.lists(field) for field in dict.fromkeys(column.field for column in parts)}
    for column in lists.values():
        _same_lengths(source, column, lengths, "column 'source'")
    return lists


def _stacked(found: dict[str, Any], nodes: int, arcs: int, rows: int) -> dict[str, Any]:
    """Put columns side by side; a feature of no columns still has its rows."""
    for name, length in (
        ("node_labels", nodes),
        ("arc_labels", arcs),
        ("targets", rows),
        ("node_targets", nodes),
    ):
        if name in found:
            empty = np.zeros((length, 0), dtype=np.int32 if "labels" in name else np.float64)
            found[name] = np.stack(found[name], axis=1) if found[name] else empty
    for name, length in (("node_attributes", nodes), ("arc_attributes", arcs)):
        if name in found and found[name] is None:
            found[name] = np.zeros((length, 0), dtype=np.float32)
    return found


def _assemble(arcs: Arcs, node_ptr: Array, arc_ptr: Array, found: dict[str, Any]) -> Structures:
    """Make the pack: at once where the arcs stand in a pack's order with their reverses, else by sorting them."""
    if not arcs.ordered or arcs.reverse is None:
        return from_arcs(arcs.source, arcs.target, node_ptr=node_ptr, reverse=arcs.reverse, **found)
    rows, nodes, count = len(node_ptr) - 1, int(node_ptr[-1]), len(arcs.source)
    ids = as_ids(found["ids"], rows)
    parts: dict[str, Any] = {}
    for kind, total, bounds in (("node", nodes, node_ptr), ("arc", count, arc_ptr)):
        parts[f"{kind}_labels"], parts[f"{kind}_vocabularies"] = as_labels(
            found.get(f"{kind}_labels"), found.get(f"{kind}_vocabularies"), total, kind
        )
        parts[f"{kind}_attributes"], parts[f"{kind}_attribute_names"] = as_attributes(
            found.get(f"{kind}_attributes"), found.get(f"{kind}_attribute_names"), bounds, kind, ids
        )
    for prefix, total in (("", rows), ("node_", nodes)):
        keys = [f"{prefix}{part}" for part in ("targets", "target_names", "target_vocabularies")]
        values, names, words = (found.get(key) for key in keys)
        parts.update(zip(keys, as_targets(values, names, words, total, f"{prefix}target", None), strict=True))
    return Structures(
        node_ptr=torch.from_numpy(node_ptr.astype(arcs.in_ptr.dtype)),
        in_ptr=torch.from_numpy(arcs.in_ptr),
        source=torch.from_numpy(arcs.source),
        reverse=torch.from_numpy(arcs.reverse),
        ids=ids,
        columns=as_columns(found["columns"], rows),
        **parts,
    )
