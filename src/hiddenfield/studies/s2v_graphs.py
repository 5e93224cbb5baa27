"""Graph classification.

Accuracy on five data sets of the TU collection, with node labels only. *As published*: settings and epoch are
selected by the mean over the reported folds, as in the papers, which is too optimistic. *Nested*: settings are
selected within each training part, or fixed, never on the test folds; the splits are those of the fair-comparison
study (Errica et al. 2020) where it has some, else the ten given folds with an inner hold-out. The recipe itself was
found on these data sets, in earlier runs, and rows that use it are marked; what the defaults reach on sets that had
no part in any choice is in [the page on defaults](defaults.md). For thousands of molecules choose colours of
Weisfeiler and Lehman, as a kernel or with a linear model, which take seconds, or the default, which averages them with
networks; for proteins several averaged networks.

- The quoted figures were selected on the folds that they report, from unknown settings and epochs. Here the plain
  model is selected from the paper's 36 settings, the recipe of mean field and loopy BP from twelve (dropout, weight
  decay, width); the other models have one setting.

- D&D: also tried were mean and maximum pooling instead of the sum; 150 epochs of the plain model with one round; and,
  for mean field of width 16 with two rounds, dropout, weight decay, a decaying learning rate, and the readout of
  every round. None was better. The large graphs of this set are distinguished by how often each label occurs: a
  network without arcs does about as well as most models here, so that messages have little to add.

- ENZYMES: the recipe has 300 epochs because in a first run with 150 the learning rate had decayed to zero while the
  accuracy was still rising. This was seen on the same folds. In that run, all models but the tree-reweighted one were
  2 to 6 points lower in the optimistic protocol (loopy BP 0.6000), the five networks were 3 points lower in the
  nested one (0.5750), and the others, whose epoch is chosen by the validation loss, were as good or better.

- Nested protocol: standardised networks keep improving long after the validation loss has turned, so that the epoch
  of least loss is too early. Five networks whose epoch is chosen by accuracy make up for that: in the ablation
  averaging is worth most, and choosing the epoch by accuracy helps on NCI1 but not on ENZYMES. This variant was
  designed after seeing the ablation, whose folds contain the same graphs.

- Kernels are normalised, with a support vector machine whose cost is chosen from 0.01 to 100 on a fifth of the
  training part; in the paper from 0.01 to 10, on the reported folds. The paper's degrees, 1 to 10, are all tried on
  MUTAG, and those of the subtree kernel on ENZYMES; elsewhere a few of them, and on NCI1 none where nothing may be
  selected on the reported folds: kernels then have three rounds, their default. Random walks and Ramon & Gärtner's
  subtrees (64.34 for the geometric, 58.66 for the other and 61.86, on NCI1, as later papers quote them) compare all
  pairs of nodes of all pairs of graphs, which takes hours on NCI1 and NCI109: they were run on MUTAG alone, as were
  the kernels of generative models, which the paper could not run. NCI109, which is like NCI1, and D&D, whose graphs
  have 284 nodes on average and so a hundred times the paths of a molecule, were left out for time. A network that is
  averaged with linear models on Weisfeiler-Lehman colours is the default of this library, on
  [a page of its own](defaults.md); on these splits it was not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hiddenfield.data.formats import read
from hiddenfield.data.paths import existing
from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Request, Split, make_splits
from hiddenfield.studies.base import Figure, Scale, Trial, study

GRID: dict[str, list[Any]] = {"dim": [16, 32, 64], "hidden": [16, 32, 64], "rounds": [1, 2, 3, 4]}
# The paper's plain model. It does not say how many epochs; these are enough for the validation error to turn.
PLAIN: dict[str, Any] = {"learning_rate": 1e-3, "schedule": "constant", "batch_size": 50}
# What helps on small data sets where the epoch is chosen on the reported folds.
RECIPE: dict[str, Any] = {"every_round": True, "standardise": True, "batch_size": 50}
# What helps where it is not: the validation loss turns long before the validation accuracy does.
FIVE: dict[str, Any] = RECIPE | {"dropout": 0.3, "monitor": "accuracy", "ensemble": 5}
CHOICES: dict[str, list[Any]] = {"dropout": [0.0, 0.3, 0.5]}
# A larger grid where the reported folds select, as in the papers.
MORE: dict[str, list[Any]] = CHOICES | {"weight_decay": [0.0, 0.2], "dim": [64, 128]}
EPOCHS = {
    "plain": {"MUTAG": 300, "NCI1": 60, "NCI109": 60, "ENZYMES": 200, "DD": 60},
    "recipe": {"MUTAG": 150, "NCI1": 60, "NCI109": 60, "ENZYMES": 300, "DD": 30},
}
# Number of combinations drawn from the paper's grid where the inner split selects.
DRAWS = 8
# Proteins have too many cycles for longer ones.
LONGEST_CYCLE = {"ENZYMES": 4, "DD": 3}
MAIN = ("mean_field", "loopy_bp")
OTHERS = ("damped", "double_loop", "tree_reweighted", "generalized_bp")

CROSS_VALIDATION = "10-fold, tuned and reported by cross-validation"
FAIR = "10-fold outer, inner hold-out"
PUBLISHED = {
    ("MUTAG", "loopy_bp"): 88.28,
    ("NCI1", "mean_field"): 83.04,
    ("NCI1", "loopy_bp"): 83.72,
    ("NCI109", "loopy_bp"): 82.16,
    ("ENZYMES", "loopy_bp"): 61.10,
    ("DD", "loopy_bp"): 82.22,
}
# Normalised kernels: what is selected from, on small sets and on the others.
KERNEL_GRIDS: dict[str, dict[str, list[Any]]] = {
    "wl_subtree": {"rounds": list(range(1, 11))},
    "wl_edge": {"rounds": list(range(1, 11))},
    "wl_shortest_path": {"rounds": list(range(1, 11))},
    "shortest_path": {},
    "graphlet": {"sizes": [[3], [3, 4], [3, 4, 5]]},
    "random_walk": {"steps": [2, 5, 10]},
    "geometric_walk": {},
    "common_subtrees": {},
}
# Kernels that the paper does not have, or could not run: without any selection.
FURTHER = ("wl_assignment", "probability_product", "fisher_field")
FEWER: dict[tuple[str, str], dict[str, list[Any]]] = {
    ("ENZYMES", "wl_edge"): {"rounds": [1, 2, 3, 5]},
    ("ENZYMES", "wl_shortest_path"): {"rounds": [1, 2, 3]},
    ("NCI1", "wl_subtree"): {"rounds": [1, 3, 5, 8]},
    ("NCI1", "wl_edge"): {"rounds": [1, 2, 3]},
    ("NCI1", "wl_shortest_path"): {"rounds": [1, 2]},
    ("NCI1", "graphlet"): {},
}
WITH_KERNELS = {"MUTAG": tuple(KERNEL_GRIDS), **dict.fromkeys(("ENZYMES", "NCI1"), tuple(KERNEL_GRIDS)[:5])}
OF_KERNELS = {
    "wl_subtree": 82.19,
    "wl_edge": 84.37,
    "wl_shortest_path": 84.55,
    "shortest_path": 73.47,
    "graphlet": 66.00,
}
GIN = {"NCI1": 80.0, "DD": 75.3}
SETS = ("MUTAG", "NCI1", "NCI109", "ENZYMES", "DD")
WITH_SPLITS = ("NCI1", "ENZYMES", "DD")


@study("s2v-graphs", quick=("MUTAG",))
def trials(scale: Scale) -> list[Trial]:
    """Return for every data set, model and variant a trial as published and a nested one; five networks only nested."""
    return [
        trial
        for name in SETS
        for trials in (
            *(_pair(name, model, variant) for model in MAIN for variant in ("plain", "recipe")),
            *(_pair(name, model, "recipe") for model in OTHERS),
            [five_networks(name)],
            *(_of_kernel(name, kernel) for kernel in WITH_KERNELS.get(name, ())),
        )
        for trial in trials
    ] + [_further(kernel) for kernel in FURTHER]


def _of_kernel(name: str, kernel: str) -> list[Trial]:
    """Return the trials of a kernel, on the same splits as the networks."""
    space = FEWER.get((name, kernel), KERNEL_GRIDS[kernel])
    quoted = OF_KERNELS.get(kernel) if name == "NCI1" else None
    source = f"{kernel}, as later papers quote it"
    figures = () if quoted is None else (Figure(quoted / 100, source, CROSS_VALIDATION),)
    ten, fair = partial(load_graphs, name, False), partial(load_graphs, name, name in WITH_SPLITS)
    published = AssessmentSettings(as_published=True, space=space, baselines=False)
    # Of many graphs nothing is selected: three rounds, the default.
    within = {} if name == "NCI1" else space
    nested = AssessmentSettings(nested=bool(within), space=within, baselines=False)
    return [
        Trial(name, f"kernel:{kernel}", "as published", ten, published, {}, figures),
        Trial(name, f"kernel:{kernel}", "nested", fair, nested, {}, _gin(name)),
    ]


def _further(kernel: str) -> Trial:
    load, settings = partial(load_graphs, "MUTAG", False), AssessmentSettings(baselines=False)
    return Trial("MUTAG", f"kernel:{kernel}", "nested", load, settings)


def five_networks(name: str) -> Trial:
    """Return the trial of five networks whose probabilities are averaged; nothing is selected."""
    parameters = FIVE | {"epochs": EPOCHS["recipe"][name]}
    settings = AssessmentSettings(baselines=False)
    fair = partial(load_graphs, name, name in WITH_SPLITS)
    return Trial(name, "loopy_bp", "nested", fair, settings, parameters, _gin(name), "five networks", True)


def _gin(name: str) -> tuple[Figure, ...]:
    return () if name not in GIN else (Figure(GIN[name] / 100, "GIN, Errica et al. 2020", FAIR),)


def _pair(name: str, model: str, variant: str) -> list[Trial]:
    plain, main = variant == "plain", model in MAIN
    parameters = (PLAIN if plain else RECIPE) | {"epochs": EPOCHS[variant][name]}
    if model == "generalized_bp" and name in LONGEST_CYCLE:
        parameters["model_options"] = {"longest_cycle": LONGEST_CYCLE[name]}
    few = CHOICES if main else {"dropout": [0.3]}
    decaying = {"optimizer": "adamw"} if main and not plain else {}
    value = PUBLISHED.get((name, model))
    own = (
        ()
        if value is None
        else (Figure(value / 100, "structure2vec, as later papers quote it", CROSS_VALIDATION),)
    )
    ten, fair = partial(load_graphs, name, False), partial(load_graphs, name, name in WITH_SPLITS)
    published = AssessmentSettings(
        as_published=True, space=GRID if plain else MORE if main else few, baselines=False
    )
    nested = AssessmentSettings(
        nested=True,
        space=GRID if plain else few,
        draws=DRAWS if plain else None,
        seeds=3 if main else 1,
        # The baselines are the same for all models, and computed with one.
        baselines=(model, variant) == ("loopy_bp", "recipe"),
    )
    return [
        Trial(name, model, "as published", ten, published, parameters | decaying, own, variant, not plain),
        Trial(name, model, "nested", fair, nested, parameters, _gin(name), variant, not plain),
    ]


def load_graphs(name: str, fair: bool, data: Path) -> tuple[Structures, Sequence[Split]]:
    """Read a data set with labels only, and its ten folds or the splits of the fair-comparison study."""
    folder = data / "graphs" / name
    if name == "MUTAG":
        file = existing(folder / "MUTAG_s2v_10fold.zip")
        pack = read(file)
    else:
        file = folder / (f"{name}_model_assessment_splits.json.gz" if fair else f"{name}_10fold_idx.zip")
        pack = read(folder / f"{name}.zip")
    # The paper uses labels only.
    pack = pack.replace(
        node_attributes=None, node_attribute_names=(), arc_attributes=None, arc_attribute_names=()
    )
    request = Request(len(pack), sizes=pack.num_nodes.cpu().numpy(), file=file)
    return pack, make_splits("files", request)
