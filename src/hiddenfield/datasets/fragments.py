"""The building blocks: ring systems, side groups and linkers, written as short line notations.

Everything that the library is combined from is in the three tables of this module. The notation is the part of
SMILES that the tables need (organic-subset atoms, lower case for aromatic ones, brackets with a hydrogen count, ``-``,
``=``, ``#``, branches, ring closures of one digit) and `parse` reads it, so that no chemistry package is needed when
the library is used.

A chain molecule is written piece after piece. That works when a piece starts at the atom where the chain enters and is
left, textually, at the atom where the chain goes on: then the texts of the pieces only need to be put one after the
other, and the atoms of the molecule are numbered in the order of the text. `write` orders a fragment in this way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import networkx

from hiddenfield.errors import InputError

SINGLE, DOUBLE, TRIPLE, AROMATIC = 1, 2, 3, 4
BOND_SYMBOLS = {"-": SINGLE, "=": DOUBLE, "#": TRIPLE}
VALENCES = {"C": 4, "N": 3, "O": 2, "S": 2, "Si": 4, "F": 1, "Cl": 1}
TOKEN = re.compile(
    r"\[(?P<bracket>[A-Za-z]+?)(?P<hydrogen>H\d?)?\]|(?P<atom>Cl|[CNOSFcnos])|(?P<other>[-=#()1-9])"
)


@dataclass(frozen=True, eq=False)
class Fragment:
    """Heavy atoms and the bonds between them.

    Attributes
    ----------
    elements : tuple of str
        The symbol of every atom, capitalised.
    aromatic : tuple of bool
        Whether the notation has the atom in lower case.
    bracket_hydrogens : tuple of int or None
        The hydrogens written in brackets, None for an atom without brackets.
    bonds : tuple of (int, int, int)
        First atom, second atom, one of `SINGLE`, `DOUBLE`, `TRIPLE`, `AROMATIC`.
    """

    elements: tuple[str, ...]
    aromatic: tuple[bool, ...]
    bracket_hydrogens: tuple[int | None, ...]
    bonds: tuple[tuple[int, int, int], ...]

    def __len__(self) -> int:
        return len(self.elements)

    @cached_property
    def neighbours(self) -> tuple[dict[int, int], ...]:
        """For every atom, its neighbours and the kind of the bond to each."""
        table: tuple[dict[int, int], ...] = tuple({} for _ in self.elements)
        for first, second, kind in self.bonds:
            table[first][second] = kind
            table[second][first] = kind
        return table

    @cached_property
    def ring_bonds(self) -> frozenset[tuple[int, int]]:
        """The bonds, as (smaller, larger) atom numbers, whose removal leaves their atoms connected."""
        bridges = {frozenset(pair) for pair in networkx.bridges(self.graph)}
        return frozenset(
            (min(pair), max(pair))
            for pair in (bond[:2] for bond in self.bonds)
            if frozenset(pair) not in bridges
        )

    @property
    def graph(self) -> networkx.Graph:
        """Atoms with element, aromaticity and hydrogens as their kind, and bonds with theirs."""
        graph = networkx.Graph()
        for atom, element in enumerate(self.elements):
            graph.add_node(atom, kind=(element, self.aromatic[atom], self.hydrogens(atom)))
        graph.add_weighted_edges_from(self.bonds, weight="kind")
        return graph

    def unsaturated(self, atom: int) -> bool:
        """Whether the atom is aromatic or has a multiple bond."""
        return self.aromatic[atom] or any(kind != SINGLE for kind in self.neighbours[atom].values())

    def hydrogens(self, atom: int, joined: int = 0) -> int:
        """Hydrogens on the atom when `joined` further single bonds leave it.

        Aromatic carbon has three sigma bonds, aromatic N, O and S without brackets have no hydrogen, and any
        other atom fills its usual valence.
        """
        written = self.bracket_hydrogens[atom]
        if written is not None:
            return written
        if self.aromatic[atom]:
            return 3 - len(self.neighbours[atom]) - joined if self.elements[atom] == "C" else 0
        return VALENCES[self.elements[atom]] - sum(self.neighbours[atom].values()) - joined

    @cached_property
    def sites(self) -> tuple[int, ...]:
        """The unsaturated ring carbons with one hydrogen: where linkers and side groups may replace it."""
        ring_atoms = {atom for bond in self.ring_bonds for atom in bond}
        return tuple(
            atom
            for atom in sorted(ring_atoms)
            if self.elements[atom] == "C" and self.unsaturated(atom) and self.hydrogens(atom) == 1
        )


@cache
def parse(notation: str) -> Fragment:
    """Read a line notation into a `Fragment`, atoms in the order in which they are written.

    Reading the same notation twice gives the same object. A bond that is not written is aromatic between two
    aromatic atoms and single otherwise.

    Examples
    --------
    >>> thiophene = parse("c1ccsc1")
    >>> thiophene.elements, thiophene.sites
    (('C', 'C', 'C', 'S', 'C'), (0, 1, 2, 4))
    """
    elements: list[str] = []
    aromatic: list[bool] = []
    hydrogens: list[int | None] = []
    bonds: list[tuple[int, int, int]] = []
    openings: dict[str, int] = {}
    branches: list[int] = []
    previous, kind, end = -1, 0, 0

    def bind(first: int, second: int, written: int) -> None:
        unwritten = AROMATIC if aromatic[first] and aromatic[second] else SINGLE
        bonds.append((first, second, written or unwritten))

    for token in TOKEN.finditer(notation):
        if token.start() != end:
            break
        end = token.end()
        symbol, other = token["bracket"] or token["atom"], token["other"]
        if symbol:
            elements.append(symbol.capitalize())
            aromatic.append(symbol.islower())
            count = token["hydrogen"]
            hydrogens.append(None if token["atom"] else int(count[1:] or 1) if count else 0)
            if previous >= 0:
                bind(previous, len(elements) - 1, kind)
            previous, kind = len(elements) - 1, 0
        elif other in BOND_SYMBOLS:
            kind = BOND_SYMBOLS[other]
        elif other == "(":
            branches.append(previous)
        elif other == ")":
            previous = branches.pop()
        elif other in openings:
            bind(openings.pop(other), previous, kind)
            kind = 0
        else:
            openings[other] = previous
    if end != len(notation) or openings or branches:
        raise InputError(
            f"cannot read the fragment {notation!r} from position {end}: see the module for the notation"
        )
    return Fragment(tuple(elements), tuple(aromatic), tuple(hydrogens), tuple(bonds))


RING_SYSTEMS: dict[str, str] = {
    "benzene": "c1ccccc1",
    "pyridine": "c1ccncc1",
    "pyridazine": "c1ccnnc1",
    "pyrimidine": "c1cncnc1",
    "pyrazine": "c1cnccn1",
    "triazine": "c1ncncn1",
    "tetrazine": "c1nncnn1",
    "thiophene": "c1ccsc1",
    "furan": "c1ccoc1",
    "pyrrole": "c1cc[nH]c1",
    "methylpyrrole": "Cn1cccc1",
    "thiazole": "c1cscn1",
    "oxazole": "c1cocn1",
    "thiadiazole": "c1nncs1",
    "oxadiazole": "c1nnco1",
    "silole": "[SiH2]1C=CC=C1",
    "cyclopentadiene": "C1C=CC=C1",
    "ethylenedioxythiophene": "c1scc2OCCOc12",
    "thieno[3,2-b]thiophene": "c1cc2sccc2s1",
    "thieno[2,3-b]thiophene": "c1cc2ccsc2s1",
    "furo[3,2-b]furan": "c1cc2occc2o1",
    "pyrrolo[3,2-b]pyrrole": "c1cc2[nH]ccc2[nH]1",
    "thieno[3,2-b]pyrrole": "c1cc2sccc2[nH]1",
    "thiazolo[5,4-d]thiazole": "c1nc2scnc2s1",
    "thieno[3,4-b]pyrazine": "c1cnc2cscc2n1",
    "naphthalene": "c1ccc2ccccc2c1",
    "quinoline": "c1ccc2ncccc2c1",
    "quinoxaline": "c1ccc2nccnc2c1",
    "benzothiophene": "c1ccc2sccc2c1",
    "benzofuran": "c1ccc2occc2c1",
    "indole": "c1ccc2[nH]ccc2c1",
    "benzothiazole": "c1ccc2scnc2c1",
    "benzothiadiazole": "c1ccc2nsnc2c1",
    "benzoxadiazole": "c1ccc2nonc2c1",
    "pyridothiadiazole": "c1cc2nsnc2cn1",
    "anthracene": "c1ccc2cc3ccccc3cc2c1",
    "phenanthrene": "c1ccc2ccc3ccccc3c2c1",
    "phenazine": "c1ccc2nc3ccccc3nc2c1",
    "fluorene": "c1ccc2-c3ccccc3Cc2c1",
    "carbazole": "c1ccc2c3ccccc3[nH]c2c1",
    "dibenzothiophene": "c1ccc2c3ccccc3sc2c1",
    "dibenzofuran": "c1ccc2c3ccccc3oc2c1",
    "benzo[1,2-b:4,5-b']dithiophene": "c1cc2cc3sccc3cc2s1",
    "dithieno[3,2-b:2',3'-d]thiophene": "c1cc2sc3ccsc3c2s1",
    "dithieno[3,2-b:2',3'-d]pyrrole": "c1cc2[nH]c3ccsc3c2s1",
    "cyclopentadithiophene": "c1cc2Cc3ccsc3-c2s1",
    "dithienosilole": "c1cc2[SiH2]c3ccsc3-c2s1",
}

SIDE_GROUPS: tuple[str, ...] = ("F", "Cl", "C", "O", "OC", "N", "N(C)C", "C#N", "C=O", "SC")

# Linkers, with the atom from which the chain goes on; it enters at the first.
SYMMETRIC_LINKERS: dict[str, int] = {"C=C": 1, "C#C": 1, "N=N": 1, "N": 0, "C=CC=C": 3}
# Each with its mirror image, which is what a molecule read backwards has in its place.
ONE_WAY_LINKERS: tuple[tuple[tuple[str, int], tuple[str, int]], ...] = (
    (("C=N", 1), ("N=C", 1)),
    (("C(C#N)=C", 3), ("C=C(C#N)", 1)),
)


# -- a fragment on a line: the order of its atoms and the text around each -----------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """A fragment in written order.

    Attributes
    ----------
    fragment : Fragment
        What is written.
    atoms : tuple of int
        Its atoms in the order of the text.
    children : list of lists
        For every atom those that hang on it, the one with which the text goes on last.
    closures : dict
        The digits of the rings that open or close at an atom.
    leave : int or None
        The atom at which the text is left open: all that hangs on it are branches.
    """

    fragment: Fragment
    atoms: tuple[int, ...]
    children: list[list[int]]
    closures: dict[int, str]
    leave: int | None

    def text(self, groups: Mapping[int, str] | None = None, atom: int | None = None) -> str:
        """Return the text, with those of the side groups behind their atoms; of an `atom` and what hangs on it."""
        atom = self.atoms[0] if atom is None else atom
        hanging = self.children[atom]
        text = _atom_text(self.fragment, atom) + self.closures.get(atom, "")
        if groups and atom in groups:
            text += f"({groups[atom]})" if hanging or atom == self.leave else groups[atom]
        for child in hanging:
            part = _bond_text(self.fragment, atom, child) + self.text(groups, child)
            text += f"({part})" if child != hanging[-1] or atom == self.leave else part
        return text


@lru_cache(maxsize=4096)
def write(fragment: Fragment, entry: int | None, leave: int | None) -> Line:
    """Write `fragment` from atom `entry` so that the text is left open at atom `leave`.

    The longest path from `entry` to `leave` is the stem of the text and what is off the stem becomes
    branches, so that all rings are closed when the text ends. Without an entry or without a leave the atom is
    free and chosen such that the stem is longest; without a leave no branch stays open.

    Examples
    --------
    >>> from hiddenfield.datasets.fragments import parse
    >>> write(parse("c1ccsc1"), 0, 2).text(), write(parse("c1ccsc1"), 0, None).text()
    ('c1csc(c1)', 'c1cscc1')
    """
    stem = _longest_path(fragment, entry, leave)
    children, parents = _spanning_tree(fragment, stem)
    order = _preorder(children, stem[0])
    return Line(fragment, tuple(order), children, _ring_closures(fragment, order, parents), leave)


def _longest_path(fragment: Fragment, entry: int | None, leave: int | None) -> list[int]:
    best: list[int] = []
    starts = range(len(fragment)) if entry is None else (entry,)
    for start in starts:
        stack = [[start]]
        while stack:
            path = stack.pop()
            if len(path) > len(best) and leave in (None, path[-1]):
                best = path
            stack.extend(
                [*path, other] for other in sorted(fragment.neighbours[path[-1]]) if other not in path
            )
    return best


def _spanning_tree(fragment: Fragment, stem: list[int]) -> tuple[list[list[int]], list[int | None]]:
    """Hang every other atom on the latest atom of the stem that reaches it; the stem goes on last."""
    children: list[list[int]] = [[] for _ in fragment.elements]
    parents: list[int | None] = [None] * len(fragment)
    seen = set(stem)

    def claim(atom: int) -> None:
        for other in sorted(fragment.neighbours[atom]):
            if other not in seen:
                seen.add(other)
                children[atom].append(other)
                parents[other] = atom
                claim(other)

    for position in range(len(stem) - 1, -1, -1):
        claim(stem[position])
        if position + 1 < len(stem):
            children[stem[position]].append(stem[position + 1])
            parents[stem[position + 1]] = stem[position]
    return children, parents


def _preorder(children: list[list[int]], root: int) -> list[int]:
    return [root, *(atom for child in children[root] for atom in _preorder(children, child))]


def _ring_closures(fragment: Fragment, order: list[int], parents: list[int | None]) -> dict[int, str]:
    """Return the digits of every atom: each bond off the tree opens at one end and closes at the other."""
    position = {atom: place for place, atom in enumerate(order)}
    off_tree = sorted(
        (min(position[i], position[j]), max(position[i], position[j]))
        for i, j, _ in fragment.bonds
        if parents[i] != j and parents[j] != i
    )
    digits: dict[int, str] = {}
    closing: dict[int, tuple[int, str]] = {}
    for place, atom in enumerate(order):
        for number in [number for number, (end, _) in closing.items() if end == place]:
            digits[atom] = digits.get(atom, "") + closing.pop(number)[1] + str(number)
        for start, end in off_tree:
            if start == place:
                number = next(number for number in range(1, 10) if number not in closing)
                closing[number] = (end, _bond_text(fragment, atom, order[end]))
                digits[atom] = digits.get(atom, "") + str(number)
    return digits


def _atom_text(fragment: Fragment, atom: int) -> str:
    element, hydrogens = fragment.elements[atom], fragment.bracket_hydrogens[atom]
    symbol = element.lower() if fragment.aromatic[atom] else element
    if hydrogens is None:
        return symbol
    return f"[{symbol}{'H' if hydrogens else ''}{hydrogens if hydrogens > 1 else ''}]"


def _bond_text(fragment: Fragment, first: int, second: int) -> str:
    kind = fragment.neighbours[first][second]
    if kind in (DOUBLE, TRIPLE):
        return "=" if kind == DOUBLE else "#"
    single_between_aromatic = kind == 1 and fragment.aromatic[first] and fragment.aromatic[second]
    return "-" if single_between_aromatic else ""
