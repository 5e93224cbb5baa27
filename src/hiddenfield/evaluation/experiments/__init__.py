"""Published experiments: one file each, with its data, protocol, grid and published figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.evaluation.experiments.base import FULL, QUICK, Experiment, Figure, Scale, Trial
    from hiddenfield.evaluation.experiments.registry import EXPERIMENTS
    from hiddenfield.evaluation.experiments.results import results_page
    from hiddenfield.evaluation.experiments.running import join_results, merge_results, run_experiment

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "EXPERIMENTS": "hiddenfield.evaluation.experiments.registry",
        "Experiment": "hiddenfield.evaluation.experiments.base",
        "FULL": "hiddenfield.evaluation.experiments.base",
        "Figure": "hiddenfield.evaluation.experiments.base",
        "QUICK": "hiddenfield.evaluation.experiments.base",
        "Scale": "hiddenfield.evaluation.experiments.base",
        "Trial": "hiddenfield.evaluation.experiments.base",
        "join_results": "hiddenfield.evaluation.experiments.running",
        "merge_results": "hiddenfield.evaluation.experiments.running",
        "results_page": "hiddenfield.evaluation.experiments.results",
        "run_experiment": "hiddenfield.evaluation.experiments.running",
    },
)
