"""Loopy belief propagation: sum-product and max-product, one code."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.messages.free_energy import evaluate
from hiddenfield.inference.messages.loops import Ports, make_scratch, port_message, total_of
from hiddenfield.inference.messages.passing import MessagePassing, MessagePlan
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import (
    CONTRADICTION,
    MAP_METHODS,
    METHODS,
    Guarantee,
    MapState,
    Posterior,
    padded,
)
from hiddenfield.inference.sampling.search import improved
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.ops.dispatch import FLOATS
from hiddenfield.shapes import Array, Float, Int, Tensor

REMEDY = "try damping=0.5, schedule='residual', or method 'double_loop', which always converges"

MAP_REMEDY = (
    "try damping=0.5 or schedule='residual', or method 'auto', which searches as long as time_limit allows"
)


@METHODS.register(
    guarantee="exact on forests, else an estimate",
    reference="Pearl 1988",
    unrolls=True,
    use="large fields with weak or mixed couplings; the fastest",
)
def loopy_bp(
    field: FactorGraph,
    *,
    schedule: str = "parallel",
    damping: float = 0.0,
    temperature: float = 1.0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    messages: Float[Tensor, " messages"] | None = None,
    backend: str = "auto",
) -> Posterior:
    r"""Pass messages between factors and variables until they settle.

    .. math::

        \nu_{f \to v}(x_v) \leftarrow \log \sum_{x_{C \setminus v}} \exp\Big(\log\Psi_f(x_C)
        + \sum_{u \in f \setminus v} \mu_{u \to f}(x_u)\Big), \qquad
        \mu_{u \to f} = \log \Phi_u + \sum_{g \ni u,\, g \ne f} \nu_{g \to u}

    Fixed points are the stationary points of Bethe's free energy; `log_partition` is its value. Exact on a forest;
    elsewhere an estimate, not a bound, and "converged" does not mean accurate: strongly attractive fields converge to
    one of several symmetry-broken points. On pairwise discrete fields expectation propagation with fully factorised
    approximations is the same update.

    Parameters
    ----------
    field
        The field; with counts, the update runs at template level.
    schedule
        "parallel": all messages from all old ones, on several threads. "sequential": one message after another, inwards
        to the first variable of each part and back outwards: on a forest exact after one iteration, elsewhere it needs
        a fraction of the iterations. "residual": always the message that would change most, by a priority queue
        (Elidan, McGraw and Koller 2006): settles where the others do not. The last two run on the CPU.
    damping
        Weight of the old log message, in [0, 1). None on a forest, where undamped messages settle exactly.
    temperature
        1 is sum-product. 0 is max-product: `log_marginals` are max-marginals (best value 0) and `log_partition` is the
        value of the decoded assignment, ``extra["assignment"]``. Otherwise sum-product on potentials divided by it.
    tolerance, max_iterations
        Of the largest change of a message's probabilities in one undamped update, and of the largest difference
        between a factor's belief about a variable and the variable's own.
    messages
        Where to start, for example ``posterior.extra["messages"]``; uniform by default.
    backend
        "numba", "torch" or "auto".

    Returns
    -------
    Posterior
        Guarantee "exact" on a forest that converged, otherwise "estimate".

    Notes
    -----
    One iteration costs, for each factor, its arity times the size of its table. The residual schedule looks, after each
    message, at all others of the variable that it reached: d factors at a variable cost d squared. Messages of a large
    batch on the CPU are passed in pieces that fit the cache, each to its own end.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> agree = np.log([[2.0, 1.0], [1.0, 2.0]])
    >>> field = from_factors([[0, 1], [1, 2], [0]], [agree, agree, np.log([0.9, 0.1])])
    >>> posterior = loopy_bp(field)
    >>> posterior.guarantee, posterior.marginals[2]
    ('exact', tensor([0.5444, 0.4556], dtype=torch.float64))

    The worked example of a lecture: states A and B of weight 2 and 1, two neighbours that each send the same message,
    :math:`1 \cdot 2 + 3 \cdot 1 = 5` to A and :math:`2 \cdot 2 + 4 \cdot 1 = 8` to B, to a variable whose
    belief is therefore :math:`2 \cdot 5 \cdot 5` to :math:`1 \cdot 8 \cdot 8`.

    >>> weight, step = np.log([2.0, 1.0]), np.log([[1.0, 2.0], [3.0, 4.0]])
    >>> field = from_factors([[0], [1], [2], [0, 2], [1, 2]], [weight, weight, weight, step, step])
    >>> posterior = loopy_bp(field)
    >>> messages = posterior.extra["messages"].exp().reshape(4, 2)
    >>> 13 * messages[2:]  # to the second ports, normalised to sum to 1
    tensor([[5., 8.],
            [5., 8.]], dtype=torch.float64)
    >>> (50 + 64) * posterior.marginals[2]
    tensor([50., 64.], dtype=torch.float64)
    """
    if not 0 <= temperature < math.inf:
        raise InputError(f"the temperature must be finite and not negative, got {temperature}")
    maximise = temperature == 0
    scaled = field if temperature in (0, 1) else _scaled(field, 1 / temperature)
    passing, outcome = propagate(
        scaled,
        maximise=maximise,
        schedule=schedule,
        damping=damping,
        tolerance=tolerance,
        max_iterations=max_iterations,
        messages=messages,
        backend=backend,
    )
    extra: dict[str, Any] = {"messages": outcome.state}
    if maximise:
        marginals, factors = passing.beliefs(outcome.state)
        extra["assignment"], value = _decoded(passing, outcome.state, marginals)
    else:
        marginals, factors, value = evaluate(passing, outcome.state)
        value = temperature * value
    converged = bool(outcome.converged.all())
    guarantee: Guarantee = "exact" if converged and not maximise and field.is_forest else "estimate"
    told = {
        "status": outcome.describe(tolerance, MAP_REMEDY if maximise else REMEDY),
        "trace": {"residual": outcome.trace},
        "extra": extra,
    }
    return Posterior.of(outcome, field, "loopy_bp", (marginals, factors), value, guarantee, **told)


@MAP_METHODS.register("loopy_bp")
def map_state(field: FactorGraph, **options: Any) -> MapState:
    r"""Decode max-product belief propagation: states are chosen one after another, each given those before it.

    .. math::

        \hat x_v = \arg\max_{x_v} \log\Phi_v(x_v) + \sum_{f \ni v} \max_{x_u,\; u \text{ not yet chosen}} \Big(
        \log\Psi_f(x_C) + \sum_u \mu_{u \to f}(x_u)\Big),

    with the messages of `loopy_bp` at temperature 0. Guarantee: exact on a forest, also where several assignments are
    best. Elsewhere a search goes on from there and from assignments that no hard zero forbids, by simulated annealing
    with forests of variables, and the value is a lower bound on the best one.

    Parameters
    ----------
    field
        The field.
    options
        As of `loopy_bp`, without the temperature.

    Returns
    -------
    MapState
        A state for each variable, and the value of each graph.

    Notes
    -----
    Costs what `loopy_bp` does; decoding about one iteration, the search a few hundred sweeps of Gibbs sampling.

    References
    ----------
    Pearl (1988), Probabilistic reasoning in intelligent systems.
    Kirkpatrick, Gelatt and Vecchi (1983), Optimization by simulated annealing.
    Hamze and de Freitas (2004), From fields to trees.

    Examples
    --------
    Two variables that differ: each state of either is as good as the other, but not each pair of them.

    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> map_state(from_factors([[0, 1]], [np.log([[1.0, 2.0], [2.0, 1.0]])])).assignment
    tensor([0, 1])
    """
    if options.pop("temperature", 0) != 0:
        raise InputError("the most likely assignment is found at temperature 0: leave out the temperature")
    posterior = loopy_bp(field, temperature=0, **options)
    assignment = posterior.extra["assignment"]
    if field.is_forest and field.is_ground and bool(posterior.converged.all()):
        value = posterior.log_partition
        status = CONTRADICTION if bool((value == -math.inf).any()) else posterior.status
        return MapState(assignment, value, "exact", value, status)
    return improved(field, [assignment], posterior.log_marginals, status=posterior.status)


def _decoded(
    passing: MessagePassing, messages: Tensor, marginals: Tensor
) -> tuple[Int[Tensor, " variables"], Float[Tensor, " graphs"]]:
    """Return in each graph the better of two assignments, chosen in turn and each variable by itself."""
    field = passing.field
    assignment = decode(passing, messages)
    value = field.log_value(assignment)
    if field.is_forest:
        return assignment, value
    alone = padded(field, marginals, -math.inf).argmax(1)
    better = field.log_value(alone) > value
    assignment = torch.where(better[field.variable_graph], alone, assignment)
    return assignment, field.log_value(assignment)


def _scaled(field: FactorGraph, factor: float) -> FactorGraph:
    given = [field.log_unary, *(group.log_tables for group in field.groups)]
    scaled = [factor * logs for logs in given]
    if not all(
        bool((new.isfinite() | (old == -math.inf)).all()) for old, new in zip(given, scaled, strict=True)
    ):
        raise InputError(
            f"log potentials divided by a temperature of {1 / factor:.3g} are not finite; temperature=0 is max-product"
        )
    return dataclasses.replace(
        field.with_potentials(scaled[0], scaled[1:]), log_constant=factor * field.log_constant
    )


def decode(passing: MessagePassing, messages: Float[Tensor, " messages"]) -> Int[Tensor, " variables"]:
    r"""Choose states one variable after another, each given those before it.

    From the first variable of each part outwards, variable v takes

    .. math::

        x_v = \arg\max \; \log\Phi_v(x_v) + \sum_{f \ni v} \max_{x_u,\; u \text{ not yet chosen}} \Big(
        \log\Psi_f(x_{C_f}) + \sum_u \mu_{u \to f}(x_u)\Big).

    On a forest, from messages that have settled, the assignment is a most likely one, also where several are. Elsewhere
    it never breaks a hard constraint with the variables chosen before while there is a state that does not.

    Cost: about one sweep of all messages. Runs on the CPU, wherever the messages are.
    """
    field = passing.field
    dtype = field.dtype if field.dtype in FLOATS else torch.float32
    if field.device.type != "cpu" or field.dtype != dtype:
        passing = MessagePassing(field.to("cpu", dtype), maximise=True)
    plan = MessagePlan(passing)
    plan.ports.messages[:] = as_array(messages.detach().to("cpu", dtype))
    assignment = np.zeros(field.num_variables, np.int64)
    scores = np.empty(int(field.cardinalities.max()) if field.num_variables else 0, plan.log_unary.dtype)
    order = np.argsort(plan.depths[0], kind="stable")
    work = 16 * len(plan.ports.messages)
    choose_in_turn(plan.ports._replace(maximise=True), order, scores, assignment, work=work)
    return torch.from_numpy(assignment).to(field.device)


@compiled(watched=True)
def choose_in_turn(stop: Array, ports: Ports, order: Array, scores: Array, assignment: Array) -> None:
    """Write the states that variables choose in the given order, each by messages that know the choices before it."""
    stop[1] = 1
    scratch = make_scratch(ports)
    for variable in range(order.size):
        total_of(variable, ports)
    for variable in order:
        if stop[0]:
            return
        first, end = ports.state_ptr[variable], ports.state_ptr[variable + 1]
        for state in range(end - first):
            scores[state] = ports.log_unary[first + state]
        for at in range(ports.variable_ptr[variable], ports.variable_ptr[variable + 1]):
            port = ports.variable_port[at]
            port_message(port, ports, scratch)
            for state in range(end - first):
                scores[state] += ports.port_weight[port] * scratch.out[state]
                ports.messages[ports.port_ptr[port] + state] = (
                    0  # nothing is left out of what it sends from now on
                )
        best = 0
        for state in range(end - first):
            if scores[state] > scores[best]:
                best = state
        assignment[variable] = best
        for state in range(end - first):
            ports.totals[first + state] = 0 if state == best else -np.inf
