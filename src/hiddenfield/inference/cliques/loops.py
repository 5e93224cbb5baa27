"""Compiled loops of exact inference: products over the cliques of a junction tree, no clique ever stored.

A clique's table is the product of its *terms*: factor tables, messages of its children, and, on the way down, what its
separator learned from the parent. The trailing (inner) axes of a clique form blocks of up to a thousand numbers; an
odometer runs over the leading (outer) ones. Each term has an offset for every place of a block, and a cursor that
follows the odometer. A block is multiplied up in cache and summed into the outputs at once.

Values are probabilities scaled to a maximum of 1 wherever the product of all terms is safe from underflow; cliques
whose terms range too widely are computed in log space with a maximum for each output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hiddenfield.ops.compile import compiled, subroutine
from hiddenfield.ops.vector_math import fast_exp
from hiddenfield.shapes import Array

TABLE, MESSAGE, SEPARATOR = 0, 1, 2
"""Kinds of terms."""

CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""How a term lies along a block."""

SAFE_RANGE = -320.0
"""Natural logarithm of the smallest non-zero product that is computed in probabilities rather than logarithms."""


class Terms(NamedTuple):
    """Terms of a clique that are followed from block to block, with room for as many as any clique has.

    Parameters
    ----------
    number
        Which terms they are.
    offsets
        Of each term the offsets along a block, one term after another.
    layout
        Of each term how it lies along a block, whether it varies from block to block, and where its live states begin.
    cursor, digit
        Where each term stands, and the odometer over the outer axes.
    """

    number: Array
    offsets: Array
    layout: Array
    cursor: Array
    digit: Array


@subroutine
def make_terms(most_terms, most_offsets):  # type: ignore[no-untyped-def]
    """Allocate room for the terms of one clique."""
    return Terms(
        np.empty(most_terms, np.int64),
        np.empty(most_offsets, np.uint32),
        np.empty((most_terms, 3), np.int64),
        np.empty(most_terms, np.int64),
        np.empty(64, np.int64),
    )


@subroutine
def lay_out(plan, clique, first, places, terms):  # type: ignore[no-untyped-def]
    """List a clique's terms from `first` on that have a place, and how they lie; return how many there are."""
    begin, end = plan.clique_ptr[clique], plan.clique_ptr[clique + 1]
    cut, count = begin + plan.split[clique], 0
    for term in range(first, plan.term_ptr[clique + 1]):
        if places[term] < 0:
            continue
        at = plan.stride_ptr[term] - begin
        size = 1
        row = terms.offsets[count * plan.inner_size[clique] : (count + 1) * plan.inner_size[clique]]
        row[0] = 0
        for axis in range(cut, end):
            states, step, start = plan.axis_states[axis], plan.stride[at + axis], plan.axis_alive[axis]
            for j in range(size - 1, -1, -1):
                base = row[j]
                for k in range(states):
                    state = plan.alive[start + k] if plan.term_kind[term] == TABLE else k
                    row[j * states + k] = base + state * step
            size *= states
        constant, contiguous = True, True
        for j in range(size):
            constant = constant and row[j] == row[0]
            contiguous = contiguous and row[j] == row[0] + j
        moves, shift = False, 0
        for axis in range(begin, cut):
            moves = moves or (plan.stride[at + axis] != 0 and plan.axis_states[axis] > 1)
            if plan.term_kind[term] == TABLE:
                shift += plan.alive[plan.axis_alive[axis]] * plan.stride[at + axis]
        terms.number[count] = term
        terms.layout[count, 0] = CONSTANT if constant else (CONTIGUOUS if contiguous else SCATTERED)
        terms.layout[count, 1], terms.layout[count, 2] = moves, shift
        count += 1
    return count


@subroutine
def advance(plan, clique, count, terms):  # type: ignore[no-untyped-def]
    """Move the odometer over the outer axes by one, and every term's cursor with it."""
    begin = plan.clique_ptr[clique]
    axis = begin + plan.split[clique] - 1
    while axis >= begin:
        now = terms.digit[axis - begin]
        new = now + 1 if now + 1 < plan.axis_states[axis] else 0
        terms.digit[axis - begin] = new
        start = plan.axis_alive[axis]
        along_table = plan.alive[start + new] - plan.alive[start + now]
        for i in range(count):
            term = terms.number[i]
            step = plan.stride[plan.stride_ptr[term] + axis - begin]
            if step != 0:
                terms.cursor[i] += step * (along_table if plan.term_kind[term] == TABLE else new - now)
        if new > 0:
            break
        axis -= 1


@subroutine
def total_of(block, begin, end):  # type: ignore[no-untyped-def]
    """Sum a stretch of a block in four strands, which the compiler turns into vector instructions."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    four = begin + (end - begin) // 4 * 4
    for j in range(begin, four, 4):
        a += block[j]
        b += block[j + 1]
        c += block[j + 2]
        d += block[j + 3]
    for j in range(four, end):
        a += block[j]
    return (a + b) + (c + d)


@subroutine
def combine(block, size, values, cursor, row, kind, use_logs):  # type: ignore[no-untyped-def]
    """Multiply a term into a block, or add its logarithms to one."""
    if kind == CONTIGUOUS:
        start = cursor + np.int64(row[0])
        here = values[start : start + size]
        for j in range(size):
            block[j] = block[j] + here[j] if use_logs else block[j] * here[j]
    else:
        here = values[cursor:]
        for j in range(size):
            block[j] = block[j] + here[row[j]] if use_logs else block[j] * here[row[j]]


@subroutine(fast=True)
def begin_product(plan, count, size, terms, use_logs, values, logs, learned, fixed):  # type: ignore[no-untyped-def]
    """Go to the first block; multiply what is alike in all blocks into `fixed`, and return what is one number.

    The term of a separator is read from `learned`, a table from `logs` where logarithms are added, all else from
    `values`.
    """
    constant = 0.0 if use_logs else 1.0
    terms.digit[:] = 0
    fixed[:size] = constant
    for i in range(count):
        term, lies = terms.number[i], terms.layout[i, 0]
        separator = plan.term_kind[term] == SEPARATOR
        source = learned if separator else (logs if use_logs and plan.term_kind[term] == TABLE else values)
        terms.cursor[i] = (plan.term_out[term] if separator else plan.term_in[term]) + terms.layout[i, 2]
        if terms.layout[i, 1] == 1:
            continue
        row = terms.offsets[i * size : (i + 1) * size]
        if lies == CONSTANT:
            number = source[terms.cursor[i] + np.int64(row[0])]
            constant = constant + number if use_logs else constant * number
        else:
            combine(fixed, size, source, terms.cursor[i], row, lies, use_logs)
    return constant


@subroutine(fast=True)
def fill_block(plan, count, size, terms, use_logs, values, logs, learned, constant, fixed, block):  # type: ignore[no-untyped-def]
    """Write the product of all terms over a block, or the sum of their logarithms; return whether it is not all 0."""
    scalar = constant
    for i in range(count):
        if terms.layout[i, 1] == 1 and terms.layout[i, 0] == CONSTANT:
            kind = plan.term_kind[terms.number[i]]
            source = learned if kind == SEPARATOR else (logs if use_logs and kind == TABLE else values)
            number = source[terms.cursor[i] + np.int64(terms.offsets[i * size])]
            scalar = scalar + number if use_logs else scalar * number
    if scalar == (-np.inf if use_logs else 0.0):
        return False
    for j in range(size):
        block[j] = scalar + fixed[j] if use_logs else scalar * fixed[j]
    for i in range(count):
        if terms.layout[i, 1] == 1 and terms.layout[i, 0] != CONSTANT:
            kind = plan.term_kind[terms.number[i]]
            source = learned if kind == SEPARATOR else (logs if use_logs and kind == TABLE else values)
            row = terms.offsets[i * size : (i + 1) * size]
            combine(block, size, source, terms.cursor[i], row, terms.layout[i, 0], use_logs)
    return True


@subroutine
def add_exponentials(block, begin, end, to, top_of, message):  # type: ignore[no-untyped-def]
    """Add the exponentials of a stretch of a block to one number of a message, scaled by the largest so far."""
    top = top_of[to]
    for j in range(begin, end):
        top = max(top, block[j])
    if top > top_of[to]:
        message[to] *= math.exp(top_of[to] - top)
        top_of[to] = top
    if top > -np.inf:
        for j in range(begin, end):
            block[j] = fast_exp(block[j] - top)
        message[to] += total_of(block, begin, end)


@compiled(watched=True)
def collect(stop, plan, maximise, scratch, values, logs, in_logs, log_scale):  # type: ignore[no-untyped-def]
    """Send messages from the leaves to the roots: each clique's product, summed or maximised over what it eliminates.

    Messages are written into `values`, scaled to a maximum of 1, its logarithm into `log_scale`. ``in_logs[c]`` tells
    how the clique was computed (column 0) and how its message is stored (column 1).
    """
    stop[1] = 1
    most_terms, most_inner, most_offsets = scratch
    terms = make_terms(most_terms, most_offsets)
    block, fixed = np.empty(most_inner), np.empty(most_inner)
    message_range = np.zeros(plan.clique_ptr.size - 1)
    for clique in range(plan.clique_ptr.size - 1):
        # The separator is a clique's first term.
        count = lay_out(plan, clique, plan.term_ptr[clique] + 1, plan.term_in, terms)
        size, blocks = plan.inner_size[clique], plan.num_blocks[clique]
        base, length = plan.message_base[clique], plan.message_size[clique]
        message = values[base : base + length]
        residual = size * blocks // length
        spread, log_child = 0.0, False
        for i in range(count):
            term = terms.number[i]
            if plan.term_kind[term] == MESSAGE:
                spread += message_range[plan.term_child[term]]
                log_child = log_child or in_logs[plan.term_child[term], 1]
            else:
                spread += plan.term_range[term]
        use_logs = maximise[clique] or log_child or spread < SAFE_RANGE
        in_logs[clique, 0] = use_logs
        for i in range(count):
            term = terms.number[i]
            if use_logs and plan.term_kind[term] == MESSAGE and not in_logs[plan.term_child[term], 1]:
                child = plan.term_child[term]
                start = plan.message_base[child]
                for j in range(start, start + plan.message_size[child]):
                    values[j] = math.log(values[j]) if values[j] > 0.0 else -np.inf
                in_logs[child, 1] = True
        message[:] = -np.inf if maximise[clique] else 0.0
        top_of = np.full(length if use_logs and not maximise[clique] else 0, -np.inf)
        constant = begin_product(plan, count, size, terms, use_logs, values, logs, values, fixed)
        for number in range(blocks):
            if stop[0]:
                return
            stop[2] += size * (2 + plan.term_ptr[clique + 1] - plan.term_ptr[clique])
            if number > 0:
                advance(plan, clique, count, terms)
            if not fill_block(
                plan, count, size, terms, use_logs, values, logs, values, constant, fixed, block
            ):
                continue
            where = number * size // residual
            if maximise[clique]:
                for j in range(size):
                    to = where + (j // residual if residual < size else 0)
                    message[to] = max(message[to], block[j])
            elif use_logs:
                for j in range(max(size // residual, 1)):
                    add_exponentials(
                        block, j * residual, min((j + 1) * residual, size), where + j, top_of, message
                    )
            elif residual >= size:
                message[where] += total_of(block, 0, size)
            elif residual == 2:
                for j in range(size // 2):
                    message[where + j] += block[2 * j] + block[2 * j + 1]
            else:
                for j in range(size // residual):
                    message[where + j] += total_of(block, j * residual, (j + 1) * residual)
        for j in range(top_of.size):
            message[j] = top_of[j] + math.log(message[j]) if message[j] > 0.0 else -np.inf
        top = message[0]
        for j in range(1, length):
            top = max(top, message[j])
        least = np.inf
        if use_logs:
            log_scale[clique] = top
            for j in range(length):
                if top > -np.inf:
                    message[j] -= top
                if message[j] > -np.inf:
                    least = min(least, message[j])
            keep = maximise[clique] or least < SAFE_RANGE / 2
            if not keep:
                for j in range(length):
                    message[j] = math.exp(message[j])
            in_logs[clique, 1] = keep
        else:
            log_scale[clique] = math.log(top) if top > 0.0 else -np.inf
            for j in range(length):
                if top > 0.0:
                    message[j] /= top
                if message[j] > 0.0:
                    least = min(least, message[j])
            least = math.log(least)
            in_logs[clique, 1] = False
        message_range[clique] = min(least, 0.0)


@compiled(watched=True)
def distribute(stop, plan, scratch, values, logs, in_logs, log_scale, out):  # type: ignore[no-untyped-def]
    """Send what the roots know to the leaves, and sum every clique's distribution into the marginals of its terms.

    ``out`` has room for the marginals of variables and factors and for all separators; a root's separator, one number,
    starts at 1.
    """
    stop[1] = 1
    most_terms, most_inner, most_offsets = scratch
    terms, sinks = make_terms(most_terms, most_offsets), make_terms(most_terms, most_offsets)
    block, fixed, gathered = np.empty(most_inner), np.empty(most_inner), np.empty(most_inner)
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        if log_scale[clique] == -np.inf:
            continue
        base, length = plan.message_base[clique], plan.message_size[clique]
        use_logs, stored_log = in_logs[clique, 0], in_logs[clique, 1]
        first = plan.term_ptr[clique]
        offset = plan.term_out[first]
        learned = out[offset : offset + length]
        inverse = math.exp(-log_scale[clique]) if not use_logs else 0.0
        for j in range(length):
            message = values[base + j]
            if use_logs:
                log_message = message if stored_log else (math.log(message) if message > 0.0 else -np.inf)
                alive_here = learned[j] > 0.0 and log_message > -np.inf
                learned[j] = math.log(learned[j]) - log_message - log_scale[clique] if alive_here else -np.inf
            else:
                message = math.exp(message) if stored_log else message
                learned[j] = learned[j] / message * inverse if message > 0.0 else 0.0
        count = lay_out(plan, clique, first, plan.term_in, terms)
        outputs = lay_out(plan, clique, first + 1, plan.term_out, sinks)
        size = plan.inner_size[clique]
        constant = begin_product(plan, count, size, terms, use_logs, values, logs, out, fixed)
        sinks.digit[:] = 0
        gathered[:size] = 0.0
        for i in range(outputs):
            sinks.cursor[i] = plan.term_out[sinks.number[i]] + sinks.layout[i, 2]
        for number in range(plan.num_blocks[clique]):
            if stop[0]:
                return
            stop[2] += size * (2 + plan.term_ptr[clique + 1] - plan.term_ptr[clique])
            if number > 0:
                advance(plan, clique, count, terms)
                advance(plan, clique, outputs, sinks)
            if not fill_block(plan, count, size, terms, use_logs, values, logs, out, constant, fixed, block):
                continue
            if use_logs:
                for j in range(size):
                    block[j] = fast_exp(block[j])
            for j in range(size):
                gathered[j] += block[j]
            total, known = 0.0, False
            for i in range(outputs):
                if sinks.layout[i, 1] == 0:
                    continue
                at, row = sinks.cursor[i], sinks.offsets[i * size : (i + 1) * size]
                if sinks.layout[i, 0] == CONSTANT:
                    if not known:
                        total, known = total_of(block, 0, size), True
                    out[at + np.int64(row[0])] += total
                elif sinks.layout[i, 0] == CONTIGUOUS:
                    start = at + np.int64(row[0])
                    here = out[start : start + size]
                    for j in range(size):
                        here[j] += block[j]
                else:
                    here = out[at:]
                    for j in range(size):
                        here[row[j]] += block[j]
        for i in range(outputs):
            if sinks.layout[i, 1] == 0:
                for j in range(size):
                    out[sinks.cursor[i] + np.int64(sinks.offsets[i * size + j])] += gathered[j]
