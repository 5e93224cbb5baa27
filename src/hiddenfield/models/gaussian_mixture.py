r"""Mixtures of Gaussians, or of Student's t distributions, of rows with holes.

.. math:: p(x) = \sum_k \pi_k\, N(x_o \mid \mu_{k,o}, \Sigma_{k,oo})

for a row that has the columns o. A row that misses all of them has likelihood 1, and its posterior is the prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import group_rows
from hiddenfield.models import gaussian_holes, gaussian_rows
from hiddenfield.models.gaussian_rows import Sight, look
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.shapes import Array, Float, Int


@dataclass(frozen=True, eq=False)
class MixtureOfGaussians:
    r"""K Gaussians with weights: the model that `fit_em` learns.

    Parameters are ``weights`` (K, and one more with noise), ``means`` (K, D), ``covariances`` (by kind), with tails
    ``freedom`` (K), and with noise ``box`` (2, D), the lowest and highest
    corner of where noise is.

    Parameters
    ----------
    num_components
        K.
    gaussians
        The family: what covariances share, the prior of means and covariances.
    concentration
        Of the Dirichlet prior of the weights; 1 for none.
    freedom
        Degrees of freedom of Student's t distributions; None for Gaussians, NaN where they are learned.
    box
        The lowest and highest corner of a box: there is noise, with the density of a uniform distribution in the box,
        also outside of it. None for no noise.

    References
    ----------
    Ghahramani and Jordan (1994), Supervised learning from incomplete data via an EM approach; Peel and McLachlan
    (2000), Robust mixture modelling using the t distribution; Banfield and Raftery (1993) on noise; Bishop (2006),
    chapter 10, on variational Bayes.
    """

    num_components: int
    gaussians: Gaussians
    concentration: float = 1.0
    freedom: float | None = None
    box: Float[Array, "2 columns"] | None = None

    # -- the E step ----------------------------------------------------------------------------------------

    def _look(
        self, data: Rows, parameters: Arrays
    ) -> Iterator[tuple[Sight, Float[Array, "components rows"]]]:
        """Yield the rows part by part, in the order of their patterns, with the log joint density of each component."""
        for sight in look(data, parameters["means"], parameters["covariances"], self.gaussians):
            joint = sight.log_densities()
            if self.freedom is not None:
                tails = parameters["freedom"][:, None]
                joint = gaussian_rows.log_student(sight.squares, sight.log_dets, sight.seen, tails)
            if self.box is not None:
                sides = np.log(parameters["box"][1] - parameters["box"][0])
                joint = np.concatenate([joint, -(sides @ sight.present)[None]])
            with np.errstate(divide="ignore"):
                joint += np.log(parameters["weights"])[:, None]
            if (labels := sight.labels) is not None:
                others = (labels >= 0) & (np.arange(len(joint))[:, None] != labels)
                joint = np.where(others, -np.inf, joint)
            yield sight, joint

    def expected_statistics(self, data: Rows, parameters: Arrays, fill: Fill) -> Arrays:
        r"""Return the mass of each component, and the sums of deviations from the centre and of their products.

        With "mode" and "sample" the component of each row is filled in by its most likely one or a draw. What is
        missing in a row given its component is filled in by its expectation, with its covariance, or with "sample" by
        a draw; "mode" would let covariances shrink to nothing.
        """
        total: Arrays = {}
        for sight, joint in self._look(data, parameters):
            values, owners = gaussian_rows.fill_in(joint, fill)
            count = float(len(values))
            if (weights := sight.weights) is not None:
                values, owners, count = values * weights, owners * weights, weights.sum()
            found = {"objective": values.sum(), "count": count, "mass": owners.sum(1)}
            found |= self._moments(sight, owners[: self.num_components], parameters, fill)
            total = {name: np.asarray(total.get(name, 0.0) + value) for name, value in found.items()}
        return total

    def _moments(
        self, sight: Sight, owners: Float[Array, "components rows"], parameters: Arrays, fill: Fill
    ) -> Arrays:
        """Return what rows say of means, covariances and tails, given whose they are."""
        found, scaled = {}, None
        if self.freedom is not None:
            tails = parameters["freedom"][:, None]
            scale, tail = gaussian_rows.student_scale(sight.squares, sight.seen, tails)
            scaled = owners * scale
            found = {"scaled": scaled.sum(1), "tail": (owners * tail).sum(1)}
        first, second = sight.moments(owners, scaled, fill.generator if fill.kind == "sample" else None)
        return found | {"first": first, "second": second}

    # -- the M step ----------------------------------------------------------------------------------------

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return weights, means and covariances: shares and moments of what was filled in, drawn to the prior."""
        mass = statistics["mass"]
        scaled = statistics.get("scaled")
        own = mass[: self.num_components]
        means, covariances = self.gaussians.maximize(
            own, statistics["first"], statistics["second"], scaled=scaled
        )
        share = np.maximum(mass + self.concentration - 1, 0)
        found = {"weights": share / share.sum(), "means": means, "covariances": covariances}
        if self.freedom is not None:
            tails = parameters["freedom"]
            found["freedom"] = (
                gaussian_rows.learn_freedom(own, statistics["tail"]) if math.isnan(self.freedom) else tails
            )
        if self.box is not None:
            found["box"] = parameters["box"]
        return found

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the weights, means and covariances under the prior, up to a constant."""
        value = self.gaussians.log_prior(parameters["means"], parameters["covariances"])
        if self.concentration != 1:
            value += float((self.concentration - 1) * np.log(parameters["weights"]).sum())
        return value

    def start(self, data: Rows, how: str, generator: np.random.Generator) -> Arrays:
        """Return the moments of groups: those of k-means ("k_means", "auto") or around random rows ("random")."""
        centre, spread = self.gaussians.centre, self.gaussians.spread
        scaled = np.where(data.missing, 0.0, (data.values - centre) / spread)
        weights = np.ones(len(data)) if data.weights is None else data.weights
        groups = group_rows(scaled, weights, self.num_components, how, generator, data.labels)
        owners = np.eye(self.num_components)[groups] * weights[:, None]
        mass = owners.sum(0)
        first = owners.T @ scaled
        within = scaled - (first / np.maximum(mass, 1e-300)[:, None])[groups]
        pooled = (within * weights[:, None]).T @ within / weights.sum()
        # Cells that are filled by the mean vary too little: no start is narrower than a hundredth of the data.
        pooled = pooled + np.diag(np.maximum(0.01 - np.diag(pooled), 0) + 1e-6)
        share = (mass + 1) / (mass + 1).sum()
        means = first / np.maximum(mass, 1e-300)[:, None] * spread + centre
        found = {"means": means, "covariances": self._from_matrix(pooled * np.outer(spread, spread))}
        if self.freedom is not None:
            tails = 10.0 if math.isnan(self.freedom) else self.freedom
            found["freedom"] = np.full(self.num_components, tails)
        if self.box is not None:
            share, found["box"] = np.append(0.95 * share, 0.05), self.box
        return {"weights": share, **found}

    def _from_matrix(self, matrix: Float[Array, "columns columns"]) -> Array:
        """Return covariances of this kind, all from one matrix."""
        count, variances = self.num_components, np.diag(matrix)
        return {
            "full": lambda: np.repeat(matrix[None], count, axis=0),
            "tied": lambda: matrix,
            "diagonal": lambda: np.repeat(variances[None], count, axis=0),
            "spherical": lambda: np.full(count, variances.mean()),
        }[self.gaussians.kind]()

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios of weights to the first, means, and Cholesky factors; then logarithms of the freedom."""
        logs = np.log(np.maximum(parameters["weights"], 1e-300))
        parts = [logs[1:] - logs[0]]
        parts.append(self.gaussians.as_vector(parameters["means"], parameters["covariances"]))
        if self.freedom is not None and math.isnan(self.freedom):
            parts.append(np.log(parameters["freedom"]))
        return np.concatenate(parts)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        count = len(parameters["weights"]) - 1
        odds = np.append(0.0, vector[:count])
        weights = np.exp(odds - odds.max())
        rest = vector[count:]
        found = dict(parameters)
        found["weights"] = weights / weights.sum()
        if self.freedom is not None and math.isnan(self.freedom):
            found["freedom"], rest = np.exp(rest[-self.num_components :]), rest[: -self.num_components]
        found["means"], found["covariances"] = self.gaussians.from_vector(
            rest, parameters["means"], parameters["covariances"]
        )
        return found

    # -- Bayes ---------------------------------------------------------------------------------------------

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return a Dirichlet distribution of the weights, normal-inverse-Wishart ones of means and covariances."""
        if self.freedom is not None:
            raise InputError("Student's t distributions have no conjugate prior; use fill='expectation'")
        mass = statistics["mass"]
        own = (mass[: self.num_components], statistics["first"], statistics["second"])
        return {"concentration": self.concentration + mass, **self.gaussians.posterior(*own)}

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters at which the E step computes the expected log joint; the weights do not sum to 1."""
        from scipy.special import digamma

        concentration = posterior["concentration"]
        log_weights = digamma(concentration) - digamma(concentration.sum())
        means, covariances, factors = self.gaussians.plug_in(posterior)
        log_weights[: self.num_components] += factors
        return self._with_box({"weights": np.exp(log_weights), "means": means, "covariances": covariances})

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        from scipy.special import digamma, gammaln

        found = posterior["concentration"]
        prior = np.full_like(found, self.concentration)
        value = gammaln(found.sum()) - gammaln(found).sum() - gammaln(prior.sum()) + gammaln(prior).sum()
        value += ((found - prior) * (digamma(found) - digamma(found.sum()))).sum()
        return float(value) + self.gaussians.divergence(posterior)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        weights = generator.dirichlet(posterior["concentration"])
        means, covariances = self.gaussians.draw(posterior, generator)
        return self._with_box({"weights": weights, "means": means, "covariances": covariances})

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters."""
        means, covariances = self.gaussians.mean(posterior)
        share = posterior["concentration"] / posterior["concentration"].sum()
        return self._with_box({"weights": share, "means": means, "covariances": covariances})

    def _with_box(self, parameters: Arrays) -> Arrays:
        return parameters if self.box is None else {**parameters, "box": self.box}

    # -- rows ----------------------------------------------------------------------------------------------

    def log_joint(self, data: Rows, parameters: Arrays) -> Float[Array, "components rows"]:
        """Return the log joint density of each component and row; the last component is the noise if there is any."""
        return self._in_order(data, [joint for _, joint in self._look(data, parameters)])

    def _in_order(self, data: Rows, parts: list[Array]) -> Array:
        """Bring columns that follow the patterns into the order of the rows."""
        found = np.concatenate(parts, axis=1)
        if data.complete:
            return found
        out = np.empty_like(found)
        out[:, data.patterns.order] = found
        return out

    def log_likelihood(self, data: Rows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row."""
        return gaussian_rows.log_sum(self.log_joint(data, parameters))

    def infer(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the posterior probability of each component."""
        joint = self.log_joint(data, parameters)
        return np.exp(joint - gaussian_rows.log_sum(joint)).T

    def members(self, data: Rows, parameters: Arrays, component: int) -> Int[Array, " members"]:
        """Return the rows that are more likely of a component than not."""
        return np.flatnonzero(self.infer(data, parameters)[:, component] > 0.5)

    def distances(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the squared Mahalanobis distance of each row from each component, in the columns that it has."""
        return self._in_order(data, [sight.squares for sight, _ in self._look(data, parameters)]).T

    def outlyingness(self, data: Rows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the probability that a row is noise, or that another of its component is nearer than it is."""
        if self.box is not None:
            return self.infer(data, parameters)[:, -1]
        from scipy.stats import chi2, f

        squares, seen = self.distances(data, parameters), np.maximum((~data.missing).sum(1, keepdims=True), 1)
        if self.freedom is None:
            return chi2.cdf(squares, seen).min(1)
        return f.cdf(squares / seen, seen, parameters["freedom"]).min(1)

    def _own(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the posterior of the components other than noise."""
        own = np.maximum(self.infer(data, parameters)[:, : self.num_components], 1e-300)
        return own / own.sum(1, keepdims=True)

    def impute(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the rows with their holes filled by conditional means, which have the least squared error."""
        return self._filled(data, parameters, self._own(data, parameters), None)

    def sample_missing(
        self, data: Rows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the rows with their holes filled by a draw of what is missing given the rest."""
        chosen = gaussian_rows.draw_components(self._own(data, parameters).T, generator)
        noise = generator.standard_normal(data.values.shape)
        if self.freedom is not None:
            tails = parameters["freedom"][chosen]
            away = self.distances(data, parameters)[np.arange(len(data)), chosen]
            nu = tails + (~data.missing).sum(1)
            noise *= np.sqrt((tails + away) / generator.chisquare(nu))[:, None]
        return self._filled(data, parameters, np.eye(self.num_components)[chosen], noise)

    def _filled(
        self,
        data: Rows,
        parameters: Arrays,
        owners: Float[Array, "rows components"],
        noise: Float[Array, "rows columns"] | None,
    ) -> Float[Array, "rows columns"]:
        """Fill holes by conditional means averaged over components, or with `noise` by draws."""
        means, covariances = parameters["means"], parameters["covariances"]
        if data.complete:
            return data.values.copy()
        if not self.gaussians.joint:
            filled = owners @ means
            if noise is not None:
                variances = np.broadcast_to(self.gaussians.blocks(covariances)[..., 0, 0], means.shape)
                filled = filled + noise * (owners @ np.sqrt(variances))
            return np.where(data.missing, filled, data.values)
        order = data.patterns.order
        full = self.gaussians.covariance_matrices(covariances, len(means))
        given = np.ascontiguousarray(owners[order].T)
        drawn = None if noise is None else np.ascontiguousarray(noise[order].T)
        return self._in_order(data, [gaussian_holes.fill(data.patterns, means, full, given, drawn).T]).T

    def sample(self, count: int, parameters: Arrays, generator: np.random.Generator) -> Rows:
        """Draw complete rows, and the component of each."""
        weights, means = parameters["weights"], parameters["means"]
        labels = generator.choice(len(weights), size=count, p=weights)
        own = np.minimum(labels, self.num_components - 1)
        roots = np.linalg.cholesky(self.gaussians.covariance_matrices(parameters["covariances"], len(means)))
        noise = generator.standard_normal((count, means.shape[1]))
        if self.freedom is not None:
            nu = parameters["freedom"][own]
            noise /= np.sqrt(generator.chisquare(nu) / nu)[:, None]
        values = means[own] + np.einsum("nij,nj->ni", roots[own], noise)
        if self.box is not None:
            low, high = parameters["box"]
            noise = low + (high - low) * generator.random(values.shape)
            values = np.where((labels == self.num_components)[:, None], noise, values)
        return Rows(values, None, labels)
