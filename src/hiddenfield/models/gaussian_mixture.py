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
from hiddenfield.models import gaussian_rows
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.gaussian_rows import Sight, look
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.models.parts import Part
from hiddenfield.models.responsibilities import Mixture, draw_rows, fill_in
from hiddenfield.shapes import Array, Float


@dataclass(frozen=True, eq=False)
class MixtureOfGaussians(Mixture):
    r"""K Gaussians with weights: the model that `fit_em` learns.

    Parameters are ``weights`` (K, and one more with noise), ``means`` (K, D), ``covariances`` (by kind), and with tails
    ``freedom`` (K).

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

    @property
    def parts(self) -> tuple[Part, ...]:
        """Weights and Gaussians."""
        every = np.ones(self.num_components + (self.box is not None), bool)
        return Probabilities("weights", self.concentration, every, "mass"), self.gaussians

    # -- the E step ----------------------------------------------------------------------------------------

    def _look(
        self, data: Rows, parameters: Arrays
    ) -> Iterator[tuple[Sight, Float[Array, "components rows"]]]:
        """Yield the rows part by part, in the order of their patterns, with the log joint density of each component."""
        for sight in look(data, parameters["means"], parameters["covariances"], self.gaussians):
            joint = sight.log_densities(parameters)
            if self.freedom is not None:
                tails = parameters["freedom"][:, None]
                joint = gaussian_rows.log_student(sight.squares, sight.log_dets, sight.seen, tails)
            if self.box is not None:
                sides = np.log(self.box[1] - self.box[0])
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
            values, owners = fill_in(joint, fill, axis=0)
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
            found = {"tail": (owners * tail).sum(1)}
        return found | sight.moments(owners, scaled, fill.generator if fill.kind == "sample" else None)

    # -- the M step ----------------------------------------------------------------------------------------

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return weights, means and covariances: shares and moments of what was filled in, drawn to the prior."""
        found = super().maximize(statistics, parameters)
        if self._learns_freedom:
            own = statistics["mass"][: self.num_components]
            return found | {"freedom": gaussian_rows.learn_freedom(own, statistics["tail"])}
        return found if self.freedom is None else found | {"freedom": parameters["freedom"]}

    @property
    def _learns_freedom(self) -> bool:
        return self.freedom is not None and math.isnan(self.freedom)

    def start(self, data: Rows, how: str, generator: np.random.Generator) -> Arrays:
        """Return the moments of groups: those of k-means ("k_means", "auto") or around random rows ("random")."""
        centre, spread = self.gaussians.centre, self.gaussians.spread
        scaled = np.where(data.missing, 0.0, (data.values - centre) / spread)
        weights = np.ones(len(data)) if data.weights is None else data.weights
        groups = group_rows(scaled, weights, self.num_components, how, generator, data.labels)
        owners = np.eye(self.num_components)[groups] * weights[:, None]
        share = (owners.sum(0) + 1) / (owners.sum(0) + 1).sum()
        found = self.gaussians.start(data, owners)
        if self.freedom is not None:
            tails = 10.0 if self._learns_freedom else self.freedom
            found["freedom"] = np.full(self.num_components, tails)
        return {"weights": share if self.box is None else np.append(0.95 * share, 0.05), **found}

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of weights and Gaussians, and of the logarithms of the freedom where it is learned."""
        found = super().gradient(statistics, parameters)
        if not self._learns_freedom:
            return found
        half, own = parameters["freedom"] / 2, statistics["mass"][: self.num_components]
        return np.concatenate([found, half * gaussian_rows.tail_slope(half, own, statistics["tail"])])

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios of weights to the first, means, and Cholesky factors; then logarithms of the freedom."""
        tails = np.log(parameters["freedom"]) if self._learns_freedom else np.zeros(0)
        return np.concatenate([super().as_vector(parameters), tails])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        found = dict(parameters)
        if self._learns_freedom:
            vector, tails = np.split(vector, [-self.num_components])
            found["freedom"] = np.exp(tails)
        return found | super().from_vector(vector, parameters)

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return a Dirichlet distribution of the weights, normal-inverse-Wishart ones of means and covariances."""
        if self.freedom is not None:
            raise InputError(
                "Student's t distributions have no conjugate prior, which variational Bayes and Gibbs sampling need; "
                "use fill='expectation', or freedom=None for Gaussians"
            )
        return super().posterior(statistics)

    # -- rows ----------------------------------------------------------------------------------------------

    def log_joint(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the log joint density of each row and component; the last component is the noise if there is any."""
        return self._in_order(data, [joint for _, joint in self._look(data, parameters)])

    def _in_order(self, data: Rows, parts: list[Array]) -> Float[Array, "rows components"]:
        """Bring columns that follow the patterns into the order of the rows."""
        found = np.concatenate(parts, axis=1).T
        out = np.empty_like(found)
        out[data.patterns.order] = found
        return out

    def distances(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the squared Mahalanobis distance of each row from each component, in the columns that it has."""
        return self._in_order(data, [sight.squares for sight, _ in self._look(data, parameters)])

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
        return gaussian_rows.filled(data, parameters, self.gaussians, self._own(data, parameters))

    def sample_missing(
        self, data: Rows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the rows with their holes filled by a draw of what is missing given the rest."""
        chosen = draw_rows(self._own(data, parameters), generator)
        noise = generator.standard_normal(data.values.shape)
        if self.freedom is not None:
            tails = parameters["freedom"][chosen]
            away = self.distances(data, parameters)[np.arange(len(data)), chosen]
            nu = tails + (~data.missing).sum(1)
            noise *= np.sqrt((tails + away) / generator.chisquare(nu))[:, None]
        owners = np.eye(self.num_components)[chosen]
        return gaussian_rows.filled(data, parameters, self.gaussians, owners, noise)

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
            low, high = self.box
            noise = low + (high - low) * generator.random(values.shape)
            values = np.where((labels == self.num_components)[:, None], noise, values)
        return Rows(values, None, labels)
