"""Graphs as lists of pairs of nodes, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from hiddenfield.data.build import from_arcs, from_edges
from hiddenfield.data.columns import as_ids, structure_name
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Int

NODE_ROWS = ("node_labels", "node_attributes", "node_targets")


def from_edge_lists(
    edges: Any,
    *,
    num_nodes: Any = None,
    directed: bool = False,
    edge_labels: Any = None,
    edge_attributes: Any = None,
    edge_vocabularies: Any = None,
    edge_attribute_names: Any = None,
    **options: Any,
) -> Structures:
    """Build graphs from one list of pairs each.

    Parameters
    ----------
    edges
        For every structure its edges: an array of shape (edges, 2), or a list of pairs; nodes count from 0.
    num_nodes
        Nodes of every structure. By default as many as its node labels, attributes or targets have rows, or else one
        more than the largest number among its edges.
    directed
        Whether a pair is one arc, from the first node to the second. Otherwise it is two, each the other's
        reverse; a loop is one arc either way.
    edge_labels, edge_attributes
        One sequence of rows per structure, in the order of the pairs (for several columns a mapping from names
        to such); both arcs of an edge carry them. The vocabularies and names are as in `from_edges`.
    options
        As in `from_arcs`: `node_labels`, `node_attributes`, `node_targets` (one sequence of rows per structure),
        `targets`, `ids`, `columns`, and the names and vocabularies of these.

    Returns
    -------
    Structures
        Cost: linear; the lists are joined once, and nothing loops over nodes or edges.

    Examples
    --------
    A triangle, a single node, an edge with two isolated nodes:

    >>> graphs = from_edge_lists([[(0, 1), (1, 2), (2, 0)], [], [(0, 1)]], num_nodes=[3, 1, 4])
    >>> graphs.num_nodes.tolist(), graphs.num_edges.tolist()
    ([3, 1, 4], [3, 0, 1])
    >>> [pairs.tolist() for pairs in to_edge_lists(graphs)]
    [[[0, 1], [0, 2], [1, 2]], [], [[0, 1]]]
    >>> from_edge_lists([[(0, 1)], [(0, 5)]], num_nodes=[2, 2])
    Traceback (most recent call last):
    hiddenfield.errors.InputError: structure 1: edge 0 ends at node 5, but the structure has nodes 0 to 1
    """
    pairs, counts = integer_rows(edges, "edges", 2)
    ids = as_ids(options.get("ids"), len(counts))
    edge_ptr = np.concatenate([[0], np.cumsum(counts)])
    sizes = _sizes(num_nodes, pairs, counts, options, ids)
    for name in NODE_ROWS:
        if name in options:
            options[name] = end_to_end(options[name], sizes, name, "node", ids)
    build, kind = (from_arcs, "arc") if directed else (from_edges, "edge")
    options |= {
        f"{kind}_labels": end_to_end(edge_labels, counts, "edge_labels", "edge", ids),
        f"{kind}_vocabularies": edge_vocabularies,
        f"{kind}_attributes": end_to_end(edge_attributes, counts, "edge_attributes", "edge", ids),
        f"{kind}_attribute_names": edge_attribute_names,
    }
    options |= {"node_ptr": np.concatenate([[0], np.cumsum(sizes)]), f"{kind}_ptr": edge_ptr}
    return build(*pairs.T, **options)


def _sizes(
    num_nodes: Any, pairs: Array, counts: Array, options: dict[str, Any], ids: Array | None
) -> Int[Array, " structures"]:
    """Return the number of nodes of every structure: given, or that of its node rows, or the largest number and one."""
    if num_nodes is not None:
        sizes, _ = integer_rows([num_nodes], "num_nodes", None)
        if len(sizes) and sizes.min() < 0:
            at = int(np.argmin(sizes))
            raise InputError(f"{structure_name(at, ids)}: num_nodes must not be negative, got {sizes[at]}")
        if len(sizes) != len(counts):
            raise InputError(
                f"num_nodes must have one entry for each of {len(counts)} structures, got {len(sizes)}"
            )
        return sizes
    for name in NODE_ROWS:
        rows = options.get(name)
        if rows is not None:
            return row_counts(next(iter(rows.values())) if isinstance(rows, dict) else rows, name)
    sizes = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(sizes, np.repeat(np.arange(len(counts)), counts), pairs.max(axis=1, initial=-1) + 1)
    return sizes


def to_edge_lists(structures: Structures, *, directed: bool | None = None) -> list[Int[Array, "edges 2"]]:
    """Return for every structure an array of pairs of node numbers; the inverse of `from_edge_lists`.

    Parameters
    ----------
    structures
        Any pack. The number of nodes is ``structures.num_nodes``; isolated nodes show nowhere else.
    directed
        True: one pair (source, target) per arc. False: one pair (smaller, larger) per edge, which needs every arc
        to have a reverse. By default undirected where that is possible.

    Returns
    -------
    list of arrays
        Of shape (edges, 2), sorted: by (smaller, larger), or by (target, source) if directed.

    Examples
    --------
    >>> to_edge_lists(from_edge_lists([[(1, 0), (1, 1)]], directed=True))
    [array([[1, 0],
           [1, 1]])]
    """
    pack = structures.to("cpu")
    _, pairs, bounds, _ = edges_of(pack, pack.reverse.numpy() < 0, directed, "arcs that go one way only")
    return np.split(pairs, bounds[1:-1]) if len(pack) else []


def edges_of(
    pack: Structures, one_way: Array, directed: bool | None, which: str
) -> tuple[Int[Array, " edges"], Int[Array, "edges 2"], Int[Array, " bounds"], bool]:
    """Return the arcs that stand for the edges, their ends within the structures, bounds, and whether it is directed.

    By default it is where there are arcs that are `one_way`; undirected ones may have none.
    """
    arc_ptr, reverse = pack.arc_ptr.numpy(), pack.reverse.numpy()
    if directed is False and one_way.any():
        at = int(np.searchsorted(arc_ptr, np.argmax(one_way), side="right")) - 1
        raise InputError(f"{pack.name_of(at)} has {which}; use directed=True")
    directed = bool(one_way.any()) if directed is None else directed
    kept = np.arange(len(reverse)) if directed else np.flatnonzero(reverse >= np.arange(len(reverse)))
    bounds = np.searchsorted(kept, arc_ptr)
    offsets = np.repeat(pack.node_ptr[:-1].numpy(), np.diff(bounds)).astype(np.int64)
    ends = [end.numpy()[kept] - offsets for end in (pack.source, pack.target)]
    # Of the two arcs of an edge the first is the one into the smaller node.
    return kept, np.stack(ends if directed else ends[::-1], axis=1), bounds, directed


# -- rows given structure by structure, laid end to end ------------------------------------------------------


def end_to_end(values: Any, sizes: Int[Array, " structures"], name: str, unit: str, ids: Array | None) -> Any:
    """Lay one sequence of rows per structure end to end; a mapping is treated column by column, None stays.

    Examples
    --------
    >>> end_to_end([["a", "b"], ["c"]], np.array([2, 1]), "node_labels", "node", None)
    ['a', 'b', 'c']
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {
            key: end_to_end(column, sizes, f"{name}[{key!r}]", unit, ids) for key, column in values.items()
        }
    counts = row_counts(values, name, len(sizes))
    wrong = np.flatnonzero(counts != sizes)
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"{structure_name(at, ids)}: {name} must have one row for each of {sizes[at]} {unit}s, got {counts[at]}"
        )
    parts = [part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else part for part in values]
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        # An empty structure's array may have any width and type: only the others decide.
        filled = [part for part in parts if len(part)] or parts[:1]
        if len({part.shape[1:] for part in filled}) > 1:
            raise InputError(
                f"{name} must have equally many columns everywhere, got {sorted({p.shape[1:] for p in filled})}"
            )
        return np.concatenate(filled)
    return list(
        chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in parts)
    )


def row_counts(values: Any, name: str, count: int | None = None) -> Int[Array, " structures"]:
    """Return how many rows each structure's part has; refuse what is not one sequence per structure."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(
        values, (Sequence, np.ndarray, torch.Tensor)
    ):
        raise InputError(f"{name} must be a list with one entry per structure, got {values!r:.200}")
    if count is not None and len(values) != count:
        raise InputError(f"{name} must have one entry for each of {count} structures, got {len(values)}")
    for at, part in enumerate(values):
        if isinstance(part, (str, bytes)) or not hasattr(part, "__len__") or getattr(part, "ndim", 1) == 0:
            raise InputError(
                f"structure {at}: {name} must hold one sequence of rows per structure, got {part!r:.200}; "
                "a single structure is a list of one"
            )
    return np.array([len(part) for part in values], dtype=np.int64)


def integer_rows(values: Any, name: str, width: int | None) -> tuple[Array, Int[Array, " structures"]]:
    """Lay integers end to end as one int64 array, (rows,) or (rows, width), with the number of rows of each part."""
    counts = row_counts(values, name)
    shape = (0,) if width is None else (0, width)
    parts = [np.zeros(shape, dtype=np.int64)]
    for at, part in enumerate(values):
        if not len(part):
            continue
        part = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else part
        try:
            array = np.asarray(part)
        except (ValueError, OverflowError):
            array = np.asarray(None)
        if array.dtype.kind not in "iu" or array.shape[1:] != shape[1:]:
            expected = "integers" if width is None else f"pairs of integers (rows of {width})"
            raise InputError(f"structure {at}: {name} must hold {expected}, got {_first_odd(part, width)}")
        if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
            raise InputError(f"{name} must fit 64-bit signed integers, got {array.max()}")
        parts.append(array.astype(np.int64, copy=False))
    return np.concatenate(parts), counts


def _first_odd(part: Any, width: int | None) -> str:
    """Say which row of a part is not as expected."""
    for row, entry in enumerate(part):
        array = np.asarray(entry, dtype=object)
        cells = array.reshape(-1).tolist()
        whole = all(isinstance(cell, (int, np.integer)) and not isinstance(cell, bool) for cell in cells)
        if not whole or array.shape != (() if width is None else (width,)):
            return f"{entry!r:.100} as entry {row}"
    return f"{type(part).__name__} of {getattr(part, 'dtype', 'mixed types')}"
