"""Ramon and Gaertner's kernel: the trees that unfold around nodes of two structures alike."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.structures import Structures
from hiddenfield.errors import TooLargeError
from hiddenfield.kernels.base import KERNELS
from hiddenfield.kernels.walks import Walked, WalkKernel
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Int

MOST_ARCS = 16
"""Arcs into a node, beyond which their subsets are too many."""


@KERNELS.register(
    "common_subtrees",
    input="graphs",
    summary="trees that unfold alike around nodes, by matching neighbours",
    reference="Ramon & Gärtner 2003",
)
@dataclass(kw_only=True, eq=False, repr=False)
class CommonSubtrees(WalkKernel):
    r"""Count trees that unfold around a node of each structure, alike in all labels.

    .. math:: k(x, y) = \sum_{i \in x, j \in y} k_T(i, j), \qquad k_t(i, j) = [x_i = y_j] \, \sum_{R \in M(i, j)}
        \prod_{(u, v) \in R} \lambda \, k_{t-1}(u, v), \qquad k_0(i, j) = [x_i = y_j]

    M holds the one-to-one relations, the empty one included, between arcs into i and arcs into j whose own labels
    agree. Exact. Time for a pair of nodes of d arcs grows as :math:`d^2 2^d`, so that more than 16 are refused.

    Parameters
    ----------
    depth
        T.
    decay
        :math:`\lambda`.
    use_labels
        As in `WalkKernel`.

    References
    ----------
    J. Ramon and T. Gärtner, Expressivity versus efficiency of graph kernels, First International Workshop on Mining
    Graphs, Trees and Sequences (2003).

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> CommonSubtrees(depth=1, decay=1.0).fit(words).gram(words)  # a node, or one with its neighbour
    array([[4., 4., 2.],
           [4., 4., 2.],
           [2., 2., 8.]])
    """

    depth: int = 3
    decay: float = 0.5

    _parameter_constraints: ClassVar[dict[str, Any]] = WalkKernel._parameter_constraints | {
        "depth": [Interval(Integral, 0, None, closed="left")],
        "decay": [Interval(Real, 0, None, closed="neither")],
    }

    def _series(self, first: Walked, second: Walked) -> tuple[int, float, float]:
        return self.depth, self.decay, 0.0

    def _read(self, structures: Structures) -> Walked:
        degrees = structures.in_ptr.diff().cpu().numpy()
        if len(degrees) and (most := int(degrees.max())) > MOST_ARCS:
            owner = int(structures.structure_of_node[int(degrees.argmax())])
            raise TooLargeError(
                f"a node of {structures.name_of(owner)} has {most} arcs into it, whose subsets are too many: "
                f"common_subtrees takes up to {MOST_ARCS}; use wl_subtree, which takes any number"
            )
        return super()._read(structures)

    def _compare(self, left: Walked, right: Walked, spans: Int[Array, "first bounds"], out: Array) -> None:
        work = 20.0 * self.depth * len(left.arcs) * min(30.0 * out.shape[1], len(right.arcs)) + out.size
        _count_subtrees(
            *(*left.arrays, *_arcs_into(left), *right.arrays, *_arcs_into(right)),
            *(self.depth, self.decay, spans, out),
            work=work,
        )


def _arcs_into(walked: Walked) -> tuple[Array, Array]:
    """Return bounds of the arcs into every node, and the arcs."""
    owner = np.repeat(np.arange(len(walked.growth)), np.diff(walked.arc_ptr))
    node = walked.target + walked.node_ptr[owner]
    counts = np.bincount(node, minlength=len(walked.nodes))
    return np.concatenate([[0], np.cumsum(counts)]), np.argsort(node, kind="stable")


@compiled
def _count_subtrees(
    node_ptr: Array,
    nodes: Array,
    arc_ptr: Array,
    arcs: Array,
    source: Array,
    target: Array,
    into_ptr: Array,
    into: Array,
    other_node_ptr: Array,
    other_nodes: Array,
    other_arc_ptr: Array,
    other_arcs: Array,
    other_source: Array,
    other_target: Array,
    other_into_ptr: Array,
    other_into: Array,
    depth: int,
    decay: float,
    spans: Array,
    out: Array,
) -> None:
    """Sum over all pairs of nodes; arcs into one node are matched one by one with subsets of those into the other."""
    for x in prange(node_ptr.size - 1):
        rows = node_ptr[x + 1] - node_ptr[x]
        sums, grown = np.zeros(1), np.zeros(1)
        for y in range(spans[x, 0], spans[x, 1]):
            columns = other_node_ptr[y + 1] - other_node_ptr[y]
            before, now = np.zeros((rows, columns)), np.zeros((rows, columns))
            total = 0.0
            for t in range(depth + 1):
                total = 0.0
                for i in range(rows):
                    node = node_ptr[x] + i
                    for j in range(columns):
                        other = other_node_ptr[y] + j
                        now[i, j] = 0.0
                        if nodes[node] < 0 or nodes[node] != other_nodes[other]:
                            continue
                        now[i, j] = 1.0
                        begin, width = (
                            other_into_ptr[other],
                            other_into_ptr[other + 1] - other_into_ptr[other],
                        )
                        if t > 0 and width > 0:
                            if sums.size < 1 << width:
                                sums, grown = np.zeros(1 << width), np.zeros(1 << width)
                            sums[: 1 << width] = 0.0
                            sums[0] = 1.0
                            for a in range(into_ptr[node], into_ptr[node + 1]):
                                arc = into[a]
                                grown[: 1 << width] = sums[: 1 << width]
                                for b in range(width):
                                    match = other_into[begin + b]
                                    if arcs[arc] == other_arcs[match]:
                                        value = decay * before[source[arc], other_source[match]]
                                        for chosen in range(1 << width):
                                            if not chosen & (1 << b):
                                                grown[chosen | (1 << b)] += value * sums[chosen]
                                sums[: 1 << width] = grown[: 1 << width]
                            now[i, j] = 0.0
                            for chosen in range(1 << width):
                                now[i, j] += sums[chosen]
                        total += now[i, j]
                before, now = now, before
            out[x, y - spans[x, 2]] = total
