"""Contextual graph Markov models: graphs.

Accuracy on the biochemical sets of Bacciu, Errica & Micheli (2018), and on two sets with the splits of the
fair-comparison study (Errica et al. 2020). *As published*: settings are selected by the mean over the ten reported
folds, as in the paper's 10-fold column, which is too optimistic. *Nested*: they are selected within each training part,
by five inner folds as in the paper or on the validation part of the given splits, and never on the test folds.

- Of the published grid there are 20 and 40 states, RBF and Jaccard kernels, and layers up to eight. Instead of every
  depth there are 4 and 8; instead of γ of 5, 50 and 100 the width is scikit-learn's scale, and the cost of an error
  is 5 or 50. EM takes at most 15 turns a layer, from one start; a pool of ten, chosen by the score of the head
  within the training part as in the paper, is a variant of its own, with fixed settings.

- The heads, their costs and the kernel's width in the grid were chosen by cross-validating some settings on MUTAG and
  CPDB, whose rows are marked for that; AIDS and NCI1 had no part in it.

- The networks beside NCI1 and D&D are a row of [the page on networks](s2v-graphs.md), with its own history; there are
  more of them on the same splits there.

- Runs of CGMM at revisions up to 5d9829d started EM in such a way that all rare labels shared a state of the first
  layer. Later runs do not, which was worth 0.5 to 3.7 points of accuracy on NCI109, DHFR, MSRC_9 and NCI1.

- Folds are drawn with the classes in proportion, since the paper's are not known. CPDB has the hydrogens suppressed,
  which fits the paper's 14.1 atoms. Of the AIDS molecules 1,487 of 1,503 are at hand, with explicit hydrogens; their
  kernels take long, so that 4 layers are given, and settings are selected on one inner part, a fifth. MUTAG has 17.9
  atoms here and 45.1 in the paper's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hiddenfield.data.formats import read
from hiddenfield.data.structures import Structures
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.studies.base import Figure, Scale, Trial, study
from hiddenfield.studies.s2v_graphs import five_networks, load_graphs

FIXED: dict[str, Any] = {"max_iterations": 15}
GRID: dict[str, list[Any]] = {
    "num_states": [20, 40],
    "depth": [4, 8],
    "head": ["svm_rbf", "svm_jaccard"],
    "strength": [5.0, 50.0],
}
# Sets that take long are selected from fewer, by fewer inner parts.
SMALLER: dict[str, list[Any]] = GRID | {"depth": [4]}
LARGE: dict[str, Any] = {"inner_fraction": 0.2}
FEW: dict[str, list[Any]] = {"num_states": [20, 40], "depth": [4, 8]}
POOL: dict[str, Any] = {"pool": 10, "select": "score", "depth": 8, "head": "svm_rbf", "strength": 50.0}
PAPER = "CGMM, Bacciu et al. 2018"
PUBLISHED = {"MUTAG": (91.18, 85.3), "CPDB": (81.04, 78.06), "AIDS": (84.16, 83.15)}
FAIR = {"NCI1": 76.2, "DD": 74.9}
CROSS_VALIDATION, NESTED = "10-fold, tuned and reported by cross-validation", "10-fold outer, inner 5-fold"
FAIR_PROTOCOL = "10-fold outer, inner hold-out"


@study("cgmm-graphs", quick=("MUTAG",))
def trials(scale: Scale) -> list[Trial]:
    """Return for every set of the paper a trial as published, a nested one and one with a pool; then the others."""
    return [
        *(trial for name in PUBLISHED for trial in _of_paper(name)),
        *(trial for name in FAIR for trial in (_fair(name), five_networks(name))),
    ]


def _of_paper(name: str) -> list[Trial]:
    load = partial(load_molecules, name)
    as_published, nested = (value / 100 for value in PUBLISHED[name])
    own = Figure(nested, PAPER, NESTED)
    large = name == "AIDS"
    space, inner = (SMALLER, LARGE) if large else (GRID, {"inner": "k_fold"})
    selected = AssessmentSettings(as_published=True, space=space, baselines=False)
    honest = AssessmentSettings(nested=True, space=space, **inner)
    figure = Figure(as_published, PAPER, CROSS_VALIDATION)
    fixed = AssessmentSettings(baselines=False)
    seen = not large  # the grid was made with results on these graphs in sight
    pool = Trial(name, "cgmm", "nested", load, fixed, FIXED | POOL, (own,), "pool of 10", seen)
    return [
        Trial(name, "cgmm", "as published", load, selected, FIXED, (figure,), "one start", seen),
        Trial(name, "cgmm", "nested", load, honest, FIXED, (own,), "one start", seen),
        *([] if large else [pool]),
    ]


def _fair(name: str) -> Trial:
    settings = AssessmentSettings(nested=True, space=FEW)
    figure = Figure(FAIR[name] / 100, "CGMM, on these splits", FAIR_PROTOCOL)
    fair = partial(load_graphs, name, True)
    parameters = FIXED | {"head": "linear"}
    return Trial(name, "cgmm", "nested", fair, settings, parameters, (figure,), "one start, linear head")


def load_molecules(name: str, data: Path) -> tuple[Structures, Sequence[Split] | None]:
    """Read molecules as graphs of elements whose bonds have one label."""
    if name != "AIDS":
        pack = read(data / "graphs" / name / f"{name}.zip")
        return pack.replace(
            node_attributes=None, node_attribute_names=(), arc_attributes=None, arc_attribute_names=()
        ), None
    file = data / "graphs" / "AIDS_CAvsCM" / "aids_ca_vs_cm.csv.gz"
    pack = read(file, target="activity", explicit_hydrogens=True)
    assert pack.node_labels is not None
    assert pack.arc_labels is not None
    return pack.replace(
        node_labels=pack.node_labels[:, :1],
        node_vocabularies=pack.node_vocabularies[:1],
        arc_labels=pack.arc_labels[:, :1],
        arc_vocabularies=pack.arc_vocabularies[:1],
    ), None
