"""Each node's sum of the messages that arrive at it."""

from __future__ import annotations

from hiddenfield.ops.dispatch import check_rows
from hiddenfield.ops.segment_sum import segment_sum
from hiddenfield.ops.topology import Topology
from hiddenfield.shapes import Float, Tensor

__all__ = ["arc_sum"]


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
