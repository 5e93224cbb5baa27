"""Annealed importance sampling: an unbiased estimate of the partition function from chains."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.chains import Chains
from hiddenfield.inference.gibbs_kernels import energies
from hiddenfield.ops import segment_logsumexp, segment_sum
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["annealed_log_partition"]

PENALTY = 15.0
"""Hard zeros count as this much below the least finite log potential on the way; the last weight sets that right."""


def annealed_log_partition(
    field: FactorGraph, chains: Chains, *, temperatures: int, number: int, seed: int
) -> tuple[Float[Tensor, " graphs"], Float[Tensor, " graphs"]]:
    r"""Estimate log Z by moving chains from independent variables to the field, factors turned on little by little.

    .. math::

        \hat Z = Z_0 \frac{1}{n} \sum_{c=1}^n \prod_k \exp\big((\beta_{k+1} - \beta_k) \log\Psi(x_c^{(k)})\big)

    with :math:`Z_0` that of the single-variable potentials and one sweep at each :math:`\beta_k`. The mean of
    :math:`\hat Z` is Z; its logarithm is low on average, by about half the squared standard error.

    Returns
    -------
    tuple
        The estimate and its standard error for each graph; -inf and inf where no chain ended at a possible assignment.

    References
    ----------
    Neal (2001), Annealed importance sampling.
    """
    flat = chains.flat
    # Variables that are observed keep their state, so that it is that of the first chain in all.
    state = np.repeat(chains.state[:, :1], number, axis=1)
    random = np.random.SeedSequence([seed, 1]).generate_state(number, np.uint64) | np.uint64(1)
    annealed = dataclasses.replace(chains, state=state, random=random, blocks=None)
    finite = flat.tables[np.isfinite(flat.tables)]
    floor = (finite.min() if len(finite) else 0.0) - PENALTY
    tables = np.maximum(flat.tables, floor)
    owner = field.wiring.factor_graph.cpu().numpy()
    log_weight = np.zeros((field.num_graphs, number))
    betas = np.linspace(0.0, 1.0, temperatures + 1)
    for low, high in itertools.pairwise(betas):
        annealed.run(1, beta=low, tables=tables)
        log_weight += (high - low) * _energy(annealed, tables, owner, field.num_graphs)
    if chains.hard:
        log_weight += np.where(
            np.isneginf(_energy(annealed, flat.tables, owner, field.num_graphs)), -np.inf, 0.0
        )
    base = field.log_constant + segment_sum(
        segment_logsumexp(field.log_unary, field.state_ptr), field.variable_ptr
    )
    mean, error = _log_mean(log_weight)
    return base + torch.from_numpy(mean).to(base), torch.from_numpy(error).to(base)


def _energy(chains: Chains, tables: Array, owner: Array, graphs: int) -> Array:
    flat = chains.flat
    out = np.zeros((graphs, chains.number))
    energies(
        *(flat.scope_ptr, flat.scope, flat.stride, flat.table_start, tables, flat.factor_count, owner),
        chains.state,
        out,
        work=len(flat.table_start) * chains.number,
    )
    return out


def _log_mean(log_weight: Array) -> tuple[Array, Array]:
    """Return the log of the mean weight, and its standard error by the delta method."""
    number = log_weight.shape[1]
    top = log_weight.max(1, initial=-np.inf)
    safe = np.where(np.isneginf(top), 0.0, top)
    weight = np.exp(log_weight - safe[:, None])
    mean = weight.mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (
            weight.std(1, ddof=1) / (mean * math.sqrt(number)) if number > 1 else np.full(len(mean), np.inf)
        )
        result = safe + np.log(mean)
    return result, np.where(np.isneginf(result), np.inf, error)
