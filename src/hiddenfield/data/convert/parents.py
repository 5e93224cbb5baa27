"""Trees as parent arrays, both ways."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import as_ids, structure_error
from hiddenfield.data.convert.edge_lists import end_to_end, integer_rows
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Int

DIRECTIONS = Vocabulary("direction", ("down", "up"))
DOWN, UP = 0, 1
ROWS = ("node_labels", "node_attributes", "node_targets")


def from_parents(
    parents: Any,
    *,
    node_ptr: Any = None,
    arc_labels: Literal["direction", "position"] | None = None,
    **options: Any,
) -> Structures:
    r"""Build trees from parent arrays; every child is joined to its parent by two arcs, one each way.

    Parameters
    ----------
    parents
        One array per tree: entry i is the number, within the tree, of node i's parent; the one root has -1. Nodes
        may stand in any order, and a tree may be empty. With `node_ptr`: all trees end to end in one array.
    node_ptr
        Bounds of every tree's nodes in that one array.
    arc_labels
        None: no arc labels. ``"direction"``: one column, ``down`` (parent to child) or ``up``. ``"position"``: two
        columns, `direction` and `position`, the child's number 0, 1, ... among its siblings, which are
        ordered by node number; `Structures.single_labels` makes one label of the two.
    options
        As in `from_arcs`: `node_labels`, `node_attributes`, `node_targets` (one sequence of rows per tree; with
        `node_ptr` end to end), `targets`, `ids`, `columns`, and the names and vocabularies of these.

    Returns
    -------
    Structures
        Trees, checked. Cost: O(nodes log depth), vectorised over all trees.

    Raises
    ------
    InputError
        If a parent is out of range, a tree has no root or several, or there is a cycle; naming tree and node.

    Examples
    --------
    >>> trees = from_parents(
    ...     [[-1, 0, 0], [-1]], node_labels=[["S", "NP", "VP"], ["S"]], arc_labels="position"
    ... )
    >>> trees
    Structures(2 structures, 4 nodes, 4 arcs; node labels: label (3); arc labels: direction (2), position (2))
    >>> to_parents(trees)
    [array([-1,  0,  0]), array([-1])]
    >>> from_parents([[-1], [1, 0]])
    Traceback (most recent call last):
    hiddenfield.errors.InputError: structure 1: a tree has one root, whose parent is -1; this one has none
    """
    if arc_labels not in (None, "direction", "position"):
        raise InputError(f"arc_labels must be None, 'direction' or 'position', got {arc_labels!r}")
    if node_ptr is None:
        parent, sizes = integer_rows(parents, "parents", None)
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        ids = as_ids(options.get("ids"), len(sizes))
        for name in ROWS:
            if name in options:
                options[name] = end_to_end(options[name], sizes, name, "node", ids)
    else:
        parent, _ = integer_rows([parents], "parents", None)
        bounds, _ = integer_rows([node_ptr], "node_ptr", None)
        if not len(bounds) or bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] != len(parent):
            raise InputError(f"node_ptr must rise from 0 to the number of nodes, {len(parent)}")
        ids = as_ids(options.get("ids"), len(bounds) - 1)
    child, above = _checked(parent, bounds, ids)
    labels, vocabularies = _arc_labels(child, above, arc_labels)
    edges = len(child)
    return from_arcs(
        np.concatenate([above, child]),
        np.concatenate([child, above]),
        node_ptr=bounds,
        reverse=np.concatenate([np.arange(edges, 2 * edges), np.arange(edges)]),
        arc_labels=labels,
        arc_vocabularies=vocabularies,
        **options,
    )


def from_depths(depth: Int[Array, " nodes"], **options: Any) -> Structures:
    """Build trees from the depths of their nodes, in the order in which these open; each tree begins at a depth of 0.

    Options are those of `from_parents`, with node features end to end.

    Examples
    --------
    Two trees, the first ``a(b(c) d)``:

    >>> to_parents(from_depths(np.array([0, 1, 2, 1, 0])))
    [array([-1,  0,  1,  0]), array([-1])]
    """
    nodes, depth = np.arange(len(depth)), depth.astype(np.int64)
    order = np.argsort(depth, kind="stable")
    # The parent of node i is the last node before it that is one level higher: O(n log n), without recursion.
    found = (
        np.searchsorted(depth[order] * (len(depth) + 1) + order, (depth - 1) * (len(depth) + 1) + nodes) - 1
    )
    roots = np.flatnonzero(depth == 0)
    bounds = np.append(roots, len(depth))
    parents = np.where(depth > 0, order[found] - np.repeat(roots, np.diff(bounds)), -1)
    return from_parents(parents, node_ptr=bounds, **options)


def _checked(
    parent: Array, bounds: Array, ids: Array | None
) -> tuple[Int[Array, " edges"], Int[Array, " edges"]]:
    """Return every child and its parent, numbered through the pack, after checking that these are trees."""
    sizes = np.diff(bounds)
    tree = np.repeat(np.arange(len(sizes)), sizes)
    bad = np.flatnonzero((parent < -1) | (parent >= sizes[tree]))
    if len(bad):
        node, owner = int(bad[0]), int(tree[bad[0]])
        message = f"node {node - bounds[owner]} has parent {parent[node]}; expected a node (0 to {sizes[owner] - 1})"
        raise structure_error(f"{message}, or -1 for the root", owner, ids)
    roots = np.bincount(tree[parent < 0], minlength=len(sizes))
    odd = np.flatnonzero((roots != 1) & (sizes > 0))
    if len(odd):
        owner = int(odd[0])
        message = f"a tree has one root, whose parent is -1; this one has {roots[owner] or 'none'}"
        raise structure_error(message, owner, ids)
    child = np.flatnonzero(parent >= 0)
    above = parent[child] + bounds[tree[child]]
    _refuse_cycles(child, above, bounds, ids)
    return child, above


def _refuse_cycles(child: Array, above: Array, bounds: Array, ids: Array | None) -> None:
    """Follow the parents by pointer jumping: after k rounds every node looks at its ancestor 2^k levels up."""
    total = int(bounds[-1])
    ancestor = np.full(total + 1, total, dtype=np.int64)
    ancestor[child] = above
    deepest = int(np.diff(bounds).max(initial=0))
    for _ in range(deepest.bit_length()):
        if (ancestor == total).all():
            return
        ancestor = ancestor[ancestor]
    left = np.flatnonzero(ancestor != total)
    if len(left):
        owner = int(np.searchsorted(bounds, left[0], side="right")) - 1
        message = f"node {left[0] - bounds[owner]} never reaches the root by its parents; a tree has no cycle"
        raise structure_error(message, owner, ids)


def _arc_labels(
    child: Array, above: Array, kind: str | None
) -> tuple[Array | None, tuple[Vocabulary, ...] | None]:
    """Return the codes of the arcs, those downward first, and their vocabularies."""
    if kind is None:
        return None, None
    direction = np.repeat(np.array([DOWN, UP], dtype=np.int32), len(child))
    if kind == "direction":
        return direction[:, None], (DIRECTIONS,)
    order = np.argsort(above, kind="stable")
    grouped = above[order]
    first = np.flatnonzero(np.diff(grouped, prepend=-1))
    position = np.empty(len(child), dtype=np.int32)
    position[order] = np.arange(len(child)) - np.repeat(first, np.diff(np.append(first, len(child))))
    positions = Vocabulary("position", tuple(range(int(position.max(initial=-1)) + 1)))
    return np.stack([direction, np.tile(position, 2)], axis=1), (DIRECTIONS, positions)


def to_parents(structures: Structures) -> list[Int[Array, " nodes"]]:
    """Return the parent array of every tree; the inverse of `from_parents`.

    With a column `direction` among the arc labels (``down`` and ``up``, as `from_parents` makes it) the parents are
    read from it. Without, every structure is taken to hang from its first node: exact for trees that are numbered
    from the root, as all readers number them.

    Raises
    ------
    InputError
        Naming the first structure that is not a tree. Cost: linear.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> to_parents(hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3, 4]))
    [array([-1,  0,  1]), array([-1])]
    >>> to_parents(hf.data.from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3]))
    Traceback (most recent call last):
    hiddenfield.errors.InputError: structure 0 is not a tree: it has 3 nodes and 3 edges, a tree has one edge fewer
    """
    structures = structures.to("cpu")
    bounds = structures.node_ptr.numpy().astype(np.int64)
    sizes = np.diff(bounds)
    edges = structures.num_edges.numpy()
    odd = np.flatnonzero(edges != np.maximum(sizes - 1, 0))
    if len(odd):
        at = int(odd[0])
        raise InputError(
            f"{structures.name_of(at)} is not a tree: it has {sizes[at]} nodes and {edges[at]} edges, "
            "a tree has one edge fewer"
        )
    if not structures.symmetric:
        arc = int(np.argmax(structures.reverse.numpy() < 0))
        at = int(np.searchsorted(structures.arc_ptr.numpy(), arc, side="right")) - 1
        raise InputError(f"{structures.name_of(at)} is not a tree: it has arcs that go one way only")
    if structures.arc_labels is not None and DIRECTIONS in structures.arc_vocabularies:
        labels = structures.arc_labels[:, structures.arc_vocabularies.index(DIRECTIONS)]
        down = labels.numpy() == DOWN
        parent = np.full(structures.total_nodes, -1, dtype=np.int64)
        parent[structures.target.numpy()[down]] = structures.source.numpy()[down]
    else:
        parent = _from_first(structures, bounds)
    local = np.where(parent < 0, -1, parent - np.repeat(bounds[:-1], sizes))
    try:
        _checked(local, bounds, structures.ids)
    except InputError as error:
        raise InputError(
            f"{structures.name_of(error.structure or 0)} is not a tree: it falls into parts, or has a cycle"
        ) from None
    return np.split(local, bounds[1:-1]) if len(sizes) else []


def _from_first(structures: Structures, bounds: Array) -> Int[Array, " nodes"]:
    """Hang every structure from its first node: one breadth-first search from a node above all of these."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    total = structures.total_nodes
    roots = bounds[:-1][np.diff(bounds) > 0]
    indices = np.concatenate([structures.source.numpy(), roots])
    pointers = np.append(structures.in_ptr.numpy(), len(indices))
    graph = csr_array((np.ones(len(indices), dtype=np.int8), indices, pointers), shape=(total + 1, total + 1))
    _, before = breadth_first_order(graph, total, directed=True, return_predecessors=True)
    parent = before[:total].astype(np.int64)
    return np.where((parent < 0) | (parent == total), -1, parent)
