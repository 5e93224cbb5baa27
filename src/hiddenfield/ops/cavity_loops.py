"""The compiled loops of `cavity_sum` and of its gradient, and the order in which they read and write."""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array

# Gradients of rows that many arcs share are summed over so many parts of the nodes, then over the parts: a number that
# has nothing to do with the threads, so that these do not change the result.
PARTS = 16


def cavity_plan(topology: Topology, transposed: bool) -> tuple[Array, Array, Array, Array, Array]:
    """Return what the compiled loops read and write at each node, kept on the topology."""
    name = "_cavity_plan_transposed" if transposed else "_cavity_plan"
    plan = topology.__dict__.get(name)
    if plan is None:
        plan = topology.__dict__[name] = _build_plan(topology, transposed)
    return plan


def _build_plan(topology: Topology, transposed: bool) -> tuple[Array, Array, Array, Array, Array]:
    assert topology.reverse is not None
    reverse = as_array(topology.reverse)
    read = np.arange(reverse.size, dtype=reverse.dtype)
    ptr, write = as_array(topology.in_ptr), reverse
    if transposed:
        order, out_ptr = topology.outgoing
        read, ptr = as_array(order), as_array(out_ptr)
        write = reverse[read]
    if topology.symmetric:
        nothing = np.empty(0, dtype=reverse.dtype)
        return ptr, read, write, nothing, nothing
    by_sender, sender_ptr, by_receiver, receiver_ptr = (as_array(part) for part in topology.one_way)
    return (
        (ptr, read, write, receiver_ptr, by_receiver)
        if transposed
        else (ptr, read, write, sender_ptr, by_sender)
    )


@compiled
def cavity_sum_loop(
    messages: Array,
    ptr: Array,
    read: Array,
    write: Array,
    single_ptr: Array,
    single: Array,
    constant: Array,
    constant_row: Array,
    lowest: float,
    out: Array,
) -> None:
    """Write row w = write[p]: max(lowest, constant[constant_row[w]] + the rows read[q] with q != p).

    p and q run over the range of each node. write[p] is -1 where nothing leaves row read[p] out; the rows of `single`
    in the node's range of `single_ptr` get the full sum. A `constant_row` of one number holds for all rows, an empty
    one means a row's own. Nodes of up to four arcs, nearly all in molecules, are summed in one pass.
    """
    dim = messages.shape[1]
    last = constant_row.size - 1
    for node in prange(ptr.size - 1):
        begin = ptr[node]
        end = ptr[node + 1]
        count = end - begin
        if count <= 4:
            for left_out in range(count):
                w = write[begin + left_out]
                if w < 0:
                    continue
                k = w if last < 0 else constant_row[min(w, last)]
                if count == 1:
                    for column in range(dim):
                        value = constant[k, column]
                        out[w, column] = lowest if value < lowest else value
                elif count == 2:
                    r0 = read[begin + 1 - left_out]
                    for column in range(dim):
                        value = constant[k, column] + messages[r0, column]
                        out[w, column] = lowest if value < lowest else value
                elif count == 3:
                    r0 = read[begin + (0 if left_out > 0 else 1)]
                    r1 = read[begin + (1 if left_out > 1 else 2)]
                    for column in range(dim):
                        value = constant[k, column] + (messages[r0, column] + messages[r1, column])
                        out[w, column] = lowest if value < lowest else value
                else:
                    r0 = read[begin + (0 if left_out > 0 else 1)]
                    r1 = read[begin + (1 if left_out > 1 else 2)]
                    r2 = read[begin + (2 if left_out > 2 else 3)]
                    for column in range(dim):
                        value = messages[r0, column] + messages[r1, column] + messages[r2, column]
                        value = constant[k, column] + value
                        out[w, column] = lowest if value < lowest else value
        else:
            # Rows before the one left out, then rows after it: linear in the number of arcs.
            running = np.zeros(dim, messages.dtype)
            for place in range(begin, end):
                r0 = read[place]
                w = write[place]
                if w >= 0:
                    for column in range(dim):
                        out[w, column] = running[column]
                for column in range(dim):
                    running[column] += messages[r0, column]
            for column in range(dim):
                running[column] = 0
            for place in range(end - 1, begin - 1, -1):
                r0 = read[place]
                w = write[place]
                if w >= 0:
                    k = w if last < 0 else constant_row[min(w, last)]
                    for column in range(dim):
                        value = constant[k, column] + (out[w, column] + running[column])
                        out[w, column] = lowest if value < lowest else value
                for column in range(dim):
                    running[column] += messages[r0, column]
        if single_ptr.size > 0 and single_ptr[node] < single_ptr[node + 1]:
            total = np.zeros(dim, messages.dtype)
            for place in range(begin, end):
                r0 = read[place]
                for column in range(dim):
                    total[column] += messages[r0, column]
            for place in range(single_ptr[node], single_ptr[node + 1]):
                w = single[place]
                k = w if last < 0 else constant_row[min(w, last)]
                for column in range(dim):
                    value = constant[k, column] + total[column]
                    out[w, column] = lowest if value < lowest else value


@compiled
def cavity_gradient_loop(
    gradient: Array,
    out: Array,
    ptr: Array,
    read: Array,
    write: Array,
    single_ptr: Array,
    single: Array,
    message_row: Array,
    messages: Array,
    constant_row: Array,
    constant: Array,
    parts: Array,
) -> None:
    """Take the gradient back through the rectifier, once, to the messages (by the transposed plan) and the constant.

    `out` is the rectified result, or empty where nothing was rectified. `messages` and `constant` are (arcs, dim); or
    (parts * rows, dim) of zeros to be added to, where `message_row` and `constant_row` say which row an arc shares with
    others; `constant` may be empty where its gradient is not wanted. `parts` divides the nodes.
    """
    dim = gradient.shape[1]
    for part in prange(parts.size - 1):
        longest = 4
        for node in range(parts[part], parts[part + 1]):
            longest = max(longest, ptr[node + 1] - ptr[node])
        rows = np.empty((longest, dim), gradient.dtype)  # of the node's arcs, behind the rectifier
        after = np.empty((longest if longest > 4 else 0, dim), gradient.dtype)  # sums of the rows after each
        before = np.empty(dim, gradient.dtype)
        sums = np.empty(dim, gradient.dtype)
        message_begin = np.int64(part) * (messages.shape[0] // (parts.size - 1))
        constant_begin = np.int64(part) * (constant.shape[0] // (parts.size - 1))
        for node in range(parts[part], parts[part + 1]):
            begin = ptr[node]
            count = ptr[node + 1] - begin
            for place in range(count):
                r = read[begin + place]
                if out.shape[0] > 0:
                    for column in range(dim):
                        rows[place, column] = 0 if out[r, column] <= 0 else gradient[r, column]
                else:
                    for column in range(dim):
                        rows[place, column] = gradient[r, column]
                if constant_row.size > 0:
                    k = constant_begin + constant_row[r]
                    for column in range(dim):
                        constant[k, column] += rows[place, column]
                elif constant.shape[0] > 0:
                    for column in range(dim):
                        constant[r, column] = rows[place, column]
            for column in range(dim):
                before[column] = 0
            if count > 4:
                # Rows before the one left out and rows after it: linear in the number of arcs.
                for column in range(dim):
                    after[count - 1, column] = 0
                for place in range(count - 1, 0, -1):
                    for column in range(dim):
                        after[place - 1, column] = after[place, column] + rows[place, column]
            for place in range(count):
                w = write[begin + place]
                q0 = 0 if place > 0 else 1
                q1 = 1 if place > 1 else 2
                q2 = 2 if place > 2 else 3
                if count == 1:
                    for column in range(dim):
                        sums[column] = 0
                elif count == 2:
                    for column in range(dim):
                        sums[column] = rows[q0, column]
                elif count == 3:
                    for column in range(dim):
                        sums[column] = rows[q0, column] + rows[q1, column]
                elif count == 4:
                    for column in range(dim):
                        sums[column] = rows[q0, column] + rows[q1, column] + rows[q2, column]
                else:
                    for column in range(dim):
                        sums[column] = before[column] + after[place, column]
                        before[column] += rows[place, column]
                if w < 0:
                    continue
                if message_row.size > 0:
                    k = message_begin + message_row[w]
                    for column in range(dim):
                        messages[k, column] += sums[column]
                else:
                    for column in range(dim):
                        messages[w, column] = sums[column]
            if single_ptr.size > 0 and single_ptr[node] < single_ptr[node + 1]:
                for column in range(dim):
                    sums[column] = 0
                for place in range(count):
                    for column in range(dim):
                        sums[column] += rows[place, column]
                for place in range(single_ptr[node], single_ptr[node + 1]):
                    w = single[place]
                    if message_row.size > 0:
                        k = message_begin + message_row[w]
                        for column in range(dim):
                            messages[k, column] += sums[column]
                    else:
                        for column in range(dim):
                            messages[w, column] = sums[column]
