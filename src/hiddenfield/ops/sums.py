"""Sums over arcs: into each node, and for each arc but the message along the same edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import (
    Implementations,
    check_index,
    check_like,
    check_rows,
    empty,
    reject,
    through_rectifier,
)
from hiddenfield.ops.segments import segment_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array, Float, Int, Tensor

# On a GPU every arc sums its node's messages anew; at a node with more arcs than this that would be too many.
LONGEST_RANGE = 256


def gather_sum(
    values: Float[Tensor, "sources dim"],
    topology: Topology,
    constant: Float[Tensor, "nodes dim"] | None = None,
    *,
    rectify: bool = False,
) -> Float[Tensor, "nodes dim"]:
    r"""Sum, at each node, the values of the rows that its arcs come from.

    .. math:: y_i = \rho\Bigl(c_i + \sum_{a \to i} x_{\mathrm{source}(a)}\Bigr)

    with :math:`c = 0` and :math:`\rho` the identity unless they are asked for. Adding a constant and rectifying
    while a row is at hand spares two passes over memory, which cost as much as the sum (benchmarks/training.py).

    Parameters
    ----------
    values
        (topology.num_sources, dim), floating point.
    topology
        Who sends to whom. Its indices are trusted; see `Topology.validate`.
    constant
        (topology.num_nodes, dim), added to the sums.
    rectify
        Whether :math:`\rho(y) = \max(y, 0)`; the gradient at 0 is 0.

    Returns
    -------
    Tensor
        (topology.num_nodes, dim), 0 where no arc arrives. Exact up to rounding, the arcs added in their
        order, whatever the number of threads. Differentiable twice and more: the gradient is this op on the
        transpose.

    Notes
    -----
    O(arcs * dim) reads, O(nodes * dim) writes, nothing of the size of the arcs is allocated.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import Topology, gather_sum
    >>> star = Topology(torch.tensor([1, 2, 0, 0]), torch.tensor([0, 2, 3, 4]))
    >>> gather_sum(torch.tensor([[1.0], [2.0], [4.0]]), star)
    tensor([[6.],
            [1.],
            [1.]])
    """
    check_rows(values, "values", topology.num_sources, "senders", topology.source)
    if constant is not None:
        check_rows(constant, "constant", topology.num_nodes, "nodes", topology.source)
        check_like(constant, values)
    return _gather(values, topology, constant, rectify)


def _gather_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    _, topology, _, rectify = ctx.arguments
    if rectify:
        gradient = through_rectifier(gradient, *ctx.saved_tensors)
    values = _gather(gradient, topology.transpose, None, False) if ctx.needs_input_grad[1] else None
    return values, None, gradient if ctx.needs_input_grad[3] else None


def gather_sum_reference(
    values: Tensor, topology: Topology, constant: Tensor | None = None, rectify: bool = False
) -> Tensor:
    """Copy the row of every arc, then add the copies into the nodes."""
    rows = values.index_select(0, topology.source)
    start = values.new_zeros(topology.num_nodes, values.shape[1]) if constant is None else constant
    out = start.index_add(0, topology.target, rows)
    return out.relu() if rectify else out


def _gather_sum_cpu(values: Tensor, topology: Topology, constant: Tensor | None, rectify: bool) -> Tensor:
    source, in_ptr = topology.arrays
    out = empty((in_ptr.size - 1, values.shape[1]), values)
    rows = as_array(values)
    added = rows[:0] if constant is None else as_array(constant)
    _gather_sum_loop(rows, source, in_ptr, added, rectify, out.numpy(), work=source.size * values.shape[1])
    return out


def _gather_sum_cuda(values: Tensor, topology: Topology, constant: Tensor | None, rectify: bool) -> Tensor:
    from hiddenfield.ops.triton_sums import ranged_sum

    ptr, source, rows = topology.in_ptr, topology.source, topology.num_nodes
    return ranged_sum(values, ptr, num_out=rows, read=source, constant=constant, rectify=rectify)


@compiled
def _gather_sum_loop(
    values: Array, source: Array, in_ptr: Array, constant: Array, rectify: bool, out: Array
) -> None:
    dim = values.shape[1]
    add = constant.shape[0] > 0
    for node in prange(in_ptr.size - 1):
        begin = in_ptr[node]
        end = in_ptr[node + 1]
        # The first row is copied, which spares a pass of zeros over the result.
        if add:
            for column in range(dim):
                out[node, column] = constant[node, column]
        elif begin == end:
            for column in range(dim):
                out[node, column] = 0
        else:
            row = source[begin]
            for column in range(dim):
                out[node, column] = values[row, column]
            begin += 1
        for arc in range(begin, end):
            row = source[arc]
            for column in range(dim):
                out[node, column] += values[row, column]
        if rectify:
            for column in range(dim):
                out[node, column] = max(out[node, column], 0)


_gather = Implementations(
    gather_sum_reference,
    _gather_sum_cpu,
    _gather_sum_cuda,
    _gather_gradient,
    lambda out, *given: [out] if given[3] else [],
)


def arc_sum(messages: Float[Tensor, "arcs dim"], topology: Topology) -> Float[Tensor, "nodes dim"]:
    r"""Sum the messages into each node: :math:`y_i = \sum_{a \to i} m_a`.

    Arcs are grouped by the node that receives, so this is `segment_sum` over ``topology.in_ptr``.

    Parameters
    ----------
    messages
        (arcs, dim), floating point.
    topology
        Who sends to whom.

    Returns
    -------
    Tensor
        (nodes, dim), 0 where no arc arrives. Differentiable twice and more.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import Topology, arc_sum
    >>> star = Topology(torch.tensor([1, 2, 0, 0]), torch.tensor([0, 2, 3, 4]))
    >>> arc_sum(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), star)
    tensor([[3.],
            [4.],
            [8.]])
    """
    check_rows(messages, "messages", topology.num_arcs, "arcs", topology.in_ptr)
    return segment_sum(messages, topology.in_ptr)


def send(values: Float[Tensor, "sources dim"], topology: Topology) -> Float[Tensor, "arcs dim"]:
    r"""Give each arc the row of the node that it comes from: :math:`y_{i \to j} = x_i`.

    This is `gather_sum` with the arcs as receivers; its gradient sums over the arcs out of each node.

    Parameters
    ----------
    values
        (topology.num_sources, dim), floating point.
    topology
        Who sends to whom.

    Returns
    -------
    Tensor
        (arcs, dim). Differentiable twice and more.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import Topology, send
    >>> path = Topology(torch.tensor([1, 0, 2, 1]), torch.tensor([0, 1, 3, 4]))
    >>> send(torch.tensor([[1.0], [2.0], [4.0]]), path).flatten()
    tensor([2., 1., 4., 2.])
    """
    return gather_sum(values, topology.sending)


def reverse_messages(messages: Float[Tensor, "arcs dim"], topology: Topology) -> Float[Tensor, "arcs dim"]:
    r"""Give each arc the message of the same edge the other way: :math:`y_{i \to j} = m_{j \to i}`, 0 if there is none.

    This is `gather_sum` with the arcs as senders and receivers; it is its own gradient.

    Parameters
    ----------
    messages
        (arcs, dim), floating point.
    topology
        Who sends to whom, with `reverse`.

    Returns
    -------
    Tensor
        (arcs, dim). Differentiable twice and more.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import Topology, reverse_messages
    >>> pair = Topology(torch.tensor([1, 0]), torch.tensor([0, 1, 2]), torch.tensor([1, 0]), symmetric=True)
    >>> reverse_messages(torch.tensor([[1.0], [2.0]]), pair).flatten()
    tensor([2., 1.])
    """
    return gather_sum(messages, topology.reversing)


def cavity_sum(
    messages: Float[Tensor, "rows dim"],
    topology: Topology,
    constant: Float[Tensor, "constants dim"] | None = None,
    *,
    rectify: bool = False,
    message_kind: Int[Tensor, " arcs"] | None = None,
    constant_kind: Int[Tensor, " arcs"] | None = None,
) -> Float[Tensor, "arcs dim"]:
    r"""Sum, for each arc, the messages into its sender but the one along the same edge.

    .. math:: y_{i \to j} = \rho\Bigl(c_{i \to j} + \sum_{b \to i,\; b \ne \mathrm{reverse}(i \to j)} m_b\Bigr)

    with :math:`c = 0` and :math:`\rho` the identity unless they are asked for, as in `gather_sum`. Where many
    arcs have the same message or the same constant, each is given once, with the row that every arc has.

    An arc without a reverse gets the full sum; a self-loop is its own reverse and leaves itself out. The sum
    is taken over the others rather than by subtraction, so a message of -inf (a hard zero) leaves no NaN
    behind and a large message does not drown a small one.

    Parameters
    ----------
    messages
        (arcs, dim), or (kinds, dim) with `message_kind`, floating point; -inf is allowed, +inf and NaN follow the
        arithmetic.
    topology
        Who sends to whom, with `reverse`. Its indices are trusted; see `Topology.validate`.
    constant
        (arcs, dim), or (kinds, dim) with `constant_kind`, added to the sums.
    rectify
        Whether :math:`\rho(y) = \max(y, 0)`; the gradient at 0 is 0.
    message_kind, constant_kind
        (arcs,) int32 or int64, trusted: the row of `messages` or of `constant` that each arc has. Its own by default.

    Returns
    -------
    Tensor
        (arcs, dim). Exact up to rounding, in a fixed order whatever the number of threads. Differentiable
        twice and more: the gradient of the message b into i is the sum of the gradients of the arcs out of i
        but reverse(b).

    Notes
    -----
    O(arcs * dim) and one pass over memory. The reference subtracts (with the infinite part counted apart), so that it
    agrees up to the rounding of the full sum.

    Examples
    --------
    >>> import torch
    >>> from hiddenfield.ops import Topology, cavity_sum
    >>> path = Topology(  # 0 - 1 - 2
    ...     torch.tensor([1, 0, 2, 1]), torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 3, 2]), symmetric=True
    ... )
    >>> cavity_sum(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), path).flatten()
    tensor([4., 0., 0., 2.])
    """
    if topology.reverse is None:
        reject(
            "cavity_sum needs a topology with reverse; build it with reverse=match_reverse(source, in_ptr)"
        )
    _check(messages, "messages", message_kind, topology)
    if constant is not None:
        _check(constant, "constant", constant_kind, topology)
        check_like(constant, messages)
    return _cavity(messages, topology, False, constant, rectify, message_kind, constant_kind)


def _check(rows: Tensor, name: str, kind: Tensor | None, topology: Topology) -> None:
    if kind is None:
        return check_rows(rows, name, topology.num_arcs, "arcs", topology.source)
    check_rows(rows, name, len(rows), "kinds", topology.source)
    check_index(kind, "kind", topology.source.device)
    if len(kind) != topology.num_arcs:
        reject(f"the kind of each of the {topology.num_arcs} arcs is needed, got {len(kind)}")


def _cavity_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Go back through the rectifier; then the op and its transpose are the gradients of each other."""
    messages, topology, transposed, constant, rectify, message_kind, constant_kind = ctx.arguments
    if rectify:
        gradient = through_rectifier(gradient, *ctx.saved_tensors)
    by_messages = by_constant = None
    if ctx.needs_input_grad[1]:
        sums = _cavity(gradient, topology, not transposed, None, False, None, None)
        by_messages = _shared(sums, message_kind, messages)
    if ctx.needs_input_grad[4]:
        by_constant = _shared(gradient, constant_kind, constant)
    return by_messages, None, None, by_constant


def cavity_sum_reference(
    messages: Tensor,
    topology: Topology,
    transposed: bool = False,
    constant: Tensor | None = None,
    rectify: bool = False,
    message_kind: Tensor | None = None,
    constant_kind: Tensor | None = None,
) -> Tensor:
    """Sum all messages of a node and subtract the one to leave out; hard zeros are counted instead."""
    messages = _picked(messages, message_kind)
    constant = None if constant is None else _picked(constant, constant_kind)
    hard = messages == -torch.inf
    both = torch.cat([messages.masked_fill(hard, 0), hard.to(messages.dtype)], dim=1)
    into, out_of = topology.target, topology.source
    if transposed:
        into, out_of = out_of, into
    total = both.new_zeros(topology.num_nodes, both.shape[1]).index_add(0, into, both)
    rest = total.index_select(0, out_of)
    if topology.num_arcs:
        assert topology.reverse is not None
        partner = topology.reverse.clamp(min=0)
        rest = rest - both.index_select(0, partner).masked_fill((topology.reverse < 0).unsqueeze(1), 0)
    sums, hard_left = rest.tensor_split(2, dim=1)
    sums = sums.masked_fill(hard_left > 0.5, -torch.inf)
    out = sums if constant is None else constant + sums
    return out.relu() if rectify else out


def _picked(rows: Tensor, kind: Tensor | None) -> Tensor:
    return rows if kind is None else rows.index_select(0, kind)


def _shared(gradient: Tensor, kind: Tensor | None, rows: int) -> Tensor:
    """Sum the gradients of the arcs of each kind."""
    if kind is None:
        return gradient
    if gradient.is_cpu:
        # With int32 indices this takes four times as long.
        return gradient.new_zeros(rows, gradient.shape[1]).index_add(0, kind.long(), gradient)
    bounds = torch.arange(len(kind) + 1, dtype=kind.dtype, device=kind.device)
    return gather_sum(gradient, Topology(kind, bounds, num_sources=rows).transpose)


def _cavity_sum_cpu(
    values: Tensor, topology: Topology, transposed: bool, constant: Tensor | None, rectify: bool, *kinds: Any
) -> Tensor:
    message_kind, constant_kind = kinds
    out = empty((topology.num_arcs, values.shape[1]), values)
    result = out.numpy()
    ptr, read, *others = _plan(topology, transposed)
    if message_kind is not None:
        read = as_array(message_kind)[read]
    if constant is None:
        added, row = np.zeros_like(result, shape=(1, result.shape[1])), np.zeros(1, dtype=read.dtype)
    else:
        added, row = as_array(constant), read[:0] if constant_kind is None else as_array(constant_kind)
    lowest = result.dtype.type(0 if rectify else -np.inf)
    _cavity_loop(as_array(values), (ptr, read, *others), added, row, lowest, result, work=out.numel())
    return out


def _plan(topology: Topology, transposed: bool) -> tuple[Array, Array, Array, Array, Array]:
    """Return what the compiled loop reads and writes at each node, kept on the topology."""
    name = f"_cavity_plan_{transposed}"
    if name in vars(topology):
        return vars(topology)[name]
    assert topology.reverse is not None
    reverse = as_array(topology.reverse)
    read = np.arange(reverse.size, dtype=reverse.dtype)
    ptr, write = as_array(topology.in_ptr), reverse
    if transposed:
        read, ptr = (as_array(part) for part in topology.outgoing)
        write = reverse[read]
    single, single_ptr = reverse[:0], reverse[:0]
    if not topology.symmetric:
        alone = np.flatnonzero(reverse < 0)
        nodes = as_array(topology.target if transposed else topology.source)[alone]
        order = np.argsort(nodes, kind="stable")
        single, single_ptr = alone[order], np.searchsorted(nodes[order], np.arange(topology.num_nodes + 1))
    vars(topology)[name] = ptr, read, write, single_ptr, single
    return ptr, read, write, single_ptr, single


def _cavity_sum_cuda(
    values: Tensor, topology: Topology, transposed: bool, constant: Tensor | None, rectify: bool, *kinds: Any
) -> Tensor:
    message_kind, constant_kind = kinds
    values = _picked(values, message_kind)
    constant = None if constant is None else _picked(constant, constant_kind)
    if topology.longest_range > LONGEST_RANGE:
        return cavity_sum_reference(values, topology, transposed, constant, rectify)
    from hiddenfield.ops.triton_sums import ranged_sum

    arcs = topology.num_arcs
    if not transposed:
        key, ptr, read = topology.source, topology.in_ptr, None
    else:
        (read, ptr), key = topology.outgoing, topology.target
    skip = topology.reverse
    return ranged_sum(
        values, ptr, num_out=arcs, key=key, read=read, skip=skip, constant=constant, rectify=rectify
    )


@compiled
def _cavity_loop(
    messages: Array, plan: Any, constant: Array, constant_row: Array, lowest: float, out: Array
) -> None:
    """Write row w = write[p]: max(lowest, constant[constant_row[w]] + the rows read[q] with q != p).

    p and q run over the range of each node. write[p] is -1 where nothing leaves row read[p] out; the rows of `single`
    in the node's range of `single_ptr` get the full sum. A `constant_row` of one number holds for all rows, an empty
    one means a row's own. Nodes of up to four arcs, nearly all in molecules, are summed in one pass.
    """
    ptr, read, write, single_ptr, single = plan
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
                # The others, as far as there are so many.
                r0 = read[min(begin + (0 if left_out > 0 else 1), end - 1)]
                r1 = read[min(begin + (1 if left_out > 1 else 2), end - 1)]
                r2 = read[min(begin + (2 if left_out > 2 else 3), end - 1)]
                for column in range(dim):
                    value = constant[k, column]
                    if count > 1:
                        value += messages[r0, column]
                    if count > 2:
                        value += messages[r1, column]
                    if count > 3:
                        value += messages[r2, column]
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


_cavity = Implementations(
    cavity_sum_reference,
    _cavity_sum_cpu,
    _cavity_sum_cuda,
    _cavity_gradient,
    lambda out, *given: [out] if given[4] else [],
)
