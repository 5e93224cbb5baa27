"""Kernels of sequences: spectrum, blended spectrum, gapped k-mers, and k-mers with mismatches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, factorial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.convert.sequences import first_other
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.kernels.base import KERNELS, BlockKernel, FeatureKernel, Labels, tally
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

COUNT = Interval(Integral, 1, None, closed="left")
MOST_SETS = 20_000
"""Sets of positions that an exact kernel may have."""

Positions = tuple[int, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class WindowKernel(BlockKernel):
    """Base of the kernels that count symbols at certain positions of all windows; a block for each set of positions.

    Sequences are read in the order of their nodes. Several label columns are one symbol together.

    Parameters
    ----------
    positional
        Whether only windows at the same place of both sequences agree, counted from the first symbol.
    both_strands
        Whether the reverse complement of each sequence, of DNA or RNA, is counted with it.
    """

    positional: bool = False
    both_strands: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = BlockKernel._parameter_constraints | {
        "positional": ["boolean"],
        "both_strands": ["boolean"],
    }

    @abstractmethod
    def _windows(self) -> Sequence[tuple[float, int, Positions]]:
        """Return weight, length of the window and positions in it, for every block."""

    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        other = first_other(structures)
        if other is not None:
            raise InputError(
                f"{type(self).__name__} compares sequences, and {structures.name_of(other)} is none: each node must be "
                "joined with the one before it and the one after it, and with no other; build chains with "
                "from_sequences, or choose a kernel of graphs"
            )
        read = self._read(structures, known is not None)
        owner = read[1]
        for block, (weight, length, positions) in enumerate(self._windows()):
            starts, words = self._words(read, length, positions)
            counts, columns = tally(
                [(owner[starts], words)], len(structures), None if known is None else known[block]
            )
            yield weight, counts, columns

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the nodes of the first window of a word, on the strand that is given, at the positions that count."""
        ends = np.cumsum([len(rows) for rows in self.columns_])
        block = int(np.searchsorted(ends, column, side="right"))
        _, length, positions = self._windows()[block]
        starts, words = self._words(self._read(structure, True), length, positions)
        wanted = self.columns_[block][column - ends[block]]
        found = starts[(words == wanted).all(axis=1) & (starts < structure.total_nodes)]
        return found[0] + np.array(positions, dtype=np.int64) if len(found) else None

    def _read(self, structures: Structures, known: bool) -> tuple[Array, Array, Array, Array, int]:
        """Return the symbols of all strands, their sequences, places and distances from the end, and bits of each."""
        symbols, labels = Labels.number(structures, "node", self.labels_ if known else None)
        self.labels_: Labels = labels
        owner, bounds = structures.structure_of_node.cpu().numpy(), structures.node_ptr.cpu().numpy()
        place = np.arange(len(owner)) - bounds[owner]
        left = bounds[owner + 1] - bounds[owner] - place
        letters = len(labels)
        if self.both_strands:
            backwards = bounds[owner + 1] - 1 - place
            symbols = np.concatenate([symbols, np.append(_complements(labels), -1)[symbols[backwards]]])
            owner, place, left = np.tile(owner, 2), np.tile(place, 2), np.tile(left, 2)
            letters *= 2
        return symbols, owner, place, left, max(1, (letters - 1).bit_length())

    def _words(
        self, read: tuple[Array, Array, Array, Array, int], length: int, positions: Positions
    ) -> tuple[Int[Array, " windows"], Int[Array, "windows width"]]:
        """Return where windows start, and the symbols that count in each."""
        symbols, _, place, left, bits = read
        starts = np.flatnonzero(left >= length)
        words = np.empty((len(starts), max(1, -(-len(positions) // (62 // bits)))), dtype=np.int64)
        chosen = np.array(positions, dtype=np.int64)
        _read_words(symbols, starts, chosen, bits, words, work=len(starts) * len(positions))
        return starts, np.concatenate([words, place[starts, None]], axis=1) if self.positional else words


PAIRS = dict(zip("ACGTUNacgtun", "TGCAANtgcaan", strict=True))
"""What stands opposite a base; A stands opposite U where there is no T."""


def _complements(labels: Labels) -> Int[Array, " letters"]:
    """Return the number of each base's complement: a number beyond those of the labels where it does not occur."""
    columns = [vocabulary.symbols for vocabulary in labels.vocabularies]
    if len(columns) != 1 or not set(columns[0]) <= set(PAIRS):
        raise InputError(
            "both_strands is for one column of bases, A, C, G, T or U, and N for any; got "
            f"{', '.join(str(symbol) for symbol in (columns or [()])[0][:10])!r}; leave it out"
        )
    symbols = [columns[0][code] for code in labels.rows.values]
    rna = "T" not in symbols and "U" in symbols
    number = {symbol: place for place, symbol in enumerate(symbols)}
    opposite = ("U" if rna and symbol == "A" else PAIRS[symbol] for symbol in symbols)
    return np.array([number.get(other, len(symbols) + k) for k, other in enumerate(opposite)], dtype=np.int64)


@compiled
def _read_words(symbols: Array, starts: Array, positions: Array, bits: int, words: Array) -> None:
    """Pack the symbols at the positions after each start into as few integers as hold them; -1 for unknown ones."""
    fit = 62 // bits
    for row in prange(starts.size):
        words[row] = 0
        for k in range(positions.size):
            symbol = symbols[starts[row] + positions[k]]
            if symbol < 0:
                words[row] = -1
                break
            words[row, k // fit] = words[row, k // fit] << bits | symbol


@KERNELS.register(
    "spectrum", input="sequences", summary="words of k symbols", reference="Leslie, Eskin & Noble 2002"
)
@dataclass(kw_only=True, eq=False, repr=False)
class Spectrum(FeatureKernel, WindowKernel):
    """Count the words of k symbols in sequences.

    Exact and linear in the symbols, for an alphabet of any size.

    Parameters
    ----------
    k
        Length of the words.
    positional, both_strands
        As of `WindowKernel`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "TACATACA", "CA"])
    >>> Spectrum(k=3).fit(words).gram(words)
    array([[ 5.,  4.,  0.],
           [ 4., 10.,  0.],
           [ 0.,  0.,  0.]])
    """

    k: int = 3

    _parameter_constraints: ClassVar[dict[str, Any]] = WindowKernel._parameter_constraints | {"k": [COUNT]}

    def _windows(self) -> Sequence[tuple[float, int, Positions]]:
        return [(1.0, self.k, tuple(range(self.k)))]


@KERNELS.register(
    "blended_spectrum",
    input="sequences",
    summary="words of 1 to k symbols",
    reference="Leslie, Eskin & Noble 2002",
)
@dataclass(kw_only=True, eq=False, repr=False)
class BlendedSpectrum(Spectrum):
    """Count the words of one to k symbols: the sum of the spectrum kernels.

    The parameters are those of `Spectrum`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA"])
    >>> BlendedSpectrum(k=2).fit(words).gram(words)
    array([[3., 2.],
           [2., 3.]])
    """

    def _windows(self) -> Sequence[tuple[float, int, Positions]]:
        return [(1.0, length, tuple(range(length))) for length in range(1, self.k + 1)]


@KERNELS.register(
    "gapped_kmers",
    input="sequences",
    summary="words with gaps",
    reference="Ghandi et al. 2014; Blakely et al. 2020",
)
@dataclass(kw_only=True, eq=False, repr=False)
class GappedKmers(FeatureKernel, WindowKernel):
    r"""Count windows of g symbols by those at g - m of their positions, for every choice of the positions.

    .. math:: k(x, y) = \sum_{S} \sum_{u \in x, v \in y} [u_S = v_S]
        = \sum_{u \in x, v \in y} \binom{g - d(u, v)}{g - m},

    u and v being windows, and d the number of positions where they differ. Exact, or with `samples` an estimate from
    so many sets of positions, drawn without replacement: its expectation is the kernel, and with more samples its
    variance falls to nothing. Linear in the symbols times the sets.

    Parameters
    ----------
    g, m
        Length of windows, and how many positions are gaps.
    samples
        How many sets of positions are drawn; None for all of them.
    random_state
        Seed of the draw.
    positional, both_strands
        As of `WindowKernel`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GAT", "GTT"])
    >>> GappedKmers(g=3, m=1).fit(words).gram(words)  # G and T are at the ends of both
    array([[3., 1.],
           [1., 3.]])
    """

    g: int = 6
    m: int = 2
    samples: int | None = None
    random_state: int = 0

    compact: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = WindowKernel._parameter_constraints | {
        "g": [COUNT],
        "m": [Interval(Integral, 0, None, closed="left")],
        "samples": [COUNT, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def _windows(self) -> Sequence[tuple[float, int, Positions]]:
        if self.m >= self.g:
            raise InputError(f"m, the number of gaps, must be less than g = {self.g}, got {self.m}")
        total = comb(self.g, self.m)
        if self.samples is None or self.samples >= total:
            if total > MOST_SETS:
                raise InputError(
                    f"windows of {self.g} with {self.m} gaps have {total:,} sets of positions, and at most "
                    f"{MOST_SETS:,} are counted; give samples, such as 100, for an estimate"
                )
            return [(1.0, self.g, chosen) for chosen in combinations(range(self.g), self.g - self.m)]
        generator, drawn = np.random.default_rng(self.random_state), set[Positions]()
        while len(drawn) < self.samples:
            drawn.add(tuple(sorted(generator.permutation(self.g)[: self.g - self.m].tolist())))
        return [(total / self.samples, self.g, chosen) for chosen in sorted(drawn)]


@KERNELS.register(
    "mismatch",
    input="sequences",
    summary="words of k symbols, m of them changed",
    reference="Leslie et al. 2002",
)
@dataclass(kw_only=True, eq=False, repr=False)
class Mismatch(WindowKernel):
    r"""Count for every word of k symbols the windows that differ from it at most at m positions.

    .. math:: k(x, y) = \sum_{u \in x, v \in y} c_{d(u, v)}, \qquad
        c_d = \bigl|\{w : d(u, w) \le m, d(v, w) \le m\}\bigr|

    The alphabet is that of the sequences that are fitted. Exact: the words are never listed, for windows that agree at
    i positions or more are counted as gapped k-mers, whose counts for i from k - 2m to k determine the kernel.

    Parameters
    ----------
    k, m
        Length of words, and how many symbols may differ.
    positional, both_strands
        As of `WindowKernel`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AA", "BB"])
    >>> Mismatch(k=2, m=1).fit(words).gram(words)  # AB and BA are near to both
    array([[3., 2.],
           [2., 3.]])
    """

    k: int = 5
    m: int = 1

    _parameter_constraints: ClassVar[dict[str, Any]] = WindowKernel._parameter_constraints | {
        "k": [COUNT],
        "m": [Interval(Integral, 0, None, closed="left")],
    }

    def _windows(self) -> Sequence[tuple[float, int, Positions]]:
        k, m = self.k, self.m
        if m >= k:
            raise InputError(f"m, the number of mismatches, must be less than k = {k}, got {m}")
        least = max(0, k - 2 * m)
        if (total := sum(comb(k, size) for size in range(least, k + 1))) > MOST_SETS:
            raise InputError(
                f"words of {k} with {m} mismatches take {total:,} sets of positions, and at most {MOST_SETS:,} are "
                "counted; choose a smaller k or m"
            )
        near = [_words_near_both(k, m, k - same, len(self.labels_)) for same in range(k + 1)]
        # Windows that agree at j positions agree on C(j, i) sets of i: binomial inversion gives the weights.
        weights = [
            sum((-1) ** (size - same) * comb(size, same) * near[same] for same in range(size + 1))
            for size in range(k + 1)
        ]
        return [
            (float(weights[size]), k, chosen)
            for size in range(least, k + 1)
            for chosen in combinations(range(k), size)
            if weights[size]
        ]


def _words_near_both(k: int, m: int, apart: int, letters: int) -> int:
    """Return how many words of k letters differ at most at m positions from each of two, which differ at `apart`.

    Examples
    --------
    >>> [_words_near_both(2, 1, apart, 3) for apart in range(3)]  # of AA: itself and AB, AC, BA, CA
    [5, 3, 2]
    """
    total = 0
    for one in range(apart + 1):  # where they differ, positions as in the first, then as in the second
        for other in range(apart - one + 1):
            neither = apart - one - other
            ways = factorial(apart) // (factorial(one) * factorial(other) * factorial(neither))
            ways *= max(letters - 2, 0) ** neither
            for changed in range(min(k - apart, m - max(one, other) - neither) + 1):
                total += ways * comb(k - apart, changed) * (letters - 1) ** changed
    return total
