"""Clusters for region graphs: short cycles, faces of a grid, cliques of a junction tree."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hiddenfield.data.build import from_edges
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.cycles import short_cycles
from hiddenfield.fields.graphs.elimination_order import interactions
from hiddenfield.fields.graphs.junction_tree import junction_tree
from hiddenfield.fields.graphs.region_graph import RegionGraph, regions_from_clusters, regions_from_factors
from hiddenfield.fields.graphs.region_sets import Sets
from hiddenfield.limits import check_time
from hiddenfield.registry import choose

MOST_ENTRIES = 1 << 22
"""Entries of all tables up to which "auto" takes cycles."""

MOST_CYCLES = 100_000
"""Cycles of a graph up to which "auto" takes them."""

LARGEST = 28.0
"""Log2 of the joint states of a clique of a junction tree beyond which it is no region graph."""

NEAR = 0.1
"""How much closer to 1 than those of Bethe's regions the counting numbers of cycles must sum for "auto"."""


def regions_from_cycles(field: FactorGraph, longest: int = 6, *, most: int = 100_000) -> RegionGraph:
    """Make a cluster of every chordless cycle of at most `longest` variables, and of every factor outside of them.

    Two variables are neighbours where a factor names both. On a grid cycles of up to 6 variables are its faces
    (``longest=4`` says so), on a triangular lattice its triangles, in a molecule its rings. `most`: cycles of one graph
    beyond which it is refused. Cost: a depth-first search, which in a dense graph grows as degree to the power
    `longest`, and then what `regions_from_clusters` costs.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> regions_from_cycles(ising_grid(10, 10))
    RegionGraph(81 outer regions of up to 4 variables, 208 inner regions)
    """
    return regions_from_clusters(field, _cycles(field, longest, most))


def regions_from_junction_tree(field: FactorGraph, order: str = "best") -> RegionGraph:
    """Make a cluster of every clique of a junction tree: on these regions the free energy is exact.

    Memory grows exponentially with the treewidth; `order` is that of `elimination_order`.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> regions_from_junction_tree(ising_grid(3, 3)).is_junction_tree
    True
    """
    tree = junction_tree(field, order, limit=LARGEST)
    return regions_from_clusters(field, Sets(tree.clique_ptr, tree.clique_variables))


def choose_regions(field: FactorGraph, regions: str | RegionGraph) -> RegionGraph:
    """Return regions by name, made once for each field and shared by its evidence; or check those that are given.

    The counting numbers of each connected part should sum to 1, for the approximation to be good in strongly coupled
    fields (Yedidia, Freeman and Weiss 2005). "auto" takes the cycles of up to 3, 4, 5 or 6 variables that come
    closest, where that is ten times as close as Bethe's regions come and tables stay small; otherwise Bethe's.
    """
    if isinstance(regions, RegionGraph):
        regions.check(field)
        return regions
    build = choose("regions", REGIONS, regions)
    if regions not in field.region_graphs:
        field.region_graphs[regions] = build(field)
    made: RegionGraph = field.region_graphs[regions]
    return made


def _auto(field: FactorGraph) -> RegionGraph:
    bethe = regions_from_factors(field)
    if not field.is_ground or field.is_forest:
        return bethe
    chosen, least = bethe, NEAR * abs(_total_count(bethe) - field.num_components)
    log_cards = np.log(field.cardinalities.cpu().numpy())
    seen = 0
    for longest in (3, 4, 5, 6):
        check_time()
        try:
            cycles = _cycles(field, longest, MOST_CYCLES)
            logs = np.bincount(cycles.rows, weights=log_cards[cycles.values], minlength=len(cycles))
            if np.exp(logs).sum() > MOST_ENTRIES:
                break
            if len(cycles) == seen:
                continue
            seen, found = len(cycles), regions_from_clusters(field, cycles)
        except TooLargeError:
            break
        excess = abs(_total_count(found) - field.num_components)
        if excess <= least:
            chosen, least = found, excess
    return chosen


def _total_count(regions: RegionGraph) -> float:
    return float(regions.outer_count.sum() + regions.counting @ regions.inner_count)


def _cycles(field: FactorGraph, longest: int, most: int) -> Sets:
    """Return the variables of every short chordless cycle of the graph of neighbours."""
    graph = interactions(field)
    first = np.repeat(np.arange(field.num_variables), np.diff(graph.ptr))
    once = first < graph.neighbour
    pack = from_edges(first[once], graph.neighbour[once], node_ptr=field.variable_ptr.cpu().numpy())
    try:
        found = short_cycles(pack, longest, most=most)
    except InputError:
        raise TooLargeError(
            f"there are more than {most:,} chordless cycles of up to {longest} variables in a graph; take "
            "regions='auto' or 'bethe', or clusters of your own"
        ) from None
    return Sets(found.ptr, found.node)


REGIONS: dict[str, Callable[[FactorGraph], RegionGraph]] = {
    "auto": _auto,
    "bethe": regions_from_factors,
    "cycles": regions_from_cycles,
    "faces": functools.partial(regions_from_cycles, longest=4),
    "junction_tree": regions_from_junction_tree,
}
"""Ways to make a region graph of a field, by name."""
