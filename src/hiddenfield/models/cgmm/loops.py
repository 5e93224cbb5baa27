"""Compiled loops of a contextual graph Markov model: what nodes see of the layer below, and the E step over it."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array

BLOCK = 4096
"""Nodes whose statistics are added by one thread, in order; so the sums are the same for any number of threads."""


@compiled
def entry_counts(in_ptr: Array, labels: Array, num_labels: int, width: int, counts: Array) -> None:
    """Count the entries of every node: `width` per label that arrives and one for its absence being taken back."""
    nodes = in_ptr.size - 1
    for block in prange((nodes + BLOCK - 1) // BLOCK):
        seen = np.full(num_labels, -1, np.int64)
        for node in range(block * BLOCK, min(nodes, (block + 1) * BLOCK)):
            arcs = in_ptr[node + 1] - in_ptr[node]
            present = 0
            for arc in range(in_ptr[node], in_ptr[node + 1]):
                if seen[labels[arc]] != node:
                    seen[labels[arc]] = node
                    present += 1
            counts[node] += present + (arcs if width == 1 else present * width)


@compiled
def fill_entries(
    in_ptr: Array,
    source: Array,
    labels: Array,
    states: Array,
    first_row: int,
    label_rows: int,
    num_labels: int,
    cursor: Array,
    rows: Array,
    weights: Array,
) -> None:
    """Write the entries of one layer below: rows of its transition table, each with its weight.

    `states` has a column of codes (hard states), or one column per state (their probabilities).
    """
    nodes, width = in_ptr.size - 1, states.shape[1]
    for block in prange((nodes + BLOCK - 1) // BLOCK):
        arrived = np.zeros(num_labels, np.int64)
        place = np.zeros(num_labels, np.int64)
        for node in range(block * BLOCK, min(nodes, (block + 1) * BLOCK)):
            for arc in range(in_ptr[node], in_ptr[node + 1]):
                arrived[labels[arc]] = 0
            for arc in range(in_ptr[node], in_ptr[node + 1]):
                arrived[labels[arc]] += 1
            at = cursor[node]
            for arc in range(in_ptr[node], in_ptr[node + 1]):
                label = labels[arc]
                if arrived[label] > 0:  # its first arc: take back that the label is absent
                    rows[at], weights[at] = first_row + (label + 1) * label_rows - 1, -1.0
                    place[label] = at + 1
                    at += 1
                    if width > 1:
                        for state in range(width):
                            rows[at], weights[at] = first_row + label * label_rows + state, 0.0
                            at += 1
                    arrived[label] = -arrived[label]
                share = -1.0 / arrived[label]
                if width == 1:
                    rows[at] = first_row + label * label_rows + int(states[source[arc], 0])
                    weights[at] = share
                    at += 1
                else:
                    for state in range(width):
                        weights[place[label] + state] += share * states[source[arc], state]
            cursor[node] = at


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
