"""The graphlet kernel: connected induced subgraphs of a few nodes, counted exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import permutations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.kernels.base import CHUNK, KERNELS, FeatureKernel, Labels, tally
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

LARGEST = 5
"""Nodes of a graphlet: of more there are too many."""


@KERNELS.register(
    "graphlet",
    input="graphs",
    summary="connected induced subgraphs of a few nodes",
    reference="Shervashidze et al. 2009",
)
@dataclass(kw_only=True, eq=False, repr=False)
class Graphlet(FeatureKernel):
    """Count connected induced subgraphs of some sizes, up to isomorphism.

    Exact: every one is visited once (Wernicke 2006), and has the smallest of its adjacency matrices under all orders of
    its nodes for a name. Without labels and with edges there are 1, 1, 2, 6 and 21 of one to five nodes. Time is
    proportional to the number of subgraphs: some ten for each node of a molecule, and up to d to the power of four
    for nodes of d neighbours. Direction counts; loops and parallel arcs do not.

    Parameters
    ----------
    sizes
        Numbers of nodes, from 1 to 5. With 1 among them, isolated nodes count.
    use_labels
        Whether the labels of nodes and arcs count.
    share
        The probability that a subgraph is visited, for graphs of hubs: every count is then divided by it. An unbiased
        estimate (randomised enumeration, Wernicke 2006), in a time proportional to the share, whose standard error
        `standard_errors` states. None for all of them.
    random_state
        Seed of the draw.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> ring = hf.data.from_edges([0, 1, 2, 3], [1, 2, 3, 0], node_ptr=[0, 4])
    >>> Graphlet(sizes=(3, 4)).fit(ring).transform(ring).toarray()  # paths of three, the ring
    array([[4., 1.]])
    """

    sizes: Sequence[int] = (3, 4, 5)
    use_labels: bool = False
    share: float | None = None
    random_state: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = FeatureKernel._parameter_constraints | {
        "sizes": ["array-like"],
        "use_labels": ["boolean"],
        "share": [Interval(Real, 0, 1, closed="right"), None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def standard_errors(self, X: Structures, draws: int = 8) -> Float[Array, "structures graphlets"]:
        """Return the standard error of every count that `transform` estimates, from independent draws.

        They are of counts as such, not normalised, and 0 where all subgraphs are visited.
        """
        check_is_fitted(self)
        one = copy(self)
        one.normalise, found = False, []
        for draw in range(1, draws + 1):
            one.random_state = self.random_state + draw
            found.append(one.transform(X).toarray())
        return np.std(found, axis=0, ddof=1)

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the nodes of one graphlet of a kind."""
        sizes = sorted(set(self.sizes))
        block = int(np.searchsorted(np.cumsum([len(rows) for rows in self.columns_]), column, side="right"))
        wanted = self.columns_[block][column - sum(len(rows) for rows in self.columns_[:block])]
        nodes, around = self._prepared(structure, self.labels_)
        for _, rows, found in self._found(structure, sizes[block], nodes, around):
            if (place := np.flatnonzero((rows == wanted).all(axis=1))).size:
                return found[place[0]]
        return None

    def _prepared(
        self, structures: Structures, labels: tuple[Labels | None, Labels | None]
    ) -> tuple[Int[Array, " nodes"], tuple[Array, Array, Array]]:
        """Return labels of nodes, and neighbours."""
        (nodes, node_labels), (arcs, arc_labels) = (
            Labels.number(structures, kind, own) for kind, own in zip(("node", "arc"), labels, strict=True)
        )
        self.labels_: tuple[Labels, Labels] = node_labels, arc_labels
        if not self.use_labels:
            nodes, arcs = np.zeros_like(nodes), np.zeros_like(arcs)
        return nodes, _neighbours(structures, arcs)

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        if not len(self.sizes) or not set(self.sizes) <= set(range(1, LARGEST + 1)):
            raise InputError(f"sizes must be of numbers from 1 to {LARGEST}, got {self.sizes!r}")
        nodes, around = self._prepared(structures, (None, None) if known is None else self.labels_)
        weight = 1.0 if self.share is None else self.share**-2
        for block, size in enumerate(sorted(set(self.sizes))):
            counts, columns = tally(
                ((owner, rows) for owner, rows, _ in self._found(structures, size, nodes, around)),
                len(structures),
                None if known is None else known[block],
            )
            yield (weight if size > 1 else 1.0), counts, columns

    def _found(
        self, structures: Structures, size: int, nodes: Array, around: tuple[Array, Array, Array]
    ) -> Iterator[tuple[Int[Array, " found"], Int[Array, "found width"], Int[Array, "found size"]]]:
        """Yield the structures of graphlets of one size, rows that are equal where these are isomorphic, and nodes."""
        origin = (
            structures.node_ptr.cpu().numpy().astype(np.int64)[structures.structure_of_node.cpu().numpy()]
        )
        share = 1.0 if self.share is None or size == 1 else float(self.share) ** (1 / (size - 1))
        drawn = (origin, share, int(self.random_state))
        owner = structures.structure_of_node.cpu().numpy()
        ptr, others, labels = around
        counts = np.zeros(len(nodes), dtype=np.int64)
        nothing = np.zeros((0, size), dtype=np.int64)
        _list_subgraphs(0, ptr, others, *drawn, size, counts, False, nothing, work=50.0 * len(others))
        bounds, first = np.concatenate([[0], np.cumsum(counts)]), 0
        while first < len(nodes):
            last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + CHUNK // 8, side="right")) - 1)
            own = bounds[first : last + 1] - bounds[first]
            found = np.zeros((own[-1], size), dtype=np.int64)
            _list_subgraphs(first, ptr, others, *drawn, size, own, True, found, work=50.0 * len(found))
            rows = np.empty((len(found), size + size * (size - 1)), dtype=np.int64)
            _describe(found, nodes, ptr, others, labels, rows, work=rows.size)
            whole = (nodes[found] >= 0).all(axis=1) & (rows >= -1).all(axis=1)
            rows, found = rows[whole] + 1, found[whole]
            numbers, distinct = number_rows(Rows.of_table(rows))
            yield owner[found[:, 0]], _smallest(rows[distinct], size)[numbers], found
            first = last


def _neighbours(structures: Structures, arcs: Int[Array, " arcs"]) -> tuple[Array, Array, Array]:
    """Return for each node, by bounds, its neighbours in order, and what arc comes from each: label + 1, or 0 for none.

    An arc of unknown label is -2 there, as is one of several between the same nodes only if all are unknown.
    """
    from scipy import sparse

    source, target = structures.source.cpu().numpy(), structures.target.cpu().numpy()
    size, apart = structures.total_nodes, source != target
    source, target, codes = source[apart], target[apart], np.where(arcs < 0, -2, arcs + 1)[apart]
    # Of parallel arcs the largest label counts.
    order = np.lexsort((codes, source, target))
    source, target, codes = source[order], target[order], codes[order]
    last = np.ones(len(source), dtype=bool)
    last[:-1] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    ends = (target[last], source[last])
    ones = sparse.coo_matrix((np.ones(last.sum()), ends), shape=(size, size)).tocsr()
    joined = (ones + ones.T).tocsr()
    joined.sort_indices()
    rows = np.repeat(np.arange(size), np.diff(joined.indptr))
    keys = rows * size + joined.indices
    place = np.searchsorted(keys, ends[0].astype(np.int64) * size + ends[1])
    labels = np.zeros(len(keys), dtype=np.int64)
    labels[place] = codes[last]
    return joined.indptr.astype(np.int64), joined.indices.astype(np.int64), labels


def _smallest(rows: Int[Array, "distinct width"], size: int) -> Int[Array, "distinct width"]:
    """Return for each row of labels and arcs the smallest of those that other orders of the nodes give."""
    best = rows
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    place = {pair: size + k for k, pair in enumerate(pairs)}
    for order in permutations(range(size)):
        other = rows[:, [*order, *(place[order[i], order[j]] for i, j in pairs)]]
        apart = other != best
        first = apart.argmax(axis=1)
        at = np.arange(len(rows))
        smaller = apart.any(axis=1) & (other[at, first] < best[at, first])
        best = np.where(smaller[:, None], other, best)
    return best


@subroutine(allocates=False)
def _arc(ptr: Array, others: Array, labels: Array, target: int, source: int) -> int:
    """Return the label of the arc between two nodes, 0 if there is none."""
    low, high = ptr[target], ptr[target + 1]
    while low < high:
        middle = (low + high) // 2
        if others[middle] < source:
            low = middle + 1
        else:
            high = middle
    if low < ptr[target + 1] and others[low] == source:
        return labels[low]
    return 0


@compiled
def _describe(found: Array, nodes: Array, ptr: Array, others: Array, labels: Array, rows: Array) -> None:
    """Write for each subgraph the labels of its nodes, then of the arcs between all pairs."""
    for k in prange(found.shape[0]):
        size = found.shape[1]
        place = size
        for i in range(size):
            rows[k, i] = nodes[found[k, i]]
            for j in range(size):
                if i != j:
                    rows[k, place] = _arc(ptr, others, labels, found[k, i], found[k, j])
                    place += 1


@subroutine(allocates=False)
def _uniform(seed: int, chosen: Array, last: int, origin: int) -> float:
    """Return a number between 0 and 1 that depends on the seed and on the nodes up to the last, counted from one."""
    state = (seed % 2147483647 + 1) * 1583458089 % 2147483647
    for k in range(last + 1):
        # Numbers below 2^31 times primes below 2^31: no overflow.
        state = (state ^ (state >> 15)) * 1103515245 % 2147483647
        state = (state + (chosen[k] - origin + 1) * 784588716) % 2147483647
        state = (state ^ (state >> 16)) * 2083697005 % 2147483647
        state = (state ^ (state >> 13)) * 1220703125 % 2147483647
    return state / 2147483647.0


@compiled
def _list_subgraphs(
    first: int,
    ptr: Array,
    others: Array,
    origin: Array,
    share: float,
    seed: int,
    size: int,
    counts: Array,
    write: bool,
    found: Array,
) -> None:
    """Count the connected subgraphs whose first node is each node, or write them from where the counts say on.

    Nodes join in turn from a list of candidates for each depth: those of the depth before that come later, and the
    neighbours of the node that joined that are new, and after the first node. So every subgraph comes once; of a share
    below 1 a node joins with that probability, decided by the nodes themselves.
    """
    nodes = counts.size - 1 if write else counts.size
    for k in prange(nodes):
        root = first + k
        total = 0
        chosen = np.empty(size, np.int64)
        chosen[0] = root
        # Candidates of each depth end to end; those of depth d are entries[begin[d] : end[d]].
        begin, end = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
        entries = np.empty(64, np.int64)
        for arc in range(ptr[root], ptr[root + 1]):
            if others[arc] > root:
                if end[0] == entries.size:
                    entries = np.concatenate((entries, entries))
                entries[end[0]] = others[arc]
                end[0] += 1
        if size == 1:
            if write:
                found[counts[k], 0] = root
            total = 1
        depth = 1 if size > 1 else 0
        while depth > 0:
            level = depth - 1
            if begin[level] == end[level]:
                depth -= 1
                continue
            node = entries[begin[level]]
            begin[level] += 1
            chosen[depth] = node
            if share < 1 and _uniform(seed, chosen, depth, origin[root]) >= share:
                continue
            if depth == size - 1:
                if write:
                    for place in range(size):
                        found[counts[k] + total, place] = chosen[place]
                total += 1
                continue
            # The candidates of the next depth: what is left of these, and the exclusive neighbours of the node.
            stop = end[level]
            begin[depth] = stop
            for place in range(begin[level], end[level]):
                if stop == entries.size:
                    entries = np.concatenate((entries, entries))
                entries[stop] = entries[place]
                stop += 1
            for arc in range(ptr[node], ptr[node + 1]):
                other = others[arc]
                new = other > root
                for member in range(depth):
                    if not new:
                        break
                    own = chosen[member]
                    new = own != other
                    for near in range(ptr[own], ptr[own + 1]):
                        if others[near] == other:
                            new = False
                            break
                if new:
                    if stop == entries.size:
                        entries = np.concatenate((entries, entries))
                    entries[stop] = other
                    stop += 1
            end[depth] = stop
            depth += 1
        if not write:
            counts[k] = total
