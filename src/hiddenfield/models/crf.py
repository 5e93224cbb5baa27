r"""Conditional random fields: labels of the nodes of any structure given their features.

A node has one of S states: its label, or with hidden states a label and one of several variants of it. With sparse
features :math:`x_i` of node i and a table for each kind of edge,

.. math::

    p(s \mid x) = \frac{1}{Z(x)} \exp\Bigl(\sum_i w_{s_i}^\top x_i + \sum_{(i,j)} T_{k(i,j)}[s_i, s_j]\Bigr), \qquad
    p(y \mid x) = \sum_{s \in y} p(s \mid x) = \frac{Z(x, y)}{Z(x)},

where the sum over :math:`s \in y` runs over what the known labels leave open: hidden states, and whole nodes without a
label. The gradient of the log-likelihood is the difference of two expectations, one with the labels and one without.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.table import Table
from hiddenfield.errors import ConvergenceWarning, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.cliques.plan import clique_plan
from hiddenfield.inference.infer import infer, map_state
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.models.hidden_markov.states import Chain, expected_counts, most_likely_states
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Kind = tuple[str | None, str]
"""A kind of edges: the labels of its two arcs, of which the first is None where arcs go one way."""

EXACT_MEMORY = 2**26
"""Bytes of tables up to which fields with cycles are summed exactly while learning: a pass takes seconds at most."""


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a pack, each once.

    Parameters
    ----------
    first, second
        The nodes at the ends; `first` is the row of the table.
    kind
        Which table.
    symmetric
        Of each kind, whether its edges have no direction, so that its table is symmetric.
    node_ptr
        Bounds of every structure's nodes.
    """

    first: Int[Array, " edges"]
    second: Int[Array, " edges"]
    kind: Int[Array, " edges"]
    symmetric: Bool[Array, " kinds"]
    node_ptr: Int[Array, " structure_bounds"]

    @cached_property
    def forest(self) -> tuple[Forest, bool] | None:
        """The trees that the edges form, and whether tables lie from child to parent; None where loops of trees fail.

        Those have one table, and the same end of every edge above.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, connected_components

        nodes = int(self.node_ptr[-1])
        if len(np.unique(self.kind)) > 1:
            return None
        joined = csr_array((np.ones(len(self.first)), (self.first, self.second)), (nodes, nodes))
        parts, part = connected_components(joined, directed=False)
        if len(self.first) != nodes - parts:
            return None
        # All trees hang from one node more, so that one search finds every parent.
        roots = np.unique(part, return_index=True)[1]
        above = np.concatenate([np.full(len(roots), nodes), self.first])
        below = np.concatenate([roots, self.second])
        rooted = csr_array((np.ones(len(above)), (above, below)), (nodes + 1, nodes + 1))
        found, parent = breadth_first_order(rooted, nodes, directed=False)
        parent = np.where(parent[:nodes] == nodes, -1, parent[:nodes]).astype(np.int64)
        downwards = parent[self.second] == self.first
        mixed = bool(downwards.any() and not downwards.all())
        if mixed and not self.symmetric[self.kind[0]]:
            return None
        rank = np.argsort(found)[:nodes]
        owner = np.repeat(np.arange(len(self.node_ptr) - 1), np.diff(self.node_ptr))
        order = np.lexsort((rank, owner))
        position = np.append(np.argsort(order), -1)
        flipped = bool(len(downwards) and not downwards.any())
        return Forest(self.node_ptr, position[parent[order]], order), flipped


def labels_of_arcs(X: Structures) -> list[str]:
    """Return the label of every arc, all columns together; "" where there are none."""
    labels = X.features.get("arc_labels")
    return [""] * X.total_arcs if labels is None else [str(v) for v in labels.joined().decoded()[0]]


def kinds_of(X: Structures) -> tuple[Kind, ...]:
    """Return the kinds of edges that a pack has, in order."""
    return tuple(sorted(set(_leading_arcs(X)[1]), key=lambda kind: (kind[0] or "", kind[1])))


def edges_of(X: Structures, kinds: Sequence[Kind]) -> Edges:
    """Return each edge of a known kind once, from its first node to its second along the label that sorts first."""
    arcs, found = _leading_arcs(X)
    number = {kind: code for code, kind in enumerate(kinds)}
    code = np.array([number.get(kind, -1) for kind in found], np.int64)
    arcs, code = arcs[code >= 0], code[code >= 0]
    source, target, ptr = (part.cpu().numpy().astype(np.int64) for part in (X.source, X.target, X.node_ptr))
    return Edges(source[arcs], target[arcs], code, np.array([a == b for a, b in kinds], bool), ptr)


def _leading_arcs(X: Structures) -> tuple[Array, list[Kind]]:
    """Return of the two arcs of every edge that of the first label, or else the one that comes first; and its kind."""
    source, target, reverse = (
        part.cpu().numpy().astype(np.int64) for part in (X.source, X.target, X.reverse)
    )
    labels = np.array(labels_of_arcs(X), object)
    arcs = np.arange(len(source))
    back = np.where(reverse < 0, arcs, reverse)
    leads = (labels < labels[back]) | ((labels == labels[back]) & (arcs <= back))
    arcs = np.flatnonzero(leads.astype(bool) & (source != target))
    return arcs, [(None if reverse[a] < 0 else labels[a], labels[back[a]]) for a in arcs]


@dataclass(frozen=True, eq=False)
class Expected:
    """What a sum over states says: log Z of each structure, the states of nodes, and the pairs at edges of each kind.

    `status` is "converged", or says what to try.
    """

    log_partition: Float[Array, " structures"]
    nodes: Float[Array, "nodes states"]
    pairs: Float[Array, "kinds states states"]
    status: str = "converged"


def worse(first: str, second: str) -> str:
    """Return the first status that is not "converged", if there is one."""
    return second if first == "converged" else first


@dataclass(frozen=True, eq=False)
class Field:
    """The sums and the best states of fields on given edges, whatever their potentials.

    Trees with one kind of edge have compiled loops of their own, those of hidden Markov models; everything else is a
    `FactorGraph`, and `method` one of `hiddenfield.inference.METHODS`, or "auto": exact where its tables are small,
    otherwise "loopy_bp".
    """

    edges: Edges
    num_states: int
    method: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def forest(self) -> tuple[Forest, bool] | None:
        """The trees, where they are summed by the loops of hidden Markov models."""
        return self.edges.forest if self.method in ("auto", "exact") else None

    def expected(
        self, unary: Float[Array, "nodes states"], tables: Float[Array, "kinds states states"]
    ) -> Expected:
        """Return log Z and expectations; costs O(nodes x states²) on trees, what the method costs elsewhere."""
        if self.forest is not None:
            return self._on_trees(unary, tables, *self.forest)
        method, options = self.settled
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = infer(self._graph(unary, tables), method, **options)
        pairs = np.zeros(tables.shape)
        if found.factor_marginals:
            np.add.at(pairs, self.edges.kind, found.factor_marginals[0].numpy())
        return Expected(found.log_partition.numpy(), found.marginals.numpy(), pairs, found.status)

    def best(
        self, unary: Float[Array, "nodes states"], tables: Float[Array, "kinds states states"]
    ) -> Int[Array, " nodes"]:
        """Return the jointly most likely states: by Viterbi's algorithm on trees, otherwise by `map_state`."""
        if self.forest is None:
            return map_state(self._graph(unary, tables)).assignment.numpy()
        states = np.empty(len(unary), np.int64)
        states[self.forest[0].order] = most_likely_states(*self._chains(unary, tables, *self.forest))
        return states

    def _chains(self, unary: Array, tables: Array, forest: Forest, flipped: bool) -> tuple[Sequences, Chain]:
        table = tables[self.edges.kind[0]] if len(self.edges.kind) else np.zeros((unary.shape[1],) * 2)
        nodes, given = forest.num_nodes, unary if forest.in_order else unary[forest.order]
        chain = Chain(np.ones(unary.shape[1]), np.exp(table.T if flipped else table), given)
        return Sequences(forest, Table(np.zeros((nodes, 0)), ()), np.arange(nodes)), chain

    def _on_trees(self, unary: Array, tables: Array, forest: Forest, flipped: bool) -> Expected:
        # Only differences matter, and large entries of a table must not overflow.
        top = tables.max(initial=0.0)
        found = expected_counts(*self._chains(unary, tables - top, forest, flipped), per_node=True)
        nodes, pairs = found.occupancy, np.zeros(tables.shape)
        if not forest.in_order:
            nodes = np.empty_like(found.occupancy)
            nodes[forest.order] = found.occupancy
        if len(self.edges.kind):
            pairs[self.edges.kind[0]] = found.moves.T if flipped else found.moves
        owner = forest.structure_of_node[forest.parent >= 0]
        log_partition = found.log_likelihood + top * np.bincount(owner, minlength=len(forest))
        return Expected(log_partition, nodes, pairs)

    def _graph(self, unary: Array, tables: Array) -> FactorGraph:
        """Return the `FactorGraph` with these potentials."""
        nodes, edges = len(unary), self.edges
        scopes = torch.from_numpy(np.stack([edges.first, edges.second], axis=1))
        kind, ones = torch.from_numpy(edges.kind), torch.ones(len(edges.kind), dtype=torch.float64)
        group = FactorGroup(scopes, torch.from_numpy(tables), kind, ones)
        return FactorGraph(
            torch.full((nodes,), self.num_states),
            torch.from_numpy(unary).flatten(),
            (group,) if len(edges.kind) else (),
            torch.from_numpy(edges.node_ptr),
            torch.ones(nodes, dtype=torch.float64),
            torch.zeros(len(edges.node_ptr) - 1, dtype=torch.float64),
        )

    @cached_property
    def settled(self) -> tuple[str, dict[str, Any]]:
        """The method and its options."""
        if self.forest is not None or self.method != "auto":
            return ("exact" if self.method == "auto" else self.method), self.options
        nothing = np.zeros((len(self.edges.symmetric), self.num_states, self.num_states))
        blank = self._graph(np.zeros((int(self.edges.node_ptr[-1]), self.num_states)), nothing)
        try:
            clique_plan(blank, max_memory=EXACT_MEMORY)
        except TooLargeError:
            return "loopy_bp", self.options
        return "exact", self.options

    def guarantee(self, whole: bool) -> str:
        """Return what a log-likelihood is: a bound of log Z bounds it from the other side where labels are `whole`."""
        method = self.settled[0]
        if method == "exact":
            return "exact"
        bounds = {"mean_field": "upper bound", "tree_reweighted": "lower bound"}
        return bounds.get(method, "estimate") if whole else "estimate"


def allowed_states(
    codes: Float[Array, " nodes"], labels: int, hidden_states: int = 1
) -> Bool[Array, "nodes states"]:
    """Return which states the codes of labels leave open: all where one is NaN, not known; none where one is -1."""
    allowed = np.isnan(codes)[:, None] | (codes[:, None] == np.arange(labels))
    return np.repeat(allowed, hidden_states, axis=1)


@compiled(fast=True)
def add_scores(
    ptr: Array, feature: Array, value: Array, pair_ptr: Array, pair_state: Array, weights: Array, out: Array
) -> None:
    """Add to the row of each node the weights of its features: a sparse matrix times a sparse matrix, dense result."""
    for i in prange(ptr.size - 1):
        for e in range(ptr[i], ptr[i + 1]):
            for p in range(pair_ptr[feature[e]], pair_ptr[feature[e] + 1]):
                out[i, pair_state[p]] += value[e] * weights[p]


@compiled(fast=True)
def add_residuals(
    ptr: Array, node: Array, value: Array, pair_ptr: Array, pair_state: Array, residual: Array, out: Array
) -> None:
    """Add up for every pair of a feature and a state what the nodes with this feature have in that state."""
    for f in prange(ptr.size - 1):
        begin, end = pair_ptr[f], pair_ptr[f + 1]
        if end - begin <= 2:
            for e in range(ptr[f], ptr[f + 1]):
                for p in range(begin, end):
                    out[p] += value[e] * residual[node[e], pair_state[p]]
        else:  # whole rows are vectorised
            total = np.zeros(residual.shape[1])
            for e in range(ptr[f], ptr[f + 1]):
                i = node[e]
                for s in range(total.size):
                    total[s] += value[e] * residual[i, s]
            for p in range(begin, end):
                out[p] = total[pair_state[p]]


@dataclass(frozen=True, eq=False)
class Weights:
    """Which weights there are: one for each pair of a feature and a state that is allowed, and the tables.

    Parameters
    ----------
    pair_ptr, pair_state
        The states of each feature: with whole labels those that the feature occurs with, otherwise all.
    num_states, num_kinds
        Size of the tables.
    """

    pair_ptr: Int[Array, " feature_bounds"]
    pair_state: Int[Array, " pairs"]
    num_states: int
    num_kinds: int

    def __len__(self) -> int:
        """Return the number of weights."""
        return len(self.pair_state) + self.num_kinds * self.num_states**2

    def split(
        self, vector: Float[Array, " weights"]
    ) -> tuple[Float[Array, " pairs"], Float[Array, "kinds states states"]]:
        """Return the weights of features, and the tables as they are learned."""
        pairs = len(self.pair_state)
        return vector[:pairs], vector[pairs:].reshape(self.num_kinds, self.num_states, self.num_states)

    def scores(self, features: csr_matrix, weights: Float[Array, " pairs"]) -> Float[Array, "nodes states"]:
        """Return the log potentials of nodes."""
        out = np.zeros((features.shape[0], self.num_states))
        entries = (features.indptr, features.indices, features.data)
        add_scores(*entries, self.pair_ptr, self.pair_state, weights, out, work=8 * features.nnz)
        return out


def symmetric(
    tables: Float[Array, "kinds states states"], edges: Edges
) -> Float[Array, "kinds states states"]:
    """Return tables with those of edges without direction made symmetric; it is its own transpose."""
    even = edges.symmetric[:, None, None]
    return np.where(even, (tables + tables.transpose(0, 2, 1)) / 2, tables)


@dataclass(frozen=True, eq=False)
class LogLikelihood:
    r"""The log-likelihood of labels, less :math:`\tfrac{1}{2} \lambda_2 \lVert\theta\rVert^2`: an `Objective`.

    Parameters
    ----------
    features
        A row for each node.
    fields
        The fields on their edges.
    weights
        Which weights there are.
    allowed
        The states that each node's label leaves open.
    l2
        The strength :math:`\lambda_2` of the penalty.
    """

    features: csr_matrix
    fields: Field
    weights: Weights
    allowed: Bool[Array, "nodes states"]
    l2: float = 0.0
    statuses: list[str] = field(default_factory=list)

    @cached_property
    def _transposed(self) -> csr_matrix:
        return self.features.T.tocsr()

    @cached_property
    def _observed(self) -> Expected | None:
        """The expectations with labels, where these leave nothing open: they do not depend on weights."""
        if not (self.allowed.sum(1) == 1).all():
            return None
        edges, states = self.fields.edges, self.allowed.argmax(1)
        pairs = np.zeros((self.weights.num_kinds, self.weights.num_states, self.weights.num_states))
        np.add.at(pairs, (edges.kind, states[edges.first], states[edges.second]), 1.0)
        return Expected(np.zeros(0), self.allowed.astype(np.float64), pairs)

    @property
    def guarantee(self) -> str:
        """What the log-likelihood is."""
        return self.fields.guarantee(whole=self._observed is not None)

    def sums(self, vector: Float[Array, " weights"]) -> tuple[Expected, Expected, float]:
        """Return the expectations with labels and without, and the log-likelihood."""
        pairs, tables = self.weights.split(vector)
        tables = symmetric(tables, self.fields.edges)
        unary = self.weights.scores(self.features, pairs)
        free, given = self.fields.expected(unary, tables), self._observed
        self.statuses[:] = [free.status]
        if given is not None:
            value = float((unary * given.nodes).sum() + (tables * given.pairs).sum())
        else:
            given = self.fields.expected(np.where(self.allowed, unary, -np.inf), tables)
            self.statuses[:] = [worse(free.status, given.status)]
            value = float(given.log_partition.sum())
        return given, free, value - float(free.log_partition.sum())

    def batch(
        self, rows: Float[Array, "points weights"]
    ) -> tuple[Float[Array, " points"], Float[Array, "points weights"]]:
        """Return values and gradients."""
        found = [self._at(row) for row in rows]
        return np.array([value for value, _ in found]), np.stack([gradient for _, gradient in found])

    def _at(self, vector: Float[Array, " weights"]) -> tuple[float, Float[Array, " weights"]]:
        given, free, value = self.sums(vector)
        own, turned = np.zeros(len(self.weights.pair_state)), self._transposed
        entries = (turned.indptr, turned.indices, turned.data, self.weights.pair_ptr, self.weights.pair_state)
        add_residuals(*entries, given.nodes - free.nodes, own, work=8 * turned.nnz)
        tables = symmetric(given.pairs - free.pairs, self.fields.edges)
        gradient = np.concatenate([own, tables.ravel()]) - self.l2 * vector
        return value - self.l2 / 2 * float(vector @ vector), gradient


def allowed_weights(
    features: csr_matrix, allowed: Bool[Array, "nodes states"], num_kinds: int, every: bool
) -> Weights:
    """Return the weights of a fit: of each feature the states that it occurs with, or all.

    A feature that never occurs with a label only serves to lower its score: leaving these weights out costs little
    accuracy, and a tenth of them is left where features are words.
    """
    states = allowed.shape[1]
    if every or not (allowed.sum(1) == 1).all():
        ptr = np.arange(features.shape[1] + 1, dtype=np.int64) * states
        return Weights(ptr, np.tile(np.arange(states), features.shape[1]), states, num_kinds)
    from scipy.sparse import csr_array

    seen = csr_array((np.abs(features).T @ csr_array(allowed.astype(np.float64))).tocsr())
    seen.eliminate_zeros()
    seen.sort_indices()
    return Weights(seen.indptr.astype(np.int64), seen.indices.astype(np.int64), states, num_kinds)


def sparse_maximum(
    objective: LogLikelihood,
    start: Float[Array, " weights"],
    l1: float,
    tolerance: float,
    max_iterations: int,
) -> tuple[Float[Array, " weights"], bool, str]:
    r"""Maximise the objective less :math:`\lambda_1 \lVert\theta\rVert_1`: most weights become exactly zero.

    Each weight is a difference of two that are not negative, :math:`\theta = a - b`, so that the penalty is
    :math:`\lambda_1 \sum (a + b)` and smooth, and L-BFGS with bounds applies.

    Returns
    -------
    weights, converged, status
    """
    from scipy.optimize import minimize

    count = len(start)

    def descend(both: Array) -> tuple[float, Array]:
        values, gradients = objective.batch((both[:count] - both[count:])[None])
        slope = np.concatenate([-gradients[0], gradients[0]]) + l1
        return l1 * float(both.sum()) - float(values[0]), slope

    begin = np.maximum(np.concatenate([start, -start]), 0.0)
    goal = tolerance * max(1.0, abs(descend(begin)[0]))
    found = minimize(
        descend,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * count),
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "gtol": goal},
    )
    status = "converged" if found.success else f"not converged: {found.message}; raise max_iterations"
    return found.x[:count] - found.x[count:], bool(found.success), status
