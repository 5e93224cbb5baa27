"""XML documents.

Accuracy on the test sets of the INEX 2005 and 2006 document collections. Arcs are labelled by the position among the
children and by direction; settings are selected within the training set.

- Arc labels with the direction but without the position among the children were tried first, and were far behind on
  INEX2005.

- Weisfeiler-Lehman colour counts do as well: the trees are shallow, so that there is little to learn beyond counting.
  In INEX2006 many test documents have copies in training with another label, which limits what any model can reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hiddenfield.data.build import concatenate
from hiddenfield.data.formats import read
from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.studies.base import Figure, Scale, Trial, study

GRID = {"rounds": [2, 4], "dropout": [0.3, 0.5]}
PARAMETERS = {"epochs": 40, "batch_size": 128, "every_round": True, "standardise": True}
SAME = "same split, hold-out of a fifth to select"
PUBLISHED = {
    "05": {"CGMM": 96.73, "partial tree kernel": 97.04},
    "06": {"CGMM": 45.1, "bidirectional hidden tree Markov kernel": 45.19},
}


@study("inex", quick=("INEX2006",))
def trials(scale: Scale) -> list[Trial]:
    """Return a trial for each year and model."""
    settings = AssessmentSettings(nested=True, space=GRID, seeds=3)
    return [
        Trial(
            f"INEX20{year}",
            model,
            "given split",
            partial(load_inex, year),
            settings,
            PARAMETERS,
            _figures(year),
            in_sight=year == "05",  # where arc labels without positions had been tried first
        )
        for year in ("05", "06")
        for model in ("mean_field", "loopy_bp")
    ]


def _figures(year: str) -> tuple[Figure, ...]:
    return tuple(
        Figure(value / 100, f"{name}, Bacciu et al. 2018", SAME) for name, value in PUBLISHED[year].items()
    )


def load_inex(year: str, data: Path) -> tuple[Structures, Sequence[Split]]:
    """Read a year's documents, arcs labelled by position and direction, and the given split."""
    folder = data / "graphs" / f"INEX20{year}"
    parts = [
        read(folder / f"inex{year}.{part}.elastic.tree.xz", format="inex", arc_labels="position")
        for part in ("train", "test")
    ]
    pack = concatenate(parts)
    bound = len(parts[0])
    return pack, [Split("given", np.arange(bound), np.arange(bound, len(pack)))]
