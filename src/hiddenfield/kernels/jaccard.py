"""The Jaccard kernel of multisets."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiddenfield.shapes import Array, Float


def jaccard(first: Any, second: Any = None) -> Float[Array, "first second"]:
    r"""Return the similarity of rows of counts, each a multiset.

    .. math:: k(x, y) = \frac{\sum_i \min(x_i, y_i)}{\sum_i \max(x_i, y_i)}

    From 0 to 1, and 1 for equal rows, empty ones too; positive semidefinite. The time is that of the distances of
    all pairs of rows.

    Parameters
    ----------
    first, second
        Rows of counts that are not negative, dense or sparse; without `second` those of `first`.

    References
    ----------
    Bacciu, Errica & Micheli 2018; Ralaivola, Swamidass, Saigo & Baldi 2005, where it is the MinMax kernel.

    Examples
    --------
    >>> jaccard(np.array([[2.0, 1.0], [1.0, 1.0]]))
    array([[1.        , 0.66666667],
           [0.66666667, 1.        ]])
    """
    from sklearn.metrics.pairwise import manhattan_distances

    second = first if second is None else second
    apart = manhattan_distances(first, second)
    total = np.asarray(first.sum(axis=1)).reshape(-1, 1) + np.asarray(second.sum(axis=1)).reshape(1, -1)
    return np.where(total > 0, (total - apart) / np.where(total > 0, total + apart, 1.0), 1.0)
