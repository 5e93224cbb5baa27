"""SMILES to arrays of atoms and bonds, in chunks that worker processes can do.

A worker imports this module, and with it RDKit and numpy but not torch: that would cost it more time to start than
many chunks take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

DEFAULT_COLUMNS = ("element", "degree", "hydrogens", "valence", "aromatic")
EXTRA_COLUMNS = ("charge", "chirality", "hybridization", "isotope", "radicals")
BOND_COLUMNS = ("bond", "conjugated", "ring")
CHIRALITIES = ("none", "R", "S", "r", "s")


class Chunk(NamedTuple):
    """Some molecules as arrays; one that failed has no atoms, no bonds and an entry in `failures`.

    Attributes
    ----------
    num_atoms, num_bonds
        Sizes of every molecule.
    atoms
        A row for each column asked for, as plain numbers (an element is its atomic number).
    ends
        First and second atom of every bond, counted within its molecule.
    bonds
        A row for each of `BOND_COLUMNS`, as plain numbers.
    failures
        Position within the chunk and reason.
    """

    num_atoms: np.ndarray
    num_bonds: np.ndarray
    atoms: np.ndarray
    ends: np.ndarray
    bonds: np.ndarray
    failures: list[tuple[int, str]]


def read_chunk(smiles: Sequence[Any], columns: tuple[str, ...], explicit_hydrogens: bool) -> Chunk:
    """Read molecules, keeping RDKit's order of atoms and bonds.

    Parameters
    ----------
    smiles
        Texts; anything else is a failure.
    columns
        Names among `DEFAULT_COLUMNS` and `EXTRA_COLUMNS`.
    explicit_hydrogens
        Whether every hydrogen becomes an atom of its own.

    Examples
    --------
    >>> chunk = read_chunk(["CO", "C("], ("element", "hydrogens"), False)
    >>> chunk.num_atoms.tolist(), chunk.atoms.tolist(), chunk.failures
    ([2, 0], [[6, 8], [3, 1]], [(1, 'syntax error around position 2')])
    """
    from rdkit import rdBase
    from rdkit.Chem import Bond

    atom_readers = [_atom_readers()[name] for name in columns]
    bond_readers: tuple[Callable[[Any], Any], ...] = (
        Bond.GetBeginAtomIdx,
        Bond.GetEndAtomIdx,
        Bond.GetBondType,
        Bond.GetIsConjugated,
        Bond.IsInRing,
    )
    atom_values: list[list[int]] = [[] for _ in atom_readers]
    bond_values: list[list[int]] = [[] for _ in bond_readers]
    sizes = np.zeros((2, len(smiles)), dtype=np.int64)
    failures: list[tuple[int, str]] = []
    with rdBase.BlockLogs():
        for position, text in enumerate(smiles):
            molecule = _parse(text, explicit_hydrogens)
            if isinstance(molecule, str):
                failures.append((position, molecule))
                continue
            # By number: RDKit's own iterators take half as long again.
            atoms = list(map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())))
            bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
            sizes[:, position] = len(atoms), len(bonds)
            plain = (
                "@" not in text and "|" not in text
            )  # without a sign of chirality no atom need be asked for it
            for name, values, atom_reader in zip(columns, atom_values, atom_readers, strict=True):
                values.extend(
                    repeat(0, len(atoms)) if plain and name == "chirality" else map(atom_reader, atoms)
                )
            for values, bond_reader in zip(bond_values, bond_readers, strict=True):
                values.extend(map(bond_reader, bonds))
    atom_array = np.array(atom_values, dtype=np.int16).reshape(len(columns), -1)
    ends = np.array(bond_values[:2], dtype=np.int32)
    return Chunk(sizes[0], sizes[1], atom_array, ends, np.array(bond_values[2:], dtype=np.int16), failures)


def element_names(numbers: Sequence[int]) -> list[str]:
    """Return the symbols of atomic numbers; 0, an atom left open, is ``*``."""
    from rdkit.Chem import GetPeriodicTable

    table = GetPeriodicTable()
    return [table.GetElementSymbol(int(number)) for number in numbers]


def _parse(text: Any, explicit_hydrogens: bool) -> Any:
    """Return the molecule, or the reason why there is none."""
    from rdkit import Chem

    if not isinstance(text, str):
        return f"expected SMILES text, got {text!r}"
    if not text.strip():
        return "the text is empty"
    try:
        molecule = Chem.MolFromSmiles(text)
    except UnicodeEncodeError:
        return "the text holds a lone surrogate"
    if molecule is None:
        return _reason(text)
    if molecule.GetNumAtoms() == 0:
        return "there are no atoms"
    return Chem.AddHs(molecule) if explicit_hydrogens else molecule


def _reason(text: str) -> str:
    """Parse once more to hear what RDKit has to say, in one line."""
    from rdkit import Chem, rdBase

    capture = getattr(rdBase, "CaptureErrorLog", None)
    if capture is None:  # RDKit before 2026
        return "RDKit cannot read it"
    with capture() as log:
        Chem.MolFromSmiles(text)
    messages = re.sub(r"^\[\d\d:\d\d:\d\d\] ", "", log.messages, flags=re.MULTILINE)
    first = messages.strip().split("\n")[0].removeprefix("SMILES Parse Error: ")
    place = re.search(r"around position (\d+)", messages)
    plain = re.sub(r" (while parsing|for input): .*", "", first)
    return (plain or "RDKit cannot read it") + (f" {place[0]}" if place else "")


def _atom_readers() -> dict[str, Callable[[Any], int]]:
    """For each column the function that reads it from an atom."""
    from rdkit.Chem import Atom

    return {
        "element": Atom.GetAtomicNum,
        "degree": Atom.GetDegree,
        "hydrogens": Atom.GetTotalNumHs,
        "valence": Atom.GetNumImplicitHs,  # of a molecule just parsed, its implicit valence
        "aromatic": Atom.GetIsAromatic,
        "charge": Atom.GetFormalCharge,
        "chirality": lambda atom: (
            CHIRALITIES.index(atom.GetProp("_CIPCode")) if atom.HasProp("_CIPCode") else 0
        ),
        "hybridization": Atom.GetHybridization,
        "isotope": Atom.GetIsotope,
        "radicals": Atom.GetNumRadicalElectrons,
    }
