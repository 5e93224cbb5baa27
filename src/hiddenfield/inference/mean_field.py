"""Naive mean field: the best product of independent marginals, a lower bound on the log partition."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import IMPOSSIBLE, feasible_assignments, has_hard_zeros
from hiddenfield.inference.messages.free_energy import negative_free_energy
from hiddenfield.inference.messages.mean_field_updates import ProductUpdate, self_coupled
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.iteration import Outcome, check_damping, check_least, iterate
from hiddenfield.registry import choose
from hiddenfield.shapes import Bool, Float, Tensor

SCHEDULES = {name: name for name in ("sequential", "parallel")}
REMEDY = "raise max_iterations, or use schedule='sequential', which always converges"
CONTRADICTION = "converged: no assignment has positive probability, so log Z is -inf"
NOT_FOUND = "converged to a bound of -inf: no assignment of positive probability was found; try starts=10"


@METHODS.register(
    guarantee="lower bound",
    reference="Wainwright & Jordan 2008",
    unrolls=True,
    use="a bound from below; very large fields, where each sweep must be cheap",
)
def mean_field(
    field: FactorGraph,
    *,
    schedule: str = "sequential",
    damping: float = 0.0,
    starts: int = 1,
    seed: int = 0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    log_marginals: Float[Tensor, " states"] | None = None,
    backend: str = "auto",
) -> Posterior:
    r"""Maximise the evidence lower bound over products of marginals, one variable at a time.

    .. math::

        q_v(x_v) \propto \exp\Big(\log\Phi_v(x_v) + \sum_{p \in v} m_p \,
        E_{q}\big[\log\Psi_f(x_{C_f}) \mid x_v\big]\Big)

    with :math:`m_p` the multiplicity of port p (1 in a ground field). Each update is the best one given all others, so
    the bound :math:`E_q[\log\Phi\Psi] + H(q) \le \log Z` never falls; it rises by
    :math:`N_v \mathrm{KL}(q_v^{old} \| q_v^{new})`, which is how the trace is recorded for nothing.

    Hard zeros: q puts no probability on them. Where a start cannot avoid them, an update first minimises the expected
    number of broken factors and only then maximises the bound. Fields with hard zeros have one more start: a feasible
    assignment, searched for among states that belief propagation finds likely. The result is a true lower bound, -inf
    where nothing feasible was found.

    Parameters
    ----------
    field
        The field; with counts, the ground variables of one class share a marginal and are independent.
    schedule
        "sequential": variable after variable (colour after colour with torch), monotone. "parallel": all from all old
        ones, with damping; need not converge.
    damping
        Weight of the old log marginal in the parallel schedule, in [0, 1).
    starts
        The first start is every variable's own potential, further ones are random; the best bound is kept, graph by
        graph. Bounds of strongly coupled fields have many local optima.
    seed
        Of the random starts.
    tolerance, max_iterations
        Of the largest change of a probability in one update; sweeps over all variables.
    log_marginals
        Where the first start begins, packed as the field's states.
    backend
        "numba" (ragged compiled loop), "torch" (any device, differentiable) or "auto".

    Returns
    -------
    Posterior
        Guarantee "lower bound", whether converged or not. Factor marginals are products. ``trace["elbo"]`` is the bound
        of all graphs together after each sweep.

    Notes
    -----
    A sweep costs, for each factor, its arity times the size of its table. A factor that names a class of variables
    twice makes the bound quadratic in that marginal: such sweeps are damped until the bound does not fall.

    References
    ----------
    Wainwright and Jordan (2008), Graphical models, exponential families, and variational inference, section 5.
    Dai, Dai and Song (2016), Discriminative embeddings of latent variable models for structured data.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [0]], [agree, agree, np.log([0.9, 0.1])])
    >>> posterior = mean_field(field)
    >>> posterior.guarantee, posterior.log_partition < np.log(9)
    ('lower bound', tensor([True]))
    """
    choose("schedule", SCHEDULES, schedule)
    check_damping(damping)
    if damping and schedule == "sequential":
        raise InputError("damping is for schedule='parallel'; the sequential one is monotone without")
    check_least(1, starts=starts)
    check_least(0, seed=seed)
    update = ProductUpdate.make(field, schedule, damping, backend)
    limits = (tolerance, max_iterations)
    first = _own_potentials(field) if log_marginals is None else _checked(field, log_marginals)
    best = _ascend(update, first, *limits)
    best, impossible = _feasible(field, update, best, seed, limits)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(starts - 1):
        best = _better(best, _ascend(update, _random(field, generator), *limits))
    outcome = Outcome(best.log_marginals, best.converged, best.iterations, best.residual)
    status = outcome.describe(tolerance, REMEDY)
    if status == "converged" and bool((best.log_partition == -math.inf).any()):
        status = CONTRADICTION if bool(impossible.any()) else NOT_FOUND
    factors = products(field, best.log_marginals)
    return dataclasses.replace(best, factor_log_marginals=factors, status=status).without(impossible)


def products(field: FactorGraph, log_marginals: Float[Tensor, " states"]) -> tuple[Tensor, ...]:
    """Return the product of the marginals over every factor's scope, (factors, states ...) per group."""
    result = []
    for group in field.groups:
        joint = log_marginals.new_zeros(group.num_factors, *(1,) * group.arity)
        for port in range(group.arity):
            states = torch.arange(group.states[port], device=field.device)
            block = log_marginals[field.state_ptr[group.scopes[:, port], None] + states]
            shape = [group.num_factors, *(1,) * group.arity]
            shape[port + 1] = group.states[port]
            joint = joint + block.reshape(shape)
        result.append(joint)
    return tuple(result)


def _lower_bound(field: FactorGraph, log_marginals: Tensor) -> Tensor:
    none = [group.count.new_zeros(group.num_factors) for group in field.groups]
    return negative_free_energy(field, log_marginals, products(field, log_marginals), none)


def _ascend(update: ProductUpdate, start: Tensor, tolerance: float, max_iterations: int) -> Posterior:
    """Iterate from one start; factor marginals are left to the caller."""
    field = update.field
    gains: list[float] = []
    coupled = self_coupled(field)
    old = damping = torch.zeros(field.num_graphs, dtype=field.dtype, device=field.device)
    if coupled:
        old = _lower_bound(field, start)

    def step(log_q: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal old, damping
        new, residual, gain = update.sweep(log_q, damping)
        if coupled:
            bound = _lower_bound(field, new)
            worse = bound < old - 1e-9 * old.abs().clamp(min=1)
            damping = torch.where(worse, (1 + damping) / 2, damping)
            new = torch.where(worse[field.variable_graph[field.state_variable]], log_q, new)
            bound = torch.where(worse, old, bound)
            residual, gain = update.residual(new), bound - old
            old = bound
        gains.append(float(gain.detach().sum()))
        return new, residual.detach()

    outcome = iterate(
        step, start, tolerance=tolerance, max_iterations=max_iterations, verify=lambda q: update.residual(q)
    )
    elbo = _lower_bound(field, outcome.state)
    # From the end backwards: the bound after a sweep is the last one less what later sweeps gained.
    later = np.concatenate([[0.0], np.cumsum(gains[:0:-1])])[::-1] if gains else np.zeros(0)
    with np.errstate(invalid="ignore"):
        trace = np.nan_to_num(float(elbo.detach().sum()) - later, nan=-math.inf, neginf=-math.inf)
    traces = {"residual": outcome.trace, "elbo": trace.tolist() if update.monotone else []}
    return Posterior.of(outcome, field, "mean_field", (outcome.state, ()), elbo, "lower bound", trace=traces)


def _better(old: Posterior, new: Posterior) -> Posterior:
    """Keep the better of two results, graph by graph."""
    wins = new.log_partition > old.log_partition
    states = wins[old.field.variable_graph[old.field.state_variable]]
    names = ("log_partition", "converged", "iterations", "residual")
    kept: dict[str, Any] = {name: torch.where(wins, getattr(new, name), getattr(old, name)) for name in names}
    kept["log_marginals"] = torch.where(states, new.log_marginals, old.log_marginals)
    kept["trace"] = new.trace if bool(new.log_partition.sum() > old.log_partition.sum()) else old.trace
    return dataclasses.replace(old, **kept)


def _feasible(
    field: FactorGraph, update: ProductUpdate, best: Posterior, seed: int, limits: tuple[float, int]
) -> tuple[Posterior, Bool[Tensor, " graphs"]]:
    """With hard zeros, begin at a feasible and likely assignment too; say which graphs have none."""
    if not has_hard_zeros(field):
        # Where there is none, a variable by itself has no possible state.
        return best, best.log_partition == -math.inf
    with torch.no_grad():
        passing, outcome = propagate(field.detach(), damping=0.2, tolerance=1e-3, max_iterations=50)
        likely = passing.beliefs(outcome.state)[0].nan_to_num(nan=0.0)
    assignment, found = feasible_assignments(field, preference=likely, seed=seed)
    state = field.state_ptr[:-1] + assignment[0].to(field.device)
    start = torch.full_like(field.log_unary, -math.inf).scatter(0, state, 0.0)
    best = _better(best, _ascend(update, start, *limits))
    return best, (found == IMPOSSIBLE).to(field.device)


def _own_potentials(field: FactorGraph) -> Tensor:
    """Return each variable's potential by itself; uniform where no state is possible."""
    _, top = normalise_segments(field.log_unary, field.state_ptr)
    dead = (top == -math.inf)[field.state_variable]
    return normalise_segments(
        torch.where(dead, torch.zeros_like(field.log_unary), field.log_unary), field.state_ptr
    )[0]


def _random(field: FactorGraph, generator: torch.Generator) -> Tensor:
    """Draw every marginal uniformly from its simplex, where evidence allows."""
    draw = torch.rand(len(field.log_unary), generator=generator, dtype=torch.float64)
    noise = (-draw.clamp(1e-300, 1 - 1e-16).log()).log().to(field.log_unary)
    allowed = torch.where(_own_potentials(field) == -math.inf, -math.inf, noise)
    return normalise_segments(allowed, field.state_ptr)[0]


def _checked(field: FactorGraph, log_marginals: Tensor) -> Tensor:
    if log_marginals.shape != field.log_unary.shape:
        raise InputError(
            f"log_marginals hold {len(field.log_unary)} numbers, got {tuple(log_marginals.shape)}"
        )
    return normalise_segments(log_marginals.to(field.log_unary), field.state_ptr)[0]
