"""From a pack to an Arrow table: list columns are the pack's own arrays, cut at the structures' bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.arrow.schema import KEY, Column, Layout, layout_of_pack
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import pyarrow

__all__ = ["batches", "to_arrow"]

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 23
"""Structures, and nodes or arcs, of one record batch or row group: what `scan` holds in memory at a time."""


def to_arrow(structures: Structures) -> pyarrow.Table:
    """Return a pack as an Arrow table, one row a structure; `from_arrow` gives the same pack back.

    Cost: one pass over the arrays, batch by batch; nothing loops over structures.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4], node_labels=["C", "C", "O", "N"])
    >>> table = to_arrow(pack)
    >>> table.column_names
    ['num_nodes', 'source', 'target', 'reverse', 'node_label_label']
    >>> table["source"].to_pylist()
    [[1, 0, 2, 1], []]
    """
    import pyarrow

    parts = list(batches(structures))
    return pyarrow.Table.from_batches(parts, schema=parts[0].schema)


def batches(structures: Structures, shard: int | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the pack as record batches of bounded size; at least one, so that an empty pack keeps its schema."""
    import pyarrow

    pack = structures.to("cpu")
    layout = layout_of_pack(pack, shard)
    node_ptr, arc_ptr = pack.node_ptr.numpy().astype(np.int64), pack.arc_ptr.numpy().astype(np.int64)
    start = 0
    while True:
        end = _batch_end(start, node_ptr, arc_ptr)
        try:
            fields = _fields(pack, layout, slice(start, end), node_ptr, arc_ptr)
            schema = pyarrow.schema(
                [(name, array.type) for name, array in fields.items()], metadata={KEY: layout.to_json()}
            )
            batch = pyarrow.RecordBatch.from_arrays(list(fields.values()), schema=schema)
        except (pyarrow.ArrowException, UnicodeEncodeError, TypeError) as error:
            raise InputError(f"the pack cannot be expressed in Arrow: {error}") from None
        yield batch
        start = end
        if start >= len(pack):
            return


def _batch_end(start: int, node_ptr: Array, arc_ptr: Array) -> int:
    """Return the end of the batch that begins at a structure: one structure at least, else within the limits."""
    count = len(node_ptr) - 1
    by_nodes = int(np.searchsorted(node_ptr, node_ptr[start] + BATCH_VALUES, side="right")) - 1
    by_arcs = int(np.searchsorted(arc_ptr, arc_ptr[start] + BATCH_VALUES, side="right")) - 1
    end = min(count, start + BATCH_ROWS, max(start + 1, min(by_nodes, by_arcs)))
    if max(node_ptr[end] - node_ptr[start], arc_ptr[end] - arc_ptr[start]) >= 2**31:
        raise InputError(
            f"structure {start} has 2**31 nodes or arcs or more, which Arrow's lists cannot hold"
        )
    return end


def _fields(
    pack: Structures, layout: Layout, rows: slice, node_ptr: Array, arc_ptr: Array
) -> dict[str, pyarrow.Array]:
    import pyarrow

    node_bounds, arc_bounds = node_ptr[rows.start : rows.stop + 1], arc_ptr[rows.start : rows.stop + 1]
    nodes, arcs = slice(node_bounds[0], node_bounds[-1]), slice(arc_bounds[0], arc_bounds[-1])
    sizes, num_arcs = np.diff(node_bounds), np.diff(arc_bounds)
    first_node, first_arc = np.repeat(node_bounds[:-1], num_arcs), np.repeat(arc_bounds[:-1], num_arcs)
    reverse = pack.reverse.numpy()[arcs]
    by_node = pyarrow.array((node_bounds - node_bounds[0]).astype(np.int32))
    by_arc = pyarrow.array((arc_bounds - arc_bounds[0]).astype(np.int32))

    def lists(offsets: pyarrow.Array, values: Any) -> pyarrow.Array:
        return pyarrow.ListArray.from_arrays(offsets, values)

    fields: dict[str, pyarrow.Array] = {}
    if pack.ids is not None:
        fields["id"] = _plain(pack.ids[rows], "ids")
    fields["num_nodes"] = pyarrow.array(sizes.astype(np.int32))
    fields["source"] = lists(by_arc, _int32(pack.source.numpy()[arcs] - first_node))
    fields["target"] = lists(by_arc, _int32(pack.target.numpy()[arcs] - first_node))
    fields["reverse"] = lists(by_arc, _int32(np.where(reverse < 0, -1, reverse - first_arc)))
    for kind, offsets, chosen in (("node", by_node, nodes), ("arc", by_arc, arcs)):
        for k, column in enumerate(getattr(layout, f"{kind}_labels") or ()):
            fields[column.field] = lists(offsets, _int32(getattr(pack, f"{kind}_labels").numpy()[chosen, k]))
        if getattr(layout, f"{kind}_attributes"):
            values = getattr(pack, f"{kind}_attributes").numpy()[chosen]
            flat = pyarrow.array(np.ascontiguousarray(values, dtype=np.float32).reshape(-1))
            fields[f"{kind}_attributes"] = lists(
                offsets, pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
            )
    for k, column in enumerate(layout.targets or ()):
        fields[column.field] = _target(pack.targets.numpy()[rows, k], column)  # type: ignore[union-attr]
    for k, column in enumerate(layout.node_targets or ()):
        fields[column.field] = lists(by_node, _target(pack.node_targets.numpy()[nodes, k], column))  # type: ignore[union-attr]
    for column in layout.columns:
        fields[column.field] = _plain(pack.columns[column.name][rows], f"column {column.name!r}")
    return fields


def _int32(values: Array) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(np.ascontiguousarray(values, dtype=np.int32))


def _target(values: Array, column: Column) -> pyarrow.Array:
    """Return a target with null where it is missing: numbers as doubles, classes as codes."""
    import pyarrow

    missing = np.isnan(values)
    if column.vocabulary is None:
        return pyarrow.array(np.ascontiguousarray(values), mask=missing)
    return pyarrow.array(np.where(missing, 0, values).astype(np.int32), mask=missing)


def _plain(values: Array, what: str) -> pyarrow.Array:
    """Return texts or numbers as they are."""
    import pyarrow

    if values.dtype.kind == "T":
        texts = pyarrow.array(values.tolist(), type=pyarrow.string())
        if texts.null_count:
            raise InputError(f"{what}: a text is missing; fill it in before writing")
        return texts
    return pyarrow.array(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")))
