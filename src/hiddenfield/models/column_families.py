r"""Distributions of the columns of a table given a class, each an exponential family, and what they add up.

.. math:: \log p(x_j \mid k) = \eta_{jk} \cdot T_j(x_j) + h_j(x_j)

Indicators of its symbols for a column of symbols, :math:`(1, u, u^2)` of the standardised number u for a Gaussian, and
:math:`(1, x)` for a count: a row is the sparse vector of the T of the columns that it has, so that its log-likelihoods
are one product with the stacked :math:`\eta`, and expected statistics one product with its transpose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.table import DISCRETE, Table, TableColumn
from hiddenfield.errors import CollapseError, InputError
from hiddenfield.learning.em import Arrays
from hiddenfield.shapes import Array, Float, Int

CHUNK = 8192
"""Rows worked on at once, so that what lies between two products stays in the cache."""

WIDTH = {"continuous": 3, "count": 2}
LEAST_VARIANCE = 1e-10
"""Over that of the whole column: below it a class has collapsed."""


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Rows of a table as sparse features.

    Parameters
    ----------
    features
        A SciPy CSR matrix (rows, features); a missing cell has no entries.
    base
        The part of each row's log density that no parameter changes.
    values
        The cells.
    weights, labels
        Of the rows: how much each counts, and its known class or -1; None for 1, and for unknown.
    """

    features: Any
    base: Float[Array, " rows"]
    values: Float[Array, "rows columns"]
    weights: Float[Array, " rows"] | None = None
    labels: Int[Array, " rows"] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.base)

    def __getitem__(self, rows: Any) -> FeatureRows:
        """Return some of the rows."""
        further = (None if part is None else part[rows] for part in (self.weights, self.labels))
        return FeatureRows(self.features[rows], self.base[rows], self.values[rows], *further)

    @cached_property
    def parts(self) -> list[tuple[slice, Any]]:
        """Rows and features of a chunk at a time, without copies."""
        from scipy.sparse import csr_matrix

        ptr, found = self.features.indptr, []
        for begin in range(0, len(self), CHUNK):
            rows = slice(begin, min(begin + CHUNK, len(self)))
            held = slice(ptr[rows.start], ptr[rows.stop])
            triple = (
                self.features.data[held],
                self.features.indices[held],
                ptr[begin : rows.stop + 1] - ptr[begin],
            )
            found.append((rows, csr_matrix(triple, shape=(rows.stop - begin, self.features.shape[1]))))
        return found


@dataclass(frozen=True, eq=False)
class ColumnFamilies:
    """The families of a table's columns.

    Parameters
    ----------
    columns
        What they hold.
    centre, spread
        Mean and standard deviation of each column of numbers; 0 and 1 for others and where there is no spread.
    profile
        The mean features of all rows, each column's over the rows that have it: what the prior is made of.
    """

    columns: tuple[TableColumn, ...]
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]
    profile: Float[Array, " features"]

    @classmethod
    def of(cls, table: Table) -> ColumnFamilies:
        """Return the families for a table, standardised by it."""
        weights, centre, spread = (
            table.row_weights(),
            np.zeros(len(table.columns)),
            np.ones(len(table.columns)),
        )
        for j, column in enumerate(table.columns):
            seen = ~table.missing[:, j] & (weights > 0)
            if not seen.any():
                raise InputError(f"column {column.name!r} has no values; leave it out")
            if column.kind == "continuous":
                centre[j] = np.average(table.values[seen, j], weights=weights[seen])
                square = np.average((table.values[seen, j] - centre[j]) ** 2, weights=weights[seen])
                if square > (1e-14 * centre[j]) ** 2:
                    spread[j] = math.sqrt(square)
        raw = cls(table.columns, centre, spread, np.zeros(0))
        rows = raw.rows(table)
        profile = np.asarray(rows.features.T @ weights, np.float64)
        for block, column in zip(raw.blocks, table.columns, strict=True):
            # A symbol that does not occur is as likely as if it occurred once.
            profile[block] = (
                (profile[block] + 1) / (profile[block] + 1).sum()
                if column.kind in DISCRETE
                else profile[block] / profile[block][0]
            )
            if column.kind == "continuous" and profile[block][2] - profile[block][1] ** 2 < 0.5:
                profile[block.start + 2] = profile[block.start + 1] ** 2 + 1  # a constant column
        return cls(table.columns, centre, spread, profile)

    @cached_property
    def blocks(self) -> list[slice]:
        """The features of each column."""
        sizes = [WIDTH.get(column.kind, column.num_states) for column in self.columns]
        ends = np.cumsum(sizes).tolist()
        return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    @cached_property
    def discrete(self) -> list[int]:
        """The columns of symbols."""
        return [j for j, column in enumerate(self.columns) if column.kind in DISCRETE]

    def of_kind(self, kind: str) -> Int[Array, " columns"]:
        """Return the columns of a kind of numbers."""
        return np.array([j for j, column in enumerate(self.columns) if column.kind == kind], np.int64)

    def starts(self, kind: str) -> Int[Array, " columns"]:
        """Return the first features of the columns of a kind of numbers."""
        return np.array([self.blocks[j].start for j in self.of_kind(kind)], np.int64)

    @cached_property
    def states(self) -> Int[Array, " levels"]:
        """The features that indicate symbols, of all columns of symbols."""
        blocks = [np.arange(self.blocks[j].start, self.blocks[j].stop) for j in self.discrete]
        return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)

    @cached_property
    def owner(self) -> Int[Array, " levels"]:
        """For each of `states` the first of its column's."""
        sizes = [self.columns[j].num_states for j in self.discrete]
        return np.repeat(np.cumsum([0, *sizes[:-1]]), sizes).astype(np.int64)

    def per_column(self, values: Float[Array, "levels classes"]) -> Float[Array, "levels classes"]:
        """Return, for each symbol, the sum over the symbols of its column."""
        if not len(values):
            return values
        firsts, inverse = np.unique(self.owner, return_inverse=True)
        return np.add.reduceat(values, firsts, axis=0)[inverse]

    # -- rows to features ----------------------------------------------------------------------------------

    def rows(self, table: Table, labels: Int[Array, " rows"] | None = None) -> FeatureRows:
        """Return the features of the rows of a table that has these columns."""
        from scipy.sparse import csr_matrix
        from scipy.special import gammaln

        sizes = [WIDTH.get(column.kind, 1) for column in self.columns]
        count, total = len(table), sum(sizes)
        index, number = np.empty((count, total), np.int32), np.ones((count, total))
        there, base, at = np.empty((count, total), np.bool_), np.zeros(count), 0
        for j, (column, block, size) in enumerate(zip(self.columns, self.blocks, sizes, strict=True)):
            seen = ~table.missing[:, j]
            values = np.where(seen, table.values[:, j], 0.0)
            there[:, at : at + size] = seen[:, None]
            index[:, at : at + size] = block.start + np.arange(size)
            if column.kind == "continuous":
                unit = (values - self.centre[j]) / self.spread[j]
                number[:, at + 1], number[:, at + 2] = unit, unit**2
                base -= seen * (math.log(self.spread[j]) + 0.5 * math.log(2 * math.pi))
            elif column.kind == "count":
                number[:, at + 1] = values
                base -= gammaln(values + 1)
            else:
                index[:, at] += values.astype(np.int32)
            at += size
        ptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        width = self.blocks[-1].stop if self.blocks else 0
        features = csr_matrix((number[there], index[there], ptr), shape=(count, width))
        return FeatureRows(features, base, table.values, table.weights, labels)

    # -- parameters and what the rows are multiplied with --------------------------------------------------

    def natural(self, parameters: Arrays) -> Float[Array, "features classes"]:
        r"""Return :math:`\eta` of all features and classes."""
        classes = len(parameters["weights"])
        eta = np.zeros((self.blocks[-1].stop if self.blocks else 0, classes))
        with np.errstate(divide="ignore"):
            if "probabilities" in parameters:
                eta[self.states] = np.log(parameters["probabilities"])
            if "means" in parameters:
                at, (means, variances) = self.starts("continuous"), self._standard(parameters)
                eta[at] = -0.5 * (np.log(variances) + means**2 / variances)
                eta[at] += parameters.get("mean_offsets", 0.0)
                eta[at + 1], eta[at + 2] = means / variances, -0.5 / variances
        if "rates" in parameters:
            at, rates = self.starts("count"), np.maximum(parameters["rates"], 1e-300)
            eta[at], eta[at + 1] = parameters.get("rate_offsets", 0.0) - rates, np.log(rates)
        return eta

    def _standard(self, parameters: Arrays) -> tuple[Array, Array]:
        """Return means and variances of standardised numbers."""
        own = self.of_kind("continuous")
        centre, spread = self.centre[own, None], self.spread[own, None]
        return (parameters["means"] - centre) / spread, parameters["variances"] / spread**2

    def estimates(self, sums: Float[Array, "features classes"]) -> Arrays:
        """Return the parameters that are most likely for sums of features; those of a column without any are its own.

        Raises
        ------
        CollapseError
            If the variance of a class is 0.
        """
        found: Arrays = {}
        if self.discrete:
            total = self.per_column(sums[self.states])
            own = self.profile[self.states, None]
            found["probabilities"] = np.where(
                total > 0, sums[self.states] / np.where(total > 0, total, 1.0), own
            )
        for kind, at in self._numeric():
            mass = sums[at]
            moments = [sums[at + i] / np.where(mass > 0, mass, 1.0) for i in range(1, WIDTH[kind])]
            moments = [
                np.where(mass > 0, moment, self.profile[at + i, None])
                for i, moment in enumerate(moments, start=1)
            ]
            if kind == "count":
                found["rates"] = moments[0]
                continue
            own = self.of_kind(kind)
            variances = moments[1] - moments[0] ** 2
            if (variances < LEAST_VARIANCE).any():
                column, component = (int(place) for place in np.argwhere(variances < LEAST_VARIANCE)[0])
                raise CollapseError(
                    f"the variance of {self.columns[own[column]].name!r} in class {component} has shrunk to 0, which "
                    "smoothing above 0 prevents",
                    component=component,
                )
            found["means"] = self.centre[own, None] + self.spread[own, None] * moments[0]
            found["variances"] = self.spread[own, None] ** 2 * variances
        return found

    def _numeric(self) -> Iterator[tuple[str, Array]]:
        for kind in WIDTH:
            at = self.starts(kind)
            if len(at):
                yield kind, at
