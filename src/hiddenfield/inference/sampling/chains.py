"""Markov chains over the states of a field: where they stand, how they move, and what they have seen."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.hard_zeros import feasible_assignments, has_hard_zeros
from hiddenfield.fields.layout import FlatField, flatten, free_variables, scaled, scaled_tables
from hiddenfield.inference.messages.propagation import propagate
from hiddenfield.inference.sampling.loops import Record, TreeBlocks, Walk, site_sweeps, tree_sweeps
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float, Int, Tensor

WIDTH, MOST_PARTS = 8, 16
"""Chains that are drawn side by side at least, and parts for different threads at most: fixed, so that sums do not
depend on how many threads there are."""

LARGEST_RANGE = 500.0
"""Sum of the ranges of all log potentials of a variable up to which their product is safe from underflow."""

MOST_JOINT = 64
"""Joint states of three or more variables that one factor joins to a forest."""

COVERS = 4
"""Ways to split a field into forests that sweeps take in turn: what one holds fixed is drawn together in another."""

HEATED = 50
"""Sweeps of annealing before the first that counts for anything."""

FLOOR = -7.0
"""Least log probability of a state that chains start from: belief propagation may be wrong."""

PENALTY = 15.0
"""Hard zeros count as this much below the least finite log potential where they are softened."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of a ground field. They move in place: `state` and `random` change with every sweep.

    Parameters
    ----------
    flat
        The field.
    order
        The variables that are sampled, colour after colour.
    blocks
        Forests that are sampled together, in several ways by turns; None samples one variable at a time.
    potentials
        What `scaled_potentials` made of the field, for the forests.
    hard
        Whether hard zeros are possible.
    state
        (variables, chains) states.
    random
        The random number generator of each chain.
    found
        For each graph whether the start is possible: 2 yes, 1 none was found, 0 there is none.
    """

    flat: FlatField
    order: Array
    blocks: tuple[TreeBlocks, ...] | None
    potentials: tuple[Array, Array, Array] | None
    hard: bool
    state: Array
    random: Array
    found: Array

    @classmethod
    def start(
        cls,
        field: FactorGraph,
        number: int,
        seed: int,
        blocks: str,
        starts: tuple[Int[Tensor, "number variables"], Int[Tensor, " graphs"]] | None = None,
    ) -> Chains:
        """Place chains at assignments that no hard zero forbids, drawn from the variables' own potentials.

        Or at `starts`: assignments, and for each graph whether they are possible, as `feasible_assignments` has them.
        """
        flat = flatten(field)
        hard = has_hard_zeros(field)
        free = free_variables(field)
        assignments, found = feasible_assignments(field, number, seed=seed) if starts is None else starts
        trees = blocks == "trees" or (blocks == "auto" and (hard or field.is_forest))
        order = np.argsort(colour_variables(field).numpy(), kind="stable")
        random = np.random.SeedSequence(seed).generate_state(number, np.uint64) | np.uint64(1)
        return cls(
            flat,
            order[free[order]],
            tree_covers(flat, order[free[order]], seed) if trees else None,
            scaled_potentials(flat) if trees else None,
            hard,
            np.ascontiguousarray(assignments.numpy().T.astype(np.int16)),
            random,
            found.numpy(),
        )

    @classmethod
    def dispersed(cls, field: FactorGraph, number: int, seed: int, blocks: str) -> Chains:
        """Place half of the chains by the variables' own potentials, annealed, and half by belief propagation.

        All at assignments that no hard zero forbids. Both kinds agree only if neither is caught where it began.
        """
        half = number - number // 2
        own, found = feasible_assignments(field, half, seed=seed)
        believed, again = feasible_assignments(
            field, number - half, preference=settled_beliefs(field), seed=seed + 1
        )
        starts = torch.cat([own, believed]), torch.minimum(found, again)
        walkers = cls.start(field, number, seed, blocks, starts)
        # On copies, so that the chains lie side by side while they move.
        annealed = dataclasses.replace(
            walkers,
            state=walkers.state[:, :half].copy(),
            random=walkers.random[:half].copy(),
            potentials=None,
        )
        flat = walkers.flat
        for beta in np.linspace(0.1, 1.0, HEATED):
            annealed.run(1, unary=beta * flat.log_unary, tables=beta * flat.tables)
        walkers.state[:, :half], walkers.random[:half] = annealed.state, annealed.random
        return walkers

    def with_trees(self, seed: int) -> Chains:
        """Return the same chains, moved by forests of variables."""
        if self.blocks is not None:
            return self
        return dataclasses.replace(self, blocks=tree_covers(self.flat, self.order, seed))

    @property
    def number(self) -> int:
        """How many chains."""
        return self.state.shape[1]

    @property
    def chain_ptr(self) -> Array:
        """Bounds of the parts that run side by side."""
        parts = max(1, min(MOST_PARTS, self.number // WIDTH))
        return np.linspace(0, self.number, parts + 1).astype(np.int64)

    def record(self, batches: int = 0, batch_length: int = 1) -> Record:
        """Make room for what is seen in so many batches of sweeps; none by default."""
        flat, parts = self.flat, len(self.chain_ptr) - 1
        ends = np.cumsum(flat.table_size, dtype=np.int64)
        states, joint = (int(flat.state_ptr[-1]), int(flat.table_size.sum())) if batches else (0, 0)
        return Record(
            batch_length,
            np.zeros((parts, states)),
            np.zeros((batches, states, self.number), np.uint32),
            ends - flat.table_size,
            np.zeros((parts, joint), np.int64),
        )

    def run(
        self,
        sweeps: int,
        record: Record | None = None,
        *,
        unary: Array | None = None,
        tables: Array | None = None,
    ) -> None:
        """Sweep over all variables so many times, maybe with other potentials; collect what is seen where asked."""
        flat, record = self.flat, self.record() if record is None else record
        walk = Walk(self.chain_ptr, self.state, self.random)
        work = 8.0 * len(self.order) * self.number
        if unary is not None:
            flat = flat._replace(log_unary=unary)
        if tables is not None:
            flat = flat._replace(tables=tables)
        if self.blocks is not None:
            logs = self.potentials is None
            if self.potentials is not None:
                scaled, start, powers = self.potentials
                flat = flat._replace(log_unary=scaled, table_start=start, tables=powers)
            for sweep, blocks in enumerate(itertools.islice(itertools.cycle(self.blocks), sweeps)):
                tree_sweeps(sweep, logs, blocks, flat, walk, record, work=work)
        else:
            hard = self.hard and (tables is None or bool(np.isneginf(tables).any()))
            site_sweeps(sweeps, hard, self.order, flat, walk, record, work=sweeps * work)


def scaled_potentials(flat: FlatField) -> tuple[Array, Array, Array] | None:
    """Return exponentials of log potentials, scaled to a maximum of 1; None where their products could underflow.

    Returns
    -------
    tuple
        Of the packed states, where each factor's table begins, and all tables, to the power of the factors' counts.
    """
    start, values = flat.table_start, flat.own_tables()
    if values is None:
        values = flat.tables
    else:
        start = np.cumsum(flat.table_size) - flat.table_size
    unary, _, unary_least = scaled(flat.log_unary, flat.state_ptr)
    tables, least = scaled_tables(values, start)
    total = unary_least + np.bincount(flat.scope, least[flat.place_factor], len(flat.state_ptr) - 1)
    return (np.exp(unary), start, np.exp(tables)) if -total.min(initial=0.0) < LARGEST_RANGE else None


def settled_beliefs(field: FactorGraph) -> Float[Tensor, " states"]:
    """Return log marginals of belief propagation, none too small and none of a possible state zero."""
    passing, outcome = propagate(field, damping=0.2, tolerance=1e-3, max_iterations=100)
    likely = passing.beliefs(outcome.state)[0].nan_to_num(nan=0.0).clamp(min=FLOOR)
    return torch.where(field.log_unary == -math.inf, -math.inf, likely)


def softened(tables: Array) -> Array:
    """Return log tables whose hard zeros are finite: `PENALTY` below the least finite entry of all."""
    finite = tables[np.isfinite(tables)]
    return np.maximum(tables, (finite.min() if len(finite) else 0.0) - PENALTY)


# -- variables that can be updated together ----------------------------------------------------------------


def colour_variables(field: FactorGraph) -> Int[Tensor, " variables"]:
    """Return a colour for every variable, greedily: variables of high degree first, the lowest colour that is free.

    At most one more colour than the most neighbours of a variable; two on a grid's checkerboard. Linear in the ports
    times the arity. A variable that one factor names twice (in a field with counts) still gets one colour.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> colour_variables(from_factors([[0, 1], [1, 2]], [np.zeros((2, 2))] * 2))
    tensor([1, 0, 1])
    """
    flat = flatten(field)
    colour = np.full(field.num_variables, -1, np.int64)
    order = np.argsort(-np.diff(flat.port_ptr), kind="stable")
    _colour(order, flat, colour, work=8 * len(flat.scope))
    return torch.from_numpy(colour)


@compiled(watched=True)
def _colour(stop, order, flat, colour):  # type: ignore[no-untyped-def]
    stop[1] = 1
    last_seen = np.full(order.size + 1, -1, np.int64)  # the variable whose neighbour had this colour last
    for v in order:
        if stop[0]:
            return
        for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
            f = flat.place_factor[flat.port_place[p]]
            for place in range(flat.scope_ptr[f], flat.scope_ptr[f + 1]):
                if colour[flat.scope[place]] >= 0:
                    last_seen[colour[flat.scope[place]]] = v
        free = 0
        while last_seen[free] == v:
            free += 1
        colour[v] = free


def tree_covers(flat: FlatField, sampled: Array, seed: int) -> tuple[TreeBlocks, ...]:
    """Return `COVERS` ways to split a field into forests, variables in another order each; one where it holds all."""
    free = np.zeros(len(flat.state_ptr) - 1, np.bool_)
    free[sampled] = True
    first = tree_blocks(flat, free)
    if len(first.tree_ptr) <= 2:
        return (first,)
    draw = np.random.default_rng([seed, COVERS])
    others = (tree_blocks(flat, free, draw.permutation(len(free))) for _ in range(COVERS - 1))
    return (first, *others)


def tree_blocks(flat: FlatField, free: Array, visits: Int[Array, " variables"] | None = None) -> TreeBlocks:
    """Take variables greedily into a forest as long as they close no cycle, then begin the next one.

    A factor joins all variables of its scope that are in the forest, as long as they have few joint states: a
    deterministic relation of three variables can then be drawn together with all of them. On a grid three quarters of
    the variables are in the first forest. Hamze and de Freitas (2004).

    Parameters
    ----------
    flat
        The field.
    free
        Which variables are to be sampled; the others stay as they are.
    visits
        The order in which variables are taken; that of their numbers by default.
    """
    variables = len(flat.state_ptr) - 1
    block = np.where(free, -1, -2)
    work = 16 * len(flat.scope)
    _assign(flat, np.arange(variables) if visits is None else visits, block, work=work)
    order, parent = np.full(variables, -1), np.full(variables, -1)
    own_place, parent_place = np.full(variables, -1), np.full(variables, -1)
    _root(flat, block, order, parent, own_place, parent_place, work=work)
    count = int((block >= 0).sum())
    taken = order[:count]
    sizes = np.bincount(block[block >= 0], minlength=int(block.max(initial=-1)) + 1)
    # A factor joins variables of a forest where it names that forest more than once.
    named = flat.place_factor * (len(sizes) + 1) + np.maximum(block[flat.scope], -1) + 1
    _, inverse, times = np.unique(named, return_inverse=True, return_counts=True)
    inside = (block[flat.scope] >= 0) & (times[inverse] > 1)
    # Within a forest from the last found to the first, so that children come before parents.
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    turned = np.repeat(bounds[:-1] + bounds[1:] - 1, sizes) - np.arange(count)
    order = taken[turned]
    # Siblings were found one after another; every root is by itself.
    place, position = own_place[order], np.arange(count)
    factor = np.where(place >= 0, np.append(flat.place_factor, -1)[place], -1)
    new = np.ones(count, np.bool_)
    new[1:] = (factor[1:] != factor[:-1]) | (factor[1:] < 0)
    new[bounds[:-1][sizes > 0]] = True
    sibling = np.maximum.accumulate(np.where(new, position, 0)) if count else position
    return TreeBlocks(
        bounds, order, parent[order], place, parent_place[order], sibling, inside[flat.port_place]
    )


@compiled(watched=True)
def _assign(stop, flat, visits, block):  # type: ignore[no-untyped-def]
    """Give each variable the number of its forest in place of -1; -2 stays."""
    stop[1] = 1
    variables = block.size
    left = 0
    for v in range(variables):
        left += block[v] == -1
    joint = np.ones(
        flat.scope_ptr.size - 1, np.int64
    )  # joint states of a factor's variables that are in the forest
    root = np.arange(variables)
    met = np.full(variables, -1, np.int64)
    number = 0
    while left > 0:
        joint[:] = 1
        for v in visits:
            if stop[0]:
                return
            if block[v] != -1:
                continue
            joins = True
            card = flat.state_ptr[v + 1] - flat.state_ptr[v]
            for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                f = flat.place_factor[flat.port_place[p]]
                if joint[f] == 1:
                    continue
                inside = 0
                for place in range(flat.scope_ptr[f], flat.scope_ptr[f + 1]):
                    u = flat.scope[place]
                    if block[u] == number:
                        inside += 1
                        if inside == 1:  # all of them are in one tree
                            while root[u] != u:
                                root[u] = root[root[u]]
                                u = root[u]
                            if met[u] == v:
                                joins = False
                            met[u] = v
                if inside > 1 and joint[f] * card > MOST_JOINT:
                    joins = False
                if not joins:
                    break
            if joins:
                block[v] = number
                left -= 1
                for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                    f = flat.place_factor[flat.port_place[p]]
                    joint[f] *= card
                    for place in range(flat.scope_ptr[f], flat.scope_ptr[f + 1]):
                        u = flat.scope[place]
                        if u != v and block[u] == number:
                            while root[u] != u:
                                u = root[u]
                            root[u] = v
        for v in range(variables):
            root[v] = v
            met[v] = -1
        number += 1


@compiled(watched=True)
def _root(stop, flat, block, order, parent, own_place, parent_place):  # type: ignore[no-untyped-def]
    """List each forest from its roots, with the parent of every variable."""
    stop[1] = 1
    seen = np.zeros(block.size, np.bool_)
    tail = 0
    most = -1
    for v in range(block.size):
        most = max(most, block[v])
    for number in range(most + 1):
        for start in range(block.size):
            if stop[0]:
                return
            if block[start] != number or seen[start]:
                continue
            seen[start] = True
            order[tail] = start
            head = tail
            tail += 1
            while head < tail:
                v = order[head]
                head += 1
                for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                    own = flat.port_place[p]
                    f = flat.place_factor[own]
                    for place in range(flat.scope_ptr[f], flat.scope_ptr[f + 1]):
                        u = flat.scope[place]
                        if block[u] == number and not seen[u]:
                            seen[u] = True
                            parent[u] = v
                            own_place[u] = place
                            parent_place[u] = own
                            order[tail] = u
                            tail += 1
