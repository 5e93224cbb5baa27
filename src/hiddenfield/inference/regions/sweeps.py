"""Sweeps over a region graph with either back end, accelerated by mixing past states."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from hiddenfield.inference.regions.mixing import Mixing
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.iteration import lag
from hiddenfield.limits import check_time
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.ops.vector_math import fast_exp, fast_log
from hiddenfield.shapes import Array, Bool, Float, Tensor

ROUNDS = 8
"""Sweeps between two looks at the residual: a look costs about as much as a small sweep."""

MOST_HISTORY = 1 << 26
"""Numbers of past states kept; beyond it, fewer states are mixed."""

Swept = tuple[Float[Tensor, " messages"], Float[Tensor, " inner_states"], Float[Tensor, " graphs"]]


def split_counting(passing: RegionPassing, linear: float = 1.0) -> tuple[Array, Array]:
    r"""Return :math:`d_\beta + \hat c_\beta` and :math:`r_\beta`: how much of a negative counting number is anchored.

    ``linear=1`` anchors all of it, which makes what is left convex; ``linear=0`` none, which on Bethe's regions is
    belief propagation itself. On Bethe's regions of a forest all is convex without an anchor, and none is taken.
    """
    counting, degree = passing.regions.counting, passing.regions.degree
    remainder = (0.0 if passing.is_forest else linear) * np.minimum(counting, 0.0)
    denominator = degree + counting - remainder
    weak = denominator < 1e-3 * degree
    remainder = np.where(weak, np.minimum(counting, 0.0), remainder)
    return np.where(weak, degree + np.maximum(counting, 0.0), denominator), remainder


class Sweeps:
    """Sweeps over each graph until it has settled, with Anderson's acceleration.

    Parameters
    ----------
    passing
        The update.
    counting
        How regions count, from `split_counting`.
    tolerance
        Residual at which a graph has settled.
    damping
        Weight of the old messages.
    memory, begin
        Past states that are mixed, and the sweep from which on they are.
    backend
        "numba" (inner region after inner region, in double precision), "torch" (all at once), or "auto": the former
        on the CPU.
    """

    def __init__(
        self,
        passing: RegionPassing,
        counting: tuple[Array, Array],
        *,
        tolerance: float,
        damping: float = 0.0,
        memory: int = 0,
        begin: int = 0,
        backend: str = "auto",
    ) -> None:
        field = passing.field
        compiled = use_compiled(field.log_unary.detach(), backend=backend, converts=True)
        self.sweep = (_CompiledSweep if compiled else _TorchSweep)(passing, counting, damping)
        self.dtype = torch.float64 if compiled else field.dtype
        self.tolerance, self.begin = tolerance, begin
        self.owner = passing.inner_graph[passing.message_state]
        self.message_state = passing.message_state
        memory = min(memory, MOST_HISTORY // max(len(self.owner), 1))
        self.mixing = Mixing(self.owner, field.num_graphs, memory, self.dtype) if memory > 1 else None
        self.residual = torch.empty(field.num_graphs, dtype=self.dtype, device=field.device)
        self.belief = passing.log_inner.detach()
        self.forget()

    def forget(self, frozen: Bool[Tensor, " graphs"] | None = None) -> None:
        """Begin anew: no past states, and no graph has settled but the frozen ones."""
        if self.mixing is not None:
            self.mixing.forget()
        self.residual = torch.full_like(self.residual, math.inf)
        self.iterations = torch.zeros_like(self.residual, dtype=torch.int64)
        if frozen is not None:
            self.residual = self.residual.masked_fill(frozen, 0)

    def doubt(self, residual: Float[Tensor, " graphs"]) -> None:
        """Take a residual that was computed otherwise: a graph above the tolerance goes on."""
        residual = residual.to(self.dtype)
        self.residual = torch.where(residual > self.tolerance, residual, self.residual)

    @torch.no_grad()
    def __call__(
        self, messages: Float[Tensor, " messages"], anchor: Tensor | None = None, rounds: int = 1
    ) -> tuple[Float[Tensor, " messages"], Float[Tensor, " graphs"]]:
        """Return the messages after up to `rounds` sweeps of each graph, and each graph's residual in its last."""
        dtype, now = messages.dtype, messages.detach().to(self.dtype)
        anchor = None if anchor is None else anchor.detach().to(self.dtype)
        for _ in range(rounds):
            active = self.residual > self.tolerance
            if not bool(active.any()):
                break
            check_time()
            new, belief, gap = self.sweep(now, anchor, active)
            self.iterations = self.iterations + active
            self.residual = torch.where(active, gap, self.residual)
            self.belief = belief.to(dtype)
            if self.mixing is not None:
                weight = belief.exp()[self.message_state]
                new = self.mixing(
                    new, new - now, weight, self.residual, tolerance=self.tolerance, begin=self.begin
                )
            now = new
        return now.to(dtype), self.residual.to(dtype)


class _CompiledSweep:
    """Inner region after inner region, in double precision, graphs on several threads."""

    def __init__(self, passing: RegionPassing, counting: tuple[Array, Array], damping: float) -> None:
        wiring, regions = passing.wiring, passing.regions
        messages, inner = int(wiring.message_ptr[-1]), int(wiring.inner_ptr[-1])
        tables, self.damping = int(wiring.table_ptr[-1]), damping
        self.regions = RegionArrays(
            regions.graph_ptr,
            wiring.inner_ptr,
            regions.pair_ptr,
            regions.pair_outer,
            wiring.message_ptr,
            wiring.map_start,
            wiring.maps,
            regions.pair_weight,
            *passing.outer_by_graph,
            wiring.table_ptr,
            passing.log_tables.detach().double().numpy(),
            passing.log_inner.detach().double().numpy(),
            *counting,
            regions.degree,
        )
        sizes = (tables, tables, messages, inner, inner)
        self.tables = Tables(*(np.empty(size) for size in sizes))
        self.nothing = np.zeros(inner)
        self.gap = np.zeros(passing.field.num_graphs)
        self.work = float(np.diff(wiring.table_ptr)[regions.pair_outer].sum())

    def __call__(self, messages: Tensor, anchor: Tensor | None, active: Tensor) -> Swept:
        new = messages.numpy().copy()
        sweep_regions(
            self.regions,
            self.nothing if anchor is None else anchor.numpy(),
            anchor is not None,
            1.0 - self.damping,
            active.numpy(),
            new,
            self.tables,
            self.gap,
            work=self.work,
        )
        belief, gap = self.tables.belief, self.gap
        return torch.from_numpy(new), torch.from_numpy(belief.copy()), torch.from_numpy(gap.copy())


class _TorchSweep:
    r"""All inner regions at once, each by as much as keeps the joint step safe; any device.

    The step of region :math:`\beta` is scaled by the least :math:`1 / |\{\beta \subset \alpha\}|` over its outer
    regions: then, with a fixed anchor, the dual of the convex part rises as it does one region at a time, by concavity.
    """

    def __init__(self, passing: RegionPassing, counting: tuple[Array, Array], damping: float) -> None:
        self.passing, self.counting = passing, counting
        regions = passing.regions
        crowd = np.bincount(regions.pair_outer, minlength=len(regions.outer))
        step = np.ones(len(regions.inner))
        np.minimum.at(step, regions.pair_inner, 1 / crowd[regions.pair_outer])
        self.step = (1 - damping) * passing.spread(step)[passing.message_state]
        self.owner = passing.inner_graph[passing.message_state]

    def __call__(self, messages: Tensor, anchor: Tensor | None, active: Tensor) -> Swept:
        passing = self.passing
        pair = passing.pair_marginals(messages)
        target = passing.targets(messages, pair, self.counting, anchor)
        here = target[passing.message_state]
        dead = here == -math.inf
        change = self.step * (here - pair).masked_fill(dead, 0)
        new = torch.where(dead, here, messages + change)
        return torch.where(active[self.owner], new, messages), target, passing.gaps(pair, target)


def lag_of_regions(
    passing: RegionPassing, messages: Float[Tensor, " messages"], residual: Tensor, tolerance: float
) -> Float[Tensor, " graphs"]:
    """Look ahead by belief propagation on Bethe's regions: all at once, all of a total instead of a share of it."""
    if not passing.is_bethe:
        return torch.zeros_like(residual)
    counting = split_counting(passing, 0.0)
    most = float(passing.regions.degree.max(initial=1.0) * passing.regions.outer.sizes.max(initial=1))

    def update(state: Tensor) -> Tensor:
        pair = passing.pair_marginals(state)
        target = passing.targets(state, pair, counting, None)[passing.message_state]
        return torch.where(target.isfinite() & pair.isfinite(), state + target - pair, state)

    return lag(
        update,
        lambda state: passing.mean(passing.pair_marginals(state)).exp(),
        passing.inner_graph,
        messages,
        residual,
        tolerance=tolerance,
        # As many messages as a message reads, at most: none of them changes it by more than it changed itself.
        growth=most,
    )


class RegionArrays(NamedTuple):
    """What a sweep reads: bounds and places of regions, pairs and messages, log potentials, and how regions count."""

    graph_ptr: Array
    inner_ptr: Array
    pair_ptr: Array
    pair_outer: Array
    message_ptr: Array
    map_start: Array
    maps: Array
    weight: Array
    outer_ptr: Array
    outer_order: Array
    table_ptr: Array
    log_tables: Array
    log_inner: Array
    denominator: Array
    remainder: Array
    degree: Array


class Tables(NamedTuple):
    """What a sweep writes besides messages: log tables of outer regions and their exponentials, and beliefs.

    The exponentials are multiplied in place, so that a sweep takes one exponential for each state of an inner region
    instead of an outer one; both are rebuilt from the messages at the start of a sweep.
    """

    logs: Array
    weights: Array
    marginals: Array
    belief: Array
    chance: Array


@compiled(watched=True)
def sweep_regions(
    stop: Array,
    regions: RegionArrays,
    anchor: Array,
    anchored: bool,
    step: float,
    active: Array,
    messages: Array,
    tables: Tables,
    gap: Array,
) -> None:
    """Update all inner regions of every active graph in turn; `gap` is its largest difference of beliefs before."""
    stop[1] = 1
    for graph in prange(regions.graph_ptr.size - 1):
        if active[graph]:
            rebuild(graph, regions, messages, tables)
            worst = 0.0
            for inner in range(regions.graph_ptr[graph], regions.graph_ptr[graph + 1]):
                if stop[0]:
                    break
                worst = max(worst, update(inner, regions, anchor, anchored, step, messages, tables))
            gap[graph] = worst


@subroutine(allocates=False)
def rebuild(graph: int, regions: RegionArrays, messages: Array, tables: Tables) -> None:
    """Add the messages to the log potentials of a graph's outer regions, and take exponentials, the largest 1."""
    table_ptr, pair_ptr = regions.table_ptr, regions.pair_ptr
    outers = regions.outer_order[regions.outer_ptr[graph] : regions.outer_ptr[graph + 1]]
    for place in range(outers.size):
        for entry in range(table_ptr[outers[place]], table_ptr[outers[place] + 1]):
            tables.logs[entry] = regions.log_tables[entry]
    for pair in range(pair_ptr[regions.graph_ptr[graph]], pair_ptr[regions.graph_ptr[graph + 1]]):
        message = messages[regions.message_ptr[pair] : regions.message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.logs)
        for x in range(table.size):
            table[x] += message[projection[x]]
    for place in range(outers.size):
        start = table_ptr[outers[place]]
        end = table_ptr[outers[place] + 1]
        exponentials(tables.logs[start:end], tables.weights[start:end])


@subroutine(allocates=False, fast=True)
def outer_table(pair: int, regions: RegionArrays, tables: Array) -> tuple[Array, Array]:
    """Return the table of a pair's outer region, and of each of its entries the state of the inner one."""
    outer = regions.pair_outer[pair]
    table = tables[regions.table_ptr[outer] : regions.table_ptr[outer + 1]]
    return table, regions.maps[regions.map_start[pair] : regions.map_start[pair] + table.size]


@subroutine(allocates=False, fast=True)
def exponentials(table, out):  # type: ignore[no-untyped-def]
    """Take exponentials so that the largest is 1; zeros where there is nothing but -inf."""
    top = -math.inf
    for x in range(table.size):
        top = max(top, table[x])
    if top == -math.inf:
        top = 0.0
    for x in range(table.size):
        out[x] = fast_exp(table[x] - top)


@subroutine(allocates=False)
def update(
    inner: int,
    regions: RegionArrays,
    anchor: Array,
    anchored: bool,
    step: float,
    messages: Array,
    tables: Tables,
) -> float:
    """Give one inner region its new belief and its outer regions the messages that make them agree with it.

    Returns the largest difference, in probability, between what an outer region believed and the new belief.
    """
    message_ptr, marginals = regions.message_ptr, tables.marginals
    origin = regions.inner_ptr[inner]
    states = regions.inner_ptr[inner + 1] - origin
    first, last = regions.pair_ptr[inner], regions.pair_ptr[inner + 1]
    low, high = message_ptr[first], message_ptr[last]
    here, probability = tables.belief[origin : origin + states], tables.chance[origin : origin + states]
    remainder = regions.remainder[inner]
    plain = True
    for pair in range(first, last):
        marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.weights)
        for x in range(states):
            marginal[x] = 0.0
        for x in range(table.size):
            marginal[projection[x]] += table[x]
        total = 0.0
        for x in range(states):
            total += marginal[x]
            plain = plain and marginal[x] > 1e-290
        scale = 1.0 / total if total > 0.0 else 0.0
        for x in range(states):
            marginal[x] *= scale
    logarithms(marginals[low:high])
    for x in range(states):
        here[x] = regions.log_inner[origin + x]
        plain = plain and here[x] > -math.inf
    if not plain:
        # Dead states, or such as are too small for an exponential: the logs know which.
        for pair in range(first, last):
            marginal = marginals[message_ptr[pair] : message_ptr[pair + 1]]
            table, projection = outer_table(pair, regions, tables.logs)
            most = -math.inf
            for y in range(table.size):
                most = max(most, table[y])
            for x in range(states):
                if marginal[x] < -660.0:
                    marginal[x] = -math.inf
                    for y in range(table.size):
                        if projection[y] == x:
                            marginal[x] = max(marginal[x], table[y] - most if most > -math.inf else most)
                if marginal[x] == -math.inf:
                    here[x] = -math.inf
    share = 1.0
    if anchored:
        if remainder != 0.0:
            for x in range(states):
                if here[x] > -math.inf:
                    here[x] -= remainder * anchor[origin + x]
    else:
        share -= remainder / regions.degree[inner]
    for pair in range(first, last):
        start = message_ptr[pair]
        for x in range(states):
            if here[x] > -math.inf:
                here[x] += regions.weight[pair] * (share * marginals[start + x] - messages[start + x])
    top = -math.inf
    for x in range(states):
        here[x] /= regions.denominator[inner]
        top = max(top, here[x])
    if top == -math.inf:
        top = 0.0
    total = 0.0
    for x in range(states):
        probability[x] = fast_exp(here[x] - top)
        total += probability[x]
    if total > 0.0:
        top += fast_log(total)
        for x in range(states):
            here[x] -= top
            probability[x] /= total
    worst = 0.0
    for pair in range(first, last):
        start = message_ptr[pair]
        for x in range(states):
            if here[x] > -math.inf:
                change = here[x] - marginals[start + x]
                worst = max(worst, probability[x] * abs(change))
                marginals[start + x] = step * change
            else:
                worst = max(worst, fast_exp(marginals[start + x]))
                marginals[start + x] = -math.inf
    apply(messages[low:high], marginals[low:high])
    for pair in range(first, last):
        factor = marginals[message_ptr[pair] : message_ptr[pair + 1]]
        table, projection = outer_table(pair, regions, tables.weights)
        for x in range(table.size):
            table[x] *= factor[projection[x]]
    return worst


@subroutine(allocates=False, fast=True)
def logarithms(values):  # type: ignore[no-untyped-def]
    """Replace numbers by their logarithms."""
    for k in range(values.size):
        values[k] = fast_log(values[k])


@subroutine(allocates=False, fast=True)
def apply(messages, change):  # type: ignore[no-untyped-def]
    """Add a change to messages, and replace it by the factor that it is for weights."""
    for k in range(messages.size):
        messages[k] += change[k]
        # A larger factor could overflow; the next sweep rebuilds the weights anyhow.
        change[k] = fast_exp(min(change[k], 100.0))
