"""Power conversion efficiency.

Root mean square error of the efficiency, in percentage points, on 5,000 held-out molecules, for five random splits.
Settings were fixed in advance; the epoch is chosen on 5,000 other molecules.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hiddenfield.data.formats import read
from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.studies.base import Figure, Scale, Trial, study

# Of the 24,978 molecules outside the test set, 20,000 are trained on.
PARAMETERS = {
    "dim": 64,
    "epochs": 80,
    "batch_size": 256,
    "learning_rate": 2e-3,
    "validation_fraction": 0.2,
    "monitor": "rmse",
}
FIGURES = (
    Figure(1.43, "neural fingerprints, Duvenaud et al. 2015", "20,000 to train"),
    Figure(1.40, "circular fingerprints, Duvenaud et al. 2015", "20,000 to train"),
)


@study("s2v-cep")
def trials(scale: Scale) -> list[Trial]:
    """Return a trial for each model and number of rounds."""
    settings = AssessmentSettings(split="hold_out", test_fraction=5000 / 29978, repeats=5, metric="rmse")
    # The baselines are the same for all models; they, and the learning curve, are computed with one.
    alone = replace(settings, baselines=False)
    beside = replace(settings, learning_curve=(0.25, 0.5), wl_rounds=(3, 6))
    counts = (1, 2, 3, 4) if not scale.small_grid else (2,)
    return [
        Trial(
            "CEP",
            model,
            f"T = {count}",
            _load,
            beside if (model, count) == ("loopy_bp", counts[-1]) else alone,
            PARAMETERS | {"rounds": count},
            FIGURES,
        )
        for model in ("mean_field", "loopy_bp")
        for count in counts
    ]


def _load(data: Path) -> tuple[Structures, None]:
    # SMILES need RDKit, which not every machine with a GPU has: if the same molecules are there as Parquet
    # (hiddenfield.write), these are read instead.
    folder = data / "graphs" / "CEP"
    written = folder / "cep-processed.parquet"
    if written.exists():
        return read(written), None
    return read(folder / "cep-processed.csv.xz", structure="smiles", target="PCE", extra=()), None
