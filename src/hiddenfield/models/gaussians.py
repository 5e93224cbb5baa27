r"""A family of Gaussians, as mixtures and hidden Markov models have one for each of their states.

Covariances are of one of four kinds (`COVARIANCES`). All four are one formula on blocks: a mean of D numbers is cut
into b blocks of p numbers, each with a p x p covariance, some of which are shared (over the Gaussians, or over the
blocks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError
from hiddenfield.learning.em import Arrays
from hiddenfield.shapes import Array, Float

COVARIANCES: Mapping[str, str] = {
    "full": "each its own",
    "tied": "one for all",
    "diagonal": "each its own variances, columns independent",
    "spherical": "each one variance for all columns",
}
"""What covariances share."""

SMALLEST = 1e-12
"""Variance, in units of the column's in all data, below which a Gaussian has collapsed onto few rows."""


@dataclass(frozen=True, eq=False)
class NormalPrior:
    r"""A normal and inverse Wishart prior, the same for all Gaussians of a family.

    :math:`\Sigma \sim IW(\nu_0, \Psi_0)` and :math:`\mu \sim N(m_0, \Sigma / \kappa_0)`.

    Parameters
    ----------
    mean, strength
        :math:`m_0` and :math:`\kappa_0`, in rows.
    freedom, scale
        :math:`\nu_0` and the diagonal of :math:`\Psi_0`.
    """

    mean: Float[Array, " columns"]
    strength: float
    freedom: float
    scale: Float[Array, " columns"]

    @classmethod
    def weak(
        cls, kind: str, centre: Float[Array, " columns"], spread: Float[Array, " columns"], count: int
    ) -> NormalPrior:
        """Return one that counts as some rows with the scatter of all data, for so many Gaussians of a kind.

        References
        ----------
        Fraley and Raftery (2007), Bayesian regularization for normal mixture estimation and model-based clustering.
        """
        dim = len(centre)
        size = dim if kind in ("full", "tied") else 1
        return cls(centre, 0.01, size + 2.0, spread**2 / count ** (2 / dim))


@dataclass(frozen=True, eq=False)
class Gaussians:
    r"""K Gaussians of one family: what EM, variational Bayes and Gibbs sampling do with them.

    Parameters are ``means`` (K, D) and ``covariances``: (K, D, D), (D, D), (K, D) or (K,), by kind. Sufficient
    statistics are ``seen``, the mass :math:`\sum_n r_{nk}` of each (K, 1), and the sums of :math:`x - c` (K, D) and of
    :math:`(x - c)(x - c)^\top` (K, D, D); for diagonal and spherical ones the mass that has each column (K, D), and the
    sums of squares (K, D). :math:`c` is the centre of the data, since sums of squares about a point far away lose
    digits. They are a `Part` of mixtures.

    Parameters
    ----------
    kind
        One of `COVARIANCES`.
    centre, spread
        The mean of each column of the data, and its standard deviation, the unit in which variances are small.
    prior
        None for maximum likelihood.
    """

    kind: str
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]
    prior: NormalPrior | None = None

    # -- blocks --------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The p of a block."""
        return len(self.centre) if self.joint else 1

    @property
    def joint(self) -> bool:
        """Whether columns have covariances."""
        return self.kind in ("full", "tied")

    def _cut(self, vectors: Float[Array, "... columns"]) -> Float[Array, "... blocks size"]:
        return vectors.reshape(*vectors.shape[:-1], -1, self.size)

    def _shared(self, each: Array) -> Array:
        """Sum what each Gaussian and block has (K, b, ...) over those that share a covariance."""
        axis = {"tied": 0, "spherical": 1}.get(self.kind)
        return each if axis is None else each.sum(axis, keepdims=True)

    def blocks(self, covariances: Array) -> Float[Array, "components blocks size size"]:
        """Return covariances as blocks; an axis over which they are shared has length 1."""
        shape = {"full": (-1, 1), "tied": (1, 1), "diagonal": (-1, len(self.centre)), "spherical": (-1, 1)}
        return covariances.reshape(*shape[self.kind], self.size, self.size)

    def _joined(self, blocks: Array) -> Array:
        """Return blocks as covariances of this kind."""
        shape = {"full": (-1, *blocks.shape[2:]), "tied": blocks.shape[2:], "spherical": (-1,)}
        return blocks.reshape(shape.get(self.kind, (-1, len(self.centre))))

    def prior_blocks(self) -> tuple[Array, float, float, Array]:
        """Return mean, strength, freedom and scale in blocks; without a prior those that change nothing."""
        if self.prior is None:
            return self._cut(self.centre), 0.0, -(self.size + 1.0), np.zeros((1, 1, self.size, self.size))
        scale = self.prior.scale.mean(keepdims=True) if self.kind == "spherical" else self.prior.scale
        blocks = self._cut(scale)[None, :, :, None] * np.eye(self.size)
        return self._cut(self.prior.mean), self.prior.strength, self.prior.freedom, blocks

    # -- learning ------------------------------------------------------------------------------------------

    def start(self, rows: Rows, owners: Float[Array, "rows components"]) -> Arrays:
        """Return the moments of groups, given how much of each row belongs to each: own means, pooled covariances."""
        weights, mass = owners.sum(1), np.maximum(owners.sum(0), 1e-300)
        scaled = np.where(rows.missing, 0.0, (rows.values - self.centre) / self.spread)
        means = owners.T @ scaled / mass[:, None]
        within = scaled - means[owners.argmax(1)]
        pooled = (within * weights[:, None]).T @ within / weights.sum()
        # Cells that are filled by the mean vary too little: no start is narrower than a hundredth of the data.
        pooled = pooled + np.diag(np.maximum(0.01 - np.diag(pooled), 0) + 1e-6)
        matrix = pooled * np.outer(self.spread, self.spread)
        shared = (
            {"tied": matrix} if self.kind == "tied" else {"full": np.repeat(matrix[None], len(mass), axis=0)}
        )
        shared["diagonal"] = np.repeat(np.diag(matrix)[None], len(mass), axis=0)
        shared["spherical"] = shared["diagonal"].mean(1)
        return {"means": means * self.spread + self.centre, "covariances": shared[self.kind]}

    def posterior(self, statistics: Arrays) -> Arrays:
        r"""Return the normal-inverse-Wishart distributions given filled-in statistics.

        Parameters
        ----------
        statistics
            ``seen``, ``first``, ``second``, and ``scaled``, the mass that the sums were weighted with, where it is
            another (Student's t).

        Returns
        -------
        dict
            ``mean`` (K, D), ``strength`` (K, blocks), ``freedom`` and ``scale`` in blocks.
        """
        first, second, seen = statistics["first"], statistics["second"], statistics["seen"]
        weight = statistics.get("scaled", seen)
        m0, k0, n0, s0 = self.prior_blocks()
        average = first / np.maximum(weight, 1e-300) + self.centre
        deviation = self._cut(average - self.centre)
        squares = second[:, None] if self.joint else second[..., None, None]
        scatter = squares - weight[..., None, None] * deviation[..., :, None] * deviation[..., None, :]
        shrunk = (weight * k0 / np.maximum(weight + k0, 1e-300))[..., None, None]
        away = self._cut(average) - m0
        scatter = scatter + shrunk * away[..., :, None] * away[..., None, :]
        mean = (weight * average + k0 * m0.reshape(-1)) / np.maximum(weight + k0, 1e-300)
        return {
            "mean": np.where(weight + k0 > 0, mean, self.centre),
            "strength": weight + k0,
            "freedom": n0 + self._shared(seen),
            "scale": s0 + self._shared(scatter),
        }

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the means and covariances that are most likely under the statistics and the prior.

        Those of an independent column that no row of a component has stay as they are.
        """
        found = self.posterior(statistics)
        lost = ~(found["strength"] > 1e-10)
        for k in np.flatnonzero(lost.all(1)):
            raise CollapseError(f"component {k} is empty", component=int(k))
        means = self._shared(np.ones((len(found["mean"]), len(self.centre) // self.size)))
        extra = self.size + 1.0 + (means if self.prior is not None and self.prior.strength > 0 else 0.0)
        rows = found["freedom"] + extra
        blocks = np.where(
            (rows > 1e-10)[..., None, None],
            found["scale"] / np.maximum(rows, 1e-10)[..., None, None],
            self.blocks(parameters["covariances"]) if lost.any() else 0.0,
        )
        self._refuse_collapsed(blocks)
        centres = np.where(lost, parameters["means"], found["mean"]) if lost.any() else found["mean"]
        return {"means": centres, "covariances": self._joined(blocks)}

    def _refuse_collapsed(self, blocks: Array) -> None:
        """Raise where the variance of a column given those before it vanishes."""
        unit = self._cut(self.spread)
        if self.kind == "spherical":
            unit = unit.max(keepdims=True)[:1]
        scaled = blocks / (unit[..., :, None] * unit[..., None, :])
        for k, each in enumerate(scaled):
            try:
                pivots = np.diagonal(np.linalg.cholesky(each), axis1=-2, axis2=-1) ** 2
            except np.linalg.LinAlgError:
                pivots = np.zeros(1)
            if not pivots.min() > SMALLEST:
                who = "the covariance that all share" if self.kind == "tied" else f"component {k}"
                raise CollapseError(
                    f"{who} has collapsed: a variance has become 0",
                    component=None if self.kind == "tied" else k,
                )

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters under the prior, up to a constant."""
        if self.prior is None:
            return 0.0
        m0, k0, n0, s0 = self.prior_blocks()
        blocks = self.blocks(parameters["covariances"])
        roots = np.linalg.inv(
            np.linalg.cholesky(blocks)
        )  # so that what is close to singular has no negative traces
        inverse = roots.swapaxes(-1, -2) @ roots
        log_det = -2 * np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
        traces = (np.broadcast_to(s0, blocks.shape) * inverse).sum((-2, -1))
        total = float((-0.5 * (n0 + self.size + 1) * log_det - 0.5 * traces).sum())
        if k0 > 0:
            away = self._cut(parameters["means"]) - m0
            each = k0 * np.einsum("...i,...ij,...j->...", away, inverse, away) + log_det
            total -= 0.5 * float(each.sum())
        return total

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        r"""Return the slope in the free coordinates, means and Cholesky factors L with logarithms on the diagonal.

        With n rows of a Gaussian, and S the sum of squares about its mean, the slope in L is
        :math:`(\Sigma^{-1} S - n I)\, \Sigma^{-1} L`.
        """
        m0, k0, n0, s0 = self.prior_blocks()
        blocks, seen = self.blocks(parameters["covariances"]), statistics["seen"]
        inverse, roots, low = np.linalg.inv(blocks), np.linalg.cholesky(blocks), np.tril_indices(self.size)
        weight = statistics.get("scaled", seen)[..., None]
        first, second = self._cut(statistics["first"]), statistics["second"]
        away, pull = self._cut(parameters["means"] - self.centre), self._cut(parameters["means"]) - m0
        cross = first[..., :, None] * away[..., None, :]
        scatter = (
            (second[:, None] if self.joint else second[..., None, None]) - cross - cross.swapaxes(-1, -2)
        )
        for mass, each in ((weight[..., None], away), (k0, pull)):
            scatter = scatter + mass * each[..., :, None] * each[..., None, :]
        rows = self._shared(seen + float(k0 > 0)) + n0 + self.size + 1
        centred = inverse @ (self._shared(scatter) + s0) - rows[..., None, None] * np.eye(self.size)
        slope = (centred @ inverse @ roots)[..., low[0], low[1]]
        slope[..., low[0] == low[1]] *= np.diagonal(roots, axis1=-2, axis2=-1)
        means = inverse @ (first - weight * away - k0 * pull)[..., None]
        return np.concatenate([means.reshape(-1), slope.reshape(-1)])

    # -- Bayes ---------------------------------------------------------------------------------------------

    def plug_in(self, posterior: Arrays) -> Arrays:
        r"""Return means, covariances and ``log_factors`` of :math:`\exp E_q \log N(x \mid \mu, \Sigma)`.

        It is the Gaussian with covariance :math:`\Psi / \nu`, times
        :math:`\exp \tfrac12 (E \log |\Sigma^{-1}| - \log |\nu \Psi^{-1}| - p / \kappa)` for every block that a row has.
        """
        freedom, scale, mean = posterior["freedom"], posterior["scale"], posterior["mean"]
        blocks = scale / freedom[..., None, None]
        factor = self._expected_log_det(freedom, scale) + np.linalg.slogdet(blocks)[1]
        factor = factor - self.size / posterior["strength"]
        each = np.broadcast_to(factor, (len(mean), len(self.centre) // self.size))
        return {"means": mean, "covariances": self._joined(blocks), "log_factors": 0.5 * each}

    def _expected_log_det(self, freedom: Array, scale: Array) -> Array:
        from scipy.special import digamma

        steps = digamma(0.5 * (freedom[..., None] - np.arange(self.size))).sum(-1)
        return steps + self.size * math.log(2) - np.linalg.slogdet(scale)[1]

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence of the distributions from the prior."""
        m0, k0, n0, s0 = self.prior_blocks()
        freedom, scale, strength = posterior["freedom"], posterior["scale"], posterior["strength"]
        s0 = np.broadcast_to(s0, scale.shape)
        inverse = np.linalg.inv(scale)
        away = self._cut(posterior["mean"]) - m0
        expected = freedom * np.einsum("...i,...ij,...j->...", away, inverse, away)
        ratio = k0 / strength
        normal = 0.5 * (self.size * (ratio - 1 - np.log(ratio)) + k0 * expected)
        wishart = self._log_normaliser(freedom, scale) - self._log_normaliser(np.full_like(freedom, n0), s0)
        wishart = wishart + 0.5 * (freedom - n0) * self._expected_log_det(freedom, scale)
        wishart = wishart - 0.5 * freedom * (self.size - np.einsum("...ij,...ji->...", s0, inverse))
        return float(normal.sum() + wishart.sum())

    def _log_normaliser(self, freedom: Array, scale: Array) -> Array:
        from scipy.special import multigammaln

        half = 0.5 * freedom
        return half * (np.linalg.slogdet(scale)[1] - self.size * math.log(2)) - np.vectorize(
            lambda value: multigammaln(value, self.size)
        )(half)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw means and covariances, by Bartlett's decomposition."""
        freedom, scale, p = posterior["freedom"], posterior["scale"], self.size
        below = np.tril(generator.standard_normal(scale.shape), -1)
        chi = np.sqrt(generator.chisquare(freedom[..., None] - np.arange(p)))
        factor = below + chi[..., None] * np.eye(p)
        root = np.linalg.cholesky(scale) @ np.linalg.inv(factor).swapaxes(-1, -2)
        mean = self._cut(posterior["mean"])
        noise = generator.standard_normal(mean.shape) / np.sqrt(posterior["strength"])[..., None]
        means = (mean + (root @ noise[..., None])[..., 0]).reshape(posterior["mean"].shape)
        return {"means": means, "covariances": self._joined(root @ root.swapaxes(-1, -2))}

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters (of a covariance without one, its mode)."""
        below = posterior["freedom"] - self.size - 1
        below = np.where(below > 0, below, posterior["freedom"] + self.size + 1)
        covariances = self._joined(posterior["scale"] / below[..., None, None])
        return {"means": posterior["mean"], "covariances": covariances}

    # -- free coordinates ----------------------------------------------------------------------------------

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return the means and the Cholesky factors, with logarithms on the diagonal."""
        roots = np.linalg.cholesky(self.blocks(parameters["covariances"]))
        low = np.tril_indices(self.size)
        entries = roots[..., low[0], low[1]]
        entries[..., low[0] == low[1]] = np.log(entries[..., low[0] == low[1]])
        return np.concatenate([parameters["means"].reshape(-1), entries.reshape(-1)])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return means and covariances of the shapes that the parameters have."""
        means, low = parameters["means"], np.tril_indices(self.size)
        shape = self.blocks(parameters["covariances"]).shape
        entries = vector[means.size :].reshape(*shape[:2], -1).copy()
        entries[..., low[0] == low[1]] = np.exp(entries[..., low[0] == low[1]])
        roots = np.zeros(shape)
        roots[..., low[0], low[1]] = entries
        covariances = self._joined(roots @ roots.swapaxes(-1, -2))
        return {"means": vector[: means.size].reshape(means.shape), "covariances": covariances}

    def covariance_matrices(
        self, covariances: Array, count: int
    ) -> Float[Array, "components columns columns"]:
        """Return each covariance as a matrix."""
        dim = len(self.centre)
        if self.joint:
            return np.broadcast_to(covariances, (count, dim, dim))
        variances = np.broadcast_to(covariances.reshape(count, -1), (count, dim))
        return variances[..., None] * np.eye(dim)
