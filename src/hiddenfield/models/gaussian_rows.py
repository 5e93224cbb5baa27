"""Rows as a family of Gaussians sees them: distances, expected moments, Student's t."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.rows import Patterns, Rows
from hiddenfield.learning.protocol import Arrays
from hiddenfield.models import gaussian_holes
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.shapes import Array, Bool, Float, Int

CHUNK = 2048
"""Rows worked on at once, so that what lies between two products stays in the cache."""

LEAST_FREEDOM, MOST_FREEDOM = 0.1, 1e3
"""Degrees of freedom that are learned; at the most a t distribution is a Gaussian to three digits."""


@dataclass(frozen=True, eq=False)
class Sight:
    """Some rows, in the order of their patterns, as Gaussians see them.

    Parameters
    ----------
    gaussians, means
        The Gaussians.
    patterns, chosen
        All rows, and which of them these are.
    roots
        The inverses of the Cholesky factors of the covariances; of independent columns, of their deviations.
    """

    gaussians: Gaussians
    means: Float[Array, "components columns"]
    patterns: Patterns
    chosen: slice
    roots: Array

    @cached_property
    def present(self) -> Bool[Array, "columns rows"]:
        """Where there are values."""
        return self.patterns.observed[self.patterns.which[self.chosen]].T

    @cached_property
    def seen(self) -> Float[Array, " rows"]:
        """How many columns each row has."""
        return self.patterns.observed.sum(1).astype(float)[self.patterns.which[self.chosen]]

    @cached_property
    def precisions(self) -> Float[Array, "components columns columns"]:
        """The inverses of covariances."""
        return np.repeat(self.roots.swapaxes(1, 2) @ self.roots, len(self.means) // len(self.roots), axis=0)

    def fill(
        self, noise: Float[Array, "columns rows"] | None = None
    ) -> tuple[Float[Array, "components columns rows"], Float[Array, "components patterns"]]:
        """Return the deviations from the means, holes filled in; see `gaussian_holes.fill`."""
        columns, within = self.patterns.columns[:, self.chosen], self.patterns.within(self.chosen)
        return gaussian_holes.fill(columns, *within, self.means, self.precisions, noise)

    @cached_property
    def expected(self) -> tuple[Float[Array, "components columns rows"], Float[Array, "components patterns"]]:
        """The deviations from the means, holes at their expectation."""
        return self.fill()

    @cached_property
    def _distances(self) -> tuple[Float[Array, "components rows"], Float[Array, "components rows"]]:
        columns, centre = self.patterns.columns[:, self.chosen], self.gaussians.centre[:, None]
        away = self.means - centre.T
        if not self.gaussians.joint:
            return independent_distances(columns - centre, self.present, away, self.roots)
        volume = -2 * np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(1)[:, None]
        if self.patterns.observed.all():
            squares = complete_distances(columns - centre, away, self.roots)
            return squares, np.broadcast_to(volume, squares.shape)
        filled, log_dets = self.expected
        which = self.patterns.which[self.chosen]
        return ((self.roots @ filled) ** 2).sum(1), volume + log_dets[:, which - which[0]]

    @property
    def squares(self) -> Float[Array, "components rows"]:
        """Squared Mahalanobis distances, by the columns that each row has."""
        return self._distances[0]

    @property
    def log_dets(self) -> Float[Array, "components rows"]:
        """Log determinants of the covariances of the columns that each row has."""
        return self._distances[1]

    @property
    def weights(self) -> Float[Array, " rows"] | None:
        """How many times each row counts."""
        return None if self.patterns.weights is None else self.patterns.weights[self.chosen]

    @property
    def labels(self) -> Int[Array, " rows"] | None:
        """Whose each row is known to be, or -1."""
        return None if self.patterns.labels is None else self.patterns.labels[self.chosen]

    def log_densities(self, parameters: Arrays) -> Float[Array, "components rows"]:
        """Return the log density of the rows under each Gaussian, times the factors of variational Bayes."""
        found = -0.5 * (self.squares + self.log_dets + math.log(2 * math.pi) * self.seen)
        if "log_factors" in parameters:
            factors = parameters["log_factors"]
            found += factors if self.gaussians.joint else factors @ self.present.astype(float)
        return found

    def moments(
        self,
        owners: Float[Array, "components rows"],
        scaled: Float[Array, "components rows"] | None = None,
        generator: np.random.Generator | None = None,
    ) -> Arrays:
        """Return the expected sums of deviations from the centre and of their products, as `Gaussians` take them.

        Parameters
        ----------
        owners
            How much of each row each Gaussian owns, the row's weight included.
        scaled
            The weights of the sums, where they are others (Student's t).
        generator
            Where given, what is missing is drawn rather than expected; where columns are independent it takes no part.
        """
        columns, centre = self.patterns.columns[:, self.chosen], self.gaussians.centre
        whose = owners if scaled is None else scaled
        if not self.gaussians.joint:
            there = self.present.T.astype(float)
            values = np.where(self.present, columns - centre[:, None], 0.0).T
            found = {"seen": owners @ there, "first": whose @ values, "second": whose @ values**2}
            return found if scaled is None else found | {"scaled": scaled @ there}
        found = {"seen": owners.sum(1, keepdims=True)}
        if scaled is not None:
            found["scaled"] = scaled.sum(1, keepdims=True)
        if self.patterns.observed.all():
            first, second = complete_moments(columns - centre[:, None], whose)
            return found | {"first": first, "second": second}
        drawn = None if generator is None else generator.standard_normal(columns.shape)
        filled = self.expected[0] if drawn is None else self.fill(drawn)[0]
        away, mass = self.means - centre, whose.sum(1)
        heavy = filled * whose[:, None]
        first, second = heavy.sum(2), heavy @ filled.swapaxes(1, 2)
        if generator is None:
            within = self.patterns.within(self.chosen)
            second += gaussian_holes.covariances(*within, self.precisions, owners)
        cross = away[:, :, None] * first[:, None, :]
        second += cross + cross.swapaxes(1, 2) + mass[:, None, None] * away[:, :, None] * away[:, None, :]
        return found | {"first": first + mass[:, None] * away, "second": second}


def look(
    data: Rows, means: Float[Array, "components columns"], covariances: Array, gaussians: Gaussians
) -> Iterator[Sight]:
    """Yield the rows, part by part, as Gaussians see them."""
    blocks = gaussians.blocks(covariances)
    if gaussians.joint:
        roots = np.linalg.inv(np.linalg.cholesky(blocks))[:, 0]
    else:
        roots = np.broadcast_to(blocks[..., 0, 0] ** -0.5, means.shape)
    for begin in range(0, len(data), CHUNK):
        yield Sight(gaussians, means, data.patterns, slice(begin, min(begin + CHUNK, len(data))), roots)


def filled(
    data: Rows,
    parameters: Arrays,
    gaussians: Gaussians,
    owners: Float[Array, "rows components"],
    noise: Float[Array, "rows columns"] | None = None,
) -> Float[Array, "rows columns"]:
    """Return the rows with holes filled by conditional means averaged over the Gaussians, or with `noise` by draws."""
    means, covariances = parameters["means"], parameters["covariances"]
    if data.complete:
        return data.values.copy()
    if not gaussians.joint:
        drawn = owners @ means
        if noise is not None:
            variances = np.broadcast_to(gaussians.blocks(covariances)[..., 0, 0], means.shape)
            drawn = drawn + noise * (owners @ np.sqrt(variances))
        return np.where(data.missing, drawn, data.values)
    out = data.values.copy()
    for sight in look(data, means, covariances, gaussians):
        rows = data.patterns.order[sight.chosen]
        found, _ = sight.fill(None if noise is None else np.ascontiguousarray(noise[rows].T))
        expected = np.einsum("nk,kdn->nd", owners[rows], found + means[:, :, None])
        out[rows] = np.where(data.missing[rows], expected, data.values[rows])
    return out


# -- complete rows -----------------------------------------------------------------------------------------


def complete_distances(
    values: Float[Array, "columns rows"],
    means: Float[Array, "components columns"],
    inverse: Float[Array, "#components columns columns"],
) -> Float[Array, "components rows"]:
    r"""Return :math:`\lVert L_k^{-1} (x - \mu_k) \rVert^2`, by one product for all Gaussians."""
    count, dim = means.shape
    inverse = np.broadcast_to(inverse, (count, dim, dim))
    white = inverse.reshape(count * dim, dim) @ values
    white -= np.einsum("kij,kj->ki", inverse, means).reshape(-1, 1)
    np.multiply(white, white, out=white)
    return white.reshape(count, dim, -1).sum(1)


def complete_moments(
    values: Float[Array, "columns rows"], weights: Float[Array, "components rows"]
) -> tuple[Float[Array, "components columns"], Float[Array, "components columns columns"]]:
    """Return the weighted sums of rows and of their outer products, by one product for all Gaussians."""
    dim, rows = values.shape
    upper = np.triu_indices(dim)
    products, done = np.empty((len(upper[0]), rows)), 0
    for i in range(dim):
        np.multiply(values[i], values[i:], out=products[done : done + dim - i])
        done += dim - i
    sums, second = weights @ products.T, np.empty((len(weights), dim, dim))
    second[:, upper[0], upper[1]] = second[:, upper[1], upper[0]] = sums
    return weights @ values.T, second


# -- independent columns -----------------------------------------------------------------------------------


def independent_distances(
    values: Float[Array, "columns rows"],
    present: Bool[Array, "columns rows"],
    means: Float[Array, "components columns"],
    inverse: Float[Array, "components columns"],
) -> tuple[Float[Array, "components rows"], Float[Array, "components rows"]]:
    """Return squared distances and log determinants of what rows have, by products where these lose no digits."""
    there, scaled = present.astype(float), means * inverse
    log_dets = -2 * np.log(inverse) @ there
    if np.abs(scaled).max(initial=0) < 1e4:
        values = np.where(present, values, 0.0)
        squares = inverse**2 @ values**2 - (2 * scaled * inverse) @ values + scaled**2 @ there
        return np.maximum(squares, 0.0), log_dets
    white = (values - means[:, :, None]) * inverse[:, :, None]
    return (white**2 * there).sum(1), log_dets


# -- Student's t -------------------------------------------------------------------------------------------


def log_student(
    squares: Float[Array, "components rows"],
    log_dets: Float[Array, "components rows"],
    seen: Float[Array, " rows"],
    freedom: Float[Array, "components 1"],
) -> Float[Array, "components rows"]:
    """Return the log densities of t distributions, of the columns that rows have."""
    from scipy.special import gammaln

    total = freedom + seen
    constant = gammaln(0.5 * total) - gammaln(0.5 * freedom) - 0.5 * seen * np.log(math.pi * freedom)
    return constant - 0.5 * log_dets - 0.5 * total * np.log1p(squares / freedom)


def student_scale(
    squares: Float[Array, "components rows"],
    seen: Float[Array, " rows"],
    freedom: Float[Array, "components 1"],
) -> tuple[Float[Array, "components rows"], Float[Array, "components rows"]]:
    r"""Return the expected precision u of each row, and :math:`E[\log u] - E[u]`."""
    from scipy.special import digamma

    scale = (freedom + seen) / (freedom + squares)
    return scale, digamma(0.5 * (freedom + seen)) - np.log(0.5 * (freedom + squares)) - scale


def tail_slope(half: Any, mass: Any, tail: Any) -> Any:
    r"""Return the slope in :math:`h = \nu / 2`, :math:`N\, (\log h - \psi(h) + 1) + \sum E[\log u] - E[u]`."""
    from scipy.special import digamma

    return mass * (np.log(half) - digamma(half) + 1) + tail


def learn_freedom(
    mass: Float[Array, " components"], tail: Float[Array, " components"]
) -> Float[Array, " components"]:
    """Return the freedom of each component at which `tail_slope` is 0."""
    from scipy.optimize import brentq

    def solve(average: float) -> float:
        def slope(log_half: float) -> float:
            return float(tail_slope(np.exp(log_half), 1.0, average))

        low, high = math.log(LEAST_FREEDOM / 2), math.log(MOST_FREEDOM / 2)
        if slope(high) >= 0:
            return MOST_FREEDOM
        return 2 * math.exp(brentq(slope, low, high)) if slope(low) > 0 else LEAST_FREEDOM

    return np.array([solve(value) for value in tail / np.maximum(mass, 1e-300)])
