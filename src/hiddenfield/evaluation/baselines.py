"""Baselines that a learned embedding must beat: the mean, counted labels, counted colours, features."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.targets import select_targets, split_held_out
from hiddenfield.evaluation.measuring import Score, measure
from hiddenfield.evaluation.splits.drawn import hold_out_positions
from hiddenfield.kernels.refinement import _checked, weisfeiler_lehman
from hiddenfield.learning.device import torch_threads
from hiddenfield.learning.linear import fit_linear
from hiddenfield.registry import Registry
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from hiddenfield.evaluation.assessment.problem import Problem

# Share of the training structures on which the strength of the penalty is chosen.
HELD_OUT = 0.1
# Structures from which on more than one thread is worth its start.
WORTH_THREADS = 50_000


@dataclass(frozen=True, eq=False)
class BaselineTask:
    """What a baseline is given.

    Parameters
    ----------
    train, test
        Structures, or tables of features; None for a table that is not of finite numbers.
    y, truth
        Targets of the training and of the test structures: numbers, or class codes.
    classes
        How many classes there are; None where the target is a number.
    kept, held_out
        Positions among the training structures on which settings are tried, and on which they are judged.
    rounds
        Numbers of rounds of the Weisfeiler-Lehman colours.
    """

    train: Structures | csr_matrix | None
    test: Structures | csr_matrix | None
    y: Float[Array, " train"]
    truth: Float[Array, " test"]
    classes: int | None
    kept: Int[Array, " kept"]
    held_out: Int[Array, " held_out"]
    rounds: Sequence[int] = (3,)

    def linear(self, name: str, train: csr_matrix, test: csr_matrix, started: float) -> Score:
        """Fit a linear model to features of the structures; the time counts from `started`."""
        model = fit_linear(train, self.y, self.kept, self.held_out, self.classes)
        seconds = time.perf_counter() - started
        predictions = model.predict(test)
        return Score(
            f"{name} + {'ridge' if self.classes is None else 'logistic'}",
            measure(self.truth, predictions),
            model.parameters,
            seconds,
            f"strength {model.strength:g}",
            predictions,
        )


BASELINES: Registry[Callable[[BaselineTask], list[Score]]] = Registry("baseline")
"""Each fits baselines of one kind, in the order of a table; none where the kind does not apply."""


def fit_baselines(
    train: Structures,
    test: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] = (3,),
    seed: int = 0,
) -> list[Score]:
    r"""Fit the mean predictor and linear models on counted labels and Weisfeiler-Lehman colours; score them on `test`.

    Numbers are predicted by ridge regression, :math:`\min_w \sum_n (y_n - w^\top \phi(\chi_n) - b)^2 + \lambda |w|^2`,
    classes by logistic regression with the same penalty, on counts that are divided by the largest of their column or
    on rows of unit length (see `fit_linear`). The strength :math:`\lambda` is the best of seven, 0.01 to 10,000, on
    a tenth of `train` that is held out for it (of more than 200,000 structures, by so many of them, drawn at random);
    the model is then fitted to all of `train`. `test` has no part in any choice. Colours that occur in `test` alone are
    counted nowhere.

    Parameters
    ----------
    train, test
        With targets, test's in the units or classes of train's; structures whose target is missing are left out.
    target
        Which of the targets; the first by default.
    rounds
        For each number a model on the colours of so many rounds.
    seed
        Of the choice of the tenth.

    Returns
    -------
    list of Score
        The mean predictor (for classes: their frequencies), the labels, then the colours.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(
    ...     ["A" * k + "B" for k in range(40)], targets=[float(k) for k in range(40)]
    ... )
    >>> scores = fit_baselines(words[::2], words[1::2], rounds=(1,))
    >>> [score.name for score in scores]
    ['mean predictor', 'labels + ridge', 'WL-1 + ridge']
    >>> scores[1].metrics["mae"] < 0.1 < scores[0].metrics["mae"]
    True
    """
    train, y = _answered(train, target)
    test, truth = _answered(test, target)
    words = train.target_vocabularies[0]
    if words is not None and test.target_vocabularies[0] != words:
        raise InputError(
            f"train and test have different classes of {words.name!r}; give both in one vocabulary"
        )
    classes = None if words is None else len(words)
    if classes is not None and len(np.unique(y)) < 2:
        raise InputError(
            f"all training structures are of one class of {train.target_names[0]!r}; at least two are needed"
        )
    ((kept, held_out),) = split_held_out(train, HELD_OUT, seed)
    task = BaselineTask(train, test, y, truth, classes, kept, held_out, rounds)
    return [score for fit in BASELINES.values() for score in fit(task)]


def problem_baselines(
    problem: Problem, train: Int[Array, " train"], test: Int[Array, " test"], rounds: Sequence[int] = (3,)
) -> list[Score]:
    """Fit the baselines to the training positions of a problem; return their scores on the test positions.

    Those of structures are the ones of `fit_baselines`. Those of a table of features are the mean, or the class
    frequencies, and a linear model on the features where these are finite numbers.
    """
    if isinstance(problem.X, Structures):
        return fit_baselines(problem.X[train], problem.X[test], rounds=rounds)
    codes = problem.codes
    kept, held_out = hold_out_positions(
        len(train), None if codes is None else codes[train], HELD_OUT, np.random.default_rng(0)
    )
    table = finite_table(problem.X)
    before, after = (None, None) if table is None else (table[train], table[test])
    task = BaselineTask(
        before,
        after,
        problem.truth[train],
        problem.truth[test],
        None if problem.classes is None else len(problem.classes),
        kept,
        held_out,
    )
    return [score for fit in BASELINES.values() for score in fit(task)]


@BASELINES.register(summary="mean of the training targets, or the class frequencies")
def constant(task: BaselineTask) -> list[Score]:
    """Predict the mean of the training targets or, for classes, their frequencies."""
    return [constant_score(task.y, task.truth, task.classes)]


def constant_score(
    y: Float[Array, " train"], truth: Float[Array, " test"], classes: int | None = None
) -> Score:
    """Score the mean of the training targets or, for classes, their frequencies; one row of predictions for all.

    Examples
    --------
    >>> constant_score(np.array([1.0, 3.0]), np.array([2.0, 4.0])).metrics["mae"]
    1.0
    """
    if classes is None:
        row = np.array([y.mean()])
        metrics = measure(truth, np.repeat(row, len(truth)))
        return Score("mean predictor", metrics, 1, 0.0, f"always {row[0]:.4g}", row)
    row = np.bincount(y.astype(np.int64), minlength=classes)[None] / len(y)
    metrics = measure(truth, np.repeat(row, len(truth), axis=0))
    return Score("class frequencies", metrics, classes - 1, 0.0, "always the most frequent class", row)


@BASELINES.register(
    summary="linear models on counted labels and Weisfeiler-Lehman colours",
    reference="Shervashidze et al. 2011",
)
def counts(task: BaselineTask) -> list[Score]:
    """Fit linear models to counted labels, and to the colours of each number of rounds."""
    train, test = task.train, task.test
    if not isinstance(train, Structures) or not isinstance(test, Structures):
        return []
    # A cell of an assessment has one thread, because other cells run beside it. With many structures one cell runs at a
    # time; worker processes have a limit of their own, which Numba respects. The results are the same.
    threads = torch.get_num_threads()
    if len(train) >= WORTH_THREADS:
        import numba

        threads = getattr(numba.config, "NUMBA_NUM_THREADS")  # noqa: B009 (set when Numba starts)
    with torch_threads(threads):
        started = time.perf_counter()
        # The colours of few rounds are the first columns of those of many, and the labels are those of none.
        deepest = max(map(_checked, task.rounds), default=0)
        features, vocabulary = weisfeiler_lehman(train, deepest)
        counting = time.perf_counter() - started
        others = weisfeiler_lehman(test, vocabulary=vocabulary)[0]
        scores = []
        for name, rounds in [("labels", 0), *((f"WL-{r}", r) for r in task.rounds)]:
            columns = slice(0, vocabulary.offsets[rounds + 1])
            share = counting * (rounds + 1) / (deepest + 1)
            started = time.perf_counter() - share
            scores.append(task.linear(name, features[:, columns], others[:, columns], started))
    return scores


@BASELINES.register(summary="linear model on a table of features")
def features(task: BaselineTask) -> list[Score]:
    """Fit a linear model to a table of features, if they are finite numbers."""
    if task.train is None or isinstance(task.train, Structures):
        return []
    return [task.linear("features", task.train, task.test, time.perf_counter())]


def _answered(structures: Structures, target: str | None) -> tuple[Structures, Float[Array, " structures"]]:
    """Return the structures whose target is there, with it alone, and its values."""
    if structures.targets is None or not structures.target_names:
        raise InputError("there is nothing to predict: the structures have no targets")
    alone = select_targets(structures, [structures.target_names[0] if target is None else target])
    assert alone.targets is not None
    values = alone.targets[:, 0].cpu().numpy()
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        raise InputError(f"target {alone.target_names[0]!r} is missing for every structure")
    return alone[present] if len(present) < len(values) else alone, values[present]


def finite_table(X: Any) -> csr_matrix | None:
    """Return a table of features as a sparse matrix; None where some entry is missing, infinite or not a number.

    Examples
    --------
    >>> (
    ...     finite_table(np.array([[1.0, 0.0]])).nnz,
    ...     finite_table(np.array([[1.0, np.nan]])),
    ...     finite_table([["a", 1]]),
    ... )
    (1, None, None)
    """
    from scipy.sparse import csr_matrix, issparse

    try:
        table = csr_matrix(X if issparse(X) else np.asarray(X, dtype=np.float64), dtype=np.float64, copy=True)
    except (TypeError, ValueError):
        return None
    table.eliminate_zeros()
    return table if np.isfinite(table.data).all() else None
