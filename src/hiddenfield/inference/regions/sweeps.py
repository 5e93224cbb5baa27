"""Sweeps over a region graph with either back end, accelerated by mixing past states."""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.inference.regions.loops import RegionArrays, Tables, sweep_regions
from hiddenfield.inference.regions.mixing import Mixing
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.iteration import lag
from hiddenfield.limits import check_time
from hiddenfield.ops.dispatch import use_compiled
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
