"""Free coordinates of probabilities that sum to 1: logarithms of their ratios to the first."""

from __future__ import annotations

import numpy as np

from hiddenfield.shapes import Array, Bool, Float, Int

LEAST = 1e-300
"""Where logarithms of probabilities of 0 are taken, so that coordinates are finite."""


def free_ratios(owner: Int[Array, " entries"]) -> Bool[Array, " entries"]:
    """Return which entries are coordinates: all but the first of each owner."""
    free = np.ones(len(owner), np.bool_)
    free[np.unique(owner, return_index=True)[1]] = False
    return free


def log_ratios(values: Float[Array, " entries"], owner: Int[Array, " entries"]) -> Float[Array, " free"]:
    """Return the coordinates of probabilities; entries of one owner sum to 1.

    Examples
    --------
    >>> owner = np.array([0, 0, 1, 1, 1])
    >>> values = np.array([0.8, 0.2, 0.25, 0.25, 0.5])
    >>> log_ratios(values, owner).round(2), with_ratios(np.array([0.0, 0.0, 0.0]), values, owner).round(2)
    (array([-1.39,  0.  ,  0.69]), array([0.5 , 0.5 , 0.33, 0.33, 0.33]))
    """
    logs, (_, first, inverse) = (
        np.log(np.maximum(values, LEAST)),
        np.unique(owner, return_index=True, return_inverse=True),
    )
    return (logs - logs[first][inverse])[free_ratios(owner)]


def with_ratios(
    vector: Float[Array, " free"], values: Float[Array, " entries"], owner: Int[Array, " entries"]
) -> Float[Array, " entries"]:
    """Return the probabilities at other coordinates; those of 0 stay 0."""
    logs = np.zeros(len(values))
    logs[free_ratios(owner)] = vector
    logs[values <= 0] = -np.inf
    top = np.full(int(owner.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(top, owner, logs)
    odds = np.exp(logs - top[owner])
    return odds / np.bincount(owner, weights=odds)[owner]
