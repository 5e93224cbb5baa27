"""Each node's sum of the values that its arcs read."""

from __future__ import annotations

from typing import Any

import torch

from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import Implementations, check_like, check_rows, empty, through_rectifier
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array, Float, Tensor


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
    wanted = values.requires_grad or (constant is not None and constant.requires_grad)
    if wanted and torch.is_grad_enabled():
        return _GatherSum.apply(values, topology, constant, rectify)
    return _implementations(values, topology, constant, rectify)


class _GatherSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, topology: Topology, constant: Tensor | None, rectify: bool
    ) -> Tensor:
        ctx.topology = topology
        out = _implementations(values, topology, constant, rectify)
        ctx.rectify = rectify
        if rectify:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        if ctx.rectify:
            gradient = through_rectifier(gradient, *ctx.saved_tensors)
        values = gather_sum(gradient, ctx.topology.transpose) if ctx.needs_input_grad[0] else None
        return values, None, gradient if ctx.needs_input_grad[2] else None, None


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


_implementations = Implementations(reference=gather_sum_reference, cpu=_gather_sum_cpu, cuda=_gather_sum_cuda)
