"""Rows as a family of Gaussians sees them: distances, expected moments, Student's t."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
    gaussians, means, covariances
        The Gaussians.
    patterns, chosen
        All rows, and which of them these are.
    squares, log_dets
        Squared Mahalanobis distance and log determinant of the covariance, of the columns that each row has.
    seen
        How many columns that is.
    """

    gaussians: Gaussians
    means: Float[Array, "components columns"]
    covariances: Array
    patterns: Patterns
    chosen: slice
    squares: Float[Array, "components rows"]
    log_dets: Float[Array, "components rows"]
    seen: Float[Array, " rows"]

    @property
    def present(self) -> Bool[Array, "columns rows"]:
        """Where there are values."""
        return self.patterns.observed[self.patterns.which[self.chosen]].T

    @property
    def weights(self) -> Float[Array, " rows"] | None:
        """How many times each row counts."""
        return None if self.patterns.weights is None else self.patterns.weights[self.chosen]

    @property
    def labels(self) -> Int[Array, " rows"] | None:
        """Whose each row is known to be, or -1."""
        return None if self.patterns.labels is None else self.patterns.labels[self.chosen]

    def log_densities(self) -> Float[Array, "components rows"]:
        """Return the log density of the rows under each Gaussian."""
        return -0.5 * (self.squares + self.log_dets + math.log(2 * math.pi) * self.seen)

    def moments(
        self,
        owners: Float[Array, "components rows"],
        scaled: Float[Array, "components rows"] | None = None,
        generator: np.random.Generator | None = None,
    ) -> tuple[Float[Array, "components columns"], Array]:
        """Return the expected sums of deviations from the centre and of their products, as `Gaussians` take them.

        Parameters
        ----------
        owners
            How much of each row each Gaussian owns, the row's weight included.
        scaled
            The weights of the sums, where they are others (Student's t).
        generator
            Where given, what is missing is drawn rather than expected.
        """
        family, columns = self.gaussians, self.patterns.columns[:, self.chosen]
        centre, away = family.centre, self.means - family.centre
        scaled, complete = owners if scaled is None else scaled, self.patterns.observed.all()
        noise = None if generator is None or complete else generator.standard_normal(columns.shape)
        if not family.joint:
            variances = np.broadcast_to(family.blocks(self.covariances)[..., 0, 0], away.shape)
            values = columns - centre[:, None]
            return independent_moments(values, self.present, owners, scaled, away, variances, noise)
        if complete:
            return complete_moments(columns - centre[:, None], scaled)
        full = family.covariance_matrices(self.covariances, len(away))
        first, second = gaussian_holes.moments(self.patterns, self.means, full, owners, scaled, noise)
        mass = scaled.sum(1)
        cross = away[:, :, None] * first[:, None, :]
        second += cross + cross.swapaxes(1, 2) + mass[:, None, None] * away[:, :, None] * away[:, None, :]
        return first + mass[:, None] * away, second


def look(
    data: Rows, means: Float[Array, "components columns"], covariances: Array, gaussians: Gaussians
) -> Iterator[Sight]:
    """Yield the rows, part by part, as Gaussians see them."""
    patterns, count = data.patterns, len(data)
    common = (gaussians, means, covariances, patterns)
    if gaussians.joint and not data.complete:
        squares, log_dets = gaussian_holes.distances(
            patterns, means, gaussians.covariance_matrices(covariances, len(means))
        )
        seen = patterns.observed.sum(1).astype(float)
        yield Sight(*common, slice(0, count), squares, log_dets[:, patterns.which], seen[patterns.which])
        return
    blocks, away = gaussians.blocks(covariances), means - gaussians.centre
    if gaussians.joint:
        roots = np.linalg.inv(np.linalg.cholesky(blocks))[:, 0]
        log_dets = np.broadcast_to(np.linalg.slogdet(blocks)[1], (len(means), 1))
    else:
        roots = np.broadcast_to(blocks[..., 0, 0] ** -0.5, means.shape)
    for begin in range(0, count, CHUNK):
        chosen = slice(begin, min(begin + CHUNK, count))
        values = patterns.columns[:, chosen] - gaussians.centre[:, None]
        if gaussians.joint:
            squares, seen = (
                complete_distances(values, away, roots),
                np.full(values.shape[1], float(len(values))),
            )
            yield Sight(*common, chosen, squares, np.broadcast_to(log_dets, squares.shape), seen)
        else:
            present = patterns.observed[patterns.which[chosen]].T
            distances = independent_distances(values, present, away, roots)
            yield Sight(*common, chosen, *distances, present.sum(0).astype(float))


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
    order, out = data.patterns.order, np.empty_like(data.values)
    full = gaussians.covariance_matrices(covariances, len(means))
    given = np.ascontiguousarray(owners[order].T)
    scattered = None if noise is None else np.ascontiguousarray(noise[order].T)
    out[order] = gaussian_holes.fill(data.patterns, means, full, given, scattered)
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
    """Return squared distances and log determinants of what rows have."""
    white = (values - means[:, :, None]) * inverse[:, :, None]
    np.multiply(white, white, out=white)
    white *= present
    return white.sum(1), -2 * np.log(inverse) @ present


def independent_moments(
    values: Float[Array, "columns rows"],
    present: Bool[Array, "columns rows"],
    owners: Float[Array, "components rows"],
    scaled: Float[Array, "components rows"],
    means: Float[Array, "components columns"],
    variances: Float[Array, "components columns"],
    noise: Float[Array, "columns rows"] | None,
) -> tuple[Float[Array, "components columns"], Float[Array, "components columns"]]:
    """Return the weighted sums of values and of their squares, holes filled in: by draws where there is noise."""
    if noise is not None:
        own = owners.argmax(0)
        values = np.where(present, values, means[own].T + np.sqrt(variances[own]).T * noise)
        return scaled @ values.T, scaled @ (values**2).T
    values, absent = np.where(present, values, 0.0), (~present).T.astype(float)
    lost = scaled @ absent
    first, second = scaled @ values.T + lost * means, scaled @ (values**2).T + lost * means**2
    return first, second + variances * (owners @ absent)


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

    return np.array([solve(value) for value in tail / np.maximum(mass, 1e-300)])
