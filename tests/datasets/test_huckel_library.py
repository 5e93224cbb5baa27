"""The parts of the molecule library: notation, symmetries, numbering, and the random order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.datasets.catalogue import (
    NO_PIECE,
    Library,
    Stratum,
    automorphisms,
    enumerate_states,
    library,
    mirrored,
    permute,
    unrank,
    words,
)
from hiddenfield.datasets.fragments import RING_SYSTEMS, parse
from hiddenfield.datasets.pieces import ragged_ranges
from hiddenfield.errors import InputError


@pytest.fixture(scope="module")
def chains() -> Library:
    return library()


@pytest.mark.parametrize("notation", ["c1ccccc", "C(C", "C?C", "c1cc[nH2", "Cxx"])
def test_bad_notation_is_refused(notation: str) -> None:
    with pytest.raises(InputError, match="cannot read the fragment"):
        parse(notation)


@pytest.mark.parametrize(
    ("name", "order"),
    [("benzene", 12), ("thiophene", 2), ("thiazole", 1), ("naphthalene", 4), ("anthracene", 4)],
)
def test_orders_of_symmetry_groups(name: str, order: int) -> None:
    assert len(automorphisms(parse(RING_SYSTEMS[name]))) == order


@pytest.mark.parametrize("name", RING_SYSTEMS)
def test_automorphisms_form_a_group_that_keeps_bonds(name: str) -> None:
    fragment = parse(RING_SYSTEMS[name])
    group = set(automorphisms(fragment))
    assert tuple(range(len(fragment))) in group
    bonds = {(frozenset((i, j)), kind) for i, j, kind in fragment.bonds}
    for one in group:
        assert {(frozenset((one[i], one[j])), kind) for i, j, kind in fragment.bonds} == bonds
        assert all(tuple(one[i] for i in other) in group for other in group)


@pytest.mark.parametrize(
    ("name", "joints", "groups", "kinds", "count"),
    [
        ("benzene", 1, 0, 1, 1),
        ("benzene", 1, 1, 1, 3),  # ortho, meta, para
        ("benzene", 2, 0, 1, 3),
        ("benzene", 1, 2, 1, 6),  # the pairs of places around a phenyl, mirrored ones once
        ("naphthalene", 1, 0, 1, 2),
        ("naphthalene", 1, 1, 1, 14),
        ("naphthalene", 2, 0, 1, 14),
        ("thiophene", 2, 0, 1, 6),
    ],
)
def test_states_counted_by_hand(name: str, joints: int, groups: int, kinds: int, count: int) -> None:
    assert len(enumerate_states(0, parse(RING_SYSTEMS[name]), joints, groups, kinds)) == count


@pytest.mark.parametrize("name", RING_SYSTEMS)
def test_states_are_one_for_each_orbit(name: str) -> None:
    """Burnside: the orbits of ordered pairs of sites number the mean of the pairs that a symmetry fixes."""
    fragment = parse(RING_SYSTEMS[name])
    group = automorphisms(fragment)
    fixed = [sum(one[site] == site for site in fragment.sites) for one in group]
    pairs = sum(count * (count - 1) for count in fixed) // len(group)
    states = enumerate_states(0, fragment, 2, 0, 1)
    assert len(states) == pairs
    assert all(mirrored(mirrored(state, group), group) == state for state in states)
    assert {mirrored(state, group) for state in states} == set(states)


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permute_is_a_permutation(size: int, key: int) -> None:
    assert sorted(permute(np.arange(size), size, key)) == list(range(size))


@given(st.integers(1, 2**61), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_permute_stays_in_range_and_depends_on_each_position_alone(size: int, key: int, seed: int) -> None:
    positions = np.unique(np.random.default_rng(seed).integers(0, size, 50))
    images = permute(positions, size, key)
    assert ((images >= 0) & (images < size)).all()
    assert len(set(images)) == len(positions)
    assert permute(positions[-1:], size, key)[0] == images[-1]


def test_permute_mixes() -> None:
    """Neighbours go far apart: gaps of the first positions look uniform, and so do the images' halves."""
    size = 10**8
    images = permute(np.arange(20_000), size, key=5)
    counts, _ = np.histogram(images, bins=50, range=(0, size))
    assert ((counts - 400) ** 2 / 400).sum() < 100  # chi-squared with 49 degrees: mean 49, deviation 10
    assert abs(np.corrcoef(images[:-1], images[1:])[0, 1]) < 0.05
    assert abs(np.corrcoef(images, permute(np.arange(20_000), size, key=6))[0, 1]) < 0.05


def test_mirror_images_come_in_pairs(chains: Library) -> None:
    assert np.array_equal(chains.mirror[chains.mirror], np.arange(len(chains.mirror)))
    atoms = np.diff(chains.table.atom_ptr)
    assert np.array_equal(atoms, atoms[chains.mirror])


def test_strata_hold_what_is_taken_of_them(chains: Library) -> None:
    assert chains.size == 100_000_000
    for stratum in chains.strata:
        assert stratum.taken <= stratum.size
        assert len(np.unique(stratum.arms, axis=0)) == len(stratum.arms)
        assert np.array_equal(chains.mirror[stratum.symmetric], stratum.symmetric)
        assert not set(chains.mirror[stratum.one_way]) & set(stratum.one_way)


def test_all_chains_have_15_to_42_atoms(chains: Library) -> None:
    atoms = np.diff(chains.table.atom_ptr)
    bounds = []
    for stratum in chains.strata:
        arms = atoms[stratum.arms].sum(axis=1)
        centres = atoms[np.concatenate([stratum.symmetric, stratum.one_way])]
        bounds.append((2 * arms.min() + centres.min(), 2 * arms.max() + centres.max()))
    assert min(low for low, _ in bounds) == 15
    assert max(high for _, high in bounds) == 42


@pytest.mark.parametrize("number", range(5))
def test_unranking_is_exact_at_the_corners(chains: Library, number: int) -> None:
    """The last pair of arms of each centre is followed by the first of the next."""
    stratum = chains.strata[number]
    arms, mirror = stratum.arms, chains.mirror
    pairs = len(arms) * (len(arms) + 1) // 2
    ranks = np.array([0, pairs - 1, len(stratum.symmetric) * pairs - 1, stratum.size - 1])
    found = unrank(stratum, mirror, ranks)
    centre = arms.shape[1]
    assert np.array_equal(found[0], [*arms[0], stratum.symmetric[0], *mirror[arms[0]][::-1]])
    assert np.array_equal(found[1], [*arms[-1], stratum.symmetric[0], *mirror[arms[-1]][::-1]])
    assert found[2, centre] == stratum.symmetric[-1]
    assert np.array_equal(found[3, :centre], arms[-1])


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 3))
def test_unranking_counts_pairs_once(arms: int, symmetric: int, one_way: int) -> None:
    """With made-up pieces: no chain equals another one or another one's mirror image."""
    if symmetric + one_way == 0:
        return
    ends = np.arange(arms)[:, None]
    start = 2 * arms
    centres = np.arange(start, start + symmetric)
    pairs = np.arange(start + symmetric, start + symmetric + 2 * one_way).reshape(one_way, 2)
    mirror = np.concatenate([np.arange(arms) + arms, np.arange(arms), centres, pairs[:, ::-1].ravel()])
    stratum = Stratum("made up", ends, centres, pairs[:, 0], 1)
    found = unrank(stratum, mirror, np.arange(stratum.size))
    both_ways = {tuple(row) for row in found} | {tuple(mirror[row][::-1]) for row in found}
    everything = arms * arms * (symmetric + 2 * one_way)
    assert len({min(tuple(row), tuple(mirror[row][::-1])) for row in found}) == stratum.size
    assert len(both_ways) == everything


def test_words_end_with_their_last_piece(chains: Library) -> None:
    rows = words(chains, np.arange(0, chains.size, 999_983))
    lengths = (rows != NO_PIECE).sum(axis=1)
    assert set(lengths) == {3, 5, 7}
    assert ((rows != NO_PIECE) == (np.arange(7) < lengths[:, None])).all()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
def test_ragged_ranges(rows: list[tuple[int, int]]) -> None:
    starts, counts = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = [start + step for start, count in rows for step in range(count)]
    assert ragged_ranges(starts, counts).tolist() == expected
