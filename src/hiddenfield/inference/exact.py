"""Exact inference on junction trees: marginals, joint assignments, marginal MAP and samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.build import MOST_PORTS
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.inference.cliques.messages import (
    chosen_states,
    collect_messages,
    distribute_messages,
)
from hiddenfield.inference.cliques.plan import CliquePlan, clique_plan
from hiddenfield.inference.cliques.reference import torch_log_partition
from hiddenfield.inference.posterior import (
    CONTRADICTION,
    MAP_METHODS,
    METHODS,
    Joint,
    MapState,
    Posterior,
    check_field,
    impossible_status,
)
from hiddenfield.iteration import check_least
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Int, Tensor


@METHODS.register(
    guarantee="exact",
    reference="Kschischang, Frey & Loeliger 2001",
    unrolls=True,
    use="first of all: its cost is known beforehand, and what would not fit is refused",
)
def exact(
    field: FactorGraph,
    *,
    order: str = "best",
    max_memory: float | None = None,
    backend: str = "auto",
    marginals: bool = True,
) -> Posterior:
    r"""Sum over all assignments by passing messages once to the root of a junction tree and once back.

    With :math:`\psi_C` the product of the factors of clique C, S its separator, and :math:`D` its children,

    .. math::

        m_C(x_S) = \sum_{x_{C \setminus S}} \psi_C(x_C) \prod_{D} m_D(x_{S_D}), \qquad
        p(x_C) = \psi_C(x_C) \prod_{D} m_D(x_{S_D}) \, \frac{p(x_S)}{m_C(x_S)}

    Exact up to rounding: log partition, marginals of variables and of factors. Evidence, hard zeros and what follows
    from them (generalised arc consistency) make the field smaller before an elimination order is sought; observed
    variables cost nothing. Messages are scaled probabilities where that is safe from underflow and logarithms where
    it is not, always in double precision on the CPU; a marginal probability below about 1e-300 is 0.

    Parameters
    ----------
    field
        The field, variable counts 1; a factor of count k is k copies.
    order
        How variables are eliminated: "min_fill", "min_weight", "weighted_min_fill" or "best", the cheapest of several
        (`elimination_order`).
    max_memory
        Most bytes that it may take; half of what is available by default. The need is known, and refused with an
        `InputError` that names the treewidth, before anything is allocated.
    backend
        "numba" (CPU), "torch" (any device, in the field's own precision, differentiable any number of times: with
        ``infer(..., unroll=True)`` the marginals carry gradients), or "auto": numba on the CPU.
    marginals
        False where the log partition is all that is asked for: messages do not go back, and the marginals are NaN.

    Returns
    -------
    Posterior
        Guarantee "exact"; ``extra["treewidth"]`` is the width of the order. A contradiction has log partition -inf and
        no marginals (log probabilities -inf).

    Notes
    -----
    Time: the states of all cliques. Memory: those of all separators (no clique is stored), twice.

    References
    ----------
    Jensen, Lauritzen and Olesen (1990), Bayesian updating in causal probabilistic networks by local computations.
    Dechter (1999), Bucket elimination: a unifying framework for reasoning.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [2, 0]], [agree, agree, agree])
    >>> posterior = exact(field.given({0: 1}))
    >>> posterior.log_partition.exp(), posterior.marginals[2]
    (tensor([14.0000], dtype=torch.float64), tensor([0.2857, 0.7143], dtype=torch.float64))
    """
    plan = clique_plan(field, order=order, max_memory=max_memory, marginals=marginals)
    return run_plan(field, plan, backend)


def run_plan(field: FactorGraph, plan: CliquePlan, backend: str = "auto") -> Posterior:
    """Run a plan; see `exact`."""
    if use_compiled(field.log_unary.detach(), backend=backend, converts=True):
        collected = collect_messages(field, plan)
        log_partition = torch.from_numpy(collected.log_partition).to(field.device)
        if plan.marginals:
            probabilities = torch.from_numpy(distribute_messages(plan, collected)).to(field.device)
        else:
            probabilities = log_partition.new_full((plan.tables.num_marginals,), math.nan)
    else:
        log_partition, probabilities = _by_torch(field, plan)
    return marginals_to_posterior(field, log_partition, probabilities, {"treewidth": plan.width})


@MAP_METHODS.register("exact")
def map_state(field: FactorGraph, *, order: str = "best", max_memory: float | None = None) -> MapState:
    r"""Return the most likely joint assignment: the sums of `exact` as maxima, then traced back from the roots.

    .. math::

        m_C(x_S) = \max_{x_{C \setminus S}} \psi_C(x_C) \prod_{D} m_D(x_{S_D}), \qquad
        \hat x_{C \setminus S} = \arg\max_{x_{C \setminus S}} \psi_C(x_C) \prod_{D} m_D(x_{S_D})
        \ \text{at}\ x_S = \hat x_S

    Guarantee: exact. Of several best assignments one is returned, the same whenever the field is; it is always one
    joint assignment, not best states of different ones.

    Parameters
    ----------
    field, order, max_memory
        As of `exact`.

    Returns
    -------
    MapState
        A state for each variable; guarantee "exact".

    Notes
    -----
    Cost as of `exact`, in log space.

    References
    ----------
    Dechter (1999), Bucket elimination: a unifying framework for reasoning.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> best = map_state(from_factors([[0, 1]], [np.log([[0.4, 0.01], [0.3, 0.29]])]))
    >>> best.assignment, best.log_value.exp()
    (tensor([0, 0]), tensor([0.4000], dtype=torch.float64))
    """
    return marginal_map(field, range(field.num_variables), order=order, max_memory=max_memory)


def marginal_map(
    field: FactorGraph,
    variables: Sequence[int | str] | Int[Tensor, " chosen"],
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    order: str = "best",
    max_memory: float | None = None,
) -> MapState:
    r"""Return the most likely joint state of some variables, summed over all others.

    .. math:: \arg\max_{x_M} \sum_{x_{V \setminus M}} p(x)

    Exact. Variables that are summed over are eliminated first, which constrains the order: the treewidth may be far
    larger than without.

    Parameters
    ----------
    field
        The field.
    variables
        The variables to choose states for, by number or name.
    evidence
        As in `hiddenfield.inference.infer`.
    order, max_memory
        See `exact`.

    Returns
    -------
    MapState
        `assignment` is -1 where a variable was summed over; `log_value` is the unnormalised log value of the assignment
        in each graph, sums included.

    Notes
    -----
    Cost as of `exact` with the constrained order, in log space.

    References
    ----------
    Park and Darwiche (2004), Complexity results and approximation strategies for MAP explanations.

    Examples
    --------
    The best joint state of both is (0, 0); summed over the second, state 1 of the first is better.

    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1]], [np.log([[0.4, 0.01], [0.3, 0.29]])])
    >>> marginal_map(field, [0, 1]).assignment, marginal_map(field, [0]).assignment
    (tensor([0, 0]), tensor([ 1, -1]))
    """
    check_field(field, "marginal_map")
    field = field if evidence is None else field.given(evidence)
    chosen = np.zeros(field.num_variables, np.int64)
    chosen[field.indices_of(variables)] = 1
    return run_map_plan(field, clique_plan(field, stage=chosen, order=order, max_memory=max_memory))


def run_map_plan(field: FactorGraph, plan: CliquePlan) -> MapState:
    """Run a plan that maximises over some variables; see `marginal_map`."""
    collected = collect_messages(field, plan)
    assignment = np.where(plan.stage == 1, chosen_states(plan, collected)[:, 0], -1)
    value = torch.from_numpy(collected.log_partition).to(field.device, field.dtype)
    status = impossible_status(value == -math.inf)
    return MapState(torch.from_numpy(assignment).to(field.device), value, "exact", value, status, field=field)


def sample(
    field: FactorGraph,
    num_samples: int,
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    seed: int | torch.Generator = 0,
    order: str = "best",
    max_memory: float | None = None,
) -> Int[Tensor, "samples variables"]:
    r"""Draw independent assignments from the field's distribution.

    Messages are collected as in `exact`; then, from the roots down, each variable is drawn from
    :math:`p(x_v \mid x_S)`, S the separator of its clique, for all samples at once. Exact samples, not a chain.

    Parameters
    ----------
    field
        The field.
    num_samples
        How many.
    evidence
        As in `hiddenfield.inference.infer`.
    seed
        A number, or a generator to draw one from.
    order, max_memory
        See `exact`.

    Notes
    -----
    Cost: collecting as of `exact`, once; then, for each sample, the states of every variable.

    References
    ----------
    Dechter (1999), Bucket elimination: a unifying framework for reasoning.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1]], [np.log([[0.5, 1e-9], [1e-9, 0.5]])])
    >>> drawn = sample(field, 1000, seed=1)
    >>> drawn.shape, bool((drawn[:, 0] == drawn[:, 1]).all()), bool(0.4 < drawn[:, 0].double().mean() < 0.6)
    (torch.Size([1000, 2]), True, True)
    """
    check_field(field, "sample")
    field = field if evidence is None else field.given(evidence)
    check_least(0, num_samples=num_samples)
    if not isinstance(seed, torch.Generator):
        check_least(0, seed=seed)
    stage = np.zeros(field.num_variables, np.int64)
    plan = clique_plan(field, stage=stage, order=order, max_memory=max_memory)
    collected = collect_messages(field, plan)
    if bool((collected.log_partition == -math.inf).any()):
        raise InputError(f"nothing can be drawn: {CONTRADICTION}")
    number = (
        int(torch.randint(2**62, (1,), generator=seed)) if isinstance(seed, torch.Generator) else seed % 2**63
    )
    return torch.from_numpy(np.ascontiguousarray(chosen_states(plan, collected, num_samples, number).T)).to(
        field.device
    )


def _by_torch(field: FactorGraph, plan: CliquePlan) -> tuple[Tensor, Tensor]:
    """Return log partition, and marginals as its gradient; differentiable where gradients are on."""
    unrolled = torch.is_grad_enabled() and field.requires_grad
    with torch.set_grad_enabled(unrolled or plan.marginals):
        weighted = [g.expanded() * g.count.reshape(-1, *(1,) * g.arity) for g in field.groups]
        flat = torch.cat([field.log_unary, *(tables.reshape(-1) for tables in weighted)])
        flat = flat if unrolled else flat.detach().requires_grad_(plan.marginals)
        total = torch_log_partition(field, plan, flat)
        if not plan.marginals:
            return total, torch.full_like(flat, math.nan)
        if not flat.numel():  # without variables the total depends on nothing
            return total, flat.detach()
        (marginals,) = torch.autograd.grad(total.sum(), flat, create_graph=unrolled)
    return (total if unrolled else total.detach()), marginals


def marginals_to_posterior(
    field: FactorGraph, log_partition: Tensor, probabilities: Tensor, extra: dict[str, float]
) -> Posterior:
    """Make a posterior of probabilities: of variables, then of factors, end to end."""
    impossible = log_partition == -math.inf
    some = ~(probabilities <= 0)  # NaN, where they were not asked for, stays
    safe = torch.where(some, probabilities, torch.ones_like(probabilities))
    log = torch.where(some, safe.log(), torch.full_like(safe, -math.inf)).to(field.dtype)
    unary = field.log_unary.shape[0]
    graphs = field.num_graphs
    return Posterior(
        field=field,
        method="exact",
        log_marginals=log[:unary],
        factor_log_marginals=field.split_tables(log[unary:]),
        log_partition=log_partition.to(field.dtype),
        guarantee="exact",
        converged=torch.ones(graphs, dtype=torch.bool, device=field.device),
        iterations=torch.ones(graphs, dtype=torch.int64, device=field.device),
        residual=torch.zeros(graphs, dtype=field.dtype, device=field.device),
        status=impossible_status(impossible),
        extra=dict(extra),
    ).without(impossible)


MOST_STATES = 1 << 24
"""Largest table that is returned where no other limit is given: 128 MiB."""


def joint(
    field: FactorGraph,
    variables: Sequence[str | int],
    *,
    evidence: Mapping[Any, Any] | Tensor | None = None,
    max_memory: float | None = None,
) -> Joint:
    r"""Return the joint distribution of some variables, summed over all others.

    .. math:: p(x_A \mid e) = \frac{1}{Z} \sum_{x_{V \setminus A}} \prod_f \Psi_f(x_{C_f})

    Exact. A factor of ones over the variables is added, so that a clique of the junction tree holds them all; they need
    not share a factor of the field. The treewidth grows by at most their number.

    Parameters
    ----------
    field
        The field, or a batch of fields; the variables belong to one graph.
    variables
        Their names or numbers; the axes of the result are in this order.
    evidence
        See `FactorGraph.given`.
    max_memory
        Most bytes that it may take; half of what is available by default.

    Returns
    -------
    Joint
        Probabilities, one axis per variable; exact.

    Raises
    ------
    TooLargeError
        Where the table or the junction tree would take more memory than it may, before anything is computed.

    Notes
    -----
    Cost as of `exact` on the field with the added factor.

    References
    ----------
    Jensen, Lauritzen and Olesen (1990), Bayesian updating in causal probabilistic networks by local computations.

    Examples
    --------
    The ends of a chain of three share no factor.

    >>> from hiddenfield.fields import ising_grid
    >>> joint(ising_grid(1, 3, 0.5), [0, 2]).probabilities
    tensor([[0.3034, 0.1966],
            [0.1966, 0.3034]], dtype=torch.float64)
    """
    check_field(field, "joint")
    numbers = field.indices_of(variables)
    _check(field, numbers, max_memory)
    here = (field if evidence is None else field.given(evidence)).detach()
    with torch.no_grad():
        if len(numbers) == 1:
            posterior = exact(here, max_memory=max_memory)
            begin, end = here.state_ptr[numbers[0] : numbers[0] + 2].tolist()
            probabilities = posterior.log_marginals[begin:end].exp()
        else:
            states = here.cardinalities[numbers].tolist()
            ones = FactorGroup(
                torch.tensor([numbers], device=here.device),
                here.log_unary.new_zeros(1, *states),
                None,
                here.counts.new_ones(1),
            )
            posterior = exact(dataclasses.replace(here, groups=(*here.groups, ones)), max_memory=max_memory)
            probabilities = posterior.factor_log_marginals[-1][0].exp()
    if float(posterior.log_partition[int(here.variable_graph[numbers[0]])]) == -math.inf:
        raise InputError(f"no joint distribution: {CONTRADICTION}")
    return Joint(tuple(numbers), probabilities, here)


def _check(field: FactorGraph, numbers: list[int], max_memory: float | None) -> None:
    """Refuse no variables, repeated ones, those of several graphs, and tables that are too large."""
    if not numbers:
        raise InputError("a joint distribution is of at least one variable, got none")
    repeated = next((v for place, v in enumerate(numbers) if v in numbers[:place]), None)
    if repeated is not None:
        raise InputError(f"variable {field.name_of(repeated)} is named twice")
    if len(set(field.variable_graph[numbers].tolist())) > 1:
        raise InputError("the variables are of several graphs, which are independent; ask for each by itself")
    size = math.prod(field.cardinalities[numbers].tolist())
    most = MOST_STATES if max_memory is None else max_memory / 8
    if size > most or len(numbers) > MOST_PORTS:
        raise TooLargeError(
            f"the joint distribution of {len(numbers)} variables has {size:,} states; at most {int(most):,} fit; "
            "ask for fewer variables, or draw samples with hiddenfield.inference.sample"
        )
