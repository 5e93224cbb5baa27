"""Leakage: test structures that have copies among the training structures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.kernels.refinement import copy_classes
from hiddenfield.shapes import Array, Bool

__all__ = ["Leakage", "find_leakage"]

# More pairs of ids than this are counted, not listed.
MOST_LISTED = 100


@dataclass(frozen=True, eq=False)
class Leakage:
    """Test structures with copies in the training parts.

    Parameters
    ----------
    leaked
        For every split, which of its test structures have a copy in its training part.
    contradicting
        How many of these have copies, but none with the same target.
    pairs
        (test id, training id) of the first of them.
    """

    leaked: tuple[Bool[Array, " _"], ...]
    contradicting: int
    pairs: tuple[tuple[str, str], ...]

    @property
    def count(self) -> int:
        """Test structures with a copy in training, over all splits."""
        return int(sum(part.sum() for part in self.leaked))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        tested = sum(len(part) for part in self.leaked)
        return {
            "count": self.count,
            "share": self.count / tested if tested else 0.0,
            "contradicting": self.contradicting,
            "folds": [int(part.sum()) for part in self.leaked],
            "ids": [list(pair) for pair in self.pairs],
        }


def find_leakage(
    structures: Structures, splits: Sequence[Split], y: Any = None, *, most_listed: int = MOST_LISTED
) -> Leakage:
    """Find the test structures of which an isomorphic copy, with the same labels and attributes, is trained on.

    Copies are found by `hiddenfield.kernels.copy_classes`. They are reported and left where they are: whether a copy is
    a mistake or a fact of the world (two stereoisomers, written without their centres) is for the user to say.

    Parameters
    ----------
    structures
        All of them.
    splits
        Their splits.
    y
        (structures,) targets, to count the copies that contradict each other.
    most_listed
        Pairs of ids that are kept.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GAT", "TAG", "CAT", "CC"])
    >>> found = find_leakage(words, [Split("fold 1", np.array([0, 2]), np.array([1, 3]))])
    >>> found.count, found.pairs
    (1, (('1', '0'),))
    """
    numbers = copy_classes(structures)
    answers = None if y is None else np.asarray(y)
    leaked, pairs, contradicting = [], [], 0
    for split in splits:
        # Sorted by class, and as they were within one, so that copies stand together and are not looked for each time.
        train = split.train[np.argsort(numbers[split.train], kind="stable")]
        low, high = (np.searchsorted(numbers[train], numbers[split.test], side) for side in ("left", "right"))
        copied = low < high
        leaked.append(copied)
        for place in np.flatnonzero(copied).tolist():
            position, copies = int(split.test[place]), train[low[place] : high[place]]
            pairs.append((_name(structures, position), _name(structures, int(copies[0]))))
            contradicting += answers is not None and not bool((answers[copies] == answers[position]).any())
    return Leakage(tuple(leaked), contradicting, tuple(pairs[:most_listed]))


def _name(structures: Structures, position: int) -> str:
    return str(position) if structures.ids is None else str(structures.ids[position])
