r"""Latent classes: columns of any kind, independent of each other given the class of the row.

.. math:: p(x) = \sum_k \pi_k \prod_{j \in o} p(x_j \mid k)

over the columns o that the row has. A row that has none has likelihood 1, and its posterior is the prior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.data.table import TableColumn
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.hidden_markov.emissions import Emission, fill_cells, group_cells, sample_cells
from hiddenfield.models.parts import Part
from hiddenfield.models.responsibilities import Mixture, draw_rows, fill_in
from hiddenfield.shapes import Array, Float, Int

MOST_STARTING = 20_000
"""Rows that a start is made of."""


@dataclass(frozen=True, eq=False)
class MixtureOfColumns(Mixture):
    r"""K classes with weights, and a distribution of each column in each: the model that `fit_em` learns from `Rows`.

    Parameters are ``weights`` (K) and those of the emissions.

    Parameters
    ----------
    num_classes
        K.
    columns
        What they hold.
    emissions
        What a class says of them, a block of columns each.
    concentration
        Of the Dirichlet prior of the weights; 1 for none.

    References
    ----------
    Lazarsfeld and Henry (1968), Latent structure analysis; Bishop (2006), Pattern recognition and machine learning,
    sections 9.3 and 10.4.
    """

    num_classes: int
    columns: Sequence[TableColumn]
    emissions: Sequence[Emission]
    concentration: float = 1.0

    @property
    def parts(self) -> tuple[Part, ...]:
        """Weights, and what the columns are like in each class."""
        every = np.ones(self.num_classes, bool)
        return Probabilities("weights", self.concentration, every, "mass"), *self.emissions

    # -- the E step ----------------------------------------------------------------------------------------

    def _joints(
        self, data: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Iterator[tuple[slice, Rows, Float[Array, "rows classes"]]]:
        """Yield rows and their log joint densities with each class; -inf for a label not their own."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(parameters["weights"])
        for place, rows in data.parts:
            joint = np.tile(log_weights, (len(rows), 1))
            for emission in self.emissions:
                joint += emission.log_density(rows.block(emission.columns), parameters, mode=mode)
            if rows.labels is not None:
                other = np.arange(self.num_classes) != rows.labels[:, None]
                joint[(rows.labels >= 0)[:, None] & other] = -np.inf
            yield place, rows, joint

    def expected_statistics(self, data: Rows, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the mass of each class and the statistics of the columns.

        The class of a row is filled in as asked for; a missing cell is summed over, and adds nothing. With "mode" class
        and missing symbols are the jointly most likely ones; missing numbers are integrated out all the same, since
        filled by their mode they would let variances shrink to nothing.
        """
        total: Arrays = {}
        for _, rows, joint in self._joints(data, parameters, mode=fill.kind == "mode"):
            values, owners = fill_in(joint, fill)
            weights = np.ones(len(rows)) if rows.weights is None else rows.weights
            if rows.weights is not None:
                owners *= weights[:, None]
            objective = np.where(weights > 0, values * weights, 0.0).sum()
            found = {"objective": objective, "count": weights.sum(), "mass": owners.sum(0)}
            for emission in self.emissions:
                found |= emission.statistics(rows.block(emission.columns), owners, parameters, fill)
            total = {name: np.asarray(total.get(name, 0.0) + value) for name, value in found.items()}
        return total

    def start(self, data: Rows, how: str, generator: np.random.Generator) -> Arrays:
        """Return what groups of rows have: those of k-means ("k_means", "auto"), or around random rows ("random")."""
        chosen = data
        if len(data) > MOST_STARTING:
            chosen = data[np.sort(generator.choice(len(data), MOST_STARTING, replace=False))]
        weights = np.ones(len(chosen)) if chosen.weights is None else chosen.weights
        given = (chosen, self.columns, weights, self.num_classes, how, generator, chosen.labels)
        owners = np.eye(self.num_classes)[group_cells(*given)] * weights[:, None]
        share = owners.sum(axis=0) + 1
        found = {"weights": share / share.sum()}
        for emission in self.emissions:
            found |= emission.start(chosen.block(emission.columns), owners, generator)
        return found

    # -- rows ----------------------------------------------------------------------------------------------

    def log_joint(self, data: Rows, parameters: Arrays) -> Float[Array, "rows classes"]:
        """Return the log joint density of each row and class."""
        return np.concatenate([joint for _, _, joint in self._joints(data, parameters)])

    def impute(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the cells, missing numbers filled by their conditional means, missing symbols by the most likely."""
        return fill_cells(self.emissions, data.values, self.infer(data, parameters), parameters, None)

    def sample_missing(
        self, data: Rows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the cells, missing ones filled by a draw given the rest of their row."""
        chosen = draw_rows(self.infer(data, parameters), generator)
        return fill_cells(
            self.emissions, data.values, np.eye(self.num_classes)[chosen], parameters, generator
        )

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows columns"], Int[Array, " rows"]]:
        """Draw complete rows, and the class of each."""
        labels = draw_rows(np.broadcast_to(parameters["weights"], (count, self.num_classes)), generator)
        return sample_cells(self.emissions, labels, parameters, generator), labels
