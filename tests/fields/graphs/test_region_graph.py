"""Region graphs: the cluster-variation method against its definition, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hiddenfield.errors import InputError
from hiddenfield.fields import (
    FactorGraph,
    RegionGraph,
    concatenate_fields,
    from_factors,
    ising_grid,
    regions_from_clusters,
    regions_from_cycles,
    regions_from_factors,
    regions_from_junction_tree,
)
from hiddenfield.fields.graphs.region_clusters import choose_regions
from tests.fields.strategies import fields

clusters = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), max_size=6)


def sets_of(regions: RegionGraph) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    def lists(sets):  # type: ignore[no-untyped-def]
        return [frozenset(sets.values[a:b].tolist()) for a, b in itertools.pairwise(sets.ptr.tolist())]

    return lists(regions.outer), lists(regions.inner)


@given(clusters)
def test_clusters_are_closed_under_intersection_and_count_once(given: list[list[int]]) -> None:
    field = from_factors([[v] for v in range(7)], [np.zeros(2)] * 7)
    regions = regions_from_clusters(field, given)
    wanted = {frozenset(cluster) for cluster in given} | {frozenset([v]) for v in range(7)}
    wanted = {one for one in wanted if not any(one < other for other in wanted)}
    closed = set(wanted)
    while True:
        more = {a & b for a in closed for b in closed if a & b} | closed
        if more == closed:
            break
        closed = more
    outer, inner = sets_of(regions)
    assert sorted(map(sorted, outer)) == sorted(map(sorted, wanted))
    assert sorted(map(sorted, inner)) == sorted(map(sorted, closed - wanted))
    counting = dict(zip(inner, regions.counting, strict=True)) | dict.fromkeys(outer, 1.0)
    for region, count in counting.items():
        assert count == 1 - sum(other for larger, other in counting.items() if region < larger)
    for variable in range(7):
        assert sum(count for region, count in counting.items() if variable in region) == 1
    pairs = {(outer[a], inner[b]) for a, b in zip(regions.pair_outer, regions.pair_inner, strict=True)}
    assert pairs == {(a, b) for a in outer for b in inner if b < a}


@given(fields(zeros=False))
def test_factors_and_pairs_know_their_positions(field: FactorGraph) -> None:
    regions = regions_from_clusters(field, [[0]])
    outer, inner = regions.outer, regions.inner
    scopes = [scope for group in field.groups for scope in group.scopes.tolist()]
    begin = 0
    for scope, home in zip(scopes, regions.factor_outer, strict=True):
        places = regions.factor_position[begin : begin + len(scope)]
        assert outer.values[outer.ptr[home] + places].tolist() == scope
        begin += len(scope)
    begin = 0
    for home, region in zip(regions.pair_outer, regions.pair_inner, strict=True):
        wanted = inner.values[inner.ptr[region] : inner.ptr[region + 1]]
        places = regions.pair_position[begin : begin + len(wanted)]
        assert outer.values[outer.ptr[home] + places].tolist() == wanted.tolist()
        begin += len(wanted)


def test_faces_of_a_grid() -> None:
    regions = regions_from_cycles(ising_grid(5, 6), 4)
    assert len(regions.outer) == 20
    assert len(regions.outer) + regions.counting.sum() == 1
    assert np.unique(regions.counting).tolist() == [-1, 1]
    assert not regions.is_junction_tree


@settings(max_examples=12)
@given(fields(zeros=False))
def test_cliques_of_a_junction_tree_are_one(field: FactorGraph) -> None:
    regions = regions_from_junction_tree(field)
    assert regions.is_junction_tree
    assert regions_from_factors(field).is_junction_tree <= field.is_forest


def test_bethe_counts_with_multiplicities() -> None:
    field = from_factors(
        [[0, 1], [0, 0]], [np.zeros((2, 2))] * 2, counts=[4, 2], factor_counts=[8, 2], cardinalities=[2, 2]
    )
    regions = regions_from_factors(field)
    np.testing.assert_allclose(regions.counting, [1 - 8 / 4 - 2 * 2 / 4, 1 - 8 / 2])
    with pytest.raises(InputError, match="ground field"):
        regions_from_clusters(field, [[0, 1]])


def test_a_batch_is_a_disjoint_union() -> None:
    one, two = ising_grid(3, 3), ising_grid(2, 4)
    batch = regions_from_cycles(concatenate_fields([one, two]))
    parts = [regions_from_cycles(one), regions_from_cycles(two)]
    assert batch.graph_ptr.tolist() == [0, len(parts[0].inner), len(parts[0].inner) + len(parts[1].inner)]
    np.testing.assert_array_equal(batch.counting, np.concatenate([part.counting for part in parts]))


def test_auto_takes_cycles_where_they_count_to_one() -> None:
    assert len(choose_regions(ising_grid(4, 4), "auto").outer) == 9
    assert len(choose_regions(ising_grid(1, 4), "auto").outer) == 3
    pairs = list(itertools.combinations(range(6), 2))
    dense = from_factors(pairs, [np.zeros((2, 2))] * len(pairs))
    assert choose_regions(dense, "auto").outer.sizes.max() == 2


def test_what_is_refused() -> None:
    field = ising_grid(2, 2)
    with pytest.raises(InputError, match="variable 9"):
        regions_from_clusters(field, [[0, 9]])
    with pytest.raises(InputError, match="empty"):
        regions_from_clusters(field, [[]])
    with pytest.raises(InputError, match="different graphs"):
        regions_from_clusters(concatenate_fields([field, field]), [[0, 5]])
    with pytest.raises(InputError, match="build them from this field"):
        choose_regions(ising_grid(2, 3), regions_from_factors(field))
    with pytest.raises(InputError, match="choose from: auto, bethe"):
        choose_regions(field, "beta")
