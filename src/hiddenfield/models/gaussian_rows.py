"""Numbers of rows given Gaussians: distances, moments, Student's t, and filling in whose a row is."""

from __future__ import annotations

import math

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.shapes import Array, Float, Int

LEAST_FREEDOM, MOST_FREEDOM = 0.1, 1e3
"""Degrees of freedom that are learned; at the most a t distribution is a Gaussian to three digits."""


def log_sum(joint: Float[Array, "rows components"]) -> Float[Array, " rows"]:
    """Return the logarithm of the sum of exponentials of each row."""
    top = joint.max(1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(joint - top[:, None]).sum(1)) + top


def draw_rows(shares: Float[Array, "rows components"], generator: np.random.Generator) -> Int[Array, " rows"]:
    """Draw a component for each row, by its shares."""
    steps = shares.cumsum(1)
    return (generator.random(len(shares))[:, None] * steps[:, -1:] > steps[:, :-1]).sum(1)


def fill_in(
    joint: Float[Array, "rows components"], fill: Fill
) -> tuple[Float[Array, " rows"], Float[Array, "rows components"]]:
    """Return the objective of each row and its shares of the components, filled in as asked for."""
    values = log_sum(joint)
    if fill.kind == "expectation":
        return values, np.exp(joint - values[:, None])
    if fill.kind == "mode":
        chosen = joint.argmax(1)
    else:
        assert fill.generator is not None
        chosen = draw_rows(np.exp(joint - values[:, None]), fill.generator)
    return joint[np.arange(len(joint)), chosen], np.eye(joint.shape[1])[chosen]


# -- complete rows -----------------------------------------------------------------------------------------


def complete_distances(
    values: Float[Array, "rows columns"],
    means: Float[Array, "components columns"],
    inverse: Float[Array, "#components columns columns"],
) -> Float[Array, "rows components"]:
    r"""Return :math:`\lVert L_k^{-1} (x - \mu_k) \rVert^2`, by one product for all Gaussians."""
    count, dim = means.shape
    inverse = np.broadcast_to(inverse, (count, dim, dim))
    stacked = inverse.reshape(count * dim, dim).T
    white = values @ stacked
    white -= np.einsum("kij,kj->ki", inverse, means).reshape(-1)
    white = white.reshape(len(values), count, dim)
    return np.einsum("nki,nki->nk", white, white)


def complete_moments(
    values: Float[Array, "rows columns"], weights: Float[Array, "rows components"]
) -> tuple[Float[Array, "components columns"], Float[Array, "components columns columns"]]:
    """Return the weighted sums of rows and of their outer products, by one product for all Gaussians."""
    rows, dim = values.shape
    squares = (values[:, :, None] * values[:, None, :]).reshape(rows, dim * dim)
    return weights.T @ values, (weights.T @ squares).reshape(-1, dim, dim)


# -- independent columns -----------------------------------------------------------------------------------


def independent_distances(
    part: Rows, means: Float[Array, "components columns"], inverse: Float[Array, "components columns"]
) -> tuple[Float[Array, "rows components"], Float[Array, "rows components"], Float[Array, " rows"]]:
    """Return squared distances and log determinants of what rows have, and how many columns that is."""
    if part.complete:
        white = (part.values[:, None, :] - means) * inverse
        log_dets = np.broadcast_to(-2 * np.log(inverse).sum(1), (len(part), len(means)))
        return np.einsum("nki,nki->nk", white, white), log_dets, np.full(len(part), float(means.shape[1]))
    here = ~part.missing
    white = np.where(here[:, None, :], (part.values[:, None, :] - means) * inverse, 0.0)
    return np.einsum("nki,nki->nk", white, white), here @ (-2 * np.log(inverse).T), here.sum(1).astype(float)


def independent_moments(
    part: Rows,
    owners: Float[Array, "rows components"],
    scaled: Float[Array, "rows components"],
    parameters: Arrays,
    gaussians: Gaussians,
    fill: Fill,
) -> tuple[Float[Array, "components columns"], Float[Array, "components columns"]]:
    """Return the weighted sums of deviations from the centre and of their squares, holes filled in."""
    away = parameters["means"] - gaussians.centre
    variances = np.broadcast_to(gaussians.blocks(parameters["covariances"])[..., 0, 0], away.shape)
    values = np.where(part.missing, 0.0, part.values - gaussians.centre)
    if part.complete:
        return scaled.T @ values, scaled.T @ values**2
    if fill.kind == "sample":
        assert fill.generator is not None
        own = owners.argmax(1)
        drawn = away[own] + np.sqrt(variances[own]) * fill.generator.standard_normal(values.shape)
        values = np.where(part.missing, drawn, values)
        return scaled.T @ values, scaled.T @ values**2
    absent = scaled.T @ part.missing.astype(float)
    spare = variances * (owners.T @ part.missing.astype(float))
    return scaled.T @ values + absent * away, scaled.T @ values**2 + absent * away**2 + spare


# -- Student's t -------------------------------------------------------------------------------------------


def log_student(
    squares: Float[Array, "rows components"],
    log_dets: Float[Array, "#rows components"],
    seen: Float[Array, "rows 1"],
    freedom: Float[Array, " components"],
) -> Float[Array, "rows components"]:
    """Return the log densities of t distributions, of the columns that rows have."""
    from scipy.special import gammaln

    total = freedom + seen
    constant = gammaln(0.5 * total) - gammaln(0.5 * freedom) - 0.5 * seen * np.log(math.pi * freedom)
    return constant - 0.5 * log_dets - 0.5 * total * np.log1p(squares / freedom)


def student_scale(
    squares: Float[Array, "rows components"],
    seen: Float[Array, "rows 1"],
    freedom: Float[Array, " components"],
) -> tuple[Float[Array, "rows components"], Float[Array, "rows components"]]:
    r"""Return the expected precision u of each row, and :math:`E[\log u] - E[u]`."""
    from scipy.special import digamma

    scale = (freedom + seen) / (freedom + squares)
    return scale, digamma(0.5 * (freedom + seen)) - np.log(0.5 * (freedom + squares)) - scale


def learn_freedom(
    mass: Float[Array, " components"], tail: Float[Array, " components"]
) -> Float[Array, " components"]:
    r"""Solve :math:`\log \tfrac\nu2 - \psi(\tfrac\nu2) + 1 + \overline{E[\log u] - E[u]} = 0` for each component."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    def solve(average: float) -> float:
        def slope(log_half: float) -> float:
            return float(log_half - digamma(math.exp(log_half)) + 1 + average)

        low, high = math.log(LEAST_FREEDOM / 2), math.log(MOST_FREEDOM / 2)
        if slope(high) >= 0:
            return MOST_FREEDOM
        return 2 * math.exp(brentq(slope, low, high)) if slope(low) > 0 else LEAST_FREEDOM

    return np.array([solve(value) for value in tail / mass])
