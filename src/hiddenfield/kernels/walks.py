"""Random walk kernels: the walks that two structures have in common, by labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.kernels.base import KERNELS, Labels, PairKernel
from hiddenfield.kernels.refinement import look_up
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.equal_rows import Rows
from hiddenfield.shapes import Array, Float, Int

TOLERANCE, MOST_STEPS = 1e-12, 10**6
"""Share of the sum at which a geometric series ends, and its most terms."""
POWERS = 32
"""Length of the walks by which growth is bounded."""


@dataclass(frozen=True, eq=False)
class Walked:
    """Structures as random walks see them: nodes and arcs of each sorted by what must agree.

    Parameters
    ----------
    node_ptr, arc_ptr
        Bounds of the structures' nodes and arcs.
    nodes
        Labels, sorted within each structure.
    arcs
        Number of the combination of both ends' labels and the arc's own, sorted within each structure; arcs of unknown
        labels are left out.
    source, target
        Ends of the arcs, counted within the structure.
    growth
        An upper bound of the spectral radius of each structure.
    """

    node_ptr: Int[Array, " bounds"]
    nodes: Int[Array, " nodes"]
    arc_ptr: Int[Array, " bounds"]
    arcs: Int[Array, " arcs"]
    source: Int[Array, " arcs"]
    target: Int[Array, " arcs"]
    growth: Float[Array, " structures"]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What compiled loops take."""
        return self.node_ptr, self.nodes, self.arc_ptr, self.arcs, self.source, self.target


@dataclass(kw_only=True, eq=False, repr=False)
class WalkKernel(PairKernel):
    """Base of the kernels that count walks in the product of two graphs.

    Parameters
    ----------
    use_labels
        Whether labels must agree; otherwise only arcs count.
    """

    use_labels: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = PairKernel._parameter_constraints | {
        "use_labels": ["boolean"]
    }

    @abstractmethod
    def _series(self, first: Walked, second: Walked) -> tuple[int, float, float]:
        """Return the most steps, the decay, and the share of the sum at which it may end sooner."""

    def _fit(self, structures: Structures) -> None:
        _, self.nodes_ = Labels.number(structures, "node")
        arcs, self.arcs_ = Labels.number(structures, "arc")
        nodes, _ = Labels.number(structures, "node", self.nodes_)
        _, self.kinds_ = look_up(_kinds(structures, nodes, arcs), None)

    def _read(self, structures: Structures) -> Walked:
        nodes, _ = Labels.number(structures, "node", self.nodes_)
        arcs, _ = Labels.number(structures, "arc", self.arcs_)
        kinds, _ = look_up(_kinds(structures, nodes, arcs), self.kinds_)
        source, target = structures.source.cpu().numpy(), structures.target.cpu().numpy()
        owner, bounds = structures.structure_of_node.cpu().numpy(), structures.node_ptr.cpu().numpy()
        growth = _growth(structures)
        if not self.use_labels:
            nodes, kinds = np.zeros_like(nodes), np.zeros_like(kinds)
        order = np.flatnonzero(kinds >= 0)
        order = order[np.lexsort((kinds[order], owner[target[order]]))]
        first, last = (each[order] - bounds[owner[each[order]]] for each in (source, target))
        counts = np.bincount(owner[target[order]], minlength=len(structures))
        return Walked(
            bounds.astype(np.int64),
            nodes,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            kinds[order],
            first.astype(np.int64),
            last.astype(np.int64),
            growth,
        )

    def _compare(self, left: Walked, right: Walked, spans: Int[Array, "first bounds"], out: Array) -> None:
        steps, decay, tolerance = self._series(left, right)
        work = float(len(left.arcs)) * min(100.0 * out.shape[1], len(right.arcs) * min(steps, 20)) + out.size
        _count_walks(*left.arrays, *right.arrays, steps, decay, tolerance, spans, out, work=work)


@KERNELS.register(
    "random_walk",
    input="graphs",
    summary="common walks of up to p steps",
    reference="Gärtner et al. 2003; Sugiyama & Borgwardt 2015",
)
@dataclass(kw_only=True, eq=False, repr=False)
class RandomWalk(WalkKernel):
    r"""Count pairs of walks of 0 to p steps along which all labels of nodes and arcs agree.

    .. math:: k(x, y) = \sum_{\ell=0}^{p} \lambda^\ell \, \mathbf{1}^\top W_\times^\ell \mathbf{1},

    :math:`W_\times` being the arcs of the product graph, whose nodes are the pairs of nodes with equal labels. Exact.
    The product is never made: its arcs are pairs of arcs of one kind. Time for a pair of structures is proportional to
    these times the steps.

    Parameters
    ----------
    steps
        p.
    decay
        :math:`\lambda`.
    use_labels
        As in `WalkKernel`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> RandomWalk(steps=1, decay=0.5).fit(words).gram(words)
    array([[3., 3., 2.],
           [3., 3., 2.],
           [2., 2., 6.]])
    """

    steps: int = 4
    decay: float = 1.0

    _parameter_constraints: ClassVar[dict[str, Any]] = WalkKernel._parameter_constraints | {
        "steps": [Interval(Integral, 0, None, closed="left")],
        "decay": [Interval(Real, 0, None, closed="neither")],
    }

    def _series(self, first: Walked, second: Walked) -> tuple[int, float, float]:
        return self.steps, self.decay, 0.0


@KERNELS.register(
    "geometric_walk", input="graphs", summary="common walks of any length", reference="Gärtner et al. 2003"
)
@dataclass(kw_only=True, eq=False, repr=False)
class GeometricWalk(WalkKernel):
    r"""Count pairs of walks of any length along which all labels agree, the longer ones for less.

    .. math:: k(x, y) = \mathbf{1}^\top (I - \lambda W_\times)^{-1} \mathbf{1}

    The series converges where :math:`\kappa = \lambda \rho(x) \rho(y) < 1` for the spectral radii, which is checked by
    an upper bound; it ends at a term of less than :math:`10^{-12} (1 - \kappa)` of the sum.

    Parameters
    ----------
    decay
        :math:`\lambda`; None for half of what converges for all structures that are fitted. It is kept in `decay_`.
    use_labels
        As in `WalkKernel`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> GeometricWalk(decay=0.5).fit(words).gram(words).round(6)
    array([[4., 4., 2.],
           [4., 4., 2.],
           [2., 2., 8.]])
    """

    decay: float | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = WalkKernel._parameter_constraints | {
        "decay": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _fit(self, structures: Structures) -> None:
        super()._fit(structures)
        largest = max(1.0, float(_growth(structures).max(initial=0.0)))
        self.decay_ = 0.5 / largest**2 if self.decay is None else float(self.decay)

    def _series(self, first: Walked, second: Walked) -> tuple[int, float, float]:
        growth = float(first.growth.max(initial=0.0) * second.growth.max(initial=0.0))
        if self.decay_ * growth > 1 - 1e-9:
            raise InputError(
                f"walks of any length have no finite sum with decay {self.decay_:g}: it must be less than "
                f"{1 / growth:.3g} for these structures; give a smaller one, or use the kernel random_walk, "
                "whose walks end"
            )
        return MOST_STEPS, self.decay_, TOLERANCE * (1 - self.decay_ * growth)


def _kinds(structures: Structures, nodes: Array, arcs: Array) -> Rows:
    """Return for each arc a row of the labels at its ends and its own; any of them may be -1."""
    source, target = structures.source.cpu().numpy(), structures.target.cpu().numpy()
    return Rows.of_table(np.stack([nodes[source], nodes[target], arcs], axis=1))


def _growth(structures: Structures) -> Float[Array, " structures"]:
    r"""Return an upper bound of the spectral radius of each structure: :math:`\|A^{32}\|_\infty^{1/32}`."""
    from scipy import sparse

    size, owner = structures.total_nodes, structures.structure_of_node.cpu().numpy()
    arcs = (structures.target.cpu().numpy(), structures.source.cpu().numpy())
    matrix = sparse.coo_matrix((np.ones(len(arcs[0])), arcs), shape=(size, size)).tocsr()
    walks, logarithm = np.ones(size), np.zeros(len(structures))
    for _ in range(POWERS):
        walks = matrix @ walks
        largest = np.zeros(len(structures))
        np.maximum.at(largest, owner, walks)
        with np.errstate(divide="ignore"):
            logarithm += np.log(largest)
        walks /= np.where(largest > 0, largest, 1.0)[owner]
    return np.exp(logarithm / POWERS)


@compiled
def _count_walks(
    node_ptr: Array,
    nodes: Array,
    arc_ptr: Array,
    arcs: Array,
    source: Array,
    target: Array,
    other_node_ptr: Array,
    other_nodes: Array,
    other_arc_ptr: Array,
    other_arcs: Array,
    other_source: Array,
    other_target: Array,
    steps: int,
    decay: float,
    tolerance: float,
    spans: Array,
    out: Array,
) -> None:
    """Sum the series for pairs of structures."""
    for x in prange(node_ptr.size - 1):
        rows = node_ptr[x + 1] - node_ptr[x]
        for y in range(spans[x, 0], spans[x, 1]):
            columns = other_node_ptr[y + 1] - other_node_ptr[y]
            now, after = np.zeros(rows * columns), np.zeros(rows * columns)
            total = 0.0
            for i in range(rows):
                for j in range(columns):
                    label = nodes[node_ptr[x] + i]
                    if label >= 0 and label == other_nodes[other_node_ptr[y] + j]:
                        now[i * columns + j] = 1.0
                        total += 1.0
            scale = 1.0
            for _ in range(steps):
                after[:] = 0.0
                p, q = arc_ptr[x], other_arc_ptr[y]
                while p < arc_ptr[x + 1] and q < other_arc_ptr[y + 1]:
                    if arcs[p] != other_arcs[q]:
                        if arcs[p] < other_arcs[q]:
                            p += 1
                        else:
                            q += 1
                        continue
                    end = q
                    while end < other_arc_ptr[y + 1] and other_arcs[end] == arcs[p]:
                        end += 1
                    kind = arcs[p]
                    while p < arc_ptr[x + 1] and arcs[p] == kind:
                        before, beyond = source[p] * columns, target[p] * columns
                        for k in range(q, end):
                            after[beyond + other_target[k]] += now[before + other_source[k]]
                        p += 1
                    q = end
                term = 0.0
                for k in range(after.size):
                    term += after[k]
                scale *= decay
                total += scale * term
                now, after = after, now
                if scale * term <= tolerance * total:
                    break
            out[x, y - spans[x, 2]] = total
