"""Sums and products of kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.kernels import Mismatch, Product, Spectrum, Sum, WLSubtree

WORDS = hf.data.from_sequences(["GATTACA", "CAT", "TACCAT", "GA"])
NEW = hf.data.from_sequences(["TACA", "GAXT"])


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_made_of_the_matrices_of_others(each, normalise):
    kernels = [Spectrum(k=2), Mismatch(k=2, m=1), WLSubtree(rounds=1)]
    parts = [kernel.set_params(normalise=each).fit(WORDS) for kernel in kernels]
    for X, Y in ((WORDS, None), (NEW, WORDS)):
        grams = np.stack([part.gram(X, Y) for part in parts])
        own, others = ([part.gram(Z).diagonal() for part in parts] for Z in (X, WORDS))
        for made, combined in (
            (Sum(kernels=kernels, weights=[1, 2, 0.5]), lambda v: np.tensordot([1, 2, 0.5], v, 1)),
            (Product(kernels=kernels), lambda v: np.prod(v, axis=0)),
        ):
            expected = combined(grams)
            if normalise:
                expected = expected / np.sqrt(np.outer(combined(own), combined(others)))
            made = made.set_params(each=each, normalise=normalise).fit(WORDS)
            assert np.allclose(made.gram(X, Y), expected)


def test_what_is_refused():
    with pytest.raises(InputError, match="kernels must name at least one"):
        Sum(kernels=[]).fit(WORDS)
    with pytest.raises(InputError, match="unknown kernel 'wl_subtre'"):
        Sum(kernels=["wl_subtre"]).fit(WORDS)
    with pytest.raises(InputError, match="weights must be 2 numbers of at least 0"):
        Sum(weights=[1]).fit(WORDS).gram(WORDS)
    with pytest.raises(InputError, match="kernels must be names or kernels, got int"):
        Product(kernels=[3]).fit(WORDS)
