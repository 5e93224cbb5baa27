"""What ``hiddenfield evaluate`` refuses before any work."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiddenfield.errors import InputError, ReadError

if TYPE_CHECKING:
    from hiddenfield.data.structures import Structures
    from hiddenfield.evaluation.assessment import Assessment, AssessmentSettings

__all__ = ["check_inner_options", "check_other", "check_split_options", "read_other"]

# The splits that an option has an effect on.
OF_SPLITS = {
    "folds": ("auto", "k_fold", "stratified", "repeated", "scaffold"),
    "repeats": ("repeated", "hold_out"),
    "test_fraction": ("hold_out", "scaffold_hold_out"),
    "split_file": ("files",),
    "group": ("leave_one_group_out",),
}
# What an option makes of the split where none is named; the first that is given decides.
ASKS_FOR = {"group": "leave_one_group_out", "split_file": "files", "repeats": "repeated"}


def check_split_options(given: Collection[str], split: str) -> None:
    """Refuse what has no effect on the split."""
    from hiddenfield.evaluation.splits import SPLITTERS
    from hiddenfield.registry import choose

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
    """Refuse what has no effect on the selection of settings."""
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


def read_other(against: Path) -> Assessment:
    """Read the assessment to compare with, whole."""
    from hiddenfield.evaluation.assessment import Assessment

    other = Assessment.read(against)
    try:
        _told_apart_by(other), other.content["model"]
        if not all(map(math.isfinite, (other.mean, *other.values))):
            raise ValueError("a value is no number")
    except (KeyError, TypeError, ValueError):
        raise ReadError(
            "is not a finished assessment; name what evaluate --out or --json wrote", file=against
        ) from None
    return other


def _told_apart_by(other: Assessment) -> dict[str, Any]:
    protocol = other.content["protocol"]
    return {"metric": other.metric, "data": protocol["data"], "splits": protocol["splits"]}


def check_other(
    other: Assessment, against: Path | None, structures: Structures, settings: AssessmentSettings
) -> None:
    """Check that the comparison at the end will be one of the same metric, data and splits."""
    from hiddenfield.evaluation.assessment.dividing import outer_splits
    from hiddenfield.evaluation.assessment.measuring import choose_metric
    from hiddenfield.evaluation.assessment.problem import Problem
    from hiddenfield.evaluation.splits.base import digest

    problem = Problem.of(structures, task=settings.task)
    splits = outer_splits(problem, settings)
    here = {
        "metric": choose_metric(settings.metric, problem.task).name,
        "data": problem.fingerprint(),
        "splits": digest(splits),
    }
    for name, value in _told_apart_by(other).items():
        if value != here[name]:
            raise InputError(
                f"--against {against} cannot be compared with: {name} is {value} there and {here[name]} here; assess "
                f"both on the same data, splits and metric"
            )
    if len(splits) < 2 or len(splits) != len(other.values):
        raise InputError(
            f"--against compares split by split, two or more of them; here are {len(splits)} and in {against} "
            f"{len(other.values)}"
        )
