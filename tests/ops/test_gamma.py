"""The gamma function in compiled loops against SciPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from scipy import special

from hiddenfield.ops.compile import compiled
from hiddenfield.ops.gamma import digamma, log_gamma


@compiled(reorder=True)
def evaluate(values, logs, slopes):
    for i in range(values.size):
        logs[i] = log_gamma(values[i])
        slopes[i] = digamma(values[i])


@given(st.lists(st.floats(1e-10, 1e12), min_size=1, max_size=50))
def test_both_agree_with_scipy(numbers):
    values = np.array(numbers)
    logs, slopes = np.empty_like(values), np.empty_like(values)
    evaluate(values, logs, slopes)
    np.testing.assert_allclose(logs, special.gammaln(values), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes, special.digamma(values), rtol=1e-12, atol=1e-12)
