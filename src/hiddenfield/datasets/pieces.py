"""Pieces: the states and linkers as ragged arrays, and how they are put one after another into molecules.

A piece knows its atoms and bonds with all their labels (already as they are within a chain: the joints have
lost their hydrogen), its pi system and its text. The atom where a chain enters is always its first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.datasets.fragments import (
    AROMATIC,
    DOUBLE,
    SIDE_GROUPS,
    SINGLE,
    TRIPLE,
    Fragment,
    parse,
    write,
)
from hiddenfield.datasets.orbitals import kind_of_atom
from hiddenfield.shapes import Array, Int

NODE_COLUMNS = ("element", "degree", "hydrogens", "valence", "aromatic")
EDGE_COLUMNS = ("bond", "conjugated", "ring")
NO_PIECE = -1
BOND_NAMES = {SINGLE: "single", DOUBLE: "double", TRIPLE: "triple", AROMATIC: "aromatic"}
# A single bond from an unsaturated atom to an unsaturated atom or an amine nitrogen, in no ring.
JOINT_BOND: BondRow = ("single", 1, 0)

AtomRow = tuple[str, int, int, int, int]
BondRow = tuple[str, int, int]


@dataclass(frozen=True)
class Piece:
    """One fragment with its side groups, as it stands in a chain.

    Attributes
    ----------
    text : str
        Its part of the molecule's SMILES.
    leave : int
        The atom from which the chain goes on, -1 at the end of the chain.
    atoms : list of rows
        One row of `NODE_COLUMNS` per atom, in the order of the text.
    kinds : list of int
        The atoms' kinds in the pi system, see `hiddenfield.datasets.orbitals`.
    ends, bonds : list of rows
        First and second atom of every bond, and its row of `EDGE_COLUMNS`.
    """

    text: str
    leave: int
    atoms: list[AtomRow]
    kinds: list[int]
    ends: list[tuple[int, int]]
    bonds: list[BondRow]


def build_piece(
    fragment: Fragment, entry: int | None, leave: int | None, groups: tuple[tuple[int, int], ...] = ()
) -> Piece:
    """Put side groups on a fragment and write it from `entry` to `leave`.

    Groups are given as (atom, number in `SIDE_GROUPS`). An end of the chain lacks the entry or the leave.

    Examples
    --------
    >>> build_piece(parse("c1ccsc1"), 0, 4, ((2, 0),)).text
    'c1cc(F)sc1'
    """
    line = write(fragment, entry, leave)
    on_atom = {atom: parse(SIDE_GROUPS[number]) for atom, number in groups}
    numbers: dict[int, int] = {}
    atoms: list[AtomRow] = []
    kinds: list[int] = []
    ends: list[tuple[int, int]] = []
    bonds: list[BondRow] = []
    for atom in line.atoms:
        joined = (atom == entry) + (atom == leave) + (atom in on_atom)
        row, kind = _atom_row(fragment, atom, joined)
        numbers[atom] = len(atoms)
        atoms.append(row)
        kinds.append(kind)
        if atom in on_atom:
            group = on_atom[atom]
            start = len(atoms)
            rows = [_atom_row(group, member, int(member == 0)) for member in range(len(group))]
            atoms.extend(row for row, _ in rows)
            kinds.extend(kind for _, kind in rows)
            ends.append((numbers[atom], start))
            bonds.append(("single", int(group.unsaturated(0) or group.elements[0] in ("N", "O")), 0))
            ends.extend((start + first, start + second) for first, second, _ in group.bonds)
            bonds.extend(_bond_rows(group))
    ends.extend((numbers[first], numbers[second]) for first, second, _ in fragment.bonds)
    bonds.extend(_bond_rows(fragment))
    text = line.text({atom: write(group, 0, None).text() for atom, group in on_atom.items()})
    return Piece(text, -1 if leave is None else numbers[leave], atoms, kinds, ends, bonds)


@cache
def _atom_row(fragment: Fragment, atom: int, joined: int) -> tuple[AtomRow, int]:
    hydrogens = fragment.hydrogens(atom, joined)
    implicit = hydrogens if fragment.bracket_hydrogens[atom] is None else 0
    degree = len(fragment.neighbours[atom]) + joined
    row = (fragment.elements[atom], degree, hydrogens, implicit, int(fragment.aromatic[atom]))
    return row, kind_of_atom(fragment, atom, joined)


@cache
def _bond_rows(fragment: Fragment) -> list[BondRow]:
    """Labels of a fragment's bonds.

    Conjugated are multiple and aromatic bonds, and single ones from an unsaturated atom to another or to N or
    O.
    """
    rows = []
    for first, second, kind in fragment.bonds:
        loose = [atom for atom in (first, second) if not fragment.unsaturated(atom)]
        to_pair = len(loose) == 1 and fragment.elements[loose[0]] in ("N", "O")
        conjugated = kind != SINGLE or not loose or to_pair
        in_ring = (min(first, second), max(first, second)) in fragment.ring_bonds
        rows.append((BOND_NAMES[kind], int(conjugated), int(in_ring)))
    return rows


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Many pieces as ragged arrays: the atoms of piece p are ``atom_ptr[p]:atom_ptr[p + 1]``; bonds likewise."""

    atom_ptr: Int[Array, " bounds"]
    bond_ptr: Int[Array, " bounds"]
    leave: Int[Array, " pieces"]
    atom_labels: Int[Array, "atoms node_columns"]
    kinds: Int[Array, " atoms"]
    bond_ends: Int[Array, "bonds two"]
    bond_labels: Int[Array, "bonds edge_columns"]
    joint_labels: Int[Array, " edge_columns"]
    texts: Array
    node_vocabularies: tuple[Vocabulary, ...]
    edge_vocabularies: tuple[Vocabulary, ...]


def build_table(pieces: Sequence[Piece]) -> PieceTable:
    """Stack pieces; the vocabularies hold every symbol that occurs in any of them.

    Symbols are sorted, except those of bonds, which are in the order of the SMILES reader.
    """
    atom_rows = [row for piece in pieces for row in piece.atoms]
    bond_rows = [row for piece in pieces for row in piece.bonds]
    node_vocabularies, atom_labels = _encode(NODE_COLUMNS, atom_rows)
    edge_vocabularies, bond_labels = _encode(EDGE_COLUMNS, [*bond_rows, JOINT_BOND])
    return PieceTable(
        atom_ptr=_pointers([len(piece.atoms) for piece in pieces]),
        bond_ptr=_pointers([len(piece.bonds) for piece in pieces]),
        leave=np.array([piece.leave for piece in pieces], dtype=np.int64),
        atom_labels=atom_labels,
        kinds=np.array([kind for piece in pieces for kind in piece.kinds], dtype=np.int64),
        bond_ends=np.array([pair for piece in pieces for pair in piece.ends], dtype=np.int64),
        bond_labels=bond_labels[:-1],
        joint_labels=bond_labels[-1],
        texts=np.array([piece.text for piece in pieces], dtype=object),
        node_vocabularies=node_vocabularies,
        edge_vocabularies=edge_vocabularies,
    )


def _pointers(counts: list[int]) -> Int[Array, " bounds"]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _encode(
    names: tuple[str, ...], rows: Sequence[tuple[Symbol, ...]]
) -> tuple[tuple[Vocabulary, ...], Array]:
    """Codes of the rows' symbols, column by column, through a dictionary of the few distinct rows."""
    distinct = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    rank: dict[Symbol, Symbol] = {name: number for number, name in enumerate(BOND_NAMES.values())}
    columns = list(zip(*distinct, strict=True))
    vocabularies = tuple(
        Vocabulary(name, tuple(sorted(set(column), key=lambda symbol: rank.get(symbol, symbol))))
        for name, column in zip(names, columns, strict=True)
    )
    coded = [words.encode(column) for words, column in zip(vocabularies, columns, strict=True)]
    return vocabularies, np.stack(coded, axis=1)[np.array([distinct[row] for row in rows])]


# -- pieces joined to molecules ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Molecules:
    """Chains packed end to end.

    Attributes
    ----------
    node_ptr : array of int, (structures + 1,)
        Bounds of the molecules' atoms.
    node_labels, kinds
        Label codes and pi kinds of the atoms, in the order of the SMILES.
    first, second, edge_labels
        Bonds between pack-wide atom numbers, and their label codes.
    """

    node_ptr: Int[Array, " bounds"]
    node_labels: Int[Array, "nodes node_columns"]
    kinds: Int[Array, " nodes"]
    first: Int[Array, " edges"]
    second: Int[Array, " edges"]
    edge_labels: Int[Array, "edges edge_columns"]


def assemble(table: PieceTable, words: Int[Array, "rows longest"]) -> Molecules:
    """Join the pieces of every row, each piece's first atom to the atom where the piece before it is left.

    Cost: linear in the atoms and bonds.
    """
    atoms_of_piece, bonds_of_piece = np.diff(table.atom_ptr), np.diff(table.bond_ptr)
    # A direct bond is a piece without atoms: it is only text.
    present = (words != NO_PIECE) & (atoms_of_piece[words] > 0)
    molecule, _ = np.nonzero(present)
    pieces = words[present]
    atoms, bonds = atoms_of_piece[pieces], bonds_of_piece[pieces]
    start = np.cumsum(atoms) - atoms
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(molecule, atoms, len(words)).astype(np.int64))])
    rows = ragged_ranges(table.atom_ptr[pieces], atoms)
    bond_rows = ragged_ranges(table.bond_ptr[pieces], bonds)
    ends = table.bond_ends[bond_rows] + np.repeat(start, bonds)[:, None]
    joint = np.flatnonzero(molecule[1:] == molecule[:-1])
    left = start[joint] + table.leave[pieces[joint]]
    return Molecules(
        node_ptr=node_ptr,
        node_labels=table.atom_labels[rows],
        kinds=table.kinds[rows],
        first=np.concatenate([ends[:, 0], left]),
        second=np.concatenate([ends[:, 1], start[joint + 1]]),
        edge_labels=np.concatenate(
            [table.bond_labels[bond_rows], np.tile(table.joint_labels, (len(joint), 1))]
        ),
    )


def ragged_ranges(starts: Int[Array, " rows"], counts: Int[Array, " rows"]) -> Int[Array, " total"]:
    """Return start, ..., start + count - 1 of every row, one row after another.

    Examples
    --------
    >>> ragged_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


def write_smiles(table: PieceTable, words: Int[Array, "rows longest"]) -> Array:
    """Return the SMILES of every row, as an array of strings."""
    texts = [*table.texts, ""]  # NO_PIECE is the last
    return np.array(["".join([texts[piece] for piece in row]) for row in words.tolist()])
