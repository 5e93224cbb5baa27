r"""Latent classes: columns of any kind, independent of each other given the class of the row.

.. math:: p(x) = \sum_k \pi_k \prod_{j \in o} p(x_j \mid k)

over the columns o that the row has. A row that has none has likelihood 1, and its posterior is the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import group_rows
from hiddenfield.models.column_families import ColumnFamilies, FeatureRows
from hiddenfield.models.column_priors import ColumnPrior
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.parts import Composed, Part
from hiddenfield.models.responsibilities import draw_rows, fill_in, log_sum
from hiddenfield.shapes import Array, Float, Int

MOST_STARTING = 20_000
"""Rows that a start is made of."""


@dataclass(frozen=True, eq=False)
class MixtureOfColumns(Composed):
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

    @property
    def parts(self) -> tuple[Part, ...]:
        """Weights, and what the columns are like in each class."""
        every = np.ones(self.num_classes, bool)
        weights = Probabilities("weights", self.concentration, every, "mass")
        return weights, ColumnPrior(self.families, self.smoothing)

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

        The class of a row is filled in as asked for; a missing cell is summed over, and adds nothing. With "mode" class
        and missing symbols are the jointly most likely ones; missing numbers are integrated out all the same, since
        filled by their mode they would let variances shrink to nothing.
        """
        mass, sums = np.zeros(self.num_classes), np.zeros((len(self.families.profile), self.num_classes))
        objective = count = 0.0
        for rows, features, joint in self._joints(data, parameters):
            if fill.kind == "mode":
                holes = np.isnan(data.values[rows][:, self.families.discrete]).astype(np.float64)
                likeliest, best = self._likeliest(parameters)
                joint += holes @ best
            values, owners = fill_in(joint, fill)
            weights = np.ones(len(values)) if data.weights is None else data.weights[rows]
            if data.weights is not None:
                owners *= weights[:, None]
            objective += float(np.where(weights > 0, values * weights, 0.0).sum())
            count += float(weights.sum())
            mass += owners.sum(axis=0)
            sums += features.T @ owners  # type: ignore[attr-defined]
            if fill.kind == "mode":
                sums[likeliest, np.arange(self.num_classes)] += holes.T @ owners
        return {"objective": np.array(objective), "count": np.array(count), "mass": mass, "sums": sums}

    def _likeliest(
        self, parameters: Arrays
    ) -> tuple[Int[Array, "columns classes"], Float[Array, "columns classes"]]:
        """Return for each column of symbols the feature of the likeliest in each class, and its log probability."""
        shape = (len(self.families.discrete), self.num_classes)
        features, logs = np.zeros(shape, np.int64), np.zeros(shape)
        for row, (j, law) in enumerate(islice(self._laws(parameters), shape[0])):
            features[row] = self.families.blocks[j].start + law.argmax(axis=0)
            logs[row] = np.log(law.max(axis=0))
        return features, logs

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

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates; probabilities of 0 stay 0."""
        return dict(parameters) | super().from_vector(vector, parameters)

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
