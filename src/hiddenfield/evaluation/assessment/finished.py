"""What the cells of an assessment gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.evaluation.assessment.cells import Cell
from hiddenfield.shapes import Array

__all__ = ["Finished"]


@dataclass(frozen=True)
class Finished:
    """What the cells gave.

    Parameters
    ----------
    results
        By key.
    candidates
        What was selected from.
    chosen
        For every fold what was selected.
    seeds
        Final fits a fold.
    """

    results: Mapping[str, Mapping[str, Any]]
    candidates: Sequence[Mapping[str, Any]]
    chosen: Sequence[Mapping[str, Any]]
    seeds: int

    def of(self, kind: str, fold: int) -> list[Mapping[str, Any]]:
        """Return the results of one kind in one fold, seed by seed; those that are there."""
        keys = [Cell(kind, fold, seed=seed).key for seed in range(self.seeds)]
        return [self.results[key] for key in keys if key in self.results]

    def predictions(self, fold: int, kind: str = "final") -> Array:
        """Return the predictions of one fold, averaged over the seeds."""
        return np.mean([np.asarray(result["predictions"]) for result in self.of(kind, fold)], axis=0)
