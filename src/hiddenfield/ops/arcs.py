"""Rows onto arcs, from the node that sends or from the same edge the other way, and from arcs into nodes."""

from __future__ import annotations

from hiddenfield.ops.dispatch import check_rows
from hiddenfield.ops.gather_sum import gather_sum
from hiddenfield.ops.segment_sum import segment_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Float, Tensor


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
