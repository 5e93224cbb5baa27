"""How a fragment is written on a line: the order of its atoms and the text around each.

A chain molecule is written piece after piece. That works when a piece starts at the atom where the chain
enters and is left, textually, at the atom where the chain goes on: then the texts of the pieces only need to
be put one after the other, and the atoms of the molecule are numbered in the order of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hiddenfield.datasets.molecule_library.fragments import DOUBLE, TRIPLE, Fragment


@dataclass(frozen=True)
class Line:
    """A fragment in written order.

    Attributes
    ----------
    atoms : tuple of int
        The fragment's atoms in the order of the text.
    before, after : tuple of str
        The text of each atom with what opens before it, and what closes after it; a side group goes between.
    leaves : tuple of bool
        Whether nothing else hangs on the atom after its own text, so that a side group needs no parentheses.
    """

    atoms: tuple[int, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    leaves: tuple[bool, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(before + after for before, after in zip(self.before, self.after, strict=True))


@lru_cache(maxsize=4096)
def write(fragment: Fragment, entry: int | None, leave: int | None) -> Line:
    """Write `fragment` from atom `entry` so that the text is left open at atom `leave`.

    The longest path from `entry` to `leave` is the stem of the text and what is off the stem becomes
    branches, so that all rings are closed when the text ends. Without an entry or without a leave the atom is
    free and chosen such that the stem is longest; without a leave no branch stays open.

    Examples
    --------
    >>> from hiddenfield.datasets.molecule_library.fragments import parse
    >>> write(parse("c1ccsc1"), 0, 2).text, write(parse("c1ccsc1"), 0, None).text
    ('c1csc(c1)', 'c1cscc1')
    """
    stem = _longest_path(fragment, entry, leave)
    children, parents = _spanning_tree(fragment, stem)
    order = _preorder(children, stem[0])
    closures = _ring_closures(fragment, order, parents)
    last = None if leave is None else stem[-1]
    before, after, leaves = [], [], []
    opened: dict[int, str] = {}
    for atom in order:
        parent = parents[atom]
        branch = parent is not None and (atom != children[parent][-1] or parent == last)
        bond = "" if parent is None else _bond_text(fragment, parent, atom)
        before.append(("(" if branch else "") + bond + _atom_text(fragment, atom) + closures.get(atom, ""))
        if branch:
            opened[_last_descendant(children, atom)] = ")" + opened.get(_last_descendant(children, atom), "")
        leaves.append(not children[atom] and atom != last)
    after = [opened.get(atom, "") for atom in order]
    return Line(tuple(order), tuple(before), tuple(after), tuple(leaves))


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
    order, stack = [], [root]
    while stack:
        atom = stack.pop()
        order.append(atom)
        stack.extend(reversed(children[atom]))
    return order


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


def _last_descendant(children: list[list[int]], atom: int) -> int:
    while children[atom]:
        atom = children[atom][-1]
    return atom


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
