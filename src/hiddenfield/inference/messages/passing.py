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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.layout import scaled_tables
from hiddenfield.inference.messages.free_energy import PairGroup, pair_beliefs
from hiddenfield.inference.messages.loops import Ports, largest_by_graph
from hiddenfield.ops import gather_sum, segment_logsumexp, segment_max, segment_repeat
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Array, Float, Tensor


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
        return here - messages.masked_fill(here == -math.inf, 0)  # what is left out may be -inf as well

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
        wiring, port = self.field.wiring, self.field.wiring.message_port
        return self.largest_move(change(messages, new), self.port_weight[port], wiring.port_graph[port])

    def largest_move(self, moved: Tensor, weight: Tensor, owner: Tensor) -> Float[Tensor, " graphs"]:
        """Return for each graph the largest of the moves of ports, each as many times over as the port stands for."""
        rounding = 8 * torch.finfo(moved.dtype).eps
        moved = torch.where(moved > rounding, moved * weight.clamp(min=1), moved)
        return largest(moved, owner, self.field.num_graphs)

    def disagreement(
        self, messages: Float[Tensor, " messages"], updated: Float[Tensor, " messages"]
    ) -> Float[Tensor, " graphs"]:
        r"""Return for each graph the largest difference between a variable's belief and that of a factor about it.

        With :math:`\mu_p` what variable v sends to port p, :math:`\nu_p` the message from there and :math:`\nu_p'` its
        update, the belief of v is :math:`b_v \propto \mu_p \nu_p`, and the factor's belief, summed (or maximised) over
        its other ports, :math:`\mu_p \nu_p'`: no table is needed.

        A small change of messages does not imply a small difference. Where a message leaves a state 1e-7 and all
        others leave nothing but that state, the belief turns on what is within any tolerance of the message:

        .. math::

            \nu = (1 - 10^{-7},\ 10^{-7}), \quad \nu' = (1 - 10^{-9},\ 10^{-9}), \quad \mu \propto (10^{-8},\ 1)
            \quad\Rightarrow\quad b_v \approx (0.09,\ 0.91), \quad b_f \approx (0.91,\ 0.09).

        What is within rounding counts as agreement. Linear in the messages.
        """
        field, wiring = self.field, self.field.wiring
        totals = self.relative_totals(messages)
        old, _ = normalise_segments(totals, field.state_ptr, self.maximise)
        new = self.normalise(self.cavities(messages, totals) + updated)
        apart = (new.exp() - old.exp()[wiring.message_state]).abs()
        apart = apart.masked_fill(apart <= 8 * torch.finfo(apart.dtype).eps, 0)
        return largest(apart, wiring.port_graph[wiring.message_port], field.num_graphs)

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
        places = (as_array(group.scopes), as_array(field.state_ptr), np.array([first, second]))
        shape = np.array([rows, columns])
        return PairGroup(*places, as_array(tables).reshape(-1), row, shape, self.maximise)

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


def largest(values: Float[Tensor, " rows"], owner: Tensor, count: int) -> Float[Tensor, " owners"]:
    """Return the largest of the numbers of each owner, 0 where all are less or there are none."""
    if count == 1 and len(values):  # on a GPU all rows would queue for one number
        return values.amax(0, keepdim=True).clamp(min=0)
    return values.new_zeros(count).scatter_reduce(0, owner, values, "amax")


def normalise_segments(
    totals: Float[Tensor, " states"], ptr: Tensor, maximise: bool = False
) -> tuple[Float[Tensor, " states"], Float[Tensor, " variables"]]:
    """Subtract each variable's log normaliser (or maximum); a variable of -inf alone stays as it is."""
    top = segment_max(totals, ptr) if maximise else segment_logsumexp(totals, ptr)
    safe = torch.where(top == -math.inf, torch.zeros_like(top), top)
    return totals - segment_repeat(safe, ptr, totals.shape[0]), top


# -- the same for compiled loops ---------------------------------------------------------------------------


def _array(read: Callable[[MessagePassing], Tensor]) -> cached_property[Array]:
    """Return a property that is a tensor of the passing as an array, made when it is first read."""
    return cached_property(lambda plan: as_array(read(plan.passing)))


@dataclass(frozen=True, eq=False)
class MessagePlan:
    """Flat arrays of one `MessagePassing`, on the CPU; each is made when it is first read.

    What depends on the shape of the field alone is that of `Wiring`; tables and weights are those of the passing.

    Parameters
    ----------
    passing
        Field, weights, and whether to maximise.
    """

    passing: MessagePassing

    port_ptr = _array(lambda passing: passing.field.wiring.port_ptr)
    port_variable = _array(lambda passing: passing.field.wiring.port_variable)
    port_factor = _array(lambda passing: passing.field.wiring.port_factor)
    port_graph = _array(lambda passing: passing.field.wiring.port_graph)
    factor_graph = _array(lambda passing: passing.field.wiring.factor_graph)
    port_weight = _array(lambda passing: passing.port_weight)
    state_ptr = _array(lambda passing: passing.field.state_ptr)
    variable_graph = _array(lambda passing: passing.field.variable_graph)
    log_unary = _array(lambda passing: passing.field.log_unary)

    def by_graph(self, residual: Array, graph: Array) -> Float[Tensor, " graphs"]:
        """Return the largest of the numbers of each graph."""
        graphs = self.passing.field.num_graphs
        if graphs == 1 and residual.size:
            return torch.from_numpy(residual.max(keepdims=True))
        worst = np.zeros(graphs, residual.dtype)
        largest_by_graph(residual, graph, worst)
        return torch.from_numpy(worst)

    @cached_property
    def by_variable(self) -> tuple[Array, Array]:
        """The ports of each variable, and their bounds."""
        order, ptr = self.passing.field.wiring.by_variable
        return as_array(order), as_array(ptr)

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        """All log tables end to end, divided by the factors' weights, and where that of each factor begins."""
        field = self.passing.field
        if self.passing.weights is None:
            tables, begin = [group.log_tables for group in field.groups], as_array(field.table_begin)
        else:
            # Every factor has a table of its own then.
            tables = list(self.passing.log_tables)
            size = [np.full(group.num_factors, math.prod(group.states)) for group in field.groups]
            sizes = np.concatenate([np.zeros(0, np.int64), *size])
            begin = np.cumsum(sizes) - sizes
        parts = [as_array(table).reshape(-1) for table in tables]
        return np.concatenate([np.zeros(0, self.log_unary.dtype), *parts]), begin

    @cached_property
    def ports(self) -> Ports:
        """All of it, with room for messages and totals, to be updated without damping."""
        groups, limits = self.passing.field.groups, np.finfo(self.log_unary.dtype)
        factor_port, factor_ptr = map(as_array, self.passing.field.wiring.by_factor)
        variable_port, variable_ptr = self.by_variable
        log_tables, table_begin = self.tables
        position = np.empty(factor_port.size, np.int64)
        position[factor_port] = np.arange(factor_port.size) - np.repeat(factor_ptr[:-1], np.diff(factor_ptr))
        return Ports(
            np.empty(int(self.port_ptr[-1]), self.log_unary.dtype),
            np.empty_like(self.log_unary),
            self.log_unary,
            self.state_ptr,
            self.port_ptr,
            self.port_variable,
            self.port_factor,
            position,
            self.port_weight,
            factor_port,
            factor_ptr,
            variable_port,
            variable_ptr,
            log_tables,
            # What underflows is noticed where it matters: a sum too small to be trusted is done again in log space.
            np.exp(scaled_tables(log_tables, table_begin)[0]),
            table_begin,
            self.passing.maximise,
            # Sums of exponentials below this have lost terms that matter to the floating type.
            float(limits.tiny / limits.eps),
            0.0,
            max((sum(group.states) for group in groups), default=1),
            max((group.arity for group in groups), default=1),
        )

    @cached_property
    def depths(self) -> tuple[Array, Array]:
        """How far each variable, and each factor, is from the first variable of its part."""
        depth = np.full(self.state_ptr.size - 1, -1, np.int64)
        factor_depth = np.full(self.passing.field.num_factors, -1, np.int64)
        breadth_first(self.ports, depth, factor_depth)
        return depth, factor_depth

    @cached_property
    def sweep(self) -> Array:
        """An order of the ports in which each depends on earlier ones as far as possible: inwards, then outwards.

        Messages towards the first variable of a part come first, the farthest ones before all, and messages away from
        it last, the farthest ones after all. On a forest one sweep makes all messages exact.
        """
        depth, factor_depth = self.depths
        here = depth[self.port_variable]
        inwards = factor_depth[self.port_factor] > here
        return np.lexsort((self.port_variable, np.where(inwards, -here, here), ~inwards))


@compiled
def breadth_first(ports: Ports, depth: Array, factor_depth: Array) -> None:
    """Write the distance of each variable and factor from the first variable of its part; both come in as -1."""
    queue = np.empty(depth.size, np.int64)
    for root in range(depth.size):
        if depth[root] >= 0:
            continue
        depth[root] = 0
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            variable = queue[head]
            head += 1
            for place in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
                factor = ports.port_factor[ports.variable_port[place]]
                if factor_depth[factor] >= 0:
                    continue
                factor_depth[factor] = depth[variable] + 1
                for other in range(ports.factor_ptr[factor], ports.factor_ptr[factor + 1]):
                    neighbour = ports.port_variable[ports.factor_port[other]]
                    if depth[neighbour] < 0:
                        depth[neighbour] = depth[variable] + 2
                        queue[tail] = neighbour
                        tail += 1
