"""What estimators of tables of mixed columns share: reading them, filling their holes, drawing new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from hiddenfield.data.convert.mixed import as_table
from hiddenfield.data.table import DISCRETE, Table, TableColumn
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import OF_LEARNING, LatentEstimator, _weights
from hiddenfield.shapes import Array, Float

OF_TABLES = OF_LEARNING | {
    "kinds": [str, Mapping, None],
    "drop": ["array-like", None],
    "unseen": [StrOptions({"error", "missing"})],
}


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(LatentEstimator):
    """Base of the estimators that take tables: whatever `hiddenfield.data.as_table` reads, files included.

    Parameters
    ----------
    kinds
        The kinds of columns, where they are not to be recognised; see `hiddenfield.data.as_table`.
    drop
        Columns to leave out, by name or pattern.
    unseen
        What happens to a symbol that was not there in fitting: "error", or "missing", which makes it a hole.

    Attributes
    ----------
    columns_
        What each column was taken for, as plain values.
    """

    kinds: Any = None
    drop: Any = None
    unseen: str = "error"

    _parameter_constraints = OF_TABLES
    _kept: ClassVar[tuple[str, ...]] = (*LatentEstimator._kept, "columns_")

    @property
    def table_columns_(self) -> tuple[TableColumn, ...]:
        """What each column was taken for."""
        return tuple(TableColumn.from_dict(plain) for plain in self.columns_)

    def _table(self, X: Any, fitting: bool = False, sample_weight: Any = None) -> Table:
        """Read a table; in fitting, keep what its columns are."""
        if fitting:
            table = as_table(X, kinds=self._wanted_kinds(), drop=self._dropped())
            if not table.values.size:
                what = f"{len(table)} sample(s)" if not len(table) else f"{len(table.columns)} feature(s)"
                shape = table.values.shape
                raise InputError(f"Found {what} (shape={shape}) while a minimum of 1 is required.")
            self.columns_ = [column.as_dict() for column in table.columns]
            self.n_features_in_, self._form = len(table.columns), table.form
        if (
            len(getattr(X, "shape", ())) == 2
        ):  # of files, dicts and lists the columns are found by name, or counted
            try:
                _check_feature_names(self, X, reset=fitting)
                _check_n_features(self, X, reset=fitting)
            except ValueError as error:
                raise InputError(str(error)) from None
        if not fitting:
            table = as_table(X, like=self.table_columns_, unseen=self.unseen)
        weights = _weights(sample_weight, len(table))
        return table if weights is None else replace(table, weights=weights)

    def _column(self, number: Any) -> str:
        return repr(str(self.columns_[number]["name"]))

    def _dropped(self) -> tuple[str, ...]:
        return () if self.drop is None else tuple(self.drop)

    def _wanted_kinds(self) -> Any:
        return self.kinds

    def _like(self, X: Any, data: Any, filled: Array) -> Any:
        """Return filled cells in the type of X."""
        del data
        return self._table(X).with_values(filled).restore()

    def sample(self, n: int = 1, *, random_state: Any = None) -> tuple[Any, Array]:
        """Draw complete rows, in the type of the training table (a dict once loaded), and the class of each."""
        check_is_fitted(self, "parameters_")
        values, labels = self.model_.sample(n, self.parameters_, self._generator(random_state))
        return Table(values, self.table_columns_, form=getattr(self, "_form", None)).restore(), labels

    # -- of models with emissions --------------------------------------------------------------------------

    def _of_kinds(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the columns of real numbers, of counts, and of symbols."""
        kinds = [column["kind"] for column in self.columns_]
        numbers, counts, symbols = (
            tuple(j for j, kind in enumerate(kinds) if kind in own)
            for own in (("continuous",), ("count",), DISCRETE)
        )
        return numbers, counts, symbols

    def _moments(self) -> tuple[Float[Array, "states columns"], Float[Array, "states columns"]]:
        """Return the mean and variance of every column in each state or class; NaN for symbols."""
        found = [
            (emission.columns, *emission.expectation(self.parameters_)) for emission in self.model_.emissions
        ]
        mean = np.empty((len(found[0][1]), len(self.columns_)))
        variance = np.empty_like(mean)
        for columns, means, variances in found:
            mean[:, columns], variance[:, columns] = means, variances
        return mean, variance

    def profiles(self) -> dict[str, dict[str, list[float]]]:
        """Return what columns are like in each state or class: mean and deviation, rate, or probabilities of symbols.

        Examples
        --------
        >>> from hiddenfield.estimators import MixedMixture
        >>> model = MixedMixture(1, smoothing=0).fit(
        ...     {"visits": [0, 2, 4, 9, 5], "sex": ["f", "m", "f", "f", None]}
        ... )
        >>> model.profiles()
        {'visits': {'rate': [4.0]}, 'sex': {'f': [0.75], 'm': [0.25]}}
        """
        (mean, variance), found = self._moments(), dict[str, dict[str, list[float]]]()
        for j, column in enumerate(self.table_columns_):
            if column.vocabulary is not None:
                laws = self.parameters_[f"probabilities.{column.name}"].T.tolist()
                found[column.name] = dict(zip(map(str, column.vocabulary.symbols), laws, strict=True))
            elif column.kind == "count":
                found[column.name] = {"rate": mean[:, j].tolist()}
            else:
                deviation = np.sqrt(variance[:, j])
                found[column.name] = {"mean": mean[:, j].tolist(), "deviation": deviation.tolist()}
        return found

    def __sklearn_tags__(self) -> Any:
        """Say that symbols are accepted, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
