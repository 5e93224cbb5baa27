"""What each ingredient is worth.

Accuracy of embedded loopy belief propagation (width 64, 4 rounds) over the ten given folds, with node labels only,
fixed settings, and the epoch chosen on a tenth of the training part. Each ingredient is added to the plain model by
itself; the recipe is what the tables of graph classification use.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.studies.base import Scale, Trial, study
from hiddenfield.studies.s2v_graphs import PLAIN, RECIPE, load_graphs

FALLING: dict[str, Any] = {"learning_rate": 3e-3, "schedule": "cosine"}
EPOCHS = {"ENZYMES": 150, "NCI1": 40}
# Each ingredient by itself, added to the paper's plain model; then the ones that are kept, together.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "twice the epochs": {"times": 2},
    "falling rate from 3e-3": FALLING,
    "width 128": {"dim": 128, "hidden": 128},
    "standardised embedding": {"standardise": True},
    "readout of every round": {"every_round": True},
    "dropout 0.3": {"dropout": 0.3},
    "weight decay 0.05": {"optimizer": "adamw", "weight_decay": 0.05},
    "epoch by accuracy": {"monitor": "accuracy"},
    "layer on every node, 128": {"node_width": 128},
    "mean instead of sum": {"pooling": "mean"},
    "mean field": {"model": "mean_field"},
    "recipe": FALLING | RECIPE,
    "recipe, dropout 0.5": FALLING | RECIPE | {"dropout": 0.5},
    "recipe, dropout 0.5, weight decay 0.2": FALLING
    | RECIPE
    | {"dropout": 0.5, "optimizer": "adamw", "weight_decay": 0.2},
    "recipe, dropout 0.5, epoch by accuracy": FALLING | RECIPE | {"dropout": 0.5, "monitor": "accuracy"},
    "recipe, dropout 0.5, five networks": FALLING | RECIPE | {"dropout": 0.5, "ensemble": 5},
}


@study("s2v-ablation", layout="ablation", quick=("ENZYMES",))
def trials(scale: Scale) -> list[Trial]:
    """Return a trial for each set and ingredient."""
    settings = AssessmentSettings(baselines=False)
    result = []
    for name, epochs in EPOCHS.items():
        for variant, change in VARIANTS.items():
            parameters: dict[str, Any] = PLAIN | {"epochs": epochs * change.get("times", 1)} | change
            parameters.pop("times", None)
            model = parameters.pop("model", "loopy_bp")
            load = partial(load_graphs, name, False)
            # What the recipes put together had been seen to help on these folds.
            seen = variant.startswith("recipe")
            place = (name, model, "fixed settings")
            result.append(Trial(*place, load, settings, parameters, variant=variant, in_sight=seen))
    return result
