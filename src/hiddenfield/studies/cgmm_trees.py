"""Contextual graph Markov models: trees.

Accuracy on the test sets of the INEX 2005 and 2006 document collections, as in Bacciu, Errica & Micheli (2018): arcs
are labelled by the position among the children and by direction, and settings are selected on a fifth of the training
set. The number is honest: the test set has no part in any choice.

- Of the published grid there are 20 and 40 states, 2 and 4 layers, and costs of an error of 5 and 50; the width of the
  RBF kernel is scikit-learn's scale. Kernels see single states; the linear head also sees pairs of states.

- In INEX2006 many test documents have copies in training with another label, which limits what any model can reach.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.studies.base import Figure, Scale, Trial, study
from hiddenfield.studies.inex import SAME, load_inex

FIXED: dict[str, Any] = {"max_iterations": 15}
GRID: dict[str, list[Any]] = {"num_states": [20, 40], "depth": [2, 4]}
STRENGTHS: dict[str, list[Any]] = {"strength": [5.0, 50.0]}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "RBF": ({"head": "svm_rbf", "fingerprint": "unigram"}, STRENGTHS),
    "Jaccard": ({"head": "svm_jaccard", "fingerprint": "unigram"}, STRENGTHS),
    "linear, with pairs": ({"head": "linear"}, {}),
}
PUBLISHED = {("05", "RBF"): 96.6, ("05", "Jaccard"): 96.73, ("06", "RBF"): 45.1, ("06", "Jaccard"): 43.18}


@study("cgmm-trees", quick=("INEX2006",))
def trials(scale: Scale) -> list[Trial]:
    """Return a trial for each year and head."""
    return [
        Trial(
            f"INEX20{year}",
            "cgmm",
            "given split",
            partial(load_inex, year),
            AssessmentSettings(
                nested=True,
                space=GRID | space,
                inner_fraction=0.2,
                baselines=variant == "linear, with pairs",
            ),
            FIXED | parameters,
            _figures(year, variant),
            variant,
        )
        for year in ("05", "06")
        for variant, (parameters, space) in VARIANTS.items()
    ]


def _figures(year: str, variant: str) -> tuple[Figure, ...]:
    value = PUBLISHED.get((year, variant))
    return () if value is None else (Figure(value / 100, f"CGMM-{variant}, Bacciu et al. 2018", SAME),)
