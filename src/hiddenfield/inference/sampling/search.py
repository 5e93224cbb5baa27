"""Search for likely assignments: feasible starts, annealing by forests, exact moves of large sets of variables."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_order import cut_to_width
from hiddenfield.fields.hard_zeros import IMPOSSIBLE, feasible_assignments
from hiddenfield.fields.layout import flat_tables
from hiddenfield.inference.cliques.plan import clique_plan, live_graph
from hiddenfield.inference.exact import run_map_plan
from hiddenfield.inference.posterior import MapState, impossible_status
from hiddenfield.inference.sampling.chains import Chains, softened
from hiddenfield.iteration import part_of
from hiddenfield.limits import OutOfTimeError, seconds_left
from hiddenfield.shapes import Array, Bool, Float, Int, Tensor

CHAINS = 8
"""Assignments that are improved side by side, beside those that are given."""

COOLING = np.concatenate([np.ones(4), np.geomspace(1.0, 50.0, 20), np.full(4, 1e6)])
"""Inverse temperatures of the sweeps of a round; at the last, forests take one of their best states."""

FIRST, MOST = 8.0, 24.0
"""Log2 of the joint states of a clique with which exact moves begin, and with which they end."""

PATIENCE = 5
"""Exact moves in a row that raise no value, after which something else is done."""

NOT_FOUND = (
    "no assignment of positive probability was found, nor a proof that there is none; "
    "try method 'auto' with a longer time_limit, or 'exact'"
)


class Search:
    r"""Assignments of a ground field on their way to higher values.

    Starts are the given assignments and others that no hard zero forbids, found by `feasible_assignments` with a
    preference for states of high max-marginals. A round draws forest after forest of variables from

    .. math:: p(x_T \mid x_{-T})^{\beta}, \qquad \beta = 1, \ldots, \infty,

    which for infinite :math:`\beta` is the best state of the forest given all others, so that a round ends at an
    assignment that the change of no forest improves. Every other round lets hard zeros be broken on the way.

    Parameters
    ----------
    field
        A ground field.
    given
        Assignments, one per row.
    preference
        Log weights of states, for the feasible starts.
    seed
        Everything follows from it.

    References
    ----------
    Kirkpatrick, Gelatt and Vecchi (1983), Optimization by simulated annealing.
    Hamze and de Freitas (2004), From fields to trees.
    Shaw (1998), Using constraint programming and local search methods to solve vehicle routing problems.
    Bidyuk and Dechter (2007), Cutset sampling for Bayesian networks.
    """

    def __init__(
        self,
        field: FactorGraph,
        given: Int[Tensor, "number variables"],
        preference: Float[Tensor, " states"],
        seed: int = 0,
    ) -> None:
        self.device, self.dtype = field.device, field.dtype
        self.field = field.detach().to("cpu", torch.float64)
        likely = preference.detach().to("cpu", torch.float64).nan_to_num(nan=0.0)
        preferred, found = feasible_assignments(self.field, CHAINS // 2, preference=likely, seed=seed)
        others, again = feasible_assignments(self.field, CHAINS // 2, seed=seed + 1)
        starts = torch.cat([given.cpu(), preferred, others])
        self.impossible: Bool[Tensor, " graphs"] = torch.minimum(found, again) == IMPOSSIBLE
        self.chains = Chains.start(
            self.field, len(starts), seed, "trees", (starts, torch.maximum(found, again))
        )
        self.chains = dataclasses.replace(self.chains, potentials=None)
        self.best = starts[0].clone()
        self.value = self.field.log_value(self.best)
        self._keep()
        for _ in range(2):
            self._sweep(COOLING[-1], self.chains.flat.tables)
        self._keep()

    @property
    def improves(self) -> bool:
        """Whether a search can change anything."""
        return len(self.chains.order) > 0 and not bool(self.impossible.all())

    def rounds(self) -> Iterator[None]:
        """Anneal again and again; within a time limit, a round that it interrupts ends with the best states."""
        soft = softened(self.chains.flat.tables)
        number = 0
        while self.improves:
            tables = soft if self.chains.hard and number % 2 else self.chains.flat.tables
            with contextlib.suppress(OutOfTimeError):
                for beta in COOLING:
                    self._sweep(beta if seconds_left() > 0 else COOLING[-1], tables)
                    if seconds_left() <= 0:
                        break
            self._keep()
            number += 1
            yield

    def deepen(self) -> Iterator[None]:
        r"""Take the best states of large sets of variables given all others, again and again.

        .. math:: x_S \leftarrow \arg\max_{x_S} \text{value}(x_S, x_{-S}),

        exactly, with S all variables but a random cutset that leaves cliques of at most :math:`2^b` joint states. No
        move lowers a value. Where many in a row raise none, b grows as long as there is time for it; otherwise
        annealing finds another place to begin from, and the best of all is kept.
        """
        random, annealing = np.random.default_rng(0), self.rounds()
        owner = self.field.state_variable
        state = torch.arange(len(owner)) - self.field.state_ptr[owner]
        graph, every = (
            live_graph(self.field, flat_tables(self.field))[2],
            np.ones(self.field.num_variables, np.int64),
        )
        here, bits, idle = self.best, FIRST, 0
        while self.improves:
            begun, before = seconds_left(), self.field.log_value(here)
            if bool((before == -math.inf).any()):
                idle = PATIENCE
            else:
                fixed, order = cut_to_width(graph, bits, random)
                out = torch.from_numpy(fixed)[owner] & (state != here[owner])
                given = self.field.given(torch.where(out, -math.inf, 0.0).double())
                here = run_map_plan(given, clique_plan(given, stage=every, order=order)).assignment
                value = self.field.log_value(here)
                self._note(here, value)
                idle = 0 if bool((value > before + 1e-9 * before.abs()).any()) else idle + 1
            if idle >= PATIENCE:
                # A step of 2 takes up to four times as long.
                if 4 * PATIENCE * (begun - seconds_left()) < seconds_left() / 4 and bits < MOST:
                    bits, idle = bits + 2, 0
                else:
                    next(annealing, None)
                    chain = int(random.integers(self.chains.number))
                    here = torch.from_numpy(self.chains.state[:, chain].astype(np.int64))
                    bits, idle = max(bits - 4, FIRST), 0
            yield

    def _note(self, assignment: Int[Tensor, " variables"], value: Float[Tensor, " graphs"]) -> None:
        """Keep an assignment in the graphs where it is better."""
        better = value > self.value
        self.best = torch.where(better[self.field.variable_graph], assignment, self.best)
        self.value = torch.where(better, value, self.value)

    def _sweep(self, beta: float, tables: Array) -> None:
        with np.errstate(invalid="ignore"):
            self.chains.run(1, unary=beta * self.chains.flat.log_unary, tables=beta * tables)

    def _keep(self) -> None:
        """Note the best assignment of every graph; chains that stand at an impossible one go there."""
        here = torch.from_numpy(self.chains.state.T.astype(np.int64))
        values = self.field.log_value(here)  # (chains, graphs)
        top, which = values.max(0)
        graph = self.field.variable_graph
        self._note(here[which[graph], torch.arange(self.field.num_variables)], top)
        lost = (values == -math.inf)[:, graph]
        state = torch.where(lost, self.best, here).numpy()
        self.chains.state[:] = state.T.astype(self.chains.state.dtype)


def improved(
    field: FactorGraph,
    assignments: list[Int[Tensor, " variables"]],
    preference: Float[Tensor, " states"],
    *,
    bound: Float[Tensor, " graphs"] | None = None,
    status: str = "converged",
    rounds: float = 2,
) -> MapState:
    """Return the best assignment that a search from decoded ones finds, certified where its value meets the bound.

    In a field whose variables stand for several nothing is searched: the best of the given assignments is returned.
    """
    given = torch.stack(assignments)
    which = field.log_value(given).max(0).indices[field.variable_graph]
    best = given[which, torch.arange(field.num_variables, device=field.device)]
    impossible = torch.zeros(field.num_graphs, dtype=torch.bool, device=field.device)
    if field.is_ground and field.num_variables and seconds_left() > 0:
        with contextlib.suppress(OutOfTimeError):
            search = Search(field, given, preference)
            moves = search.rounds() if math.isfinite(rounds) else search.deepen()
            done = 0
            with contextlib.suppress(OutOfTimeError):
                while done < rounds and seconds_left() > 0:
                    if bound is not None and bool(meets(search.value, bound.cpu(), search.dtype).all()):
                        break
                    if next(moves, moves) is moves:
                        break
                    done += 1
            best, impossible = search.best.to(search.device), search.impossible.to(search.device)
    return judged(field, best, bound, impossible, status)


def judged(
    field: FactorGraph,
    assignment: Int[Tensor, " variables"],
    bound: Float[Tensor, " graphs"] | None,
    impossible: Bool[Tensor, " graphs"],
    status: str,
) -> MapState:
    """Say what an assignment is worth: the best, or at a distance from the bound, or none at all."""
    value = field.log_value(assignment)
    if bound is None:
        certified = impossible
    else:
        bound = torch.where(impossible, -math.inf, torch.maximum(bound, value))
        certified = impossible | meets(value, bound, field.dtype)
    if bool(impossible.any()):
        status = impossible_status(impossible)
    elif bool((value == -math.inf).any()):
        status = f"{part_of(value == -math.inf)} {NOT_FOUND}".strip()
    elif bound is not None and bool(certified.all()):
        status = "certified: value and upper bound agree"
    return MapState(assignment, value, "exact" if bool(certified.all()) else "lower bound", bound, status)


def meets(
    value: Float[Tensor, " graphs"], bound: Float[Tensor, " graphs"], dtype: torch.dtype
) -> Bool[Tensor, " graphs"]:
    """Tell whether values come up to their bounds, within 1e-8 of their size (1e-4 in single precision)."""
    return agree(value, bound, 1e-8 if dtype == torch.float64 else 1e-4) & (value > -math.inf)


def agree(
    value: Float[Tensor, " graphs"], bound: Float[Tensor, " graphs"], slack: float
) -> Bool[Tensor, " graphs"]:
    """Tell whether values come up to their bounds, within a share of their size."""
    return (value == bound) | (bound - value <= slack * bound.abs().clamp(min=1))
