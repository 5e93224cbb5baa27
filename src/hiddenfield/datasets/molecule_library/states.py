"""The states of a ring system in a chain: where the chain is attached and which side groups it has.

Two placements that an automorphism of the ring system maps into each other are one molecule, so of every
orbit only the smallest placement is kept: equal molecules never have two states.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

from hiddenfield.datasets.molecule_library.fragments import Fragment


@dataclass(frozen=True, order=True)
class State:
    """One way for a ring system to take part in a chain.

    Attributes
    ----------
    ring : int
        Number of the ring system.
    joints : tuple of int
        The atoms bound to the rest of the chain: one for an end of the chain, (towards the start, towards the
        end) for a ring system within it.
    groups : tuple of (int, int)
        Atom and number of the side group, in ascending order.
    """

    ring: int
    joints: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]


def automorphisms(fragment: Fragment) -> list[tuple[int, ...]]:
    """List all permutations of the atoms that keep elements, aromaticity, hydrogens and bonds.

    Examples
    --------
    >>> from hiddenfield.datasets.molecule_library.fragments import parse
    >>> len(automorphisms(parse("c1ccccc1"))), automorphisms(parse("c1ccsc1"))
    (12, [(0, 1, 2, 3, 4), (1, 0, 4, 3, 2)])
    """
    kinds = [
        (fragment.elements[atom], fragment.aromatic[atom], fragment.hydrogens(atom))
        for atom in range(len(fragment))
    ]
    partial: list[tuple[int, ...]] = [()]
    for atom in range(len(fragment)):
        earlier = {other: kind for other, kind in fragment.neighbours[atom].items() if other < atom}
        partial = [
            (*images, image)
            for images in partial
            for image in range(len(fragment))
            if image not in images
            and kinds[image] == kinds[atom]
            and {o: k for o, k in fragment.neighbours[image].items() if o in images}
            == {images[other]: kind for other, kind in earlier.items()}
        ]
    return partial


def representative(state: State, symmetries: list[tuple[int, ...]]) -> State:
    """Return the smallest placement in the orbit of `state` under the ring system's automorphisms."""
    return min(
        State(
            state.ring, tuple(s[j] for j in state.joints), tuple(sorted((s[a], g) for a, g in state.groups))
        )
        for s in symmetries
    )


def enumerate_states(ring: int, fragment: Fragment, joints: int, groups: int, kinds: int) -> list[State]:
    """List all distinct states with `joints` joints and `groups` side groups out of `kinds`, in order."""
    symmetries = automorphisms(fragment)
    kept = []
    for chosen in product(fragment.sites, repeat=joints):
        if len(set(chosen)) < joints:
            continue
        free = [site for site in fragment.sites if site not in chosen]
        for places in combinations(free, groups):
            for types in product(range(kinds), repeat=groups):
                state = State(ring, chosen, tuple(zip(places, types, strict=True)))
                if representative(state, symmetries) == state:
                    kept.append(state)
    return kept


def mirrored(state: State, symmetries: list[tuple[int, ...]]) -> State:
    """Return the state as seen when the chain is read backwards."""
    return representative(State(state.ring, state.joints[::-1], state.groups), symmetries)
