"""Exact inference on a relaxed field, in which some variables are cut into copies that messages keep in agreement."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from functools import cached_property

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_order import (
    EliminationOrder,
    Split,
    elimination_order,
    split_variables,
)
from hiddenfield.fields.layout import flat_tables
from hiddenfield.inference.cliques.messages import collect_messages, distribute_messages
from hiddenfield.inference.cliques.plan import CliquePlan, clique_plan, live_graph
from hiddenfield.inference.exact import marginals_to_posterior
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.iteration import check_damping, check_least, iterate
from hiddenfield.limits import OutOfTimeError
from hiddenfield.ops.compile import as_array
from hiddenfield.ops.equal_rows import ranges
from hiddenfield.shapes import Array, Float, Tensor

FLOOR = -600.0
"""The least log message: what has no support elsewhere stays just above zero, so that nothing is divided by it."""

PATIENCE = 20
"""Iterations without damping."""

LIMIT = 60.0
"""Log2 of the states of a clique at which an elimination order is good enough for cutting."""

REMEDY = "raise max_iterations or log2_states, or set damping=0.5"


@METHODS.register(
    guarantee="exact where nothing is cut, else an estimate",
    reference="Choi & Darwiche 2010",
    use="where `exact` is too expensive: it takes all the time that there is, and comes close",
)
def relaxed(
    field: FactorGraph,
    *,
    log2_states: float = 16.0,
    damping: float = 0.0,
    tolerance: float = 1e-5,
    max_iterations: int = 200,
) -> Posterior:
    r"""Cut variables into copies until exact inference is cheap, then make the copies agree.

    Every copy i of a variable has a message :math:`\theta_i` from the others. With :math:`p_i` its marginal in the
    relaxed field, which is computed exactly,

    .. math::

        \lambda_i = p_i / \theta_i, \qquad \theta_i \leftarrow \prod_{j \ne i} \lambda_j, \qquad
        p(x) \propto \prod_j \lambda_j(x), \qquad
        \log Z = \log Z_\theta + \sum_v \log \sum_x \prod_j \lambda_j(x)

    Belief propagation between the copies alone, with everything else summed exactly: with all variables cut it is
    `loopy_bp`, with none `exact`. Where to cut follows from an elimination order by mini-buckets (`split_variables`).

    Parameters
    ----------
    field
        The field, variable counts 1.
    log2_states
        Log2 of the joint states of the largest clique; each step of 1 doubles time and memory and saves some cuts.
    damping
        Weight of the old log message, in [0, 1); at least 0.5 after 20 iterations.
    tolerance, max_iterations
        Of the largest difference between the marginals of copies; iterations, each one exact inference.

    Returns
    -------
    Posterior
        Guarantee "exact" where no variable had to be cut; ``extra`` has the number of copies and of the joint states
        of all cliques.

    Notes
    -----
    An iteration costs what `exact` does on cliques within the bound.

    References
    ----------
    Choi and Darwiche (2006), An edge deletion semantics for belief propagation and its practical impact on
    approximation quality. Choi and Darwiche (2010), Relax, compensate and then recover. Dechter and Rish (2003),
    Mini-buckets: a general scheme for bounded inference.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = relaxed(ising_grid(6, 6, 0.3, 0.1), log2_states=4)
    >>> posterior.extra["copies"], posterior.status, round(float(posterior.log_partition), 3)
    (12, 'converged', 28.428)
    >>> relaxed(ising_grid(6, 6, 0.3, 0.1)).guarantee
    'exact'
    """
    check_damping(damping)
    check_least(1, max_iterations=max_iterations)
    if not log2_states >= 0:
        raise InputError(f"log2_states must not be negative, got {log2_states}")
    if not field.is_ground:
        raise InputError("variables are cut into copies one by one; a field with variable counts has none")
    cuts = Cuts(field)
    return cuts.solve(
        cuts.split(log2_states), damping=damping, tolerance=tolerance, max_iterations=max_iterations
    )


class Cuts:
    """What all relaxations of a field share: its live states and an elimination order, given or sought."""

    def __init__(self, field: FactorGraph, found: EliminationOrder | None = None) -> None:
        self.field = field.to("cpu", torch.float64).detach()
        self.device, self.given = field.device, field
        _, alive_ptr, graph = live_graph(self.field, flat_tables(self.field))
        self.states = np.diff(alive_ptr)
        self.found = elimination_order(graph, "best", limit=LIMIT) if found is None else found

    @cached_property
    def order(self) -> list[int]:
        """All variables, those beyond a clique that is too large in the order of their numbers."""
        left = np.setdiff1d(np.arange(self.field.num_variables), self.found.order)
        return [*self.found.order.tolist(), *left.tolist()]

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The variables of every factor."""
        return [scope for group in self.field.groups for scope in group.scopes.tolist()]

    def split(self, log2_states: float) -> Split:
        """Cut variables so that no clique has more than so many joint states."""
        return split_variables(self.scopes, self.states, self.order, log2_states)

    def solve(
        self,
        split: Split,
        *,
        damping: float = 0.0,
        tolerance: float = 1e-5,
        max_iterations: int = 200,
        max_memory: float | None = None,
    ) -> Posterior:
        """Run belief propagation between the copies; at the end of a time limit, the last iteration is the result."""
        copies = Copies(self.field, split, max_memory)
        last: list[tuple[Array, Array, Tensor]] = []

        def step(theta: Array) -> tuple[Array, Tensor]:
            new, log_partition, probabilities, residual = copies.update(theta)
            last[:] = [(log_partition, probabilities, residual)]
            steps[0] += 1
            weight = damping if steps[0] <= PATIENCE else max(damping, 0.5)
            return weight * theta + (1 - weight) * new, residual

        steps, outcome = [0], None
        with contextlib.suppress(OutOfTimeError):
            outcome = iterate(step, copies.start, tolerance=tolerance, max_iterations=max_iterations)
        if not last:
            raise OutOfTimeError("not one iteration ended within the time limit; take smaller cliques")
        log_partition, probabilities, residual = last[0]
        converged = residual <= tolerance
        posterior = marginals_to_posterior(
            self.given,
            torch.from_numpy(log_partition).to(self.device),
            torch.from_numpy(probabilities).to(self.device),
            {
                "copies": len(split.original),
                "treewidth": split.order.width,
                "states": split.order.total_states,
            },
        )
        exact = not len(split.original)
        status = posterior.status
        if outcome is None:
            status = (
                f"stopped by the time limit after {steps[0]:,} iterations (residual {residual.max():.2g})"
            )
        elif not exact and posterior.status == "converged":
            status = outcome.describe(tolerance, REMEDY)
        return dataclasses.replace(
            posterior,
            method="relaxed",
            guarantee="exact" if exact else "estimate",
            converged=converged.to(self.device),
            iterations=torch.full_like(posterior.iterations, steps[0]),
            residual=residual.to(self.device, self.given.dtype),
            status=status,
            trace={"residual": [] if outcome is None else outcome.trace},
        )


class Copies:
    """The relaxed field, and the messages between the copies of each variable, packed state by state.

    Parameters
    ----------
    field
        The field, in double precision on the CPU.
    split
        Which factors see which copies.
    max_memory
        Most bytes that it may take.
    """

    def __init__(self, field: FactorGraph, split: Split, max_memory: float | None) -> None:
        self.whole, self.split, self.max_memory = field, split, max_memory
        cards, ptr = as_array(field.cardinalities), as_array(field.state_ptr)
        original = split.original
        begin, groups = 0, []
        for group in field.groups:
            scopes = split.scopes[begin : begin + group.num_factors]
            groups.append(dataclasses.replace(group, scopes=torch.tensor(scopes, dtype=torch.int64)))
            begin += group.num_factors
        # Copies lie behind all variables, whatever their graph: as far as exact inference goes it is all one graph.
        every = np.concatenate([np.arange(field.num_variables), original])
        states, _ = ranges(ptr[every], cards[every])
        self.owner = as_array(field.variable_graph)[every]
        unary = as_array(field.log_unary)[states].copy()
        later = np.arange(len(states)) >= ptr[-1]
        unary[later & (unary > -math.inf)] = 0.0
        self.field = dataclasses.replace(
            field,
            cardinalities=torch.from_numpy(cards[every]),
            log_unary=torch.from_numpy(unary),
            groups=tuple(groups),
            counts=torch.ones(len(every), dtype=torch.float64),
            variable_ptr=torch.tensor([0, len(every)]),
            variable_names=(),
            state_names=(),
        )
        # Members: the copies of all variables that were cut, the variables themselves among them.
        member = np.flatnonzero(np.isin(every, original))
        starts = as_array(self.field.state_ptr)
        self.member, self.bounds = member, np.concatenate([[0], np.cumsum(cards[every[member]])])
        self.place, _ = ranges(starts[member], cards[every[member]])
        hubs, slot = np.unique(states[self.place], return_inverse=True)
        self.hub, self.slot = hubs, slot.reshape(-1)  # packed states of the variables that were cut
        self.hub_variable, begin_hub = np.unique(as_array(field.state_variable)[hubs], return_index=True)
        self.hub_ptr = torch.from_numpy(np.append(begin_hub, len(hubs)))

    @cached_property
    def plan(self) -> CliquePlan:
        """How exact inference goes on it."""
        order, limit = self.split.order, self.max_memory
        return clique_plan(self.field, order=order, max_memory=limit, loose=self.member)

    @property
    def start(self) -> Float[Array, " states"]:
        """Messages that say nothing."""
        return np.zeros(len(self.place))

    def update(self, theta: Float[Array, " states"]) -> tuple[Array, Array, Array, Tensor]:
        """Return the next messages, and what the present ones give: log partition, marginals, residual by graph."""
        field, tables, graphs = self.field, self.plan.tables, self.whole.num_graphs
        unary = as_array(field.log_unary)[self.place] + theta
        segments = self.bounds[:-1]
        if len(segments):
            top = np.maximum.reduceat(unary, segments)
            top[top == -math.inf] = 0.0
            scaled = unary - np.repeat(top, np.diff(self.bounds))
            tables.logs[self.place] = scaled
            tables.top[self.member] = top
            tables.least[self.member] = np.minimum.reduceat(
                np.where(scaled > -math.inf, scaled, 0.0), segments
            )
            self.plan.update()
        collected = collect_messages(field, self.plan, owner=self.owner)
        probabilities = distribute_messages(self.plan, collected)
        log_partition = collected.log_partition
        own = probabilities[self.place]
        dead = own <= 0.0
        with np.errstate(divide="ignore"):
            support = np.where(dead, 0.0, np.log(own) - theta)  # log lambda
        total = np.bincount(self.slot, support, minlength=len(self.hub))
        deaths = np.bincount(self.slot, dead, minlength=len(self.hub))
        new = np.where(deaths[self.slot] - dead > 0, FLOOR, total[self.slot] - support)
        residual = np.zeros(graphs)
        if len(segments):
            new = np.maximum(new - np.repeat(np.maximum.reduceat(new, segments), np.diff(self.bounds)), FLOOR)
            logs = torch.from_numpy(np.where(deaths > 0, -math.inf, total))
            belief, log_sums = map(as_array, normalise_segments(logs, self.hub_ptr))
            belief = np.exp(belief)
            graph = as_array(self.whole.variable_graph)
            log_partition += np.bincount(graph[self.hub_variable], log_sums, minlength=graphs)
            gap = np.maximum.reduceat(np.abs(own - belief[self.slot]), segments)
            np.maximum.at(residual, self.owner[self.member], gap)
            probabilities[self.hub] = belief
        states = len(self.whole.log_unary)
        entries = len(field.log_unary)
        return (
            new,
            log_partition,
            np.concatenate([probabilities[:states], probabilities[entries:]]),
            torch.from_numpy(residual),
        )
