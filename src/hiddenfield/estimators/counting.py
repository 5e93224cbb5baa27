r"""Models on counted colours beside the networks, and how much of each goes into a prediction.

Networks lose to counting where there are few structures, and counting to networks where what matters is no small piece.
Every member m of an ensemble has a network and a linear model on Weisfeiler-Lehman counts, both fitted to what it does
not hold out; one forest on the counts of all structures is common to them. A member predicts

.. math:: f_m(\chi) = \sum_k w_k f_{mk}(\chi), \qquad w_k \ge 0, \quad \sum_k w_k = 1.

The weights are the best of a grid for predictions of structures that were not seen (stacking, Wolpert 1992), the same
for all members and targets: of networks and linear models for those that they hold out, of the forest by the trees that
did not draw them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.inputs import Features
from hiddenfield.kernels.refinement import ColourDictionary, weisfeiler_lehman
from hiddenfield.learning.forest import Forest, fit_forest
from hiddenfield.learning.linear import Linear, fit_linear
from hiddenfield.learning.task import Column, Task
from hiddenfield.ops.equal_rows import Rows
from hiddenfield.shapes import Array, Float, Int

KINDS = ("networks", "linear", "forest")
"""What is averaged: networks, linear models on counts, forests on counts."""
ROUNDS = 3
TREES = 50
"""Of a forest, for each member of the ensemble."""
MOST_COUNTED = 50_000
"""Structures times targets above which networks are alone: there counting no longer wins, and takes longer."""
STEPS = 10
"""Weights are tenths."""
SHARE = 0.1
"""Of the structures of a part, on which the strength of the linear model's penalty is chosen."""
SMALLEST = 1e-4
"""Probability below which a wrong prediction is not punished more: weights must not hang on a single structure."""

PREFIX = "counting."
"""Of the names of arrays in a saved model."""

Part = tuple[Int[Array, " kept"], Int[Array, " held_out"]]


@dataclass(frozen=True, eq=False)
class Counting:
    """Models on counted colours: linear ones for each member and target, a forest for each target.

    Parameters
    ----------
    vocabulary
        The colours.
    linear
        By member and target.
    forests
        By target.
    """

    vocabulary: ColourDictionary
    linear: list[list[Linear]]
    forests: list[Forest]

    def predict(
        self, structures: Structures, members: Sequence[int] | None = None
    ) -> list[list[list[Float[Array, "structures ..."]]]]:
        """Return by kind, member (all, or those named) and target what is predicted."""
        counts = weisfeiler_lehman(structures, vocabulary=self.vocabulary)[0]
        chosen = range(len(self.linear)) if members is None else members
        linear = [[model.predict(counts) for model in self.linear[member]] for member in chosen]
        return [linear, [[model.predict(counts) for model in self.forests]] * len(chosen)]


def fit_counting(
    structures: Structures, task: Task, parts: Sequence[Part], seed: int
) -> tuple[Counting, list[Float[Array, "structures ..."]]]:
    """Fit linear models for each member and target to the structures that it does not hold out, and a forest to all.

    The strength of a linear model's penalty is chosen once for each target, with the first member.

    Returns
    -------
    The models, and for each target what the forest predicts by the trees that did not see a structure, NaN where its
    target is missing.
    """
    assert structures.targets is not None
    targets = structures.targets.double().cpu().numpy()
    counts, vocabulary = weisfeiler_lehman(structures, ROUNDS)
    linear: list[list[Linear]] = []
    forests: list[Forest] = []
    unseen: list[Array] = []
    for member, (kept, _) in enumerate(parts):
        linear.append([])
        for k, column in enumerate(task.columns):
            rows = kept[~np.isnan(targets[kept, k])]
            classes = None if column.classes is None else len(column.classes)
            if not len(rows):  # the part has no answer to this target
                rows = np.flatnonzero(~np.isnan(targets[:, k]))
            y, own = targets[rows, k], counts[rows]
            order = np.random.default_rng(seed + member).permutation(len(rows))
            size = int(SHARE * len(rows))
            chosen = None if member == 0 else linear[0][k]
            model = fit_linear(own, y, np.sort(order[size:]), np.sort(order[:size]), classes, like=chosen)
            short = {
                name: getattr(model, name).astype(np.float32) for name in ("scale", "weights", "intercept")
            }
            linear[-1].append(replace(model, **short))
    for k, column in enumerate(task.columns):
        classes = None if column.classes is None else len(column.classes)
        rows = np.flatnonzero(~np.isnan(targets[:, k]))
        y, trees = targets[rows, k], TREES * len(parts)
        forest, predicted = fit_forest(counts[rows], y, classes, trees=trees, seed=seed % 2**32)
        forests.append(forest)
        unseen.append(np.full((len(targets), *predicted.shape[1:]), np.nan))
        unseen[-1][rows] = predicted
    return Counting(vocabulary, linear, forests), unseen


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


# -- saving ------------------------------------------------------------------------------------------------


def as_arrays(counting: Counting) -> dict[str, Array]:
    """Return all that a saved model needs of it: the colours, then the models by member and target."""
    words, found = counting.vocabulary, dict[str, Array]()
    for name, rows in [
        ("arcs", words.arc_labels),
        *((f"round{t}", rows) for t, rows in enumerate(words.rounds)),
    ]:
        found |= {f"{name}.ptr": rows.ptr, f"{name}.values": rows.values}
    for kind, models in (("linear", _named(counting.linear)), ("forest", enumerate(counting.forests))):
        for place, model in models:
            parts = {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray)}
            found |= {f"{kind}.{place}.{name}": value for name, value in parts.items()}
            if isinstance(model, Linear):
                found[f"{kind}.{place}.settings"] = np.array([model.unit, model.strength])
    return {PREFIX + name: np.ascontiguousarray(value) for name, value in found.items()}


def from_arrays(
    arrays: Mapping[str, Array], features: Features, columns: Sequence[Column], members: int
) -> Counting:
    """Make it from what `as_arrays` returned; arrays that do not fit each other are an `InputError`."""
    own = {name.removeprefix(PREFIX): value for name, value in arrays.items()}
    places = [f"{member}.{target}" for member in range(members) for target in range(len(columns))]
    expected = {
        f"{name}.{part}"
        for name in ("arcs", *(f"round{t}" for t in range(ROUNDS + 1)))
        for part in ("ptr", "values")
    }
    expected |= {
        f"linear.{place}.{name}" for place in places for name in ("scale", "weights", "intercept", "settings")
    }
    expected |= {
        f"forest.{target}.{name}"
        for target in range(len(columns))
        for name in ("roots", "column", "threshold", "left", "right", "values")
    }
    if set(own) != expected or not all(np.isfinite(value).all() for value in own.values()):
        raise InputError(
            "the models on counts are not those of the targets, or have numbers that are not finite"
        )
    rows = {name: _rows(own, name) for name in ("arcs", *(f"round{t}" for t in range(ROUNDS + 1)))}
    words = ColourDictionary(
        features.node_vocabularies, features.arc_vocabularies, rows.pop("arcs"), tuple(rows.values())
    )
    linear = [_linear(own, place, columns[int(place.split(".")[1])], words) for place in places]
    forests = [_forest(own, place, column, words) for place, column in enumerate(columns)]
    cut = range(0, len(places), len(columns))
    return Counting(words, [linear[k : k + len(columns)] for k in cut], forests)


def _linear(own: Mapping[str, Array], place: str, column: Column, words: ColourDictionary) -> Linear:
    part = _part(own, f"linear.{place}.")
    unit, strength = part.pop("settings").tolist()
    model = Linear(**part, classes=column.classes is not None, unit=bool(unit), strength=strength)
    shapes = (model.weights.shape, model.scale.shape, model.intercept.shape)
    if shapes != ((words.num_features, column.outputs), (words.num_features,), (column.outputs,)):
        raise _unfit(column)
    return model


def _forest(own: Mapping[str, Array], place: int, column: Column, words: ColourDictionary) -> Forest:
    part = _part(own, f"forest.{place}.")
    forest = Forest(**part, classes=column.classes is not None, columns=words.num_features)
    if forest.values.shape[1:] != (column.outputs,) or not _grown(forest):
        raise _unfit(column)
    return forest


def _part(own: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): own[name] for name in sorted(own) if name.startswith(prefix)}


def _unfit(column: Column) -> InputError:
    return InputError(f"the models on counts of target {column.name!r} do not fit the colours")


def _named(members: Sequence[Sequence[Linear]]) -> Iterator[tuple[str, Any]]:
    for member, models in enumerate(members):
        for target, model in enumerate(models):
            yield f"{member}.{target}", model


def _rows(own: Mapping[str, Array], name: str) -> Rows:
    ptr, values = own[f"{name}.ptr"], own[f"{name}.values"]
    if ptr.ndim != 1 or values.ndim != 1 or not len(ptr) or ptr[0] != 0 or ptr[-1] != len(values):
        raise InputError(f"the colours of {name} are cut short")
    if (np.diff(ptr) < 0).any() or ptr.dtype != np.int64 or values.dtype != np.int64:
        raise InputError(f"the colours of {name} are not rows of numbers")
    return Rows(ptr, values)


def _grown(forest: Forest) -> bool:
    """Whether following the nodes of a forest ends at a leaf, wherever it begins."""
    nodes = len(forest.column)
    lengths = {len(part) for part in (forest.threshold, forest.left, forest.right, forest.values)}
    whole = all(part.dtype == np.int32 for part in (forest.roots, forest.column, forest.left, forest.right))
    if lengths != {nodes} or not whole or not len(forest.roots):
        return False
    inner = np.flatnonzero(forest.column >= 0)
    below = np.stack([forest.left[inner], forest.right[inner]])
    return bool(
        (forest.column < forest.columns).all()
        and (below > inner).all()
        and (below < nodes).all()
        and (forest.roots >= 0).all()
        and (forest.roots < nodes).all()
    )
