"""Whether the beliefs of factors and of variables agree: what a fixed point of message passing is for."""

from __future__ import annotations

import math

import torch

from hiddenfield.inference.messages.passing import MessagePassing, change, normalise_segments
from hiddenfield.ops import segment_max
from hiddenfield.shapes import Float, Tensor

__all__ = ["disagreement"]


def disagreement(
    passing: MessagePassing,
    messages: Float[Tensor, " messages"],
    updated: Float[Tensor, " messages"],
) -> Float[Tensor, " graphs"]:
    r"""Return for each graph the largest difference between a variable's belief and that of a factor about it.

    With :math:`\mu_p` what variable v sends to port p, :math:`\nu_p` the message from there and :math:`\nu_p'` its
    update, the belief of v is :math:`b_v \propto \mu_p \nu_p`, and the factor's belief, summed (or maximised) over its
    other ports, :math:`\mu_p \nu_p'`: no table is needed.

    A small change of messages does not imply a small difference. Where a message leaves a state 1e-7 and all
    others leave nothing but that state, the belief turns on what is within any tolerance of the message:

    .. math::

        \nu = (1 - 10^{-7},\ 10^{-7}), \quad \nu' = (1 - 10^{-9},\ 10^{-9}), \quad \mu \propto (10^{-8},\ 1)
        \quad\Rightarrow\quad b_v \approx (0.09,\ 0.91), \quad b_f \approx (0.91,\ 0.09).

    What is within the rounding of logarithms of their size counts as agreement. Linear in the messages.
    """
    field, ptr = passing.field, passing.field.wiring.port_ptr
    totals = passing.relative_totals(messages)
    here = totals[field.wiring.message_state]
    old, _ = normalise_segments(here, ptr, passing.maximise)
    new, _ = normalise_segments(
        passing.cavities(messages, totals) + torch.where(here == -math.inf, here, updated),
        ptr,
        passing.maximise,
    )
    apart = change(old, new)
    probability = torch.maximum(old, new).exp()
    size = torch.where(here == -math.inf, torch.zeros_like(here), here.abs())
    rounding = 8 * torch.finfo(here.dtype).eps * segment_max(probability * (1 + size), ptr)
    apart = torch.where(apart > rounding[field.wiring.message_port], apart, torch.zeros_like(apart))
    owner = field.wiring.port_graph[field.wiring.message_port]
    return messages.new_zeros(field.num_graphs).scatter_reduce(0, owner, apart, "amax")
