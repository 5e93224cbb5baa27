"""What the nodes of a pack see of the layers below: weighted rows of a transition table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.models.cgmm.loops import entry_counts, fill_entries
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.equal_rows import Rows
from hiddenfield.shapes import Array, Float, Int

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

    @cached_property
    def first_rows(self) -> list[int]:
        """The first row of each layer below, and the number of rows."""
        sizes = [self.num_labels * (states + 1) for states in self.below] or [1]
        return [0, *np.cumsum(sizes).tolist()]

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.first_rows[-1]

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

    def take(self, chosen: Int[Array, " chosen"]) -> Context:
        """Return some of them, in that order."""
        cut = Rows(self.ptr, np.arange(len(self.rows))).take(chosen)
        return Context(self.shape, cut.ptr, self.rows[cut.values], self.weights[cut.values])

    @classmethod
    def joined(cls, parts: Sequence[Context]) -> Context:
        """Return the contexts of all parts, which are of one table, end to end."""
        sizes = np.concatenate([np.diff(part.ptr) for part in parts])
        rows, weights = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "weights")
        )
        return cls(parts[0].shape, np.concatenate([[0], np.cumsum(sizes)]), rows, weights)


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
    [[(2, -1.0), (1, 1.0)], [(2, -1.0), (0, 0.5), (1, 0.5)], [(2, -1.0), (1, 1.0)], []]
    """
    labels, num_labels = arc_codes(structures)
    shape = Shape(num_labels, tuple(count for _, count in below))
    in_ptr, source = as_array(structures.in_ptr), as_array(structures.source)
    layers = [states[:, None] if states.ndim == 1 else states for states, _ in below]
    counts = np.zeros(structures.total_nodes, np.int64)
    work = len(source) + len(counts)
    for states in layers:
        entry_counts(in_ptr, labels, num_labels, states.shape[1], counts, work=work)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    rows, weights, cursor = np.empty(ptr[-1], np.int32), np.empty(ptr[-1]), ptr[:-1].copy()
    for first, count, states in zip(shape.first_rows, shape.below, layers, strict=False):
        fill_entries(
            in_ptr, source, labels, states, first, count + 1, num_labels, cursor, rows, weights, work=work
        )
    return Context(shape, ptr, rows, weights)
