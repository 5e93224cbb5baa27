"""One layer of a contextual graph Markov model: a mixture whose weights depend on the frozen states of neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.linear import equal_columns
from hiddenfield.learning.starts import group_rows
from hiddenfield.models import dirichlet
from hiddenfield.models.cgmm.context import Context, Shape, States
from hiddenfield.models.dirichlet import Probabilities
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers, Symbols
from hiddenfield.models.parts import Composed, Part
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Float, Int

BLOCK = 4096
"""Nodes whose statistics are added by one thread, in order; so the sums are the same for any number of threads."""

CHUNK = 16 * BLOCK
"""Nodes whose responsibilities are held at once."""

SHARING = 0.2
"""Concentration of the Dirichlet distribution by which equal nodes are shared among states at the start."""

MOST_AT_START = 2**17
"""Nodes that the first emissions are found from; of more, so many at random."""

MOST_COMPARED = 2**20
"""Nodes that are compared with each other at once."""


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

    def take(self, chosen: Int[Array, " chosen"] | slice) -> Seen:
        """Return some of the rows, in that order."""
        context = Context.of(self.context.shape, self.context.matrix[chosen])
        return Seen(self.values[chosen], context, self.counts[chosen])

    def merged(self) -> Seen:
        """Hold equal rows once; where they are too many to be compared at once, and most differ, leave them."""
        from scipy.sparse import vstack

        parts, most = list[Seen](), MOST_COMPARED
        for end in range(most, len(self) + most, most):
            parts.append(self.take(slice(end - most, end))._distinct())
            if len(self) > most and 2 * sum(map(len, parts)) > end:
                return self
        if len(parts) == 1:
            return parts[0]
        values, counts = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("values", "counts")
        )
        matrix = vstack([one.context.matrix for one in parts], format="csr")
        return Seen(values, Context.of(self.context.shape, matrix), counts)._distinct()

    def _distinct(self) -> Seen:
        from scipy.sparse import csr_matrix, hstack

        whole = hstack([csr_matrix(self.values), self.context.matrix], format="csr")
        numbers, first = equal_columns(whole.T)
        return replace(self.take(first), counts=np.bincount(numbers, self.counts))


@dataclass(frozen=True, eq=False)
class ContextLayer(Composed):
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

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Transitions, weights of layers and labels, and the emissions."""
        rows = np.ones((self.shape.num_rows, self.num_states), dtype=bool)
        pairs = np.ones(self.shape.group[-1] + 1, dtype=bool)
        return (
            Probabilities("transition", 1 + self.smoothing, rows),
            Probabilities("switch", 1.0, pairs),
            *self.emissions,
        )

    def start(self, data: Seen, how: str, generator: np.random.Generator) -> Arrays:
        """Return random transitions, equal weights of labels and layers, and emissions of grouped or shared nodes.

        Nodes with numbers are grouped by nearness; those with symbols alone are shared among a few states at random,
        equal ones alike, so that rare symbols have states of their own too.
        """
        if len(data) > MOST_AT_START:
            data = data.take(generator.choice(len(data), MOST_AT_START, replace=False))
        numbers = [emission for emission in self.emissions if isinstance(emission, Numbers)]
        if numbers:
            rows = np.nan_to_num(data.block(numbers[0].columns).values)
            group = group_rows(rows, data.counts, self.num_states, "auto", generator)
            shares = np.eye(self.num_states)[group]
        else:
            kinds, kind = np.unique(np.nan_to_num(data.values, nan=-1.0), axis=0, return_inverse=True)
            shares = generator.dirichlet(np.full(self.num_states, SHARING), len(kinds))[kind.reshape(-1)]
        owners = (0.95 * shares + 0.05 / self.num_states) * data.counts[:, None]
        table = generator.dirichlet(np.ones(self.num_states), self.shape.num_rows)
        groups = self.shape.group[-1] + 1
        found = {"transition": table, "switch": np.full(groups, 1 / groups)}
        if not self.shape.below:
            found["transition"] = dirichlet.mean(owners.sum(axis=0, keepdims=True))
        for emission in self.emissions:
            block = data.block(emission.columns)
            found |= emission.start(block, owners, generator)
            if isinstance(emission, Symbols):
                for key, counts in emission.statistics(block, owners, found, Fill()).items():
                    found[key] = dirichlet.mean(counts + 1e-6)
        return found

    def expected_statistics(self, data: Seen, parameters: Arrays, fill: Fill) -> Arrays:
        """Return expected counts of transitions, by row, and what the emission counts (the E step)."""
        if fill.kind != "expectation":
            raise InputError(f"a layer is learned with fill='expectation', got {fill.kind!r}")
        used = np.zeros((self.shape.num_rows, self.num_states))
        objective, emitted = 0.0, dict[str, Any]()
        for part, found, log_likelihood, own in self._inferred(data, data.counts, parameters):
            used += own
            # Not a product of vectors, after which a thread of BLAS would wait, busy, for the next one.
            objective += float((data.counts[part] * log_likelihood).sum())
            for emission in self.emissions:
                rows = data.block(emission.columns, part)
                for name, value in emission.statistics(rows, found, parameters, fill).items():
                    emitted[name] = emitted.get(name, 0.0) + value
        transitions = np.maximum(used, 0.0) * self._table(parameters)
        return {
            "objective": np.asarray(objective),
            "count": np.asarray(data.counts.sum()),
            "transition": transitions,
            "switch": np.bincount(self.shape.group, transitions.sum(axis=1)),
        } | emitted

    def infer(self, data: Seen, parameters: Arrays, *, soft: bool) -> tuple[States, Float[Array, " nodes"]]:
        """Return the most likely state of each node, or with `soft` the probabilities of all, and log-likelihoods."""
        log_likelihood = np.empty(len(data))
        shape = (len(data), self.num_states) if soft else (len(data),)
        states = np.empty(shape, np.float64 if soft else np.int32)
        for part, found, own, _ in self._inferred(data, np.ones(len(data)), parameters):
            states[part], log_likelihood[part] = found if soft else found.argmax(axis=1), own
        return states, log_likelihood

    def _inferred(
        self, data: Seen, counts: Float[Array, " nodes"], parameters: Arrays
    ) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Yield a part of the nodes, their responsibilities times counts, log-likelihoods, and sums for transitions."""
        table, absent = self._table(parameters), self.shape.absent
        base = table[absent].sum(axis=0)
        for start in range(0, len(data), CHUNK):
            part = slice(start, min(start + CHUNK, len(data)))
            density = np.zeros((part.stop - start, self.num_states))
            for emission in self.emissions:
                density += emission.log_density(data.block(emission.columns, part), parameters)
            blocks = -(-len(density) // BLOCK)
            found, log_likelihood = np.empty_like(density), np.empty(len(density))
            used, totals = np.zeros((blocks, *table.shape)), np.zeros((blocks, self.num_states))
            infer_states(
                data.context.ptr[start : part.stop + 1],
                data.context.rows,
                data.context.weights,
                table,
                base,
                density,
                counts[part],
                found,
                log_likelihood,
                used,
                totals,
                work=density.size,
            )
            own = used.sum(axis=0)
            own[absent] += totals.sum(axis=0)
            yield part, found, log_likelihood, own

    def _table(self, parameters: Arrays) -> Float[Array, "rows states"]:
        """Return transitions times the weights of their layer and label."""
        return np.ascontiguousarray(parameters["transition"] * parameters["switch"][self.shape.group, None])


@compiled(fast=True)
def infer_states(
    ptr: Array,
    rows: Array,
    weights: Array,
    table: Array,
    base: Array,
    log_density: Array,
    counts: Array,
    responsibilities: Array,
    log_likelihood: Array,
    used: Array,
    totals: Array,
) -> None:
    r"""Compute the posterior of the state of each node, and sums for the expected counts.

    With :math:`p_{ui} = b_i + \sum_e w_e T_{r_e i}`, responsibilities are :math:`\propto p_{ui} P(y_u \mid i)`; `used`
    gets :math:`\sum_u n_u w_e P(y_u \mid i) / Z_u` for each row and state, by block, and `totals` the
    same with weight 1.
    """
    nodes, states = log_density.shape
    for block in prange((nodes + BLOCK - 1) // BLOCK):
        ratio = np.empty(states)
        for node in range(block * BLOCK, min(nodes, (block + 1) * BLOCK)):
            prior = responsibilities[node]
            for i in range(states):
                prior[i] = base[i]
            for entry in range(ptr[node], ptr[node + 1]):
                row, weight = rows[entry], weights[entry]
                for i in range(states):
                    prior[i] += weight * table[row, i]
            peak = -np.inf
            for i in range(states):
                prior[i] = max(prior[i], 0.0)
                if prior[i] > 0.0:
                    peak = max(peak, log_density[node, i])
            if peak == -np.inf:
                peak = 0.0
            total = 0.0
            for i in range(states):
                ratio[i] = math.exp(
                    min(log_density[node, i] - peak, 0.0)
                )  # above it only where the prior is 0
                prior[i] *= ratio[i]
                total += prior[i]
            log_likelihood[node] = math.log(total) + peak if total > 0 else -np.inf
            scale = counts[node] / total if total > 0 else 0.0
            for i in range(states):
                prior[i] *= scale
                ratio[i] *= scale
                totals[block, i] += ratio[i]
            for entry in range(ptr[node], ptr[node + 1]):
                row, weight = rows[entry], weights[entry]
                for i in range(states):
                    used[block, row, i] += weight * ratio[i]
