"""Annealed importance sampling: an unbiased estimate of the partition function from chains."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.sampling.chains import Chains
from hiddenfield.inference.sampling.loops import energies
from hiddenfield.ops.compile import as_array
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["annealed_log_partition"]

PENALTY = 15.0
"""Hard zeros count as this much below the least finite log potential on the way; the last weight sets that right."""


FLOOR = -7.0
"""Least log probability of a state that annealing starts from: belief propagation may be wrong."""


def annealed_log_partition(
    field: FactorGraph, chains: Chains, *, temperatures: int, number: int, seed: int
) -> tuple[Float[Tensor, " graphs"], Float[Tensor, " graphs"]]:
    r"""Estimate log Z by moving chains from a product of marginals q to the field, little by little.

    .. math::

        \hat Z = \frac{1}{n} \sum_{c=1}^n \prod_k \Big(\frac{\Phi\Psi}{q}(x_c^{(k)})\Big)^{\beta_{k+1} - \beta_k},
        \qquad x^{(k)} \text{ moved by a sweep that leaves } q^{1 - \beta_k} (\Phi\Psi)^{\beta_k} \text{ as it is.}

    Half of the chains start from the marginals of belief propagation, half from the variables' own potentials: the one
    is better where messages settle on what is true, the other where they do not. The mean of :math:`\hat Z` is Z in
    either case; its logarithm is low on average, by about half the squared standard error.

    Returns
    -------
    tuple
        The estimate and its standard error for each graph; -inf and inf where no chain ended at a possible assignment.

    References
    ----------
    Neal (2001), Annealed importance sampling.
    """
    halves = [number - number // 2, number // 2]
    bases = [_settled(field), field.log_unary]
    parts = [
        _anneal(field, chains, base, temperatures, count, [seed, part])
        for part, (base, count) in enumerate(zip(bases, halves, strict=True))
    ]
    mean, error = _log_mean(np.concatenate(parts, 1))
    constant = field.log_constant
    return constant + torch.from_numpy(mean).to(constant), torch.from_numpy(error).to(constant)


def _anneal(
    field: FactorGraph, chains: Chains, log_base: Tensor, temperatures: int, number: int, seed: list[int]
) -> Array:
    """Return the log weights of chains that start from a product of marginals, (graphs, chains)."""
    flat = chains.flat
    # Variables that are observed keep their state, so that it is that of the first chain in all.
    state = np.repeat(chains.state[:, :1], number, axis=1)
    random = np.random.SeedSequence(seed).generate_state(number, np.uint64) | np.uint64(1)
    annealed = dataclasses.replace(chains, state=state, random=random, blocks=None)
    base = as_array(normalise_segments(log_base, field.state_ptr)[0].to("cpu", torch.float64))
    dead = np.isneginf(flat.log_unary)
    own = np.where(dead, 0.0, flat.log_unary - np.where(dead, 0.0, base))
    finite = flat.tables[np.isfinite(flat.tables)]
    tables = np.maximum(flat.tables, (finite.min() if len(finite) else 0.0) - PENALTY)
    log_weight = np.zeros((field.num_graphs, number))
    betas = np.linspace(0.0, 1.0, temperatures + 1)
    for low, high in itertools.pairwise(betas):
        annealed.run(1, beta=low, unary=np.where(dead, -np.inf, base + low * own), tables=tables)
        log_weight += (high - low) * _energy(field, annealed, own, tables)
    if chains.hard:
        final = _energy(field, annealed, own, flat.tables)
        log_weight = np.where(np.isneginf(final), -np.inf, log_weight)
    return log_weight


def _settled(field: FactorGraph) -> Float[Tensor, " states"]:
    """Return log marginals of belief propagation, none too small and none of a possible state zero."""
    passing, outcome = propagate(field, damping=0.2, tolerance=1e-3, max_iterations=100)
    likely = passing.beliefs(outcome.state)[0].nan_to_num(nan=0.0).clamp(min=FLOOR)
    return torch.where(field.log_unary == -math.inf, -math.inf, likely)


def _energy(field: FactorGraph, chains: Chains, own: Array, tables: Array) -> Array:
    """Return the log ratio of the field to the base at every chain's state, graph by graph."""
    flat = chains.flat
    out = np.zeros((field.num_graphs, chains.number))
    owner = as_array(field.wiring.factor_graph)
    energies(
        *(flat, own, tables, owner, chains.state, out),
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
