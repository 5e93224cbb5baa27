"""Exact inference by looking at every assignment: for small fields, and to check everything else."""

from __future__ import annotations

import math

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["assignments", "enumerate_assignments"]

MOST_NUMBERS = 1 << 26
"""States that may be written down, over all assignments and variables."""


def assignments(
    field: FactorGraph,
) -> tuple[Int[Tensor, "assignments variables"], Float[Tensor, "assignments graphs"]]:
    """Return all assignments of all graphs side by side with their log values, -inf where a graph has fewer.

    Row i holds the i-th assignment of every graph, the last variable's state running fastest.
    """
    cards, owner = field.cardinalities.cpu(), field.variable_graph.cpu()
    log_states = torch.zeros(field.num_graphs, dtype=torch.float64).index_add(0, owner, cards.double().log())
    most = float(log_states.max()) if field.num_graphs else 0.0
    if most + math.log(max(field.num_variables, 1)) > math.log(MOST_NUMBERS):
        raise InputError(
            f"enumeration would look at {math.exp(min(most, 700.0)):.3g} assignments; use algorithm='junction_tree'"
        )
    period = torch.ones_like(cards)
    sizes = torch.ones(field.num_graphs, dtype=torch.int64)
    for variable in range(field.num_variables - 1, -1, -1):
        period[variable] = sizes[owner[variable]]
        sizes[owner[variable]] *= cards[variable]
    rows = torch.arange(int(sizes.max()) if field.num_graphs else 1)
    states = (rows[:, None] // period) % cards
    states = states.to(field.device)
    beyond = (rows[:, None] >= sizes).to(field.device)
    return states, field.log_value(states).masked_fill(beyond, -math.inf)


def enumerate_assignments(field: FactorGraph) -> tuple[Tensor, Tensor]:
    """Return the log partition of each graph, and all marginals: of variables, then of factors, end to end.

    Plain torch on any device; differentiable. Cost: the number of assignments times the size of the field.
    """
    states, values = assignments(field)
    total = torch.logsumexp(values, 0)
    possible = total > -math.inf
    safe = torch.where(possible, total, torch.zeros_like(total))
    weight = torch.where(possible, (values - safe).exp(), torch.zeros_like(values))
    size = field.log_unary.shape[0]
    places = field.state_ptr[:-1] + states
    parts = [_scattered(size, places, weight[:, field.variable_graph])]
    for group in field.groups:
        place = torch.zeros_like(states[:, :1]).expand(-1, group.num_factors)
        for port in range(group.arity):
            place = place * group.states[port] + states[:, group.scopes[:, port]]
        entries = math.prod(group.states)
        place = place + entries * torch.arange(group.num_factors, device=field.device)
        own = weight[:, field.variable_graph[group.scopes[:, 0]]]
        parts.append(_scattered(entries * group.num_factors, place, own))
    return total, torch.cat(parts)


def _scattered(size: int, places: Tensor, weights: Tensor) -> Tensor:
    return weights.new_zeros(size).index_add(0, places.reshape(-1), weights.reshape(-1))
