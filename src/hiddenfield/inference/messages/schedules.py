"""The schedules of message passing: each is an iteration that `fixed_point.iterate` can run."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.inference.messages.binary import BinaryMessages
from hiddenfield.inference.messages.iteration import Iteration
from hiddenfield.inference.messages.loops import parallel_sweep, variable_totals
from hiddenfield.inference.messages.pairwise import PairwiseMessages
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.inference.messages.schedule_loops import ordered_sweep, residual_sweep
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.registry import choose
from hiddenfield.shapes import Tensor

__all__ = ["SCHEDULES", "Iteration", "make_iteration"]


class TorchParallel(Iteration):
    """All messages from all old ones, in plain torch: any device, differentiable."""

    def __init__(self, passing: MessagePassing, damping: float) -> None:
        self.passing, self.damping = passing, damping

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        new = self.passing.update(state)
        residual = self.passing.residual(state, new).detach()
        if self.damping:
            new = self.passing.normalise(self.damping * state + (1 - self.damping) * new)
        return new, residual


class Kernels(Iteration):
    """What the schedules on ragged arrays share: a plan, messages that are updated in place, residuals by graph."""

    def __init__(self, passing: MessagePassing, damping: float, tolerance: float) -> None:
        self.plan = MessagePlan(passing)
        self.damping, self.tolerance = damping, tolerance
        self.ports = self.plan.ports

    @property
    def options(self) -> tuple[bool, float, float, int, int]:
        """What every kernel is told."""
        return (self.plan.passing.maximise, self.plan.least, self.damping, *self.plan.widest)

    def start(self, messages: Tensor) -> Tensor:
        """Copy the messages to where the kernels update them."""
        self.ports.messages[:] = as_array(messages.detach())
        return torch.from_numpy(self.ports.messages)


class Parallel(Kernels):
    """All messages from all old ones, factor by factor."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        residual = np.empty(self.plan.factor_graph.size, self.ports.messages.dtype)
        variable_totals(self.ports, work=self.ports.messages.size)
        parallel_sweep(self.ports, *self.options, residual, work=self.ports.messages.size)
        return state, self.plan.by_graph(residual, self.plan.factor_graph)


class Sequential(Kernels):
    """One message after another: inwards to the first variable of each part, then outwards."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message once."""
        residual = np.empty(self.plan.port_factor.size, self.ports.messages.dtype)
        stale = np.ones(self.plan.state_ptr.size - 1, np.bool_)
        ordered_sweep(self.ports, self.plan.sweep, *self.options, stale, residual)
        return state, self.plan.by_graph(residual, self.plan.port_graph)


class Residual(Kernels):
    """Always the message that would change most, by a priority queue that lives from step to step."""

    def start(self, messages: Tensor) -> Tensor:
        """Copy the messages and make the queue."""
        count = self.plan.port_factor.size
        self.heap, self.where = np.empty(count, np.int64), np.empty(count, np.int64)
        self.priority = np.empty(count, np.float64)
        owner = self.plan.port_graph
        self.graph_port = np.argsort(owner, kind="stable")
        self.graph_ptr = np.searchsorted(
            owner[self.graph_port], np.arange(self.plan.passing.field.num_graphs + 1)
        )
        self.stale = np.ones(self.plan.state_ptr.size - 1, np.bool_)
        self.start_over, self.idle = True, False
        return super().start(messages)

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update as many messages as there are, or fewer if that is enough."""
        if self.idle:
            # No message would change by the tolerance, yet beliefs do not agree: they turn on states that one message
            # all but excludes and others leave alone. Such changes are too small for the queue, so all are made once.
            changes = np.empty(self.heap.size, self.ports.messages.dtype)
            ordered_sweep(self.ports, self.plan.sweep, *self.options, self.stale, changes)
        residual_sweep(
            self.ports,
            self.graph_port,
            self.graph_ptr,
            # The kernel's rounding is not that of whoever verifies.
            self.tolerance / 2,
            self.start_over,
            *self.options,
            self.heap,
            self.where,
            self.stale,
            self.priority,
        )
        # Where the queue finds nothing more to do and its caller does, priorities were too low: look at all again.
        self.start_over = self.idle = not bool((self.priority > self.tolerance).any())
        worst = self.plan.by_graph(self.priority, self.plan.port_graph)
        return state, worst.to(state.dtype)


SCHEDULES: dict[str, type[Kernels]] = {"parallel": Parallel, "sequential": Sequential, "residual": Residual}
"""Every schedule of the compiled loops by name."""


def make_iteration(
    passing: MessagePassing, schedule: str, backend: str, damping: float, tolerance: float
) -> Iteration:
    """Choose by schedule and back end; "auto" is "numba" on the CPU in single and double precision."""
    kernels = choose("schedule", SCHEDULES, schedule)
    if not use_compiled(passing.field.log_unary.detach(), backend=backend):
        if schedule != "parallel":
            raise InputError(
                f"the {schedule} schedule updates one message at a time: it runs on the CPU with the numba back end "
                "(move the field with .to('cpu')); the torch back end has the parallel schedule"
            )
        return TorchParallel(passing, damping)
    if schedule == "parallel":
        if BinaryMessages.fits(passing):
            return BinaryMessages(passing, damping)
        if PairwiseMessages.fits(passing):
            return PairwiseMessages(passing, damping, tolerance)
    return kernels(passing, damping, tolerance)
