"""LINE: vectors of nodes that keep first- and second-order proximity, learned by sampling edges."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiddenfield.errors import TrainingError
from hiddenfield.inference.sampling.loops import uniform
from hiddenfield.ops.compile import Subroutine, compiled, prange, subroutine
from hiddenfield.ops.vector_math import exp_single, log_single
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NOISE_POWER = 0.75
"""Negatives are drawn by the node's degree to this power (Mikolov et al. 2013)."""

AHEAD = 64
"""Edges that are drawn, and whose rows are asked for, before the first of them is used: twice as fast on a table that
is larger than the caches."""

CALL = 1 << 20
"""Edges that are sampled between two reports of progress."""

LINE_BYTES = 64
"""Of a cache line."""

LEAST_RATE = 1e-4
"""Share of the first learning rate that is left at the end."""


class Prefetch(Subroutine):
    """The processor's own instruction as a subroutine; as plain Python it does nothing."""

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """What compiled loops call: an intrinsic of LLVM."""
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                array = context.make_array(signature.args[0])(context, builder, values[0])
                place = cgutils.get_item_pointer(context, builder, signature.args[0], array, values[1:])
                byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
                kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
                ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
                # It will be written; keep it in all caches; it is data.
                options = [ir.Constant(number, value) for value in (1, 3, 1)]
                builder.call(ask, [builder.bitcast(place, byte), *options])
                return context.get_dummy_value()

            return types.void(table, row, column), generate

        made: Callable[..., Any] = intrinsic(prefetch)
        return made


def _nothing(table: Array, row: int, column: int) -> None:
    """Ask for the cache line of ``table[row, column]``, of a table with two axes; nothing is waited for."""


prefetch = Prefetch(_nothing)


# -- drawing in proportion to weights ------------------------------------------------------------------------


class AliasTable(NamedTuple):
    """What makes draws from any distribution on n entries cost constant time (Walker 1977).

    One of the n entries is drawn uniformly; it is kept with probability `threshold`, and otherwise replaced by its
    `alias`.
    """

    threshold: Float[Array, " entries"]
    alias: Int[Array, " entries"]


def alias_table(weights: Float[Array, " entries"]) -> AliasTable:
    """Return a table for draws in proportion to weights (Vose 1991). Cost: linear.

    Examples
    --------
    >>> table = alias_table(np.array([1.0, 3.0]))
    >>> table.threshold.tolist(), table.alias.tolist()
    ([0.5, 1.0], [1, 1])
    """
    threshold = weights * (len(weights) / weights.sum())
    table = AliasTable(threshold, np.arange(len(weights), dtype=np.int32))
    _fill(table, np.empty(len(weights), np.int32), work=len(weights))
    return table


@compiled
def _fill(table: AliasTable, queue: Array) -> None:
    """Give what entries have above their share to entries below it; small entries queue in front, large ones behind."""
    n = queue.size
    small, large = 0, n
    for k in range(n):
        if table.threshold[k] < 1.0:
            queue[small] = k
            small += 1
        else:
            large -= 1
            queue[large] = k
    while small > 0 and large < n:
        small -= 1
        low, high = queue[small], queue[large]
        table.alias[low] = high
        table.threshold[high] -= 1.0 - table.threshold[low]
        if table.threshold[high] < 1.0:
            queue[small] = high
            small += 1
            large += 1
    for k in range(small):  # what rounding has left over
        table.threshold[queue[k]] = 1.0
    for k in range(large, n):
        table.threshold[queue[k]] = 1.0


@subroutine(allocates=False, fast=True)
def draw(table: AliasTable, random: Array, stream: int) -> Any:
    """Draw an entry."""
    place = uniform(random, stream) * table.threshold.size
    entry = np.int64(place)
    return entry if place - entry < table.threshold[entry] else np.int64(table.alias[entry])


# -- learning ------------------------------------------------------------------------------------------------


@subroutine(allocates=False, fast=True)
def step(vector: Array, others: Array, chosen: Array, own: int, rate: Any, pull: Array) -> Any:
    r"""Take a gradient step of one edge with its negatives, and return its loss before.

    .. math::

        -\log \sigma(u_{j}'^\top u_i) - \sum_{k} \log \sigma(-u_{k}'^\top u_i)

    with j the first of `chosen` and k the others; `own` is i where others are such vectors themselves (first order): a
    node is no negative of itself. `pull` has room for the gradient of the vector.
    """
    loss = np.float32(0)
    for d in range(vector.size):
        pull[d] = 0
    for k in range(chosen.size):
        if k > 0 and chosen[k] == own:
            continue
        other = others[chosen[k]]
        score = np.float32(0)
        for d in range(vector.size):
            score += vector[d] * other[d]
        sign = np.float32(1 if k == 0 else -1)
        wrong = exp_single(-sign * score)
        loss += log_single(np.float32(1) + wrong)
        force = np.float32(rate * sign * wrong / (np.float32(1) + wrong))
        for d in range(vector.size):
            pull[d] += force * other[d]
            other[d] += force * vector[d]
    for d in range(vector.size):
        vector[d] += pull[d]
    return loss


@compiled(fast=True, reorder=True)
def learn(
    source: Array,
    target: Array,
    arcs: AliasTable,
    noise: AliasTable,
    vectors: Array,
    contexts: Array,
    orders: Array,
    negative: int,
    rates: Array,
    count: int,
    random: Array,
    loss: Array,
) -> None:
    """Sample arcs and learn from each, for all orders side by side; the rate falls from the first to the second.

    `vectors` has the nodes' vectors of each order, (orders, nodes, dim), and `contexts` those as contexts.
    """
    per_line = LINE_BYTES // 4
    for part in prange(orders.size):
        nodes = vectors[part]
        first = orders[part] == 1
        others = nodes if first else contexts[part]
        pull = np.empty(nodes.shape[1], np.float32)
        drawn = np.empty((AHEAD, negative + 2), np.int64)
        total = 0.0
        for begin in range(0, count, AHEAD):
            ahead = min(AHEAD, count - begin)
            rate = rates[0] + (rates[1] - rates[0]) * begin / count
            for edge in range(ahead):
                arc = draw(arcs, random, part)
                drawn[edge, 0], drawn[edge, 1] = source[arc], target[arc]
                for k in range(negative):
                    drawn[edge, 2 + k] = draw(noise, random, part)
                for d in range(0, nodes.shape[1], per_line):
                    prefetch(nodes, drawn[edge, 0], d)
                    for k in range(1, negative + 2):
                        prefetch(others, drawn[edge, k], d)
            for edge in range(ahead):
                own = drawn[edge, 0]
                total += step(
                    nodes[own], others, drawn[edge, 1:], own if first else -1, np.float32(rate), pull
                )
        loss[part] = total / count


@dataclass(frozen=True, eq=False)
class Learned:
    """Vectors of nodes by order, the contexts of second order, and the mean loss of an edge as it fell."""

    nodes: dict[int, Float[Array, "nodes dim"]]
    contexts: Float[Array, "nodes dim"] | None
    losses: dict[int, list[float]]

    def joined(self) -> Float[Array, "nodes dim"]:
        """Return the vectors of all orders side by side, each of length 1."""
        parts = [
            part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
            for part in self.nodes.values()
        ]
        return np.hstack(parts)


def fit_line(
    adjacency: csr_array,
    dim: int,
    orders: Sequence[int] = (1, 2),
    *,
    negative: int = 5,
    samples: int = 1_000_000,
    learning_rate: float = 0.025,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
) -> Learned:
    r"""Learn vectors of nodes by LINE.

    First order makes :math:`p_1(v_i, v_j) = 1 / (1 + \exp(-u_i^\top u_j))` large for edges, second order
    :math:`p_2(v_j \mid v_i) = \exp(u_j'^\top u_i) / \sum_k \exp(u_k'^\top u_i)`:

    .. math::

        O_1 = - \sum_{(i, j) \in E} w_{ij} \log p_1(v_i, v_j), \qquad
        O_2 = - \sum_{(i, j) \in E} w_{ij} \log p_2(v_j \mid v_i)

    Both are minimised by stochastic gradient descent: an arc is drawn in proportion to its weight, and stands against
    `negative` nodes drawn in proportion to their degree to the power of 3/4, which in second order replace the sum
    over all nodes. An estimate: the result depends on the seed, and on nothing else.

    Parameters
    ----------
    adjacency
        Positive weights of the arcs; an edge is two arcs.
    dim
        Of the vectors of each order.
    orders
        1, 2 or both, which run side by side where there are two threads.
    negative
        Negatives of each edge.
    samples
        Arcs that each order draws. Cost: samples times dim times (1 + negative).
    learning_rate
        At the beginning; it falls linearly.
    seed
        Of the draws.
    advance
        Called with the number of arcs drawn.

    References
    ----------
    Tang et al. (2015), LINE: large-scale information network embedding.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> ring = csr_array(np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0))
    >>> fit_line(ring, 4, samples=1000).joined().shape
    (6, 8)
    """
    size = adjacency.shape[0]
    generator = np.random.default_rng(seed)
    degree = np.asarray(adjacency.sum(axis=0) + adjacency.sum(axis=1)).ravel()
    sampled = (
        np.repeat(np.arange(size, dtype=np.int32), np.diff(adjacency.indptr)),
        adjacency.indices.astype(np.int32, copy=False),
        alias_table(adjacency.data.astype(np.float64)),
        alias_table(degree**NOISE_POWER),
    )
    shape = (len(orders), size, dim)
    vectors = generator.random(shape, np.float32)
    vectors -= np.float32(0.5)
    vectors /= np.float32(dim)
    # First order has no contexts: where second order is not asked for, no memory goes to them.
    contexts = np.zeros(shape if 2 in orders else (len(orders), 0, dim), np.float32)
    tables = *sampled, vectors, contexts, np.array(orders)
    random = generator.integers(1, 2**63, len(orders), np.uint64)
    losses: dict[int, list[float]] = {order: [] for order in orders}
    for begin in range(0, samples, CALL):
        count = min(CALL, samples - begin)
        left = 1 - np.array([begin, begin + count]) / samples
        rates, loss = learning_rate * np.maximum(left, LEAST_RATE), np.empty(len(orders))
        learn(*tables, negative, rates, count, random, loss, work=count * dim)
        for order, value in zip(orders, loss.tolist(), strict=True):
            losses[order].append(value)
        if advance is not None:
            advance(count, f"(loss {loss.mean():.3f})")
    if not np.isfinite(vectors.sum()):
        raise TrainingError(
            f"LINE diverged: vectors are not finite; take a learning_rate below {learning_rate}"
        )
    own = dict(zip(orders, vectors, strict=True))
    return Learned(own, contexts[list(orders).index(2)] if 2 in orders else None, losses)
