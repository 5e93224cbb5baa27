"""The schedules of message passing: each is an iteration that `hiddenfield.iteration.iterate` can run.

Compiled loops that update one message at a time compute the totals of variables again, from all their messages, when
they are read after a message changed: no drift, and -inf needs no care.
"""

from __future__ import annotations

import abc

import numpy as np
import torch

from hiddenfield.inference.messages.loops import (
    Ports,
    Scratch,
    change_of,
    damp,
    make_scratch,
    parallel_sweep,
    port_message,
    total_of,
    variable_totals,
)
from hiddenfield.inference.messages.plan import MessagePlan
from hiddenfield.ops.compile import as_array, compiled, subroutine
from hiddenfield.ops.heap import sift_down, sift_up
from hiddenfield.shapes import Array, Float, Tensor


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


@subroutine(allocates=False)
def refresh_totals(port: int, ports: Ports, stale: Array) -> None:
    """Compute the totals of the other variables of a port's factor where they are stale."""
    factor = ports.port_factor[port]
    for place in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
        variable = ports.port_variable[ports.factor_port[place]]
        if stale[variable] and ports.factor_port[place] != port:
            total_of(variable, ports)
            stale[variable] = False


@subroutine(allocates=False)
def try_port(port: int, ports: Ports, maximise: bool, least: float, stale: Array, scratch: Scratch) -> float:
    """Compute the new message of a port; return by how much it would change the old one."""
    refresh_totals(port, ports, stale)
    port_message(port, ports, maximise, least, scratch)
    first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
    return change_of(ports.messages[first:last], scratch.out, last - first)


@subroutine(allocates=False)
def accept(port: int, ports: Ports, maximise: bool, damping: float, stale: Array, scratch: Scratch) -> None:
    """Replace the message of a port by the computed one."""
    first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
    damp(ports.messages[first:last], scratch.out, last - first, damping, maximise)
    stale[ports.port_variable[port]] = True


@compiled
def ordered_sweep(
    ports: Ports,
    order: Array,
    maximise: bool,
    least: float,
    damping: float,
    widest: int,
    most_ports: int,
    stale: Array,
    residual: Array,
) -> None:
    """Replace one message after another; write the change of each when its turn came, by port."""
    scratch = make_scratch(ports.messages, widest, most_ports)
    for place in range(order.size):
        port = order[place]
        residual[port] = try_port(port, ports, maximise, least, stale, scratch)
        accept(port, ports, maximise, damping, stale, scratch)


@subroutine(allocates=False)
def runner_up(heap: Array, priority: Array) -> float:
    """Return the second largest priority."""
    second = 0.0
    for place in range(1, min(3, heap.size)):
        second = max(second, priority[heap[place], 0])
    return second


@subroutine(allocates=False)
def disturb(port: int, amount: float, ports: Ports, heap: Array, where: Array, priority: Array) -> None:
    """Raise the priorities of all messages that read the message of a port, by what it changed."""
    variable = ports.port_variable[port]
    for place in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
        reader = ports.variable_port[place]
        # A variable leaves one copy out of what it sends back: at weight 1, all of it.
        if reader == port and ports.port_weight[port] == 1:
            continue
        factor = ports.port_factor[reader]
        for other in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
            affected = ports.factor_port[other]
            if affected != reader:
                priority[affected, 0] += amount
                sift_up(where[affected], heap, where, priority)


@compiled
def residual_sweep(
    ports: Ports,
    graph_port: Array,
    graph_ptr: Array,
    tolerance: float,
    start_over: bool,
    maximise: bool,
    least: float,
    damping: float,
    widest: int,
    most_ports: int,
    heaps: Array,
    where: Array,
    stale: Array,
    priority: Array,
) -> None:
    """Replace in each graph as many messages as it has, always that of the largest residual, or fewer if all are small.

    Every graph has a queue of its own, `heaps[graph_ptr[g]:graph_ptr[g + 1]]`: one that never settles would take all
    turns of the others. Residuals are computed lazily: a message that changed raises the priority of those that read it
    by its change, and the true residual is computed when a message comes to the top. If it is no longer the largest,
    the message goes back into the queue. `start_over` gives every message the highest priority, so that each is looked
    at once more.
    """
    scratch = make_scratch(ports.messages, widest, most_ports)
    rows = priority.reshape((-1, 1))  # as a heap compares them
    for graph in range(graph_ptr.size - 1):
        begin, end = graph_ptr[graph], graph_ptr[graph + 1]
        heap = heaps[begin:end]
        if start_over:
            for place in range(end - begin):
                port = graph_port[begin + place]
                priority[port] = 2
                heap[place] = port
                where[port] = place
        done = 0
        while done < heap.size:
            port = heap[0]
            if priority[port] <= tolerance:
                break
            true = try_port(port, ports, maximise, least, stale, scratch)
            if true != true:
                priority[port] = np.inf
                break
            priority[port] = true
            if true <= tolerance or 2 * true < runner_up(heap, rows):
                sift_down(0, heap, where, rows)
                continue
            accept(port, ports, maximise, damping, stale, scratch)
            done += 1
            priority[port] = damping * true
            sift_down(0, heap, where, rows)
            disturb(port, (1 - damping) * true, ports, heap, where, rows)
