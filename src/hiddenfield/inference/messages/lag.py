"""Whether an iteration that moves by shares only seems to have settled."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from hiddenfield.shapes import Float, Int, Tensor

__all__ = ["lag"]

AHEAD = 8
"""Undamped updates that are looked ahead."""

LOOKS = (1, 2, 4, AHEAD)
"""After so many of them beliefs are compared."""


def lag(
    update: Callable[[Tensor], Tensor],
    belief: Callable[[Tensor], Float[Tensor, " states"]],
    owner: Int[Tensor, " states"],
    messages: Tensor,
    residual: Float[Tensor, " graphs"],
    *,
    tolerance: float,
    growth: float,
) -> Float[Tensor, " graphs"]:
    r"""Return for each graph how much a belief changes within a few undamped updates, or 0 where that is little.

    Where potentials are extreme, messages that are damped can be far from where they go although no probability
    changes: a log ratio of 300 on its way to 600 stands for a probability of 1 before and after, until all that it
    meets has arrived as well. Undamped they jump there.

    What may change is :math:`\max(\sqrt{\varepsilon},\ 10\, r\, g^t)` after t updates, with :math:`\varepsilon` the
    tolerance, r the residual and g the `growth` of a residual near a fixed point that only damping finds: at most
    :math:`(1 + d) / (1 - d)` where a damping of d finds it. Costs as many updates as are looked ahead.
    """
    before, worst = belief(messages), torch.zeros_like(residual)
    allowed = 10 * residual
    for step in range(1, AHEAD + 1):
        messages, allowed = update(messages), growth * allowed
        if step not in LOOKS:
            continue
        moved = torch.zeros_like(residual).scatter_reduce(0, owner, (belief(messages) - before).abs(), "amax")
        worst = torch.where(
            moved > allowed.clamp(min=math.sqrt(tolerance)), torch.maximum(worst, moved), worst
        )
    return worst
