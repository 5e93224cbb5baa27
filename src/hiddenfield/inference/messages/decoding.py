"""A joint assignment from the messages of max-product."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.inference.messages.loops import (
    Ports,
    Scratch,
    gather,
    load_cavities,
    make_scratch,
    total_of,
)
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.ops.compile import as_array, compiled, subroutine
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["decode"]


def decode(passing: MessagePassing, messages: Float[Tensor, " messages"]) -> Int[Tensor, " variables"]:
    r"""Choose states one variable after another, each given those before it.

    From the first variable of each part outwards, variable v takes

    .. math::

        x_v = \arg\max \; \log\Phi_v(x_v) + \sum_{f \ni v} \max_{x_u,\; u \text{ not yet chosen}} \Big(
        \log\Psi_f(x_{C_f}) + \sum_u \mu_{u \to f}(x_u)\Big).

    On a forest, from messages that have settled, the assignment is a most likely one, also where several are. Elsewhere
    it never breaks a hard constraint with the variables chosen before while there is a state that does not.

    Cost: about one sweep of all messages. Runs on the CPU, wherever the messages are.
    """
    field = passing.field
    if field.device.type != "cpu" or field.dtype not in (torch.float32, torch.float64):
        dtype = field.dtype if field.dtype in (torch.float32, torch.float64) else torch.float32
        weights = passing.weights
        weights = None if weights is None else tuple(part.to("cpu", dtype) for part in weights)
        there = MessagePassing(field.to("cpu", dtype), weights, maximise=True)
        return decode(there, messages.to("cpu", dtype)).to(field.device)
    plan = MessagePlan(passing)
    plan.ports.messages[:] = as_array(messages.detach())
    assignment = np.full(field.num_variables, -1, np.int64)
    scores = np.empty(int(field.cardinalities.max()) if field.num_variables else 0, plan.log_unary.dtype)
    choose_in_turn(plan.ports, np.argsort(plan.depths[0], kind="stable"), *plan.widest, scores, assignment)
    return torch.from_numpy(assignment)


@subroutine(allocates=False)
def fix_chosen(factor: int, target: int, ports: Ports, assignment: Array, scratch: Scratch) -> bool:
    """Let the factor's variables that have their state send it alone; return whether there are any."""
    offset = 0
    found = False
    for position in range(ports.factor_ptr[factor + 1] - ports.factor_ptr[factor]):
        states = scratch.sizes[position]
        chosen = assignment[ports.port_variable[ports.factor_port[ports.factor_ptr[factor] + position]]]
        if position != target and chosen >= 0:
            found = True
            for state in range(states):
                scratch.logs[offset + state] = 0 if state == chosen else -np.inf
        offset += states
    return found


@subroutine(allocates=False)
def add_port(port: int, ports: Ports, assignment: Array, scratch: Scratch, scores: Array) -> None:
    """Add what a port says about its variable, given the states that have been chosen."""
    factor, target = ports.port_factor[port], ports.port_position[port]
    first = ports.port_ptr[port]
    states = ports.port_ptr[port + 1] - first
    load_cavities(factor, target, ports, True, scratch)
    if fix_chosen(factor, target, ports, assignment, scratch):
        arity = ports.factor_ptr[factor + 1] - ports.factor_ptr[factor]
        entries = 1
        for position in range(arity):
            entries *= scratch.sizes[position]
        begin = ports.table_begin[factor]
        gather(1, target, arity, ports.log_tables[begin : begin + entries], scratch.logs, scratch)
        for state in range(states):
            scores[state] += ports.port_weight[port] * scratch.out[state]
    else:
        for state in range(states):
            scores[state] += ports.port_weight[port] * ports.messages[first + state]


@compiled
def choose_in_turn(
    ports: Ports, order: Array, widest: int, most_ports: int, scores: Array, assignment: Array
) -> None:
    """Write the states that variables choose in the given order; `assignment` comes in as -1."""
    scratch = make_scratch(ports.messages, widest, most_ports)
    for variable in range(order.size):
        total_of(variable, ports)
    for place in range(order.size):
        variable = order[place]
        first = ports.state_ptr[variable]
        states = ports.state_ptr[variable + 1] - first
        for state in range(states):
            scores[state] = ports.log_unary[first + state]
        for at in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
            add_port(ports.variable_port[at], ports, assignment, scratch, scores)
        best = 0
        for state in range(states):
            if scores[state] > scores[best]:
                best = state
        assignment[variable] = best
