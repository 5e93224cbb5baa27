"""The molecule library against RDKit: every label of every atom and bond, validity, and distinctness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hiddenfield.data.molecules import from_smiles
from hiddenfield.datasets.catalogue import NO_PIECE, Library, Stratum, library, unrank
from hiddenfield.datasets.fragments import RING_SYSTEMS, parse, write
from hiddenfield.datasets.generate import huckel
from hiddenfield.datasets.pieces import PieceTable, assemble, write_smiles

Chem = pytest.importorskip("rdkit.Chem")

BONDS = {"SINGLE": "single", "DOUBLE": "double", "TRIPLE": "triple", "AROMATIC": "aromatic"}


def atoms_by_rdkit(molecule: Any) -> list[tuple[Any, ...]]:
    return [
        (
            atom.GetSymbol(),
            atom.GetDegree(),
            atom.GetTotalNumHs(),
            atom.GetValence(Chem.ValenceType.IMPLICIT),
            int(atom.GetIsAromatic()),
        )
        for atom in molecule.GetAtoms()
    ]


def bonds_by_rdkit(molecule: Any) -> dict[frozenset[int], tuple[Any, ...]]:
    return {
        frozenset((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())): (
            BONDS[str(bond.GetBondType())],
            int(bond.GetIsConjugated()),
            int(bond.IsInRing()),
        )
        for bond in molecule.GetBonds()
    }


def check_words(table: PieceTable, words: np.ndarray) -> None:
    """Compare the assembled molecules with what RDKit reads out of their SMILES."""
    molecules, smiles = assemble(table, words), write_smiles(table, words)
    nodes = decoded(molecules.node_labels, table.node_vocabularies)
    edges = decoded(molecules.edge_labels, table.edge_vocabularies)
    owner = np.searchsorted(molecules.node_ptr, molecules.first, side="right") - 1
    edges_of: list[list[int]] = [[] for _ in words]
    for edge, molecule in enumerate(owner):
        edges_of[molecule].append(edge)
    for number, text in enumerate(smiles):
        read = Chem.MolFromSmiles(text)
        assert read is not None, text
        start, stop = molecules.node_ptr[number], molecules.node_ptr[number + 1]
        assert nodes[start:stop] == atoms_by_rdkit(read), text
        bonds = {
            frozenset((int(molecules.first[e] - start), int(molecules.second[e] - start))): edges[e]
            for e in edges_of[number]
        }
        assert len(bonds) == len(edges_of[number])
        assert bonds == bonds_by_rdkit(read), text


def decoded(codes: np.ndarray, vocabularies: Any) -> list[tuple[Any, ...]]:
    columns = [words.decode(codes[:, column]) for column, words in enumerate(vocabularies)]
    return list(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def chains() -> Library:
    return library()


@pytest.mark.parametrize("name", RING_SYSTEMS)
def test_ring_systems_read_as_rdkit_reads_them(name: str) -> None:
    fragment, molecule = parse(RING_SYSTEMS[name]), Chem.MolFromSmiles(RING_SYSTEMS[name])
    assert list(fragment.elements) == [atom.GetSymbol() for atom in molecule.GetAtoms()]
    assert list(fragment.aromatic) == [atom.GetIsAromatic() for atom in molecule.GetAtoms()]
    hydrogens = [fragment.hydrogens(atom) for atom in range(len(fragment))]
    assert hydrogens == [atom.GetTotalNumHs() for atom in molecule.GetAtoms()]
    rings = {frozenset(pair) for pair in fragment.ring_bonds}
    assert rings == {ends for ends, row in bonds_by_rdkit(molecule).items() if row[2]}


def test_ring_systems_are_distinct() -> None:
    assert len({Chem.CanonSmiles(text) for text in RING_SYSTEMS.values()}) == len(RING_SYSTEMS)


@pytest.mark.parametrize("name", RING_SYSTEMS)
def test_lines_say_the_same_molecule_and_stay_open_where_they_should(name: str) -> None:
    fragment, canonical = parse(RING_SYSTEMS[name]), Chem.CanonSmiles(RING_SYSTEMS[name])
    for entry in (None, *fragment.sites):
        for leave in (None, *fragment.sites):
            if entry is not None and entry == leave:
                continue
            line = write(fragment, entry, leave)
            assert Chem.CanonSmiles(line.text()) == canonical
            assert entry is None or line.atoms[0] == entry
            if leave is not None:
                longer = Chem.MolFromSmiles(line.text() + "C")
                (host,) = longer.GetAtomWithIdx(len(fragment)).GetNeighbors()
                assert line.atoms[host.GetIdx()] == leave


def test_a_sample_has_rdkits_labels(chains: Library) -> None:
    rng = np.random.default_rng(0)
    for stratum in chains.strata:
        words = unrank(stratum, chains.mirror, rng.integers(0, stratum.size, 600))
        check_words(chains.table, words)


def test_every_piece_has_rdkits_labels(chains: Library) -> None:
    """Put each start, end and inner part of a chain once next to fixed neighbours."""
    two, three = chains.strata[0], chains.strata[2]
    starts = np.unique(np.concatenate([two.arms[:, 0], three.arms[:, 0]]))
    direct = int(two.symmetric[0])
    phenyl = int(starts[0])
    at_start = [[start, direct, chains.mirror[phenyl], NO_PIECE, NO_PIECE] for start in starts]
    at_end = [[phenyl, direct, chains.mirror[start], NO_PIECE, NO_PIECE] for start in starts]
    centres = np.concatenate([three.symmetric, three.one_way, chains.mirror[three.one_way]])
    within = [[phenyl, direct, centre, direct, chains.mirror[phenyl]] for centre in centres]
    check_words(chains.table, np.array(at_start + at_end + within))


def test_the_packs_labels_are_rdkits() -> None:
    pack = huckel(300, seed=12, smiles=True)
    nodes = decoded(pack.node_labels.numpy(), pack.node_vocabularies)
    arcs = decoded(pack.arc_labels.numpy(), pack.arc_vocabularies)
    for number, text in enumerate(pack.columns["smiles"]):
        read = Chem.MolFromSmiles(text)
        start, stop = pack.node_ptr[number], pack.node_ptr[number + 1]
        assert nodes[start:stop] == atoms_by_rdkit(read)
        bonds = bonds_by_rdkit(read)
        span = range(int(pack.arc_ptr[number]), int(pack.arc_ptr[number + 1]))
        assert len(span) == 2 * len(bonds)
        for arc in span:
            assert (
                arcs[arc] == bonds[frozenset((int(pack.source[arc] - start), int(pack.target[arc] - start)))]
            )


def test_the_smiles_reader_gives_the_same_pack() -> None:
    pack = huckel(200, seed=5, smiles=True)
    read = from_smiles(pack.columns["smiles"].tolist(), num_workers=1, progress=False, extra=())
    assert torch.equal(read.node_ptr, pack.node_ptr)
    assert torch.equal(read.source, pack.source)
    assert torch.equal(read.in_ptr, pack.in_ptr)
    assert torch.equal(read.reverse, pack.reverse)
    assert read.arc_vocabularies == pack.arc_vocabularies
    assert torch.equal(read.arc_labels, pack.arc_labels)
    assert [words.name for words in read.node_vocabularies] == [
        words.name for words in pack.node_vocabularies
    ]
    assert decoded(read.node_labels.numpy(), read.node_vocabularies) == decoded(
        pack.node_labels.numpy(), pack.node_vocabularies
    )


def test_a_sample_is_distinct() -> None:
    smiles = huckel(10_000, seed=21, smiles=True).columns["smiles"]
    assert len({Chem.CanonSmiles(text) for text in smiles}) == 10_000


@pytest.mark.parametrize("number", range(5))
def test_small_strata_hold_every_molecule_once(chains: Library, number: int) -> None:
    """All chains of a few arms and centres, written out both ways round, are what unranking gives."""
    rng = np.random.default_rng(number)
    whole = chains.strata[number]
    small = Stratum(
        "small",
        whole.arms[rng.choice(len(whole.arms), 9, replace=False)],
        whole.symmetric[:4],
        whole.one_way[:3],
        taken=1,
    )
    numbered = canonical(chains, unrank(small, chains.mirror, np.arange(small.size)))
    centres = [*small.symmetric, *small.one_way, *chains.mirror[small.one_way]]
    written_out = [
        [*left, centre, *chains.mirror[right][::-1]]
        for left in small.arms
        for centre in centres
        for right in small.arms
    ]
    assert len(set(numbered)) == small.size
    assert set(numbered) == set(canonical(chains, np.array(written_out)))


def canonical(chains: Library, words: np.ndarray) -> list[str]:
    return [Chem.CanonSmiles(text) for text in write_smiles(chains.table, words)]
