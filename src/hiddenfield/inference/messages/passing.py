r"""Messages between factors and variables: the update that belief propagation and its reweighted relatives share.

With :math:`w_p = m_p \rho_f` the weight of port p (multiplicity times the weight of its factor), the two halves are

.. math::

    \mu_p(x_v) &= \log \Phi_v(x_v) + \sum_{q \in v} w_q \nu_q(x_v) - \nu_p(x_v) \\
    \nu_p(x_v) &\leftarrow \log \sum_{x_{C \setminus v}} \exp\Big(\tfrac{1}{\rho_f} \log\Psi_f(x_C)
        + \sum_{q \in f,\, q \ne p} \mu_q(x_q)\Big)

:math:`\rho = 1` is loopy belief propagation, spanning-tree weights :math:`\rho \le 1` the tree-reweighted one, and
multiplicities other than 1 make either run at template level: a variable leaves out *one* copy of the port's message.

A state whose total is -inf is dead: every assignment with it has probability zero. Its cavity is then -inf as well,
which changes no belief and needs no arithmetic on infinities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.messages.free_energy import PairGroup, pair_beliefs
from hiddenfield.ops import gather_sum, segment_logsumexp, segment_max, segment_repeat
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Float, Tensor


@dataclass(frozen=True, eq=False)
class MessagePassing:
    r"""The update as pure functions of the flat messages, in plain torch: any device, differentiable.

    Parameters
    ----------
    field
        The field, evidence included.
    weights
        :math:`\rho_f` of each factor, one vector per group; None is 1 everywhere.
    maximise
        Max-product instead of sum-product.
    """

    field: FactorGraph
    weights: tuple[Tensor, ...] | None = None
    maximise: bool = False

    @cached_property
    def port_weight(self) -> Float[Tensor, " ports"]:
        """Multiplicity of each port times the weight of its factor."""
        parts = [self.field.log_unary.new_zeros(0)]
        for number, group in enumerate(self.field.groups):
            weight = self.field.multiplicity(group)
            if self.weights is not None:
                weight = weight * self.weights[number][:, None]
            parts.append(weight.T.reshape(-1))
        return torch.cat(parts)

    @cached_property
    def unweighted(self) -> bool:
        """Whether every port counts once, and no gradient with respect to that is wanted."""
        return not self.port_weight.requires_grad and bool((self.port_weight == 1).all())

    @cached_property
    def log_tables(self) -> tuple[Tensor, ...]:
        """The tables that messages pass through, divided by their factor's weight."""
        tables = []
        for number, group in enumerate(self.field.groups):
            table = group.expanded()
            if self.weights is not None:
                weight = self.weights[number]
                table = table / weight.reshape(-1, *(1,) * group.arity)
            tables.append(table)
        return tuple(tables)

    def start(self) -> Float[Tensor, " messages"]:
        """Return uniform messages."""
        wiring = self.field.wiring
        lengths = wiring.port_ptr.diff()
        value = 0 * lengths if self.maximise else -lengths.to(self.field.dtype).log()
        return value.to(self.field.dtype)[wiring.message_port]

    def totals(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " states"]:
        """Return unnormalised log beliefs of all variables."""
        wiring = self.field.wiring
        weighted = messages if self.unweighted else messages * self.port_weight[wiring.message_port]
        return self.field.log_unary + gather_sum(weighted[:, None], wiring.to_states)[:, 0]

    def relative_totals(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " states"]:
        """Return log beliefs of all variables up to a constant each.

        A message that counts a million times is taken relative to its largest entry: what its states have in common
        would otherwise be summed up to numbers that leave no digits for where they differ. So is each total.
        """
        if not self.unweighted:
            wiring = self.field.wiring
            top = segment_max(messages.detach(), wiring.port_ptr)
            messages = (
                messages - torch.where(top == -math.inf, torch.zeros_like(top), top)[wiring.message_port]
            )
        totals, ptr = self.totals(messages), self.field.state_ptr
        top = segment_max(totals.detach(), ptr)
        top = torch.where(top == -math.inf, torch.zeros_like(top), top)
        return totals - segment_repeat(top, ptr, totals.shape[0])

    def cavities(
        self, messages: Float[Tensor, " messages"], totals: Float[Tensor, " states"]
    ) -> Float[Tensor, " messages"]:
        """Return what each variable sends to each of its ports: the total without one copy of the port's message."""
        here = totals[self.field.wiring.message_state]
        dead = here == -math.inf
        # The gradient of what is not chosen must be a number too.
        return torch.where(dead, here, here - torch.where(dead, torch.zeros_like(messages), messages))

    def update(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return all new messages, normalised, from all old ones."""
        return self.through_factors(self.cavities(messages, self.relative_totals(messages)))

    def through_factors(self, cavities: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return what each factor sends to each of its ports, normalised, given what the variables sent."""
        parts = [cavities.new_zeros(0)]
        for number, group in enumerate(self.field.groups):
            for port in range(group.arity):
                joint = self.joint(number, cavities, leave_out=port)
                axes = [axis + 1 for axis in range(group.arity) if axis != port]
                new = joint.amax(axes) if self.maximise else torch.logsumexp(joint, axes)
                top = new.amax(1, keepdim=True) if self.maximise else torch.logsumexp(new, 1, keepdim=True)
                parts.append((new - torch.where(top == -math.inf, torch.zeros_like(top), top)).reshape(-1))
        return torch.cat(parts)

    def normalise(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return messages whose probabilities sum to 1, or whose largest is 1 where maximising."""
        return normalise_segments(messages, self.field.wiring.port_ptr, self.maximise)[0]

    def residual(
        self, messages: Float[Tensor, " messages"], updated: Float[Tensor, " messages"] | None = None
    ) -> Float[Tensor, " graphs"]:
        """Return for each graph the largest change of a message's probabilities in one undamped update.

        A port that stands for several counts as many times over, as its change moves a belief so much more; what is
        within rounding counts as no change.
        """
        new = self.update(messages) if updated is None else updated
        wiring = self.field.wiring
        worst = messages.new_zeros(self.field.num_graphs)
        owner = wiring.port_graph[wiring.message_port]
        moved = change(messages, new)
        repeats = self.port_weight[wiring.message_port].clamp(min=1)
        rounding = 8 * torch.finfo(moved.dtype).eps
        return worst.scatter_reduce(0, owner, torch.where(moved > rounding, moved * repeats, moved), "amax")

    def beliefs(
        self, messages: Float[Tensor, " messages"]
    ) -> tuple[Float[Tensor, " states"], tuple[Tensor, ...]]:
        """Return log marginals of variables and of factors."""
        totals = self.relative_totals(messages)
        cavities = self.cavities(messages, totals)
        marginals, _ = normalise_segments(totals, self.field.state_ptr, self.maximise)
        factors = []
        for number, group in enumerate(self.field.groups):
            if group.arity == 2 and use_compiled(group.log_tables, cavities):
                factors.append(pair_beliefs(self, number, messages, as_array(totals))[0])
                continue
            joint = self.joint(number, cavities)
            flat = joint.reshape(group.num_factors, -1)
            top = flat.amax(1, keepdim=True) if self.maximise else torch.logsumexp(flat, 1, keepdim=True)
            flat = flat - torch.where(top == -math.inf, torch.zeros_like(top), top)
            factors.append(flat.reshape(group.num_factors, *group.states))
        return marginals, tuple(factors)

    def pair_group(self, number: int) -> PairGroup:
        """Return a group of pairs as compiled loops read it."""
        field, group = self.field, self.field.groups[number]
        if self.weights is None and group.table is not None:
            tables, row = group.log_tables, as_array(group.table)
        else:
            tables = self.log_tables[number]
            row = np.arange(group.num_factors) if len(tables) > 1 else np.zeros(group.num_factors, np.int64)
        (first, _), (second, _) = field.wiring.blocks[number]
        rows, columns = group.states
        places = (as_array(group.scopes), as_array(field.state_ptr), (first, second))
        return PairGroup(*places, as_array(tables).reshape(-1), row, (rows, columns), self.maximise)

    def joint(self, number: int, cavities: Float[Tensor, " messages"], leave_out: int = -1) -> Tensor:
        """Return the tables of a group plus what the variables send to it, but for one port that may be left out."""
        group = self.field.groups[number]
        joint = self.log_tables[number]
        for port, (begin, end) in enumerate(self.field.wiring.blocks[number]):
            if port != leave_out:
                shape = [group.num_factors, *(1,) * group.arity]
                shape[port + 1] = group.states[port]
                joint = joint + cavities[begin:end].reshape(shape)
        return joint


def change(old: Float[Tensor, " messages"], new: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
    """Return how much each probability of normalised messages changed; NaN where a message is not a number."""
    return (new.exp() - old.exp()).abs()


def normalise_segments(
    totals: Float[Tensor, " states"], ptr: Tensor, maximise: bool = False
) -> tuple[Float[Tensor, " states"], Float[Tensor, " variables"]]:
    """Subtract each variable's log normaliser (or maximum); a variable of -inf alone stays as it is."""
    top = segment_max(totals, ptr) if maximise else segment_logsumexp(totals, ptr)
    safe = torch.where(top == -math.inf, torch.zeros_like(top), top)
    return totals - segment_repeat(safe, ptr, totals.shape[0]), top
