"""Where EM starts from: groups of rows, and the best of many short runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from hiddenfield.errors import TrainingError
from hiddenfield.learning.protocol import Arrays, Fill
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int

STARTS: Mapping[str, str] = {
    "auto": "k_means",
    "k_means": "k-means, from seeds far from each other (k-means++)",
    "k_means++": "the nearest of seeds far from each other",
    "random": "the nearest of random rows",
}
"""How rows are grouped before the first turn."""

SHORT_RUNS = "short_runs"
"""The start that all models learned by EM alone have: see `short_runs`."""

TRIES, TURNS, WORK = 100, 5, 5_000_000
"""Short runs, at most; turns of each at first; and turns times rows of all of them together, at most, about."""

MOST_ROWS = 20_000
"""Rows that k-means looks at; the others are given to the nearest mean."""


def short_runs(model: Any, data: Any, generator: np.random.Generator) -> Arrays:
    """Return parameters to start from: the best of many starts after a few turns of EM from each.

    The first start is the model's choice, the others are random. The best quarter goes on, for twice as many turns, and
    so on until one is left. There are as many as cost little: of many rows there is only the model's choice.

    References
    ----------
    Biernacki, Celeux and Govaert (2003), Choosing starting values for the EM algorithm for getting the highest
    likelihood in multivariate Gaussian mixture models.
    """
    size = max(getattr(data, "size", len(data)), 1)
    tries, turns = int(np.clip(WORK // (2 * TURNS * size), 1, TRIES)), TURNS
    found = [model.start(data, "auto" if k == 0 else "random", generator) for k in range(tries)]
    while len(found) > 1:
        ends = [_go_on(model, data, start, turns) for start in found]
        best = sorted(range(len(ends)), key=lambda k: -ends[k][0])[: len(ends) // 4 or 1]
        found, turns = [ends[k][1] for k in best], 2 * turns
    return found[0]


def _go_on(model: Any, data: Any, parameters: Arrays, turns: int) -> tuple[float, Arrays]:
    """Return the objective and the parameters after some turns of EM.

    The objective is -inf where turns break off, or where it falls: a component that collapses loses all digits.
    """
    objective = -np.inf
    try:
        for turn in range(turns + 1):
            statistics = model.expected_statistics(data, parameters, Fill())
            found = float(statistics["objective"]) + model.log_prior(parameters)
            if not found >= objective - 1e-6 * abs(objective):
                return -np.inf, parameters
            objective = found
            if turn < turns:
                parameters = model.maximize(statistics, parameters)
    except (TrainingError, np.linalg.LinAlgError):
        return -np.inf, parameters
    return objective, parameters


def group_rows(
    values: Float[Array, "rows columns"],
    weights: Float[Array, " rows"],
    groups: int,
    how: str,
    generator: np.random.Generator,
    labels: Int[Array, " rows"] | None = None,
) -> Int[Array, " rows"]:
    """Return a group for each row, by nearness to seeds or means; rows with a label have that.

    Parameters
    ----------
    values
        Columns of comparable scale, without holes.
    weights
        Rows of weight 0 have no part in it.
    groups
        How many. Where there are fewer different rows, some are empty.
    how
        One of `STARTS`.
    generator
        Of the seeds.
    labels
        Known groups, or -1; seeds of groups with labels are their means.
    """
    choose("start", STARTS, how)
    count = int(np.count_nonzero(weights))
    share = weights / weights.sum()
    rows = generator.choice(len(values), size=min(count, MOST_ROWS), replace=False, p=share)
    known = (
        np.zeros(groups, bool) if labels is None else np.bincount(labels[labels >= 0], minlength=groups) > 0
    )
    means = np.empty((groups, values.shape[1]))
    for group in np.flatnonzero(known):
        means[group] = values[labels == group].mean(0)
    free = np.flatnonzero(~known)
    if len(free):
        means[free] = _seeds(values[rows], len(free), how, generator)
    if how in ("auto", "k_means"):
        means = _k_means(values[rows], means, weights[rows] if len(rows) == count else None)
    found = np.concatenate([_nearest(values[i : i + 8192], means) for i in range(0, len(values), 8192)])
    return found if labels is None else np.where(labels >= 0, labels, found)


def _seeds(values: Array, count: int, how: str, generator: np.random.Generator) -> Array:
    """Return seeds: random rows, or each drawn by its squared distance from those before (k-means++)."""
    if how == "random":
        return values[generator.choice(len(values), size=count, replace=count > len(values))]
    seeds = [values[generator.integers(len(values))]]
    nearest = ((values - seeds[0]) ** 2).sum(1)
    for _ in range(1, count):
        total = nearest.sum()
        chance = nearest / total if total > 0 else None
        seeds.append(values[generator.choice(len(values), p=chance)])
        nearest = np.minimum(nearest, ((values - seeds[-1]) ** 2).sum(1))
    return np.array(seeds)


def _k_means(values: Array, means: Array, weights: Array | None) -> Array:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if len(values) < len(means):
        return means
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than groups
        return (
            KMeans(len(means), init=means, n_init=1, max_iter=20)
            .fit(values, sample_weight=weights)
            .cluster_centers_
        )


def _nearest(values: Array, means: Array) -> Array:
    return ((means**2).sum(1) - 2 * values @ means.T).argmin(1)
