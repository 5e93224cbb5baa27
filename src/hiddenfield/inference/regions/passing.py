r"""Messages between inner and outer regions: the update that generalized belief propagation and the double loop share.

With :math:`w` the weight of a pair, :math:`d_\beta = \sum_{\alpha} w_{\alpha\beta}` and
:math:`c_\beta = \hat c_\beta + r_\beta`, :math:`\hat c_\beta = \max(c_\beta, 0)`,

.. math::

    b_\alpha(x_\alpha) &\propto \Psi_\alpha(x_\alpha) \prod_{\beta \subset \alpha} e^{n_{\beta\alpha}(x_\beta)},
    \qquad m_{\alpha\beta} = \log \sum_{x_{\alpha \setminus \beta}} b_\alpha \\
    \log b_\beta &= \frac{\log \Phi_\beta + \sum_\alpha w_{\alpha\beta} (m_{\alpha\beta} - n_{\beta\alpha})
        - r_\beta\, a_\beta}{d_\beta + \hat c_\beta} + \text{const} \\
    n_{\beta\alpha} &\leftarrow n_{\beta\alpha} + \log b_\beta - m_{\alpha\beta}

The anchor :math:`a_\beta` stands for :math:`\log b_\beta` in the concave part of the free energy: in a single loop it
is the mean of the :math:`m_{\alpha\beta}`, in a double loop the belief of the outer iteration. Where all
:math:`m_{\alpha\beta} = \log b_\beta = a_\beta`, the beliefs agree and are stationary for Kikuchi's free energy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_graph import RegionGraph
from hiddenfield.fields.graphs.region_sets import Sets
from hiddenfield.fields.layout import flatten
from hiddenfield.inference.messages.passing import normalise_segments
from hiddenfield.inference.posterior import Posterior
from hiddenfield.iteration import Outcome
from hiddenfield.limits import check_time
from hiddenfield.ops import segment_logsumexp, segment_sum
from hiddenfield.ops.equal_rows import equal_rows, number_rows, ranges
from hiddenfield.shapes import Array, Float, Int, Tensor

MOST_ENTRIES = 1 << 28
"""Entries of all outer tables beyond which a region graph is refused."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Sums over the states of outer regions: entry k of it adds table entry ``source[k]`` to ``target[k]``."""

    source: Int[Tensor, " entries"]
    target: Int[Tensor, " entries"]
    size: int

    @cached_property
    def by_target(self) -> tuple[Tensor, Tensor]:
        """The sources sorted by target, and the bounds of each target's."""
        order = torch.argsort(self.target, stable=True)
        count = torch.bincount(self.target, minlength=self.size)
        return self.source[order], torch.cat([count.new_zeros(1), count.cumsum(0)])

    def log_sum(self, tables: Tensor) -> Tensor:
        """Return for each target the log of the summed exponentials of its entries."""
        source, ptr = self.by_target
        return segment_logsumexp(tables[source], ptr)

    def add(self, tables: Tensor, values: Tensor) -> Tensor:
        """Return the tables with each target's value added to its entries."""
        return tables.index_add(0, self.source, values[self.target])


@dataclass(frozen=True, eq=False)
class RegionWiring:
    """Flat index arrays of a region graph over variables of given cardinalities.

    Tables lie one outer region after another, the last variable's state running fastest; messages pair by pair, each
    over the states of the pair's inner region.

    Parameters
    ----------
    table_ptr, inner_ptr, message_ptr
        Bounds of every outer region's table, inner region's belief and pair's message.
    map_start, maps
        Of pair p, the state x of its outer region projects to the state ``maps[map_start[p] + x]`` of its inner one.
        Pairs that project alike share a map.
    messages, factors, variables
        Projections of the outer tables onto messages, onto the tables of the factors, and onto the states of variables.
    """

    table_ptr: Int[Array, " outer_bounds"]
    inner_ptr: Int[Array, " inner_bounds"]
    message_ptr: Int[Array, " pair_bounds"]
    map_start: Int[Array, " pairs"]
    maps: Int[Array, " _"]
    messages: Projection
    factors: Projection
    variables: Projection


@dataclass(frozen=True, eq=False)
class RegionBeliefs:
    """Log beliefs of outer and inner regions, and log marginals of every pair's outer region on its inner one."""

    outer: Float[Tensor, " tables"]
    inner: Float[Tensor, " inner_states"]
    pair: Float[Tensor, " messages"]


@dataclass(frozen=True, eq=False)
class RegionPassing:
    """The update as pure functions of the flat messages, in plain torch: any device, all inner regions at once.

    Parameters
    ----------
    field
        The field, evidence included.
    regions
        Its region graph.
    """

    field: FactorGraph
    regions: RegionGraph

    @cached_property
    def is_bethe(self) -> bool:
        """Whether inner regions are single variables: fixed points are those of belief propagation."""
        return bool((self.regions.inner.sizes == 1).all())

    @cached_property
    def is_forest(self) -> bool:
        """Whether the regions are those of Bethe on a forest: then belief propagation settles, exactly."""
        return self.is_bethe and self.regions.is_junction_tree

    # -- shapes --------------------------------------------------------------------------------------------

    @cached_property
    def wiring(self) -> RegionWiring:
        """Where tables and messages lie; kept with the region graph for fields of the same cardinalities."""
        known = self.regions.__dict__.get("_wiring")
        cards = self.field.cardinalities
        if known is None or known[0].device != cards.device or not torch.equal(known[0], cards):
            known = self.regions.__dict__["_wiring"] = (cards, wire_regions(self.regions, self.field))
        wiring: RegionWiring = known[1]
        return wiring

    def _tensor(self, values: Array) -> Tensor:
        out = torch.from_numpy(np.ascontiguousarray(values)).to(self.field.device)
        return out.to(self.field.dtype) if out.is_floating_point() else out

    # Bounds of the outer tables, of the inner beliefs and of the messages.
    table_ptr = cached_property(lambda self: self._tensor(self.wiring.table_ptr))
    inner_ptr = cached_property(lambda self: self._tensor(self.wiring.inner_ptr))
    message_ptr = cached_property(lambda self: self._tensor(self.wiring.message_ptr))

    @cached_property
    def message_state(self) -> Tensor:
        """The entry of the inner beliefs that each number of a message belongs to."""
        wiring, regions = self.wiring, self.regions
        return self._tensor(ranges(wiring.inner_ptr[regions.pair_inner], np.diff(wiring.message_ptr))[0])

    @cached_property
    def message_weight(self) -> Tensor:
        """The weight of the pair of each number of a message."""
        return self._tensor(np.repeat(self.regions.pair_weight, np.diff(self.wiring.message_ptr)))

    def spread(self, values: Array) -> Tensor:
        """Repeat one number per inner region over its states."""
        return self._tensor(np.repeat(values, np.diff(self.wiring.inner_ptr)))

    @cached_property
    def inner_graph(self) -> Tensor:
        """The graph of each entry of the inner beliefs."""
        owner = np.repeat(np.arange(self.field.num_graphs), np.diff(self.regions.graph_ptr))
        return self._tensor(np.repeat(owner, np.diff(self.wiring.inner_ptr)))

    @cached_property
    def outer_graph(self) -> Tensor:
        """The graph of each outer region."""
        first = self.regions.outer.values[self.regions.outer.ptr[:-1]]
        return self.field.variable_graph[self._tensor(first)]

    @cached_property
    def outer_by_graph(self) -> tuple[Array, Array]:
        """Bounds of every graph's outer regions, and these regions sorted by graph."""
        owner = self.outer_graph.cpu().numpy()
        order = np.argsort(owner, kind="stable")
        return np.searchsorted(owner[order], np.arange(self.field.num_graphs + 1)), order

    # -- potentials ----------------------------------------------------------------------------------------

    @cached_property
    def log_tables(self) -> Float[Tensor, " tables"]:
        """The potentials of outer regions: their factors, and variables that have no inner region."""
        field, regions = self.field, self.regions
        parts = [field.log_unary.new_zeros(0)]
        share = self._tensor(1 / regions.outer_count[regions.factor_outer])
        begin = 0
        for group in field.groups:
            weight = group.count * share[begin : begin + group.num_factors]
            tables = group.expanded().reshape(-1, math.prod(group.states))
            parts.append((tables * weight[:, None]).reshape(-1))
            begin += group.num_factors
        tables = field.log_unary.new_zeros(int(self.wiring.table_ptr[-1]))
        tables = self.wiring.factors.add(tables, torch.cat(parts))
        alone = self._tensor(regions.variable_inner < 0)[field.state_variable]
        return self.wiring.variables.add(
            tables, torch.where(alone, field.log_unary, torch.zeros_like(field.log_unary))
        )

    @cached_property
    def log_inner(self) -> Float[Tensor, " inner_states"]:
        """The potentials of inner regions: single variables that have one."""
        field = self.field
        out = field.log_unary.new_zeros(int(self.wiring.inner_ptr[-1]))
        held, place = self._single
        return out.index_put((place,), field.log_unary[held])

    @cached_property
    def _single(self) -> tuple[Tensor, Tensor]:
        """Which packed states are of variables that have an inner region, and where these lie in the inner beliefs."""
        field = self.field
        number = self._tensor(self.regions.variable_inner)[field.state_variable]
        held = number >= 0
        state = torch.arange(len(number), device=field.device) - field.state_ptr[field.state_variable]
        return held, self.inner_ptr[number[held]] + state[held]

    # -- the update ----------------------------------------------------------------------------------------

    def start(self) -> Float[Tensor, " messages"]:
        """Return messages that say nothing."""
        return self.field.log_unary.new_zeros(int(self.wiring.message_ptr[-1]))

    def pair_marginals(self, messages: Float[Tensor, " messages"]) -> Float[Tensor, " messages"]:
        """Return what every outer region believes about every inner one within it, in logs."""
        raw = self.wiring.messages.log_sum(self.wiring.messages.add(self.log_tables, messages))
        return normalise_segments(raw, self.message_ptr)[0]

    def targets(
        self,
        messages: Float[Tensor, " messages"],
        pair: Float[Tensor, " messages"],
        counting: tuple[Array, Array],
        anchor: Float[Tensor, " inner_states"] | None,
    ) -> Float[Tensor, " inner_states"]:
        """Return the beliefs that inner regions would have next; `counting` is the denominator and r of each."""
        denominator, remainder = (self.spread(part) for part in counting)
        mean = self.mean(pair) if anchor is None else anchor
        gone, dead = self._excluded(pair)
        heard = torch.where(gone, torch.zeros_like(pair), pair - torch.where(gone, pair * 0, messages))
        total = self.log_inner.index_add(0, self.message_state, self.message_weight * heard)
        total = (
            total - torch.where(dead | (remainder == 0), torch.zeros_like(mean), remainder * mean)
        ) / denominator
        return normalise_segments(total.masked_fill(dead, -math.inf), self.inner_ptr)[0]

    def mean(self, pair: Float[Tensor, " messages"]) -> Float[Tensor, " inner_states"]:
        """Return the geometric mean of what the outer regions believe about each inner one."""
        gone, dead = self._excluded(pair)
        kept = torch.where(gone, torch.zeros_like(pair), pair)
        share = self.message_weight / self.spread(self.regions.degree)[self.message_state]
        total = torch.zeros_like(self.log_inner).index_add(0, self.message_state, share * kept)
        return normalise_segments(total.masked_fill(dead, -math.inf), self.inner_ptr)[0]

    def _excluded(self, pair: Float[Tensor, " messages"]) -> tuple[Tensor, Tensor]:
        """Return which numbers of messages are -inf, and which inner states have such a message or potential."""
        gone = pair == -math.inf
        count = torch.zeros_like(self.log_inner).index_add(0, self.message_state, gone.to(pair.dtype))
        return gone, (count > 0) | (self.log_inner == -math.inf)

    def residual(
        self, messages: Float[Tensor, " messages"], counting: tuple[Array, Array]
    ) -> Float[Tensor, " graphs"]:
        """Return for each graph the largest change of a probability in one undamped update of all regions.

        In double precision: log messages of some hundreds, in single precision, round by more than the tolerance.
        """
        if self.field.dtype != torch.float64:
            return self._in_double.residual(messages.double(), counting).to(self.field.dtype)
        pair = self.pair_marginals(messages)
        return self.gaps(pair, self.targets(messages, pair, counting, None))

    @cached_property
    def _in_double(self) -> RegionPassing:
        field = self.field
        tables = [group.log_tables.double() for group in field.groups]
        return RegionPassing(field.with_potentials(field.log_unary.double(), tables), self.regions)

    def gaps(self, pair: Float[Tensor, " messages"], target: Tensor) -> Float[Tensor, " graphs"]:
        """Return for each graph how far outer and inner beliefs are apart."""
        gap = (pair.exp() - target[self.message_state].exp()).abs()
        worst = gap.new_zeros(self.field.num_graphs)
        return worst.scatter_reduce(0, self.inner_graph[self.message_state], gap, "amax")

    # -- results -------------------------------------------------------------------------------------------

    def beliefs(self, messages: Float[Tensor, " messages"]) -> RegionBeliefs:
        """Return the beliefs of all regions; those of inner ones are the mean of what outer ones say."""
        outer, _ = normalise_segments(self.wiring.messages.add(self.log_tables, messages), self.table_ptr)
        pair = normalise_segments(self.wiring.messages.log_sum(outer), self.message_ptr)[0]
        return RegionBeliefs(outer, self.mean(pair), pair)

    def marginals(self, beliefs: RegionBeliefs) -> tuple[Float[Tensor, " states"], tuple[Tensor, ...]]:
        """Return log marginals of variables and of factors."""
        field = self.field
        own = normalise_segments(self.wiring.variables.log_sum(beliefs.outer), field.state_ptr)[0]
        held, place = self._single
        own = own.index_put((held.nonzero()[:, 0],), beliefs.inner[place])
        return own, field.split_tables(self.wiring.factors.log_sum(beliefs.outer))

    def negative_free_energy(self, beliefs: RegionBeliefs) -> Float[Tensor, " graphs"]:
        r"""Return minus Kikuchi's free energy of the beliefs, graph by graph; -inf where nothing is possible."""
        field, regions = self.field, self.regions
        outer, inner = beliefs.outer.exp(), beliefs.inner.exp()
        zero = torch.zeros_like(outer)
        each = torch.where(outer > 0, outer * (self.log_tables - beliefs.outer), zero)
        each = segment_sum(each, self.table_ptr) * self._tensor(regions.outer_count)
        value = field.log_constant.double().index_add(0, self.outer_graph, each.double())
        weight = self.log_inner - self.spread(regions.counting) * beliefs.inner
        own = torch.where(inner > 0, inner * weight, torch.zeros_like(inner))
        value = value.index_add(0, self.inner_graph, (own * self.spread(regions.inner_count)).double())
        alive = segment_sum(outer, self.table_ptr) > 0
        dead = torch.zeros_like(value).index_add(0, self.outer_graph, (~alive).to(value.dtype)) > 0
        return torch.where(dead, torch.full_like(value, -math.inf), value).to(field.dtype)

    @torch.no_grad()
    def posterior(
        self,
        method: str,
        messages: Float[Tensor, " messages"],
        outcome: Outcome[Any],
        status: str,
        trace: dict[str, list[float]],
    ) -> Posterior:
        """Make a posterior of messages: exact where the regions are a junction tree's and all has converged.

        It carries no gradient: that of the log partition, which `infer` gives it, is not that of these expressions.
        """
        beliefs = self.beliefs(messages)
        exact = bool(outcome.converged.all()) and self.regions.is_junction_tree
        return Posterior.of(
            outcome,
            self.field,
            method,
            self.marginals(beliefs),
            self.negative_free_energy(beliefs),
            "exact" if exact else "estimate",
            status=status,
            trace=trace,
            extra={"messages": messages, "regions": self.regions},
        )


# -- where tables and messages lie ---------------------------------------------------------------------------


def wire_regions(regions: RegionGraph, field: FactorGraph) -> RegionWiring:
    """Compile a region graph to flat index arrays; linear in the size of the tables and messages."""
    regions.check(field)
    cards = field.cardinalities.cpu().numpy()
    outer_size = _table_sizes(regions.outer, cards)
    total = outer_size.sum()
    if total > MOST_ENTRIES:
        worst = int(np.argmax(outer_size))
        raise TooLargeError(
            f"the regions' tables would have {total:,.3g} entries, the largest {outer_size[worst]:,.3g} over "
            f"{int(regions.outer.sizes[worst])} variables; take smaller clusters"
        )
    inner_size = _table_sizes(regions.inner, cards)
    pair_sets = Sets(_bounds(regions.inner.sizes[regions.pair_inner]), regions.pair_position)
    flat = flatten(field)
    factor_sets, factor_ptr = Sets(flat.scope_ptr, regions.factor_position), _bounds(flat.table_size)
    variable_sets = Sets(np.arange(field.num_variables + 1), regions.variable_position)
    table_ptr, message_ptr = _bounds(outer_size), _bounds(inner_size[regions.pair_inner])

    def project(row: Array, start: Array, maps: Array, target_ptr: Array) -> Projection:
        check_time()
        source, item = ranges(table_ptr[:-1][row], np.diff(table_ptr)[row])
        target = target_ptr[item] + maps[start[item] + source - table_ptr[row][item]]
        places = [torch.from_numpy(each.astype(np.int64)).to(field.device) for each in (source, target)]
        return Projection(places[0], places[1], int(target_ptr[-1]))

    pair_maps = _maps(regions.outer, cards, regions.pair_outer, pair_sets)
    factor_maps = _maps(regions.outer, cards, regions.factor_outer, factor_sets)
    variable_maps = _maps(regions.outer, cards, regions.variable_outer, variable_sets)
    return RegionWiring(
        table_ptr,
        _bounds(inner_size),
        message_ptr,
        *pair_maps,
        project(regions.pair_outer, *pair_maps, message_ptr),
        project(regions.factor_outer, *factor_maps, factor_ptr),
        project(regions.variable_outer, *variable_maps, flat.state_ptr),
    )


def _bounds(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _table_sizes(sets: Sets, cards: Array) -> Array:
    """Return the number of joint states of each set, as floats where they would overflow."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(cards[sets.values]))])
    sizes = np.exp(logs[sets.ptr[1:]] - logs[sets.ptr[:-1]])
    return sizes if sizes.sum() > MOST_ENTRIES else np.rint(sizes).astype(np.int64)


def _maps(outer: Sets, cards: Array, row: Array, positions: Sets) -> tuple[Array, Array]:
    """Return where each item's map begins, and the maps: one for each (shape of the outer region, positions)."""
    shapes, parts = Sets(outer.ptr, cards[outer.values]), [np.zeros(0, np.int64)]
    kind, first = equal_rows(np.stack([number_rows(shapes)[0][row], number_rows(positions)[0]], 1))
    for item in first.tolist():
        check_time()
        states, places = shapes[[row[item]]].values, positions[[item]].values
        along = np.ogrid[tuple(map(slice, states))]
        number = np.ravel_multi_index(tuple(along[place] for place in places), tuple(states[places]))
        parts.append(np.broadcast_to(number, states).reshape(-1))
    start = _bounds(np.array([len(part) for part in parts[1:]], np.int64))[:-1]
    return start[kind], np.concatenate(parts)
