"""For each arc i -> j, the sum of the messages into i but the one from j along the same edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.compile import as_array, kernel, prange
from hiddenfield.ops.dispatch import Implementations, check_like, check_rows, empty, through_rectifier
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["cavity_sum", "cavity_sum_reference"]

# On a GPU every arc sums its node's messages anew; at a node with more arcs than this that would be too many.
LONGEST_RANGE = 256


def cavity_sum(
    messages: Float[Tensor, "arcs dim"],
    topology: Topology,
    constant: Float[Tensor, "arcs dim"] | None = None,
    *,
    rectify: bool = False,
) -> Float[Tensor, "arcs dim"]:
    r"""Sum, for each arc, the messages into its sender but the one along the same edge.

    .. math:: y_{i \to j} = \rho\Bigl(c_{i \to j} + \sum_{b \to i,\; b \ne \mathrm{reverse}(i \to j)} m_b\Bigr)

    with :math:`c = 0` and :math:`\rho` the identity unless they are asked for, as in `gather_sum`.

    An arc without a reverse gets the full sum; a self-loop is its own reverse and leaves itself out. The sum
    is taken over the others rather than by subtraction, so a message of -inf (a hard zero) leaves no NaN
    behind and a large message does not drown a small one.

    Parameters
    ----------
    messages
        (arcs, dim), floating point; -inf is allowed, +inf and NaN follow the arithmetic.
    topology
        Who sends to whom, with `reverse`. Its indices are trusted; see `Topology.validate`.
    constant
        (arcs, dim), added to the sums.
    rectify
        Whether :math:`\rho(y) = \max(y, 0)`; the gradient at 0 is 0.

    Returns
    -------
    Tensor
        (arcs, dim). Exact up to rounding, in a fixed order whatever the number of threads. Differentiable
        twice and more: the gradient of the message b into i is the sum of the gradients of the arcs out of i
        but reverse(b).

    Notes
    -----
    O(arcs * dim) and one pass over memory. The reference subtracts (with the infinite part counted apart), so
    that it agrees up to the rounding of the full sum.

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
    check_rows(messages, "messages", topology.num_arcs, "arcs", topology.source)
    if topology.reverse is None:
        raise InputError(
            "cavity_sum needs a topology with reverse; build it with reverse=match_reverse(source, in_ptr)"
        )
    if constant is not None:
        check_rows(constant, "constant", topology.num_arcs, "arcs", topology.source)
        check_like(constant, messages)
    wanted = messages.requires_grad or (constant is not None and constant.requires_grad)
    if wanted and torch.is_grad_enabled():
        return _CavitySum.apply(messages, topology, False, constant, rectify)
    return _implementations(messages, topology, False, constant, rectify)


class _CavitySum(torch.autograd.Function):
    """The op or, with `transposed`, its transpose; each is the gradient of the other."""

    @staticmethod
    def forward(
        ctx: Any,
        messages: Tensor,
        topology: Topology,
        transposed: bool,
        constant: Tensor | None,
        rectify: bool,
    ) -> Tensor:
        ctx.topology, ctx.transposed = topology, transposed
        out = _implementations(messages, topology, transposed, constant, rectify)
        ctx.rectify = rectify
        if rectify:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        if ctx.rectify:
            gradient = through_rectifier(gradient, *ctx.saved_tensors)
        messages = None
        if ctx.needs_input_grad[0]:
            arguments = gradient, ctx.topology, not ctx.transposed, None, False
            again = gradient.requires_grad and torch.is_grad_enabled()
            messages = _CavitySum.apply(*arguments) if again else _implementations(*arguments)
        return messages, None, None, gradient if ctx.needs_input_grad[3] else None, None


def cavity_sum_reference(
    messages: Tensor,
    topology: Topology,
    transposed: bool = False,
    constant: Tensor | None = None,
    rectify: bool = False,
) -> Tensor:
    """Sum all messages of a node and subtract the one to leave out; hard zeros are counted instead."""
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


def _cavity_sum_cpu(
    messages: Tensor, topology: Topology, transposed: bool, constant: Tensor | None, rectify: bool
) -> Tensor:
    out = empty(messages.shape, messages)
    rows = as_array(messages)
    added = rows[:0] if constant is None else as_array(constant)
    plan = _plan(topology, transposed)
    _cavity_sum_kernel(rows, *plan, added, rectify, out.numpy(), work=out.numel())
    return out


def _cavity_sum_cuda(
    messages: Tensor, topology: Topology, transposed: bool, constant: Tensor | None, rectify: bool
) -> Tensor:
    if topology.longest_range > LONGEST_RANGE:
        return cavity_sum_reference(messages, topology, transposed, constant, rectify)
    from hiddenfield.ops.triton_sums import ranged_sum

    arcs = topology.num_arcs
    if not transposed:
        key, ptr, read = topology.source, topology.in_ptr, None
    else:
        (read, ptr), key = topology.outgoing, topology.target
    skip = topology.reverse
    return ranged_sum(
        messages, ptr, num_out=arcs, key=key, read=read, skip=skip, constant=constant, rectify=rectify
    )


def _plan(topology: Topology, transposed: bool) -> tuple[Array, Array, Array, Array, Array]:
    """Return what `_cavity_sum_kernel` reads and writes at each node, kept on the topology."""
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


@kernel
def _cavity_sum_kernel(
    messages: Array,
    ptr: Array,
    read: Array,
    write: Array,
    single_ptr: Array,
    single: Array,
    constant: Array,
    rectify: bool,
    out: Array,
) -> None:
    """Write row write[p] = sum of the rows read[q] with q != p, for p and q in the range of each node.

    write[p] is -1 where nothing leaves row read[p] out; the rows of `single` in the node's range of
    `single_ptr` get the full sum. Nodes of up to four arcs, nearly all in molecules, need no second pass.
    """
    dim = messages.shape[1]
    add = constant.shape[0] > 0
    for node in prange(ptr.size - 1):
        begin = ptr[node]
        end = ptr[node + 1]
        count = end - begin
        if count == 1:
            w = write[begin]
            if w >= 0:
                for column in range(dim):
                    out[w, column] = 0
        elif count == 2:
            for left_out in range(2):
                w = write[begin + left_out]
                if w >= 0:
                    r0 = read[begin + 1 - left_out]
                    for column in range(dim):
                        out[w, column] = messages[r0, column]
        elif count == 3:
            for left_out in range(3):
                w = write[begin + left_out]
                if w >= 0:
                    r0 = read[begin + (0 if left_out > 0 else 1)]
                    r1 = read[begin + (1 if left_out > 1 else 2)]
                    for column in range(dim):
                        out[w, column] = messages[r0, column] + messages[r1, column]
        elif count == 4:
            for left_out in range(4):
                w = write[begin + left_out]
                if w >= 0:
                    r0 = read[begin + (0 if left_out > 0 else 1)]
                    r1 = read[begin + (1 if left_out > 1 else 2)]
                    r2 = read[begin + (2 if left_out > 2 else 3)]
                    for column in range(dim):
                        out[w, column] = messages[r0, column] + messages[r1, column] + messages[r2, column]
        elif count > 4:
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
                    for column in range(dim):
                        out[w, column] += running[column]
                for column in range(dim):
                    running[column] += messages[r0, column]
        if single_ptr.size > 0 and single_ptr[node] < single_ptr[node + 1]:
            # The first gets the sum, the others a copy: still linear in the number of arcs.
            first = single[single_ptr[node]]
            for column in range(dim):
                out[first, column] = 0
            for place in range(begin, end):
                r0 = read[place]
                for column in range(dim):
                    out[first, column] += messages[r0, column]
            for place in range(single_ptr[node] + 1, single_ptr[node + 1]):
                w = single[place]
                for column in range(dim):
                    out[w, column] = out[first, column]
        if add or rectify:
            # The node's own rows once more, while they are at hand: first those with a reverse, then the others.
            singles = single_ptr[node + 1] - single_ptr[node] if single_ptr.size > 0 else 0
            for place in range(count + singles):
                w = write[begin + place] if place < count else single[single_ptr[node] + place - count]
                if w >= 0 and add:
                    for column in range(dim):
                        out[w, column] = constant[w, column] + out[w, column]
                if w >= 0 and rectify:
                    for column in range(dim):
                        if out[w, column] < 0:
                            out[w, column] = 0


_implementations = Implementations(reference=cavity_sum_reference, cpu=_cavity_sum_cpu, cuda=_cavity_sum_cuda)
