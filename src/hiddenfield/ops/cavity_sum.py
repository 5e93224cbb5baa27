"""For each arc i -> j, the sum of the messages into i but the one from j along the same edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.ops.cavity_loops import PARTS, cavity_gradient_loop, cavity_plan, cavity_sum_loop
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.dispatch import (
    Implementations,
    check_index,
    check_like,
    check_rows,
    empty,
    reject,
    through_rectifier,
)
from hiddenfield.ops.gather_sum import gather_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array, Float, Int, Tensor

# On a GPU every arc sums its node's messages anew; at a node with more arcs than this that would be too many.
LONGEST_RANGE = 256


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
    O(arcs * dim) and one pass over memory, which in the gradient takes the rectifier and the constant along. The
    reference subtracts (with the infinite part counted apart), so that it agrees up to the rounding of the full sum.

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
        raise InputError(
            "cavity_sum needs a topology with reverse; build it with reverse=match_reverse(source, in_ptr)"
        )
    _check(messages, "messages", message_kind, topology)
    if constant is not None:
        _check(constant, "constant", constant_kind, topology)
        check_like(constant, messages)
    wanted = messages.requires_grad or (constant is not None and constant.requires_grad)
    arguments = messages, topology, False, constant, rectify, message_kind, constant_kind
    if wanted and torch.is_grad_enabled():
        return _CavitySum.apply(*arguments)
    return _sums(*arguments)


def _check(rows: Tensor, name: str, kind: Tensor | None, topology: Topology) -> None:
    if kind is None:
        return check_rows(rows, name, topology.num_arcs, "arcs", topology.source)
    check_rows(rows, name, len(rows), "kinds", topology.source)
    check_index(kind, "kind", topology.source.device)
    if len(kind) != topology.num_arcs:
        reject(f"the kind of each of the {topology.num_arcs} arcs is needed, got {len(kind)}")


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
        message_kind: Tensor | None,
        constant_kind: Tensor | None,
    ) -> Tensor:
        out = _sums(messages, topology, transposed, constant, rectify, message_kind, constant_kind)
        ctx.topology, ctx.transposed, ctx.rectify = topology, transposed, rectify
        ctx.kinds = message_kind, constant_kind
        ctx.rows = len(messages), None if constant is None else len(constant)
        if rectify:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (out,) = ctx.saved_tensors if ctx.rectify else (None,)
        rows = (
            ctx.rows[0] if ctx.needs_input_grad[0] else None,
            ctx.rows[1] if ctx.needs_input_grad[3] else None,
        )
        again = gradient.requires_grad and torch.is_grad_enabled()
        run = _gradients_reference if again or rows[0] is None else _gradients
        messages, constant = run(gradient, out, ctx.topology, ctx.transposed, rows, ctx.kinds)
        return messages, None, None, constant, None, None, None


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


def _gradients_reference(
    gradient: Tensor,
    out: Tensor | None,
    topology: Topology,
    transposed: bool,
    rows: tuple[int | None, int | None],
    kinds: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of messages and constant, of which `rows` are wanted, by ops that can be differentiated."""
    gradient = gradient if out is None else through_rectifier(gradient, out)
    messages = None
    if rows[0] is not None:
        again = gradient.requires_grad and torch.is_grad_enabled()
        messages = (_CavitySum.apply if again else _sums)(
            gradient, topology, not transposed, None, False, None, None
        )
        messages = _shared(messages, kinds[0], rows[0])
    return messages, None if rows[1] is None else _shared(gradient, kinds[1], rows[1])


def _shared(gradient: Tensor, kind: Tensor | None, rows: int) -> Tensor:
    """Sum the gradients of the arcs of each kind."""
    if kind is None:
        return gradient
    bounds = torch.arange(len(kind) + 1, dtype=kind.dtype, device=kind.device)
    return gather_sum(gradient, Topology(kind, bounds, num_sources=rows).transpose)


def _sums_cpu(
    messages: Tensor,
    topology: Topology,
    transposed: bool,
    constant: Tensor | None,
    rectify: bool,
    message_kind: Tensor | None,
    constant_kind: Tensor | None,
) -> Tensor:
    out = empty((topology.num_arcs, messages.shape[1]), messages)
    result = out.numpy()
    ptr, read, *others = cavity_plan(topology, transposed)
    if message_kind is not None:
        read = as_array(message_kind)[read]
    if constant is None:
        added, row = np.zeros_like(result, shape=(1, result.shape[1])), np.zeros(1, dtype=read.dtype)
    else:
        added, row = as_array(constant), _array(constant_kind, read)
    lowest = result.dtype.type(0 if rectify else -np.inf)
    cavity_sum_loop(as_array(messages), ptr, read, *others, added, row, lowest, result, work=out.numel())
    return out


def _gradients_cpu(
    gradient: Tensor,
    out: Tensor | None,
    topology: Topology,
    transposed: bool,
    rows: tuple[int, int | None],
    kinds: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor | None]:
    plan = cavity_plan(topology, not transposed)
    values, dim = as_array(gradient), gradient.shape[1]
    unchanged = kinds[1] is None and out is None  # the constant's gradient is the gradient itself
    written = rows[0], None if unchanged else rows[1]
    kinds = kinds[0], None if rows[1] is None else kinds[1]
    found = [
        empty((count or 0, dim), gradient) if kind is None else gradient.new_zeros(PARTS * (count or 0), dim)
        for count, kind in zip(written, kinds, strict=True)
    ]
    cavity_gradient_loop(
        values,
        values[:0] if out is None else as_array(out),
        *plan,
        _array(kinds[0], plan[1]),
        found[0].numpy(),
        _array(kinds[1], plan[1]),
        found[1].numpy(),
        np.linspace(0, topology.num_nodes, PARTS + 1).astype(np.int64),
        work=gradient.numel(),
    )
    messages, constant = (
        # NumPy adds the parts on one thread.
        part if kind is None else torch.from_numpy(part.view(PARTS, -1, dim).numpy().sum(axis=0))
        for part, kind in zip(found, kinds, strict=True)
    )
    if rows[1] is None:
        return messages, None
    return messages, gradient if unchanged else constant


def _array(kind: Tensor | None, like: Array) -> Array:
    return like[:0] if kind is None else as_array(kind)


def _sums_cuda(
    messages: Tensor,
    topology: Topology,
    transposed: bool,
    constant: Tensor | None,
    rectify: bool,
    message_kind: Tensor | None,
    constant_kind: Tensor | None,
) -> Tensor:
    messages = _picked(messages, message_kind)
    constant = None if constant is None else _picked(constant, constant_kind)
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


_sums = Implementations(reference=cavity_sum_reference, cpu=_sums_cpu, cuda=_sums_cuda)
_gradients = Implementations(reference=_gradients_reference, cpu=_gradients_cpu)
