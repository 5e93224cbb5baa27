"""Kernels that find the clique of every term of a plan, and its strides there."""

from __future__ import annotations

from hiddenfield.ops.compile import compiled

__all__ = ["find_homes", "find_strides", "split_axes"]


@compiled
def find_homes(port_ptr, port_variable, port_stride, states, position, home_of, seen, home, shift):  # type: ignore[no-untyped-def]
    """Find the clique of every table: that of its first variable to be eliminated.

    A variable of one state is no axis of any clique but its own: its state shifts the place where the table begins.
    """
    for term in range(home.size):
        first, shifted = -1, 0
        for port in range(port_ptr[term], port_ptr[term + 1]):
            variable = port_variable[port]
            if states[variable] == 1 and port_ptr[term + 1] - port_ptr[term] > 1:
                shifted += seen[variable] * port_stride[port]
            elif first < 0 or position[variable] < position[first]:
                first = variable
        home[term] = home_of[first if first >= 0 else port_variable[port_ptr[term]]]
        shift[term] = shifted


@compiled
def split_axes(clique_ptr, separator_size, states, most, message_size, split, inner_size, num_blocks):  # type: ignore[no-untyped-def]
    """Make blocks of the trailing axes of every clique."""
    for clique in range(clique_ptr.size - 1):
        begin, end = clique_ptr[clique], clique_ptr[clique + 1]
        size, cut = 1, end
        while cut > begin and (cut == end or size * states[cut - 1] <= most):
            cut -= 1
            size *= states[cut]
        blocks, message = 1, 1
        for axis in range(begin, cut):
            blocks *= states[axis]
        for axis in range(begin, begin + separator_size[clique]):
            message *= states[axis]
        message_size[clique], split[clique] = message, cut - begin
        inner_size[clique], num_blocks[clique] = size, blocks


@compiled
def find_strides(  # type: ignore[no-untyped-def]
    clique,
    child,
    table,
    port_ptr,
    variable,
    port_stride,
    clique_ptr,
    axis_variable,
    separator_size,
    states,
    stride_ptr,
    stride,
):
    """Find each port of a term among the axes of its clique; a separator's axes lie as in the message."""
    for term in range(clique.size):
        begin, end = clique_ptr[clique[term]], clique_ptr[clique[term] + 1]
        at = stride_ptr[term] - begin
        if table[term] >= 0:
            first, last = port_ptr[table[term]], port_ptr[table[term] + 1]
            for port in range(first, last):
                for axis in range(begin, end):
                    # The state of an observed variable is part of where the table begins.
                    if axis_variable[axis] == variable[port] and (states[axis] > 1 or last - first == 1):
                        stride[at + axis] = port_stride[port]
            continue
        source = clique_ptr[child[term]]
        step = 1
        axis = end - 1
        for i in range(source + separator_size[child[term]] - 1, source - 1, -1):
            while axis_variable[axis] != axis_variable[i]:
                axis -= 1
            stride[at + axis] = step
            step *= states[i]
