r"""Markov networks whose weights are learned from rows with holes and hidden variables.

.. math:: p(x) = \frac{1}{Z(\theta)} \exp\Bigl(\sum_k \theta_k f_k(x)\Bigr)

Given the hidden part, filled in by expectation, mode or sample, the likelihood is concave in the weights, with gradient
:math:`E[f_k \mid \text{data}] - N\, E_\theta[f_k]`: the M step climbs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.table import TableColumn
from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays
from hiddenfield.learning.maximum_likelihood import maximise
from hiddenfield.models.bayesian_network import CodedRows, LearnedTables
from hiddenfield.models.conditional_tables import FactorTables
from hiddenfield.models.parts import Part
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Term:
    """A part of a feature: a table over the states of some variables, which the feature's weight is multiplied by."""

    weight: str
    scope: tuple[int, ...]
    table: Array


@dataclass(frozen=True, eq=False)
class LogLinear(FactorTables):
    """The factors of a log-linear model: one for each set of variables that a term looks at.

    Parameters
    ----------
    variables
        Names and symbols.
    terms
        Of all features.
    """

    variables: tuple[TableColumn, ...]
    terms: tuple[Term, ...]

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The variables of each factor; each variable has one of its own, so that all are in the network."""
        alone = [(variable,) for variable in range(len(self.variables))]
        return [list(scope) for scope in dict.fromkeys([*alone, *(term.scope for term in self.terms)])]

    @cached_property
    def weights(self) -> tuple[str, ...]:
        """The names of the weights."""
        return tuple(dict.fromkeys(term.weight for term in self.terms))

    @cached_property
    def design(self) -> csr_matrix:
        """The matrix that makes the logarithms of all tables, end to end, of the weights."""
        from scipy.sparse import csr_matrix

        factor = {tuple(scope): begin for scope, begin in zip(self.scopes, self.bounds, strict=False)}
        number = {name: place for place, name in enumerate(self.weights)}
        parts = [
            (factor[term.scope] + np.arange(term.table.size), number[term.weight], term)
            for term in self.terms
        ]
        rows = np.concatenate([rows for rows, _, _ in parts])
        columns = np.concatenate([np.full(len(rows), column) for rows, column, _ in parts])
        values = np.concatenate([np.ravel(term.table) for _, _, term in parts]).astype(np.float64)
        return csr_matrix((values, (rows, columns)), (self.num_entries, len(self.weights)))


@dataclass(frozen=True, eq=False)
class LogLinearWeights:
    """The weights of a log-linear model, a `Part`: statistics are the expected counts of entries of tables."""

    model: LearnedMarkovNetwork

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Climb the likelihood of the filled rows from where the weights are."""
        objective = _Filled(self.model, statistics["entries"], float(statistics["count"]))
        return {"weights": maximise(objective, parameters["weights"], tolerance=1e-10).parameters}

    def log_prior(self, parameters: Arrays) -> float:
        """Return the penalty of the weights."""
        return -self.model.l2 / 2 * float(parameters["weights"] @ parameters["weights"])

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return expected counts less those that the weights make."""
        objective = _Filled(self.model, statistics["entries"], float(statistics["count"]))
        return objective.batch(parameters["weights"][None])[1][0]

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return the weights."""
        return parameters["weights"]

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters with these weights."""
        return {"weights": vector}

    def _refuse(self, *_: Any) -> Any:
        raise InputError(
            "a Markov network has no conjugate prior: use fill='expectation', 'mode' or 'sample'"
        )

    posterior = plug_in = divergence = draw = mean = _refuse


@dataclass(frozen=True, eq=False)
class _Filled:
    """The likelihood of filled rows as a function of the weights: an `Objective`."""

    model: LearnedMarkovNetwork
    entries: Float[Array, " entries"]
    count: float

    def batch(self, rows: Float[Array, "points weights"]) -> tuple[Array, Array]:
        """Return values and gradients."""
        model, design, values, gradients = self.model, self.model.network.design, [], []
        for row in rows:
            logs = design @ row
            log_partition, expected = model.totals(logs)
            values.append(self.entries @ logs - self.count * log_partition - model.l2 / 2 * row @ row)
            gradients.append(design.T @ (self.entries - self.count * expected) - model.l2 * row)
        return np.array(values), np.array(gradients)


@dataclass(frozen=True, eq=False)
class LearnedMarkovNetwork(LearnedTables):
    r"""A log-linear model, learned from rows; see `LearnedTables`.

    Parameters
    ----------
    network
        Variables and features.
    l2
        The penalty :math:`\tfrac{\lambda}{2} \lVert\theta\rVert^2`.
    inference
        "exact", or the name of another method of `hiddenfield.infer`.
    """

    network: LogLinear
    l2: float = 0.0
    inference: str = "exact"

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The weights."""
        return (LogLinearWeights(self),)

    def totals(self, logs: Float[Array, " entries"]) -> tuple[float, Float[Array, " entries"]]:
        """Return log Z and the expected counts of the entries of one row of which nothing is known."""
        top = np.maximum.reduceat(logs, self.network.bounds[:-1])
        scaled = np.exp(logs - np.repeat(top, np.diff(self.network.bounds)))
        values, counts = self._expected(scaled, np.full((1, len(self.network.states)), -1), np.ones(1))
        return float(values[0] + top.sum()), counts

    def tables(self, parameters: Arrays) -> Float[Array, " entries"]:
        """Return the exponentials of the weighted features; the first table is divided by Z."""
        logs = self.network.design @ parameters["weights"]
        logs[: self.network.bounds[1]] -= self.totals(logs)[0]
        return np.exp(logs)

    def start(self, data: CodedRows, how: str, generator: np.random.Generator) -> Arrays:
        """Return small random weights, which tell the states of hidden variables apart."""
        return {"weights": generator.normal(scale=0.1, size=len(self.network.weights))}
