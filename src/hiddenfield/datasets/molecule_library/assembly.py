"""From pieces to molecules: many chains at once, with array operations only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.datasets.molecule_library.pieces import PieceTable
from hiddenfield.datasets.molecule_library.strata import NO_PIECE
from hiddenfield.shapes import Array, Int


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
