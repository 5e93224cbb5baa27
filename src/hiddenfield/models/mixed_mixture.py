r"""Latent classes: columns of any kind, independent of each other given the class of the row.

.. math:: p(x) = \sum_k \pi_k \prod_{j \in o} p(x_j \mid k)

over the columns o that the row has. A row that has none has likelihood 1, and its posterior is the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import group_rows
from hiddenfield.models import column_priors
from hiddenfield.models.column_families import ColumnFamilies, FeatureRows
from hiddenfield.models.log_ratios import free_ratios, log_ratios, with_ratios
from hiddenfield.models.responsibilities import draw_rows, fill_in, log_sum
from hiddenfield.shapes import Array, Float, Int

MOST_STARTING = 20_000
"""Rows that a start is made of."""


@dataclass(frozen=True, eq=False)
class MixtureOfColumns:
    r"""K classes with weights, and a distribution of each column in each: the model that `fit_em` learns.

    Parameters are ``weights`` (K) and, as the columns are, ``probabilities`` (symbols of all columns of symbols, K),
    ``means`` and ``variances`` (continuous columns, K), and ``rates`` (counts, K).

    Parameters
    ----------
    num_classes
        K.
    families
        Of the columns.
    smoothing
        The prior: as if every class had seen so many rows like the whole table,
        :math:`\log p(\theta) = s \sum_k \bar T \cdot \eta_k`. With 0 there is none.
    concentration
        Of the Dirichlet prior of the weights; 1 for none.

    References
    ----------
    Lazarsfeld and Henry (1968), Latent structure analysis; Bishop (2006), Pattern recognition and machine learning,
    sections 9.3 and 10.4.
    """

    num_classes: int
    families: ColumnFamilies
    smoothing: float = 1.0
    concentration: float = 1.0

    # -- the E step ----------------------------------------------------------------------------------------

    def _joints(self, data: FeatureRows, parameters: Arrays) -> Iterator[tuple[slice, object, Array]]:
        """Yield rows, their features, and their log joint densities with each class; -inf for a label not their own."""
        eta = self.families.natural(parameters)
        with np.errstate(divide="ignore"):
            log_weights = np.log(parameters["weights"])
        for rows, features in data.parts:
            joint = np.asarray(features @ eta)
            joint += log_weights
            joint += data.base[rows, None]
            if data.labels is not None:
                labels = data.labels[rows]
                other = np.arange(self.num_classes) != labels[:, None]
                joint[(labels >= 0)[:, None] & other] = -np.inf
            yield rows, features, joint

    def expected_statistics(self, data: FeatureRows, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the mass of each class and its sums of features.

        The class of a row is filled in as asked for; a missing cell is summed over, and adds nothing.
        """
        mass, sums = np.zeros(self.num_classes), np.zeros((len(self.families.profile), self.num_classes))
        objective = count = 0.0
        for rows, features, joint in self._joints(data, parameters):
            values, owners = fill_in(joint, fill)
            weights = np.ones(len(values)) if data.weights is None else data.weights[rows]
            if data.weights is not None:
                owners *= weights[:, None]
            objective += float(np.where(weights > 0, values * weights, 0.0).sum())
            count += float(weights.sum())
            mass += owners.sum(axis=0)
            sums += features.T @ owners  # type: ignore[attr-defined]
        return {"objective": np.array(objective), "count": np.array(count), "mass": mass, "sums": sums}

    # -- the M step ----------------------------------------------------------------------------------------

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return shares of the classes, and the most likely parameters for what each class and the prior hold."""
        share = np.maximum(statistics["mass"] + self.concentration - 1, 0.0)
        return {"weights": share / share.sum(), **self.families.estimates(self._with_prior(statistics))}

    def _with_prior(self, statistics: Arrays) -> Float[Array, "features classes"]:
        return statistics["sums"] + self.smoothing * self.families.profile[:, None]

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters under the prior, up to a constant."""
        value = 0.0
        if self.smoothing:
            value += self.smoothing * float((self.families.profile @ self.families.natural(parameters)).sum())
        if self.concentration != 1:
            value += (self.concentration - 1) * float(np.log(parameters["weights"]).sum())
        return value

    def start(self, data: FeatureRows, how: str, generator: np.random.Generator) -> Arrays:
        """Return what groups of rows have: those of k-means ("k_means", "auto"), or around random rows ("random")."""
        rows = np.arange(len(data))
        if len(rows) > MOST_STARTING:
            rows = np.sort(generator.choice(len(rows), MOST_STARTING, replace=False))
        chosen = data[rows]
        weights = np.ones(len(rows)) if chosen.weights is None else chosen.weights
        # The linear features, missing ones at their mean.
        linear = np.concatenate(
            [self.families.states, self.families.starts("continuous") + 1, self.families.starts("count") + 1]
        )
        dense = chosen.features[:, linear].toarray()
        seen = ~np.isnan(chosen.values)
        own = np.repeat(
            np.arange(seen.shape[1]), [block.stop - block.start for block in self.families.blocks]
        )
        dense = np.where(seen[:, own[linear]], dense - self.families.profile[linear], 0.0)
        deviation = np.sqrt((dense**2).mean(axis=0))
        counts = np.arange(len(linear)) >= len(linear) - len(self.families.starts("count"))
        dense[:, counts] /= np.where(deviation > 0, deviation, 1.0)[counts]
        groups = group_rows(dense, weights, self.num_classes, how, generator, chosen.labels)
        owners = np.eye(self.num_classes)[groups] * weights[:, None]
        strength = max(self.smoothing, 0.1) * self.families.profile[:, None]
        share = owners.sum(axis=0) + 1
        return {
            "weights": share / share.sum(),
            **self.families.estimates(chosen.features.T @ owners + strength),
        }

    # -- free coordinates ----------------------------------------------------------------------------------

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios of probabilities to the first of their column, means, and other logarithms."""
        found = [log_ratios(parameters[name].ravel(), owner) for name, owner in self._owners(parameters)]
        if "means" in parameters:
            found += [parameters["means"].ravel(), np.log(parameters["variances"]).ravel()]
        if "rates" in parameters:
            found.append(np.log(np.maximum(parameters["rates"], 1e-300)).ravel())
        return np.concatenate(found)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates; probabilities of 0 stay 0."""
        found, at = dict(parameters), 0
        for name, owner in self._owners(parameters):
            values = parameters[name].ravel()
            size = int(free_ratios(owner).sum())
            found[name] = with_ratios(vector[at : at + size], values, owner).reshape(parameters[name].shape)
            at += size
        for name in ("means", "variances", "rates"):
            if name in parameters:
                part = vector[at : at + parameters[name].size].reshape(parameters[name].shape)
                found[name] = part if name == "means" else np.exp(part)
                at += part.size
        return found

    def _owners(self, parameters: Arrays) -> Iterator[tuple[str, Int[Array, " entries"]]]:
        """Yield the names of probabilities, and which of their entries sum to 1 together."""
        yield "weights", np.zeros(self.num_classes, np.int64)
        if "probabilities" in parameters:
            own = self.families.owner[:, None] * self.num_classes + np.arange(self.num_classes)
            yield "probabilities", np.unique(own, return_inverse=True)[1].reshape(-1)

    # -- Bayes ---------------------------------------------------------------------------------------------

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the concentration of the weights, and the features of prior and rows together (`column_priors`)."""
        if self.smoothing <= 0:
            raise InputError(
                "variational Bayes and Gibbs sampling need a proper prior: smoothing must be above 0"
            )
        return {
            "concentration": self.concentration + statistics["mass"],
            "sums": self._with_prior(statistics),
        }

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return parameters at which the E step computes the expected log joint; they are not normalised."""
        from scipy.special import digamma

        found = posterior["concentration"]
        weights = np.exp(digamma(found) - digamma(found.sum()))
        return {"weights": weights, **column_priors.plug_in(self.families, posterior["sums"])}

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        found = posterior["concentration"][:, None]
        value = column_priors.dirichlet_divergence(found, np.full(found.shape, self.concentration))
        prior = np.broadcast_to(self.smoothing * self.families.profile[:, None], posterior["sums"].shape)
        return value + column_priors.divergence(self.families, posterior["sums"], prior)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Draw parameters."""
        weights = generator.dirichlet(posterior["concentration"])
        return {"weights": weights, **column_priors.draw(self.families, posterior["sums"], generator)}

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the mean of the parameters."""
        share = posterior["concentration"] / posterior["concentration"].sum()
        return {"weights": share, **column_priors.mean(self.families, posterior["sums"])}

    # -- rows ----------------------------------------------------------------------------------------------

    def log_joint(self, data: FeatureRows, parameters: Arrays) -> Float[Array, "rows classes"]:
        """Return the log joint density of each row and class."""
        out = np.empty((len(data), self.num_classes))
        for rows, _, joint in self._joints(data, parameters):
            out[rows] = joint
        return out

    def log_likelihood(self, data: FeatureRows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row."""
        return log_sum(self.log_joint(data, parameters))

    def infer(self, data: FeatureRows, parameters: Arrays) -> Float[Array, "rows classes"]:
        """Return the posterior probability of each class; the prior where no class can have the row."""
        joint = self.log_joint(data, parameters)
        total = log_sum(joint)
        possible = np.isfinite(total)
        shares = np.exp(joint - np.where(possible, total, 0.0)[:, None])
        return np.where(possible[:, None], shares, parameters["weights"])

    def members(self, data: FeatureRows, parameters: Arrays, component: int) -> Int[Array, " members"]:
        """Return the rows that are more likely of a class than not."""
        return np.flatnonzero(self.infer(data, parameters)[:, component] > 0.5)

    def impute(self, data: FeatureRows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the cells, missing numbers filled by their conditional means, missing symbols by the most likely."""
        shares = self.infer(data, parameters)
        filled = data.values.copy()
        for j, law in self._laws(parameters):
            holes = np.isnan(filled[:, j])
            expected = shares[holes] @ law.T
            discrete = self.families.columns[j].vocabulary is not None
            filled[holes, j] = expected.argmax(axis=1) if discrete else expected[:, 0]
        return filled

    def _laws(self, parameters: Arrays) -> Iterator[tuple[int, Float[Array, "levels classes"]]]:
        """Yield for every column the probabilities of its symbols, or the mean, in each class."""
        families, at = self.families, 0
        for j in families.discrete:
            size = families.columns[j].num_states
            yield j, parameters["probabilities"][at : at + size]
            at += size
        for kind, name in (("continuous", "means"), ("count", "rates")):
            for i, j in enumerate(families.of_kind(kind)):
                yield int(j), parameters[name][i : i + 1]

    def sample_missing(
        self, data: FeatureRows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the cells, missing ones filled by a draw given the rest of their row."""
        return self._drawn(
            data.values, draw_rows(self.infer(data, parameters), generator), parameters, generator
        )

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows columns"], Int[Array, " rows"]]:
        """Draw complete rows, and the class of each."""
        labels = draw_rows(np.broadcast_to(parameters["weights"], (count, self.num_classes)), generator)
        empty = np.full((count, len(self.families.columns)), np.nan)
        return self._drawn(empty, labels, parameters, generator), labels

    def _drawn(
        self,
        values: Float[Array, "rows columns"],
        labels: Array,
        parameters: Arrays,
        generator: np.random.Generator,
    ) -> Float[Array, "rows columns"]:
        """Fill holes by draws given the class of the row."""
        filled = values.copy()
        numbers = {int(j): i for i, j in enumerate(self.families.of_kind("continuous"))}
        for j, law in self._laws(parameters):
            holes = np.isnan(filled[:, j])
            own = law[:, labels[holes]]
            if j in numbers:
                deviation = np.sqrt(parameters["variances"][numbers[j], labels[holes]])
                filled[holes, j] = own[0] + deviation * generator.standard_normal(len(deviation))
            elif self.families.columns[j].vocabulary is None:
                filled[holes, j] = generator.poisson(own[0])
            else:
                filled[holes, j] = draw_rows(own.T, generator)
        return filled
