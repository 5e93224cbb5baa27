"""Beliefs and Bethe's free energy of messages."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.inference.messages.belief_loops import pair_beliefs, variable_beliefs
from hiddenfield.inference.messages.free_energy import negative_free_energy
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["evaluate"]


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
