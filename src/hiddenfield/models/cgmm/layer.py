"""One layer of a contextual graph Markov model: a mixture whose weights depend on the frozen states of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.starts import group_rows
from hiddenfield.models import dirichlet
from hiddenfield.models.cgmm.context import Context, Shape
from hiddenfield.models.cgmm.loops import BLOCK, infer_states
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers
from hiddenfield.shapes import Array, Float

CHUNK = 16 * BLOCK
"""Nodes whose responsibilities are held at once."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a layer learns from: values of nodes, what they see, and how often each pair of these occurs.

    Nodes with equal values that see the same may be held once, with their number as `counts`. Values are codes of
    symbols and numbers, NaN where missing.
    """

    values: Float[Array, "contexts columns"]
    context: Context
    counts: Float[Array, " contexts"]

    def __len__(self) -> int:
        """Return the number of rows held."""
        return len(self.counts)

    def block(self, columns: Sequence[int], part: slice = slice(None)) -> Rows:
        """Return some columns of some rows."""
        return Rows(np.ascontiguousarray(self.values[part][:, list(columns)]), self.counts[part])


@dataclass(frozen=True, eq=False)
class ContextLayer:
    r"""A layer, given the frozen states :math:`q` of the layers below.

    .. math::

        P(y_u \mid q) = \sum_i P(y_u \mid Q = i) \sum_{l, a} P(L = l) P^l(S = a)
            \begin{cases}
                \frac{1}{|Ne^a(u)|} \sum_{v \in Ne^a(u)} P^{l,a}(Q = i \mid q_v) & Ne^a(u) \ne \emptyset \\
                P^{l,a}(Q = i \mid \text{none}) & \text{else}
            \end{cases}

    Where no neighbour is along arcs of a label, "none" stands for its state: then the terms sum to one for every node,
    and counting is the exact M step of the likelihood that is reported. A first layer is a mixture.

    Parameters
    ----------
    num_states
        States of a node.
    shape
        Of the transition table.
    emissions
        What a state says of a node's labels and attributes, a block of columns each; missing values are summed out.
    smoothing
        What is added to every expected count of a transition.

    References
    ----------
    Bacciu, Errica & Micheli 2018, equations 1 to 5.
    """

    num_states: int
    shape: Shape
    emissions: Sequence[Emission]
    smoothing: float = 1e-3

    def start(self, data: Seen, how: str, generator: np.random.Generator) -> Arrays:
        """Return random transitions, equal weights of labels and layers, and emissions of grouped or shared nodes.

        Nodes with numbers are grouped by nearness; those with symbols alone are shared at random among all states.
        """
        table = generator.dirichlet(np.ones(self.num_states), self.shape.num_rows)
        groups = self.shape.group[-1] + 1
        found = {"transition": table, "switch": np.full(groups, 1 / groups)}
        numbers = [emission for emission in self.emissions if isinstance(emission, Numbers)]
        if numbers:
            rows = np.nan_to_num(data.block(numbers[0].columns).values)
            group = group_rows(rows, data.counts, self.num_states, "auto", generator)
            owners = 0.9 * np.eye(self.num_states)[group] + 0.1 / self.num_states
        else:
            owners = generator.dirichlet(np.ones(self.num_states), len(data))
        owners = owners * data.counts[:, None]
        for emission in self.emissions:
            found |= emission.start(data.block(emission.columns), owners, generator)
        return found

    def expected_statistics(self, data: Seen, parameters: Arrays, fill: Fill) -> Arrays:
        """Return expected counts of transitions, by row, and what the emission counts (the E step)."""
        if fill.kind != "expectation":
            raise InputError(f"a layer is learned with fill='expectation', got {fill.kind!r}")
        used = np.zeros((self.shape.num_rows, self.num_states))
        totals, objective = np.zeros(self.num_states), 0.0
        emitted: Arrays = {}
        for start in range(0, len(data), CHUNK):
            part = slice(start, start + CHUNK)
            counts = data.counts[part]
            found, log_likelihood, own, total = self._infer(data, part, counts, parameters)
            used, totals = used + own, totals + total
            objective += float(counts @ log_likelihood)
            for emission in self.emissions:
                rows = data.block(emission.columns, part)
                for name, value in emission.statistics(rows, found, parameters, fill).items():
                    emitted[name] = emitted.get(name, 0.0) + value
        used[self.shape.absent] += totals
        transitions = np.maximum(used, 0.0) * self._table(parameters)
        return {
            "objective": np.asarray(objective),
            "count": np.asarray(data.counts.sum()),
            "transition": transitions,
        } | emitted

    def _infer(
        self, data: Seen, part: slice, counts: Array, parameters: Arrays
    ) -> tuple[Array, Array, Array, Array]:
        """Return responsibilities times counts, log-likelihoods, and sums for transitions, of some of the nodes."""
        density = np.zeros((len(data.counts[part]), self.num_states))
        for emission in self.emissions:
            density += emission.log_density(data.block(emission.columns, part), parameters)
        blocks, table = -(-len(density) // BLOCK), self._table(parameters)
        found, log_likelihood = np.empty_like(density), np.empty(len(density))
        used = np.zeros((blocks, self.shape.num_rows, self.num_states))
        totals = np.zeros((blocks, self.num_states))
        infer_states(
            data.context.ptr[part.start : part.start + len(density) + 1],
            data.context.rows,
            data.context.weights,
            table,
            table[self.shape.absent].sum(axis=0),
            density,
            np.ascontiguousarray(counts, np.float64),
            found,
            log_likelihood,
            used,
            totals,
            work=density.size,
        )
        return found, log_likelihood, used.sum(axis=0), totals.sum(axis=0)

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return normalised counts."""
        counts = statistics["transition"]
        smoothed = counts + self.smoothing
        total = smoothed.sum(axis=1, keepdims=True)
        table = np.divide(smoothed, total, out=parameters["transition"].copy(), where=total > 0)
        switch = np.bincount(self.shape.group, counts.sum(axis=1))
        found = {"transition": table, "switch": switch / switch.sum()}
        for emission in self.emissions:
            found |= emission.maximize(statistics, parameters)
        return found

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the Dirichlet priors that smoothing stands for, and of those of the emissions."""
        smooth = self.smoothing * np.log(parameters["transition"]).sum() if self.smoothing else 0.0
        return float(smooth + sum(emission.log_prior(parameters) for emission in self.emissions))

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return log ratios of probabilities, and the coordinates of the emissions."""
        parts = [
            dirichlet.as_ratios(rows, np.ones(rows.shape, bool))
            for rows in (parameters["transition"], parameters["switch"][None])
        ]
        return np.concatenate([*parts, *(emission.as_vector(parameters) for emission in self.emissions)])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters at these coordinates."""
        table, switch = parameters["transition"], parameters["switch"]
        sizes = [table.size - len(table), len(switch) - 1]
        sizes += [len(emission.as_vector(parameters)) for emission in self.emissions]
        first, second, *own = np.split(vector, np.cumsum(sizes)[:-1])
        found = {"transition": dirichlet.from_ratios(first, table, np.ones(table.shape, bool))}
        found["switch"] = dirichlet.from_ratios(second, switch[None], np.ones((1, len(switch)), bool))[0]
        for emission, part in zip(self.emissions, own, strict=True):
            found |= emission.from_vector(part, parameters)
        return found

    def infer(
        self, data: Seen, parameters: Arrays
    ) -> tuple[Float[Array, "nodes states"], Float[Array, " nodes"]]:
        """Return the probabilities of each node's states given its values and what it sees, and its log-likelihood."""
        found, log_likelihood = np.empty((len(data), self.num_states)), np.empty(len(data))
        for start in range(0, len(data), CHUNK):
            part = slice(start, start + CHUNK)
            ones = np.ones(len(data.counts[part]))
            found[part], log_likelihood[part], _, _ = self._infer(data, part, ones, parameters)
        return found, log_likelihood

    def _table(self, parameters: Arrays) -> Float[Array, "rows states"]:
        """Return transitions times the weights of their layer and label."""
        return np.ascontiguousarray(parameters["transition"] * parameters["switch"][self.shape.group, None])
