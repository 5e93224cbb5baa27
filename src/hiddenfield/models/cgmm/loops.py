"""The E step of a contextual graph Markov model, compiled."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array

BLOCK = 4096
"""Nodes whose statistics are added by one thread, in order; so the sums are the same for any number of threads."""


@compiled(fast=True)
def infer_states(
    ptr: Array,
    rows: Array,
    weights: Array,
    table: Array,
    base: Array,
    log_density: Array,
    counts: Array,
    responsibilities: Array,
    log_likelihood: Array,
    used: Array,
    totals: Array,
) -> None:
    r"""Compute the posterior of the state of each node, and sums for the expected counts.

    With :math:`p_{ui} = b_i + \sum_e w_e T_{r_e i}`, responsibilities are :math:`\propto p_{ui} P(y_u \mid i)`; `used`
    gets :math:`\sum_u n_u w_e P(y_u \mid i) / Z_u` for each row and state, by block, and `totals` the
    same with weight 1.
    """
    nodes, states = log_density.shape
    for block in prange((nodes + BLOCK - 1) // BLOCK):
        ratio = np.empty(states)
        for node in range(block * BLOCK, min(nodes, (block + 1) * BLOCK)):
            prior = responsibilities[node]
            for i in range(states):
                prior[i] = base[i]
            for entry in range(ptr[node], ptr[node + 1]):
                row, weight = rows[entry], weights[entry]
                for i in range(states):
                    prior[i] += weight * table[row, i]
            peak = -np.inf
            for i in range(states):
                prior[i] = max(prior[i], 0.0)
                if prior[i] > 0.0:
                    peak = max(peak, log_density[node, i])
            if peak == -np.inf:
                peak = 0.0
            total = 0.0
            for i in range(states):
                ratio[i] = math.exp(
                    min(log_density[node, i] - peak, 0.0)
                )  # above it only where the prior is 0
                prior[i] *= ratio[i]
                total += prior[i]
            log_likelihood[node] = math.log(total) + peak if total > 0 else -np.inf
            scale = counts[node] / total if total > 0 else 0.0
            for i in range(states):
                prior[i] *= scale
                ratio[i] *= scale
                totals[block, i] += ratio[i]
            for entry in range(ptr[node], ptr[node + 1]):
                row, weight = rows[entry], weights[entry]
                for i in range(states):
                    used[block, row, i] += weight * ratio[i]
