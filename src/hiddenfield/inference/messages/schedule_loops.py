"""Compiled loops that update one message at a time: in a fixed order, or always the one that would change most.

Totals of variables are computed again, from all their messages, when they are read after a message changed: no drift,
and -inf needs no care.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.inference.messages.loops import (
    Ports,
    Scratch,
    change_of,
    damp,
    make_scratch,
    port_message,
    total_of,
)
from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.ops.heap import sift_down, sift_up
from hiddenfield.shapes import Array

__all__ = ["ordered_sweep", "residual_sweep"]


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
