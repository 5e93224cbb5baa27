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
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.shapes import Array, Float, Int

CHUNK = 2048
"""Rows worked on at once, so that what lies between two products stays in the cache."""


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

    def _parts(self, data: Rows, parameters: Arrays) -> Iterator[tuple[Rows, Array, Array, Array]]:
        """Yield rows, squared distances, log determinants of what they have, and how many columns that is."""
        means, covariances, kind = parameters["means"], parameters["covariances"], self.gaussians
        if kind.joint and not data.complete:
            patterns = data.patterns
            full = kind.covariance_matrices(covariances, len(means))
            squares, log_dets = gaussian_holes.distances(patterns, means, full)
            lengths = np.diff(patterns.bounds)
            seen = patterns.observed.sum(1).astype(float)
            yield (
                data[patterns.order],
                squares.T,
                np.repeat(log_dets, lengths, axis=1).T,
                np.repeat(seen, lengths),
            )
            return
        blocks = kind.blocks(covariances)
        inverse = np.linalg.inv(np.linalg.cholesky(blocks)) if kind.joint else blocks[..., 0, 0] ** -0.5
        log_det = np.linalg.slogdet(blocks)[1].T if kind.joint else None
        for begin in range(0, len(data), CHUNK):
            part = data[begin : begin + CHUNK]
            if kind.joint:
                squares = gaussian_rows.complete_distances(
                    part.values - kind.centre, means - kind.centre, inverse[:, 0]
                )
                yield part, squares, log_det, np.full(len(part), float(means.shape[1]))
            else:
                yield (
                    part,
                    *gaussian_rows.independent_distances(part, means, np.broadcast_to(inverse, means.shape)),
                )

    def _log_joint(
        self, part: Rows, squares: Array, log_dets: Array, seen: Array, parameters: Arrays
    ) -> Float[Array, "rows components"]:
        """Return the log joint density of each row and component; that of a label that is not its own is -inf."""
        if self.freedom is None:
            joint = -0.5 * (squares + log_dets + (math.log(2 * math.pi) * seen)[:, None])
        else:
            joint = gaussian_rows.log_student(squares, log_dets, seen[:, None], parameters["freedom"])
        if self.box is not None:
            sides = np.log(parameters["box"][1] - parameters["box"][0])
            noise = -float(sides.sum()) if part.complete else -(~part.missing @ sides)
            joint = np.column_stack([joint, np.broadcast_to(noise, len(part))])
        with np.errstate(divide="ignore"):
            joint += np.log(parameters["weights"])
        if part.labels is not None:
            known = np.flatnonzero(part.labels >= 0)
            kept = joint[known, part.labels[known]]
            joint[known] = -np.inf
            joint[known, part.labels[known]] = kept
        return joint

    def expected_statistics(self, data: Rows, parameters: Arrays, fill: Fill) -> Arrays:
        r"""Return the mass of each component, and the sums of deviations from the centre and of their products.

        With "mode" and "sample" the component of each row is filled in by its most likely one or a draw. What is
        missing in a row given its component is filled in by its expectation, with its covariance, or with "sample" by
        a draw; "mode" would let covariances shrink to nothing.
        """
        total = self._no_statistics(parameters)
        for part, squares, log_dets, seen in self._parts(data, parameters):
            joint = self._log_joint(part, squares, log_dets, seen, parameters)
            values, owners = gaussian_rows.fill_in(joint, fill)
            if part.weights is not None:
                values, owners = values * part.weights, owners * part.weights[:, None]
            total["objective"] += values.sum()
            total["count"] += len(part) if part.weights is None else part.weights.sum()
            total["mass"] += owners.sum(0)
            self._add_moments(
                total, data, part, owners[:, : self.num_components], squares, seen, parameters, fill
            )
        return total

    def _no_statistics(self, parameters: Arrays) -> Arrays:
        count, dim = parameters["means"].shape
        square = (count, dim, dim) if self.gaussians.joint else (count, dim)
        shapes = {"objective": (), "count": (), "mass": len(parameters["weights"]), "first": (count, dim)}
        if self.freedom is not None:
            shapes |= {"scaled": count, "tail": count}
        return {name: np.zeros(shape) for name, shape in (shapes | {"second": square}).items()}

    def _add_moments(
        self,
        total: Arrays,
        data: Rows,
        part: Rows,
        owners: Float[Array, "rows components"],
        squares: Array,
        seen: Array,
        parameters: Arrays,
        fill: Fill,
    ) -> None:
        """Add what the rows of a part say of means and covariances, given whose they are."""
        means, centre = parameters["means"], self.gaussians.centre
        scaled = owners
        if self.freedom is not None:
            scale, tail = gaussian_rows.student_scale(squares, seen[:, None], parameters["freedom"])
            scaled = owners * scale
            total["scaled"] += scaled.sum(0)
            total["tail"] += (owners * tail).sum(0)
        if not self.gaussians.joint:
            first, second = gaussian_rows.independent_moments(
                part, owners, scaled, parameters, self.gaussians, fill
            )
        elif data.complete:
            first, second = gaussian_rows.complete_moments(part.values - centre, scaled)
        else:
            noise = None
            if fill.kind == "sample":
                assert fill.generator is not None
                noise = fill.generator.standard_normal(part.values.T.shape)
            full = self.gaussians.covariance_matrices(parameters["covariances"], len(means))
            weights = [np.ascontiguousarray(each.T) for each in (owners, scaled)]
            first, second = gaussian_holes.moments(data.patterns, means, full, *weights, noise=noise)
            away, mass = means - centre, scaled.sum(0)
            cross = away[:, :, None] * first[:, None, :]
            second += cross + cross.swapaxes(1, 2)
            second += mass[:, None, None] * away[:, :, None] * away[:, None, :]
            first = first + mass[:, None] * away
        total["first"] += first
        total["second"] += second

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
        weights = parameters["weights"]
        parts = [np.log(weights[1:] / weights[0])]
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

    def log_joint(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the log joint density of each row and component, the last of which is the noise if there is any."""
        out = np.empty((len(data), len(parameters["weights"])))
        done = 0
        for part, squares, log_dets, seen in self._parts(data, parameters):
            out[done : done + len(part)] = self._log_joint(part, squares, log_dets, seen, parameters)
            done += len(part)
        return self._in_order(data, out)

    def _in_order(self, data: Rows, found: Array) -> Array:
        """Bring rows in the order of their patterns back into that of the data."""
        if not self.gaussians.joint or data.complete:
            return found
        out = np.empty_like(found)
        out[data.patterns.order] = found
        return out

    def log_likelihood(self, data: Rows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row."""
        return gaussian_rows.log_sum(self.log_joint(data, parameters))

    def infer(self, data: Rows, parameters: Arrays) -> Float[Array, "rows components"]:
        """Return the posterior probability of each component."""
        joint = self.log_joint(data, parameters)
        return np.exp(joint - gaussian_rows.log_sum(joint)[:, None])

    def members(self, data: Rows, parameters: Arrays, component: int) -> Int[Array, " members"]:
        """Return the rows that are more likely of a component than not."""
        return np.flatnonzero(self.infer(data, parameters)[:, component] > 0.5)

    def impute(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the rows with their holes filled by conditional means, which have the least squared error."""
        own = self.infer(data, parameters)[:, : self.num_components]
        total = own.sum(1, keepdims=True)
        own = np.where(total > 1e-300, own / np.maximum(total, 1e-300), 1 / self.num_components)
        return self._filled(data, parameters, own, None)

    def sample_missing(self, data: Rows, parameters: Arrays, generator: np.random.Generator) -> Array:
        """Return the rows with their holes filled by a draw of what is missing given the rest."""
        own = self.infer(data, parameters)[:, : self.num_components]
        own = np.maximum(own, 1e-300)
        chosen = gaussian_rows.draw_rows(own / own.sum(1, keepdims=True), generator)
        noise = generator.standard_normal(data.values.shape)
        if self.freedom is not None:
            _, squares, _, seen = self._distances(data, parameters)
            nu = parameters["freedom"][chosen] + seen
            away = squares[np.arange(len(data)), chosen]
            noise *= np.sqrt((parameters["freedom"][chosen] + away) / generator.chisquare(nu))[:, None]
        return self._filled(data, parameters, np.eye(self.num_components)[chosen], noise)

    def _distances(self, data: Rows, parameters: Arrays) -> tuple[None, Array, Array, Array]:
        parts = list(self._parts(data, parameters))
        squares, log_dets, seen = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
        return None, *(self._in_order(data, each) for each in (squares, log_dets, seen))

    def _filled(self, data: Rows, parameters: Arrays, owners: Array, noise: Array | None) -> Array:
        """Fill holes by conditional means averaged over components, or with `noise` by draws."""
        means, covariances = parameters["means"], parameters["covariances"]
        if data.complete:
            return data.values.copy()
        if not self.gaussians.joint:
            filled = owners @ means
            if noise is not None:
                blocks = self.gaussians.blocks(covariances)[..., 0, 0]
                filled = filled + noise * (owners @ np.sqrt(np.broadcast_to(blocks, means.shape)))
            return np.where(data.missing, filled, data.values)
        order = data.patterns.order
        full = self.gaussians.covariance_matrices(covariances, len(means))
        given = np.ascontiguousarray(owners[order].T)
        drawn = None if noise is None else np.ascontiguousarray(noise[order].T)
        return self._in_order(data, gaussian_holes.fill(data.patterns, means, full, given, drawn))

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
