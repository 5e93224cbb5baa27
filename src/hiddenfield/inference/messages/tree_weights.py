"""How often each factor appears in a random forest of a field's factors: the weights of tree-reweighted inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.spanning_trees import (
    LARGEST_EXACT,
    forest_average,
    greedy_forest,
    spanning_tree_probabilities,
)
from hiddenfield.fields.layout import flatten, free_variables
from hiddenfield.shapes import Array, Float, Int, Tensor

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
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        arity = np.diff(self.scope_ptr)
        result = np.ones(len(arity))
        owner = np.repeat(np.arange(len(arity)), arity)
        links = coo_array(
            (np.ones(len(owner)), (self.scope, self.num_variables + owner)),
            shape=(self.num_variables + len(arity),) * 2,
        )
        parts, part = connected_components(links, directed=False)
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
