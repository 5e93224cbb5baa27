"""Settings of an assessment, candidates for selection, and checks of options that have no effect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.evaluation.splits.base import SPLITTERS
from hiddenfield.registry import choose

# Of these an estimator is tried with those that it has.
DEFAULT_SPACE: dict[str, list[Any]] = {
    "dim": [32, 64],
    "rounds": [2, 4],
    "num_states": [20, 40],
    "depth": [2, 4],
}
INNER = ("hold_out", "k_fold")
TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class AssessmentSettings:
    """Settings of `assess`.

    Parameters
    ----------
    split
        A name of `hiddenfield.evaluation.SPLITTERS`, ``"auto"``, a list of `Split`, or a splitter of scikit-learn.
    folds, repeats, test_fraction
        Of the split; `test_fraction` where it is a hold-out.
    split_file
        Given indices.
    groups
        The column of the structures by which ``"leave_one_group_out"`` and ``"group_hold_out"`` split, or an array. Of
        the latter None is for copies: equal structures are one group.
    nested
        Whether settings are selected, within every outer training part, on inner validation parts.
    space
        What is selected from: for every parameter a list of values or a range, `Between`.
    draws
        So many combinations are drawn at random; None: all are tried.
    inner
        ``"hold_out"`` (a share of `inner_fraction`, or the validation part that the file gives) or ``"k_fold"``
        (`inner_folds`).
    seeds
        How often the final fit is repeated with another seed; a fold's value is their mean.
    metric
        What is reported and selected by; by default accuracy or the mean absolute error.
    task
        ``"regression"``, ``"classification"`` or ``"auto"``.
    baselines
        Whether baselines are fitted too.
    wl_rounds
        Numbers of rounds of Weisfeiler-Lehman colours; for each a baseline.
    learning_curve
        Shares of the training structures on which the model is also fitted.
    as_published
        Whether the number is also computed that selection on the reported folds gives, which is too good.
    seed
        Of everything random.
    device
        Where estimators compute that can choose: ``"cpu"``, ``"cuda"``; None: as they are.
    jobs
        Cells at a time; None: by the machine.
    """

    split: Any = "auto"
    folds: int = 10
    repeats: int = 1
    test_fraction: float = 0.1
    split_file: str | Path | None = None
    groups: Any = None
    nested: bool = False
    space: Mapping[str, Any] = field(default_factory=dict)
    draws: int | None = None
    inner: str = "hold_out"
    inner_fraction: float = 0.1
    inner_folds: int = 5
    seeds: int = 1
    metric: str | None = None
    task: str = "auto"
    baselines: bool = True
    wl_rounds: Sequence[int] = (3,)
    learning_curve: Sequence[float] = ()
    as_published: bool = False
    seed: int = 0
    device: str | None = None
    jobs: int | None = 1

    def __post_init__(self) -> None:
        choose("inner split", dict.fromkeys(INNER), self.inner)
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")
        if self.space and not (self.nested or self.as_published):
            raise InputError(
                "values to select from need a nested assessment; without one, set the estimator's parameters themselves"
            )
        for share in self.learning_curve:
            if not 0.0 < share < 1.0:
                raise InputError(f"shares of a learning curve lie between 0 and 1, got {share}")

    def inner_in_words(self) -> str:
        """Describe the inner split."""
        if self.inner == "k_fold":
            return f"inner {self.inner_folds}-fold"
        return f"inner hold-out of {self.inner_fraction:.0%}"


# -- candidates --------------------------------------------------------------------------------------------

# scikit-learn's ParameterGrid and ParameterSampler give other orders and draws, on which resumable folders depend.


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


# -- options that have no effect ---------------------------------------------------------------------------

# The splits that an option has an effect on.
OF_SPLITS = {
    "folds": ("auto", "k_fold", "stratified", "repeated", "scaffold"),
    "repeats": ("repeated", "hold_out", "group_hold_out"),
    "test_fraction": ("hold_out", "group_hold_out", "scaffold_hold_out"),
    "split_file": ("files",),
    "group": ("leave_one_group_out", "group_hold_out"),
}
# The split that an option implies where none is named; the first one given decides.
ASKS_FOR = {"group": "leave_one_group_out", "split_file": "files", "repeats": "repeated"}


def check_split_options(given: Collection[str], split: str) -> None:
    """Refuse options of the split that have no effect on it."""
    choose("split", dict.fromkeys(("auto", *SPLITTERS)), split)
    asking = next((option for option in ASKS_FOR if option in given), None) if split == "auto" else None
    used = split if asking is None else ASKS_FOR[asking]
    for option, splits in OF_SPLITS.items():
        if option in given and used not in splits:
            how = f"--split {split}" if asking is None else _flag(asking)
            raise InputError(
                f"{_flag(option)} has no effect with {how}; leave it out, or choose a split that it goes with: "
                f"{', '.join(name for name in splits if name != 'auto')}"
            )


def check_inner_options(given: Mapping[str, Any], nested: bool, as_published: bool) -> None:
    """Refuse options that have no effect on the selection of settings."""
    if not nested:
        needs = dict.fromkeys(("inner", "inner_folds", "inner_fraction"), "--nested")
        needs |= {} if as_published else {"draws": "--nested or --as-published"}
    elif given.get("inner") == "k_fold":
        needs = {"inner_fraction": "--inner hold_out"}
    else:
        needs = {"inner_folds": "--inner k_fold"}
    for option, needed in needs.items():
        if option in given:
            raise InputError(
                f"{_flag(option)} has no effect without {needed}; give that too, or leave it out"
            )


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
