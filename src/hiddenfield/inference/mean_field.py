"""Naive mean field: the best product of independent marginals, a lower bound on the log partition."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import IMPOSSIBLE, feasible_assignments, has_hard_zeros
from hiddenfield.fields.layout import FlatField, flatten
from hiddenfield.inference.messages.free_energy import negative_free_energy
from hiddenfield.inference.messages.loops import normalise
from hiddenfield.inference.messages.passing import largest, normalise_segments
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.sampling.chains import colour_variables
from hiddenfield.iteration import Outcome, check_damping, check_least, iterate
from hiddenfield.ops import gather_sum, segment_max, segment_sum
from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import use_compiled
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


EVIDENCE = 1e9
"""Broken factors that a state which a variable's own potential excludes counts for: evidence comes first."""


FLOOR = -50.0
"""Log probability that a zero counts as where an old marginal is mixed with a new one."""


def self_coupled(field: FactorGraph) -> bool:
    """Whether a factor names one variable twice, as it may in a field with counts."""
    return any(bool((group.scopes.sort(1).values.diff(dim=1) == 0).any()) for group in field.groups)


@dataclass(frozen=True, eq=False)
class ProductUpdate:
    """A sweep of updates over all variables; see `hiddenfield.inference.mean_field`.

    Parameters
    ----------
    field
        The field.
    parallel
        All variables from all old marginals, instead of one after another.
    damping
        Weight of the old log marginal.
    flat
        The field as the compiled loops read it; None runs torch.
    colours
        Masks over the states, one row per colour, for sequential torch.
    """

    field: FactorGraph
    parallel: bool
    damping: float
    flat: FlatField | None
    colours: Tensor | None

    @classmethod
    def make(cls, field: FactorGraph, schedule: str, damping: float, backend: str) -> ProductUpdate:
        """Choose the back end and prepare what it needs."""
        parallel = schedule == "parallel"
        if use_compiled(field.log_unary.detach(), backend=backend, converts=True):
            return cls(field, parallel, damping, flatten(field), None)
        if parallel:
            return cls(field, parallel, damping, None, None)
        colour = colour_variables(field).to(field.device)
        number = int(colour.max()) + 1 if len(colour) else 0
        masks = colour[field.state_variable] == torch.arange(number, device=field.device)[:, None]
        return cls(field, parallel, damping, None, masks)

    @cached_property
    def tables(self) -> list[tuple[Tensor, Tensor | None]]:
        """For torch, the tables of every group without their zeros, and where these are if there are any."""
        found = []
        for group in self.field.groups:
            table = group.expanded()
            hard = table == -math.inf
            zeros = hard.to(table) if bool(hard.any()) else None
            found.append((torch.where(hard, torch.zeros_like(table), table), zeros))
        return found

    @cached_property
    def any_hard(self) -> bool:
        """Whether a table has a zero."""
        return any(hard is not None for _, hard in self.tables)

    @property
    def monotone(self) -> bool:
        """Whether the bound is known after each sweep, and never falls."""
        return not self.parallel

    def sweep(
        self, log_q: Float[Tensor, " states"], damping: Float[Tensor, " graphs"]
    ) -> tuple[Float[Tensor, " states"], Float[Tensor, " graphs"], Float[Tensor, " graphs"]]:
        """Update every variable once; return log marginals, and each graph's largest change and gain of the bound."""
        keep = damping + (1 - damping) * self.damping
        if self.flat is not None:
            return self._sweep_loop(self.flat, log_q, keep)
        here = keep[self.field.variable_graph[self.field.state_variable]]
        if self.colours is None:
            target = self.target(log_q)
            new = _mixed(self.field, log_q, target, here)
            return new, self._change(log_q, target), torch.zeros_like(keep)
        old, gain = log_q, torch.zeros_like(keep)
        for mask in self.colours:
            new = torch.where(mask, _mixed(self.field, log_q, self.target(log_q), here), log_q)
            gain = gain + self._gain(log_q, new)
            log_q = new
        return log_q, self._change(old, log_q), gain

    def residual(self, log_q: Float[Tensor, " states"]) -> Float[Tensor, " graphs"]:
        """Return for each graph how far the marginals are from solving their equations."""
        return self._change(log_q, self.target(log_q)).detach()

    def target(self, log_q: Float[Tensor, " states"]) -> Float[Tensor, " states"]:
        """Return the best marginal of every variable given all others, in torch."""
        field = self.field
        q = log_q.exp()
        never = field.log_unary == -math.inf
        value, broken = [], []
        for group, (finite, hard) in zip(field.groups, self.tables, strict=True):
            weight = field.multiplicity(group)
            blocks = [
                q[field.state_ptr[group.scopes[:, port], None] + torch.arange(states, device=field.device)]
                for port, states in enumerate(group.states)
            ]
            for port in range(group.arity):
                value.append((weight[:, port, None] * _expected(finite, blocks, port)).reshape(-1))
                if hard is not None:
                    broken.append((weight[:, port, None] * _expected(hard, blocks, port)).reshape(-1))
                elif self.any_hard:
                    broken.append(torch.zeros_like(value[-1]))
        score = torch.where(never, torch.zeros_like(field.log_unary), field.log_unary)
        violation = never * EVIDENCE
        if value:
            columns = [torch.cat(value), torch.cat(broken)] if broken else [torch.cat(value)]
            sums = gather_sum(torch.stack(columns, 1), field.wiring.to_states)
            score = score + sums[:, 0]
            violation = violation + sums[:, 1] if broken else violation
        return _softmax_of_least_broken(field, score, violation.detach())

    def _gain(self, old: Tensor, new: Tensor) -> Tensor:
        """Return what the bound of each graph gains: counts times the divergence of old from new."""
        q = old.exp()
        each = torch.where(q > 0, q * (old - new), torch.zeros_like(q))
        each = self.field.counts * segment_sum(each, self.field.state_ptr).clamp(min=0)
        return segment_sum(each.double(), self.field.variable_ptr).to(q.dtype)

    def _change(self, old: Tensor, new: Tensor) -> Tensor:
        owner = self.field.variable_graph[self.field.state_variable]
        return largest((new.exp() - old.exp()).abs(), owner, self.field.num_graphs)

    def _sweep_loop(self, flat: FlatField, log_q: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        field = self.field
        read_log = as_array(log_q.to(torch.float64)).copy()
        read = np.exp(read_log)
        write_log, write = (read_log.copy(), read.copy()) if self.parallel else (read_log, read)
        # Sequential: graph by graph, one variable after another. Parallel: every variable by itself.
        blocks = np.arange(field.num_variables + 1) if self.parallel else flat.variable_ptr
        keep_of = as_array(keep[field.variable_graph].to(torch.float64))
        gain, change = np.zeros(field.num_variables), np.zeros(field.num_variables)
        scratch = np.zeros((2, len(read)))
        work = len(flat.tables) if len(blocks) > 2 else 0
        _sweep(blocks, flat, keep_of, *scratch, read, read_log, write, write_log, gain, change, work=work)
        new = torch.from_numpy(write_log).to(log_q)
        if field.num_graphs == 1:
            totals = np.array([[change.max(initial=0.0)], [gain.sum()]])
        else:
            owner = as_array(field.variable_graph)
            totals = np.stack([np.zeros(field.num_graphs), np.bincount(owner, gain, field.num_graphs)])
            np.maximum.at(totals[0], owner, change)
        largest, total = torch.from_numpy(totals).to(log_q)
        return new, largest, total


def _expected(table: Tensor, blocks: list[Tensor], port: int) -> Tensor:
    """Average (factors, states ...) over the marginals of all ports but one; (factors, states of the port)."""
    result = table.expand(blocks[port].shape[0], *table.shape[1:])
    for other in range(len(blocks) - 1, -1, -1):
        if other != port:
            # Axes above `other` have been summed but for the port's, which lies behind `other` if it is greater.
            axis = other + 1
            shape = [blocks[other].shape[0], *(1,) * (result.ndim - 1)]
            shape[axis] = blocks[other].shape[1]
            result = (result * blocks[other].reshape(shape)).sum(axis)
    return result


def _mixed(field: FactorGraph, old: Tensor, new: Tensor, keep: Tensor) -> Tensor:
    """Take the weighted mean of log marginals, normalised; what the new one excludes stays excluded.

    An old zero counts as `FLOOR`, so that a state which is possible again can come back.
    """
    if not bool((keep > 0).any()):
        return new
    return normalise_segments(keep * old.clamp(min=FLOOR) + (1 - keep) * new, field.state_ptr)[0]


def _softmax_of_least_broken(field: FactorGraph, score: Tensor, violation: Tensor) -> Tensor:
    least = -segment_max(-violation, field.state_ptr)[field.state_variable]
    allowed = violation <= least * (1 + 1e-9)
    return normalise_segments(torch.where(allowed, score, -math.inf), field.state_ptr)[0]


@compiled
def _sweep(  # type: ignore[no-untyped-def]
    blocks, flat, keep, score, broken, read, read_log, write, write_log, gain, change
):
    for block in prange(blocks.size - 1):
        for v in range(blocks[block], blocks[block + 1]):
            first, last = flat.state_ptr[v], flat.state_ptr[v + 1]
            card = last - first
            for s in range(first, last):
                hard = flat.log_unary[s] == -np.inf
                score[s] = 0.0 if hard else flat.log_unary[s]
                broken[s] = EVIDENCE if hard else 0.0
            for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                own = flat.port_place[p]
                weight = flat.port_weight[p]
                f = flat.place_factor[own]
                begin, end = flat.scope_ptr[f], flat.scope_ptr[f + 1]
                base = flat.table_start[f]
                if end - begin == 2:
                    other = begin + end - 1 - own
                    u = flat.scope[other]
                    step, across = flat.stride[own], flat.stride[other]
                    for y in range(flat.state_ptr[u + 1] - flat.state_ptr[u]):
                        w = weight * read[flat.state_ptr[u] + y]
                        if w > 0.0:
                            entry = base + y * across
                            for x in range(card):
                                value = flat.tables[entry + x * step]
                                if value == -np.inf:
                                    broken[first + x] += w
                                else:
                                    score[first + x] += w * value
                else:
                    for e in range(flat.table_size[f]):
                        w = weight
                        for other in range(begin, end):
                            if other != own:
                                u = flat.scope[other]
                                states = flat.state_ptr[u + 1] - flat.state_ptr[u]
                                w *= read[flat.state_ptr[u] + (e // flat.stride[other]) % states]
                        if w > 0.0:
                            x = (e // flat.stride[own]) % card
                            value = flat.tables[base + e]
                            if value == -np.inf:
                                broken[first + x] += w
                            else:
                                score[first + x] += w * value
            least = np.inf
            for s in range(first, last):
                least = min(least, broken[s])
            least = least * (1 + 1e-9)
            for s in range(first, last):
                if broken[s] > least:
                    score[s] = -np.inf
            normalise(score[first:last], card, False)
            largest = 0.0
            for s in range(first, last):
                largest = max(largest, abs(np.exp(score[s]) - read[s]))
            change[v] = largest
            if keep[v] > 0.0:
                for s in range(first, last):
                    score[s] = keep[v] * max(read_log[s], FLOOR) + (1 - keep[v]) * score[s]
                normalise(score[first:last], card, False)
            gained = 0.0
            for s in range(first, last):
                if read[s] > 0.0:
                    gained += read[s] * (read_log[s] - score[s])
            gain[v] = flat.counts[v] * max(gained, 0.0)  # rounding aside it is a divergence
            for s in range(first, last):
                write_log[s] = score[s]
                write[s] = np.exp(score[s])
