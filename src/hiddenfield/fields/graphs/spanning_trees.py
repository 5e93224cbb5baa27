"""How likely an edge, or a factor, is to appear in a random spanning tree or forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.layout import flatten, free_variables
from hiddenfield.fields.wiring import connected_parts
from hiddenfield.limits import check_time
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float, Int, Tensor

LARGEST_EXACT = 12_000
"""Nodes of a connected part up to which trees are counted; larger ones, whose factors may fill in, are sampled."""


def edge_appearance(structures: Structures) -> Float[Tensor, " arcs"]:
    r"""Return, for every arc, the probability that its edge is in a uniformly drawn spanning tree.

    By Kirchhoff's theorem it is the effective resistance across the edge,

    .. math:: u_{ij} = L^+_{ii} + L^+_{jj} - 2 L^+_{ij},

    with L the graph Laplacian of the undirected graph (parallel edges count apart, one-way arcs as edges, loops not at
    all). These probabilities lie in the spanning-tree polytope: over the edges of a connected graph they sum to
    the number of nodes less one. A bridge has 1; a self-loop, which is in no tree, gets 1 too, so that it can be used
    as a weight in (0, 1].

    Exact up to rounding, in connected structures of up to 12,000 nodes; see `spanning_tree_probabilities`.

    Examples
    --------
    A triangle with a tail: two of the three triangle's edges are in any tree.

    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1, 2, 2], [1, 2, 0, 3], node_ptr=[0, 4])
    >>> edge_appearance(pack).tolist()
    [0.6666, 0.6666, 0.6666, 0.6666, 0.6666, 0.6666, 1.0, 1.0]
    """
    pack = structures.to("cpu")
    source, target, reverse = pack.source.numpy(), pack.target.numpy(), pack.reverse.numpy()
    # An edge is two arcs that each bring half of it; a one-way arc brings all.
    half = np.where(reverse < 0, 1.0, 0.5)
    share = spanning_tree_probabilities(pack.total_nodes, source, target, half) / half
    result = np.where(source == target, 1.0, share)
    return torch.from_numpy(result.clip(1e-6, 1.0).astype(np.float32)).to(structures.device)


def spanning_tree_probabilities(
    num_nodes: int,
    first: Int[Array, " edges"],
    second: Int[Array, " edges"],
    weight: Float[Array, " edges"] | None = None,
    *,
    seed: int = 0,
) -> Float[Array, " edges"]:
    r"""Return the probability of each edge in a random spanning forest, drawn in proportion to its edges' weights.

    By Kirchhoff's theorem :math:`u_e = w_e (L^{-1}_{ii} + L^{-1}_{jj} - 2 L^{-1}_{ij})`, with L the weighted Laplacian
    without the row and column of one node of each connected part. Only entries of the inverse where its factor has
    entries are wanted, and they follow from the factor column by column (Takahashi's recurrence): the cost is about
    that of a sparse Cholesky factorisation, a quarter of a second for a 100 x 100 grid.

    Parts of more than 12,000 nodes get the average of sampled spanning trees instead (`forest_average`), which lies in
    the spanning-tree polytope just as well.

    Parameters
    ----------
    num_nodes
        Number of nodes.
    first, second
        The two ends of each edge; parallel edges count apart, loops have probability 0.
    weight
        Positive weight of each edge; 1 by default.
    seed
        Of the sampled trees.

    Examples
    --------
    A triangle whose third side is doubled, with a tail.

    >>> import numpy as np
    >>> first, second = np.array([0, 1, 2, 2, 2]), np.array([1, 2, 0, 0, 3])
    >>> spanning_tree_probabilities(4, first, second)
    array([0.6, 0.6, 0.4, 0.4, 1. ])
    """
    ends, others = np.asarray(first, np.int64), np.asarray(second, np.int64)
    weights = np.ones(len(ends)) if weight is None else np.asarray(weight, np.float64)
    result = np.zeros(len(ends))
    parts, part = connected_parts(num_nodes, ends, others)
    size = np.bincount(part, minlength=parts)
    proper = ends != others
    small = proper & (size[part[ends]] <= LARGEST_EXACT)
    if small.any():
        ground = np.zeros(parts, np.int64)
        ground[part] = np.arange(num_nodes)
        result[small] = weights[small] * _resistances(
            num_nodes, ends[small], others[small], weights[small], ground[part] == np.arange(num_nodes)
        )
    large = np.flatnonzero(proper & ~small)
    if len(large):
        scopes = np.stack([ends[large], others[large]], 1)
        result[large] = forest_average(
            num_nodes, 2 * np.arange(len(large) + 1), scopes.reshape(-1), seed=seed
        )
    return np.minimum(result, 1.0)


def forest_average(
    num_nodes: int,
    scope_ptr: Int[Array, " edge_bounds"],
    scopes: Int[Array, " ends"],
    *,
    samples: int = 100,
    seed: int = 0,
) -> Float[Array, " edges"]:
    """Return how often each hyperedge is in a random maximal forest: a set of hyperedges that closes no cycle.

    Each sample takes hyperedges in random order, those that were taken least often first, so that after as many samples
    as it needs every one is covered. An average of forests lies in the convex hull of forests by construction. Linear
    in the ends for each sample.

    Parameters
    ----------
    num_nodes
        Number of nodes.
    scope_ptr, scopes
        The nodes of hyperedge e are ``scopes[scope_ptr[e]:scope_ptr[e + 1]]``, all different.
    samples
        How many forests at least.
    seed
        Of the random order.
    """
    generator = np.random.default_rng(seed)
    edges = len(scope_ptr) - 1
    taken = np.zeros(edges)
    done = 0
    while done < samples or (edges and taken.min() == 0):
        check_time()
        taken += greedy_forest(num_nodes, scope_ptr, scopes, np.argsort(taken + generator.random(edges)))
        done += 1
    return taken / done


def greedy_forest(
    num_nodes: int,
    scope_ptr: Int[Array, " edge_bounds"],
    scopes: Int[Array, " ends"],
    order: Int[Array, " edges"],
) -> Float[Array, " edges"]:
    """Take hyperedges in the given order wherever they close no cycle; 1 where taken, 0 elsewhere.

    For edges in order of falling weight this is Kruskal's maximum-weight spanning forest.

    Examples
    --------
    >>> import numpy as np
    >>> greedy_forest(3, np.array([0, 2, 4, 6]), np.array([0, 1, 1, 2, 2, 0]), np.array([2, 0, 1]))
    array([1., 0., 1.])
    """
    chosen = np.zeros(len(scope_ptr) - 1)
    _greedy_forest(order, scope_ptr, scopes, np.arange(num_nodes), chosen, work=0)
    return chosen


def _resistances(num_nodes: int, first: Array, second: Array, weight: Array, grounded: Array) -> Array:
    """Return the effective resistance across each edge, from a sparse factor of the grounded Laplacian."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    touched = np.zeros(num_nodes, np.bool_)
    touched[first] = touched[second] = True
    kept = np.flatnonzero(touched & ~grounded)
    number = np.full(num_nodes, -1)
    number[kept] = np.arange(len(kept))
    i, j = number[first], number[second]
    inner = (i >= 0) & (j >= 0)
    rows = np.concatenate([i[i >= 0], j[j >= 0], i[inner], j[inner]])
    columns = np.concatenate([i[i >= 0], j[j >= 0], j[inner], i[inner]])
    values = np.concatenate([weight[i >= 0], weight[j >= 0], -weight[inner], -weight[inner]])
    laplacian = csc_array((values, (rows, columns)), shape=(len(kept), len(kept)))
    factor = splu(
        laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    lower = factor.L.tocsc()
    lower.sort_indices()
    place = np.empty(len(kept) + 1, np.int64)
    place[:-1], place[-1] = factor.perm_c, -1
    inverse = np.zeros(len(lower.data))
    pointer, index = lower.indptr.astype(np.int64), lower.indices.astype(np.int64)
    _takahashi(pointer, index, lower.data, factor.U.diagonal(), inverse, work=0)
    # Entries (i, i) and (i, j) of the inverse; those of a grounded node, numbered -1, are 0.
    low, high = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
    own, wanted = np.append(inverse[pointer[:-1]], 0.0), low * len(kept) + high
    keys = np.repeat(np.arange(len(kept)), np.diff(pointer)) * len(kept) + index
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    both = np.where(keys[at] == wanted, inverse[at], 0.0)
    return own[low] + own[high] - 2.0 * both


@compiled
def _greedy_forest(order, scope_ptr, scopes, parent, chosen):  # type: ignore[no-untyped-def]
    most = 1
    for e in range(scope_ptr.size - 1):
        most = max(most, scope_ptr[e + 1] - scope_ptr[e])
    root = np.empty(most, np.int64)
    for e in order:
        begin, end = scope_ptr[e], scope_ptr[e + 1]
        joins = True
        for place in range(begin, end):
            node = scopes[place]
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            for before in range(place - begin):
                if root[before] == node:
                    joins = False
            root[place - begin] = node
            if not joins:
                break
        if joins:
            chosen[e] = 1.0
            for place in range(1, end - begin):
                parent[root[place]] = root[0]


@compiled
def _takahashi(pointer, index, lower, diagonal, inverse):  # type: ignore[no-untyped-def]
    """Entries of the inverse of L D L' where L has entries, from the last column to the first."""
    size = pointer.size - 1
    where = np.full(size, -1, np.int64)
    total = np.zeros(size)
    for i in range(size - 1, -1, -1):
        begin, end = pointer[i], pointer[i + 1]  # the first entry of a column is its diagonal
        for a in range(begin + 1, end):
            where[index[a]] = a
            total[a - begin] = 0.0
        for a in range(begin + 1, end):
            k = index[a]
            total[a - begin] += lower[a] * inverse[pointer[k]]
            for b in range(pointer[k] + 1, pointer[k + 1]):
                c = where[index[b]]
                if c >= 0:
                    total[c - begin] += lower[a] * inverse[b]
                    total[a - begin] += lower[c] * inverse[b]
        own = 1.0 / diagonal[i]
        for a in range(begin + 1, end):
            where[index[a]] = -1
            inverse[a] = -total[a - begin]
            own -= lower[a] * inverse[a]
        inverse[begin] = own


SAMPLES, FEWEST = 100, 8
"""Random forests that are averaged by default: these many, but not fewer than those."""

SAMPLED_FACTORS = 10_000_000
"""Factors of all random forests together, by default."""


@dataclass(frozen=True, eq=False)
class FreeScopes:
    """Factors without their observed variables: what can close a cycle.

    A variable with one possible state (evidence, or a single state at all) joins nothing, so a factor of which one free
    variable is left counts as that variable's own.

    Parameters
    ----------
    num_variables
        Of the field.
    scope_ptr, scope
        The free variables of every factor, group after group.
    count
        Ground factors that each stands for.
    """

    num_variables: int
    scope_ptr: Int[Array, " factor_bounds"]
    scope: Int[Array, " ends"]
    count: Float[Array, " factors"]

    @classmethod
    def of(cls, field: FactorGraph) -> FreeScopes:
        """Read the scopes of a field, evidence taken out."""
        flat = flatten(field)
        free = free_variables(field)[flat.scope]
        arity = np.bincount(flat.place_factor[free], minlength=field.num_factors)
        pointer = np.concatenate([[0], np.cumsum(arity)]).astype(np.int64)
        return cls(field.num_variables, pointer, flat.scope[free], flat.factor_count)

    @property
    def joining(self) -> Array:
        """Which factors join two and more free variables."""
        joining: Array = np.diff(self.scope_ptr) > 1
        return joining

    def best_forest(self, value: Float[Array, " factors"]) -> Float[Array, " factors"]:
        """Return 1 for the factors of a forest of high total value (of the highest where all are pairwise)."""
        return greedy_forest(
            self.num_variables, self.scope_ptr, self.scope, np.argsort(-value, kind="stable")
        )

    def average(self, samples: int | None, seed: int) -> Float[Array, " factors"]:
        """Return how often each factor, all its copies together, is in a random forest.

        Exact for the uniform spanning tree where all factors of a connected part are pairwise and it is not too large;
        elsewhere the average of random maximal forests that cover every factor.
        """
        arity = np.diff(self.scope_ptr)
        result = np.ones(len(arity))
        owner = np.repeat(np.arange(len(arity)), arity)
        nodes = self.num_variables + len(arity)
        parts, part = connected_parts(nodes, self.scope, self.num_variables + owner)
        size = np.bincount(part[: self.num_variables], minlength=parts)
        largest = np.zeros(parts, np.int64)
        np.maximum.at(largest, part[self.num_variables :], arity)
        countable = (largest <= 2) & (size <= LARGEST_EXACT)
        exact = np.flatnonzero((arity == 2) & countable[part[self.num_variables :]])
        if len(exact):
            ends = self.scope[self.scope_ptr[exact, None] + np.arange(2)]
            result[exact] = spanning_tree_probabilities(
                self.num_variables, ends[:, 0], ends[:, 1], self.count[exact]
            )
        rest = np.flatnonzero((arity > 1) & ~countable[part[self.num_variables :]])
        if len(rest):
            inside = np.isin(owner, rest)
            pointer = np.concatenate([[0], np.cumsum(arity[rest])])
            most = max(FEWEST, min(SAMPLES, SAMPLED_FACTORS // len(rest))) if samples is None else samples
            result[rest] = forest_average(
                self.num_variables, pointer, self.scope[inside], samples=most, seed=seed
            )
        return result


def tree_weights(field: FactorGraph, *, samples: int | None = None, seed: int = 0) -> tuple[Tensor, ...]:
    r"""Return :math:`\rho_f`, the probability that one copy of each factor is in a random forest, group by group.

    They lie in the spanning-tree polytope by construction, so that tree-reweighted inference with them bounds log Z.
    A factor that closes no cycle has 1, one of count k without other cycles 1/k for each of its copies. Fields whose
    variables have counts are refused: which factors of the ground field form a tree is not known from its counts.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1], [1, 2], [2, 0], [2, 3]], [np.zeros((2, 2))] * 4)
    >>> tree_weights(field)[0]
    tensor([0.6667, 0.6667, 0.6667, 1.0000], dtype=torch.float64)
    """
    if not field.is_ground:
        raise InputError(
            "a field whose variables have counts needs weights=, valid for its ground field; "
            "weights='transitive' where all ground factors are alike by symmetry"
        )
    free = FreeScopes.of(field)
    return as_weights(field, free, free.average(samples, seed))


def as_weights(field: FactorGraph, free: FreeScopes, appearance: Array) -> tuple[Tensor, ...]:
    """Divide what all copies of a factor have together among them, and cut into groups."""
    share = np.where(free.joining, appearance / free.count, 1.0).clip(1e-9)
    sizes = [group.num_factors for group in field.groups]
    return tuple(torch.from_numpy(share).to(field.log_unary).split(sizes)) if sizes else ()


def transitive_weights(field: FactorGraph) -> tuple[Tensor, ...]:
    r"""Return :math:`\rho = (\sum_v N_v - 1) / \sum_f N_f` for each graph.

    Valid where the ground graph is connected and all its factors are pairwise and alike by symmetry (edge-transitive):
    averaged over the symmetries, every factor is in a spanning tree equally often, and a tree has one factor less than
    variables. That the ground graph is so cannot be read off the counts.
    """
    if any(group.arity != 2 for group in field.groups):
        raise InputError("weights='transitive' is for pairwise factors")
    nodes = torch.zeros_like(field.log_constant).index_add(0, field.variable_graph, field.counts)
    edges = torch.zeros_like(nodes)
    for group in field.groups:
        edges = edges.index_add(0, field.variable_graph[group.scopes[:, 0]], group.count)
    share = ((nodes - 1) / edges.clamp(min=1e-9)).clamp(max=1)
    return tuple(share[field.variable_graph[group.scopes[:, 0]]] for group in field.groups)


def check_weights(field: FactorGraph, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Check weights that a user gave: a positive number for each factor, one vector per group."""
    if len(weights) != len(field.groups):
        raise InputError(
            f"one vector of weights for each of the {len(field.groups)} groups, got {len(weights)}"
        )
    result = []
    for number, (group, weight) in enumerate(zip(field.groups, weights, strict=True)):
        tensor = torch.as_tensor(weight).to(field.log_unary)
        if tensor.shape != (group.num_factors,):
            raise InputError(
                f"the weights of group {number} must have shape ({group.num_factors},), got {tuple(tensor.shape)}"
            )
        if not bool(((tensor > 0) & tensor.isfinite()).all()):
            raise InputError(f"the weights of group {number} must be positive and finite")
        result.append(tensor)
    return tuple(result)
