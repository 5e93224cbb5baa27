"""Running a clique plan on numbers: messages to the roots; on the way back marginals, best states or samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.cliques.loops import TABLE, collect, distribute
from hiddenfield.inference.cliques.plan import BACK, CliquePlan
from hiddenfield.ops.compile import as_array, compiled, subroutine
from hiddenfield.shapes import Array


@dataclass(frozen=True, eq=False)
class Collected:
    """All messages from the leaves to the roots.

    Parameters
    ----------
    values
        Tables scaled to a maximum of 1; messages follow them.
    in_logs
        For each clique whether it was computed, and its message stored, in logarithms.
    log_scale
        What each clique's message was divided by.
    log_partition
        Of each graph.
    """

    values: Array
    in_logs: Array
    log_scale: Array
    log_partition: Array


def collect_messages(field: FactorGraph, plan: CliquePlan, *, owner: Array | None = None) -> Collected:
    """Run a plan from the leaves to the roots; `owner` is the graph of every variable where it is not the field's."""
    tables, layout, cliques = plan.tables, plan.layout, plan.tree.num_cliques
    values = np.empty(len(tables.logs) + plan.num_messages)
    torch.exp(torch.from_numpy(tables.logs), out=torch.from_numpy(values[: len(tables.logs)]))
    in_logs, log_scale = np.zeros((cliques, 2), np.bool_), np.zeros(cliques)
    # A time limit has to leave as much as the way back is going to take.
    work = plan.products * (1 + BACK if plan.marginals and plan.stage is None else 1)
    collect(layout, plan.maximise, plan.scratch, values, tables.logs, in_logs, log_scale, work=work)
    graph = as_array(field.variable_graph) if owner is None else owner
    total = as_array(field.log_constant.detach().double()).copy()
    first = plan.tree.clique_variables[plan.tree.clique_ptr[:-1]]
    total += np.bincount(graph[first], log_scale, minlength=len(total))
    of_tables = graph[tables.port_variable[tables.port_ptr[:-1]]]
    total += np.bincount(of_tables, tables.top, minlength=len(total))
    return Collected(values, in_logs, log_scale, total)


def distribute_messages(plan: CliquePlan, collected: Collected) -> Array:
    """Run a plan from the roots to the leaves; return the marginals of variables, then of factors, end to end."""
    layout, size = plan.layout, plan.tables.num_marginals
    out = np.zeros(size + plan.num_messages)
    out[layout.term_out[layout.term_ptr[:-1][plan.tree.parent < 0]]] = 1.0
    numbers = (collected.values, plan.tables.logs, collected.in_logs, collected.log_scale)
    distribute(layout, plan.scratch, *numbers, out, work=plan.products)
    return out[:size]


def chosen_states(plan: CliquePlan, collected: Collected, samples: int = 1, seed: int | None = None) -> Array:
    """Return the best states of a plan with stages on the way back, or with a seed drawn ones, (variables, samples)."""
    state = np.zeros((len(plan.alive_ptr) - 1, samples), np.int64)
    messages = (collected.values, plan.tables.logs, collected.in_logs)
    choose_states(plan.layout, *messages, plan.maximise, seed is not None, seed or 0, state)
    # Numbers of live states become states.
    return np.asarray(plan.layout.alive[(plan.alive_ptr[:-1] + state.T).T]) if state.size else state


@subroutine
def place_of(plan, term, begin, end, state, sample):  # type: ignore[no-untyped-def]
    """Return where a number of a term lies, given the states of its clique's axes before `end`."""
    at = plan.term_in[term]
    for axis in range(begin, end):
        here = state[plan.axis_variable[axis], sample]
        along = plan.alive[plan.axis_alive[axis] + here] if plan.term_kind[term] == TABLE else here
        at += along * plan.stride[plan.stride_ptr[term] + axis - begin]
    return at


@compiled
def choose_states(plan, values, logs, in_logs, maximise, draws, seed, state):  # type: ignore[no-untyped-def]
    """Choose each variable's state given those chosen before it, from the roots down, for all samples.

    Every clique eliminates one variable, its last. Where `maximise` says so that is the best state, the first of
    equals; elsewhere one is drawn, or without `draws` none is chosen. ``state`` is (variables, samples). Random numbers
    are a hash of (seed, clique, sample), so that they need no memory and no order.
    """
    weight = np.empty(plan.axis_states.max() if plan.axis_states.size else 1)
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        if not maximise[clique] and not draws:
            continue
        begin, last = plan.clique_ptr[clique], plan.clique_ptr[clique + 1] - 1
        states = plan.axis_states[last]
        use_logs = in_logs[clique, 0]
        for sample in range(state.shape[1]):
            for k in range(states):
                weight[k] = 0.0 if use_logs else 1.0
            for term in range(plan.term_ptr[clique] + 1, plan.term_ptr[clique + 1]):
                if plan.term_in[term] < 0:
                    continue
                at = place_of(plan, term, begin, last, state, sample)
                step = plan.stride[plan.stride_ptr[term] + last - begin]
                for k in range(states):
                    along = plan.alive[plan.axis_alive[last] + k] if plan.term_kind[term] == TABLE else k
                    place = at + along * step
                    if use_logs:
                        weight[k] += logs[place] if plan.term_kind[term] == TABLE else values[place]
                    else:
                        weight[k] *= values[place]
            chosen = 0
            if use_logs:
                for k in range(states):
                    chosen = k if weight[k] > weight[chosen] else chosen
                top = weight[chosen]
                for k in range(states):
                    weight[k] = math.exp(weight[k] - top) if weight[k] > -np.inf else 0.0
            if not maximise[clique]:
                chosen = drawn(weight[:states], seed, clique, sample)
            state[plan.axis_variable[last], sample] = chosen


@subroutine
def drawn(weight, seed, clique, sample):  # type: ignore[no-untyped-def]
    """Draw a number with a chance in proportion to its weight; 0 where there is none."""
    total = 0.0
    for k in range(weight.size):
        total += weight[k]
    mixed = np.uint64(seed) ^ (np.uint64(clique) * np.uint64(0x9E3779B97F4A7C15))
    for turn in range(2):
        mixed += np.uint64(0x9E3779B97F4A7C15) * np.uint64(2 * sample + turn + 1)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    left = np.float64(mixed >> np.uint64(11)) * 2.0**-53 * total
    chosen = 0
    for k in range(weight.size):
        if weight[k] > 0.0:
            chosen = k
            left -= weight[k]
            if left < 0.0:
                break
    return chosen
