"""The simple models that always stand beside the one that is assessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.estimators.base import StructureEstimator
from hiddenfield.evaluation.assessment.problem import Problem
from hiddenfield.evaluation.baselines import _constant, fit_baselines
from hiddenfield.evaluation.linear import fit_linear
from hiddenfield.evaluation.score import Score, measure
from hiddenfield.evaluation.splits.drawn import hold_out_positions
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["BLIND", "BLIND_NAME", "constant_row", "finite_table", "has_blind_twin", "simple_models"]

# The assessed network with nothing to pass along: what remains is the sum of the node labels and the same head.
BLIND: dict[str, Any] = {"model": "mean_field", "rounds": 1, "model_options": None}
BLIND_NAME = "no arcs, same head"


def has_blind_twin(estimator: Any, problem: Problem) -> bool:
    """Say whether the estimator can be fitted to structures without arcs, all else equal."""
    return isinstance(estimator, StructureEstimator) and isinstance(problem.X, Structures)


def simple_models(
    problem: Problem, train: Int[Array, " train"], test: Int[Array, " test"], rounds: Sequence[int] = (3,)
) -> list[Score]:
    """Fit the simple models to the training positions; return their scores on the test positions.

    Of structures these are those of `fit_baselines`, on colours of so many rounds. Of a table of features they are the
    mean, or the most frequent class, and a linear model on the features where these are finite numbers.
    """
    if isinstance(problem.X, Structures):
        return fit_baselines(problem.X[train], problem.X[test], rounds=rounds)
    return _on_features(problem, train, test)


def _on_features(problem: Problem, train: Int[Array, " train"], test: Int[Array, " test"]) -> list[Score]:
    y, truth = problem.truth[train], problem.truth[test]
    classes = None if problem.classes is None else len(problem.classes)
    constant = _constant(y, truth, classes)
    table = finite_table(problem.X)
    if table is None:
        return [constant]
    codes = problem.codes
    kept, aside = hold_out_positions(
        len(train), None if codes is None else codes[train], 0.1, np.random.default_rng(0)
    )
    model = fit_linear(table[train], y, kept, aside, classes)
    name = "features + " + ("ridge" if classes is None else "logistic")
    predictions = model.predict(table[test])
    return [
        constant,
        Score(name, measure(truth, predictions), model.parameters, predictions=predictions),
    ]


def constant_row(problem: Problem, train: Int[Array, " train"]) -> Float[Array, "one ..."]:
    """Return what the first of them predicts of every structure: the mean, or the frequencies of the classes."""
    y = problem.truth[train]
    if problem.classes is None:
        return np.array([y.mean()])
    return np.bincount(y.astype(np.int64), minlength=len(problem.classes))[None] / len(y)


def finite_table(X: Any) -> csr_matrix | None:
    """Return a table of features as a linear model takes it; None where some are no numbers, missing or infinite.

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
