"""Kernels of exact inference: products over the cliques of a junction tree, block by block, no clique ever stored.

A clique's table is the product of its *terms*: factor tables, messages of its children, and, on the way down, what its
separator learned from the parent. The trailing (inner) axes of a clique form blocks of up to a thousand numbers; an
odometer runs over the leading (outer) ones. Each term has an offset for every place of a block, and a cursor that follows
the odometer. A block is multiplied up in cache and summed into the outputs at once.

Values are probabilities scaled to a maximum of 1 wherever the product of all terms is safe from underflow; cliques whose
terms range too widely are computed in log space with a maximum for each output.
"""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.ops.compile import kernel, subroutine

__all__ = ["collect", "distribute", "draw", "trace_back"]

TABLE, MESSAGE, SEPARATOR = 0, 1, 2
"""Kinds of terms."""

CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""How a term lies along a block."""

SAFE_RANGE = -320.0
"""Natural logarithm of the smallest non-zero product that is computed in probabilities rather than logarithms."""


@subroutine
def lay_out(
    clique,
    clique_ptr,
    axis_states,
    axis_alive,
    split,
    terms,
    term_kind,
    stride_ptr,
    stride,
    alive,
    inner,
    layout,
):  # type: ignore[no-untyped-def]
    """Compute every term's offsets along a block, how they lie, and whether the term varies from block to block."""
    begin, end = clique_ptr[clique], clique_ptr[clique + 1]
    cut = begin + split[clique]
    for i in range(terms.size):
        term = terms[i]
        at = stride_ptr[term] - begin
        size = 1
        row = inner[i]
        row[0] = 0
        for axis in range(cut, end):
            states, step, start = axis_states[axis], stride[at + axis], axis_alive[axis]
            for j in range(size - 1, -1, -1):
                base = row[j]
                for k in range(states):
                    state = alive[start + k] if term_kind[term] == 0 else k
                    row[j * states + k] = base + state * step
            size *= states
        constant, contiguous = True, True
        for j in range(size):
            constant = constant and row[j] == row[0]
            contiguous = contiguous and row[j] == row[0] + j
        layout[i, 0] = CONSTANT if constant else (CONTIGUOUS if contiguous else SCATTERED)
        moves = False
        for axis in range(begin, cut):
            moves = moves or (stride[at + axis] != 0 and axis_states[axis] > 1)
        layout[i, 1] = 1 if moves else 0
        layout[i, 2] = 0
        for axis in range(begin, cut):
            if term_kind[term] == 0:
                layout[i, 2] += alive[axis_alive[axis]] * stride[at + axis]


@subroutine
def advance(
    clique,
    clique_ptr,
    axis_states,
    axis_alive,
    split,
    terms,
    term_kind,
    stride_ptr,
    stride,
    alive,
    digit,
    cursor,
):  # type: ignore[no-untyped-def]
    """Move the odometer over the outer axes by one, and every term's cursor with it."""
    begin = clique_ptr[clique]
    axis = begin + split[clique] - 1
    while axis >= begin:
        now = digit[axis - begin]
        new = now + 1 if now + 1 < axis_states[axis] else 0
        digit[axis - begin] = new
        start = axis_alive[axis]
        along_table = alive[start + new] - alive[start + now]
        for i in range(terms.size):
            step = stride[stride_ptr[terms[i]] + axis - begin]
            if step != 0:
                cursor[i] += step * (along_table if term_kind[terms[i]] == 0 else new - now)
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
        here = values[cursor + row[0] : cursor + row[0] + size]
        for j in range(size):
            block[j] *= here[j]
    else:
        for j in range(size):
            block[j] *= values[cursor + row[j]]


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
        block[j] += log_value(values, logs, is_log, kind, cursor + row[j])


@subroutine
def gather_terms(clique, term_ptr, term_kind, term_in, going_up, terms):  # type: ignore[no-untyped-def]
    """List the terms that a clique's product is made of."""
    count = 0
    for term in range(term_ptr[clique], term_ptr[clique + 1]):
        if (going_up and term_kind[term] == SEPARATOR) or term_in[term] < 0:
            continue
        terms[count] = term
        count += 1
    return count


@kernel
def collect(
    clique_ptr,
    axis_states,
    axis_alive,
    split,
    inner_size,
    num_blocks,
    message_base,
    message_size,
    maximise,
    term_ptr,
    term_kind,
    term_in,
    term_child,
    term_range,
    stride_ptr,
    stride,
    alive,
    most_terms,
    most_inner,
    values,
    logs,
    in_logs,
    log_scale,
):  # type: ignore[no-untyped-def]
    """Send messages from the leaves to the roots: each clique's product, summed or maximised over what it eliminates.

    Messages are written into `values`, scaled to a maximum of 1, its logarithm into `log_scale`. ``in_logs[c]`` tells how
    the clique was computed (column 0) and how its message is stored (column 1).
    """
    terms_of = np.empty(most_terms, np.int64)
    inner = np.empty((most_terms, most_inner), np.int32)
    layout = np.empty((most_terms, 3), np.int64)
    cursor = np.empty(most_terms, np.int64)
    digit = np.empty(64, np.int64)
    block, fixed = np.empty(most_inner), np.empty(most_inner)
    message_range = np.zeros(clique_ptr.size - 1)
    for clique in range(clique_ptr.size - 1):
        count = gather_terms(clique, term_ptr, term_kind, term_in, True, terms_of)
        terms = terms_of[:count]
        lay_out(
            clique,
            clique_ptr,
            axis_states,
            axis_alive,
            split,
            terms,
            term_kind,
            stride_ptr,
            stride,
            alive,
            inner,
            layout,
        )
        size, blocks = inner_size[clique], num_blocks[clique]
        base, length = message_base[clique], message_size[clique]
        message = values[base : base + length]
        residual = size * blocks // length
        spread, log_child = 0.0, False
        for i in range(count):
            if term_kind[terms[i]] == MESSAGE:
                spread += message_range[term_child[terms[i]]]
                log_child = log_child or in_logs[term_child[terms[i]], 1]
            else:
                spread += term_range[terms[i]]
        use_logs = maximise[clique] or log_child or spread < SAFE_RANGE
        in_logs[clique, 0] = use_logs
        passes = 2 if use_logs and not maximise[clique] else 1
        message[:] = -np.inf if use_logs else 0.0
        top_of = message.copy() if passes == 2 else message
        for turn in range(passes):
            digit[:] = 0
            for i in range(count):
                cursor[i] = term_in[terms[i]] + layout[i, 2]
            if turn == 1:
                message[:] = 0.0
            constant = 1.0
            if not use_logs:
                fixed[:size] = 1.0
                for i in range(count):
                    if layout[i, 1] == 0 and layout[i, 0] != CONSTANT:
                        multiply(fixed, size, values, cursor[i], inner[i], layout[i, 0])
                    elif layout[i, 1] == 0:
                        constant *= values[cursor[i] + inner[i, 0]]
            for number in range(blocks):
                if number > 0:
                    advance(
                        clique,
                        clique_ptr,
                        axis_states,
                        axis_alive,
                        split,
                        terms,
                        term_kind,
                        stride_ptr,
                        stride,
                        alive,
                        digit,
                        cursor,
                    )
                where = number * size // residual
                if use_logs:
                    block[:size] = 0.0
                    for i in range(count):
                        kind = term_kind[terms[i]]
                        is_log = kind == MESSAGE and in_logs[term_child[terms[i]], 1]
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
                        scalar *= values[cursor[i] + inner[i, 0]]
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


@kernel
def distribute(
    clique_ptr,
    axis_states,
    axis_alive,
    split,
    inner_size,
    num_blocks,
    message_base,
    message_size,
    term_ptr,
    term_kind,
    term_in,
    term_out,
    term_child,
    stride_ptr,
    stride,
    alive,
    most_terms,
    most_inner,
    values,
    logs,
    in_logs,
    log_scale,
    out,
):  # type: ignore[no-untyped-def]
    """Send what the roots know to the leaves, and sum every clique's distribution into the marginals of its terms.

    ``out`` has room for the marginals of variables and factors and for all separators; a root's separator, one number,
    starts at 1.
    """
    terms_of = np.empty(most_terms, np.int64)
    sinks_of = np.empty(most_terms, np.int64)
    inner, inner_sink = (
        np.empty((most_terms, most_inner), np.int32),
        np.empty((most_terms, most_inner), np.int32),
    )
    layout, layout_sink = np.empty((most_terms, 3), np.int64), np.empty((most_terms, 3), np.int64)
    cursor, cursor_sink = np.empty(most_terms, np.int64), np.empty(most_terms, np.int64)
    digit, digit_sink = np.empty(64, np.int64), np.empty(64, np.int64)
    block, fixed, gathered = np.empty(most_inner), np.empty(most_inner), np.empty(most_inner)
    for clique in range(clique_ptr.size - 2, -1, -1):
        if log_scale[clique] == -np.inf:
            continue
        base, length = message_base[clique], message_size[clique]
        use_logs, stored_log = in_logs[clique, 0], in_logs[clique, 1]
        offset = term_out[term_ptr[clique]]  # the separator is a clique's first term
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
        count = gather_terms(clique, term_ptr, term_kind, term_in, False, terms_of)
        terms = terms_of[:count]
        lay_out(
            clique,
            clique_ptr,
            axis_states,
            axis_alive,
            split,
            terms,
            term_kind,
            stride_ptr,
            stride,
            alive,
            inner,
            layout,
        )
        sinks = 0
        for term in range(term_ptr[clique], term_ptr[clique + 1]):
            if term_out[term] >= 0 and term_kind[term] != SEPARATOR:
                sinks_of[sinks] = term
                sinks += 1
        outputs = sinks_of[:sinks]
        lay_out(
            clique,
            clique_ptr,
            axis_states,
            axis_alive,
            split,
            outputs,
            term_kind,
            stride_ptr,
            stride,
            alive,
            inner_sink,
            layout_sink,
        )
        size, blocks = inner_size[clique], num_blocks[clique]
        digit[:] = 0
        digit_sink[:] = 0
        constant = 1.0
        fixed[:size] = 1.0
        gathered[:size] = 0.0
        for i in range(sinks):
            cursor_sink[i] = term_out[outputs[i]] + layout_sink[i, 2]
        for i in range(count):
            term = terms[i]
            source = out if term_kind[term] == SEPARATOR else values
            cursor[i] = (offset if term_kind[term] == SEPARATOR else term_in[term]) + layout[i, 2]
            if use_logs or layout[i, 1] == 1:
                continue
            if layout[i, 0] != CONSTANT:
                multiply(fixed, size, source, cursor[i], inner[i], layout[i, 0])
            else:
                constant *= source[cursor[i] + inner[i, 0]]
        for number in range(blocks):
            if number > 0:
                advance(
                    clique,
                    clique_ptr,
                    axis_states,
                    axis_alive,
                    split,
                    terms,
                    term_kind,
                    stride_ptr,
                    stride,
                    alive,
                    digit,
                    cursor,
                )
                advance(
                    clique,
                    clique_ptr,
                    axis_states,
                    axis_alive,
                    split,
                    outputs,
                    term_kind,
                    stride_ptr,
                    stride,
                    alive,
                    digit_sink,
                    cursor_sink,
                )
            if use_logs:
                block[:size] = 0.0
                for i in range(count):
                    kind = term_kind[terms[i]]
                    is_log = kind == SEPARATOR or (kind == MESSAGE and in_logs[term_child[terms[i]], 1])
                    source = out if kind == SEPARATOR else values
                    add_logs(block, size, source, logs, is_log, kind, cursor[i], inner[i])
                for j in range(size):
                    block[j] = math.exp(block[j]) if block[j] > -np.inf else 0.0
            else:
                scalar = constant
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] == CONSTANT:
                        source = out if term_kind[terms[i]] == SEPARATOR else values
                        scalar *= source[cursor[i] + inner[i, 0]]
                if scalar == 0.0:
                    continue
                for j in range(size):
                    block[j] = scalar * fixed[j]
                for i in range(count):
                    if layout[i, 1] == 1 and layout[i, 0] != CONSTANT:
                        source = out if term_kind[terms[i]] == SEPARATOR else values
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
                    out[at + row[0]] += total
                elif layout_sink[i, 0] == CONTIGUOUS:
                    here = out[at + row[0] : at + row[0] + size]
                    for j in range(size):
                        here[j] += block[j]
                else:
                    for j in range(size):
                        out[at + row[j]] += block[j]
        for i in range(sinks):
            if layout_sink[i, 1] == 0:
                for j in range(size):
                    out[cursor_sink[i] + inner_sink[i, j]] += gathered[j]


@kernel
def trace_back(
    clique_ptr,
    axis_variable,
    axis_states,
    axis_alive,
    term_ptr,
    term_kind,
    term_in,
    term_child,
    stride_ptr,
    stride,
    alive,
    values,
    logs,
    in_logs,
    maximise,
    state,
):  # type: ignore[no-untyped-def]
    """Choose the best state of each variable given those chosen before, from the roots down; the first of equals.

    Every clique eliminates one variable, its last. Cliques that sum are left out.
    """
    for clique in range(clique_ptr.size - 2, -1, -1):
        if not maximise[clique]:
            continue
        begin, last = clique_ptr[clique], clique_ptr[clique + 1] - 1
        best, chosen = -np.inf, 0
        for k in range(axis_states[last]):
            value = 0.0
            for term in range(term_ptr[clique], term_ptr[clique + 1]):
                if term_kind[term] == SEPARATOR or term_in[term] < 0:
                    continue
                at = term_in[term]
                for axis in range(begin, last + 1):
                    here = k if axis == last else state[axis_variable[axis]]
                    along = alive[axis_alive[axis] + here] if term_kind[term] == TABLE else here
                    at += along * stride[stride_ptr[term] + axis - begin]
                is_log = term_kind[term] == MESSAGE and in_logs[term_child[term], 1]
                value += log_value(values, logs, is_log, term_kind[term], at)
            if value > best:
                best, chosen = value, k
        state[axis_variable[last]] = chosen


@kernel
def draw(
    clique_ptr,
    axis_variable,
    axis_states,
    axis_alive,
    term_ptr,
    term_kind,
    term_in,
    term_child,
    stride_ptr,
    stride,
    alive,
    most_terms,
    values,
    logs,
    in_logs,
    seed,
    state,
):  # type: ignore[no-untyped-def]
    """Draw each variable given those drawn before it, from the roots down, for all samples; ``state`` is (variables, samples).

    Random numbers are a hash of (seed, clique, sample), so that they need no memory and no order.
    """
    cursor = np.empty(most_terms, np.int64)
    weight = np.empty(axis_states.max() if axis_states.size else 1)
    for clique in range(clique_ptr.size - 2, -1, -1):
        begin, last = clique_ptr[clique], clique_ptr[clique + 1] - 1
        states = axis_states[last]
        use_logs = in_logs[clique, 0]
        for sample in range(state.shape[1]):
            for k in range(states):
                weight[k] = 0.0 if use_logs else 1.0
            for term in range(term_ptr[clique], term_ptr[clique + 1]):
                if term_kind[term] == SEPARATOR or term_in[term] < 0:
                    continue
                at = term_in[term]
                for axis in range(begin, last):
                    here = state[axis_variable[axis], sample]
                    along = alive[axis_alive[axis] + here] if term_kind[term] == TABLE else here
                    at += along * stride[stride_ptr[term] + axis - begin]
                step = stride[stride_ptr[term] + last - begin]
                for k in range(states):
                    along = alive[axis_alive[last] + k] if term_kind[term] == TABLE else k
                    place = at + along * step
                    if use_logs:
                        is_log = term_kind[term] == MESSAGE and in_logs[term_child[term], 1]
                        weight[k] += log_value(values, logs, is_log, term_kind[term], place)
                    else:
                        weight[k] *= values[place]
            if use_logs:
                top = -np.inf
                for k in range(states):
                    top = max(top, weight[k])
                for k in range(states):
                    weight[k] = math.exp(weight[k] - top) if weight[k] > -np.inf else 0.0
            total = 0.0
            for k in range(states):
                total += weight[k]
            mixed = np.uint64(seed) ^ (np.uint64(clique) * np.uint64(0x9E3779B97F4A7C15))
            for turn in range(2):
                mixed += np.uint64(0x9E3779B97F4A7C15) * np.uint64(2 * sample + turn + 1)
                mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
            left = np.float64(mixed >> np.uint64(11)) * 2.0**-53 * total
            chosen = 0
            for k in range(states):
                if weight[k] > 0.0:
                    chosen = k
                    left -= weight[k]
                    if left < 0.0:
                        break
            state[axis_variable[last], sample] = chosen
