"""The schedules of message passing: each is an iteration that `hiddenfield.iteration.iterate` can run.

Compiled loops that update one message at a time compute the totals of variables again, from all their messages, when
they are read after a message changed: no drift, and -inf needs no care.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

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
from hiddenfield.inference.messages.passing import MessagePassing, MessagePlan
from hiddenfield.ops.compile import as_array, compiled, subroutine
from hiddenfield.ops.dispatch import FLOATS
from hiddenfield.ops.heap import sift_down, sift_up
from hiddenfield.shapes import Array, Float, Tensor


class Queue(NamedTuple):
    """Ports by graph, a priority queue of each graph's, `heap[graph_ptr[g]:graph_ptr[g + 1]]`, and stale variables."""

    graph_port: Array
    graph_ptr: Array
    heap: Array
    where: Array
    priority: Array
    stale: Array


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

    def update(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return all new log messages from all old ones, undamped, whatever the schedule."""
        return self.passing.update(messages)


class TorchParallel(Iteration):
    """All messages from all old ones, in plain torch: any device, differentiable."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        new = self.passing.update(state)
        residual = self.passing.residual(state, new).detach()
        if self.damping:
            new = self.passing.normalise(self.damping * state + (1 - self.damping) * new)
        return new, residual


class OnDevice(Iteration):
    """All messages between pairs from all old ones on a GPU: one launch and another for each group; no gradients."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        from hiddenfield.inference.messages.triton_pairs import update_pairs

        new, moved = update_pairs(self.passing, state, self.damping)
        return new, self.passing.largest_move(
            moved, self.passing.port_weight, self.passing.field.wiring.port_graph
        )

    @staticmethod
    def suits(passing: MessagePassing) -> bool:
        """Say whether the field is on a GPU, wants no gradient and consists of pairs of few states."""
        field = passing.field
        wanted = torch.is_grad_enabled() and (field.requires_grad or passing.port_weight.requires_grad)
        if wanted or field.device.type != "cuda" or field.dtype not in FLOATS:
            return False
        from hiddenfield.inference.messages.triton_pairs import suits

        return suits(passing)


class Loops(Iteration):
    """What the schedules on ragged arrays share: messages that are updated in place, residuals by graph."""

    def __init__(self, plan: MessagePlan, damping: float, tolerance: float) -> None:
        super().__init__(plan, damping, tolerance)
        self.ports = self.plan.ports._replace(damping=damping)

    def start(self, messages: Tensor | None) -> Tensor:
        """Copy the messages to where the loops update them."""
        self.ports.messages[:] = as_array(super().start(messages).detach())
        return torch.from_numpy(self.ports.messages)

    def update(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return all new log messages from all old ones, undamped, whatever the schedule."""
        ports = self.plan.ports
        ports = ports._replace(messages=as_array(messages).copy(), totals=np.empty_like(ports.totals))
        _replace_all(ports, self.plan.factor_graph.size)
        return torch.from_numpy(ports.messages)


class Parallel(Loops):
    """All messages from all old ones, factor by factor."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message."""
        residual = _replace_all(self.ports, self.plan.factor_graph.size)
        return state, self.plan.by_graph(residual, self.plan.factor_graph)


def _replace_all(ports: Ports, factors: int) -> Array:
    """Replace all messages from all old ones; return the largest change at each factor."""
    residual = np.empty(factors, ports.messages.dtype)
    variable_totals(ports, work=ports.messages.size)
    parallel_sweep(ports, residual, work=ports.messages.size)
    return residual


class Sequential(Loops):
    """One message after another: inwards to the first variable of each part, then outwards."""

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update every message once."""
        residual = np.empty(self.plan.port_factor.size, self.ports.messages.dtype)
        stale = np.ones(self.plan.state_ptr.size - 1, np.bool_)
        ordered_sweep(self.ports, self.plan.sweep, stale, residual)
        return state, self.plan.by_graph(residual, self.plan.port_graph)


class Residual(Loops):
    """Always the message that would change most, by a priority queue that lives from step to step."""

    def start(self, messages: Tensor | None) -> Tensor:
        """Copy the messages and make the queue."""
        count = self.plan.port_factor.size
        owner = self.plan.port_graph
        order = np.argsort(owner, kind="stable")
        self.queue = Queue(
            order,
            np.searchsorted(owner[order], np.arange(self.passing.field.num_graphs + 1)),
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty((count, 1)),
            np.ones(self.plan.state_ptr.size - 1, np.bool_),
        )
        self.start_over, self.idle = True, False
        return super().start(messages)

    def step(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Update as many messages as there are, or fewer if that is enough."""
        if self.idle:
            # No message would change by the tolerance, yet beliefs do not agree: they turn on states that one message
            # all but excludes and others leave alone. Such changes are too small for the queue, so all are made once.
            changes = np.empty(self.queue.heap.size, self.ports.messages.dtype)
            ordered_sweep(self.ports, self.plan.sweep, self.queue.stale, changes)
        # Half: the rounding here is not that of whoever verifies.
        residual_sweep(self.ports, self.queue, self.tolerance / 2, self.start_over)
        priority = self.queue.priority[:, 0]
        # Where the queue finds nothing more to do and its caller does, priorities were too low: look at all again.
        self.start_over = self.idle = not bool((priority > self.tolerance).any())
        worst = self.plan.by_graph(priority, self.plan.port_graph)
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
def try_port(port: int, ports: Ports, stale: Array, scratch: Scratch) -> float:
    """Compute the new message of a port; return by how much it would change the old one."""
    refresh_totals(port, ports, stale)
    port_message(port, ports, scratch)
    first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
    return change_of(ports.messages[first:last], scratch.out, last - first)


@subroutine(allocates=False)
def accept(port: int, ports: Ports, stale: Array, scratch: Scratch) -> None:
    """Replace the message of a port by the computed one."""
    first, last = ports.port_ptr[port], ports.port_ptr[port + 1]
    damp(ports.messages[first:last], scratch.out, last - first, ports)
    stale[ports.port_variable[port]] = True


@compiled
def ordered_sweep(ports: Ports, order: Array, stale: Array, residual: Array) -> None:
    """Replace one message after another; write the change of each when its turn came, by port."""
    scratch = make_scratch(ports)
    for place in range(order.size):
        port = order[place]
        residual[port] = try_port(port, ports, stale, scratch)
        accept(port, ports, stale, scratch)


@subroutine(allocates=False)
def runner_up(heap: Array, priority: Array) -> float:
    """Return the second largest priority."""
    second = 0.0
    for place in range(1, min(3, heap.size)):
        second = max(second, priority[heap[place], 0])
    return second


@subroutine(allocates=False)
def disturb(port: int, amount: float, ports: Ports, heap: Array, queue: Queue) -> None:
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
                queue.priority[affected, 0] += amount
                sift_up(queue.where[affected], heap, queue.where, queue.priority)


@compiled
def residual_sweep(ports: Ports, queue: Queue, tolerance: float, start_over: bool) -> None:
    """Replace in each graph as many messages as it has, always that of the largest residual, or fewer if all are small.

    Every graph has a queue of its own: one that never settles would take all turns of the others. Residuals are
    computed lazily: a message that changed raises the priority of those that read it by its change, and the true
    residual is computed when a message comes to the top. If it is no longer the largest, the message goes back into
    the queue. `start_over` gives every message the highest priority, so that each is looked at once more.
    """
    scratch, priority = make_scratch(ports), queue.priority
    for graph in range(queue.graph_ptr.size - 1):
        begin, end = queue.graph_ptr[graph], queue.graph_ptr[graph + 1]
        heap = queue.heap[begin:end]
        if start_over:
            for place in range(end - begin):
                port = queue.graph_port[begin + place]
                priority[port, 0] = 2
                heap[place] = port
                queue.where[port] = place
        done = 0
        while done < heap.size:
            port = heap[0]
            if priority[port, 0] <= tolerance:
                break
            true = try_port(port, ports, queue.stale, scratch)
            if true != true:
                priority[port, 0] = np.inf
                break
            priority[port, 0] = true
            if true <= tolerance or 2 * true < runner_up(heap, priority):
                sift_down(0, heap, queue.where, priority)
                continue
            accept(port, ports, queue.stale, scratch)
            done += 1
            priority[port, 0] = ports.damping * true
            sift_down(0, heap, queue.where, priority)
            disturb(port, (1 - ports.damping) * true, ports, heap, queue)
