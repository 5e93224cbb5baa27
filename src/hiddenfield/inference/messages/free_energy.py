"""Free energies of one family, which differ in the counting numbers of entropies; and the beliefs that they are of.

On the CPU compiled loops take beliefs and the terms of a free energy in one pass: tables of beliefs are the largest
arrays of all, and in separate tensor operations each would be read and written ten times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.messages.loops import largest_by_graph
from hiddenfield.ops import segment_sum
from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import empty, use_compiled
from hiddenfield.ops.vector_math import fast_exp, fast_log, unchecked
from hiddenfield.shapes import Array, Float, Tensor

if TYPE_CHECKING:
    from hiddenfield.inference.messages.passing import MessagePassing


MANY = 1e9
"""Factors that one stands for, from which on differences of entropies would lose their digits by rounding."""


class PairGroup(NamedTuple):
    """A group of pairs as compiled loops read it, in one layout for messages, tables and variables; all are arrays.

    Parameters
    ----------
    scopes, state_ptr
        The two variables of each factor, and where the states of each variable begin.
    begin
        Where the messages to the first and to the second ports begin.
    tables, row, states
        The tables end to end, which of them each factor reads, and their shape.
    maximise
        Whether beliefs and messages are maxima instead of sums.
    """

    scopes: Array
    state_ptr: Array
    begin: Array
    tables: Array
    row: Array
    states: Array
    maximise: bool


def expectation(log_probability: Tensor, values: Tensor, axes: list[int]) -> Tensor:
    r"""Return :math:`\sum_x p(x) v(x)` with :math:`0 \cdot (-\infty) = 0`."""
    probability = log_probability.exp()
    return torch.where(probability > 0, probability * values, torch.zeros_like(probability)).sum(axes)


def entropy(log_probability: Tensor, axes: list[int]) -> Tensor:
    r"""Return :math:`-\sum_x p(x) \log p(x)`."""
    return -expectation(log_probability, log_probability, axes)


def negative_free_energy(
    field: FactorGraph,
    log_marginals: Float[Tensor, " states"],
    factor_log_marginals: Sequence[Tensor],
    weights: Sequence[Tensor] | None = None,
) -> Float[Tensor, " graphs"]:
    r"""Evaluate beliefs, graph by graph, with factor weights :math:`\rho`.

    .. math::

        \sum_v N_v \big(E_b[\log \Phi_v] + H(b_v)\big)
        + \sum_f N_f \Big(E_b[\log \Psi_f] + \rho_f \big(H(b_f) - \textstyle\sum_{v \in f} H(b_v)\big)\Big).

    :math:`\rho = 1` is Bethe's (an estimate of log Z at a fixed point, exact on trees), spanning-tree weights give the
    tree-reweighted upper bound, and :math:`\rho = 0` with product beliefs the mean-field lower bound. -inf where the
    beliefs put probability on a hard zero. Summed in double precision, returned in that of the field.
    """
    own = entropy_of_states(field, log_marginals)
    probability = log_marginals.exp()
    energy = torch.where(probability > 0, probability * field.log_unary, torch.zeros_like(probability))
    each = segment_sum(energy, field.state_ptr) + own
    # Sums over a graph are in double precision: a million terms in single precision would lose whole digits.
    value = field.log_constant.double() + segment_sum((field.counts * each).double(), field.variable_ptr)
    for number, (group, log_belief) in enumerate(zip(field.groups, factor_log_marginals, strict=True)):
        axes = list(range(1, group.arity + 1))
        term = expectation(log_belief, group.expanded().expand_as(log_belief), axes)
        information = entropy(log_belief, axes) - own[group.scopes].sum(1)
        if weights is not None:
            information = weights[number] * information
        elif bool((group.count > MANY).any()):
            information = -_divergence(field, log_marginals, group, log_belief)
        term = term + information
        owner = field.variable_graph[group.scopes[:, 0]]
        value = value.index_add(0, owner, (group.count * term).double())
    impossible = _impossible(field, log_marginals)
    return torch.where(impossible, torch.full_like(value, -math.inf), value).to(field.dtype)


def _divergence(field: FactorGraph, log_marginals: Tensor, group: Any, log_belief: Tensor) -> Tensor:
    r"""Return :math:`\sum_x b \log(b / q) - b + q` of each factor, with q the product of its variables' marginals.

    At a fixed point this is by how much the entropies of the variables exceed that of the factor. It is of second order
    in what they share, and so is its rounding: a template may count 10^26 factors whose variables are all but
    independent.
    """
    alone = torch.zeros_like(log_belief)
    for port, states in enumerate(log_belief.shape[1:]):
        places = field.state_ptr[group.scopes[:, port], None] + torch.arange(states, device=log_belief.device)
        shape = [len(places), *(states if port == axis else 1 for axis in range(group.arity))]
        alone = alone + log_marginals[places].reshape(shape)
    belief, product = log_belief.exp(), alone.exp()
    there = belief > 0
    ratio = torch.where(there, log_belief - alone, torch.zeros_like(alone))
    excess = torch.where(ratio.abs() < 1, product * torch.expm1(ratio), belief - product)
    terms = torch.where(there, belief * ratio - excess, product)
    return terms.flatten(1).sum(1)


def entropy_of_states(
    field: FactorGraph, log_marginals: Float[Tensor, " states"]
) -> Float[Tensor, " variables"]:
    """Return the entropy of every variable's marginal."""
    probability = log_marginals.exp()
    terms = torch.where(probability > 0, probability * log_marginals, torch.zeros_like(probability))
    return -segment_sum(terms, field.state_ptr)


def _impossible(field: FactorGraph, log_marginals: Tensor) -> Tensor:
    """Return the graphs in which some variable has no possible state."""
    alive = segment_sum((log_marginals > -math.inf).to(field.dtype), field.state_ptr) > 0
    dead = segment_sum((~alive).to(field.dtype), field.variable_ptr)
    return dead > 0


def evaluate(
    passing: MessagePassing, messages: Float[Tensor, " messages"]
) -> tuple[Float[Tensor, " states"], tuple[Tensor, ...], Float[Tensor, " graphs"]]:
    """Return log marginals of variables and of factors, and the `negative_free_energy` of them.

    Pairs on the CPU are passed over once, for their beliefs and their terms of the free energy together.
    """
    field = passing.field
    pairs = (
        passing.weights is None and not passing.maximise and all(group.arity == 2 for group in field.groups)
    )
    if not pairs or not use_compiled(
        messages, field.log_unary, *(group.log_tables for group in field.groups)
    ):
        marginals, factors = passing.beliefs(messages)
        return marginals, factors, negative_free_energy(field, marginals, factors, passing.weights)
    totals, own, energy, entropy = variable_beliefs(passing, messages)
    value, owner = as_array(field.log_constant).astype(np.float64), as_array(field.variable_graph)
    value += np.bincount(owner, as_array(field.counts) * (energy + entropy), field.num_graphs)
    # Where a variable has no possible state the graph's value is -inf already.
    entropy[entropy == -np.inf] = 0.0
    beliefs = []
    for number, group in enumerate(field.groups):
        belief, gain = pair_beliefs(passing, number, messages, totals)
        scopes = as_array(group.scopes)
        term = as_array(group.count) * (gain - entropy[scopes[:, 0]] - entropy[scopes[:, 1]])
        value += np.bincount(owner[scopes[:, 0]], term, field.num_graphs)
        beliefs.append(belief)
    return torch.from_numpy(own), tuple(beliefs), torch.from_numpy(value).to(field.dtype)


def variable_beliefs(
    passing: MessagePassing, messages: Float[Tensor, " messages"]
) -> tuple[Array, Array, Array, Array]:
    """Return of all variables totals up to a constant each, log marginals, expected log potentials and entropies."""
    field, wiring = passing.field, passing.field.wiring
    given = as_array(messages)
    totals, marginals = (
        np.empty_like(given, shape=field.log_unary.shape),
        np.empty_like(given, shape=field.log_unary.shape),
    )
    energy, entropy = np.empty((2, field.num_variables))
    variable_beliefs_loop(
        given,
        as_array(field.log_unary),
        as_array(field.state_ptr),
        *map(as_array, wiring.by_variable),
        as_array(wiring.port_ptr),
        as_array(passing.port_weight),
        not passing.unweighted,
        passing.maximise,
        totals,
        marginals,
        energy,
        entropy,
        work=totals.size,
    )
    return totals, marginals, energy, entropy


def pair_beliefs(
    passing: MessagePassing, number: int, messages: Float[Tensor, " messages"], totals: Array
) -> tuple[Float[Tensor, "factors rows columns"], Array]:
    """Return log beliefs of a group of pairs, and each one's mean of log table - log belief."""
    group = passing.pair_group(number)
    out = empty((len(group.scopes), *group.states.tolist()), messages)
    gain = np.empty(len(group.scopes))
    pair_beliefs_loop(as_array(messages), totals, group, out.numpy(), gain, work=out.numel())
    return out, gain


@compiled(fast=True)
def variable_beliefs_loop(
    messages: Array,
    log_unary: Array,
    state_ptr: Array,
    variable_port: Array,
    variable_ptr: Array,
    port_ptr: Array,
    port_weight: Array,
    relative: bool,
    maximise: bool,
    totals: Array,
    marginals: Array,
    energy: Array,
    entropy: Array,
) -> None:
    """Add up each variable's messages, where they are weighted relative to their largest; normalise; take means."""
    dead, zero, one = messages.dtype.type(-np.inf), messages.dtype.type(0), messages.dtype.type(1)
    given, unary, total, belief = (
        unchecked(messages),
        unchecked(log_unary),
        unchecked(totals),
        unchecked(marginals),
    )
    chunk, variables = 256, state_ptr.size - 1
    for part in prange((variables + chunk - 1) // chunk):
        first, last = part * chunk, min((part + 1) * chunk, variables)
        low, high = state_ptr[first], state_ptr[last]
        probability = np.empty(high - low, messages.dtype)
        # In double precision: a hundred thousand messages in single precision would leave no digits.
        added = np.empty(high - low, np.float64)
        for variable in range(first, last):
            begin, end = state_ptr[variable], state_ptr[variable + 1]
            for state in range(begin, end):
                added[state - low] = unary[state]
            for place in range(variable_ptr[variable], variable_ptr[variable + 1]):
                port = variable_port[place]
                at, weight, top = port_ptr[port] - begin, port_weight[port], zero
                if relative:
                    top = dead
                    for state in range(begin, end):
                        top = max(top, given[at + state])
                    top = top if top > dead else zero
                for state in range(begin, end):
                    added[state - low] += weight * (given[at + state] - top)
            largest = -np.inf
            for state in range(begin - low, end - low):
                largest = added[state] if added[state] > largest or added[state] != added[state] else largest
            # A variable of -inf alone stays as it is.
            largest = largest if largest != -np.inf else 0.0
            for state in range(begin, end):
                total[state] = added[state - low] - largest
                belief[state] = total[state]
        # Exponentials in one loop over all states of the chunk, on whole vectors.
        for place in range(high - low):
            probability[place] = fast_exp(belief[low + place])
        for variable in range(first, last):
            begin, end = state_ptr[variable], state_ptr[variable + 1]
            share = probability[begin - low : end - low]
            sums = zero
            for state in range(end - begin):
                sums += share[state]
            shift, scale = zero, one
            if not maximise and sums != zero:
                shift, scale = fast_log(sums), one / sums
            for state in range(begin, end):
                belief[state] -= shift
            expected, surprise = 0.0, 0.0
            for state in range(end - begin):
                if share[state] > zero:
                    expected += np.float64(share[state] * scale * unary[begin + state])
                    surprise -= np.float64(share[state] * scale * belief[begin + state])
            energy[variable] = expected
            # Nothing is possible: the whole has no probability.
            entropy[variable] = surprise if sums != zero else -np.inf


@compiled(fast=True, reorder=True)
def pair_beliefs_loop(messages: Array, totals: Array, group: PairGroup, out: Array, gain: Array) -> None:
    """Write log table plus what both variables send, less the logarithm of the sum or the maximum; take the mean."""
    factors, rows, columns = out.shape
    size = rows * columns
    dead, zero, one = out.dtype.type(-np.inf), out.dtype.type(0), out.dtype.type(1)
    given, total, beliefs = unchecked(messages), unchecked(totals), unchecked(out)
    entries, state_ptr, scopes = unchecked(group.tables), group.state_ptr, group.scopes
    chunk = 64
    for part in prange((factors + chunk - 1) // chunk):
        best, other = np.empty(columns, out.dtype), np.empty(columns, out.dtype)
        probability = np.empty(size, out.dtype)
        for factor in range(part * chunk, min((part + 1) * chunk, factors)):
            table, here = group.row[factor] * size, factor * size
            own, at = state_ptr[scopes[factor, 0]], group.begin[0] + factor * rows
            there, old = state_ptr[scopes[factor, 1]], group.begin[1] + factor * columns
            for column in range(columns):
                whole = total[there + column]
                other[column] = whole - given[old + column] if whole != dead else dead
                best[column] = dead
            for row in range(rows):
                whole = total[own + row]
                sent = whole - given[at + row] if whole != dead else dead
                for column in range(columns):
                    value = entries[table + row * columns + column] + sent + other[column]
                    beliefs[here + row * columns + column] = value
                    best[column] = value if value > best[column] else best[column]
            top = dead
            for column in range(columns):
                top = max(top, best[column])
            top = top if top > dead else zero
            sums = zero
            for entry in range(size):
                value = fast_exp(beliefs[here + entry] - top)
                probability[entry] = value
                sums += value
            scale = one
            if not group.maximise and sums > zero:
                top += fast_log(sums)
                scale = one / sums
            mean = 0.0
            for entry in range(size):
                value = beliefs[here + entry] - top
                beliefs[here + entry] = value
                share = probability[entry] * scale
                mean += np.float64(share * (entries[table + entry] - value) if share > zero else zero)
            gain[factor] = mean


def recheck(
    passing: MessagePassing, messages: Float[Tensor, " messages"], updated: Float[Tensor, " messages"]
) -> Float[Tensor, " graphs"]:
    """Return for each graph the larger of the messages' residual and the beliefs' disagreement, given their update.

    Both are linear in the messages. With torch alone, inference on one molecule takes 1.5 times as long.
    """
    field, wiring = passing.field, passing.field.wiring
    if not use_compiled(messages, field.log_unary):
        return torch.maximum(passing.residual(messages, updated), passing.disagreement(messages, updated))
    totals, beliefs, _, _ = variable_beliefs(passing, messages)
    graph, changes = as_array(wiring.port_graph), np.empty(len(wiring.port_graph), totals.dtype)
    shape = map(as_array, (wiring.port_ptr, wiring.port_variable, field.state_ptr, passing.port_weight))
    pair = as_array(messages), as_array(updated)
    port_changes(*pair, totals, beliefs, *shape, passing.maximise, changes, work=totals.size)
    worst = np.zeros(field.num_graphs, totals.dtype)
    largest_by_graph(changes, graph, worst)
    return torch.from_numpy(worst)


@compiled(fast=True)
def port_changes(
    messages: Array,
    updated: Array,
    totals: Array,
    beliefs: Array,
    port_ptr: Array,
    port_variable: Array,
    state_ptr: Array,
    port_weight: Array,
    maximise: bool,
    out: Array,
) -> None:
    """Write how far each port's message moves, or by how much its factor's belief differs from its variable's."""
    dead, zero, one = messages.dtype.type(-np.inf), messages.dtype.type(0), messages.dtype.type(1)
    rounding = messages.dtype.type(8 * np.finfo(messages.dtype).eps)
    old, new, total, belief = unchecked(messages), unchecked(updated), unchecked(totals), unchecked(beliefs)
    chunk = 256
    for part in prange((out.size + chunk - 1) // chunk):
        first, last = part * chunk, min((part + 1) * chunk, out.size)
        low = port_ptr[first]
        theirs = np.empty(port_ptr[last] - low, messages.dtype)
        for port in range(first, last):
            begin, at, top = port_ptr[port], state_ptr[port_variable[port]] - port_ptr[port], dead
            for state in range(begin, port_ptr[port + 1]):
                whole = total[at + state]
                value = whole - old[state] + new[state] if whole != dead else dead
                theirs[state - low] = value
                top = value if value > top else top
            top = top if top > dead else zero
            for state in range(begin, port_ptr[port + 1]):
                theirs[state - low] -= top
        for place in range(theirs.size):
            theirs[place] = fast_exp(theirs[place])
        for port in range(first, last):
            begin, end, at = (
                port_ptr[port],
                port_ptr[port + 1],
                state_ptr[port_variable[port]] - port_ptr[port],
            )
            sums, moved, apart, wrong = zero, zero, zero, zero
            for state in range(begin, end):
                sums += theirs[state - low]
            scale = one if maximise or sums == zero else one / sums
            for state in range(begin, end):
                moved = max(moved, abs(fast_exp(new[state]) - fast_exp(old[state])))
                apart = max(apart, abs(theirs[state - low] * scale - fast_exp(belief[at + state])))
                # The exponential of what is not a number is 0; of infinities the difference is none.
                wrong += (new[state] != new[state]) + (old[state] != old[state])
                wrong += belief[at + state] != belief[at + state]
            moved = moved * max(port_weight[port], one) if moved > rounding else moved
            out[port] = max(moved, apart) if wrong == zero else np.nan
