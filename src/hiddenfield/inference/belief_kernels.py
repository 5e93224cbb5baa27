"""CPU kernels of what follows message passing: beliefs of pairs, and the terms of a free energy, in one pass each.

Tables of beliefs are the largest arrays of all; in separate tensor operations each would be read and written ten times.
"""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGroup
from hiddenfield.ops.compile import as_array, kernel, prange
from hiddenfield.ops.vector_math import fast_exp, fast_log
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["factor_terms", "pair_beliefs", "suits_kernels"]


def suits_kernels(*tensors: Tensor) -> bool:
    """Whether the kernels can stand in for torch: on the CPU, in single or double precision, without gradients."""
    return all(
        tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64)
        and not (tensor.requires_grad and torch.is_grad_enabled())
        for tensor in tensors
    )


def pair_beliefs(
    tables: Float[Tensor, "tables rows columns"],
    table: Int[Tensor, " factors"],
    first: Float[Tensor, "factors rows"],
    second: Float[Tensor, "factors columns"],
    maximise: bool,
) -> Float[Tensor, "factors rows columns"]:
    """Return log beliefs of pairs from log tables, which of them each reads, and what the variables send."""
    factors, rows, columns = first.shape[0], first.shape[1], second.shape[1]
    out = np.empty((factors, rows * columns), as_array(first).dtype)
    flat = as_array(tables).reshape(-1, rows * columns)
    vectors = as_array(first), as_array(second)
    pair_beliefs_kernel(flat, as_array(table), *vectors, maximise, out, work=out.size)
    return torch.from_numpy(out).reshape(factors, rows, columns)


def factor_terms(
    group: FactorGroup, log_beliefs: Float[Tensor, " factors *states"]
) -> tuple[Float[Tensor, " factors"], Float[Tensor, " factors"]]:
    """Return each factor's expected log potential and entropy, both added up in double precision."""
    factors = log_beliefs.shape[0]
    beliefs = as_array(log_beliefs).reshape(factors, -1)
    tables = as_array(group.log_tables.detach()).reshape(group.log_tables.shape[0], -1)
    row = np.arange(factors) if group.table is None else as_array(group.table)
    energy, entropy = np.empty(factors, beliefs.dtype), np.empty(factors, beliefs.dtype)
    factor_terms_kernel(beliefs, tables, row, energy, entropy, work=beliefs.size)
    return torch.from_numpy(energy), torch.from_numpy(entropy)


@kernel(fast=True, reorder=True)
def pair_beliefs_kernel(
    tables: Array, index: Array, first: Array, second: Array, maximise: bool, out: Array
) -> None:
    """Write log table plus both vectors, less the logarithm of the sum or the maximum."""
    rows, columns = first.shape[1], second.shape[1]
    dead, zero = out.dtype.type(-np.inf), out.dtype.type(0)
    chunk = 64
    for part in prange((out.shape[0] + chunk - 1) // chunk):
        best = np.empty(columns, out.dtype)
        for factor in range(part * chunk, min((part + 1) * chunk, out.shape[0])):
            table, here, other = tables[index[factor]], out[factor], second[factor]
            for column in range(columns):
                best[column] = dead
            for row in range(rows):
                sent = first[factor, row]
                entries, to = table[row * columns :], here[row * columns :]
                for column in range(columns):
                    value = entries[column] + sent + other[column]
                    to[column] = value
                    best[column] = value if value > best[column] else best[column]
            top = dead
            for column in range(columns):
                top = max(top, best[column])
            if top == dead:
                continue
            if not maximise:
                total = zero
                for entry in range(here.size):
                    total += fast_exp(here[entry] - top)
                top += fast_log(total)
            for entry in range(here.size):
                here[entry] -= top


@kernel(fast=True, reorder=True)
def factor_terms_kernel(beliefs: Array, tables: Array, row: Array, energy: Array, entropy: Array) -> None:
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
