"""Each node's sum of the values that its arcs read."""

from __future__ import annotations

from typing import Any

import torch

from hiddenfield.ops.compile import as_array, kernel, prange
from hiddenfield.ops.dispatch import Implementations, check_rows, empty
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["gather_sum", "gather_sum_reference"]


def gather_sum(values: Float[Tensor, "sources dim"], topology: Topology) -> Float[Tensor, "nodes dim"]:
    r"""Sum, at each node, the values of the rows that its arcs come from.

    .. math:: y_i = \sum_{a \to i} x_{\mathrm{source}(a)}

    Parameters
    ----------
    values
        (topology.num_sources, dim), floating point.
    topology
        Who sends to whom. Its indices are trusted; see `Topology.validate`.

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
    if values.requires_grad and torch.is_grad_enabled():
        return _GatherSum.apply(values, topology)
    return _implementations(values, topology)


class _GatherSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, topology: Topology) -> Tensor:
        ctx.topology = topology
        return _implementations(values, topology)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gather_sum(gradient, ctx.topology.transpose), None


def gather_sum_reference(values: Tensor, topology: Topology) -> Tensor:
    """Copy the row of every arc, then add the copies into the nodes."""
    rows = values.index_select(0, topology.source)
    return values.new_zeros(topology.num_nodes, values.shape[1]).index_add(0, topology.target, rows)


def _gather_sum_cpu(values: Tensor, topology: Topology) -> Tensor:
    source, in_ptr = topology.arrays
    out = empty((in_ptr.size - 1, values.shape[1]), values)
    _gather_sum_kernel(as_array(values), source, in_ptr, out.numpy(), work=source.size * values.shape[1])
    return out


@kernel
def _gather_sum_kernel(values: Array, source: Array, in_ptr: Array, out: Array) -> None:
    dim = values.shape[1]
    for node in prange(in_ptr.size - 1):
        begin = in_ptr[node]
        end = in_ptr[node + 1]
        if begin == end:
            for column in range(dim):
                out[node, column] = 0
        else:
            # The first row is copied, which spares a pass of zeros over the result.
            row = source[begin]
            for column in range(dim):
                out[node, column] = values[row, column]
            for arc in range(begin + 1, end):
                row = source[arc]
                for column in range(dim):
                    out[node, column] += values[row, column]


_implementations = Implementations(reference=gather_sum_reference, cpu=_gather_sum_cpu)
