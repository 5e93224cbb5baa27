"""Kernels of ordered trees: parse trees, XML."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.convert.parents import to_parents
from hiddenfield.data.structures import Structures
from hiddenfield.kernels.base import KERNELS, Labels, PairKernel
from hiddenfield.kernels.refinement import look_up
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.equal_rows import Rows
from hiddenfield.shapes import Array, Int

SHARE = Interval(Real, 0, 1, closed="right")


@dataclass(kw_only=True, eq=False, repr=False)
class TreeKernel(PairKernel):
    """Base of the kernels of trees whose children have an order: that of their nodes' numbers.

    A tree is one that `hiddenfield.data.to_parents` takes: sequences are trees too. Labels of arcs are not used.

    Parameters
    ----------
    decay
        What each node of a common part is worth.
    """

    decay: float = 0.5

    _parameter_constraints: ClassVar[dict[str, Any]] = PairKernel._parameter_constraints | {"decay": [SHARE]}
    _partial: ClassVar[bool] = False

    @abstractmethod
    def _kinds(
        self, nodes: Array, ptr: Array, children: Array, known: Rows | None
    ) -> tuple[Array, Rows | None]:
        """Return a number for each node, equal where two may be the tops of a common part, or -1; and its meaning."""

    def _fit(self, structures: Structures) -> None:
        nodes, self.labels_ = Labels.number(structures, "node")
        _, self.rows_ = self._kinds(nodes, *_children(structures), None)

    def _read(self, structures: Structures) -> tuple[Array, ...]:
        nodes, _ = Labels.number(structures, "node", self.labels_)
        ptr, children = _children(structures)
        kinds, _ = self._kinds(nodes, ptr, children, self.rows_)
        return structures.node_ptr.cpu().numpy().astype(np.int64), kinds, ptr, children

    def _compare(
        self, left: tuple[Array, ...], right: tuple[Array, ...], spans: Int[Array, "first bounds"], out: Array
    ) -> None:
        options = float(self.decay), float(getattr(self, "vertical", 1.0)), self._partial
        work = 10.0 * len(left[1]) * (min(2 * out.shape[1], len(right[1])) + 1)
        _compare_trees(*left, *right, *options, spans, out, work=work)


def _children(structures: Structures) -> tuple[Array, Array]:
    """Return the children of every node, in order, counted through the pack, by bounds."""
    bounds = structures.node_ptr.cpu().numpy()
    parents = [
        np.where(own < 0, -1, own + start) for own, start in zip(to_parents(structures), bounds, strict=False)
    ]
    parent = np.concatenate([np.zeros(0, dtype=np.int64), *parents]).astype(np.int64)
    below = np.flatnonzero(parent >= 0)
    below = below[np.argsort(parent[below], kind="stable")]
    counts = np.bincount(parent[below], minlength=len(parent))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), below.astype(np.int64)


@KERNELS.register(
    "subset_tree",
    input="trees",
    summary="tree fragments made of whole productions",
    reference="Collins & Duffy 2002",
)
@dataclass(kw_only=True, eq=False, repr=False)
class SubsetTree(TreeKernel):
    r"""Count common fragments of ordered trees, in which a node has all its children or none.

    .. math:: k(x, y) = \sum_{i \in x, j \in y} C(i, j), \qquad
        C(i, j) = [\mathrm{production}_i = \mathrm{production}_j] \, \lambda \prod_c (1 + C(i_c, j_c))

    A production is the label of a node that has children, with their labels in order; a leaf has none, so that a tree
    of one node has no fragments. The parameter is that of `TreeKernel`. O(nodes²) for each pair, where productions are
    many nearly linear.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "AB", "BA"])
    >>> SubsetTree(decay=1.0).fit(words).gram(words)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    def _kinds(
        self, nodes: Array, ptr: Array, children: Array, known: Rows | None
    ) -> tuple[Array, Rows | None]:
        bounds = ptr + np.arange(len(ptr))
        values = np.empty(bounds[-1], dtype=np.int64)
        at = np.ones(len(values), dtype=bool)
        at[bounds[:-1]] = False
        values[bounds[:-1]], values[at] = nodes, nodes[children]
        numbers, rows = look_up(Rows(bounds, values), known)
        unknown = np.zeros(len(nodes), dtype=bool)
        unknown[np.repeat(np.arange(len(nodes)), np.diff(ptr))[nodes[children] < 0]] = True
        return np.where(unknown | (nodes < 0) | (np.diff(ptr) == 0), -1, numbers), rows


@KERNELS.register(
    "partial_tree",
    input="trees",
    summary="tree fragments made of parts of productions",
    reference="Moschitti 2006",
)
@dataclass(kw_only=True, eq=False, repr=False)
class PartialTree(TreeKernel):
    r"""Count common fragments of ordered trees, in which a node has some of its children, in order.

    .. math:: C(i, j) = [x_i = y_j] \, \mu \Bigl(\lambda^2 + \sum_{I, J} \lambda^{d(I) + d(J)}
        \prod_p C(i_{I_p}, j_{J_p})\Bigr)

    over subsequences I and J of one length of the children of i and j, d being the distance from the first to beyond
    the last. O(children³) for a pair of nodes.

    Parameters
    ----------
    decay
        :math:`\lambda`: of gaps between children.
    vertical
        :math:`\mu`: of the height of fragments.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "A"])
    >>> PartialTree(decay=1.0, vertical=1.0).fit(words).gram(words)  # A, B, and A above B
    array([[3., 1.],
           [1., 1.]])
    """

    vertical: float = 0.5

    _parameter_constraints: ClassVar[dict[str, Any]] = TreeKernel._parameter_constraints | {
        "vertical": [SHARE]
    }
    _partial: ClassVar[bool] = True

    def _kinds(
        self, nodes: Array, ptr: Array, children: Array, known: Rows | None
    ) -> tuple[Array, Rows | None]:
        return nodes, None


@subroutine
def _children_first(ptr: Array, children: Array, start: int, order: Array) -> None:
    """List the nodes of a tree, the root last."""
    last, found = order.size - 1, 0
    below = np.zeros(order.size, np.bool_)
    for node in range(order.size):
        for k in range(ptr[start + node], ptr[start + node + 1]):
            below[children[k] - start] = True
    for node in range(order.size):
        if not below[node]:
            order[last - found] = start + node
            found += 1
    for done in range(order.size):
        node = order[last - done]
        for k in range(ptr[node], ptr[node + 1]):
            order[last - found] = children[k]
            found += 1


@subroutine
def _subsequences(common: Array, own: Array, others: Array, decay: float) -> float:
    """Sum over pairs of subsequences of the children, by their length; gaps decay."""
    total = 0.0
    ending, sums = np.zeros((own.size, others.size)), np.zeros((own.size + 1, others.size + 1))
    for length in range(1, min(own.size, others.size) + 1):
        for a in range(own.size):
            for b in range(others.size):
                before = 1.0 if length == 1 else sums[a, b]
                ending[a, b] = decay**2 * common[own[a], others[b]] * before
                total += ending[a, b]
        for a in range(own.size):
            for b in range(others.size):
                above, left = sums[a, b + 1], sums[a + 1, b]
                sums[a + 1, b + 1] = ending[a, b] + decay * (above + left - decay * sums[a, b])
    return total


@compiled
def _compare_trees(
    node_ptr: Array,
    kinds: Array,
    ptr: Array,
    children: Array,
    other_node_ptr: Array,
    other_kinds: Array,
    other_ptr: Array,
    other_children: Array,
    decay: float,
    vertical: float,
    partial: bool,
    spans: Array,
    out: Array,
) -> None:
    """Sum over all pairs of nodes of two trees, each after the pairs of its children."""
    for x in prange(node_ptr.size - 1):
        start, rows = node_ptr[x], node_ptr[x + 1] - node_ptr[x]
        order = np.empty(rows, np.int64)
        _children_first(ptr, children, start, order)
        for y in range(spans[x, 0], spans[x, 1]):
            beyond, columns = other_node_ptr[y], other_node_ptr[y + 1] - other_node_ptr[y]
            turn = np.empty(columns, np.int64)
            _children_first(other_ptr, other_children, beyond, turn)
            common = np.zeros((rows, columns))
            total = 0.0
            for i in order:
                for j in turn:
                    if kinds[i] < 0 or kinds[i] != other_kinds[j]:
                        continue
                    own, others = (
                        children[ptr[i] : ptr[i + 1]],
                        other_children[other_ptr[j] : other_ptr[j + 1]],
                    )
                    if partial:
                        value = vertical * (
                            decay**2 + _subsequences(common, own - start, others - beyond, decay)
                        )
                    else:
                        value = decay
                        for k in range(own.size):
                            value *= 1.0 + common[own[k] - start, others[k] - beyond]
                    common[i - start, j - beyond] = value
                    total += value
            out[x, y - spans[x, 2]] = total
