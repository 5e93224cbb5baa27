"""MixedMixture: latent classes of tables of mixed columns with holes, in scikit-learn's style."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hiddenfield.estimators.gaussian_mixture import GaussianMixture
from hiddenfield.estimators.latent import LATENT
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.models.column_families import ColumnFamilies, FeatureRows
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

    def _read(
        self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None
    ) -> FeatureRows:
        table = self._table(X, fitting, sample_weight)
        labels = None
        if fitting:
            families = ColumnFamilies.of(table)
            self.centre_, self.spread_, self.profile_ = families.centre, families.spread, families.profile
            labels = None if y is None else self._labels(y, len(table))
        return self._families().rows(table, labels)

    def _families(self) -> ColumnFamilies:
        return ColumnFamilies(self.table_columns_, self.centre_, self.spread_, self.profile_)

    def _model(self) -> MixtureOfColumns:
        return MixtureOfColumns(self.num_components, self._families(), self.smoothing, self.concentration)

    @property
    def weights_(self) -> Float[Array, " components"]:
        """The share of each class."""
        return self.parameters_["weights"]

    def profiles(self) -> dict[str, dict[str, list[float]]]:
        """Return for every column what it is like in each class: mean and deviation, rate, or probabilities of symbols.

        Examples
        --------
        >>> from hiddenfield.estimators import MixedMixture
        >>> model = MixedMixture(1, smoothing=0).fit(
        ...     {"visits": [0, 2, 4, 9, 5], "sex": ["f", "m", "f", "f", None]}
        ... )
        >>> model.profiles()
        {'sex': {'f': [0.75], 'm': [0.25]}, 'visits': {'rate': [4.0]}}
        """
        families, found = self.model_.families, {}
        numbers = {int(j): i for i, j in enumerate(families.of_kind("continuous"))}
        for j, law in self.model_._laws(self.parameters_):
            column = families.columns[j]
            if column.vocabulary is not None:
                names = [str(symbol) for symbol in column.vocabulary.symbols]
                found[column.name] = {name: own.tolist() for name, own in zip(names, law, strict=True)}
            elif j in numbers:
                deviation = np.sqrt(self.parameters_["variances"][numbers[j]])
                found[column.name] = {"mean": law[0].tolist(), "deviation": deviation.tolist()}
            else:
                found[column.name] = {"rate": law[0].tolist()}
        return found
