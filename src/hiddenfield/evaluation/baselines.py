"""Simple models that a learned embedding must beat: the mean, labels counted, colours counted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.targets import keep_aside
from hiddenfield.evaluation.linear import fit_linear
from hiddenfield.evaluation.score import Score, measure
from hiddenfield.kernels.refinement import _checked, weisfeiler_lehman
from hiddenfield.shapes import Array, Float

__all__ = ["fit_baselines"]

# Share of the training structures on which the strength of the penalty is chosen.
ASIDE = 0.1
# Structures from which on more than one thread is worth its start.
WORTH_THREADS = 50_000


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
    a tenth of `train` that is kept aside for it (of more than 200,000 structures, by so many of them, drawn at random);
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
    kept, aside = keep_aside(train, ASIDE, seed)
    scores = [_constant(y, truth, classes)]
    kind = "ridge" if words is None else "logistic"
    with _threads(len(train)):
        started = time.perf_counter()
        # The colours of few rounds are the first columns of those of many, and the labels are those of none.
        deepest = max(map(_checked, rounds), default=0)
        features, vocabulary = weisfeiler_lehman(train, deepest)
        counting = time.perf_counter() - started
        others = weisfeiler_lehman(test, vocabulary=vocabulary)[0]
        for name, count in [("labels", 0), *((f"WL-{r}", r) for r in rounds)]:
            started = time.perf_counter()
            columns = slice(0, vocabulary.offsets[count + 1])
            model = fit_linear(features[:, columns], y, kept, aside, classes)
            seconds = counting * (count + 1) / (deepest + 1) + time.perf_counter() - started
            predictions = model.predict(others[:, columns])
            metrics, note = measure(truth, predictions), f"strength {model.strength:g}"
            scores.append(Score(f"{name} + {kind}", metrics, model.parameters, seconds, note, predictions))
    return scores


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let many structures be counted and fitted on all cores; the results are the same.

    A cell of an assessment has one thread, because there are other cells. Of many structures there is one cell at a
    time; and where there are several nevertheless, their processes have a limit of their own, to which Numba keeps.
    """
    before = torch.get_num_threads()
    if count >= WORTH_THREADS:
        import numba

        torch.set_num_threads(getattr(numba.config, "NUMBA_NUM_THREADS"))  # noqa: B009 (set when Numba starts)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _position(structures: Structures, target: str | None) -> int:
    if structures.targets is None or not structures.target_names:
        raise InputError("there is nothing to predict: the structures have no targets")
    if target is None:
        return 0
    if target not in structures.target_names:
        raise InputError(f"there is no target {target!r}; choose from: {', '.join(structures.target_names)}")
    return structures.target_names.index(target)


def _answered(structures: Structures, target: str | None) -> tuple[Structures, Float[Array, " structures"]]:
    """Return the structures whose target is there, with it alone, and its values."""
    column = _position(structures, target)
    assert structures.targets is not None
    values = structures.targets[:, column].cpu().numpy()
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        raise InputError(f"target {structures.target_names[column]!r} is missing for every structure")
    alone = structures.replace(
        targets=structures.targets[:, column : column + 1],
        target_names=structures.target_names[column : column + 1],
        target_vocabularies=structures.target_vocabularies[column : column + 1],
    )
    return alone[present] if len(present) < len(values) else alone, values[present]


def _constant(y: Array, truth: Array, classes: int | None) -> Score:
    """Score the mean of the training targets or, for classes, their frequencies."""
    if classes is None:
        return Score(
            "mean predictor", measure(truth, np.full(len(truth), y.mean())), 1, 0.0, f"always {y.mean():.4g}"
        )
    shares = np.bincount(y.astype(np.int64), minlength=classes) / len(y)
    metrics = measure(truth, np.tile(shares, (len(truth), 1)))
    return Score("class frequencies", metrics, classes - 1, 0.0, "always the most frequent class")
