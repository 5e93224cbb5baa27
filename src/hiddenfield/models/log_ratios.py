"""Free coordinates of probabilities that sum to 1: logarithms of their ratios to the largest."""

from __future__ import annotations

import numpy as np

from hiddenfield.shapes import Array, Bool, Float, Int


def free_ratios(
    values: Float[Array, " entries"], owner: Int[Array, " entries"]
) -> tuple[Bool[Array, " entries"], Float[Array, " entries"]]:
    """Return which entries are coordinates, and the largest entry with the same owner.

    Coordinates are all positive entries but the first largest of each owner.
    """
    count = int(owner.max(initial=-1)) + 1
    largest = np.zeros(count)
    np.maximum.at(largest, owner, values)
    place = np.arange(len(values))
    first = np.full(count, len(values))
    np.minimum.at(first, owner, np.where(values == largest[owner], place, len(values)))
    return (values > 0) & (place != first[owner]), largest[owner]


def log_ratios(values: Float[Array, " entries"], owner: Int[Array, " entries"]) -> Float[Array, " free"]:
    """Return the coordinates of probabilities; entries of one owner sum to 1.

    Examples
    --------
    >>> owner = np.array([0, 0, 1, 1, 1])
    >>> values = np.array([0.8, 0.2, 0.5, 0.0, 0.5])
    >>> log_ratios(values, owner).round(2), with_ratios(np.array([0.0, 0.0]), values, owner)
    (array([-1.39,  0.  ]), array([0.5, 0.5, 0.5, 0. , 0.5]))
    """
    free, largest = free_ratios(values, owner)
    return np.log(values[free] / largest[free])


def with_ratios(
    vector: Float[Array, " free"], values: Float[Array, " entries"], owner: Int[Array, " entries"]
) -> Float[Array, " entries"]:
    """Return the probabilities at other coordinates; those of 0 stay 0."""
    free, _ = free_ratios(values, owner)
    logs = np.where(values > 0, 0.0, -np.inf)
    logs[free] = vector
    top = np.full(int(owner.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(top, owner, logs)
    odds = np.exp(logs - top[owner])
    return odds / np.bincount(owner, weights=odds)[owner]
