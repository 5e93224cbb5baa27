"""Region graphs: clusters of variables, the regions in which they overlap, and how often each region counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_sets import (
    Sets,
    containments,
    counting_numbers,
    intersections,
    maximal,
    overlaps,
)
from hiddenfield.fields.layout import flatten
from hiddenfield.fields.wiring import connected_parts
from hiddenfield.shapes import Array, Float, Int


@dataclass(frozen=True, eq=False)
class RegionGraph:
    r"""Outer regions that carry the factors, inner regions where they must agree, and counting numbers.

    The free energy of Kikuchi that belongs to it,

    .. math::

        F(b) = \sum_\alpha N_\alpha \Big(-E_b[\log\Psi_\alpha] - H(b_\alpha)\Big)
             + \sum_\beta N_\beta \Big(-E_b[\log\Phi_\beta] - c_\beta H(b_\beta)\Big),

    is minimised over beliefs that agree, :math:`\sum_{x_{\alpha \setminus \beta}} b_\alpha = b_\beta` for every pair of
    an outer region and an inner one within it. Every factor lies in exactly one outer region; so does every variable's
    own potential, or in the inner region of that variable alone where there is one. A *pair* is an outer region
    and an inner one within it; pairs are sorted by inner region, inner regions by graph.

    Build one with `regions_from_clusters`, `regions_from_factors`, `regions_from_cycles` or
    `regions_from_junction_tree`; it belongs to all fields of the same scopes, whatever their potentials.

    Parameters
    ----------
    outer, inner
        The variables of each region; of an outer region port by port.
    outer_count, inner_count
        N, ground regions that each stands for; ones but for a field with counts.
    counting
        :math:`c_\beta` of every inner region; that of an outer one is 1.
    pair_outer, pair_inner
        The two regions of each pair.
    pair_position
        Where the inner region's variables stand in the outer one, pair by pair.
    factor_outer, factor_position
        Of every factor its outer region, and where its ports stand in it, factor by factor.
    variable_inner
        The inner region of each variable alone, -1 where there is none.
    variable_outer, variable_position
        An outer region of each variable, and where it stands in it.
    graph_ptr
        Bounds of every graph's inner regions.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> regions = regions_from_factors(ising_grid(2, 2))
    >>> regions.outer.sizes, regions.counting, regions.is_junction_tree
    (array([2, 2, 2, 2]), array([-1., -1., -1., -1.]), False)
    """

    outer: Sets
    inner: Sets
    outer_count: Float[Array, " outer_regions"]
    inner_count: Float[Array, " inner_regions"]
    counting: Float[Array, " inner_regions"]
    pair_outer: Int[Array, " pairs"]
    pair_inner: Int[Array, " pairs"]
    pair_position: Int[Array, " _"]
    factor_outer: Int[Array, " factors"]
    factor_position: Int[Array, " _"]
    variable_inner: Int[Array, " variables"]
    variable_outer: Int[Array, " variables"]
    variable_position: Int[Array, " variables"]
    graph_ptr: Int[Array, " graph_bounds"]

    def __repr__(self) -> str:
        """Say how large it is."""
        most = int(self.outer.sizes.max(initial=0))
        return (
            f"RegionGraph({len(self.outer):,} outer regions of up to {most} variables, "
            f"{len(self.inner):,} inner regions)"
        )

    @cached_property
    def pair_weight(self) -> Float[Array, " pairs"]:
        """How many ground outer regions of each pair touch one ground inner region."""
        return self.outer_count[self.pair_outer] / self.inner_count[self.pair_inner]

    @cached_property
    def degree(self) -> Float[Array, " inner_regions"]:
        """How many ground outer regions contain one ground inner region."""
        total = np.bincount(self.pair_inner, weights=self.pair_weight, minlength=len(self.inner))
        return total.astype(np.float64)

    @cached_property
    def pair_ptr(self) -> Int[Array, " inner_bounds"]:
        """Bounds of every inner region's pairs."""
        return np.searchsorted(self.pair_inner, np.arange(len(self.inner) + 1))

    def sweep_entries(self, field: FactorGraph) -> float:
        """Return how many entries of tables a sweep over all pairs reads: what an iteration costs."""
        logs = np.log(field.cardinalities.cpu().numpy())[self.outer.values]
        sizes = np.exp(np.bincount(self.outer.rows, logs, minlength=len(self.outer)))
        return float(sizes[self.pair_outer].sum())

    @cached_property
    def is_junction_tree(self) -> bool:
        """Whether the outer regions are cliques of a junction tree and agree on its separators: then all is exact.

        A spanning forest of the overlaps that is as heavy as any weighs, over junction trees and no others, the total
        size of the regions less the number of variables.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import minimum_spanning_tree

        ground = bool((self.outer_count == 1).all() and (self.inner_count == 1).all())
        ports = len(self.outer.values)
        if not ground or len(np.unique(self.outer.rows * (self.width + 1) + self.outer.values)) < ports:
            return False
        if (self.inner.sizes == 1).all():
            return self._is_forest
        both = overlaps(self.outer, self.outer, self.width)
        apart = both.first < both.second
        weights = -both.shared.sizes[apart].astype(np.float64)
        places = (both.first[apart], both.second[apart])
        tree = minimum_spanning_tree(csr_matrix((weights, places), shape=(len(self.outer),) * 2)).tocoo()
        if round(-tree.data.sum()) != ports - len(np.unique(self.outer.values)):
            return False
        if not len(tree.data) or not len(self.inner):
            return not len(tree.data)
        # Every separator must be a region that both of its cliques answer to.
        shape = (len(self.outer), len(self.inner))
        sizes = self.inner.sizes[self.pair_inner].astype(np.float64)
        held = csr_matrix((sizes, (self.pair_outer, self.pair_inner)), shape=shape)
        shared = held[tree.row].minimum(held[tree.col]).max(axis=1).toarray()[:, 0]
        return bool((shared >= -tree.data).all())

    @property
    def _is_forest(self) -> bool:
        """Whether no cycle joins outer regions and variables, and those that share a variable agree on it.

        The same question where inner regions are single variables, without all pairs of the regions at a variable.
        """
        ports, regions = len(self.outer.values), len(self.outer)
        nodes = regions + self.width
        if connected_parts(nodes, self.outer.rows, regions + self.outer.values)[0] != nodes - ports:
            return False
        sharing = np.bincount(self.outer.values, minlength=self.width)
        held = np.zeros(self.width, np.int64)
        held[self.inner.values] = np.diff(self.pair_ptr)
        return bool((held[sharing > 1] >= sharing[sharing > 1]).all())

    @property
    def width(self) -> int:
        """Number of variables."""
        return len(self.variable_outer)

    def check(self, field: FactorGraph) -> None:
        """Refuse a field that the regions were not made for."""
        factors = sum(group.num_factors for group in field.groups)
        if self.width != field.num_variables or len(self.factor_outer) != factors:
            raise InputError(
                f"the regions were made for {self.width} variables and {len(self.factor_outer)} factors, the field has "
                f"{field.num_variables} and {factors}; build them from this field"
            )
        flat, outer = flatten(field), self.outer
        begin = outer.ptr[:-1][self.factor_outer][flat.place_factor]
        same = len(self.factor_position) == len(flat.scope)
        if not same or (outer.values[begin + self.factor_position] != flat.scope).any():
            raise InputError(
                "the regions were made for factors of other variables; build them from this field"
            )


def regions_from_factors(field: FactorGraph) -> RegionGraph:
    r"""Return Bethe's regions: every factor an outer region, every variable an inner one with :math:`c = 1 - d`.

    Message passing on them is belief propagation. Counts are allowed: :math:`c_v = 1 - \sum_f N_f / N_v` over the
    ports of v. A variable without factors is an outer region. Linear time.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> regions = regions_from_factors(from_factors([[0, 1], [1, 2]], [np.zeros((2, 2))] * 2))
    >>> regions.counting
    array([ 0., -1.,  0.])
    """
    flat, variables = flatten(field), field.num_variables
    factors, own = Sets(flat.scope_ptr, flat.scope), flat.counts
    ports = np.diff(flat.port_ptr)
    loose, joined = np.flatnonzero(ports == 0), np.flatnonzero(ports)
    number, where, place = np.full(variables, -1), *np.zeros((2, variables), dtype=np.int64)
    number[joined] = np.arange(len(joined))
    position = np.arange(len(flat.scope)) - flat.scope_ptr[flat.place_factor]
    order = flat.port_place
    first = order[flat.port_ptr[joined]]
    where[joined], place[joined] = flat.place_factor[first], position[first]
    where[loose] = len(factors) + np.arange(len(loose))
    degree = np.bincount(flat.scope, weights=flat.factor_count[flat.place_factor], minlength=variables) / own
    return RegionGraph(
        outer=Sets.concatenate([factors, Sets.of_table(loose[:, None])]),
        inner=Sets.of_table(joined[:, None]),
        outer_count=np.concatenate([flat.factor_count, own[loose]]),
        inner_count=own[joined],
        counting=1 - degree[joined],
        pair_outer=flat.place_factor[order],
        pair_inner=number[flat.scope[order]],
        pair_position=position[order],
        factor_outer=np.arange(len(factors)),
        factor_position=position,
        variable_inner=number,
        variable_outer=where,
        variable_position=place,
        graph_ptr=np.searchsorted(joined, flat.variable_ptr),
    )


def regions_from_clusters(field: FactorGraph, clusters: Iterable[Sequence[int]] | Sets) -> RegionGraph:
    r"""Close clusters under intersection: the cluster-variation method.

    Outer regions are the clusters, the scopes of factors and the single variables that no other one contains; inner
    regions all intersections of regions. Counting numbers :math:`c_r = 1 - \sum_{s \supset r} c_s`, so that every
    factor and variable counts once. Copies of a factor (a count on variables of count 1) lie in one region and are
    multiplied; a field whose *variables* have counts is refused. Cost: the number of overlapping pairs of regions,
    vectorised.

    Parameters
    ----------
    field
        The field; its potentials do not matter.
    clusters
        The variables of each cluster, in any order, within one graph.

    Returns
    -------
    RegionGraph
        With counting numbers that sum to 1 over the regions around each variable and each factor.

    References
    ----------
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief propagation
    algorithms.

    Examples
    --------
    Two squares of a ladder: they overlap in its middle rung, which counts -1.

    >>> from hiddenfield.fields import ising_grid
    >>> regions = regions_from_clusters(ising_grid(2, 3), [[0, 1, 3, 4], [1, 2, 4, 5]])
    >>> regions, regions.inner.values, regions.counting
    (RegionGraph(2 outer regions of up to 4 variables, 1 inner regions), array([1, 4]), array([-1.]))
    """
    if not field.is_ground:
        raise InputError(
            "regions of several factors need a ground field, and this one has variables that stand for several; "
            "ground it, or take regions='bethe'"
        )
    width = field.num_variables
    given = clusters if isinstance(clusters, Sets) else Sets.of_lists(clusters)
    _check_clusters(given, field)
    factors = Sets.concatenate([Sets.of_table(group.scopes.cpu().numpy()) for group in field.groups])
    singles = Sets.of_table(np.arange(width)[:, None])
    outer = maximal(Sets.concatenate([given, factors, singles]), width)
    inner = intersections(outer, width)
    graph = field.variable_graph.cpu().numpy()
    owner = graph[inner.values[inner.ptr[:-1]]]
    # Small regions first within a graph: what they settle, the larger ones read.
    inner = inner[np.lexsort((inner.values[inner.ptr[:-1]], inner.sizes, owner))]
    pair_inner, pair_outer = containments(inner, outer, width)
    sizes = inner.sizes
    alone = sizes == 1
    variable_inner = np.full(width, -1)
    variable_inner[inner.values[inner.ptr[:-1][alone]]] = np.flatnonzero(alone)
    factor_outer = _first(containments(factors, outer, width), len(factors))
    variable_outer = _first(containments(singles, outer, width), width)
    return RegionGraph(
        outer=outer,
        inner=inner,
        outer_count=np.ones(len(outer)),
        inner_count=np.ones(len(inner)),
        counting=counting_numbers(outer, inner, width),
        pair_outer=pair_outer,
        pair_inner=pair_inner,
        pair_position=outer.positions(pair_outer, inner, pair_inner, width),
        factor_outer=factor_outer,
        factor_position=outer.positions(factor_outer, factors, np.arange(len(factors)), width),
        variable_inner=variable_inner,
        variable_outer=variable_outer,
        variable_position=outer.positions(variable_outer, singles, np.arange(width), width),
        graph_ptr=np.searchsorted(np.sort(owner), np.arange(field.num_graphs + 1)),
    )


def _first(pairs: tuple[Array, Array], count: int) -> Array:
    """Return the first container of each set; every set has one."""
    inside, container = pairs
    return container[np.searchsorted(inside, np.arange(count))]


def _check_clusters(clusters: Sets, field: FactorGraph) -> None:
    members = clusters.values
    if bool((clusters.sizes == 0).any()):
        raise InputError(
            f"cluster {int(np.argmax(clusters.sizes == 0))} is empty; name at least one variable"
        )
    wrong = (members < 0) | (members >= field.num_variables)
    if bool(wrong.any()):
        where = int(np.argmax(wrong))
        raise InputError(
            f"cluster {int(clusters.rows[where])} names variable {int(members[where])}, "
            f"but the variables are 0 to {field.num_variables - 1}"
        )
    graph = field.variable_graph.cpu().numpy()[members]
    mixed = graph != graph[clusters.ptr[clusters.rows]]
    if bool(mixed.any()):
        raise InputError(
            f"cluster {int(clusters.rows[np.argmax(mixed)])} joins variables of different graphs; "
            "a cluster lies within one"
        )
