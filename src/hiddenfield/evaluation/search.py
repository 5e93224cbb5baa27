"""Candidates for selection: all of a grid, or some drawn at random.

scikit-learn's ParameterGrid and ParameterSampler give other orders and draws, on which resumable folders depend.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.errors import InputError

__all__ = ["Between", "grid", "sample"]


@dataclass(frozen=True)
class Between:
    """A range to draw from: on a logarithmic scale where both ends are positive, whole numbers where both ends are.

    Examples
    --------
    >>> Between.parse("1e-4..1e-2")
    Between(low=0.0001, high=0.01)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high or not all(map(math.isfinite, (self.low, self.high))):
            raise InputError(f"a range goes from a lower to a higher number, got {self.low}..{self.high}")

    @classmethod
    def parse(cls, text: str) -> Between:
        """Read ``LOW..HIGH``."""
        low, dots, high = text.partition("..")
        try:
            if not dots:
                raise ValueError
            whole = all(part.strip().lstrip("-").isdigit() for part in (low, high))
            return cls(int(low), int(high)) if whole else cls(float(low), float(high))
        except ValueError:
            raise InputError(f"expected a range LOW..HIGH, got {text!r}") from None

    def draw(self, generator: np.random.Generator) -> float:
        """Return one number of the range."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        low, high = (self.low, self.high + 1) if whole else (self.low, self.high)
        if self.low > 0:
            value = math.exp(generator.uniform(math.log(low), math.log(high)))
        else:
            value = generator.uniform(low, high)
        return min(math.floor(value), self.high) if whole else float(f"{value:.4g}")


def grid(space: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the values, the last name's changing fastest.

    Examples
    --------
    >>> grid({"dim": [16, 32], "rounds": [2]})
    [{'dim': 16, 'rounds': 2}, {'dim': 32, 'rounds': 2}]
    """
    for name, values in space.items():
        if isinstance(values, Between):
            raise InputError(
                f"{name} is a range, of which a grid cannot try every value; use a random search"
            )
    return [
        dict(zip(space, chosen, strict=True)) for chosen in itertools.product(*map(_listed, space.values()))
    ]


def sample(space: Mapping[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` different combinations, drawn; all of them where there are no more.

    Examples
    --------
    >>> sample({"dim": [16, 32, 64], "learning_rate": Between(1e-4, 1e-2)}, 2, seed=0)
    [{'dim': 64, 'learning_rate': 0.0003464}, {'dim': 32, 'learning_rate': 0.0001208}]
    """
    if count < 1:
        raise InputError(f"a random search needs at least 1 draw, got {count}")
    if not any(isinstance(values, Between) for values in space.values()):
        every = grid(space)
        if count >= len(every):
            return every
    generator = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for _ in range(100 * count):
        drawn = {name: _draw(values, generator) for name, values in space.items()}
        if drawn not in found:
            found.append(drawn)
        if len(found) == count:
            break
    return found


def _draw(values: Any, generator: np.random.Generator) -> Any:
    if isinstance(values, Between):
        return values.draw(generator)
    listed = _listed(values)
    return listed[int(generator.integers(len(listed)))]


def _listed(values: Any) -> list[Any]:
    """Return the values of one name; a single value is a list of one."""
    listed = (
        list(values) if isinstance(values, (list, tuple, range, set, frozenset, np.ndarray)) else [values]
    )
    if not listed:
        raise InputError("a list of values to try is empty")
    return [value.item() if isinstance(value, np.generic) else value for value in listed]
