"""From node embeddings to one vector a structure."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hiddenfield.ops import segment_max, segment_sum
from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["POOLINGS"]


def pool_sum(
    nodes: Float[Tensor, "nodes dim"], node_ptr: Int[Tensor, " structures+1"]
) -> Float[Tensor, "structures dim"]:
    r"""Sum over the nodes, :math:`\sum_i \tilde\mu_i`; 0 for an empty structure. The paper's choice."""
    return segment_sum(nodes, node_ptr)


def pool_mean(
    nodes: Float[Tensor, "nodes dim"], node_ptr: Int[Tensor, " structures+1"]
) -> Float[Tensor, "structures dim"]:
    r"""Mean over the nodes; 0 for an empty structure."""
    sizes = node_ptr.diff().clamp(min=1).to(nodes.dtype)
    return segment_sum(nodes, node_ptr) / sizes[:, None]


def pool_max(
    nodes: Float[Tensor, "nodes dim"], node_ptr: Int[Tensor, " structures+1"]
) -> Float[Tensor, "structures dim"]:
    r"""Elementwise maximum over the nodes; 0 for an empty structure."""
    return torch.where((node_ptr.diff() > 0)[:, None], segment_max(nodes, node_ptr), 0.0)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": pool_sum,
    "mean": pool_mean,
    "max": pool_max,
}
