r"""Logarithm and derivative of the gamma function for positive numbers, without branches: loops run on whole vectors.

Both are shifted by six: with :math:`t = x (x + 5)`, :math:`x (x + 1) \cdots (x + 5) = t (t + 4) (t + 6)`; what follows
is Stirling's series, with an error below 1e-13 of the value.
"""

from __future__ import annotations

from hiddenfield.ops.compile import subroutine
from hiddenfield.ops.vector_math import log_double


@subroutine(allocates=False, fast=True)
def log_gamma(x: float) -> float:
    """Return the logarithm of the gamma function."""
    t = x * (x + 5.0)
    y = x + 6.0
    r = 1.0 / y
    s = r * r
    p = 0.00641025641025641 * s - 0.0019175269175269176
    p = p * s + 0.0008417508417508417
    p = p * s - 0.0005952380952380953
    p = p * s + 0.0007936507936507937
    p = p * s - 0.002777777777777778
    p = p * s + 0.08333333333333333
    return (y - 0.5) * log_double(y) - y + 0.9189385332046727 + p * r - log_double(t * (t + 4.0) * (t + 6.0))


@subroutine(allocates=False, fast=True)
def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function."""
    t = x * (x + 5.0)
    a, b = t + 4.0, t + 6.0
    y = x + 6.0
    r = 1.0 / y
    s = r * r
    p = 0.08333333333333333 * s - 0.021092796092796094
    p = p * s + 0.007575757575757576
    p = p * s - 0.004166666666666667
    p = p * s + 0.003968253968253968
    p = p * s - 0.008333333333333333
    p = p * s + 0.08333333333333333
    return log_double(y) - 0.5 * r - p * s - (2.0 * x + 5.0) * (a * b + t * b + t * a) / (t * a * b)
