r"""Compiled loops for fields of binary variables and pairs of them.

A table of two binary variables with finite entries has, besides a constant, a field on each side and a coupling:
with :math:`a = e^{A}`, :math:`b = e^{B}` and :math:`r = e^{-C/2}`,

.. math::

    A = \tfrac12 (t_{10} + t_{11} - t_{00} - t_{01}), \quad B = \tfrac12 (t_{01} + t_{11} - t_{00} - t_{10}), \quad
    C = t_{00} + t_{11} - t_{01} - t_{10},

a message is one number, the odds q of state 1, and its update :math:`q' = b\,(aO + r) / (r a O + 1)`, where O, the
odds of what the other variable sends, is the product of its odds divided by the old message. Products of odds need
neither exp nor log, but they may overflow, and weights and damping are powers: those cases run on logarithms of odds,
:math:`\lambda' = B \pm \log\big((1 + r e) / (r + e)\big)` with :math:`e = e^{-|y|}`, y the logarithm of :math:`aO`.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.vector_math import fast_exp, fast_log
from hiddenfield.shapes import Array

__all__ = ["log_odds_sweep", "odds_sweep"]


@compiled(fast=True)
def odds_sweep(
    odds: Array,
    field_odds: Array,
    variable_port: Array,
    variable_ptr: Array,
    a: Array,
    b: Array,
    r: Array,
    totals: Array,
    residual: Array,
) -> None:
    """Update all messages in place; write the largest change of a probability at each factor.

    Ports 0 to F - 1 are the factors' first ones, F to 2 F - 1 the second ones. `totals` is room for a number a port.
    With :math:`N = aT`, T the product of the variable's odds, the update is :math:`b (N + rq) / (rN + q)`; the change
    of a probability is :math:`|q' - q| / ((1 + q)(1 + q'))`.
    """
    factors = r.size
    one = odds.dtype.type(1)
    # Chunks that stay in the first cache, whatever the number of threads.
    chunk = 512
    variables = variable_ptr.size - 1
    for part in prange((variables + chunk - 1) // chunk):
        for variable in range(part * chunk, min((part + 1) * chunk, variables)):
            begin, end = variable_ptr[variable], variable_ptr[variable + 1]
            total = field_odds[variable]
            # Inner variables of grids: a loop of unknown length would take twice the time of the whole factor's part.
            if end - begin == 4:
                i, j = variable_port[begin], variable_port[begin + 1]
                k, l = variable_port[begin + 2], variable_port[begin + 3]
                total *= (odds[i] * odds[j]) * (odds[k] * odds[l])
                totals[i] = total
                totals[j] = total
                totals[k] = total
                totals[l] = total
                continue
            for place in range(begin, end):
                total *= odds[variable_port[place]]
            for place in range(begin, end):
                totals[variable_port[place]] = total
    for part in prange((factors + chunk - 1) // chunk):
        first = part * chunk
        count = min(chunk, factors - first)
        to_first, to_second = odds[first : first + count], odds[factors + first : factors + first + count]
        at_first, at_second = totals[first : first + count], totals[factors + first : factors + first + count]
        field_first, field_second = a[first : first + count], b[first : first + count]
        coupling = r[first : first + count]
        worst = residual[first : first + count]
        new_first = np.empty(count, odds.dtype)
        new_second = np.empty(count, odds.dtype)
        for f in range(count):
            sent = at_first[f] * field_first[f]
            old = to_first[f]
            new_second[f] = field_second[f] * (sent + coupling[f] * old) / (coupling[f] * sent + old)
        for f in range(count):
            sent = at_second[f] * field_second[f]
            old = to_second[f]
            new_first[f] = field_first[f] * (sent + coupling[f] * old) / (coupling[f] * sent + old)
        for f in range(count):
            old, new = to_first[f], new_first[f]
            worst[f] = abs(new - old) / ((one + new) * (one + old))
            to_first[f] = new
        for f in range(count):
            old, new = to_second[f], new_second[f]
            change = abs(new - old) / ((one + new) * (one + old))
            worst[f] = change if change > worst[f] else worst[f]
            to_second[f] = new


@compiled(fast=True)
def log_odds_sweep(
    log_odds: Array,
    field: Array,
    variable_port: Array,
    variable_ptr: Array,
    port_weight: Array,
    a: Array,
    b: Array,
    r: Array,
    c: Array,
    maximise: bool,
    damping: float,
    totals: Array,
    residual: Array,
) -> None:
    """Do what `odds_sweep` does on logarithms of odds: any weights, damping, any field, sums or maxima.

    `a` and `b` are the logarithms here, `c` is C/2, and `r` its negative exponential. The residual is a bound on the
    change of a probability: the change of the logarithm times the steepest slope on the way.
    """
    factors = c.size
    one, zero = log_odds.dtype.type(1), log_odds.dtype.type(0)
    old_part, new_part = log_odds.dtype.type(damping), log_odds.dtype.type(1 - damping)
    chunk = 512
    variables = variable_ptr.size - 1
    for part in prange((variables + chunk - 1) // chunk):
        for variable in range(part * chunk, min((part + 1) * chunk, variables)):
            begin, end = variable_ptr[variable], variable_ptr[variable + 1]
            total = field[variable]
            for place in range(begin, end):
                total += port_weight[variable_port[place]] * log_odds[variable_port[place]]
            for place in range(begin, end):
                totals[variable_port[place]] = total
    for part in prange((factors + chunk - 1) // chunk):
        first = part * chunk
        count = min(chunk, factors - first)
        new = np.empty(count, log_odds.dtype)
        held = np.empty(count, log_odds.dtype)
        sent = np.empty(count, log_odds.dtype)
        worst = residual[first : first + count]
        ratio = r[first : first + count]
        half = c[first : first + count]
        for f in range(count):
            held[f] = log_odds[factors + first + f]
            worst[f] = zero
        for side in range(2):
            here = first if side == 0 else factors + first
            there = factors + first if side == 0 else first
            here_field = a[first : first + count] if side == 0 else b[first : first + count]
            there_field = b[first : first + count] if side == 0 else a[first : first + count]
            at = totals[here : here + count]
            to_there = log_odds[there : there + count]
            # What was sent to the second port is about to be replaced when the second side's turn comes.
            to_here = log_odds[here : here + count] if side == 0 else held
            for f in range(count):
                sent[f] = at[f] - to_here[f] + here_field[f]
            if maximise:
                for f in range(count):
                    y = sent[f]
                    small = min(abs(y), abs(half[f]))
                    new[f] = there_field[f] + (small if (y >= zero) == (half[f] >= zero) else -small)
            else:
                for f in range(count):
                    e = fast_exp(-abs(sent[f]))
                    value = fast_log((one + ratio[f] * e) / (ratio[f] + e))
                    new[f] = there_field[f] + (value if sent[f] >= zero else -value)
            for f in range(count):
                old, now = to_there[f], new[f]
                least = min(abs(old), abs(now))
                e = fast_exp(-(least if (old >= zero) == (now >= zero) else zero))
                slope = e if maximise else e / ((one + e) * (one + e))
                change = abs(now - old) * slope
                worst[f] = change if change > worst[f] else worst[f]
            for f in range(count):
                to_there[f] = old_part * to_there[f] + new_part * new[f]
