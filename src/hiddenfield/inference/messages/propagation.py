"""Run message passing to its fixed point: the driver of `loopy_bp` and `tree_reweighted`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Any

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.messages.free_energy import recheck
from hiddenfield.inference.messages.pairs import Pairs
from hiddenfield.inference.messages.passing import MessagePassing, MessagePlan, normalise_segments
from hiddenfield.inference.messages.schedules import SCHEDULES, Iteration, OnDevice, TorchParallel
from hiddenfield.iteration import Outcome, check_damping, iterate, lag
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.registry import choose
from hiddenfield.shapes import Float, Tensor

PIECE = 1 << 19
"""Numbers in the messages of a piece of a batch: about the second cache. Half or twice as many cost 5 %."""


def propagate(
    field: FactorGraph,
    *,
    weights: Sequence[Tensor] | None = None,
    maximise: bool = False,
    schedule: str = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    messages: Float[Tensor, " messages"] | None = None,
    backend: str = "auto",
) -> tuple[MessagePassing, Outcome[Tensor]]:
    """Iterate the update of `MessagePassing` until it settles; return the passing and where it ended.

    A large batch on the CPU is worked through in pieces that fit the cache, each to its own end.

    Parameters
    ----------
    field, weights, maximise
        See `MessagePassing`.
    schedule
        "parallel": all messages from all old ones. "sequential": variable after variable. "residual": always the
        message that would change most.
    damping
        Weight of the old log message, in [0, 1). A forest has none: undamped messages settle there after finitely many
        steps, exactly, damped ones never do.
    tolerance, max_iterations
        Of the change of a message's probabilities, undamped, and of the difference between a factor's belief about a
        variable and the variable's own; an iteration is one update of every message, or as many single updates.
    messages
        Where to start; uniform by default.
    backend
        "numba" (compiled loops over ragged arrays), "torch" (any device, differentiable), or "auto".
    """
    check_damping(damping)
    passing = MessagePassing(field, None if weights is None else tuple(weights), maximise)
    if damping and field.is_forest:
        damping = 0.0
    if messages is None and weights is None:
        options: dict[str, Any] = {"schedule": schedule, "damping": damping, "tolerance": tolerance}
        options |= {"maximise": maximise, "max_iterations": max_iterations, "backend": backend}
        pieces = pieces_of(field)
        if len(pieces) > 1:
            return passing, _joined(field, pieces, [propagate(piece, **options)[1] for piece in pieces])
    size = field.wiring.message_state.shape[0]
    if messages is not None and messages.shape != (size,):
        raise InputError(f"messages hold {size} numbers, got {tuple(messages.shape)}")
    # A port that stands for several moves a belief as many times over: its message must settle so much closer.
    most = float(passing.port_weight.max()) if len(passing.port_weight) else 1.0
    iteration = make_iteration(passing, schedule, backend, damping, tolerance / max(most, 1.0))

    start = iteration.start(messages)
    final = start
    owner = field.variable_graph[field.state_variable]

    def belief(messages: Tensor) -> Tensor:
        totals = passing.relative_totals(messages)
        return normalise_segments(totals, field.state_ptr, maximise)[0].exp()

    @torch.no_grad()
    def verify(state: Tensor) -> Float[Tensor, " graphs"]:
        nonlocal final
        final = iteration.messages(state)
        here = final.detach()
        found = recheck(passing, here, iteration.update(here))
        if damping and bool((found <= tolerance).all()):
            limits = {"tolerance": tolerance, "growth": (1 + damping) / (1 - damping)}
            found = torch.maximum(found, lag(iteration.update, belief, owner, here, found, **limits))
        return found

    outcome = iterate(
        iteration.step, start, tolerance=tolerance, max_iterations=max_iterations, verify=verify
    )
    # However an iteration ends, it has been verified last.
    return passing, dataclasses.replace(outcome, state=final)


def make_iteration(
    passing: MessagePassing, schedule: str, backend: str, damping: float, tolerance: float
) -> Iteration:
    """Choose by schedule and back end."""
    loops, plan = choose("schedule", SCHEDULES, schedule), MessagePlan(passing)
    if not use_compiled(passing.field.log_unary.detach(), backend=backend):
        if schedule != "parallel":
            raise InputError(
                f"the {schedule} schedule updates one message at a time: it runs on the CPU with the numba back end "
                "(move the field with .to('cpu')); the torch back end has the parallel schedule"
            )
        parallel = OnDevice if backend == "auto" and OnDevice.suits(passing) else TorchParallel
        return parallel(plan, damping, tolerance)
    pairs = Pairs.where_safe(plan, damping, tolerance) if schedule == "parallel" else None
    return loops(plan, damping, tolerance) if pairs is None else pairs


def pieces_of(field: FactorGraph) -> list[FactorGraph]:
    """Cut a large batch on the CPU into consecutive graphs whose messages fit the cache; made once for each field.

    The field itself, alone, where its factors are not in the order of graphs, or where some batch would lack a kind of
    factor that another one has. Variables, and the factors of each group, come in the order of the field.
    """
    small = field.num_graphs < 2 or field.wiring.message_state.shape[0] <= 2 * PIECE
    if small or field.device.type != "cpu" or (field.requires_grad and torch.is_grad_enabled()):
        return [field]
    pieces: list[FactorGraph] = vars(field).setdefault("_pieces", [])
    pieces += [] if pieces else _cut(field)
    return pieces


def _joined(
    field: FactorGraph, pieces: list[FactorGraph], outcomes: list[Outcome[Tensor]]
) -> Outcome[Tensor]:
    """Put outcomes together; messages come in the order of the whole: group by group, position by position."""
    messages = [
        outcome.state[slice(*piece.wiring.blocks[number][position])]
        for number, group in enumerate(field.groups)
        for position in range(group.arity)
        for piece, outcome in zip(pieces, outcomes, strict=True)
    ]
    return Outcome(
        torch.cat(messages),
        torch.cat([outcome.converged for outcome in outcomes]),
        torch.cat([outcome.iterations for outcome in outcomes]),
        torch.cat([outcome.residual for outcome in outcomes]),
        [max(step) for step in zip_longest(*(outcome.trace for outcome in outcomes), fillvalue=0.0)],
    )


def _cut(field: FactorGraph) -> list[FactorGraph]:
    wiring = field.wiring
    owners = [field.variable_graph[group.scopes[:, 0]] for group in field.groups]
    if not all(bool((owner.diff() >= 0).all()) for owner in owners):
        return [field]
    sizes = torch.zeros(field.num_graphs, dtype=torch.int64, device=field.device)
    sizes = sizes.index_add(0, wiring.port_graph, wiring.port_ptr.diff())
    bounds, held = [0], 0
    for graph, size in enumerate(sizes.tolist()):
        if held and held + size > PIECE:
            bounds.append(graph)
            held = 0
        held += size
    graphs = torch.tensor([*bounds, field.num_graphs], device=field.device)
    factors = [torch.searchsorted(owner, graphs).tolist() for owner in owners]
    if any(begin == end for cuts in factors for begin, end in pairwise(cuts)):
        return [field]
    return [
        _piece(field, int(graphs[n]), int(graphs[n + 1]), [(cuts[n], cuts[n + 1]) for cuts in factors])
        for n in range(len(graphs) - 1)
    ]


def _piece(field: FactorGraph, first: int, last: int, factors: list[tuple[int, int]]) -> FactorGraph:
    begin, end = int(field.variable_ptr[first]), int(field.variable_ptr[last])
    groups = []
    for group, (low, high) in zip(field.groups, factors, strict=True):
        own = group.table is None
        groups.append(
            FactorGroup(
                group.scopes[low:high] - begin,
                group.log_tables[low:high] if own else group.log_tables,
                None if group.table is None else group.table[low:high],
                group.count[low:high],
            )
        )
    return FactorGraph(
        field.cardinalities[begin:end],
        field.log_unary[int(field.state_ptr[begin]) : int(field.state_ptr[end])],
        tuple(groups),
        field.variable_ptr[first : last + 1] - begin,
        field.counts[begin:end],
        field.log_constant[first:last],
    )
