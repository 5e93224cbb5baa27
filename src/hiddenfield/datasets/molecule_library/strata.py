"""Strata: chains of one shape, and how they are numbered without repeats.

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

from dataclasses import dataclass
from math import isqrt

import numpy as np

from hiddenfield.datasets.molecule_library.pieces import NO_PIECE, PieceTable
from hiddenfield.shapes import Array, Int, Shaped

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
