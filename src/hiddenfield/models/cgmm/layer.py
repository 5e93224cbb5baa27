"""One layer of a contextual graph Markov model: a mixture whose weights depend on the frozen states of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.cgmm.context import Context, Shape
from hiddenfield.models.cgmm.loops import BLOCK, infer_states
from hiddenfield.shapes import Array, Float

CHUNK = 16 * BLOCK
"""Nodes whose responsibilities are held at once."""


class Emission(Protocol):
    """What a state says of a node's labels or attributes: one family of distributions for all states."""

    def log_density(self, values: Any, parameters: Arrays) -> Float[Array, "nodes states"]:
        """Return the log density of each node's values in each state; what is missing is summed out."""

    def statistics(
        self, values: Any, responsibilities: Float[Array, "nodes states"], parameters: Arrays
    ) -> Arrays:
        """Return the expected sufficient statistics, summed over the nodes."""

    def maximize(self, statistics: Arrays) -> Arrays:
        """Return the parameters that are best for the statistics and the prior."""

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the parameters, up to a constant."""

    def start(self, values: Any, states: int, generator: np.random.Generator) -> Arrays:
        """Return parameters to start from."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a layer learns from: values of nodes, what they see, and how often each pair of these occurs.

    Nodes with equal values that see the same may be held once, with their number as `counts`.
    """

    values: Any
    context: Context
    counts: Float[Array, " contexts"]

    def __len__(self) -> int:
        """Return the number of rows held."""
        return len(self.counts)


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
    emission
        The distribution of values given a state.
    smoothing
        What is added to every expected count of a transition.

    References
    ----------
    Bacciu, Errica & Micheli 2018, equations 1 to 5.
    """

    num_states: int
    shape: Shape
    emission: Emission
    smoothing: float = 1e-3

    def start(self, data: Seen, how: str, generator: np.random.Generator) -> Arrays:
        """Return random transitions, equal weights of labels and layers, and the emission's own start."""
        table = generator.dirichlet(np.ones(self.num_states), self.shape.num_rows)
        groups = self.shape.group[-1] + 1
        found = {"transition": table, "switch": np.full(groups, 1 / groups)}
        return found | self._prefixed(self.emission.start(data.values, self.num_states, generator))

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
            for name, value in self.emission.statistics(
                data.values[part], found, self._own(parameters)
            ).items():
                emitted[name] = emitted.get(name, 0.0) + value
        used[self.shape.absent] += totals
        transitions = np.maximum(used, 0.0) * self._table(parameters)
        return {
            "objective": np.float64(objective),
            "count": data.counts.sum(),
            "transition": transitions,
        } | self._prefixed(emitted)

    def _infer(
        self, data: Seen, part: slice, counts: Array, parameters: Arrays
    ) -> tuple[Array, Array, Array, Array]:
        """Return responsibilities times counts, log-likelihoods, and sums for transitions, of some of the nodes."""
        density = np.ascontiguousarray(self.emission.log_density(data.values[part], self._own(parameters)))
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
        emitted = {
            name.removeprefix("emission."): value
            for name, value in statistics.items()
            if name.startswith("emission.")
        }
        return {"transition": table, "switch": switch / switch.sum()} | self._prefixed(
            self.emission.maximize(emitted)
        )

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the Dirichlet priors that smoothing stands for."""
        smooth = self.smoothing * np.log(parameters["transition"]).sum() if self.smoothing else 0.0
        return float(smooth + self.emission.log_prior(self._own(parameters)))

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

    @staticmethod
    def _own(parameters: Arrays) -> Arrays:
        """Return the parameters of the emission."""
        return {
            name.removeprefix("emission."): value
            for name, value in parameters.items()
            if name.startswith("emission.")
        }

    @staticmethod
    def _prefixed(found: Arrays) -> Arrays:
        return {f"emission.{name}": value for name, value in found.items()}
