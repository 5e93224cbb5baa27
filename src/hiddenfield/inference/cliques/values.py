"""Running a clique plan on numbers: messages to the roots, marginals on the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.flat_tables import FlatTables
from hiddenfield.inference.cliques.loops import collect, distribute
from hiddenfield.inference.cliques.plan import CliquePlan
from hiddenfield.shapes import Array

__all__ = ["Collected", "collect_messages", "distribute_messages"]


@dataclass(frozen=True, eq=False)
class Collected:
    """All messages from the leaves to the roots.

    Parameters
    ----------
    values, logs
        Tables scaled to a maximum of 1, and their logarithms; messages follow the tables in `values`.
    in_logs
        For each clique whether it was computed, and its message stored, in logarithms.
    log_scale
        What each clique's message was divided by.
    log_partition
        Of each graph.
    """

    values: Array
    logs: Array
    in_logs: Array
    log_scale: Array
    log_partition: Array


def collect_messages(
    field: FactorGraph, tables: FlatTables, plan: CliquePlan, maximise: Array | None = None
) -> Collected:
    """Run a plan from the leaves to the roots; where `maximise` says so a clique maximises instead of summing."""
    values = np.empty(plan.num_tables + plan.num_messages)
    torch.exp(torch.from_numpy(tables.logs), out=torch.from_numpy(values[: plan.num_tables]))
    cliques = plan.tree.num_cliques
    in_logs, log_scale = np.zeros((cliques, 2), np.bool_), np.zeros(cliques)
    over = np.zeros(cliques, np.bool_) if maximise is None else maximise
    collect(plan.layout, over, plan.scratch, values, tables.logs, in_logs, log_scale)
    graph = field.variable_graph.cpu().numpy()
    total = field.log_constant.detach().double().cpu().numpy().copy()
    first = plan.tree.clique_variables[plan.tree.clique_ptr[:-1]]
    total += np.bincount(graph[first], log_scale, minlength=field.num_graphs)
    owner = graph[tables.port_variable[tables.port_ptr[:-1]]]
    total += np.bincount(owner, tables.top, minlength=field.num_graphs)
    return Collected(values, tables.logs, in_logs, log_scale, total)


def distribute_messages(plan: CliquePlan, collected: Collected) -> Array:
    """Run a plan from the roots to the leaves; return the marginals of variables, then of factors, end to end."""
    out = np.zeros(plan.num_outputs + plan.num_messages)
    layout = plan.layout
    out[layout.term_out[layout.term_ptr[:-1][plan.tree.parent < 0]]] = 1.0
    distribute(
        layout, plan.scratch, collected.values, collected.logs, collected.in_logs, collected.log_scale, out
    )
    return out[: plan.num_outputs]
