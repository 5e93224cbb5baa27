# ruff: noqa: D102 (what the methods of each emission do is said once, in `Emission`)
r"""What states emit: symbols, counts, and numbers, each column given the state and any of them missing.

.. math:: p(x \mid z = k) = \prod_{j \text{ symbol}} p_{jk}(x_j)\, \prod_{j \text{ count}} \mathrm{Poisson}(x_j;
    \lambda_{kj})\, \sum_m w_{km} N(x; \mu_{km}, \Sigma_{km})

A block of columns of one kind is an `Emission`; missing cells are summed or integrated out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.data.table import TableColumn
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import group_rows
from hiddenfield.models import dirichlet
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.gaussian_rows import Sight, filled, look
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.models.parts import Composed, Part
from hiddenfield.models.responsibilities import draw_rows, log_sum
from hiddenfield.shapes import Array, Float


@runtime_checkable
class Emission(Part, Protocol):
    """One block of columns: a part of a model, and what it says of rows and of the states that these are in.

    Rows are those of these columns alone, NaN where missing; parameters and statistics are arrays by name.
    """

    @property
    def columns(self) -> tuple[int, ...]:
        """Which columns of the table it has."""

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        """Return parameters from shares of the states in each row."""

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        """Return the log-likelihood of what each row has, in each state; with `mode` a missing symbol is the best."""

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        """Return expected statistics; with "sample" each row is of one state."""

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        """Draw a row for each state."""

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        """Return the mean and the variance of each column in each state."""

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        """Return the rows with holes filled by means (symbols: the likeliest), or with a generator by draws."""


@dataclass(frozen=True, eq=False)
class Symbols(Composed):
    """One column of symbols: ``probabilities.NAME`` (states, symbols), with one Dirichlet prior for all states."""

    column: TableColumn
    columns: tuple[int, ...]
    num_states: int
    concentration: float = 1.0

    @property
    def key(self) -> str:
        """The name of the parameters."""
        return f"probabilities.{self.column.name}"

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        allowed = np.ones((self.num_states, self.column.num_states), dtype=bool)
        return (Probabilities(self.key, self.concentration, allowed),)

    def _counts(self, rows: Rows, owners: Array) -> Float[Array, "states symbols"]:
        from scipy.sparse import csc_matrix

        here = ~rows.missing[:, 0]
        codes = rows.values[here, 0].astype(np.int32)
        shape = (self.column.num_states, len(codes))
        which = csc_matrix((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=shape)
        return np.ascontiguousarray((which @ (owners if rows.complete else owners[here])).T)

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        counts = self._counts(rows, owners)
        return {self.key: dirichlet.mean(counts + 0.1 * counts.sum() / max(counts.size, 1) + 1e-3)}

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        with np.errstate(divide="ignore"):
            logs = np.log(parameters[self.key]).T
        lost = logs.max(axis=0) if mode else np.zeros(logs.shape[1])
        logs = np.concatenate([logs, lost[None]])
        return logs[np.where(rows.missing[:, 0], len(logs) - 1, rows.values[:, 0]).astype(np.int64)]

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        counts = self._counts(rows, owners)
        if fill.kind == "mode":
            likeliest = parameters[self.key].argmax(axis=1)
            counts[np.arange(len(counts)), likeliest] += owners[rows.missing[:, 0]].sum(axis=0)
        return {self.key: counts}

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        return draw_rows(parameters[self.key][states], generator)[:, None].astype(np.float64)

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        nothing = np.full((self.num_states, 1), np.nan)
        return nothing, nothing

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        law = owners @ parameters[self.key]
        chosen = law.argmax(1) if generator is None else draw_rows(law, generator)
        return np.where(rows.missing, chosen[:, None], rows.values)


@dataclass(frozen=True, eq=False)
class Events:
    r"""Columns of counts: ``rates`` (states, columns) of Poisson distributions.

    EM has no prior; the Bayesian fills have :math:`\lambda \sim \mathrm{Gamma}(1, 1 / \text{mean of the column})`.
    """

    columns: tuple[int, ...]
    means: Float[Array, " columns"]

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        found = self.statistics(rows, owners, {}, Fill())
        mean = np.maximum(self.means, 1e-3)
        return {"rates": (found["events"] + 0.1 * mean) / (found["exposure"] + 0.1)}

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        from scipy.special import gammaln, xlogy

        rates, total = parameters["rates"], np.zeros((len(rows), len(parameters["rates"])))
        factors = parameters.get("rate_factors", np.zeros_like(rates))
        for column in range(rates.shape[1]):
            here = ~rows.missing[:, column]
            seen = rows.values[here, column, None]
            terms = xlogy(seen, rates[:, column]) - rates[:, column] - gammaln(seen + 1)
            total[here] += terms + factors[:, column]
        return total

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        here = ~rows.missing
        return {
            "events": owners.T @ np.where(here, rows.values, 0.0),
            "exposure": owners.T @ here.astype(float),
        }

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        exposure = statistics["exposure"]
        there = exposure > 1e-300
        rates = np.divide(statistics["events"], exposure, out=parameters["rates"].copy(), where=there)
        return {"rates": rates}

    def log_prior(self, parameters: Arrays) -> float:
        return 0.0

    def as_vector(self, parameters: Arrays) -> Array:
        return np.log(np.maximum(parameters["rates"], 1e-300)).reshape(-1)

    def from_vector(self, vector: Array, parameters: Arrays) -> Arrays:
        before = parameters["rates"]
        return {"rates": np.where(before > 0, np.exp(vector).reshape(before.shape), 0.0)}

    @property
    def _rate(self) -> Float[Array, " columns"]:
        return 1 / np.maximum(self.means, 1e-3)

    def posterior(self, statistics: Arrays) -> Arrays:
        return {"shape": 1 + statistics["events"], "rate": self._rate + statistics["exposure"]}

    def plug_in(self, posterior: Arrays) -> Arrays:
        from scipy.special import digamma

        rates = np.exp(digamma(posterior["shape"]) - np.log(posterior["rate"]))
        return {"rates": rates, "rate_factors": rates - posterior["shape"] / posterior["rate"]}

    def divergence(self, posterior: Arrays) -> float:
        from scipy.special import digamma, gammaln

        shape, rate, prior = posterior["shape"], posterior["rate"], self._rate
        own = np.log(rate) - gammaln(shape) + (shape - 1) * (digamma(shape)) - shape
        # Under the prior, whose shape is 1, only the mean matters.
        return float((own - np.log(prior) + shape * prior / rate).sum())

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        return {"rates": generator.gamma(posterior["shape"]) / posterior["rate"]}

    def mean(self, posterior: Arrays) -> Arrays:
        return {"rates": posterior["shape"] / posterior["rate"]}

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        return generator.poisson(parameters["rates"][states]).astype(np.float64)

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        return parameters["rates"], parameters["rates"]

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        if generator is None:
            return np.where(rows.missing, owners @ parameters["rates"], rows.values)
        return np.where(rows.missing, self.sample(owners.argmax(1), parameters, generator), rows.values)


@dataclass(frozen=True, eq=False)
class Numbers(Composed):
    r"""Columns of numbers: each state has one Gaussian or a mixture of several.

    Component m of state k is number ``k * num_components + m`` of ``means`` and ``covariances``; ``weights`` (states,
    components) are given the state.
    """

    columns: tuple[int, ...]
    num_states: int
    num_components: int
    gaussians: Gaussians
    concentration: float = 1.0

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        allowed = np.ones((self.num_states, self.num_components), dtype=bool)
        return self.gaussians, Probabilities("weights", self.concentration, allowed, "mass")

    def _look(self, rows: Rows, parameters: Arrays) -> Iterator[Sight]:
        return look(rows, parameters["means"], parameters["covariances"], self.gaussians)

    def _joint(self, rows: Rows, parameters: Arrays) -> Float[Array, "rows states components"]:
        """Return the log joint density of each row and component, given the state."""
        found = np.empty((len(rows), len(parameters["means"])))
        for sight in self._look(rows, parameters):
            found[rows.patterns.order[sight.chosen]] = sight.log_densities().T
        found += parameters.get("log_factors", 0.0)  # of variational Bayes
        with np.errstate(divide="ignore"):
            return found.reshape(len(rows), self.num_states, -1) + np.log(parameters["weights"])

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        joint = self._joint(rows, parameters)
        return log_sum(joint.reshape(-1, self.num_components)).reshape(joint.shape[:2])

    def _shares(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        """Divide what each row is of a state among this state's components."""
        if self.num_components == 1:
            return owners
        joint = self._joint(rows, parameters).reshape(-1, self.num_components)
        shares = np.exp(joint - log_sum(joint)[:, None])
        if generator is not None:
            shares = np.eye(self.num_components)[draw_rows(shares, generator)]
        return (shares * owners.reshape(-1, 1)).reshape(len(rows), -1)

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        centre, spread, count = self.gaussians.centre, self.gaussians.spread, self.num_components
        scaled = np.where(rows.missing, 0.0, (rows.values - centre) / spread)
        shares = np.zeros((len(rows), self.num_states, count))
        state, weights = owners.argmax(1), owners.sum(1)
        for k in range(self.num_states):
            own = np.flatnonzero((state == k) & (weights > 0))
            groups: Any = 0
            if count > 1 and len(own):
                groups = group_rows(scaled[own], weights[own], count, "auto", generator)
            shares[own, k, groups] = 1.0
        # A little of every row keeps states and components from being empty.
        flat = (0.98 * shares + 0.02 / shares[0].size).reshape(len(rows), -1) * weights[:, None]
        law = dirichlet.mean(flat.sum(0).reshape(self.num_states, -1))
        return {"weights": law, **self.gaussians.start(rows, flat)}

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        generator = fill.generator if fill.kind == "sample" else None
        shares = self._shares(rows, owners, parameters, generator)
        first: Any = 0.0
        second: Any = 0.0
        for sight in self._look(rows, parameters):
            own = np.ascontiguousarray(shares[rows.patterns.order[sight.chosen]].T)
            sums = sight.moments(own, None, generator)
            first, second = first + sums[0], second + sums[1]
        return {"mass": shares.sum(0), "first": np.asarray(first), "second": np.asarray(second)}

    def _components(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        return states * self.num_components + draw_rows(parameters["weights"][states], generator)

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        chosen = self._components(states, parameters, generator)
        matrices = self.gaussians.covariance_matrices(parameters["covariances"], len(parameters["means"]))
        noise = generator.standard_normal((len(states), len(self.columns)))
        roots = np.linalg.cholesky(matrices)[chosen]
        return parameters["means"][chosen] + np.einsum("nij,nj->ni", roots, noise)

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        weights, means = parameters["weights"], parameters["means"]
        matrices = self.gaussians.covariance_matrices(parameters["covariances"], len(means))
        squares = np.diagonal(matrices, axis1=1, axis2=2) + means**2
        shape = (*weights.shape, -1)
        mean = np.einsum("km,kmd->kd", weights, means.reshape(shape))
        return mean, np.einsum("km,kmd->kd", weights, squares.reshape(shape)) - mean**2

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        noise = None if generator is None else generator.standard_normal(rows.values.shape)
        shares = self._shares(rows, owners, parameters, generator)
        return filled(rows, parameters, self.gaussians, shares, noise)
