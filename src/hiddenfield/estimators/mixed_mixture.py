"""MixedMixture: latent classes of tables of mixed columns with holes, in scikit-learn's style."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.data.rows import Rows
from hiddenfield.data.table import Table
from hiddenfield.errors import InputError
from hiddenfield.estimators.gaussian_mixture import GaussianMixture
from hiddenfield.estimators.latent import BAYES, LATENT
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.models.gaussians import Gaussians, NormalPrior
from hiddenfield.models.hidden_markov.emissions import Emission, Events, Numbers, Symbols
from hiddenfield.models.mixed_mixture import MixtureOfColumns
from hiddenfield.shapes import Array, Float


@LATENT.register(
    "mixed_mixture",
    summary="latent classes: groups of rows whose columns, of any kind, are independent within a group",
    reference="Lazarsfeld and Henry 1968",
    data="table",
)
@dataclass(eq=False, repr=False)
class MixedMixture(TableEstimator):
    r"""Latent classes: numbers, counts and symbols with holes, independent of each other given the class of the row.

    .. math:: p(x) = \sum_k \pi_k \prod_{j \in o} p(x_j \mid k)

    over the columns o that a row has: Gaussian for continuous ones, Poisson for counts, categorical for symbols. No row
    is dropped and nothing is filled in beforehand. With `y`, rows whose class is known have it (None, NaN or -1: not
    known). The other parameters are those of `LatentEstimator` and `TableEstimator`.

    Parameters
    ----------
    num_components
        How many classes.
    smoothing
        The prior of the columns: as if every class had seen so many rows like the whole table. With 0 it is maximum
        likelihood, and a variance that shrinks to 0 is a `CollapseError`.
    concentration
        Of the Dirichlet prior of the weights; 1 for none.

    Attributes
    ----------
    weights_
        The share of each class.
    classes_
        The known classes, where `y` had some; they are the first components.

    References
    ----------
    Lazarsfeld and Henry (1968), Latent structure analysis; Linzer and Lewis (2011), poLCA: an R package for polytomous
    variable latent class analysis.

    Examples
    --------
    >>> from hiddenfield.estimators import MixedMixture
    >>> rows = {
    ...     "length": [1.0, 1.2, None, 5.1, 4.9, 5.0],
    ...     "colour": ["red", "red", "red", None, "blue", "blue"],
    ... }
    >>> model = MixedMixture(2, smoothing=0.1).fit(rows)
    >>> filled = model.impute(rows)
    >>> round(filled["length"][2], 1), filled["colour"][3]
    (1.4, 'blue')
    """

    num_components: int = 2
    smoothing: float = 1.0
    concentration: float = 1.0

    _parameter_constraints = OF_TABLES | {
        "num_components": [COUNT],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "concentration": [Interval(Real, 0, None, closed="neither")],
    }
    _kept: ClassVar[tuple[str, ...]] = (*TableEstimator._kept, "centre_", "spread_", "profile_", "classes_")
    _takes_constants: ClassVar[bool] = True
    _labels = GaussianMixture._labels

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Rows:
        table = self._table(X, fitting, sample_weight)
        rows = Rows(table.values, table.weights)
        if fitting:
            self._describe_all(table, rows)
        return rows if y is None or not fitting else replace(rows, labels=self._labels(y, len(rows)))

    def _describe_all(self, table: Table, rows: Rows) -> None:
        """Keep what the prior is made of."""
        self._describe(rows, False)
        # A constant column has no spread to measure variances by; they are then in its own units.
        self.spread_[self.spread_ <= 1e-12 * np.abs(self.centre_)] = 1.0
        self.profile_, weights = {}, table.row_weights()
        for j in self._of_kinds()[2]:
            counts = rows.block((j,)).indicators((table.columns[j].num_states,)).T @ weights
            # A symbol that does not occur is as likely as if it occurred once.
            self.profile_[table.names[j]] = (counts[:-1] + 1).tolist()

    def _emissions(self) -> list[Emission]:
        """Return a block of all columns of numbers, one of all counts, and one of all symbols."""
        columns, (numbers, counts, symbols) = self.table_columns_, self._of_kinds()
        classes, rows, found = self.num_components, self.smoothing, list[Emission]()
        if numbers:
            centre, spread = self.centre_[list(numbers)], self.spread_[list(numbers)]
            # As a density of means and variances, or in the Bayesian fills of means and precisions.
            freedom = rows + 1 if self.fill in BAYES else rows - 3
            prior = NormalPrior(centre, rows, freedom, rows * spread**2) if rows else None
            found.append(Numbers(numbers, classes, 1, Gaussians("diagonal", centre, spread, prior)))
        if counts:
            found.append(Events(counts, self.centre_[list(counts)], rows))
        if symbols:
            described = tuple(columns[j] for j in symbols)
            shares = [np.array(self.profile_[column.name]) for column in described]
            priors = [1 + rows * share / share.sum() for share in shares]
            found.append(Symbols(described, symbols, classes, priors))
        return found

    def _model(self) -> MixtureOfColumns:
        if self.fill in BAYES and not self.smoothing:
            raise InputError(
                "variational Bayes and Gibbs sampling need a proper prior: smoothing must be above 0"
            )
        return MixtureOfColumns(
            self.num_components, self.table_columns_, self._emissions(), self.concentration
        )

    @property
    def weights_(self) -> Float[Array, " classes"]:
        """The share of each class."""
        return self.parameters_["weights"]
