"""Kernels that count coloured nodes, arcs and shortest paths: Weisfeiler-Lehman's three, and plain shortest paths."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.structures import Structures
from hiddenfield.kernels.base import CHUNK, KERNELS, FeatureKernel, Labels, tally
from hiddenfield.kernels.refinement import refine, weisfeiler_lehman
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SHERVASHIDZE = "Shervashidze et al. 2011"


@KERNELS.register(
    "wl_subtree", input="graphs", summary="colours of nodes under refinement", reference=SHERVASHIDZE
)
@dataclass(kw_only=True, eq=False, repr=False)
class WLSubtree(FeatureKernel):
    """Count the colours of nodes in each round of Weisfeiler-Lehman refinement; see `weisfeiler_lehman`.

    Linear in nodes and arcs. Every node counts, isolated ones too.

    Parameters
    ----------
    rounds
        How often colours are refined.
    use_arc_labels
        Whether the labels of arcs count.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> WLSubtree(rounds=1).fit(words).gram(words)
    array([[4., 4., 2.],
           [4., 4., 2.],
           [2., 2., 8.]])
    """

    rounds: int = 3
    use_arc_labels: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = FeatureKernel._parameter_constraints | {
        "rounds": [Interval(Integral, 0, None, closed="left")],
        "use_arc_labels": ["boolean"],
    }

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the first node of a colour, and those from which it can be reached in as many rounds."""
        colours = self.columns_[0]
        every, _ = refine(structure, self.rounds, vocabulary=colours)
        step = int(np.searchsorted(colours.offsets, column, side="right")) - 1
        found = np.flatnonzero(every[step] == column - colours.offsets[step])
        near = found[:1]
        ends = structure.source.cpu().numpy(), structure.target.cpu().numpy()
        for _ in range(step if len(found) else 0):
            near = np.union1d(near, ends[0][np.isin(ends[1], near)])
        return near if len(found) else None

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        vocabulary = None if known is None else known[0]
        yield (
            1.0,
            *weisfeiler_lehman(
                structures, self.rounds, vocabulary=vocabulary, use_arc_labels=self.use_arc_labels
            ),
        )


@KERNELS.register(
    "wl_assignment",
    input="graphs",
    summary="the best assignment of nodes to nodes by colours",
    reference="Kriege, Giscard & Wilson 2016",
)
@dataclass(kw_only=True, eq=False, repr=False)
class WLAssignment(WLSubtree):
    r"""Assign the nodes of the smaller structure to nodes of the other whose colours agree in the most rounds.

    .. math:: k(x, y) = \max_\pi \sum_i \sum_t [c_i^{(t)} = c_{\pi(i)}^{(t)}]
        = \sum_{t, c} \min(\phi(x)_{t, c}, \phi(y)_{t, c})

    Exact, since colours of one round refine those of the round before. The features say for each colour whether there
    are at least 1, 2, ... nodes of it. The parameters are those of `WLSubtree`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> WLAssignment(rounds=1).fit(words).gram(words)
    array([[4., 4., 1.],
           [4., 4., 1.],
           [1., 1., 4.]])
    """

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the first node of a colour of which there are so many, and those from which it can be reached."""
        colours, most = self.columns_[0]
        counted = copy(self)
        counted.columns_ = [colours]
        own = int(np.searchsorted(most, column, side="right")) - 1
        return WLSubtree.occurrence(counted, structure, own)

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        from scipy import sparse

        colours, most = (None, None) if known is None else known[0]
        counts, colours = weisfeiler_lehman(
            structures, self.rounds, vocabulary=colours, use_arc_labels=self.use_arc_labels
        )
        counts = counts.tocoo()
        times = counts.data.astype(np.int64)
        if most is None:
            most = np.zeros(counts.shape[1] + 1, dtype=np.int64)
            np.maximum.at(most, counts.col + 1, times)
            most = np.cumsum(most)
        times = np.minimum(times, np.diff(most)[counts.col])
        rows = np.repeat(counts.row, times)
        ends = np.cumsum(times)
        columns = np.arange(len(rows)) - np.repeat(ends - times - most[counts.col], times)
        entries = (np.ones(len(rows)), (rows, columns))
        yield 1.0, sparse.coo_matrix(entries, shape=(len(structures), most[-1])).tocsr(), (colours, most)


@KERNELS.register(
    "wl_edge",
    input="graphs",
    summary="colours at both ends of arcs, and the arc's labels",
    reference=SHERVASHIDZE,
)
@dataclass(kw_only=True, eq=False, repr=False)
class WLEdge(WLSubtree):
    """Count arcs by the colours of their ends, and their own labels, in each round of refinement.

    The parameters are those of `WLSubtree`. An edge is two arcs. A structure without arcs has no features.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> WLEdge(rounds=0).fit(words).gram(words)
    array([[2., 2., 0.],
           [2., 2., 0.],
           [0., 0., 4.]])
    """

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        colours, arcs, rows = known[0] if known is not None else (None, None, None)
        every, colours = refine(
            structures, self.rounds, vocabulary=colours, use_arc_labels=self.use_arc_labels
        )
        numbers = np.zeros(structures.total_arcs, dtype=np.int64)
        if self.use_arc_labels:
            numbers, arcs = Labels.number(structures, "arc", arcs)
        owner = structures.structure_of_node.cpu().numpy()
        source, target = structures.source.cpu().numpy(), structures.target.cpu().numpy()
        parts = (
            (owner[target], _columns(step, own[source], own[target], numbers))
            for step, own in enumerate(every)
        )
        counts, rows = tally(parts, len(structures), rows)
        yield 1.0, counts, (colours, arcs, rows)

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the ends of the first arc between two colours."""
        colours, _, rows = self.columns_[0]
        every, _ = refine(structure, self.rounds, vocabulary=colours)
        ends = structure.source.cpu().numpy(), structure.target.cpu().numpy()
        return _first_pair(every, *ends, rows[column][:3])


@KERNELS.register(
    "shortest_path",
    input="graphs",
    summary="labels at both ends of shortest paths, and lengths",
    reference="Borgwardt & Kriegel 2005",
)
@dataclass(kw_only=True, eq=False, repr=False)
class ShortestPath(FeatureKernel):
    r"""Count pairs of nodes by their labels and the length of the shortest path from one to the other.

    .. math:: \phi(\chi)_{a, b, d} = \bigl|\{(i, j) : x_i = a, x_j = b, d(i, j) = d\}\bigr|

    Paths follow arcs; every arc has length 1. A path of length 0 leads from each node to itself, so that isolated
    nodes count. Exact; O(nodes · arcs) for each structure.

    Parameters
    ----------
    max_length
        The longest path that counts; None for any.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> ShortestPath().fit(words).transform(words).toarray()  # A and B themselves, B to A, A to B; A to A
    array([[1., 1., 1., 1., 0.],
           [1., 1., 1., 1., 0.],
           [2., 0., 0., 0., 2.]])
    """

    max_length: int | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = FeatureKernel._parameter_constraints | {
        "max_length": [Interval(Integral, 0, None, closed="left"), None],
    }

    def _coloured(self, structures: Structures, known: Any) -> tuple[Int[Array, "rounds nodes"], Any]:
        """Return the colours of nodes in each round, and what they stand for."""
        numbers, labels = Labels.number(structures, "node", known)
        return numbers[None], labels

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        colours, rows = (None, None) if known is None else known[0]
        every, colours = self._coloured(structures, colours)
        owner = structures.structure_of_node.cpu().numpy()
        parts = (
            (owner[first], _columns(step, own[first], own[second], lengths))
            for first, second, lengths in shortest_paths(structures, self.max_length)
            for step, own in enumerate(every)
        )
        counts, rows = tally(parts, len(structures), rows)
        yield 1.0, counts, (colours, rows)

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the ends of the first path of a length between two labels or colours."""
        colours, rows = self.columns_[0]
        every, _ = self._coloured(structure, colours)
        for first, second, lengths in shortest_paths(structure, self.max_length):
            some = lengths == rows[column][3]
            if (found := _first_pair(every, first[some], second[some], rows[column][:3])) is not None:
                return found
        return None


@KERNELS.register(
    "wl_shortest_path",
    input="graphs",
    summary="colours at both ends of shortest paths",
    reference=SHERVASHIDZE,
)
@dataclass(kw_only=True, eq=False, repr=False)
class WLShortestPath(ShortestPath):
    """Count shortest paths by the colours of their ends in each round of Weisfeiler-Lehman refinement.

    The parameters are those of `ShortestPath` and `WLSubtree`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> WLShortestPath(rounds=1).fit(words).gram(words)
    array([[ 8.,  8.,  2.],
           [ 8.,  8.,  2.],
           [ 2.,  2., 16.]])
    """

    rounds: int = 3
    use_arc_labels: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = (
        ShortestPath._parameter_constraints | WLSubtree._parameter_constraints
    )

    def _coloured(self, structures: Structures, known: Any) -> tuple[Int[Array, "rounds nodes"], Any]:
        return refine(structures, self.rounds, vocabulary=known, use_arc_labels=self.use_arc_labels)


def _first_pair(every: Array, first: Array, second: Array, row: Array) -> Int[Array, " own"] | None:
    """Return the first pair of nodes of two colours in a round."""
    own = every[row[0]]
    found = np.flatnonzero((own[first] == row[1]) & (own[second] == row[2]))
    return np.unique([first[found[0]], second[found[0]]]) if len(found) else None


def _columns(step: int, first: Array, second: Array, third: Array) -> Int[Array, "found 4"]:
    """Return rows that say what was found in a round."""
    rows = np.empty((4, len(first)), dtype=np.int64)
    rows[0], rows[1], rows[2], rows[3] = step, first, second, third
    return rows.T


def shortest_paths(
    structures: Structures, max_length: int | None = None
) -> Iterator[tuple[Int[Array, " pairs"], Int[Array, " pairs"], Int[Array, " pairs"]]]:
    """Yield the first and last node of shortest paths along arcs, and their lengths, many at a time.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> [first, last, length] = next(shortest_paths(hf.data.from_sequences(["AB"])))
    >>> first.tolist(), last.tolist(), length.tolist()
    ([0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0])
    """
    bounds = structures.node_ptr.cpu().numpy().astype(np.int64)
    in_ptr, source = structures.in_ptr.cpu().numpy(), structures.source.cpu().numpy()
    start = np.repeat(bounds[:-1], np.diff(bounds))
    # Every node has a cell for each node of its structure.
    cells = np.concatenate([[0], np.cumsum(np.repeat(np.diff(bounds), np.diff(bounds)))])
    first = 0
    while first < structures.total_nodes:
        last = max(first + 1, int(np.searchsorted(cells, cells[first] + CHUNK, side="right")) - 1)
        own = cells[first : last + 1] - cells[first]
        lengths = np.full(own[-1], -1, dtype=np.int64)
        limit = np.iinfo(np.int64).max if max_length is None else max_length
        _measure_paths(first, own, start[first:last], in_ptr, source, limit, lengths, work=len(lengths))
        found = np.flatnonzero(lengths >= 0)
        end = np.repeat(np.arange(last - first), np.diff(own))[found]
        yield start[first + end] + found - own[end], first + end, lengths[found]
        first = last


@compiled
def _measure_paths(
    first: int, cells: Array, start: Array, in_ptr: Array, source: Array, limit: int, lengths: Array
) -> None:
    """Search from each node backwards along arcs, breadth first."""
    for k in prange(start.size):
        own = lengths[cells[k] : cells[k + 1]]
        queue = np.empty(own.size, np.int64)
        queue[0] = first + k - start[k]
        own[queue[0]] = 0
        done, waiting = 0, 1
        while done < waiting and own[queue[done]] < limit:
            node = queue[done] + start[k]
            for arc in range(in_ptr[node], in_ptr[node + 1]):
                other = source[arc] - start[k]
                if own[other] < 0:
                    own[other] = own[queue[done]] + 1
                    queue[waiting] = other
                    waiting += 1
            done += 1
