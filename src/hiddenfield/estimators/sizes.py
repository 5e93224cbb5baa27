"""How many components: criteria over a range of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from hiddenfield.errors import InputError, TrainingError
from hiddenfield.estimators.latent import LatentEstimator
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

CRITERIA: Mapping[str, str] = {
    "bic": "Schwarz's criterion, which finds the right size of a right model, given many data",
    "aic": "Akaike's criterion, for prediction; larger sizes",
    "icl": "the integrated completed likelihood, for groups that are apart; smaller sizes",
    "cross_validation": "the log-likelihood of rows held out, per row",
}
"""By what a size is chosen."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """Models of several sizes, and what criteria say of them; NaN where a size could not be learned.

    Parameters
    ----------
    criterion, parameter
        By what is chosen, and the name of the size.
    sizes
        Those tried.
    estimators
        The fitted models; None where the fit failed.
    failures
        Why, by size.
    log_likelihood, num_free
        Of the data, and degrees of freedom.
    bic, aic, icl
        Less is better.
    cross_validated, cross_validated_error
        The mean log-likelihood of a row held out, over folds, and its standard error; NaN where it was not asked for.
    """

    criterion: str
    parameter: str
    sizes: list[Any]
    estimators: list[Any]
    failures: dict[Any, str]
    log_likelihood: Float[Array, " sizes"]
    num_free: Float[Array, " sizes"]
    bic: Float[Array, " sizes"]
    aic: Float[Array, " sizes"]
    icl: Float[Array, " sizes"]
    cross_validated: Float[Array, " sizes"]
    cross_validated_error: Float[Array, " sizes"]

    @property
    def values(self) -> Float[Array, " sizes"]:
        """The criterion, less is better."""
        return (
            -self.cross_validated if self.criterion == "cross_validation" else getattr(self, self.criterion)
        )

    @property
    def best(self) -> Any:
        """The size that the criterion chooses."""
        return self.sizes[int(np.nanargmin(self.values))]

    @property
    def best_estimator(self) -> Any:
        """The model of that size."""
        return self.estimators[self.sizes.index(self.best)]


def choose_size(
    estimator: LatentEstimator,
    X: Any,
    sizes: Iterable[int | None],
    *,
    y: Any = None,
    criterion: str = "bic",
    folds: int = 5,
    advance: Callable[..., None] | None = None,
) -> Sizes:
    """Fit a model at each of several sizes, and say which a criterion chooses.

    Parameters
    ----------
    estimator
        Any of `LATENT`, not yet fitted.
    X
        What it is fitted to.
    sizes
        Numbers of components (states, factors); None leaves the model as it is.
    y
        What goes with X, for models that take it.
    criterion
        One of `CRITERIA`. Rows are held out only for "cross_validation", since each size is then fitted `folds` times
        more.
    folds
        Parts of the rows that are held out in turn.
    advance
        Called with 1 after each size.

    Examples
    --------
    >>> from hiddenfield.estimators import GaussianMixture
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(90, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 30, axis=0)
    >>> found = choose_size(GaussianMixture(covariance="spherical"), X, range(1, 5))
    >>> found.best, found.best_estimator.means_.shape
    (3, (3, 2))
    """
    choose("criterion", CRITERIA, criterion)
    sizes, parameter = list(sizes), estimator._size
    if not sizes:
        raise InputError("there are no sizes to choose from")
    rows, fitted, failures = [], [], dict[Any, str]()
    for size in sizes:
        model = clone(estimator).set_params(**({} if size is None else {parameter: size}))
        try:
            rows.append(_judge(model.fit(X, y), X, y, folds if criterion == "cross_validation" else 0))
            fitted.append(model)
        except (TrainingError, InputError) as error:
            if len(sizes) == 1:
                raise
            rows.append([math.nan] * 7)
            fitted.append(None)
            failures[size] = str(error)
        if advance is not None:
            advance(1)
    if not any(fitted):
        raise TrainingError(f"no size could be learned; the first: {failures[sizes[0]]}")
    return Sizes(criterion, parameter, sizes, fitted, failures, *np.array(rows).T)


def _judge(model: LatentEstimator, X: Any, y: Any, folds: int) -> list[float]:
    own = {} if y is None else {"y": y}
    total, rows = model.total(X, y)
    held = [math.nan, math.nan]
    if folds:
        scores = []
        for train, test in KFold(min(folds, rows), shuffle=True, random_state=0).split(range(rows)):
            part = clone(model).set_params(checkpoint=None)
            part.fit(
                _safe_indexing(X, train), **{name: _safe_indexing(each, train) for name, each in own.items()}
            )
            rest = None if y is None else _safe_indexing(y, test)
            scores.append(float(part.log_likelihood(_safe_indexing(X, test), rest).mean()))
        held = [float(np.mean(scores)), float(np.std(scores, ddof=1) / math.sqrt(len(scores)))]
    try:
        icl = model.icl(X, y)
    except InputError:  # what is hidden is not one of several
        icl = math.nan
    criteria = [model.bic(X, y), model.aic(X, y), icl]
    return [total, float(model.num_free_), *criteria, *held]
