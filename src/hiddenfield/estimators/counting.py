r"""Models on counted colours beside the networks, and how much of each goes into a prediction.

Networks lose to counting where there are few structures, and counting to networks where what matters is no small piece.
Every member m of an ensemble has a network, a linear model and a forest on Weisfeiler-Lehman counts, all fitted to the
structures that it does not hold out, and predicts

.. math:: f_m(\chi) = \sum_k w_k f_{mk}(\chi), \qquad w_k \ge 0, \quad \sum_k w_k = 1.

The weights are the best of a grid for the predictions of structures that were held out (stacking, Wolpert 1992), the
same for all members and targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.kernels.refinement import ColourDictionary, weisfeiler_lehman
from hiddenfield.learning.forest import Forest, fit_forest
from hiddenfield.learning.linear import Linear, fit_linear
from hiddenfield.learning.task import Task
from hiddenfield.shapes import Array, Float, Int

KINDS = ("networks", "linear", "forest")
"""What is averaged: networks, linear models on counts, forests on counts."""
ROUNDS = 3
TREES = 50
MOST_COUNTED = 20_000
"""Structures times targets above which networks are alone: there counting no longer wins, and takes longer."""
STEPS = 10
"""Weights are tenths."""
SHARE = 0.1
"""Of the structures of a part, on which the strength of the linear model's penalty is chosen."""
SMALLEST = 1e-4
"""Probability below which a wrong prediction is not punished more: weights must not hang on a single structure."""

Part = tuple[Int[Array, " kept"], Int[Array, " aside"]]


@dataclass(frozen=True, eq=False)
class Counting:
    """Models on counted colours, for each member and target.

    Parameters
    ----------
    vocabulary
        The colours.
    linear, forests
        By member and target.
    """

    vocabulary: ColourDictionary
    linear: list[list[Linear]]
    forests: list[list[Forest]]

    def predict(self, structures: Structures) -> list[list[list[Float[Array, "structures ..."]]]]:
        """Return by kind, member and target what is predicted."""
        counts = weisfeiler_lehman(structures, vocabulary=self.vocabulary)[0]
        return [
            [[model.predict(counts) for model in member] for member in kind]
            for kind in (self.linear, self.forests)
        ]


def fit_counting(structures: Structures, task: Task, parts: Sequence[Part], seed: int) -> Counting:
    """Fit a linear model and a forest for each member and target to the structures that the member does not hold out.

    The strength of a linear model's penalty is chosen once for each target, with the first member.
    """
    assert structures.targets is not None
    targets = structures.targets.double().cpu().numpy()
    counts, vocabulary = weisfeiler_lehman(structures, ROUNDS)
    linear: list[list[Linear]] = []
    forests: list[list[Forest]] = []
    for member, (kept, _) in enumerate(parts):
        linear.append([])
        forests.append([])
        for k, column in enumerate(task.columns):
            rows = kept[~np.isnan(targets[kept, k])]
            classes = None if column.classes is None else len(column.classes)
            if not len(rows):  # the part has no answer to this target
                rows = np.flatnonzero(~np.isnan(targets[:, k]))
            y, own = targets[rows, k], counts[rows]
            order = np.random.default_rng(seed + member).permutation(len(rows))
            size = int(SHARE * len(rows))
            chosen = None if member == 0 else linear[0][k]
            linear[-1].append(
                fit_linear(own, y, np.sort(order[size:]), np.sort(order[:size]), classes, like=chosen)
            )
            forests[-1].append(fit_forest(own, y, classes, trees=TREES, seed=(seed + member) % 2**32))
    return Counting(vocabulary, linear, forests)


def choose_weights(
    task: Task,
    targets: Float[Array, "structures targets"],
    predicted: Sequence[Sequence[Float[Array, "structures ..."]]],
) -> tuple[float, ...]:
    """Return the weights, one for each kind, with the least loss on predictions of held-out structures.

    The loss is the square error in units of each target's variance, for classes minus the log-probability, averaged
    over the targets.

    Parameters
    ----------
    task
        Its targets.
    targets
        Of the structures that were held out; NaN where missing.
    predicted
        By kind and target.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A", "B", "C"], targets=[0.0, 2.0, 4.0])
    >>> truth, off = np.array([0.0, 2.0, 4.0]), np.array([1.0, 3.0, 5.0])
    >>> choose_weights(Task.of(words), truth[:, None], [[off], [truth], [off]])
    (0.0, 1.0, 0.0)
    """
    kinds = len(predicted)
    grid = [
        np.array([*steps, STEPS - sum(steps)]) / STEPS
        for steps in product(range(STEPS, -1, -1), repeat=kinds - 1)
        if sum(steps) <= STEPS
    ]
    losses = np.zeros(len(grid))
    for k, column in enumerate(task.columns):
        present = ~np.isnan(targets[:, k])
        if not present.any():
            continue
        truth = targets[present, k]
        tables = [kind[k][present] for kind in predicted]
        if column.classes is not None:
            tables = [table[np.arange(len(truth)), truth.astype(np.int64)] for table in tables]
        stacked = np.stack(tables, 1)
        for place, weights in enumerate(grid):
            mixed = stacked @ weights
            losses[place] += (
                (((mixed - truth) / column.scale) ** 2).mean()
                if column.classes is None
                else -np.log(np.maximum(mixed, SMALLEST)).mean()
            )
    return tuple(grid[int(losses.argmin())].tolist())
