"""Look at settled messages again: how far one more update would move them, and the beliefs that they make."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.inference.messages.free_energy import variable_beliefs
from hiddenfield.inference.messages.loops import largest_by_graph
from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.ops.vector_math import fast_exp, unchecked
from hiddenfield.shapes import Array, Float, Tensor


def recheck(
    passing: MessagePassing, messages: Float[Tensor, " messages"], updated: Float[Tensor, " messages"]
) -> Float[Tensor, " graphs"]:
    """Return for each graph the larger of the messages' residual and the beliefs' disagreement, given their update.

    Both are linear in the messages. With torch alone, inference on one molecule takes 1.5 times as long.
    """
    field, wiring = passing.field, passing.field.wiring
    if not use_compiled(messages, field.log_unary):
        return torch.maximum(passing.residual(messages, updated), passing.disagreement(messages, updated))
    totals, beliefs, _, _ = variable_beliefs(passing, messages)
    graph, changes = as_array(wiring.port_graph), np.empty(len(wiring.port_graph), totals.dtype)
    shape = map(as_array, (wiring.port_ptr, wiring.port_variable, field.state_ptr, passing.port_weight))
    pair = as_array(messages), as_array(updated)
    port_changes(*pair, totals, beliefs, *shape, passing.maximise, changes, work=totals.size)
    worst = np.zeros(field.num_graphs, totals.dtype)
    largest_by_graph(changes, graph, worst)
    return torch.from_numpy(worst)


@compiled(fast=True)
def port_changes(
    messages: Array,
    updated: Array,
    totals: Array,
    beliefs: Array,
    port_ptr: Array,
    port_variable: Array,
    state_ptr: Array,
    port_weight: Array,
    maximise: bool,
    out: Array,
) -> None:
    """Write how far each port's message moves, or by how much its factor's belief differs from its variable's."""
    dead, zero, one = messages.dtype.type(-np.inf), messages.dtype.type(0), messages.dtype.type(1)
    rounding = messages.dtype.type(8 * np.finfo(messages.dtype).eps)
    old, new, total, belief = unchecked(messages), unchecked(updated), unchecked(totals), unchecked(beliefs)
    chunk = 256
    for part in prange((out.size + chunk - 1) // chunk):
        first, last = part * chunk, min((part + 1) * chunk, out.size)
        low = port_ptr[first]
        theirs = np.empty(port_ptr[last] - low, messages.dtype)
        for port in range(first, last):
            begin, at, top = port_ptr[port], state_ptr[port_variable[port]] - port_ptr[port], dead
            for state in range(begin, port_ptr[port + 1]):
                whole = total[at + state]
                value = whole - old[state] + new[state] if whole != dead else dead
                theirs[state - low] = value
                top = value if value > top else top
            top = top if top > dead else zero
            for state in range(begin, port_ptr[port + 1]):
                theirs[state - low] -= top
        for place in range(theirs.size):
            theirs[place] = fast_exp(theirs[place])
        for port in range(first, last):
            begin, end, at = (
                port_ptr[port],
                port_ptr[port + 1],
                state_ptr[port_variable[port]] - port_ptr[port],
            )
            sums, moved, apart, wrong = zero, zero, zero, zero
            for state in range(begin, end):
                sums += theirs[state - low]
            scale = one if maximise or sums == zero else one / sums
            for state in range(begin, end):
                moved = max(moved, abs(fast_exp(new[state]) - fast_exp(old[state])))
                apart = max(apart, abs(theirs[state - low] * scale - fast_exp(belief[at + state])))
                # The exponential of what is not a number is 0; of infinities the difference is none.
                wrong += (new[state] != new[state]) + (old[state] != old[state])
                wrong += belief[at + state] != belief[at + state]
            moved = moved * max(port_weight[port], one) if moved > rounding else moved
            out[port] = max(moved, apart) if wrong == zero else np.nan
