"""What the nodes of a pack see of the layers below: weighted rows of a transition table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.ops.compile import as_array
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

States = Float[Array, "nodes _"] | Int[Array, " nodes"]
"""Frozen states of a layer: the most likely one of each node, or the probabilities of all."""


@dataclass(frozen=True)
class Shape:
    """The rows of a layer's transition table.

    For every layer below and every arc label there is a row per state of a neighbour, and one more for "no neighbour
    along such an arc". The first layer of a model has nothing below, and one row: its prior.
    """

    num_labels: int
    below: tuple[int, ...] = ()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.group)

    @cached_property
    def group(self) -> Int[Array, " rows"]:
        """Of each row the pair (layer below, arc label), numbered in order."""
        sizes = [states + 1 for states in self.below for _ in range(self.num_labels)] or [1]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def absent(self) -> Int[Array, " groups"]:
        """The rows that stand for "no neighbour along such an arc", and the prior of a first layer."""
        return np.flatnonzero(np.diff(self.group, append=-1))


@dataclass(frozen=True, eq=False)
class Context:
    r"""Contexts of nodes: each a sum of weighted rows of the table, :math:`p_u = b + \sum_e w_e T_{r_e}`.

    With :math:`b` the sum of the rows for absence: each label that does arrive takes its row back, with weight -1, so
    that labels that do not arrive cost nothing.

    Parameters
    ----------
    shape
        Of the table.
    ptr, rows, weights
        Context c has the entries ``ptr[c]:ptr[c + 1]``.
    """

    shape: Shape
    ptr: Int[Array, " context_bounds"]
    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]

    def __len__(self) -> int:
        """Return the number of contexts."""
        return len(self.ptr) - 1

    @classmethod
    def of(cls, shape: Shape, matrix: csr_matrix) -> Context:
        """Take the rows of a matrix, (contexts, rows of the table)."""
        return cls(shape, matrix.indptr, matrix.indices, matrix.data)

    @property
    def matrix(self) -> csr_matrix:
        """The weights, (contexts, rows of the table)."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.weights, self.rows, self.ptr), shape=(len(self), self.shape.num_rows))


def arc_codes(structures: Structures) -> tuple[Int[Array, " arcs"], int]:
    """Return the label of every arc, all columns taken together as one, and how many there are."""
    if structures.arc_labels is None:
        return np.zeros(len(structures.source), np.int32), 1
    codes, count = np.zeros(len(structures.source), np.int64), 1
    for column, words in zip(as_array(structures.arc_labels).T, structures.arc_vocabularies, strict=True):
        codes, count = codes * len(words) + column, count * len(words)
    return codes.astype(np.int32), count


def see(structures: Structures, below: Sequence[tuple[States, int]]) -> Context:
    r"""Lay out what every node sees of the frozen states of layers below.

    Neighbours along arcs of label a have the weight :math:`1 / |Ne^a(u)|` each.

    Parameters
    ----------
    structures
        The pack; a node sees the sources of the arcs that arrive at it.
    below
        Of each layer below, its states and how many there are.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> path = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 4])
    >>> context = see(path, [(np.array([0, 1, 1, 0]), 2)])
    >>> [
    ...     list(zip(*(part[a:b].tolist() for part in (context.rows, context.weights))))
    ...     for a, b in zip(context.ptr[:-1], context.ptr[1:])
    ... ]
    [[(1, 1.0), (2, -1.0)], [(0, 0.5), (1, 0.5), (2, -1.0)], [(1, 1.0), (2, -1.0)], []]
    """
    from scipy.sparse import csr_matrix, hstack

    labels, num_labels = arc_codes(structures)
    shape = Shape(num_labels, tuple(count for _, count in below))
    in_ptr, source, nodes = as_array(structures.in_ptr), as_array(structures.source), structures.total_nodes
    parts = []
    for states, count in below:
        hard, width = states.ndim == 1, count + 1
        columns = labels[:, None] * width + (states[source, None] if hard else np.arange(count))
        values = np.ones(len(source)) if hard else states[source].reshape(-1)
        bounds = in_ptr * (1 if hard else count)
        seen = csr_matrix((values, columns.reshape(-1), bounds), shape=(nodes, num_labels * width))
        seen.sum_duplicates()
        owner, label = np.repeat(np.arange(nodes), np.diff(seen.indptr)), seen.indices // width
        first = np.flatnonzero(np.diff(owner * num_labels + label, prepend=-1))  # of a label at a node
        arrivals = np.add.reduceat(seen.data, first) if len(first) else seen.data
        seen.data /= np.repeat(arrivals, np.diff(first, append=seen.nnz))
        absent = label[first] * width + count
        bounds = np.concatenate([[0], np.cumsum(np.bincount(owner[first], minlength=nodes))])
        parts.append(seen - csr_matrix((np.ones(len(first)), absent, bounds), shape=seen.shape))
    matrix = hstack(parts, format="csr") if parts else csr_matrix((nodes, 1))
    matrix.sort_indices()
    return Context.of(shape, matrix)
