"""Phases: the different points on which belief propagation settles, one of which holds almost all probability."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.fields.build import concatenate_fields
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.messages.free_energy import evaluate
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import Posterior, padded
from hiddenfield.shapes import Bool, Float, Tensor

MOST_POLES = 16
"""Combinations of states that messages start from."""
MOST_MESSAGES = 4096
"""Numbers in the messages of a field beyond which its phases are not sought: each start is a copy of it."""
STRENGTHS = 5
ALIKE = 1e-4
"""Marginals that differ by less are those of one phase."""


class SettledPhase(NamedTuple):
    """A phase of one graph: Bethe's log partition, and a row of marginals for each variable."""

    log_partition: float
    marginals: Float[Tensor, "variables most_states"]


@dataclasses.dataclass(frozen=True, eq=False)
class Settled:
    """Where messages settled from several starts: one row per start.

    Parameters
    ----------
    messages, marginals
        At the end.
    converged, log_partition
        Of each graph.
    phases
        For each graph its different phases, the highest log partition first.
    best
        The start that ended in the first phase of each graph; 0 where none settled.
    """

    messages: Float[Tensor, "starts messages"]
    marginals: Float[Tensor, "starts variables most_states"]
    converged: Bool[Tensor, "starts graphs"]
    log_partition: Float[Tensor, "starts graphs"]
    phases: tuple[tuple[SettledPhase, ...], ...]
    best: tuple[int, ...]


def settle_from_poles(field: FactorGraph) -> Settled:
    r"""Run damped belief propagation from every pole and say where it ends.

    All phases of a field satisfy the same equations, and the one with the highest Bethe log partition holds the
    probability :math:`Z_1 / \sum_k Z_k` of all, almost 1 in a large domain. Finds stable fixed points; several starts
    make it likely, not certain, that none is missed. Cost: that of one batch of copies of the field.

    References
    ----------
    Heskes (2004), On the uniqueness of loopy belief propagation fixed points.
    """
    begin = pole_messages(field, STRENGTHS)
    copies, graphs = len(begin), field.num_graphs
    batch = concatenate_fields([field] * copies)
    start = batch.wiring.interleave(begin)
    passing, outcome = propagate(batch, messages=start, damping=0.5, tolerance=1e-8, max_iterations=2000)
    log_marginals, _, value = evaluate(passing, outcome.state)
    marginals = padded(batch, log_marginals, -np.inf).exp()
    marginals = marginals.reshape(copies, field.num_variables, -1)
    messages, converged = batch.wiring.separate(outcome.state, copies), outcome.converged
    converged, value = converged.reshape(copies, graphs), value.reshape(copies, graphs)
    phases, best = [], []
    for graph in range(graphs):
        here = marginals[:, field.variable_graph == graph]
        order = [row for row in value[:, graph].argsort(descending=True).tolist() if converged[row, graph]]
        kept: list[int] = []
        for row in order:
            if all(float((here[row] - here[other]).abs().max()) > ALIKE for other in kept):
                kept.append(row)
        phases.append(tuple(SettledPhase(float(value[row, graph]), here[row]) for row in kept))
        best.append(kept[0] if kept else 0)
    return Settled(messages, marginals, converged, value, tuple(phases), tuple(best))


def pole_messages(field: FactorGraph, strengths: int) -> Float[Tensor, "starts messages"]:
    """Return what factors send when all variables lean to chosen states, for each combination and each strength."""
    cards = field.cardinalities.tolist()
    wiring, passing = field.wiring, MessagePassing(field)
    involved = sorted(set(wiring.port_variable.tolist()))
    if field.num_graphs == 1:
        states = (
            itertools.product(*(range(min(1, cards[v] - 1), cards[v]) for v in involved))
            if involved
            else iter([()])
        )
    else:
        most = max(2, *(cards[v] for v in involved))
        states = (tuple(min(state, cards[v] - 1) for v in involved) for state in range(1, most))
    within = wiring.message_state - field.state_ptr[wiring.port_variable[wiring.message_port]]
    owner = wiring.port_variable[wiring.message_port]
    rows = []
    for pole in itertools.islice(states, MOST_POLES):
        chosen = torch.zeros(field.num_variables, dtype=torch.int64)
        chosen[involved] = torch.tensor(pole, dtype=torch.int64)
        for strength in np.linspace(-12, 12, strengths):
            lean = torch.where(within == chosen[owner], float(strength), 0.0).to(field.dtype)
            rows.append(passing.through_factors(lean))
    return torch.stack(rows)


def has_poles(field: FactorGraph) -> bool:
    """Tell whether phases are sought: where variables stand for many, and messages are few."""
    size = field.wiring.message_state.shape[0]
    here = not field.is_ground and field.device.type == "cpu" and 0 < size <= MOST_MESSAGES
    return here and bool((field.cardinalities > 1).any())


def with_phases(posterior: Posterior, settled: Settled | None = None) -> Posterior:
    """Return a posterior of belief propagation that says how many phases there are, and which of them it is.

    ``extra["phases"]`` has the phases of each graph, the dominant one first.
    """
    found = settle_from_poles(posterior.field.detach()) if settled is None else settled
    extra = posterior.extra | {"phases": found.phases}
    several = [graph for graph, phases in enumerate(found.phases) if len(phases) > 1]
    if not several:
        return dataclasses.replace(posterior, extra=extra)
    graph = several[0]
    values = [phase.log_partition for phase in found.phases[graph]]
    here = posterior.marginals[posterior.field.variable_graph == graph]
    dominant = float((here - found.phases[graph][0].marginals).abs().max()) <= ALIKE
    which = "the dominant one" if dominant else "not the dominant one, which method 'auto' finds"
    where = "" if len(found.phases) == 1 else f" in {len(several)} graphs, first in graph {graph}"
    listed = ", ".join(f"{value:.6g}" for value in values)
    told = f"{len(values)} phases{where}, of log Z {listed}: this is {which}"
    note = f"{posterior.note}; {told}" if posterior.note else told
    return dataclasses.replace(posterior, extra=extra, note=note, status=f"{posterior.status}; {told}")
