"""What a fixed point is, written from the equations in NumPy: shares no code with the package but the field's arrays.

Every message-passing method makes a free energy of one form stationary,

    F(b) = sum_a N_a (-E[log Psi_a] - H(b_a)) + sum_i N_i (-E[log Phi_i] - c_i H(b_i)),

over beliefs of outer regions a that agree with those of the inner ones i within them. Bethe's has the factors outside
and the variables within, c = 1 - d; tree-reweighting counts a factor rho times and divides its log table by rho;
Kikuchi's has larger regions. Beliefs are stationary where they agree and multipliers n exist such that

    log b_a = log Psi_a + sum_i n_ia + const,      c_i log b_i = log Phi_i - sum_a (N_a / N_i) n_ia + const.

(With c = 1 - d this says that the product of beliefs to the power of their counts is the product of the potentials.)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiddenfield.fields import FactorGraph
from hiddenfield.inference import Posterior

__all__ = ["Inner", "Outer", "Regions", "bethe_regions", "kikuchi_regions", "mean_field_gap"]


@dataclass
class Outer:
    """An outer region: its variables, log potential, log belief, N, and the inner regions within: (number, axes)."""

    scope: tuple[int, ...]
    log_table: np.ndarray
    log_belief: np.ndarray
    count: float
    within: list[tuple[int, tuple[int, ...]]]


@dataclass
class Inner:
    """An inner region: log potential and belief, N, and counting number."""

    log_table: np.ndarray
    log_belief: np.ndarray
    count: float
    counting: float


@dataclass
class Regions:
    """Beliefs of all regions, and what their free energy is made of."""

    outer: list[Outer]
    inner: list[Inner]
    constant: float
    maximise: bool = False

    def disagreement(self) -> float:
        """Return the largest difference between an inner belief and what an outer one says of the same variables."""
        worst = 0.0
        for region in self.outer:
            for number, axes in region.within:
                seen = project(np.exp(region.log_belief), axes, self.maximise)
                worst = max(worst, float(np.abs(seen - np.exp(self.inner[number].log_belief)).max()))
        return worst

    def unbalance(self) -> float:
        """Return by how much the best multipliers miss the equations, each weighted by the belief that it is about.

        As b log b changes by db where b does, that is the error of a probability; the equation of an inner region is
        divided by how many terms of this size it adds up. Least squares, so an upper estimate of the largest miss.
        """
        starts: dict[tuple[int, int], int] = {}
        unknowns = 0
        for a, region in enumerate(self.outer):
            for place, (number, _) in enumerate(region.within):
                starts[a, place] = unknowns
                unknowns += self.inner[number].log_belief.size
        rows: list[np.ndarray] = []
        columns: list[np.ndarray] = []
        values: list[np.ndarray] = []
        right: list[np.ndarray] = []
        height = 0

        def add(parts: list[tuple[np.ndarray, float]], total: np.ndarray, weight: np.ndarray) -> None:
            nonlocal height
            for column, factor in parts:
                rows.append(height + np.arange(len(total)))
                columns.append(column)
                values.append(factor * weight)
            right.append(weight * total)
            height += len(total)

        balance: list[list[tuple[np.ndarray, float]]] = [[] for _ in self.inner]
        for a, region in enumerate(self.outer):
            alive = np.isfinite(region.log_belief)
            states = np.nonzero(alive)
            parts = [(np.full(len(states[0]), unknowns), 1.0)]
            unknowns += 1
            for place, (number, axes) in enumerate(region.within):
                shape, begin = self.inner[number].log_belief.shape, starts[a, place]
                own = np.ravel_multi_index(tuple(states[axis] for axis in axes), shape)
                parts.append((begin + own, 1.0))
                share = region.count / self.inner[number].count
                balance[number].append((begin + np.arange(self.inner[number].log_belief.size), share))
            belief = region.log_belief[alive]
            add(parts, belief - region.log_table[alive], np.exp(belief))
        for region, parts in zip(self.inner, balance, strict=True):
            alive = np.isfinite(region.log_belief).reshape(-1)
            kept = [(column[alive], share) for column, share in parts]
            kept.append((np.full(int(alive.sum()), unknowns), 1.0))
            unknowns += 1
            terms = sum(share for _, share in parts) + max(region.counting, 0.0)
            belief = region.log_belief.reshape(-1)[alive]
            total = region.log_table.reshape(-1)[alive] - region.counting * belief
            add(kept, total, np.exp(belief) / max(terms, 1.0))
        if not height:
            return 0.0
        matrix = np.zeros((height, unknowns))
        np.add.at(matrix, (np.concatenate(rows), np.concatenate(columns)), np.concatenate(values))
        solution, *_ = np.linalg.lstsq(matrix, np.concatenate(right), rcond=None)
        return float(np.abs(matrix @ solution - np.concatenate(right)).max())

    def negative_free_energy(self) -> float:
        """Return -F."""
        value = self.constant
        for region in self.outer:
            value += region.count * gain(region.log_belief, region.log_table, 1.0)
        for region in self.inner:
            value += region.count * gain(region.log_belief, region.log_table, region.counting)
        return value

    def unfounded_zeros(self) -> int:
        """Count zeros of beliefs that no chain of impossible states leads to: those that came by underflow."""
        inside = [np.isfinite(region.log_table) for region in self.inner]
        outside = [np.isfinite(region.log_table) for region in self.outer]
        before = -1
        while before != (before := sum(int(alive.sum()) for alive in inside + outside)):
            for region, alive in zip(self.outer, outside, strict=True):
                for number, axes in region.within:
                    inside[number] &= project(alive, axes, True)
                    alive &= spread(inside[number], axes, alive.ndim)
        zeros = 0
        for region, alive in zip([*self.outer, *self.inner], outside + inside, strict=True):
            zeros += int((alive & (region.log_belief == -np.inf)).sum())
        return zeros


def project(table: np.ndarray, axes: Sequence[int], maximise: bool) -> np.ndarray:
    """Sum (or maximise) over all axes but the given ones, which come out in the order given."""
    rest = tuple(axis for axis in range(table.ndim) if axis not in axes)
    kept = sorted(axes)
    flat = table.max(axis=rest) if maximise else table.sum(axis=rest)
    return np.transpose(flat, [kept.index(axis) for axis in axes])


def spread(table: np.ndarray, axes: Sequence[int], ndim: int) -> np.ndarray:
    """Lay a table along the given axes of one with more."""
    order = np.argsort(axes)
    shape = [1] * ndim
    for axis, size in zip(axes, table.shape, strict=True):
        shape[axis] = size
    return np.transpose(table, order).reshape(shape)


def gain(log_belief: np.ndarray, log_table: np.ndarray, counting: float) -> float:
    """Return E[log table] + c H(belief), states of probability 0 left out."""
    alive = np.exp(log_belief) > 0
    belief = log_belief[alive]
    return float((np.exp(belief) * (log_table[alive] - counting * belief)).sum())


def potentials(
    field: FactorGraph,
) -> tuple[list[np.ndarray], list[tuple[tuple[int, ...], np.ndarray, float]]]:
    """Return the log potentials of variables, and scope, log table and count of every factor."""
    bounds = np.concatenate([[0], np.cumsum(field.cardinalities.numpy())])
    unary = field.log_unary.double().numpy()
    variables = [unary[begin:end] for begin, end in itertools.pairwise(bounds)]
    factors = []
    for group in field.groups:
        tables = group.log_tables.double().numpy()
        index = range(group.num_factors) if group.table is None else group.table.tolist()
        for scope, table, count in zip(group.scopes.tolist(), index, group.count.tolist(), strict=True):
            factors.append((tuple(scope), tables[table], count))
    return variables, factors


def beliefs(posterior: Posterior) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return log beliefs, variable by variable and factor by factor."""
    bounds = np.concatenate([[0], np.cumsum(posterior.field.cardinalities.numpy())])
    packed = posterior.log_marginals.double().numpy()
    variables = [packed[begin:end] for begin, end in itertools.pairwise(bounds)]
    return variables, [table.double().numpy() for group in posterior.factor_log_marginals for table in group]


def bethe_regions(
    posterior: Posterior, weights: Sequence[float] | None = None, temperature: float = 1.0
) -> Regions:
    """Return factors around variables, with factor weights rho; at temperature 0 maxima take the place of sums."""
    field, divide = posterior.field, temperature or 1.0
    own, factors = potentials(field)
    variable_beliefs, factor_beliefs = beliefs(posterior)
    rho = [1.0] * len(factors) if weights is None else list(weights)
    counts = field.counts.tolist()
    counting = np.ones(len(own))
    outer = []
    for (scope, table, count), belief, weight in zip(factors, factor_beliefs, rho, strict=True):
        within = [(variable, (port,)) for port, variable in enumerate(scope)]
        outer.append(Outer(scope, table / weight / divide, belief, weight * count, within))
        for variable in scope:
            counting[variable] -= weight * count / counts[variable]
    inner = [
        Inner(table / divide, belief, count, float(number))
        for table, belief, count, number in zip(own, variable_beliefs, counts, counting, strict=True)
    ]
    return Regions(outer, inner, float(field.log_constant.sum()) / divide, temperature == 0)


def kikuchi_regions(posterior: Posterior) -> Regions:
    """Return the regions of a posterior, with counting numbers computed anew and outer beliefs from its messages."""
    field, shape = posterior.field, posterior.extra["regions"]
    own, factors = potentials(field)
    cards = field.cardinalities.tolist()
    outer_sets, inner_sets = (
        [tuple(int(v) for v in sets.values[a:b]) for a, b in zip(sets.ptr, sets.ptr[1:], strict=False)]
        for sets in (shape.outer, shape.inner)
    )
    tables = [np.zeros([cards[v] for v in scope]) for scope in outer_sets]
    for (scope, table, count), a in zip(factors, shape.factor_outer.tolist(), strict=True):
        tables[a] = tables[a] + count * spread(table, [outer_sets[a].index(v) for v in scope], tables[a].ndim)
    singles = {scope[0]: number for number, scope in enumerate(inner_sets) if len(scope) == 1}
    log_inner = [np.zeros([cards[v] for v in scope]) for scope in inner_sets]
    for variable, table in enumerate(own):
        if variable in singles:
            log_inner[singles[variable]] = table
        else:
            a = int(shape.variable_outer[variable])
            tables[a] = tables[a] + spread(table, [outer_sets[a].index(variable)], tables[a].ndim)
    log_beliefs = [table.copy() for table in tables]
    within: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in outer_sets]
    messages, begin = posterior.extra["messages"].double().numpy(), 0
    for a, b in zip(shape.pair_outer.tolist(), shape.pair_inner.tolist(), strict=True):
        axes = tuple(outer_sets[a].index(v) for v in inner_sets[b])
        end = begin + log_inner[b].size
        block = messages[begin:end].reshape(log_inner[b].shape)
        log_beliefs[a] = log_beliefs[a] + spread(block, axes, tables[a].ndim)
        within[a].append((b, axes))
        begin = end
    assert begin == len(messages)
    log_beliefs = [table - np.logaddexp.reduce(table, axis=None) for table in log_beliefs]
    outer = [
        Outer(*each)
        for each in zip(outer_sets, tables, log_beliefs, [1.0] * len(tables), within, strict=True)
    ]
    counting: dict[int, float] = {}
    for number in sorted(range(len(inner_sets)), key=lambda n: -len(inner_sets[n])):
        members = set(inner_sets[number])
        above = sum(members <= set(scope) for scope in outer_sets)
        counting[number] = 1.0 - above - sum(c for n, c in counting.items() if members < set(inner_sets[n]))
    inner = []
    for number, table in enumerate(log_inner):
        told = [
            project(np.exp(log_beliefs[a]), axes, False)
            for a in range(len(outer_sets))
            for b, axes in within[a]
            if b == number
        ]
        with np.errstate(divide="ignore"):
            mean = np.log(told).mean(axis=0)
        inner.append(Inner(table, mean - np.logaddexp.reduce(mean, axis=None), 1.0, counting[number]))
    return Regions(outer, inner, float(field.log_constant.sum()))


def mean_field_gap(posterior: Posterior) -> tuple[float, float]:
    """Return how far the marginals are from exp(log Phi + E[log Psi | x]), and the lower bound that they give."""
    own, factors = potentials(posterior.field)
    log_q, _ = beliefs(posterior)
    q = [np.exp(each) for each in log_q]
    score = [table.copy() for table in own]
    counts = posterior.field.counts.tolist()
    bound = float(posterior.field.log_constant.sum())
    for table, belief, count in zip(own, log_q, counts, strict=True):
        bound += count * gain(belief, table, 1.0)
    for scope, table, count in factors:
        for port, variable in enumerate(scope):
            weight = np.ones(table.shape)
            for other, neighbour in enumerate(scope):
                if other != port:
                    weight = weight * spread(q[neighbour], (other,), table.ndim)
            each = np.where(weight > 0, weight * np.where(weight > 0, table, 0.0), 0.0)
            score[variable] = score[variable] + count / counts[variable] * project(each, (port,), False)
        joint = np.ones(table.shape)
        for port, variable in enumerate(scope):
            joint = joint * spread(q[variable], (port,), table.ndim)
        alive = joint > 0
        bound += count * float((joint[alive] * table[alive]).sum())
    gap = 0.0
    for total, belief in zip(score, q, strict=True):
        if np.isfinite(total.max()):
            target = np.exp(total - np.logaddexp.reduce(total))
            gap = max(gap, float(np.abs(target - belief).max()))
    return gap, bound
