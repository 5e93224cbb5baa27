"""Potentials as text, logarithms in memory: numbers too small or too large for a double keep their logarithm."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence

import numpy as np

from hiddenfield.shapes import Array, Float

__all__ = ["BadNumberError", "log_numbers", "number_texts"]

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,12})?", re.ASCII)
LONGEST = 400
SMALLEST = 1e-300  # below, doubles lose digits


class BadNumberError(Exception):
    """The word at a place is no number that a potential can be."""

    def __init__(self, place: int) -> None:
        self.place = place
        super().__init__(place)


def log_numbers(words: Sequence[str]) -> Float[Array, " numbers"]:
    """Return natural logarithms of decimal numbers of at least 0; that of 0 is -inf, of 1e-400 is -921.03.

    Raises
    ------
    BadNumberError
        With the place of the first word that is none.

    Examples
    --------
    >>> log_numbers(["1", "0", "0.5", "1e-400"]).tolist()
    [0.0, -inf, -0.6931, -921.0340]
    """
    try:
        values = np.array(list(map(float, words)), dtype=np.float64)
    except ValueError:
        raise BadNumberError(next(k for k, word in enumerate(words) if not _is_number(word))) from None
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
    for place in np.flatnonzero(~(values >= SMALLEST) | np.isinf(values)).tolist():
        logs[place] = _careful_log(words[place], place)
    if any("_" in word for word in words):  # Python's float takes 1_000
        raise BadNumberError(next(k for k, word in enumerate(words) if "_" in word))
    return logs


def number_texts(logs: Float[Array, "*axes"]) -> list[str]:
    """Return exponentials as decimal text, in C order, such that `log_numbers` gives the logarithms back.

    Examples
    --------
    >>> number_texts(np.array([np.log(0.1), -np.inf, 0.0, -921.034037]))
    ['0.1', '0', '1', '1.0000001976...e-400']
    """
    flat = np.ravel(logs).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    short = [f"{value:.15g}" for value in values.tolist()]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(np.log(np.array(list(map(float, short)), dtype=np.float64)) - flat)
    exact = ~(error > 2e-16 * np.maximum(1, np.abs(flat)))
    texts = [
        text if good else repr(value) for text, good, value in zip(short, exact, values.tolist(), strict=True)
    ]
    odd = np.isfinite(flat) & ((values < SMALLEST) | np.isinf(values))
    for place in np.flatnonzero(odd).tolist():
        texts[place] = _power_of_ten(flat[place])
    return texts


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _careful_log(word: str, place: int) -> float:
    """Return the logarithm of what is zero, tiny or huge as a double; refuse what is negative or no number."""
    if len(word) > LONGEST or not NUMBER.fullmatch(word):
        raise BadNumberError(place)
    value = decimal.Decimal(word)
    if value == 0:
        return -math.inf
    if value < 0:
        raise BadNumberError(place)
    return float(value.ln())


def _power_of_ten(log: float) -> str:
    """Write exp(log), which no double holds, as mantissa and exponent."""
    with decimal.localcontext() as context:
        context.prec = 25
        return f"{decimal.Decimal(float(log)).exp():.20e}"
