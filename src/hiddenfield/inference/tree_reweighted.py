"""Tree-reweighted belief propagation: an upper bound on the log partition, and on the best value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.spanning_trees import (
    FreeScopes,
    as_weights,
    check_weights,
    transitive_weights,
    tree_weights,
)
from hiddenfield.inference.messages.free_energy import entropy, entropy_of_states, negative_free_energy
from hiddenfield.inference.messages.passing import MessagePassing, normalise_segments
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import MAP_METHODS, METHODS, Guarantee, MapState, Posterior, padded
from hiddenfield.inference.sampling.search import agree, improved
from hiddenfield.iteration import Outcome, check_least
from hiddenfield.shapes import Float, Tensor

REMEDY = "the bound holds all the same; for a tighter one raise max_iterations"


LARGEST_SEQUENTIAL = 50_000
"""Numbers of all messages up to which the sequential schedule settles sooner."""


@METHODS.register(
    guarantee="upper bound",
    reference="Wainwright, Jaakkola & Willsky 2005",
    unrolls=True,
    use="a bound from above, at every iteration; strong couplings",
)
def tree_reweighted(
    field: FactorGraph,
    *,
    weights: Sequence[Tensor] | str | None = None,
    optimise: int = 0,
    samples: int | None = None,
    seed: int = 0,
    schedule: str = "auto",
    damping: float | None = None,
    temperature: float = 1.0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    messages: Float[Tensor, " messages"] | None = None,
    backend: str = "auto",
) -> Posterior:
    r"""Pass messages weighted by how often their factor is in a random spanning tree.

    With :math:`\rho_f` the probability of factor f in a distribution over forests of factors,

    .. math::

        \nu_{f \to v}(x_v) \leftarrow \log \sum_{x_{C \setminus v}} \exp\Big(\tfrac{1}{\rho_f}\log\Psi_f(x_C)
        + \sum_{u \in f \setminus v} \mu_{u \to f}(x_u)\Big), \qquad
        \mu_{u \to f} = \log\Phi_u + \sum_{g \ni u} \rho_g \nu_{g \to u} - \nu_{f \to u} .

    A fixed point is the minimum of a convex free energy, and its value is at least log Z: the field is an average of
    forests, and log Z is convex. On a forest it is exact; :math:`\rho = 1` everywhere is loopy belief propagation.

    The bound holds before convergence too. Messages split the field among the forests however they stand; with
    :math:`b_v, b_f` the beliefs that they give and :math:`z_v, z_f` their log normalisers,

    .. math::

        \log Z \le \sum_v z_v + \sum_f \rho_f \Big(z_f - \sum_{v \in f} z_v + \max_{v \in f, x_v}
        \log \frac{\sum_{x_{C \setminus v}} b_f(x_C)}{b_v(x_v)}\Big),

    as each factor of a forest, summed out towards the root, leaves at most that ratio. It is 1 at a fixed point.

    Parameters
    ----------
    field
        The field. If variables have counts, `weights` is needed.
    weights
        A vector of weights for each group of factors, or "transitive" (see `transitive_weights`). By default the
        uniform spanning tree of pairwise factors (effective resistances, exact), and for factors of higher arity the
        average of random maximal forests that cover each factor. Observed variables are left out first.
    optimise
        Steps of conditional gradient on the weights: towards the forest of highest mutual information, as far as the
        bound goes down (Wainwright, Jaakkola and Willsky 2005, section 5). Each costs a few runs.
    samples, seed
        Random forests that are averaged, at least (100 by default, fewer in fields of more than 100,000 factors, where
        each takes long and all are alike); of their order.
    schedule, damping, tolerance, max_iterations, messages, backend
        As of `loopy_bp`. By default sequential in small fields on the CPU, which takes half the iterations, and
        parallel elsewhere, whose iterations are much quicker; with a damping of 0.1, as undamped ones may oscillate.
    temperature
        1 is sum-product, 0 max-product; see `map_state` for the latter.

    Returns
    -------
    Posterior
        Guarantee "upper bound", "exact" on a forest that converged; "estimate" for given weights that were not found to
        be dominated by a forest average. ``extra["weights"]`` holds the weights, ``trace["bound"]`` the bound after
        each step of optimisation.

    Notes
    -----
    An iteration costs what one of `loopy_bp` does; the weights about a sparse Cholesky factorisation of the graph.

    References
    ----------
    Wainwright, Jaakkola and Willsky (2005), A new class of upper bounds on the log partition function.
    Kolmogorov (2006), Convergent tree-reweighted message passing for energy minimization.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [2, 0]], [agree] * 3)
    >>> posterior = tree_reweighted(field)
    >>> posterior.guarantee, posterior.log_partition > np.log(28)
    ('upper bound', tensor([True]))
    """
    check_least(0, optimise=optimise, seed=seed)
    check_least(1, samples=1 if samples is None else samples)
    if temperature not in (0, 1):
        raise InputError(f"the temperature of tree_reweighted is 1 or 0 (max-product), got {temperature}")
    rho, guarantee = _weights(field, weights, samples, seed)
    options: dict[str, Any] = {
        "maximise": temperature == 0,
        **_schedule(field, schedule, damping, backend),
        "tolerance": tolerance,
        "max_iterations": max_iterations,
        "backend": backend,
    }
    passing, outcome = propagate(field, weights=rho, messages=messages, **options)
    bounds = [upper_bound(passing, outcome.state)]
    if optimise and field.groups and guarantee == "upper bound" and temperature == 1 and field.is_ground:
        passing, outcome, bounds = _conditional_gradient(passing, outcome, bounds[0], optimise, options)
    marginals, factors = passing.beliefs(outcome.state)
    converged = bool(outcome.converged.all())
    exact = converged and temperature == 1 and field.is_forest and guarantee == "upper bound"
    if exact:
        # Logarithms of what is all but impossible may not have arrived: the bound holds, but it is not tight yet.
        value = negative_free_energy(field, marginals, factors, passing.weights)
        exact = bool(agree(value, bounds[-1], 1e-4 if field.dtype != torch.float64 else 1e-6).all())
    return Posterior.of(
        outcome,
        field,
        "tree_reweighted",
        (marginals, factors),
        bounds[-1],
        "exact" if exact else guarantee,
        status=outcome.describe(tolerance, REMEDY),
        trace={"residual": outcome.trace, "bound": [float(bound.detach().sum()) for bound in bounds]},
        extra={"messages": outcome.state, "weights": passing.weights},
    )


@MAP_METHODS.register("tree_reweighted")
def map_state(field: FactorGraph, **options: Any) -> MapState:
    r"""Decode tree-reweighted max-product: the best state of each variable, and an upper bound on the best value.

    .. math::

        \hat x_v = \arg\max_{x_v} \log\Phi_v(x_v) + \sum_{f \ni v} \rho_f \nu_{f \to v}(x_v), \qquad
        \text{value}(\hat x) \le \max_x \text{value}(x) \le \text{bound},

    the messages and the bound those of `tree_reweighted` with maxima in place of sums. Where they do not agree, a
    search goes on from there and from assignments that no hard zero forbids, by simulated annealing with forests of
    variables. Guarantee: where value and bound agree the assignment is certified to be the best one ("exact");
    otherwise the value is a lower bound. "Agree" is within 1e-8 of their size (1e-4 in single precision).

    Parameters
    ----------
    field
        The field.
    options
        As of `tree_reweighted`, without the temperature, and with a smaller tolerance.

    Returns
    -------
    MapState
        A state for each variable, the value and the upper bound of each graph.

    Notes
    -----
    Costs what `tree_reweighted` does, and a few hundred sweeps of Gibbs sampling.

    References
    ----------
    Kolmogorov (2006), Convergent tree-reweighted message passing for energy minimization.
    Kirkpatrick, Gelatt and Vecchi (1983), Optimization by simulated annealing.
    Hamze and de Freitas (2004), From fields to trees.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1], [1, 2], [2, 0], [0]], [np.eye(2)] * 3 + [np.array([0.0, 0.1])])
    >>> best = map_state(field)
    >>> best.assignment.tolist(), best.guarantee
    ([1, 1, 1], 'exact')
    """
    if options.pop("temperature", 0) != 0:
        raise InputError("the most likely assignment is found at temperature 0: leave out the temperature")
    single = field.dtype != torch.float64
    options.setdefault("tolerance", 1e-6 if single else 1e-11)
    posterior = tree_reweighted(field, temperature=0, **options)
    assignment = padded(field, posterior.log_marginals, -math.inf).argmax(1)
    bound = posterior.log_partition if posterior.guarantee == "upper bound" else None
    return improved(field, [assignment], posterior.log_marginals, bound=bound, status=posterior.status)


def upper_bound(passing: MessagePassing, messages: Float[Tensor, " messages"]) -> Float[Tensor, " graphs"]:
    """Evaluate the bound that any messages give, graph by graph; see `tree_reweighted`.

    In double precision, as a bound from rounded sums over a large graph would be none.
    """
    if passing.field.dtype != torch.float64:
        return upper_bound(_in_double(passing), messages.double()).to(passing.field.dtype)
    field, maximise = passing.field, passing.maximise
    totals = passing.totals(messages)
    cavities = passing.cavities(messages, totals)
    log_belief, norm = normalise_segments(totals, field.state_ptr, maximise)
    impossible = norm == -math.inf
    norm = torch.where(impossible, 0.0, norm)
    value = field.log_constant.double().index_add(0, field.variable_graph, field.counts * norm)
    dead = torch.zeros_like(value).index_add(0, field.variable_graph, impossible.to(value))
    for number, group in enumerate(field.groups):
        joint = passing.joint(number, cavities)
        axes = list(range(1, group.arity + 1))
        top = _reduced(joint, axes, maximise)
        empty = top == -math.inf
        top = torch.where(empty, 0.0, top)
        excess = torch.zeros_like(top)
        for port in range(group.arity):
            own = _reduced(joint, [axis for axis in axes if axis != port + 1], maximise) - top[:, None]
            states = torch.arange(group.states[port], device=field.device)
            belief = log_belief[field.state_ptr[group.scopes[:, port], None] + states]
            ratio = torch.where(own == -math.inf, -math.inf, own - torch.where(own == -math.inf, 0.0, belief))
            excess = torch.maximum(excess, ratio.amax(1))
        term = top - norm[group.scopes].sum(1) + excess
        weight = group.count if passing.weights is None else group.count * passing.weights[number]
        owner = field.variable_graph[group.scopes[:, 0]]
        value = value.index_add(0, owner, weight * term)
        dead = dead.index_add(0, owner, empty.to(value))
    return torch.where(dead > 0, -math.inf, value)


def _in_double(passing: MessagePassing) -> MessagePassing:
    field = passing.field
    tables = [group.log_tables.double() for group in field.groups]
    weights = passing.weights if passing.weights is None else tuple(w.double() for w in passing.weights)
    return MessagePassing(field.with_potentials(field.log_unary.double(), tables), weights, passing.maximise)


def _schedule(field: FactorGraph, schedule: str, damping: float | None, backend: str) -> dict[str, Any]:
    """Choose what converges soonest on the back end at hand."""
    if schedule == "auto":
        small = field.wiring.message_state.shape[0] <= LARGEST_SEQUENTIAL
        schedule = "sequential" if small and field.device.type == "cpu" and backend != "torch" else "parallel"
    return {"schedule": schedule, "damping": 0.1 if damping is None else damping}


def _reduced(joint: Tensor, axes: list[int], maximise: bool) -> Tensor:
    return joint.amax(axes) if maximise else torch.logsumexp(joint, axes)


def _weights(
    field: FactorGraph, weights: Sequence[Tensor] | str | None, samples: int | None, seed: int
) -> tuple[tuple[Tensor, ...], Guarantee]:
    """Return the weights, and what the bound with them is."""
    if weights is None:
        return tree_weights(field, samples=samples, seed=seed), "upper bound"
    if isinstance(weights, str):
        if weights != "transitive":
            raise InputError(f"weights are vectors or 'transitive', got {weights!r}")
        return transitive_weights(field), "upper bound"
    given = check_weights(field, weights)
    if not field.is_ground:
        return given, "estimate"
    known = tree_weights(field, samples=samples, seed=seed)
    below = all(bool((a <= b * (1 + 1e-6)).all()) for a, b in zip(given, known, strict=True))
    return given, "upper bound" if below else "estimate"


def _conditional_gradient(
    passing: MessagePassing, outcome: Outcome[Tensor], bound: Tensor, steps: int, options: dict[str, Any]
) -> tuple[MessagePassing, Outcome[Tensor], list[Tensor]]:
    """Move the weights towards the best forest, graph by graph as far as the bound goes down."""
    field = passing.field
    free = FreeScopes.of(field)
    owner = field.wiring.factor_graph
    bounds = [bound]
    for step in range(steps):
        assert passing.weights is not None
        now = torch.cat(passing.weights) * torch.cat([group.count for group in field.groups])
        forest = torch.from_numpy(free.best_forest(_information(passing, outcome.state).cpu().numpy())).to(
            now
        )
        length = torch.full_like(bound, 2 / (step + 3))
        for _ in range(6):
            moved = now + length[owner] * (forest - now)
            weights = as_weights(field, free, moved.double().cpu().numpy())
            next_passing, next_outcome = propagate(field, weights=weights, messages=outcome.state, **options)
            next_bound = upper_bound(next_passing, next_outcome.state)
            worse = next_bound > bounds[-1]
            if not bool(worse.any()):
                passing, outcome = next_passing, next_outcome
                bounds.append(next_bound)
                break
            length = torch.where(worse, length / 4, length)
        else:
            break
    return passing, outcome, bounds


def _information(passing: MessagePassing, messages: Tensor) -> Tensor:
    """Return the mutual information of the variables of each factor: the slope of the bound in its weight."""
    marginals, factors = passing.beliefs(messages)
    own = entropy_of_states(passing.field, marginals)
    parts = []
    for group, belief in zip(passing.field.groups, factors, strict=True):
        parts.append(own[group.scopes].sum(1) - entropy(belief, list(range(1, group.arity + 1))))
    return torch.cat(parts)
