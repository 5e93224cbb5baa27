"""A keyed permutation of 0, 1, ..., size - 1 that needs no table.

It lets any part of a random order be had by itself: position p of the order is computed from p, the size and
the key alone, with integer arithmetic that is the same on every machine.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from hiddenfield.shapes import Array, Int, Shaped

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
