"""Sequences and trees as hidden Markov models see them: nodes that know their parents, and what was observed there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.convert.parents import from_parents, to_parents
from hiddenfield.data.rows import Rows
from hiddenfield.data.structures import Structures
from hiddenfield.data.table import Table
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Int

CHUNKS = 16
"""Parts of the data whose counts are added up on their own, whatever the number of threads."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees end to end, every parent before its children; a sequence is a tree in which each node has one child.

    Parameters
    ----------
    structure_ptr
        Bounds of every tree's nodes.
    parent
        The parent of every node, numbered through the forest; -1 at a root.
    order
        Where every node stood as the trees were given.

    Examples
    --------
    >>> Forest.of_parents([[1, -1, 1], [-1]]).parent.tolist()
    [-1, 0, 0, -1]
    >>> Forest.of_lengths([3, 1]).parent.tolist()
    [-1, 0, 1, -1]
    """

    structure_ptr: Int[Array, " structure_bounds"]
    parent: Int[Array, " nodes"]
    order: Int[Array, " nodes"]

    @classmethod
    def of_lengths(cls, lengths: Any) -> Forest:
        """Return sequences of these lengths."""
        bounds = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)
        parent = np.arange(-1, bounds[-1] - 1)
        parent[bounds[:-1][np.diff(bounds) > 0]] = -1
        return cls(bounds, parent, np.arange(bounds[-1]))

    @classmethod
    def of_parents(cls, parents: Sequence[Any]) -> Forest:
        """Return the trees with these parent arrays: entry i is the parent of node i, -1 for the one root."""
        return cls._sorted(to_parents(from_parents(parents, arc_labels="direction")))

    @classmethod
    def of_structures(cls, structures: Structures) -> Forest:
        """Return the trees or sequences of a pack; see `to_parents`."""
        return cls._sorted(to_parents(structures))

    @classmethod
    def _sorted(cls, parents: Sequence[Array]) -> Forest:
        """Bring every node behind its parent: sort by depth."""
        sizes = [len(each) for each in parents]
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        parent = np.concatenate([np.zeros(0, np.int64), *parents]).astype(np.int64)
        parent = np.where(parent < 0, -1, parent + np.repeat(bounds[:-1], sizes))
        nodes = np.arange(len(parent))
        if (parent < nodes).all():
            return cls(bounds, parent, nodes)
        order = np.lexsort((_depth(parent), np.repeat(np.arange(len(sizes)), sizes)))
        position = np.append(np.argsort(order), -1)
        return cls(bounds, position[parent[order]], order)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.structure_ptr) - 1

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.parent)

    @cached_property
    def in_order(self) -> bool:
        """Whether the nodes stand as they were given."""
        return bool((self.order == np.arange(self.num_nodes)).all())

    @cached_property
    def structure_of_node(self) -> Int[Array, " nodes"]:
        """The number of each node's tree."""
        return np.repeat(np.arange(len(self)), np.diff(self.structure_ptr))

    @cached_property
    def depth(self) -> Int[Array, " nodes"]:
        """How many arcs lie between the root and each node."""
        return _depth(self.parent)

    @cached_property
    def is_chain(self) -> bool:
        """Whether all trees are sequences."""
        nodes = np.arange(self.num_nodes)
        return bool(((self.parent < 0) | (self.parent == nodes - 1)).all())

    @cached_property
    def longest(self) -> int:
        """The number of nodes of the largest tree."""
        return int(np.diff(self.structure_ptr).max(initial=0))

    @cached_property
    def chunk_ptr(self) -> Int[Array, " chunk_bounds"]:
        """Bounds of parts of about the same number of nodes; they depend on the trees alone."""
        wanted = np.linspace(0, self.num_nodes, min(CHUNKS, max(1, len(self))) + 1)[1:-1]
        inner = np.searchsorted(self.structure_ptr, wanted)
        return np.concatenate([[0], inner, [len(self)]]).astype(np.int64)

    @cached_property
    def children(self) -> tuple[Int[Array, " node_bounds"], Int[Array, " arcs"]]:
        """The children of every node: their bounds, and they themselves."""
        below = np.flatnonzero(self.parent >= 0)
        below = below[np.argsort(self.parent[below], kind="stable")]
        counts = np.bincount(self.parent[below], minlength=self.num_nodes)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), below

    def take(self, trees: Int[Array, " chosen"]) -> tuple[Forest, Int[Array, " nodes"]]:
        """Return some of the trees, and the numbers of their nodes."""
        sizes = np.diff(self.structure_ptr)[trees]
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        shift = np.repeat(self.structure_ptr[:-1][trees] - bounds[:-1], sizes)
        nodes = np.arange(bounds[-1]) + shift
        parent = np.where(self.parent[nodes] < 0, -1, self.parent[nodes] - shift)
        return Forest(bounds, parent, np.argsort(np.argsort(self.order[nodes]))), nodes


def _depth(parent: Int[Array, " nodes"]) -> Int[Array, " nodes"]:
    """Return the depth of every node, by pointer jumping: O(nodes log depth)."""
    # Entry -1 of both arrays stands above all roots.
    ancestor, depth = np.append(parent, -1), np.append(np.ones(len(parent), np.int64), 0)
    while (ancestor >= 0).any():
        depth, ancestor = depth + depth[ancestor], ancestor[ancestor]
    return depth[:-1] - 1


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences or trees and what was observed at their nodes: a row of a table, any cell of which may be missing.

    Parameters
    ----------
    forest
        The trees.
    table
        Distinct observations.
    row
        The observation of each node, a row of the table.
    weights
        How many times each tree counts; None for once.
    """

    forest: Forest
    table: Table
    row: Int[Array, " nodes"]
    weights: Float[Array, " structures"] | None = None

    @classmethod
    def of(
        cls, forest: Forest, table: Table, weights: Float[Array, " structures"] | None = None
    ) -> Sequences:
        """Put trees and a table together, whose rows are the nodes in the order in which these were given."""
        if len(table) != forest.num_nodes:
            raise InputError(f"{forest.num_nodes:,} nodes need as many observations, got {len(table):,}")
        if len(table) and not np.isfinite(table.values[~table.missing]).all():
            row, column = np.argwhere(np.isinf(table.values))[0]
            raise InputError(
                f"observation {row} of column {table.names[column]!r} is {table.values[row, column]}; expected a "
                "finite number, or NaN where it is missing"
            )
        distinct, number = table.distinct()
        return cls(forest, replace(distinct, weights=None), number[forest.order].astype(np.int64), weights)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.forest)

    @property
    def size(self) -> int:
        """The number of nodes, which a turn goes over."""
        return self.forest.num_nodes

    def __getitem__(self, chosen: Any) -> Sequences:
        """Return some of the trees."""
        trees = np.arange(len(self))[chosen]
        forest, nodes = self.forest.take(trees)
        return Sequences(
            forest, self.table, self.row[nodes], None if self.weights is None else self.weights[trees]
        )

    @cached_property
    def rows(self) -> Rows:
        """The cells of the table."""
        return Rows(self.table.values)

    @property
    def tree_weights(self) -> Float[Array, " structures"]:
        """The weights, 1 where none were given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @property
    def compact(self) -> bool:
        """Whether observations recur so much that each part of the data can count them on its own."""
        return len(self.table) * CHUNKS <= self.forest.num_nodes

    @cached_property
    def place(self) -> Int[Array, " nodes"]:
        """Where the posterior of each node is added up: with its part's equal observations, or on its own."""
        if not self.compact:
            return np.arange(self.forest.num_nodes)
        chunk = np.searchsorted(self.forest.chunk_ptr, self.forest.structure_of_node, side="right") - 1
        return chunk * len(self.table) + self.row

    def add_up(self, posterior: Float[Array, "nodes states"]) -> Float[Array, "rows states"]:
        """Add what nodes have up over those of equal observations."""
        total = np.zeros((len(self.table), posterior.shape[1]))
        if len(total) == len(posterior):
            total[self.row] = posterior
        else:
            from scipy.sparse import csr_array

            nodes = np.arange(len(self.row))
            total += csr_array((np.ones(len(nodes)), (self.row, nodes)), (len(total), len(nodes))) @ posterior
        return total
