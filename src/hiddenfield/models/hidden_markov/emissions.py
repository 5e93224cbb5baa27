# ruff: noqa: D102 (what the methods of each emission do is said once, in `Emission`)
r"""What states emit: symbols, counts, and numbers, each column given the state and any of them missing.

.. math:: p(x \mid z = k) = \prod_{j \text{ symbol}} p_{jk}(x_j)\, \prod_{j \text{ count}} \mathrm{Poisson}(x_j;
    \lambda_{kj})\, \sum_m w_{km} N(x; \mu_{km}, \Sigma_{km})

A block of columns of one kind is an `Emission`; missing cells are summed or integrated out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
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
from hiddenfield.shapes import Array, Float, Int


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
    """Columns of symbols: ``probabilities.NAME`` (states, symbols) of each, with one Dirichlet prior for all states.

    All columns of a row are looked up, and counted, by one product with a sparse matrix of ones.

    Parameters
    ----------
    described, columns
        What the columns hold, and which these are.
    num_states
        How many states there are.
    concentrations
        Of the priors of the columns: one number for all, or for each column a number, or one for each symbol.
    """

    described: tuple[TableColumn, ...]
    columns: tuple[int, ...]
    num_states: int
    concentrations: float | Sequence[Any] = 1.0

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(f"probabilities.{column.name}" for column in self.described)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many symbols each column has."""
        return tuple(column.num_states for column in self.described)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        given = self.concentrations
        each: Any = [given] * len(self.keys) if isinstance(given, Real) else given
        return tuple(
            Probabilities(key, own, np.ones((self.num_states, size), dtype=bool))
            for key, own, size in zip(self.keys, each, self.sizes, strict=True)
        )

    def _counts(self, rows: Rows, owners: Array) -> list[Float[Array, "symbols states"]]:
        """Return for each column the mass of each symbol, and last that of the rows that miss it."""
        counts = rows.indicators(self.sizes).T @ owners
        return np.split(counts, np.cumsum(np.array(self.sizes) + 1)[:-1])

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        counts = [own[:-1].T for own in self._counts(rows, owners)]
        smooth = [own + 0.1 * own.sum() / max(own.size, 1) + 1e-3 for own in counts]
        return {key: dirichlet.mean(own) for key, own in zip(self.keys, smooth, strict=True)}

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        stacked = []
        for key in self.keys:
            own = parameters[key].T
            stacked += [own, own.max(axis=0, keepdims=True) if mode else np.ones((1, self.num_states))]
        with np.errstate(divide="ignore"):
            logs, places = np.log(np.concatenate(stacked)), rows.indicators(self.sizes)
        # A single column is looked up in two thirds of the time that the product takes.
        return logs.take(places.indices, axis=0) if len(self.sizes) == 1 else places @ logs

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        found = {}
        for key, counts in zip(self.keys, self._counts(rows, owners), strict=True):
            found[key] = np.ascontiguousarray(counts[:-1].T)
            if fill.kind == "mode":
                found[key][np.arange(self.num_states), parameters[key].argmax(axis=1)] += counts[-1]
        return found

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        drawn = [draw_rows(parameters[key][states], generator) for key in self.keys]
        return np.stack(drawn, axis=1).astype(np.float64)

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        nothing = np.full((self.num_states, len(self.keys)), np.nan)
        return nothing, nothing

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        chosen = []
        for key in self.keys:
            law = owners @ parameters[key]
            chosen.append(law.argmax(1) if generator is None else draw_rows(law, generator))
        return np.where(rows.missing, np.stack(chosen, axis=1), rows.values)


@dataclass(frozen=True, eq=False)
class Events:
    r"""Columns of counts: ``rates`` (states, columns) of Poisson distributions.

    Parameters
    ----------
    columns
        Which these are.
    means
        Of the columns.
    strength
        How many rows with the mean count each state has seen before, as it were: the prior is
        :math:`\lambda^{s m} e^{-s \lambda}`. None for no prior in EM, and for the Bayesian fills
        :math:`\lambda \sim \mathrm{Gamma}(1, 1 / m)`.
    """

    columns: tuple[int, ...]
    means: Float[Array, " columns"]
    strength: float | None = None

    def start(self, rows: Rows, owners: Array, generator: np.random.Generator) -> Arrays:
        found = self.statistics(rows, owners, {}, Fill())
        mean = np.maximum(self.means, 1e-3)
        return {"rates": (found["events"] + 0.1 * mean) / (found["exposure"] + 0.1)}

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        from scipy.special import gammaln

        rates, there = parameters["rates"].T, (~rows.missing).astype(float)
        seen = np.where(rows.missing, 0.0, rows.values)
        # Where a rate is 0 a count above it is impossible.
        logs = np.log(np.where(rates > 0, rates, 1.0))
        total = seen @ logs - there @ (rates - parameters.get("rate_factors", np.zeros_like(rates.T)).T)
        total -= gammaln(seen + 1).sum(1, keepdims=True)
        if (rates <= 0).any():
            total[(seen > 0).astype(float) @ (rates <= 0) > 0] = -np.inf
        return total

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        here = ~rows.missing
        return {
            "events": owners.T @ np.where(here, rows.values, 0.0),
            "exposure": owners.T @ here.astype(float),
        }

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        strength = self.strength or 0.0
        exposure = statistics["exposure"] + strength
        events = statistics["events"] + strength * self.means
        rates = np.divide(events, exposure, out=parameters["rates"].copy(), where=exposure > 1e-300)
        return {"rates": rates}

    def log_prior(self, parameters: Arrays) -> float:
        if not self.strength:
            return 0.0
        rates = np.maximum(parameters["rates"], 1e-300)
        return self.strength * float((self.means * np.log(rates) - rates).sum())

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Array:
        strength = self.strength or 0.0
        rates, exposure = parameters["rates"], statistics["exposure"] + strength
        return (statistics["events"] + strength * self.means - exposure * rates).reshape(-1)

    def as_vector(self, parameters: Arrays) -> Array:
        return np.log(np.maximum(parameters["rates"], 1e-300)).reshape(-1)

    def from_vector(self, vector: Array, parameters: Arrays) -> Arrays:
        before = parameters["rates"]
        return {"rates": np.where(before > 0, np.exp(vector).reshape(before.shape), 0.0)}

    @property
    def _prior(self) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
        """Shape and rate of the prior of the Bayesian fills."""
        if self.strength is None:
            return np.ones(len(self.means)), 1 / np.maximum(self.means, 1e-3)
        return 1 + self.strength * self.means, np.full(len(self.means), self.strength)

    def posterior(self, statistics: Arrays) -> Arrays:
        shape, rate = self._prior
        return {"shape": shape + statistics["events"], "rate": rate + statistics["exposure"]}

    def plug_in(self, posterior: Arrays) -> Arrays:
        from scipy.special import digamma

        rates = np.exp(digamma(posterior["shape"]) - np.log(posterior["rate"]))
        return {"rates": rates, "rate_factors": rates - posterior["shape"] / posterior["rate"]}

    def divergence(self, posterior: Arrays) -> float:
        from scipy.special import digamma, gammaln

        (shape, rate), (shape0, rate0) = (posterior["shape"], posterior["rate"]), self._prior
        value = (shape - shape0) * digamma(shape) - gammaln(shape) + gammaln(shape0)
        return float((value + shape0 * np.log(rate / rate0) + shape * (rate0 - rate) / rate).sum())

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
    components) are given the state, where there are several.
    """

    columns: tuple[int, ...]
    num_states: int
    num_components: int
    gaussians: Gaussians
    concentration: float = 1.0

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if self.num_components == 1:
            return (self.gaussians,)
        allowed = np.ones((self.num_states, self.num_components), dtype=bool)
        return self.gaussians, Probabilities("weights", self.concentration, allowed, "mass")

    def _weights(self, parameters: Arrays) -> Float[Array, "states components"]:
        return np.ones((self.num_states, 1)) if self.num_components == 1 else parameters["weights"]

    def _look(self, rows: Rows, parameters: Arrays) -> Iterator[Sight]:
        return look(rows, parameters["means"], parameters["covariances"], self.gaussians)

    def _joint(self, rows: Rows, parameters: Arrays) -> Float[Array, "rows states components"]:
        """Return the log joint density of each row and component, given the state."""
        found = np.empty((len(rows), len(parameters["means"])))
        for sight in self._look(rows, parameters):
            found[rows.patterns.order[sight.chosen]] = sight.log_densities(parameters).T
        joint = found.reshape(len(rows), self.num_states, -1)
        if self.num_components == 1:
            return joint
        with np.errstate(divide="ignore"):
            return joint + np.log(parameters["weights"])

    def log_density(
        self, rows: Rows, parameters: Arrays, *, mode: bool = False
    ) -> Float[Array, "rows states"]:
        joint = self._joint(rows, parameters)
        if self.num_components == 1:
            return joint[:, :, 0]
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
        found = self.gaussians.start(rows, flat)
        if count > 1:
            found["weights"] = dirichlet.mean(flat.sum(0).reshape(self.num_states, -1))
        return found

    def statistics(self, rows: Rows, owners: Array, parameters: Arrays, fill: Fill) -> Arrays:
        generator = fill.generator if fill.kind == "sample" else None
        shares = self._shares(rows, owners, parameters, generator)
        total: Arrays = {} if self.num_components == 1 else {"mass": shares.sum(0)}
        for sight in self._look(rows, parameters):
            own = np.ascontiguousarray(shares[rows.patterns.order[sight.chosen]].T)
            for name, value in sight.moments(own, None, generator).items():
                total[name] = total.get(name, 0.0) + value
        return total

    def _components(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        return states * self.num_components + draw_rows(self._weights(parameters)[states], generator)

    def sample(self, states: Array, parameters: Arrays, generator: np.random.Generator) -> Array:
        chosen = self._components(states, parameters, generator)
        matrices = self.gaussians.covariance_matrices(parameters["covariances"], len(parameters["means"]))
        noise = generator.standard_normal((len(states), len(self.columns)))
        roots = np.linalg.cholesky(matrices)[chosen]
        return parameters["means"][chosen] + np.einsum("nij,nj->ni", roots, noise)

    def expectation(self, parameters: Arrays) -> tuple[Array, Array]:
        weights, means = self._weights(parameters), parameters["means"]
        matrices = self.gaussians.covariance_matrices(parameters["covariances"], len(means))
        within, means = (
            each.reshape(*weights.shape, -1) for each in (np.diagonal(matrices, axis1=1, axis2=2), means)
        )
        mean = np.einsum("km,kmd->kd", weights, means)
        return mean, np.einsum("km,kmd->kd", weights, within + (means - mean[:, None]) ** 2)

    def fill_in(self, rows: Rows, owners: Array, parameters: Arrays, generator: Any) -> Array:
        noise = None if generator is None else generator.standard_normal(rows.values.shape)
        shares = self._shares(rows, owners, parameters, generator)
        return filled(rows, parameters, self.gaussians, shares, noise)


def group_cells(
    rows: Rows,
    columns: Sequence[TableColumn],
    weights: Array,
    groups: int,
    how: str,
    generator: Any,
    labels: Array | None = None,
) -> Int[Array, " rows"]:
    """Group rows by nearness: standardised numbers with holes at the mean, symbols as indicators."""
    parts = []
    for j, column in enumerate(columns):
        values, missing = rows.values[:, j, None], rows.missing[:, j, None]
        if column.vocabulary is not None:
            parts.append(np.where(missing, 0.0, values == np.arange(column.num_states)))
            continue
        present = values[~missing]
        scale = present.std() if len(present) and present.std() > 0 else 1.0
        parts.append(np.where(missing, 0.0, (values - (present.mean() if len(present) else 0.0)) / scale))
    return group_rows(np.concatenate(parts, axis=1), weights, groups, how, generator, labels)


def fill_cells(
    emissions: Sequence[Emission], values: Array, owners: Array, parameters: Arrays, generator: Any
) -> Float[Array, "rows columns"]:
    """Return all cells, holes filled by what is expected of the states that own the rows, or by draws."""
    out = values.copy()
    for emission in emissions:
        rows = Rows(out[:, emission.columns])
        out[:, emission.columns] = emission.fill_in(rows, owners, parameters, generator)
    return out


def sample_cells(
    emissions: Sequence[Emission], chosen: Int[Array, " rows"], parameters: Arrays, generator: Any
) -> Float[Array, "rows columns"]:
    """Draw a row for each state."""
    values = np.empty((len(chosen), sum(len(emission.columns) for emission in emissions)))
    for emission in emissions:
        values[:, emission.columns] = emission.sample(chosen, parameters, generator)
    return values
