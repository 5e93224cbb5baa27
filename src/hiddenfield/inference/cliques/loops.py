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

import numpy as np

from hiddenfield.ops.compile import compiled, subroutine

TABLE, MESSAGE, SEPARATOR = 0, 1, 2
"""Kinds of terms."""

CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""How a term lies along a block."""

SAFE_RANGE = -320.0
"""Natural logarithm of the smallest non-zero product that is computed in probabilities rather than logarithms."""


@subroutine
def lay_out(plan, clique, terms, inner, layout):  # type: ignore[no-untyped-def]
    """Compute every term's offsets along a block, how they lie, and whether the term varies from block to block."""
    begin, end = plan.clique_ptr[clique], plan.clique_ptr[clique + 1]
    cut = begin + plan.split[clique]
    for i in range(terms.size):
        term = terms[i]
        at = plan.stride_ptr[term] - begin
        size = 1
        row = inner[i]
        row[0] = 0
        for axis in range(cut, end):
            states, step, start = plan.axis_states[axis], plan.stride[at + axis], plan.axis_alive[axis]
            for j in range(size - 1, -1, -1):
                base = row[j]
                for k in range(states):
                    state = plan.alive[start + k] if plan.term_kind[term] == 0 else k
                    row[j * states + k] = base + state * step
            size *= states
        constant, contiguous = True, True
        for j in range(size):
            constant = constant and row[j] == row[0]
            contiguous = contiguous and row[j] == row[0] + j
        layout[i, 0] = CONSTANT if constant else (CONTIGUOUS if contiguous else SCATTERED)
        moves = False
        for axis in range(begin, cut):
            moves = moves or (plan.stride[at + axis] != 0 and plan.axis_states[axis] > 1)
        layout[i, 1] = 1 if moves else 0
        layout[i, 2] = 0
        for axis in range(begin, cut):
            if plan.term_kind[term] == 0:
                layout[i, 2] += plan.alive[plan.axis_alive[axis]] * plan.stride[at + axis]


@subroutine
def advance(plan, clique, terms, digit, cursor):  # type: ignore[no-untyped-def]
    """Move the odometer over the outer axes by one, and every term's cursor with it."""
    begin = plan.clique_ptr[clique]
    axis = begin + plan.split[clique] - 1
    while axis >= begin:
        now = digit[axis - begin]
        new = now + 1 if now + 1 < plan.axis_states[axis] else 0
        digit[axis - begin] = new
        start = plan.axis_alive[axis]
        along_table = plan.alive[start + new] - plan.alive[start + now]
        for i in range(terms.size):
            step = plan.stride[plan.stride_ptr[terms[i]] + axis - begin]
            if step != 0:
                cursor[i] += step * (along_table if plan.term_kind[terms[i]] == 0 else new - now)
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
def multiply(block, size, values, cursor, row, kind):  # type: ignore[no-untyped-def]
    """Multiply a term into a block."""
    if kind == CONTIGUOUS:
        start = cursor + np.int64(row[0])
        here = values[start : start + size]
        for j in range(size):
            block[j] *= here[j]
    else:
        # Unsigned offsets into a view need no look at negative indices, and are gathered by vector instructions.
        here = values[cursor:]
        for j in range(size):
            block[j] *= here[row[j]]


@subroutine
def log_value(values, logs, is_log, kind, at):  # type: ignore[no-untyped-def]
    """Return the logarithm of one number of a term."""
    if kind == TABLE:
        return logs[at]
    if is_log:
        return values[at]
    return math.log(values[at]) if values[at] > 0.0 else -np.inf


@subroutine
def add_logs(block, size, values, logs, is_log, kind, cursor, row):  # type: ignore[no-untyped-def]
    """Add a term's logarithms to a block."""
    for j in range(size):
        block[j] += log_value(values, logs, is_log, kind, cursor + np.int64(row[j]))


@subroutine
def gather_terms(plan, clique, going_up, terms):  # type: ignore[no-untyped-def]
    """List the terms that a clique's product is made of."""
    count = 0
    for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
        if (going_up and plan.term_kind[term] == SEPARATOR) or plan.term_in[term] < 0:
            continue
        terms[count] = term
        count += 1
    return count


@compiled
def collect(plan, maximise, scratch, values, logs, in_logs, log_scale):  # type: ignore[no-untyped-def]
    """Send messages from the leaves to the roots: each clique's product, summed or maximised over what it eliminates.

    Messages are written into `values`, scaled to a maximum of 1, its logarithm into `log_scale`. ``in_logs[c]`` tells
    how the clique was computed (column 0) and how its message is stored (column 1).
    """
    most_terms, most_inner, most_offsets = scratch
    terms_of = np.empty(most_terms, np.int64)
    offsets = np.empty(most_offsets, np.uint32)
    layout = np.empty((most_terms, 3), np.int64)
    cursor = np.empty(most_terms, np.int64)
    digit = np.empty(64, np.int64)
    block, fixed = np.empty(most_inner), np.empty(most_inner)
    message_range = np.zeros(plan.clique_ptr.size - 1)
    for clique in range(plan.clique_ptr.size - 1):
        count = gather_terms(plan, clique, True, terms_of)
        terms = terms_of[:count]
        size, blocks = plan.inner_size[clique], plan.num_blocks[clique]
        inner = offsets[: count * size].reshape((count, size))
        lay_out(plan, clique, terms, inner, layout)
        base, length = plan.message_base[clique], plan.message_size[clique]
        message = values[base : base + length]
        residual = size * blocks // length
        spread, log_child = 0.0, False
        for i in range(count):
            if plan.term_kind[terms[i]] == MESSAGE:
                spread += message_range[plan.term_child[terms[i]]]
                log_child = log_child or in_logs[plan.term_child[terms[i]], 1]
            else:
                spread += plan.term_range[terms[i]]
        use_logs = maximise[clique] or log_child or spread < SAFE_RANGE
        in_logs[clique, 0] = use_logs
        passes = 2 if use_logs and not maximise[clique] else 1
        message[:] = -np.inf if use_logs else 0.0
        top_of = message.copy() if passes == 2 else message
        for turn in range(passes):
            digit[:] = 0
            for i in range(count):
                cursor[i] = plan.term_in[terms[i]] + layout[i, 2]
            if turn == 1:
                message[:] = 0.0
            constant = 1.0
            if not use_logs:
                fixed[:size] = 1.0
                for i in range(count):
                    if layout[i, 1] == 0 and layout[i, 0] != CONSTANT:
                        multiply(fixed, size, values, cursor[i], inner[i], layout[i, 0])
                    elif layout[i, 1] == 0:
                        constant *= values[cursor[i] + np.int64(inner[i, 0])]
            for number in range(blocks):
                if number > 0:
                    advance(plan, clique, terms, digit, cursor)
                where = number * size // residual
                if use_logs:
                    block[:size] = 0.0
                    for i in range(count):
                        kind = plan.term_kind[terms[i]]
                        is_log = kind == MESSAGE and in_logs[plan.term_child[terms[i]], 1]
                        add_logs(block, size, values, logs, is_log, kind, cursor[i], inner[i])
                    for j in range(size):
                        to = where + (j // residual if residual < size else 0)
                        if turn == 0:
                            top_of[to] = max(top_of[to], block[j])
                        elif top_of[to] > -np.inf:
                            message[to] += math.exp(block[j] - top_of[to])
                    continue
                scalar = constant
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] == CONSTANT:
                        scalar *= values[cursor[i] + np.int64(inner[i, 0])]
                if scalar == 0.0:
                    continue
                for j in range(size):
                    block[j] = scalar * fixed[j]
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] != CONSTANT:
                        multiply(block, size, values, cursor[i], inner[i], layout[i, 0])
                if residual >= size:
                    message[where] += total_of(block, 0, size)
                elif residual == 2:
                    for j in range(size // 2):
                        message[where + j] += block[2 * j] + block[2 * j + 1]
                else:
                    for j in range(size // residual):
                        message[where + j] += total_of(block, j * residual, (j + 1) * residual)
        if passes == 2:
            for j in range(length):
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


@compiled
def distribute(plan, scratch, values, logs, in_logs, log_scale, out):  # type: ignore[no-untyped-def]
    """Send what the roots know to the leaves, and sum every clique's distribution into the marginals of its terms.

    ``out`` has room for the marginals of variables and factors and for all separators; a root's separator, one number,
    starts at 1.
    """
    most_terms, most_inner, most_offsets = scratch
    terms_of, sinks_of = np.empty(most_terms, np.int64), np.empty(most_terms, np.int64)
    offsets, sink_offsets = np.empty(most_offsets, np.uint32), np.empty(most_offsets, np.uint32)
    layout, layout_sink = np.empty((most_terms, 3), np.int64), np.empty((most_terms, 3), np.int64)
    cursor, cursor_sink = np.empty(most_terms, np.int64), np.empty(most_terms, np.int64)
    digit, digit_sink = np.empty(64, np.int64), np.empty(64, np.int64)
    block, fixed, gathered = np.empty(most_inner), np.empty(most_inner), np.empty(most_inner)
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        if log_scale[clique] == -np.inf:
            continue
        base, length = plan.message_base[clique], plan.message_size[clique]
        use_logs, stored_log = in_logs[clique, 0], in_logs[clique, 1]
        offset = plan.term_out[plan.term_ptr[clique]]  # the separator is a clique's first term
        learned = out[offset : offset + length]
        inverse = math.exp(-log_scale[clique]) if not use_logs else 0.0
        for j in range(length):
            message = values[base + j]
            if use_logs:
                log_message = message if stored_log else (math.log(message) if message > 0.0 else -np.inf)
                alive_here = learned[j] > 0.0 and log_message > -np.inf
                learned[j] = math.log(learned[j]) - log_message - log_scale[clique] if alive_here else -np.inf
            else:
                learned[j] = learned[j] / message * inverse if message > 0.0 else 0.0
        count = gather_terms(plan, clique, False, terms_of)
        terms = terms_of[:count]
        size, blocks = plan.inner_size[clique], plan.num_blocks[clique]
        inner = offsets[: count * size].reshape((count, size))
        lay_out(plan, clique, terms, inner, layout)
        sinks = 0
        for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
            if plan.term_out[term] >= 0 and plan.term_kind[term] != SEPARATOR:
                sinks_of[sinks] = term
                sinks += 1
        outputs = sinks_of[:sinks]
        inner_sink = sink_offsets[: sinks * size].reshape((sinks, size))
        lay_out(plan, clique, outputs, inner_sink, layout_sink)
        digit[:] = 0
        digit_sink[:] = 0
        constant = 1.0
        fixed[:size] = 1.0
        gathered[:size] = 0.0
        for i in range(sinks):
            cursor_sink[i] = plan.term_out[outputs[i]] + layout_sink[i, 2]
        for i in range(count):
            term = terms[i]
            source = out if plan.term_kind[term] == SEPARATOR else values
            cursor[i] = (offset if plan.term_kind[term] == SEPARATOR else plan.term_in[term]) + layout[i, 2]
            if use_logs or layout[i, 1] == 1:
                continue
            if layout[i, 0] != CONSTANT:
                multiply(fixed, size, source, cursor[i], inner[i], layout[i, 0])
            else:
                constant *= source[cursor[i] + np.int64(inner[i, 0])]
        for number in range(blocks):
            if number > 0:
                advance(plan, clique, terms, digit, cursor)
                advance(plan, clique, outputs, digit_sink, cursor_sink)
            if use_logs:
                block[:size] = 0.0
                for i in range(count):
                    kind = plan.term_kind[terms[i]]
                    is_log = kind == SEPARATOR or (kind == MESSAGE and in_logs[plan.term_child[terms[i]], 1])
                    source = out if kind == SEPARATOR else values
                    add_logs(block, size, source, logs, is_log, kind, cursor[i], inner[i])
                for j in range(size):
                    block[j] = math.exp(block[j]) if block[j] > -np.inf else 0.0
            else:
                scalar = constant
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] == CONSTANT:
                        source = out if plan.term_kind[terms[i]] == SEPARATOR else values
                        scalar *= source[cursor[i] + np.int64(inner[i, 0])]
                if scalar == 0.0:
                    continue
                for j in range(size):
                    block[j] = scalar * fixed[j]
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] != CONSTANT:
                        source = out if plan.term_kind[terms[i]] == SEPARATOR else values
                        multiply(block, size, source, cursor[i], inner[i], layout[i, 0])
            for j in range(size):
                gathered[j] += block[j]
            total, known = 0.0, False
            for i in range(sinks):
                if layout_sink[i, 1] == 0:
                    continue
                at, row = cursor_sink[i], inner_sink[i]
                if layout_sink[i, 0] == CONSTANT:
                    if not known:
                        total, known = total_of(block, 0, size), True
                    out[at + np.int64(row[0])] += total
                elif layout_sink[i, 0] == CONTIGUOUS:
                    start = at + np.int64(row[0])
                    here = out[start : start + size]
                    for j in range(size):
                        here[j] += block[j]
                else:
                    here = out[at:]
                    for j in range(size):
                        here[row[j]] += block[j]
        for i in range(sinks):
            if layout_sink[i, 1] == 0:
                for j in range(size):
                    out[cursor_sink[i] + np.int64(inner_sink[i, j])] += gathered[j]
