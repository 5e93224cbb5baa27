"""Anderson's acceleration of a fixed-point iteration, graph by graph, in plain torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["mix"]


def mix(
    past: Sequence[tuple[Tensor, Tensor]],
    owner: Int[Tensor, " numbers"],
    graphs: int,
    weight: Float[Tensor, " numbers"] | None = None,
) -> Float[Tensor, " numbers"]:
    r"""Return the affine combination of past states whose combined change is smallest, for each graph by itself.

    With states :math:`g_i` that came about by changes :math:`f_i`, it is :math:`\sum_i \alpha_i g_i` with
    :math:`\alpha = \arg\min \lVert \sum_i \alpha_i f_i \rVert` under :math:`\sum_i \alpha_i = 1`.

    Parameters
    ----------
    past
        (state, change), the latest first; entries of -inf in the latest state stay.
    owner
        The graph of each number.
    graphs
        Number of graphs.
    weight
        What each number counts for in the norm; 1 by default. Logarithms of tiny probabilities would drown the others.

    References
    ----------
    Anderson (1965), Iterative procedures for nonlinear integral equations.
    """
    latest = past[0][0]
    if len(past) < 2:
        return latest
    dead = latest == -math.inf
    zero = torch.zeros_like(latest)
    changes = torch.stack([torch.where(dead | ~change.isfinite(), zero, change) for _, change in past], dim=1)
    states = torch.stack([torch.where(dead | ~state.isfinite(), zero, state) for state, _ in past], dim=1)
    if weight is not None:
        changes = changes * weight.sqrt()[:, None]
    gram = changes.new_zeros(graphs, len(past), len(past))
    gram = gram.index_add(0, owner, changes[:, :, None] * changes[:, None, :])
    mixed = (states * _shares(gram)[owner]).sum(1)
    return torch.where(dead, latest, mixed)


def _shares(gram: Float[Tensor, "graphs past past"]) -> Float[Tensor, "graphs past"]:
    """Return the affine combination of least norm for each Gram matrix; the latest state where that fails."""
    scale = torch.diagonal(gram, dim1=1, dim2=2).clamp(min=0).sqrt()
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    ridge = 1e-10 if gram.dtype == torch.float64 else 1e-6
    system = gram / safe[:, :, None] / safe[:, None, :]
    system = system + ridge * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    solved: Any = torch.linalg.solve_ex(system, (1 / safe)[:, :, None] * safe.amin(1)[:, None, None])
    share = solved.result[:, :, 0] / safe
    total = share.sum(1, keepdim=True)
    good = (scale.amin(1, keepdim=True) > 0) & (total.abs() > 1e-6 * share.abs().sum(1, keepdim=True))
    latest = torch.zeros_like(share)
    latest[:, 0] = 1
    return torch.where(good & (share / total).isfinite().all(1, keepdim=True), share / total, latest)
