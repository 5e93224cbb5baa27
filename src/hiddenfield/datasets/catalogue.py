"""The catalogue: every piece that chains are made of, and the strata that make up the library.

A ring system takes part in a chain in several *states*: where the chain is attached and which side groups it has. Two
placements that an automorphism of the ring system maps into each other are one molecule, so of every orbit only the
smallest placement is kept: equal molecules never have two states.

A chain of ring systems is a *centre* between two *arms*. For an odd number of ring systems the centre is a
ring system, for an even number it is a linker; an arm is what lies on one side, read from the end of the
chain towards the centre. Read backwards, the chain has the mirrored centre and its arms exchanged. So every
molecule is counted once when

- a centre that is its own mirror image takes *unordered* pairs of the K arms, K (K + 1) / 2 of them, and
- of a centre and its different mirror image only one is used, with all K**2 *ordered* pairs.

Two such chains are never the same molecule: an isomorphism maps ring systems (the parts that are connected by
ring bonds) to ring systems and keeps their order along the chain or reverses it, and the states of a ring
system are distinct by construction.

`permute` is a keyed permutation of 0, 1, ..., size - 1 that needs no table. It gives any part of a random order by
itself: position p is computed from p, the size and the key alone, with integer arithmetic that is the same on every
machine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import isqrt

import numpy as np
from networkx.algorithms import isomorphism

from hiddenfield.datasets.fragments import (
    ONE_WAY_LINKERS,
    RING_SYSTEMS,
    SIDE_GROUPS,
    SYMMETRIC_LINKERS,
    Fragment,
    parse,
)
from hiddenfield.datasets.pieces import NO_PIECE, Piece, PieceTable, build_piece, build_table
from hiddenfield.shapes import Array, Int, Shaped

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
    >>> from hiddenfield.datasets.fragments import parse
    >>> len(automorphisms(parse("c1ccccc1"))), automorphisms(parse("c1ccsc1"))
    (12, [(0, 1, 2, 3, 4), (1, 0, 4, 3, 2)])
    """
    same = operator.eq
    matcher = isomorphism.GraphMatcher(fragment.graph, fragment.graph, same, same)
    return sorted(
        tuple(image[atom] for atom in range(len(fragment))) for image in matcher.isomorphisms_iter()
    )


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


# -- strata: chains of one shape, and how they are numbered without repeats -----------------------------------

LONGEST_WORD = 7


@dataclass(frozen=True, eq=False)
class Stratum:
    """Chains of one shape: all their arms and centres, as numbers of pieces.

    Attributes
    ----------
    name : str
        What the chains have in common.
    arms : array of int, (arms, depth)
        Pieces from the start of the chain inwards.
    symmetric, one_way : array of int
        Centres that are their own mirror image, and one of each other pair.
    taken : int
        How many of the chains, in a fixed scrambled order, belong to the library.
    """

    name: str
    arms: Int[Array, "arms depth"]
    symmetric: Int[Array, " symmetric_centres"]
    one_way: Int[Array, " one_way_centres"]
    taken: int

    @property
    def size(self) -> int:
        """Number of distinct molecules of this shape."""
        count = len(self.arms)
        return len(self.symmetric) * (count * (count + 1) // 2) + len(self.one_way) * count * count


@dataclass(frozen=True, eq=False)
class Library:
    """The pieces, their mirror images, and the strata that are built of them."""

    table: PieceTable
    mirror: Int[Array, " pieces"]
    strata: tuple[Stratum, ...]

    @property
    def size(self) -> int:
        """Number of molecules in the library."""
        return sum(stratum.taken for stratum in self.strata)


def unrank(
    stratum: Stratum, mirror: Int[Array, " pieces"], ranks: Int[Array, " rows"]
) -> Int[Array, "rows length"]:
    """Return the chains with the given numbers in 0, ..., size - 1, each as its pieces from start to end.

    For a symmetric centre, q = j (j + 1) / 2 + i numbers the arms i <= j.
    """
    count = len(stratum.arms)
    pairs = count * (count + 1) // 2
    first_ordered = len(stratum.symmetric) * pairs
    ordered = ranks >= first_ordered
    centre, within = np.divmod(ranks, pairs)
    right = ((np.sqrt(8.0 * within + 1.0) - 1.0) / 2.0).astype(np.int64)
    right -= right * (right + 1) // 2 > within
    right += (right + 1) * (right + 2) // 2 <= within
    left = within - right * (right + 1) // 2
    one_way, both = np.divmod(ranks[ordered] - first_ordered, count * count)
    left[ordered], right[ordered] = np.divmod(both, count)
    centre[ordered] = one_way + len(stratum.symmetric)
    centres = np.concatenate([stratum.symmetric, stratum.one_way])
    backwards = mirror[stratum.arms[right]][:, ::-1]
    return np.concatenate([stratum.arms[left], centres[centre][:, None], backwards], axis=1)


def words(library: Library, numbers: Int[Array, " rows"]) -> Int[Array, "rows longest"]:
    """Return the pieces of the molecules with the given library numbers, `NO_PIECE` after the last."""
    result = np.full((len(numbers), LONGEST_WORD), NO_PIECE, dtype=np.int64)
    start = 0
    for key, stratum in enumerate(library.strata):
        inside = np.flatnonzero((numbers >= start) & (numbers < start + stratum.taken))
        ranks = permute(numbers[inside] - start, stratum.size, key)
        chains = unrank(stratum, library.mirror, ranks)
        result[inside, : chains.shape[1]] = chains
        start += stratum.taken
    return result


# -- a keyed permutation that needs no table -----------------------------------------------------------------


ROUNDS = 8


def mix(values: Shaped[Array, " rows"]) -> Shaped[Array, " rows"]:
    """Scramble 64-bit words: two rounds of xor-shift and multiplication (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def permute(positions: Int[Array, " rows"], size: int, key: int) -> Int[Array, " rows"]:
    r"""Where a keyed pseudo-random permutation of ``range(size)`` sends each position.

    A Feistel network over pairs (x, y) with x < a, y < b and ab >= size: the rounds alternate
    :math:`x \leftarrow x + f_r(y) \bmod a` and :math:`y \leftarrow y + f_r(x) \bmod b`, which are invertible
    whatever f is. A value that falls on size or above is sent round again (cycle walking), which keeps the
    map a permutation of the numbers below size. a and b differ little from the square root, so that walks are
    rare.

    Parameters
    ----------
    positions : array of int, (rows,)
        Numbers in 0, ..., size - 1.
    size : int
        At least 1 and below 2**62.
    key : int
        Which permutation: 0 <= key < 2**64.

    Returns
    -------
    array of int64, (rows,)
        Distinct for distinct positions.

    Notes
    -----
    Cost: ``ROUNDS`` vectorised hashes a position.

    References
    ----------
    J. Black and P. Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002.

    Examples
    --------
    >>> order = permute(np.arange(10), 10, key=7)
    >>> sorted(order.tolist()) == list(range(10))
    True
    """
    width = isqrt(size - 1) + 1
    height = -(-size // width)
    words = np.arange(1, ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = mix(words + mix(np.array([key], dtype=np.uint64)))
    values = np.array(positions, dtype=np.uint64)
    todo = np.arange(len(values))
    while todo.size:
        x, y = np.divmod(values[todo], np.uint64(height))
        for turn, round_key in enumerate(keys):
            if turn % 2 == 0:
                x = (x + mix(y + round_key) % np.uint64(width)) % np.uint64(width)
            else:
                y = (y + mix(x + round_key) % np.uint64(height)) % np.uint64(height)
        values[todo] = x * np.uint64(height) + y
        todo = todo[values[todo] >= size]
    return values.astype(np.int64)
