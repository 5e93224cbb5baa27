"""The numbers that a clique plan runs on: tables scaled to a maximum of 1, messages, marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.clique_kernels import collect, distribute
from hiddenfield.inference.clique_plan import CliquePlan, has_shared_tables
from hiddenfield.shapes import Array, Tensor

__all__ = ["Collected", "collect_messages", "distribute_messages"]


@dataclass(frozen=True, eq=False)
class Collected:
    """All messages from the leaves to the roots.

    Parameters
    ----------
    values, logs
        Tables scaled to a maximum of 1, and their logarithms; messages follow the tables in `values`.
    term_in
        Where each term lies; -1 where it is 1 everywhere and can be left out.
    in_logs
        For each clique whether it was computed, and its message stored, in logarithms.
    log_scale
        What each clique's message was divided by.
    log_partition
        Of each graph.
    """

    values: Array
    logs: Array
    term_in: Array
    in_logs: Array
    log_scale: Array
    log_partition: Array


def collect_messages(field: FactorGraph, plan: CliquePlan, maximise: Array | None = None) -> Collected:
    """Run a plan from the leaves to the roots; where `maximise` says so a clique maximises instead of summing."""
    logs, tops, ranges = _tables(field)
    values = np.empty(plan.num_values)
    np.exp(logs, out=values[: len(logs)])
    is_table = plan.term_table >= 0
    term_range = np.where(is_table, ranges[plan.term_table], 0.0)
    trivial = is_table & (term_range == 0.0) & _without_zeros(plan, logs, len(ranges))[plan.term_table]
    term_in = np.where(trivial, -1, plan.term_in)
    cliques = plan.tree.num_cliques
    in_logs, log_scale = np.zeros((cliques, 2), np.bool_), np.zeros(cliques)
    over = np.zeros(cliques, np.bool_) if maximise is None else maximise
    collect(
        plan.tree.clique_ptr, plan.axis_states, plan.axis_alive, plan.split, plan.inner_size, plan.num_blocks,
        plan.message_base, plan.message_size, over, plan.term_ptr, plan.term_kind, term_in, plan.term_child,
        term_range, plan.stride_ptr, plan.stride, plan.alive, plan.most_terms, plan.most_inner, values, logs, in_logs,
        log_scale,
    )  # fmt: skip
    graph = field.variable_graph.cpu().numpy()
    first = plan.tree.clique_variables[plan.tree.clique_ptr[:-1]]
    total = field.log_constant.detach().double().cpu().numpy().copy()
    total += np.bincount(graph[first], log_scale, minlength=field.num_graphs)
    owner = np.repeat(first, np.diff(plan.term_ptr))[is_table]
    total += np.bincount(graph[owner], tops[plan.term_table[is_table]], minlength=field.num_graphs)
    return Collected(values, logs, term_in, in_logs, log_scale, total)


def distribute_messages(plan: CliquePlan, collected: Collected) -> Array:
    """Run a plan from the roots to the leaves; return the marginals of variables, then of factors, end to end."""
    out = np.zeros(plan.num_outputs)
    roots = np.flatnonzero(plan.tree.parent < 0)
    out[plan.term_out[plan.term_ptr[:-1][roots]]] = 1.0
    distribute(
        plan.tree.clique_ptr, plan.axis_states, plan.axis_alive, plan.split, plan.inner_size, plan.num_blocks,
        plan.message_base, plan.message_size, plan.term_ptr, plan.term_kind, collected.term_in, plan.term_out,
        plan.term_child, plan.stride_ptr, plan.stride, plan.alive, plan.most_terms, plan.most_inner, collected.values,
        collected.logs, collected.in_logs, collected.log_scale, out,
    )  # fmt: skip
    return out[: plan.num_outputs - int(plan.message_size.sum())]


def _tables(field: FactorGraph) -> tuple[Array, Array, Array]:
    """Return all log tables end to end, scaled to a maximum of 0, with each one's maximum and its least finite entry."""
    unary = field.log_unary.detach().double().cpu()
    owner = field.state_variable.cpu()
    empty = torch.full((field.num_variables,), -math.inf, dtype=torch.float64)
    top = _finite(empty.scatter_reduce(0, owner, unary, "amax"))
    scaled = unary - top[owner]
    least = torch.zeros_like(empty).scatter_reduce(0, owner, _finite(scaled), "amin")
    logs, tops, ranges = [scaled], [top], [least]
    for group in field.groups:
        tables = group.log_tables.detach().double().cpu()
        if not has_shared_tables(group):
            if group.table is not None:
                tables = tables[group.table.cpu()]
            tables = tables * group.count.double().cpu().reshape(-1, *(1,) * group.arity)
        flat = tables.reshape(tables.shape[0], -1)
        top = _finite(flat.amax(1))
        flat = flat - top[:, None]
        logs.append(flat.reshape(-1))
        tops.append(top)
        ranges.append(_finite(flat).amin(1).clamp(max=0.0))
    return torch.cat(logs).numpy(), torch.cat(tops).numpy(), torch.cat(ranges).numpy()


def _finite(values: Tensor) -> Tensor:
    return torch.where(values == -math.inf, torch.zeros_like(values), values)


def _without_zeros(plan: CliquePlan, logs: Array, tables: int) -> Array:
    """Tell which unary tables hold no zero among the live states: those that are constant can be left out."""
    variables = len(plan.tree.home)
    result = np.zeros(tables, np.bool_)
    begin = np.repeat(
        np.sort(plan.term_in[(plan.term_table >= 0) & (plan.term_table < variables)]), np.diff(plan.alive_ptr)
    )
    dead = logs[begin + plan.alive] < 0
    result[:variables] = (
        np.bincount(np.repeat(np.arange(variables), np.diff(plan.alive_ptr)), dead, variables) == 0
    )
    return result
