"""Kernels that choose states from collected messages, from the roots down: the best ones, or random ones."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.inference.cliques.loops import MESSAGE, SEPARATOR, TABLE, log_value
from hiddenfield.ops.compile import compiled

__all__ = ["draw", "trace_back"]


@compiled
def trace_back(plan, values, logs, in_logs, maximise, state):  # type: ignore[no-untyped-def]
    """Choose the best state of each variable given those chosen before, from the roots down; the first of equals.

    Every clique eliminates one variable, its last. Cliques that sum are left out.
    """
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        if not maximise[clique]:
            continue
        begin, last = plan.clique_ptr[clique], plan.clique_ptr[clique + 1] - 1
        best, chosen = -np.inf, 0
        for k in range(plan.axis_states[last]):
            value = 0.0
            for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
                if plan.term_kind[term] == SEPARATOR or plan.term_in[term] < 0:
                    continue
                at = plan.term_in[term]
                for axis in range(begin, last + 1):
                    here = k if axis == last else state[plan.axis_variable[axis]]
                    along = (
                        plan.alive[plan.axis_alive[axis] + here] if plan.term_kind[term] == TABLE else here
                    )
                    at += along * plan.stride[plan.stride_ptr[term] + axis - begin]
                is_log = plan.term_kind[term] == MESSAGE and in_logs[plan.term_child[term], 1]
                value += log_value(values, logs, is_log, plan.term_kind[term], at)
            if value > best:
                best, chosen = value, k
        state[plan.axis_variable[last]] = chosen


@compiled
def draw(plan, values, logs, in_logs, seed, state):  # type: ignore[no-untyped-def]
    """Draw each variable given those drawn before it, from the roots down, for all samples.

    ``state`` is (variables, samples). Random numbers are a hash of (seed, clique, sample), so that they need no
    memory and no order.
    """
    weight = np.empty(plan.axis_states.max() if plan.axis_states.size else 1)
    for clique in range(plan.clique_ptr.size - 2, -1, -1):
        begin, last = plan.clique_ptr[clique], plan.clique_ptr[clique + 1] - 1
        states = plan.axis_states[last]
        use_logs = in_logs[clique, 0]
        for sample in range(state.shape[1]):
            for k in range(states):
                weight[k] = 0.0 if use_logs else 1.0
            for term in range(plan.term_ptr[clique], plan.term_ptr[clique + 1]):
                if plan.term_kind[term] == SEPARATOR or plan.term_in[term] < 0:
                    continue
                at = plan.term_in[term]
                for axis in range(begin, last):
                    here = state[plan.axis_variable[axis], sample]
                    along = (
                        plan.alive[plan.axis_alive[axis] + here] if plan.term_kind[term] == TABLE else here
                    )
                    at += along * plan.stride[plan.stride_ptr[term] + axis - begin]
                step = plan.stride[plan.stride_ptr[term] + last - begin]
                for k in range(states):
                    along = plan.alive[plan.axis_alive[last] + k] if plan.term_kind[term] == TABLE else k
                    place = at + along * step
                    if use_logs:
                        is_log = plan.term_kind[term] == MESSAGE and in_logs[plan.term_child[term], 1]
                        weight[k] += log_value(values, logs, is_log, plan.term_kind[term], place)
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
            state[plan.axis_variable[last], sample] = chosen
