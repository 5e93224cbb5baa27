"""Free energies of one family: they differ in the counting numbers of entropies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.messages.belief_loops import factor_terms, pair_beliefs, variable_beliefs
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.ops import segment_sum
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["entropy", "evaluate", "expectation", "negative_free_energy"]


def expectation(log_probability: Tensor, values: Tensor, axes: list[int]) -> Tensor:
    r"""Return :math:`\sum_x p(x) v(x)` with :math:`0 \cdot (-\infty) = 0`."""
    probability = log_probability.exp()
    return torch.where(probability > 0, probability * values, torch.zeros_like(probability)).sum(axes)


def entropy(log_probability: Tensor, axes: list[int]) -> Tensor:
    r"""Return :math:`-\sum_x p(x) \log p(x)`."""
    return -expectation(log_probability, log_probability, axes)


def negative_free_energy(
    field: FactorGraph,
    log_marginals: Float[Tensor, " states"],
    factor_log_marginals: Sequence[Tensor],
    weights: Sequence[Tensor] | None = None,
) -> Float[Tensor, " graphs"]:
    r"""Evaluate beliefs, graph by graph, with factor weights :math:`\rho`.

    .. math::

        \sum_v N_v \big(E_b[\log \Phi_v] + H(b_v)\big)
        + \sum_f N_f \Big(E_b[\log \Psi_f] + \rho_f \big(H(b_f) - \textstyle\sum_{v \in f} H(b_v)\big)\Big).

    :math:`\rho = 1` is Bethe's (an estimate of log Z at a fixed point, exact on trees), spanning-tree weights give the
    tree-reweighted upper bound, and :math:`\rho = 0` with product beliefs the mean-field lower bound. -inf where the
    beliefs put probability on a hard zero. Summed in double precision, returned in that of the field.
    """
    own = entropy_of_states(field, log_marginals)
    probability = log_marginals.exp()
    energy = torch.where(probability > 0, probability * field.log_unary, torch.zeros_like(probability))
    each = segment_sum(energy, field.state_ptr) + own
    # Sums over a graph are in double precision: a million terms in single precision would lose whole digits.
    value = field.log_constant.double() + segment_sum((field.counts * each).double(), field.variable_ptr)
    for number, (group, log_belief) in enumerate(zip(field.groups, factor_log_marginals, strict=True)):
        term, uncertainty = _terms(group, log_belief)
        information = uncertainty - own[group.scopes].sum(1)
        term = term + (information if weights is None else weights[number] * information)
        owner = field.variable_graph[group.scopes[:, 0]]
        value = value.index_add(0, owner, (group.count * term).double())
    impossible = _impossible(field, log_marginals)
    return torch.where(impossible, torch.full_like(value, -math.inf), value).to(field.dtype)


def _terms(group: FactorGroup, log_belief: Tensor) -> tuple[Tensor, Tensor]:
    """Return each factor's expected log potential and entropy."""
    if use_compiled(group.log_tables, log_belief):
        return factor_terms(group, log_belief)
    axes = list(range(1, group.arity + 1))
    return expectation(log_belief, group.expanded().expand_as(log_belief), axes), entropy(log_belief, axes)


def entropy_of_states(
    field: FactorGraph, log_marginals: Float[Tensor, " states"]
) -> Float[Tensor, " variables"]:
    """Return the entropy of every variable's marginal."""
    probability = log_marginals.exp()
    terms = torch.where(probability > 0, probability * log_marginals, torch.zeros_like(probability))
    return -segment_sum(terms, field.state_ptr)


def _impossible(field: FactorGraph, log_marginals: Tensor) -> Tensor:
    """Return the graphs in which some variable has no possible state."""
    alive = segment_sum((log_marginals > -math.inf).to(field.dtype), field.state_ptr) > 0
    dead = segment_sum((~alive).to(field.dtype), field.variable_ptr)
    return dead > 0


def evaluate(
    passing: MessagePassing, messages: Float[Tensor, " messages"]
) -> tuple[Float[Tensor, " states"], tuple[Tensor, ...], Float[Tensor, " graphs"]]:
    """Return log marginals of variables and of factors, and the `negative_free_energy` of them.

    Pairs on the CPU are passed over once, for their beliefs and their terms of the free energy together.
    """
    field = passing.field
    pairs = (
        passing.weights is None and not passing.maximise and all(group.arity == 2 for group in field.groups)
    )
    if not pairs or not use_compiled(
        messages, field.log_unary, *(group.log_tables for group in field.groups)
    ):
        marginals, factors = passing.beliefs(messages)
        return marginals, factors, negative_free_energy(field, marginals, factors, passing.weights)
    totals, own, energy, entropy = variable_beliefs(passing, messages, terms=True)
    value, owner = as_array(field.log_constant).astype(np.float64), as_array(field.variable_graph)
    add_variables(energy, entropy, as_array(field.counts), owner, value)
    beliefs = []
    for number, group in enumerate(field.groups):
        belief, gain = pair_beliefs(passing, number, messages, totals)
        add_pairs(gain, entropy, as_array(group.scopes), as_array(group.count), owner, value)
        beliefs.append(belief)
    return torch.from_numpy(own), tuple(beliefs), torch.from_numpy(value).to(field.dtype)


@compiled
def add_variables(energy: Array, entropy: Array, count: Array, owner: Array, value: Array) -> None:
    """Add each variable's expected log potential and entropy to its graph's value."""
    for variable in range(energy.size):
        value[owner[variable]] += count[variable] * (energy[variable] + entropy[variable])


@compiled
def add_pairs(gain: Array, entropy: Array, scopes: Array, count: Array, owner: Array, value: Array) -> None:
    """Add each factor's expected log potential, and its entropy less those of its variables."""
    for factor in range(gain.size):
        first, second = scopes[factor, 0], scopes[factor, 1]
        # Where a variable has no possible state the graph's value is -inf already.
        if entropy[first] > -np.inf and entropy[second] > -np.inf:
            value[owner[first]] += count[factor] * (gain[factor] - entropy[first] - entropy[second])
