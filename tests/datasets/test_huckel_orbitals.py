"""Hueckel theory and the solar cell: textbook values, an independent computation, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hiddenfield.datasets.catalogue import library, words
from hiddenfield.datasets.fragments import Fragment, parse
from hiddenfield.datasets.generate import huckel
from hiddenfield.datasets.orbitals import (
    ALPHA,
    BETA,
    COULOMB,
    ELECTRONS,
    KINDS,
    NOT_PI,
    RESONANCE,
    PiLevels,
    efficiency,
    kind_of_atom,
    photon_current,
    pi_levels,
)
from hiddenfield.datasets.pieces import Molecules, assemble


def levels_of(notation: str) -> PiLevels:
    fragment = parse(notation)
    first, second, _ = np.array(fragment.bonds).T
    return pi_levels(kinds_of(fragment), first, second, np.array([0, len(fragment)]))


def kinds_of(fragment: Fragment) -> np.ndarray:
    return np.array([kind_of_atom(fragment, atom) for atom in range(len(fragment))])


def dense_levels(kinds: np.ndarray, edges: list[tuple[int, int]]) -> tuple[float, float, float]:
    """HOMO, LUMO and energy of one molecule, from the definition."""
    table = {frozenset(pair): value for pair, value in RESONANCE.items()}
    atoms = [atom for atom, kind in enumerate(kinds) if kind != NOT_PI]
    h = np.zeros((len(atoms), len(atoms)))
    for row, atom in enumerate(atoms):
        h[row, row] = COULOMB[kinds[atom]]
    for one, other in edges:
        if one in atoms and other in atoms:
            i, j = atoms.index(one), atoms.index(other)
            h[i, j] = h[j, i] = table[frozenset((KINDS[kinds[one]], KINDS[kinds[other]]))]
    m = sorted(np.linalg.eigh(h)[0], reverse=True)
    occupied = sum(int(ELECTRONS[kinds[atom]]) for atom in atoms) // 2
    return m[occupied - 1], m[occupied], 2 * sum(m[:occupied])


@pytest.fixture(scope="module")
def molecules() -> Molecules:
    numbers = np.random.default_rng(0).integers(0, library().size, 400)
    return assemble(library().table, words(library(), numbers))


@pytest.mark.parametrize(
    ("notation", "homo", "lumo", "energy"),
    [
        ("C=C", 1.0, -1.0, 2.0),
        ("C=CC=C", (5**0.5 - 1) / 2, -(5**0.5 - 1) / 2, 2 * 5**0.5),
        ("C=CC=CC=C", 2 * np.cos(3 * np.pi / 7), -2 * np.cos(3 * np.pi / 7), 6.9879),
        ("c1ccccc1", 1.0, -1.0, 8.0),
        ("c1ccc2ccccc2c1", 0.6180, -0.6180, 13.6832),
        ("c1ccc2cc3ccccc3cc2c1", 2**0.5 - 1, 1 - 2**0.5, 19.3137),
        ("c1ccccc1C=C", 0.6622, -0.6622, 10.4243),
        ("c1ccccc1-c1ccccc1", 0.7046, -0.7046, 16.3834),
    ],
)
def test_hydrocarbons_of_the_textbooks(notation: str, homo: float, lumo: float, energy: float) -> None:
    levels = levels_of(notation)
    np.testing.assert_allclose([levels.homo[0], levels.lumo[0]], [homo, lumo], atol=5e-5)
    np.testing.assert_allclose(levels.energy, energy, atol=5e-5)


def test_pyridine_solves_its_secular_equation() -> None:
    """By symmetry two orbitals are those of allyl off the axis, +-1; the others solve a cubic times a linear factor."""
    h, k = 0.51, 1.02
    symmetric = np.array(
        [
            [h, k * 2**0.5, 0, 0],
            [k * 2**0.5, 0, 1, 0],
            [0, 1, 0, 2**0.5],
            [0, 0, 2**0.5, 0],
        ]
    )
    m = np.sort(np.concatenate([np.linalg.eigvalsh(symmetric), [1.0, -1.0]]))[::-1]
    levels = levels_of("c1ccncc1")
    np.testing.assert_allclose([levels.homo[0], levels.lumo[0]], m[2:4], atol=1e-12)
    np.testing.assert_allclose(levels.energy, 2 * m[:3].sum(), atol=1e-12)
    assert levels.electrons[0] == 6


def test_formaldehyde_and_fluoroethylene_by_hand() -> None:
    carbonyl = levels_of("C=O")
    root = np.sqrt((0.97 / 2) ** 2 + 1.06**2)
    np.testing.assert_allclose([carbonyl.homo[0], carbonyl.lumo[0]], [0.97 / 2 + root, 0.97 / 2 - root])
    fluoride = levels_of("C=CF")
    roots = np.sort(np.roots([1, -2.71, -(1 + 0.52**2), 2.71]))[::-1]
    np.testing.assert_allclose([fluoride.homo[0], fluoride.lumo[0]], roots[1:], atol=1e-12)
    assert fluoride.electrons[0] == 4


@pytest.mark.parametrize(
    ("notation", "kinds"),
    [
        ("Cn1cccc1", ["", "N2", "C", "C", "C", "C"]),
        ("c1cc[nH]c1", ["C", "C", "C", "N2", "C"]),
        ("c1ncccc1C", ["C", "N1", "C", "C", "C", "C", "Me"]),
        ("C1C=CC=C1", ["", "C", "C", "C", "C"]),
        ("[SiH2]1C=CC=C1", ["", "C", "C", "C", "C"]),
        ("C=COC", ["C", "C", "O2", ""]),
        ("C=CN(C)C", ["C", "C", "N2", "", ""]),
        ("C=CSC", ["C", "C", "S2", ""]),
        ("C=CC#N", ["C", "C", "C", "N1"]),
        ("C=CC=O", ["C", "C", "C", "O1"]),
        ("C=CCl", ["C", "C", "Cl"]),
        ("c1ccc2nsnc2c1", ["C", "C", "C", "C", "N1", "S2", "N1", "C", "C"]),
        ("c1nnco1", ["C", "N1", "N1", "C", "O2"]),
    ],
)
def test_kinds_of_atoms(notation: str, kinds: list[str]) -> None:
    assert ["" if kind == NOT_PI else KINDS[kind] for kind in kinds_of(parse(notation))] == kinds


def test_donors_raise_the_homo_and_acceptors_lower_the_lumo() -> None:
    bare = levels_of("c1ccccc1-c1ccccc1")
    for donor in ("N", "O", "OC", "SC", "C", "F", "Cl"):
        assert levels_of(f"c1ccccc1-c1ccccc1{donor}").homo[0] < bare.homo[0]
    for acceptor in ("C#N", "C=O"):
        assert levels_of(f"c1ccccc1-c1ccccc1{acceptor}").lumo[0] > bare.lumo[0]


def test_against_a_dense_computation(molecules: Molecules) -> None:
    levels = pi_levels(molecules.kinds, molecules.first, molecules.second, molecules.node_ptr)
    for number in range(100):
        start, stop = molecules.node_ptr[number], molecules.node_ptr[number + 1]
        inside = (molecules.first >= start) & (molecules.first < stop)
        edges = list(zip(molecules.first[inside] - start, molecules.second[inside] - start, strict=True))
        expected = dense_levels(molecules.kinds[start:stop], [(int(i), int(j)) for i, j in edges])
        found = (levels.homo[number], levels.lumo[number], levels.energy[number])
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_electrons_are_even_and_orbitals_are_left_over(molecules: Molecules) -> None:
    levels = pi_levels(molecules.kinds, molecules.first, molecules.second, molecules.node_ptr)
    assert (levels.electrons % 2 == 0).all()
    assert (levels.homo > levels.lumo).all()


def test_every_bond_of_every_piece_has_a_resonance_integral() -> None:
    table = library().table
    start = np.repeat(table.atom_ptr[:-1], np.diff(table.bond_ptr))
    kinds = table.kinds[table.bond_ends + start[:, None]]
    inside = kinds[(kinds != NOT_PI).all(axis=1)]
    pairs = {(KINDS[i], KINDS[j]) for i, j in np.unique(np.sort(inside, axis=1), axis=0)}
    assert pairs <= set(RESONANCE)


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_pairing_theorem(half: int, seed: int) -> None:
    """Eigenvalues of a bipartite carbon skeleton come in pairs +-m, so the gap is twice the HOMO."""
    rng = np.random.default_rng(seed)
    size = 2 * half
    colour = np.arange(size) % 2
    edges = {(atom - 1, atom) for atom in range(1, size)}
    for _ in range(half):
        i, j = sorted(rng.integers(0, size, 2))
        if colour[i] != colour[j]:
            edges.add((int(i), int(j)))
    first, second = np.array(sorted(edges)).T
    levels = pi_levels(np.zeros(size, dtype=np.int64), first, second, np.array([0, size]))
    np.testing.assert_allclose(levels.homo, -levels.lumo, atol=1e-12)


@given(st.integers(0, 399), st.integers(0, 2**32 - 1))
def test_renumbering_the_atoms_changes_nothing(molecules: Molecules, number: int, seed: int) -> None:
    start, stop = molecules.node_ptr[number], molecules.node_ptr[number + 1]
    inside = (molecules.first >= start) & (molecules.first < stop)
    first, second = molecules.first[inside] - start, molecules.second[inside] - start
    kinds, bounds = molecules.kinds[start:stop], np.array([0, stop - start])
    place = np.random.default_rng(seed).permutation(int(stop - start))
    renumbered = np.empty_like(kinds)
    renumbered[place] = kinds
    one = pi_levels(kinds, first, second, bounds)
    other = pi_levels(renumbered, place[second], place[first], bounds)
    for name in ("homo", "lumo", "energy", "electrons"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10)


def test_targets_of_the_pack_are_these_levels() -> None:
    pack = huckel(50, seed=7)
    numbers = np.array([int(name[1:]) for name in pack.ids])
    whole = assemble(library().table, words(library(), numbers))
    levels = pi_levels(whole.kinds, whole.first, whole.second, whole.node_ptr)
    expected = np.stack(
        [
            3.0 * (levels.homo - levels.lumo),
            levels.energy / levels.electrons,
            efficiency(levels.homo, levels.lumo),
        ]
    )
    np.testing.assert_allclose(pack.targets.numpy().T, expected, atol=1e-6)


# -- the solar cell ---------------------------------------------------------------------------------------


def test_photon_current_is_the_integral_of_the_spectrum() -> None:
    """Integrate the photon flux of a 5778 K black body of 1000 W/m2 numerically."""
    thermal = 8.617333262e-5 * 5778

    def power(energy: np.ndarray) -> np.ndarray:
        return energy**3 / np.expm1(energy / thermal)

    everything = np.linspace(1e-9, 60 * thermal, 200_001)
    scale = 1000 / np.trapezoid(power(everything), everything)
    for gap in (0.5, 1.0, 1.7, 3.0):
        above = np.linspace(gap, 60 * thermal, 200_001)
        expected = np.trapezoid(scale * power(above) / above, above)
        np.testing.assert_allclose(photon_current(np.array([gap])), expected, rtol=1e-7)


def test_photon_current_counts_all_photons_without_a_gap() -> None:
    """The mean photon of a black body has the energy (pi**4 / 15) / (2 zeta(3)) kT."""
    mean = (np.pi**4 / 15) / (2 * 1.2020569) * 8.617333262e-5 * 5778
    assert photon_current(np.array([0.0]))[0] == pytest.approx(1000 / mean, rel=1e-3)


@given(st.floats(0.5, 4.0), st.floats(0.01, 1.0))
def test_a_wider_gap_gives_less_current(gap: float, more: float) -> None:
    narrow, wide = photon_current(np.array([gap, gap + more]))
    assert narrow > wide > 0


@given(st.floats(0.05, 0.6), st.floats(-0.9, -0.2), st.floats(0.01, 0.3))
def test_raising_the_lumo_lowers_the_efficiency(homo: float, lumo: float, more: float) -> None:
    """While charges separate, a higher LUMO only widens the gap: the voltage stays, the current falls."""
    low, high = efficiency(np.array([homo, homo]), np.array([lumo, lumo - more]))
    assert low > high > 0


def test_no_efficiency_without_voltage_or_without_separation() -> None:
    homo_of_no_voltage = (-4.6 - ALPHA) / BETA
    lumo_of_no_separation = (-4.0 - ALPHA) / BETA
    at, below = efficiency(
        np.array([homo_of_no_voltage + 0.01, homo_of_no_voltage - 0.01]), np.array([-0.4, -0.4])
    )
    assert at > 0
    assert below == 0
    above, under = efficiency(
        np.array([0.3, 0.3]), np.array([lumo_of_no_separation - 0.01, lumo_of_no_separation + 0.01])
    )
    assert above > 0
    assert under == 0


def test_the_best_cell_is_about_ten_percent() -> None:
    """Scharber's result for a LUMO just 0.3 eV above that of PCBM: a little over 10 % near a gap of 1.4 eV."""
    lumo = np.full(400, (-4.0 - ALPHA) / BETA - 1e-9)
    gaps = np.linspace(0.8, 3.0, 400)
    found = efficiency(lumo + gaps / -BETA, lumo)
    assert 9.5 < found.max() < 11.5
    assert 1.2 < gaps[found.argmax()] < 1.6
