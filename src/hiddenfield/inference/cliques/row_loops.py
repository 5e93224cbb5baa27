"""Compiled loops of exact inference for many rows of evidence over one junction tree.

What a row observes costs nothing: cliques are walked over the states of the variables that it lacks. Tables and
messages lie in one array, so that a clique's product reads both alike; sums of probabilities lie in another one of the
same layout, whose first part is expected counts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hiddenfield.ops.compile import compiled, subroutine


class RowPlan(NamedTuple):
    """A junction tree with factors, as flat arrays.

    Parameters
    ----------
    clique_ptr, clique_variables, separator_size
        As of `JunctionTree`: children before parents, the separator first.
    states, state_ptr
        Number of states of each variable, and their bounds.
    term_ptr
        Bounds of every clique's terms: factors that it is home to, and messages of its children.
    term_begin
        Where the table of a factor begins; not used for a message.
    term_child
        The child that a message comes from; -1 for a factor.
    axis_ptr, axis
        For each term and each variable of its clique: the stride in the table of a factor (0 if it has no such axis),
        or the place in the separator of a child (-1 if it is not there).
    entries
        Of all tables.
    """

    clique_ptr: Any
    clique_variables: Any
    separator_size: Any
    states: Any
    state_ptr: Any
    term_ptr: Any
    term_begin: Any
    term_child: Any
    axis_ptr: Any
    axis: Any
    entries: int


class Scratch(NamedTuple):
    """What is known of one row: hidden variables of each clique, bounds of messages, cursors; values and sums."""

    values: Any
    sums: Any
    num_hidden: Any  # of each clique
    total: Any  # joint states of its hidden variables
    inside: Any  # those of its separator
    message: Any  # where its message begins
    top: Any  # what its message was divided by
    hidden: Any  # places of hidden variables in the clique
    size: Any  # their states
    step: Any  # stride of each separator variable in the message
    base: Any  # of each term
    cursor: Any
    stride: Any  # of each term and hidden variable
    digit: Any


@subroutine
def make_scratch(plan, capacity):  # type: ignore[no-untyped-def]
    """Return room for one row after another."""
    cliques, places, terms = plan.clique_ptr.size - 1, plan.clique_variables.size, plan.term_begin.size
    widest = 1
    for clique in range(cliques):
        widest = max(widest, plan.clique_ptr[clique + 1] - plan.clique_ptr[clique])
    room = plan.entries + capacity
    return Scratch(
        np.zeros(room),
        np.zeros(room),
        np.zeros(cliques, np.int64),
        np.zeros(cliques, np.int64),
        np.zeros(cliques, np.int64),
        np.zeros(cliques, np.int64),
        np.zeros(cliques),
        np.zeros(places, np.int64),
        np.zeros(places, np.int64),
        np.zeros(places, np.int64),
        np.zeros(terms, np.int64),
        np.zeros(terms, np.int64),
        np.zeros(plan.axis.size, np.int64),
        np.zeros(widest, np.int64),
    )


@subroutine(allocates=False)
def lay_out(plan, codes, s):  # type: ignore[no-untyped-def]
    """Find the hidden variables of every clique, where messages lie, and where each term is read."""
    at = plan.entries
    for clique in range(plan.clique_ptr.size - 1):
        first, end = plan.clique_ptr[clique], plan.clique_ptr[clique + 1]
        separator = plan.separator_size[clique]
        count, total, inside = 0, 1, 1
        for k in range(end - first):
            variable = plan.clique_variables[first + k]
            if codes[variable] < 0:
                states = plan.states[variable]
                s.hidden[first + count], s.size[first + count] = k, states
                count += 1
                total *= states
                if k < separator:
                    inside *= states
        s.num_hidden[clique], s.total[clique], s.inside[clique], s.message[clique] = count, total, inside, at
        stride = inside
        for k in range(separator):
            variable = plan.clique_variables[first + k]
            s.step[first + k] = 0
            if codes[variable] < 0:
                stride //= plan.states[variable]
                s.step[first + k] = stride
        at += inside
        for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
            axis, child = plan.axis_ptr[term], plan.term_child[term]
            if child >= 0:
                s.base[term] = s.message[child]
                for i in range(count):
                    place = plan.axis[axis + s.hidden[first + i]]
                    s.stride[axis + i] = s.step[plan.clique_ptr[child] + place] if place >= 0 else 0
                continue
            base = plan.term_begin[term]
            for k in range(end - first):
                code = codes[plan.clique_variables[first + k]]
                if code > 0:
                    base += code * plan.axis[axis + k]
            s.base[term] = base
            for i in range(count):
                s.stride[axis + i] = plan.axis[axis + s.hidden[first + i]]


@subroutine(allocates=False, fast=True)
def advance(plan, clique, s):  # type: ignore[no-untyped-def]
    """Go on to the next joint state of a clique's hidden variables."""
    first = plan.clique_ptr[clique]
    begin, end = plan.term_ptr[clique], plan.term_ptr[clique + 1]
    i = s.num_hidden[clique] - 1
    while i >= 0:
        s.digit[i] += 1
        if s.digit[i] < s.size[first + i]:
            for term in range(begin, end):
                s.cursor[term] += s.stride[plan.axis_ptr[term] + i]
            return
        s.digit[i] = 0
        for term in range(begin, end):
            s.cursor[term] -= s.stride[plan.axis_ptr[term] + i] * (s.size[first + i] - 1)
        i -= 1


@subroutine(allocates=False, fast=True)
def product(plan, clique, s):  # type: ignore[no-untyped-def]
    """Return the product of a clique's terms where their cursors are."""
    value = 1.0
    for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
        value *= s.values[s.cursor[term]]
    return value


@subroutine(allocates=False, fast=True)
def begin_walk(plan, clique, s):  # type: ignore[no-untyped-def]
    """Set every cursor of a clique to its first joint state."""
    for i in range(s.num_hidden[clique]):
        s.digit[i] = 0
    for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
        s.cursor[term] = s.base[term]


@subroutine(allocates=False)
def collect(plan, s, maximise):  # type: ignore[no-untyped-def]
    """Send messages to the roots; return the log-likelihood of the row, or the log of its best completion."""
    log_likelihood = 0.0
    for clique in range(plan.clique_ptr.size - 1):
        start, inside = s.message[clique], s.inside[clique]
        residual = s.total[clique] // inside
        begin_walk(plan, clique, s)
        top = 0.0
        for j in range(start, start + inside):
            value = 0.0
            for _ in range(residual):
                here = product(plan, clique, s)
                value = max(value, here) if maximise else value + here
                advance(plan, clique, s)
            s.values[j] = value
            top = max(top, value)
        s.top[clique] = top
        if top <= 0.0:
            return -np.inf
        for j in range(start, start + inside):
            s.values[j] /= top
            s.sums[j] = 0.0
        log_likelihood += math.log(top)
    return log_likelihood


@subroutine(allocates=False)
def distribute(plan, s, weight, marginals):  # type: ignore[no-untyped-def]
    """Send what the roots know to the leaves; add the row's weighted expected counts to the sums."""
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        start, inside, first = s.message[clique], s.inside[clique], plan.clique_ptr[clique]
        separator = plan.separator_size[clique]
        if separator == 0:
            s.sums[start] = weight
        residual = s.total[clique] // inside
        begin_walk(plan, clique, s)
        for j in range(start, start + inside):
            scale = s.sums[j] / (s.values[j] * s.top[clique]) if s.values[j] > 0.0 else 0.0
            for _ in range(residual):
                share = product(plan, clique, s) * scale
                if share > 0.0:
                    for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
                        s.sums[s.cursor[term]] += share
                    if marginals.size > 0:
                        for i in range(s.num_hidden[clique]):
                            if s.hidden[first + i] >= separator:
                                variable = plan.clique_variables[first + s.hidden[first + i]]
                                marginals[plan.state_ptr[variable] + s.digit[i]] += share
                advance(plan, clique, s)


@subroutine(allocates=False)
def begin_inside(plan, clique, s, codes):  # type: ignore[no-untyped-def]
    """Set every cursor of a clique to the first joint state that agrees with its parent's."""
    first = plan.clique_ptr[clique]
    begin_walk(plan, clique, s)
    for i in range(s.num_hidden[clique]):
        if s.hidden[first + i] < plan.separator_size[clique]:
            s.digit[i] = codes[plan.clique_variables[first + s.hidden[first + i]]]
            for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
                s.cursor[term] += s.digit[i] * s.stride[plan.axis_ptr[term] + i]


@subroutine(allocates=False)
def complete(plan, s, codes, draws, maximise):  # type: ignore[no-untyped-def]
    """Write the best states of what a row lacks, or drawn ones, from the roots to the leaves."""
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        if s.num_hidden[clique] == 0:
            continue
        first, residual = plan.clique_ptr[clique], s.total[clique] // s.inside[clique]
        total, best, chosen = 0.0, -1.0, 0
        begin_inside(plan, clique, s, codes)
        for number in range(residual):
            here = product(plan, clique, s)
            total += here
            if maximise and here > best:
                best, chosen = here, number
            if number < residual - 1:
                advance(plan, clique, s)
        if not maximise:
            rest = draws[clique] * total
            begin_inside(plan, clique, s, codes)
            for number in range(residual):
                here = product(plan, clique, s)
                rest -= here
                if here > 0.0:
                    chosen = number
                    if rest < 0.0:
                        break
                if number < residual - 1:
                    advance(plan, clique, s)
        for i in range(s.num_hidden[clique] - 1, -1, -1):
            if s.hidden[first + i] >= plan.separator_size[clique]:
                codes[plan.clique_variables[first + s.hidden[first + i]]] = chosen % s.size[first + i]
                chosen //= s.size[first + i]


@compiled
def infer_rows(plan, capacity, tables, codes, weights, draws, maximise, log_likelihood, counts, marginals):  # type: ignore[no-untyped-def]
    """Write the log-likelihood of every row, and what there is room for: expected counts, marginals, completions.

    With `draws` (a number for each clique, or a single one), what rows lack is written into `codes`: draws from its
    posterior or, to maximise, its best joint state; the log-likelihood is then that of the row completed so.
    """
    s = make_scratch(plan, capacity)
    s.values[: plan.entries] = tables
    for row in range(codes.shape[0]):
        lay_out(plan, codes[row], s)
        log_likelihood[row] = collect(plan, s, maximise)
        if log_likelihood[row] == -np.inf:
            continue
        if draws.size > 0:
            complete(plan, s, codes[row], draws[min(row, draws.shape[0] - 1)], maximise)
        elif counts.size > 0 and weights[row] > 0.0:
            distribute(plan, s, weights[row], marginals[min(row, marginals.shape[0] - 1)])
    counts[:] = s.sums[: counts.size]
