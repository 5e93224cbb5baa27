"""The schedules of message passing: each is an iteration that `hiddenfield.iteration.iterate` can run."""

from __future__ import annotations

import abc

import numpy as np
import torch

from hiddenfield.inference.messages.loops import parallel_sweep, variable_totals
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.inference.messages.schedule_loops import ordered_sweep, residual_sweep
from hiddenfield.ops.compile import as_array
from hiddenfield.shapes import Float, Tensor

__all__ = ["SCHEDULES", "Iteration", "Parallel", "TorchParallel"]


class Iteration(abc.ABC):
    """One way to update all messages, on any representation of them; by default the log messages themselves."""

    def __init__(self, plan: MessagePlan, damping: float, tolerance: float) -> None:
        self.plan, self.damping, self.tolerance = plan, damping, tolerance
        self.passing = plan.passing

    @abc.abstractmethod
    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message, or as many single ones; return each graph's undamped residual too."""

    def start(self, messages: Float[Tensor, " messages"] | None) -> Tensor:
        """Return the representation of log messages that the steps work on; None stands for uniform ones."""
        return self.passing.start() if messages is None else messages

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return normalised log messages."""
        return state


class TorchParallel(Iteration):
    """All messages from all old ones, in plain torch: any device, differentiable."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        new = self.passing.update(state)
        residual = self.passing.residual(state, new).detach()
        if self.damping:
            new = self.passing.normalise(self.damping * state + (1 - self.damping) * new)
        return new, residual


class Loops(Iteration):
    """What the schedules on ragged arrays share: messages that are updated in place, residuals by graph."""

    def __init__(self, plan: MessagePlan, damping: float, tolerance: float) -> None:
        super().__init__(plan, damping, tolerance)
        self.ports = self.plan.ports

    @property
    def options(self) -> tuple[bool, float, float, int, int]:
        """What every loop is told."""
        return (self.passing.maximise, self.plan.least, self.damping, *self.plan.widest)

    def start(self, messages: Tensor | None) -> Tensor:
        """Copy the messages to where the loops update them."""
        self.ports.messages[:] = as_array(super().start(messages).detach())
        return torch.from_numpy(self.ports.messages)


class Parallel(Loops):
    """All messages from all old ones, factor by factor."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        residual = np.empty(self.plan.factor_graph.size, self.ports.messages.dtype)
        variable_totals(self.ports, work=self.ports.messages.size)
        parallel_sweep(self.ports, *self.options, residual, work=self.ports.messages.size)
        return state, self.plan.by_graph(residual, self.plan.factor_graph)


class Sequential(Loops):
    """One message after another: inwards to the first variable of each part, then outwards."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message once."""
        residual = np.empty(self.plan.port_factor.size, self.ports.messages.dtype)
        stale = np.ones(self.plan.state_ptr.size - 1, np.bool_)
        ordered_sweep(self.ports, self.plan.sweep, *self.options, stale, residual)
        return state, self.plan.by_graph(residual, self.plan.port_graph)


class Residual(Loops):
    """Always the message that would change most, by a priority queue that lives from step to step."""

    def start(self, messages: Tensor | None) -> Tensor:
        """Copy the messages and make the queue."""
        count = self.plan.port_factor.size
        self.heap, self.where = np.empty(count, np.int64), np.empty(count, np.int64)
        self.priority = np.empty(count, np.float64)
        owner = self.plan.port_graph
        self.graph_port = np.argsort(owner, kind="stable")
        self.graph_ptr = np.searchsorted(owner[self.graph_port], np.arange(self.passing.field.num_graphs + 1))
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
            # The rounding here is not that of whoever verifies.
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


SCHEDULES: dict[str, type[Loops]] = {"parallel": Parallel, "sequential": Sequential, "residual": Residual}
"""Every schedule of the compiled loops by name."""
