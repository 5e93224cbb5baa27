"""Kernels of sequences against all pairs of windows, and all words."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.kernels import BlendedSpectrum, GappedKmers, Mismatch, Spectrum, strings
from tests.data.strategies import built

WORDS = st.lists(st.text("ABC", max_size=8), min_size=1, max_size=4)
SOME = settings(max_examples=40)


def windows(word, length):
    return [word[k : k + length] for k in range(len(word) - length + 1)]


def apart(first, second):
    return sum(a != b for a, b in zip(first, second, strict=True))


def gram_of(words, similarity):
    return np.array([[similarity(x, y) for y in words] for x in words], dtype=float)


def gram(kernel, words):
    pack = built(hf.data.from_sequences, words)
    return kernel.fit(pack).gram(pack)


@SOME
@given(WORDS, st.integers(1, 5))
def test_spectrum(words, k):
    def same(x, y, length):
        return sum(u == v for u in windows(x, length) for v in windows(y, length))

    assert np.array_equal(gram(Spectrum(k=k), words), gram_of(words, lambda x, y: same(x, y, k)))
    blended = gram_of(words, lambda x, y: sum(same(x, y, length) for length in range(1, k + 1)))
    assert np.array_equal(gram(BlendedSpectrum(k=k), words), blended)


@SOME
@given(WORDS, st.integers(1, 5), st.integers(0, 4))
def test_gapped_kmers(words, g, m):
    m = min(m, g - 1)

    def same(x, y):
        return sum(comb(g - apart(u, v), g - m) for u in windows(x, g) for v in windows(y, g))

    assert np.array_equal(gram(GappedKmers(g=g, m=m), words), gram_of(words, same))


@SOME
@given(WORDS, st.integers(1, 4), st.integers(0, 3))
def test_mismatch(words, k, m):
    m = min(m, k - 1)
    near = [
        [
            sum(apart(window, word) <= m for window in windows(x, k))
            for word in product(sorted(set("".join(words))), repeat=k)
        ]
        for x in words
    ]
    assert np.allclose(
        gram(Mismatch(k=k, m=m), words), np.array(near, dtype=float) @ np.array(near, dtype=float).T
    )


def test_sampled_positions_estimate_the_kernel_and_all_of_them_are_it():
    words = ["".join(np.random.default_rng(k).choice(list("ACGT"), size=60)) for k in range(4)]
    exact = gram(GappedKmers(g=8, m=4), words)
    few = [gram(GappedKmers(g=8, m=4, samples=20, random_state=k), words) for k in range(30)]
    assert np.allclose(np.mean(few, axis=0), exact, rtol=0.05)
    assert not np.array_equal(few[0], exact)
    assert np.array_equal(gram(GappedKmers(g=8, m=4, samples=70), words), exact)


def test_any_alphabet_and_words_of_any_length():
    """Symbols of many bits, and words that take several integers, are still compared in full."""
    sequences = [list(range(3000)), list(range(2990, 3050)), [7, 2**31, 5] * 20]
    assert gram(Spectrum(k=9), sequences)[0, 1] == 2
    assert gram(Spectrum(k=9), sequences)[2, 2] == 18 * 18 + 17 * 17 + 17 * 17
    drawn = set(combinations(range(3), 2))
    assert {positions for _, _, positions in GappedKmers(g=3, m=1)._windows()} == drawn


def test_the_order_of_symbols_is_read_and_several_labels_are_one_symbol():
    pack = hf.data.from_sequences(["AB", "BA"], arc_labels="direction")
    assert Spectrum(k=2).fit(pack).gram(pack).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    kmers = hf.data.with_kmers(hf.data.from_sequences(["AAB", "AAC"]), 2)
    assert (
        Spectrum(k=1).fit(kmers).gram(kmers)[0, 1] == 1.0
    )  # A before A; the others stand before other symbols


@SOME
@given(st.lists(st.text("ACGT", max_size=8), min_size=1, max_size=4), st.integers(1, 4), st.booleans())
def test_places_and_both_strands(words, g, positional):
    def strands(word):
        return [word, word[::-1].translate(str.maketrans("ACGT", "TGCA"))]

    def same(x, y):
        return sum(
            comb(g - apart(u, v), g - 1)
            for one in strands(x)
            for other in strands(y)
            for place, u in enumerate(windows(one, g))
            for position, v in enumerate(windows(other, g))
            if place == position or not positional
        )

    kernel = GappedKmers(g=g, m=1 if g > 1 else 0, positional=positional, both_strands=True)
    expected = gram_of(words, same if g > 1 else lambda x, y: same_letters(x, y, strands, positional))
    assert np.array_equal(gram(kernel, words), expected)


def same_letters(x, y, strands, positional):
    return sum(
        u == v and (place == position or not positional)
        for one in strands(x)
        for other in strands(y)
        for place, u in enumerate(one)
        for position, v in enumerate(other)
    )


def test_strands_are_of_bases():
    """Of RNA too; a complement that does not occur is still told from others."""
    assert gram(Spectrum(k=1, both_strands=True), ["AAU", "GGG", "CC"])[1].tolist() == [0, 18, 12]
    assert gram(Spectrum(k=1, both_strands=True), ["A", "C"]).tolist() == [[2, 0], [0, 2]]
    with pytest.raises(InputError, match=r"both_strands is for one column of bases.*got 'C, T, X'"):
        gram(Spectrum(both_strands=True), ["CXT"])


def test_what_is_refused():
    ring = hf.data.from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3])
    with pytest.raises(InputError, match="Spectrum compares sequences, and structure 0 is none"):
        Spectrum().fit(ring)
    words = hf.data.from_sequences(["CAT"])
    with pytest.raises(InputError, match="m, the number of gaps, must be less than g = 2, got 2"):
        GappedKmers(g=2, m=2).fit(words)
    with pytest.raises(InputError, match="m, the number of mismatches, must be less than k = 1, got 1"):
        Mismatch(k=1).fit(words)
    with pytest.raises(InputError, match=r"have 184,756 sets of positions.*give samples"):
        GappedKmers(g=20, m=10).fit(words)
    with pytest.raises(InputError, match=r"take [0-9,]+ sets of positions.*smaller k or m"):
        Mismatch(k=20, m=5).fit(words)


def test_one_body_for_one_integer_and_for_several():
    symbols, starts, positions = np.array([1, 0, -1, 1]), np.array([0, 1, 3]), np.array([0])
    words = np.empty((3, 1), dtype=np.int64)
    strings._read_words.function(symbols, starts, positions, 1, words)
    assert words.ravel().tolist() == [1, 0, 1]
