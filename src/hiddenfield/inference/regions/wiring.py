"""Where the beliefs and messages of a region graph lie: flat index arrays, compiled once for each shape of field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_graph import RegionGraph
from hiddenfield.fields.graphs.region_sets import Sets
from hiddenfield.ops import segment_logsumexp
from hiddenfield.shapes import Array, Int, Tensor

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
    regions
        The region graph.
    table_ptr, inner_ptr, message_ptr
        Bounds of every outer region's table, inner region's belief and pair's message.
    map_start, maps
        Of pair p, the state x of its outer region projects to the state ``maps[map_start[p] + x]`` of its inner one.
        Pairs that project alike share a map.
    messages, factors, variables
        Projections of the outer tables onto messages, onto the tables of the factors, and onto the states of variables.
    """

    regions: RegionGraph
    table_ptr: Int[Array, " outer_bounds"]
    inner_ptr: Int[Array, " inner_bounds"]
    message_ptr: Int[Array, " pair_bounds"]
    map_start: Int[Array, " pairs"]
    maps: Int[Array, " _"]
    messages: Projection
    factors: Projection
    variables: Projection


def wire_regions(regions: RegionGraph, field: FactorGraph) -> RegionWiring:
    """Compile a region graph to flat index arrays; linear in the size of the tables and messages."""
    regions.check(field)
    cards = field.cardinalities.cpu().numpy()
    outer_size = _table_sizes(regions.outer, cards)
    total = outer_size.sum()
    if total > MOST_ENTRIES:
        worst = int(np.argmax(outer_size))
        raise InputError(
            f"the regions' tables would have {total:,.3g} entries, the largest {outer_size[worst]:,.3g} over "
            f"{int(regions.outer.sizes[worst])} variables; take smaller clusters"
        )
    inner_size = _table_sizes(regions.inner, cards)
    pair_sets = Sets(_bounds(regions.inner.sizes[regions.pair_inner]), regions.pair_position)
    arities = [np.full(group.num_factors, group.arity) for group in field.groups]
    factor_sets = Sets(_bounds(np.concatenate([np.zeros(0, int), *arities])), regions.factor_position)
    factor_sizes = [np.full(group.num_factors, math.prod(group.states)) for group in field.groups]
    factor_ptr = _bounds(np.concatenate([np.zeros(0, int), *factor_sizes]))
    variable_sets = Sets(np.arange(field.num_variables + 1), regions.variable_position)
    table_ptr, message_ptr = _bounds(outer_size), _bounds(inner_size[regions.pair_inner])

    def project(row: Array, start: Array, maps: Array, target_ptr: Array) -> Projection:
        return _projection(table_ptr, row, start, maps, target_ptr, field.device)

    pair_maps = _maps(regions.outer, cards, regions.pair_outer, pair_sets)
    factor_maps = _maps(regions.outer, cards, regions.factor_outer, factor_sets)
    variable_maps = _maps(regions.outer, cards, regions.variable_outer, variable_sets)
    return RegionWiring(
        regions,
        table_ptr,
        _bounds(inner_size),
        message_ptr,
        *pair_maps,
        project(regions.pair_outer, *pair_maps, message_ptr),
        project(regions.factor_outer, *factor_maps, factor_ptr),
        project(regions.variable_outer, *variable_maps, field.state_ptr.cpu().numpy()),
    )


def _bounds(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _table_sizes(sets: Sets, cards: Array) -> Array:
    """Return the number of joint states of each set, as floats where they would overflow."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(cards[sets.members]))])
    sizes = np.exp(logs[sets.ptr[1:]] - logs[sets.ptr[:-1]])
    return sizes if sizes.sum() > MOST_ENTRIES else np.rint(sizes).astype(np.int64)


def _maps(outer: Sets, cards: Array, row: Array, positions: Sets) -> tuple[Array, Array]:
    """Return where each item's map begins, and the maps: one for each (shape of the outer region, positions)."""
    if len(row) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    shape = _padded(Sets(outer.ptr, cards[outer.members]))
    keys = np.concatenate([shape[row], _padded(positions)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    parts, width = [], shape.shape[1]
    for key in unique:
        states = tuple(key[:width][key[:width] >= 0].tolist())
        places = key[width:][key[width:] >= 0]
        number = np.zeros(states, dtype=np.int64)
        stride = 1
        for place in places[::-1]:
            along = [1] * len(states)
            along[place] = states[place]
            number += stride * np.arange(states[place]).reshape(along)
            stride *= states[place]
        parts.append(number.reshape(-1))
    start = _bounds(np.array([len(part) for part in parts]))[:-1]
    return start[inverse.reshape(-1)], np.concatenate(parts)


def _padded(sets: Sets) -> Array:
    """Lay sets out as rows of a matrix, -1 beyond their members."""
    out = np.full((len(sets), int(sets.sizes.max(initial=0))), -1)
    out[sets.rows, np.arange(len(sets.members)) - sets.ptr[sets.rows]] = sets.members
    return out


def _projection(
    table_ptr: Array, row: Array, start: Array, maps: Array, target_ptr: Array, device: torch.device
) -> Projection:
    sizes = np.diff(table_ptr)[row]
    item = np.repeat(np.arange(len(row)), sizes)
    within = np.arange(len(item)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    source = table_ptr[row][item] + within
    target = target_ptr[item] + maps[start[item] + within] if len(item) else item
    return Projection(
        torch.from_numpy(source.astype(np.int64)).to(device),
        torch.from_numpy(np.asarray(target, dtype=np.int64)).to(device),
        int(target_ptr[-1]),
    )
