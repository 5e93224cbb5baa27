"""Exact inference: junction trees for marginals, joint assignments, marginal MAP and samples; enumeration as a check."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.clique_kernels import draw, trace_back
from hiddenfield.inference.clique_plan import CliquePlan, clique_plan
from hiddenfield.inference.clique_values import Collected, collect_messages, distribute_messages
from hiddenfield.inference.live_states import live_states
from hiddenfield.inference.posterior import MapState, Posterior
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["exact", "map_state", "marginal_map", "sample"]

CONTRADICTION = "contradiction: hard zeros and evidence leave no assignment possible"


def exact(
    field: FactorGraph,
    *,
    order: str = "best",
    max_memory: float | None = None,
) -> Posterior:
    live = live_states(field)
    plan = clique_plan(field, live, order=order, max_memory=max_memory)
    collected = collect_messages(field, plan)
    probabilities = torch.from_numpy(distribute_messages(plan, collected))
    log_partition = torch.from_numpy(collected.log_partition)
    impossible = log_partition == -math.inf
    if bool(impossible.any()):
        _clear(field, probabilities, impossible)
    log = probabilities.log().to(field.device, field.dtype)
    begin = field.log_unary.shape[0]
    factors = []
    for group in field.groups:
        end = begin + group.num_factors * math.prod(group.states)
        factors.append(log[begin:end].reshape(group.num_factors, *group.states))
        begin = end
    graphs = field.num_graphs
    return Posterior(
        field=field,
        method="exact",
        log_marginals=log[: field.log_unary.shape[0]],
        factor_log_marginals=tuple(factors),
        log_partition=log_partition.to(field.device, field.dtype),
        guarantee="exact",
        converged=torch.ones(graphs, dtype=torch.bool, device=field.device),
        iterations=torch.ones(graphs, dtype=torch.int64, device=field.device),
        residual=torch.zeros(graphs, dtype=field.dtype, device=field.device),
        status=_status(impossible),
        extra={"treewidth": plan.order.width},
    )


def map_state(field: FactorGraph, *, order: str = "best", max_memory: float | None = None) -> MapState:
    return marginal_map(field, range(field.num_variables), order=order, max_memory=max_memory)


def _status(impossible: Tensor) -> str:
    if not bool(impossible.any()):
        return "converged"
    part = "" if len(impossible) == 1 else f" in {int(impossible.sum()):,} of {len(impossible):,} graphs"
    return CONTRADICTION + part


def _clear(field: FactorGraph, probabilities: Tensor, impossible: Tensor) -> None:
    """Give no probability to any state of a graph that has no assignment."""
    begin = field.log_unary.shape[0]
    probabilities[:begin][impossible[field.variable_graph.cpu()][field.state_variable.cpu()]] = 0.0
    for group in field.groups:
        end = begin + group.num_factors * math.prod(group.states)
        owner = field.variable_graph.cpu()[group.scopes[:, 0].cpu()]
        probabilities[begin:end].reshape(group.num_factors, -1)[impossible[owner]] = 0.0
        begin = end


def marginal_map(
    field: FactorGraph,
    variables: Sequence[int] | Int[Tensor, " chosen"],
    *,
    order: str = "best",
    max_memory: float | None = None,
) -> MapState:
    chosen = np.zeros(field.num_variables, np.int64)
    chosen[np.asarray(list(variables), dtype=np.int64)] = 1
    plan, collected, over = _collected(field, chosen, order, max_memory)
    state = np.full(field.num_variables, 0, np.int64)
    trace_back(
        plan.tree.clique_ptr, plan.tree.clique_variables, plan.axis_states, plan.axis_alive, plan.term_ptr,
        plan.term_kind, collected.term_in, plan.term_child, plan.stride_ptr, plan.stride, plan.alive, collected.values,
        collected.logs, collected.in_logs, over, state,
    )  # fmt: skip
    assignment = plan.alive[plan.alive_ptr[:-1] + state] if len(state) else state
    assignment = np.where(chosen == 1, assignment, -1)
    value = torch.from_numpy(collected.log_partition)
    return MapState(
        torch.from_numpy(assignment).to(field.device),
        value.to(field.device, field.dtype),
        "exact",
        value.to(field.device, field.dtype),
        _status(value == -math.inf),
    )


def sample(
    field: FactorGraph,
    num_samples: int,
    *,
    seed: int | torch.Generator = 0,
    order: str = "best",
    max_memory: float | None = None,
) -> Int[Tensor, "samples variables"]:
    plan, collected, _ = _collected(field, np.zeros(field.num_variables, np.int64), order, max_memory)
    if bool((collected.log_partition == -math.inf).any()):
        raise InputError(f"nothing can be drawn: {CONTRADICTION}")
    number = seed if isinstance(seed, int) else int(torch.randint(2**62, (1,), generator=seed))
    state = np.zeros((field.num_variables, num_samples), np.int64)
    draw(
        plan.tree.clique_ptr, plan.tree.clique_variables, plan.axis_states, plan.axis_alive, plan.term_ptr,
        plan.term_kind, collected.term_in, plan.term_child, plan.stride_ptr, plan.stride, plan.alive, plan.most_terms,
        collected.values, collected.logs, collected.in_logs, number, state,
    )  # fmt: skip
    return torch.from_numpy(plan.alive[plan.alive_ptr[:-1, None] + state].T.copy()).to(field.device)


def _collected(
    field: FactorGraph, stage: Array, order: str, max_memory: float | None
) -> tuple[CliquePlan, Collected, Array]:
    """Collect messages on a tree in which every clique eliminates one variable, those of stage 1 by maximising."""
    live = live_states(field)
    plan = clique_plan(field, live, order=order, stage=stage, merge=False, max_memory=max_memory)
    over = stage[plan.tree.clique_variables[plan.tree.clique_ptr[1:] - 1]] == 1
    return plan, collect_messages(field, plan, over), over
