"""Rotations of loadings to ones that are easier to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from hiddenfield.shapes import Array, Float

MOST_SWEEPS = 1000
"""Of rotations of all pairs of factors."""


def varimax(loadings: Float[Array, "columns factors"]) -> Float[Array, "factors factors"]:
    r"""Return the rotation that makes squared loadings vary most within each factor.

    The orthogonal :math:`T` that maximises :math:`\sum_k \operatorname{var}_j (\Lambda T)_{jk}^2` with rows of
    :math:`\Lambda` brought to length one (Kaiser 1958): two factors at a time are turned by the best angle, which has a
    closed form, so that each turn raises it.

    Examples
    --------
    >>> simple = np.array([[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]])
    >>> turned = simple @ np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> np.abs(turned @ varimax(turned)).round(3).tolist()
    [[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]]
    """
    lengths = np.linalg.norm(loadings, axis=1, keepdims=True)
    turned = loadings / np.where(lengths > 0, lengths, 1.0)
    factors = loadings.shape[1]
    rotation = np.eye(factors)
    for _ in range(MOST_SWEEPS):
        largest = 0.0
        for pair in combinations(range(factors), 2):
            x, y = turned[:, pair].T
            doubled = (x + 1j * y) ** 2
            angle = np.angle((doubled**2).sum() - doubled.sum() ** 2 / len(x)) / 4
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            turned[:, pair], rotation[:, pair] = turned[:, pair] @ turn, rotation[:, pair] @ turn
            largest = max(largest, abs(angle))
        if largest < 1e-9:
            break
    return rotation


def promax(
    loadings: Float[Array, "columns factors"], *, power: float = 4.0
) -> Float[Array, "factors factors"]:
    r"""Return an oblique rotation towards powers of the varimax loadings (Hendrickson and White 1964).

    With :math:`\Lambda U` as the loadings, the factors have the correlations :math:`(U^\top U)^{-1}`.
    """
    rotation = varimax(loadings)
    turned = loadings @ rotation
    target = turned * np.abs(turned) ** (power - 1)
    oblique = np.linalg.lstsq(turned, target, rcond=None)[0]
    lengths = np.sqrt(np.diag(np.linalg.inv(oblique.T @ oblique)))
    return rotation @ (oblique * lengths)


ROTATIONS: Mapping[str, Callable[[Array], Array]] = {"varimax": varimax, "promax": promax}
