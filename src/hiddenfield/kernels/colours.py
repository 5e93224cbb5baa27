"""Kernels that count coloured nodes, arcs and shortest paths: Weisfeiler-Lehman's three, and plain shortest paths."""

from __future__ import annotations

from collections.abc import Iterator
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


def _columns(step: int, first: Array, second: Array, third: Array) -> Int[Array, "found 4"]:
    """Return rows that say what was found in a round."""
    return np.array((np.full(len(first), step), first, second, third), dtype=np.int64).T


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
