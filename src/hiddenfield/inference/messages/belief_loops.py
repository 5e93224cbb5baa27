"""Compiled loops of what follows message passing: beliefs, and the terms of a free energy, in one pass each.

Tables of beliefs are the largest arrays of all; in separate tensor operations each would be read and written ten times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGroup
from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import empty
from hiddenfield.ops.vector_math import fast_exp, fast_log, unchecked
from hiddenfield.shapes import Array, Float, Tensor

if TYPE_CHECKING:
    from hiddenfield.inference.messages.passing import MessagePassing

__all__ = ["factor_terms", "pair_beliefs", "variable_beliefs"]


def variable_beliefs(
    passing: MessagePassing, messages: Float[Tensor, " messages"], *, terms: bool
) -> tuple[Array, Array, Array, Array]:
    """Return of all variables totals up to a constant each, log marginals, expected log potentials and entropies.

    The last two are empty where no terms of a free energy are asked for.
    """
    field, wiring = passing.field, passing.field.wiring
    given = as_array(messages)
    totals, marginals = (
        np.empty_like(given, shape=field.log_unary.shape),
        np.empty_like(given, shape=field.log_unary.shape),
    )
    energy, entropy = (np.empty(field.num_variables if terms else 0) for _ in range(2))
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
    field, group = passing.field, passing.field.groups[number]
    given = as_array(messages)
    out = empty((group.num_factors, *group.states), messages)
    gain = np.empty(group.num_factors)
    pair_beliefs_loop(
        given,
        totals,
        as_array(field.state_ptr),
        as_array(group.scopes),
        *(begin for begin, _ in field.wiring.blocks[number]),
        *passing.pair_tables(number),
        passing.maximise,
        out.numpy(),
        gain,
        work=out.numel(),
    )
    return out, gain


def factor_terms(
    group: FactorGroup, log_beliefs: Float[Tensor, " factors *states"]
) -> tuple[Float[Tensor, " factors"], Float[Tensor, " factors"]]:
    """Return each factor's expected log potential and entropy, both added up in double precision."""
    factors = log_beliefs.shape[0]
    beliefs = as_array(log_beliefs).reshape(factors, -1)
    tables = as_array(group.log_tables.detach()).reshape(group.log_tables.shape[0], -1)
    row = np.arange(factors) if group.table is None else as_array(group.table)
    energy, entropy = np.empty(factors, beliefs.dtype), np.empty(factors, beliefs.dtype)
    factor_terms_loop(beliefs, tables, row, energy, entropy, work=beliefs.size)
    return torch.from_numpy(energy), torch.from_numpy(entropy)


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
            if energy.size == 0:
                continue
            expected, surprise = 0.0, 0.0
            for state in range(end - begin):
                if share[state] > zero:
                    expected += np.float64(share[state] * scale * unary[begin + state])
                    surprise -= np.float64(share[state] * scale * belief[begin + state])
            energy[variable] = expected
            # Nothing is possible: the whole has no probability.
            entropy[variable] = surprise if sums != zero else -np.inf


@compiled(fast=True, reorder=True)
def pair_beliefs_loop(
    messages: Array,
    totals: Array,
    state_ptr: Array,
    scopes: Array,
    first_begin: int,
    second_begin: int,
    tables: Array,
    index: Array,
    maximise: bool,
    out: Array,
    gain: Array,
) -> None:
    """Write log table plus what both variables send, less the logarithm of the sum or the maximum; take the mean."""
    factors, rows, columns = out.shape
    size = rows * columns
    dead, zero, one = out.dtype.type(-np.inf), out.dtype.type(0), out.dtype.type(1)
    given, total, entries, beliefs = unchecked(messages), unchecked(totals), unchecked(tables), unchecked(out)
    chunk = 64
    for part in prange((factors + chunk - 1) // chunk):
        best, other = np.empty(columns, out.dtype), np.empty(columns, out.dtype)
        probability = np.empty(size, out.dtype)
        for factor in range(part * chunk, min((part + 1) * chunk, factors)):
            table, here = index[factor] * size, factor * size
            own, at = state_ptr[scopes[factor, 0]], first_begin + factor * rows
            there, old = state_ptr[scopes[factor, 1]], second_begin + factor * columns
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
            if not maximise and sums > zero:
                top += fast_log(sums)
                scale = one / sums
            mean = 0.0
            for entry in range(size):
                value = beliefs[here + entry] - top
                beliefs[here + entry] = value
                share = probability[entry] * scale
                mean += np.float64(share * (entries[table + entry] - value) if share > zero else zero)
            gain[factor] = mean


@compiled(fast=True, reorder=True)
def factor_terms_loop(beliefs: Array, tables: Array, row: Array, energy: Array, entropy: Array) -> None:
    """Write the sums of p log potential and of -p log p; 0 times -inf is 0."""
    zero = beliefs.dtype.type(0)
    for factor in prange(beliefs.shape[0]):
        table, belief = tables[row[factor]], beliefs[factor]
        expected, surprise = 0.0, 0.0
        for entry in range(belief.size):
            probability = fast_exp(belief[entry])
            possible = probability > zero
            expected += np.float64(probability * table[entry] if possible else zero)
            surprise -= np.float64(probability * belief[entry] if possible else zero)
        energy[factor] = expected
        entropy[factor] = surprise
