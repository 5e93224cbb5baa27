"""The catalogue: every piece that chains are made of, and the strata that make up the library.

A ring system takes part in a chain in several *states*: where the chain is attached and which side groups it has. Two
placements that an automorphism of the ring system maps into each other are one molecule, so of every orbit only the
smallest placement is kept: equal molecules never have two states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from hiddenfield.datasets.molecule_library.fragments import (
    ONE_WAY_LINKERS,
    RING_SYSTEMS,
    SIDE_GROUPS,
    SYMMETRIC_LINKERS,
    Fragment,
    parse,
)
from hiddenfield.datasets.molecule_library.pieces import Piece, build_piece, build_table
from hiddenfield.datasets.molecule_library.strata import Library, Stratum
from hiddenfield.shapes import Array, Int

# Larger ring systems have enough inner places without side groups.
LARGEST_WITHIN_WITH_GROUP = 6


@dataclass(frozen=True)
class Entry:
    """A piece with what the rules of the strata ask of it: its role, ring atoms and number of side groups."""

    piece: Piece
    mirror: int
    role: str
    atoms: int = 0
    groups: int = 0


@lru_cache(maxsize=1)
def library() -> Library:
    """Build the library's tables: about a second, once per process.

    Side groups and linkers compete: a start of a chain with a side group is always bound directly, or else
    nearly all chains would have both everywhere.
    """
    entries = _entries()
    mirror = np.array([entry.mirror for entry in entries])

    def numbers(role: str, rule: Callable[[Entry], bool] = lambda entry: True) -> Int[Array, " pieces"]:
        return np.array(
            [number for number, entry in enumerate(entries) if entry.role == role and rule(entry)]
        )

    direct, linkers = numbers("direct"), numbers("linker")
    wide = numbers("start", lambda entry: entry.atoms >= 8)[:, None]

    def linked(largest: int) -> Int[Array, "arms two"]:
        starts = numbers("start", lambda entry: entry.atoms <= largest)
        bare = numbers("start", lambda entry: entry.atoms <= largest and not entry.groups)
        return np.concatenate([_product(starts, direct), _product(bare, linkers)])

    middle, narrow = linked(10), linked(6)
    long = _product(narrow, numbers("within", lambda entry: entry.atoms <= 8 and not entry.groups))
    strata = (
        _stratum("two ring systems, bound directly", wide, direct, mirror, 10_000_000),
        _stratum("two ring systems, linked", wide, linkers, mirror, 15_000_000),
        _stratum("three ring systems", middle, numbers("within"), mirror, 45_000_000),
        _stratum("four ring systems, bound directly", long, direct, mirror, 20_000_000),
        _stratum("four ring systems, linked", long, linkers, mirror, 10_000_000),
    )
    return Library(build_table([entry.piece for entry in entries]), mirror, strata)


def _product(rows: Int[Array, ...], column: Int[Array, " column"]) -> Int[Array, "arms depth"]:
    """Append each number of `column` to each row."""
    table = rows.reshape(len(rows), -1)
    return np.concatenate(
        [np.repeat(table, len(column), axis=0), np.tile(column, len(table))[:, None]], axis=1
    )


def _stratum(
    name: str,
    arms: Int[Array, "arms depth"],
    centres: Int[Array, " centres"],
    mirror: Int[Array, " pieces"],
    taken: int,
) -> Stratum:
    image = mirror[centres]
    return Stratum(name, arms, centres[image == centres], centres[centres < image], taken)


def _entries() -> list[Entry]:
    """List all pieces: linkers; then for every ring system the starts, ends and inner parts of chains."""
    entries = _linkers()
    for ring, notation in enumerate(RING_SYSTEMS.values()):
        fragment = parse(notation)
        size = len(fragment)
        for groups in (0, 1):
            for state in enumerate_states(ring, fragment, 1, groups, len(SIDE_GROUPS)):
                (joint,) = state.joints
                number = len(entries)
                start = build_piece(fragment, None, joint, state.groups)
                end = build_piece(fragment, joint, None, state.groups)
                entries.append(Entry(start, number + 1, "start", size, groups))
                entries.append(Entry(end, number, "end", size, groups))
            if groups == 0 or size <= LARGEST_WITHIN_WITH_GROUP:
                entries.extend(_within(ring, fragment, groups, len(entries)))
    return entries


def _within(ring: int, fragment: Fragment, groups: int, start: int) -> list[Entry]:
    states = enumerate_states(ring, fragment, 2, groups, len(SIDE_GROUPS))
    symmetries = automorphisms(fragment)
    place = {state: start + number for number, state in enumerate(states)}
    return [
        Entry(
            build_piece(fragment, state.joints[0], state.joints[1], state.groups),
            place[mirrored(state, symmetries)],
            "within",
            len(fragment),
            groups,
        )
        for state in states
    ]


def _linkers() -> list[Entry]:
    """List the direct bond, which has no atoms, and the linkers."""
    entries = [Entry(Piece("-", -1, [], [], [], []), 0, "direct")]
    for text, leave in SYMMETRIC_LINKERS.items():
        entries.append(Entry(build_piece(parse(text), 0, leave), len(entries), "linker"))
    for one, other in ONE_WAY_LINKERS:
        for (text, leave), mirror in ((one, len(entries) + 1), (other, len(entries))):
            entries.append(Entry(build_piece(parse(text), 0, leave), mirror, "linker"))
    return entries


# -- the states of a ring system in a chain ------------------------------------------------------------------


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
