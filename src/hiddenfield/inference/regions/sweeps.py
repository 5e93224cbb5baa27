"""Sweeps over a region graph with either back end, accelerated by Anderson's mixing of past states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.inference.regions.loops import Past, RegionArrays, Tables, relax_regions
from hiddenfield.inference.regions.mixing import mix
from hiddenfield.inference.regions.passing import RegionPassing
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Array, Bool, Float, Tensor

__all__ = ["KernelSweeps", "TorchSweeps", "check_options", "make_sweeps", "split_counting"]

MOST_HISTORY = 1 << 26
"""Numbers of past states kept; beyond it, fewer states are mixed."""


def split_counting(passing: RegionPassing, linear: float = 1.0) -> tuple[Array, Array]:
    r"""Return :math:`d_\beta + \hat c_\beta` and :math:`r_\beta`: how much of a negative counting number is anchored.

    ``linear=1`` anchors all of it, which makes what is left convex; ``linear=0`` none, which on Bethe's regions is
    belief propagation itself.
    """
    counting, degree = passing.regions.counting, passing.regions.degree
    remainder = linear * np.minimum(counting, 0.0)
    denominator = degree + counting - remainder
    weak = denominator < 1e-3 * degree
    remainder = np.where(weak, np.minimum(counting, 0.0), remainder)
    return np.where(weak, degree + np.maximum(counting, 0.0), denominator), remainder


def check_options(damping: float, memory: int) -> None:
    """Refuse a damping or memory that makes no sense."""
    if not 0 <= damping < 1:
        raise InputError(f"damping is the weight of the old message, at least 0 and below 1, got {damping}")
    if memory < 0:
        raise InputError(f"memory is the number of past states that are mixed, at least 0, got {memory}")


@dataclass(frozen=True, eq=False)
class SweepOptions:
    """What a sweep is told: how regions count, damping, when it may stop, past states that are mixed, and from when."""

    counting: tuple[Array, Array]
    damping: float
    tolerance: float
    memory: int
    begin: int


def make_sweeps(
    passing: RegionPassing,
    counting: tuple[Array, Array],
    *,
    damping: float,
    tolerance: float,
    memory: int,
    begin: int,
    backend: str,
) -> KernelSweeps | TorchSweeps:
    """Choose a back end; "auto" takes the kernels on the CPU and torch elsewhere."""
    size = max(int(passing.wiring.message_ptr[-1]), 1)
    memory = min(memory, MOST_HISTORY // size)
    compiled = use_compiled(passing.field.log_unary.detach(), backend=backend, converts=True)
    kind = KernelSweeps if compiled else TorchSweeps
    return kind(passing, SweepOptions(counting, damping, tolerance, memory if memory > 1 else 0, begin))


class KernelSweeps:
    """The compiled sweeps: inner region after inner region, in double precision, graphs on several threads."""

    def __init__(self, passing: RegionPassing, options: SweepOptions) -> None:
        self.passing, self.options, self.tolerance = passing, options, options.tolerance
        wiring, regions, graphs = passing.wiring, passing.regions, passing.field.num_graphs
        messages, inner = int(wiring.message_ptr[-1]), int(wiring.inner_ptr[-1])
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
            passing.log_tables.double().numpy(),
            passing.log_inner.double().numpy(),
            *options.counting,
            regions.degree,
        )
        tables = int(wiring.table_ptr[-1])
        self.nothing = np.zeros(inner)
        self.tables = Tables(
            *(np.empty(tables), np.empty(tables)), *(np.empty(messages), np.empty(inner), np.empty(inner))
        )
        self.past = Past(
            *(np.zeros((options.memory, messages)), np.zeros((options.memory, messages))),
            np.zeros((graphs, options.memory, options.memory)),
            np.zeros(graphs, dtype=np.int64),
            np.full(graphs, np.inf),
        )
        self.residual, self.done = np.full(graphs, np.inf), np.zeros(graphs, dtype=np.int64)
        self.work = messages * 4

    def forget(self, frozen: Bool[Tensor, " graphs"] | None = None) -> None:
        """Begin anew: no past states, and no graph has settled but the frozen ones."""
        self.past.slots[:] = 0
        self.past.best[:] = np.inf
        self.done[:] = 0
        self.residual[:] = np.inf
        if frozen is not None:
            self.residual[frozen.numpy()] = 0.0

    def __call__(
        self, messages: Float[Tensor, " messages"], anchor: Tensor | None = None, rounds: int = 1
    ) -> tuple[Float[Tensor, " messages"], Float[Tensor, " graphs"]]:
        """Return the messages after up to `rounds` sweeps of each graph, and each graph's residual in its last."""
        new = messages.double().numpy().copy()
        relax_regions(
            self.regions,
            self.nothing if anchor is None else anchor.double().numpy(),
            anchor is not None,
            self.options.damping,
            self.tolerance,
            rounds,
            self.options.begin,
            new,
            self.tables,
            self.past,
            self.residual,
            self.done,
            work=self.work,
        )
        dtype = messages.dtype
        return torch.from_numpy(new).to(dtype), torch.from_numpy(self.residual.copy()).to(dtype)

    @property
    def belief(self) -> Float[Tensor, " inner_states"]:
        """The inner regions' log beliefs of the last sweep."""
        return torch.from_numpy(self.tables.belief.copy()).to(self.passing.field.dtype)

    @property
    def iterations(self) -> Tensor:
        """Sweeps of each graph so far."""
        return torch.from_numpy(self.done.copy())

    def doubt(self, residual: Float[Tensor, " graphs"]) -> None:
        """Take a residual that was computed otherwise: a graph above the tolerance goes on."""
        above = residual.double().numpy() > self.tolerance
        self.residual[above] = residual.double().numpy()[above]


class TorchSweeps:
    r"""The plain sweeps: all inner regions at once, each by as much as keeps the joint step safe.

    The step of region :math:`\beta` is scaled by the least :math:`1 / |\{\beta \subset \alpha\}|` over its outer
    regions: then, with a fixed anchor, the dual of the convex part rises as it does one region at a time, by concavity.
    """

    def __init__(self, passing: RegionPassing, options: SweepOptions) -> None:
        self.passing, self.options, self.tolerance = passing, options, options.tolerance
        regions = passing.regions
        crowd = np.bincount(regions.pair_outer, minlength=len(regions.outer))
        step = np.ones(len(regions.inner))
        np.minimum.at(step, regions.pair_inner, 1 / crowd[regions.pair_outer])
        self.step = (1 - options.damping) * passing.spread(step)[passing.message_state]
        self.owner = passing.inner_graph[passing.message_state]
        graphs = passing.field.num_graphs
        self.residual = passing.field.log_unary.new_full((graphs,), math.inf)
        self.iterations = torch.zeros(graphs, dtype=torch.int64, device=passing.field.device)
        self.past: list[tuple[Tensor, Tensor]] = []
        self.best = math.inf
        self.belief = passing.log_inner

    def forget(self, frozen: Bool[Tensor, " graphs"] | None = None) -> None:
        """Begin anew: no past states, and no graph has settled but the frozen ones."""
        self.past, self.best = [], math.inf
        self.iterations = torch.zeros_like(self.iterations)
        self.residual = torch.full_like(self.residual, math.inf)
        if frozen is not None:
            self.residual = torch.where(frozen, torch.zeros_like(self.residual), self.residual)

    def doubt(self, residual: Float[Tensor, " graphs"]) -> None:
        """Take a residual that was computed otherwise: a graph above the tolerance goes on."""
        self.residual = torch.where(residual > self.tolerance, residual, self.residual)

    def __call__(
        self, messages: Float[Tensor, " messages"], anchor: Tensor | None = None, rounds: int = 1
    ) -> tuple[Float[Tensor, " messages"], Float[Tensor, " graphs"]]:
        """Return the messages after up to `rounds` sweeps of each graph, and each graph's residual in its last."""
        passing = self.passing
        for _ in range(rounds):
            active = self.residual > self.tolerance
            if not bool(active.any()):
                break
            pair = passing.pair_marginals(messages)
            target = passing.targets(messages, pair, self.options.counting, anchor)
            gap = passing.gaps(pair, target)
            self.belief = target
            here = target[passing.message_state]
            dead = here == -math.inf
            zero = torch.zeros_like(pair)
            change = torch.where(dead, zero, self.step * (here - torch.where(dead, zero, pair)))
            new = torch.where(dead, here, messages + change)
            mixed = self._mix(new, change, here.exp(), float(gap.max())) if self.options.memory else new
            moving = active[self.owner] & (gap > self.tolerance)[self.owner]
            messages = torch.where(moving, mixed, torch.where(active[self.owner], new, messages))
            self.residual = torch.where(active, gap, self.residual)
            self.iterations = self.iterations + active
        return messages, self.residual.clone()

    def _mix(self, new: Tensor, change: Tensor, weight: Tensor, worst: float) -> Tensor:
        if worst > 3 * self.best:
            self.past, self.best = [], math.inf
        self.best = min(self.best, worst)
        self.past = [(new, change), *self.past][: self.options.memory]
        if int(self.iterations.max()) < self.options.begin:
            return new
        return mix(self.past, self.owner, len(self.residual), weight)
