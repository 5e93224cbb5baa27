"""Junction trees: cliques of an elimination order, joined so that every variable's cliques are connected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_loops import bucket_members
from hiddenfield.fields.graphs.elimination_order import Interactions, elimination_order, interactions
from hiddenfield.ops.compile import compiled
from hiddenfield.ops.equal_rows import ranges
from hiddenfield.shapes import Array


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """Cliques, children before parents; a forest where the field has several parts.

    The variables of a clique stand in reverse order of elimination: first the separator, which it shares with its
    parent, then those that it eliminates itself. All cliques agree on the order of the variables that they share.

    Parameters
    ----------
    clique_ptr, clique_variables
        Variables of each clique, one clique after another.
    separator_size
        How many of a clique's variables, the leading ones, form its separator.
    parent
        The parent of each clique, -1 for a root.
    home
        For each variable the clique that eliminates it. A factor belongs to the home of whichever of its variables was
        eliminated first.
    position
        Of each variable in the elimination order.
    states
        Number of states of each variable.
    """

    clique_ptr: Array
    clique_variables: Array
    separator_size: Array
    parent: Array
    home: Array
    position: Array
    states: Array

    @property
    def num_cliques(self) -> int:
        """Number of cliques."""
        return len(self.parent)

    @property
    def width(self) -> int:
        """Size of the largest clique less one."""
        return int(np.diff(self.clique_ptr).max(initial=1)) - 1

    @cached_property
    def cliques(self) -> list[list[int]]:
        """The variables of each clique."""
        bounds = pairwise(self.clique_ptr.tolist())
        return [self.clique_variables[begin:end].tolist() for begin, end in bounds]

    @cached_property
    def separators(self) -> list[list[int]]:
        """The variables that each clique shares with its parent."""
        sizes = self.separator_size.tolist()
        return [clique[:size] for clique, size in zip(self.cliques, sizes, strict=True)]

    @cached_property
    def log_clique_states(self) -> Array:
        """Natural logarithm of the number of joint states of each clique."""
        return np.add.reduceat(self._log_states, self.clique_ptr[:-1]) if self.num_cliques else np.zeros(0)

    @cached_property
    def log_separator_states(self) -> Array:
        """Natural logarithm of the number of joint states of each separator; 0 for a root."""
        place, clique = ranges(self.clique_ptr[:-1], self.separator_size)
        return np.bincount(clique, weights=self._log_states[place], minlength=self.num_cliques)

    @property
    def _log_states(self) -> Array:
        return np.log(self.states[self.clique_variables].astype(np.float64))

    def __repr__(self) -> str:
        """Say how large it is."""
        largest = float(self.log_clique_states.max(initial=0.0)) / math.log(2)
        return f"JunctionTree({self.num_cliques:,} cliques, width {self.width}, largest of 2^{largest:.1f} states)"


def junction_tree(field: FactorGraph, order: str = "best", *, limit: float = math.inf) -> JunctionTree:
    """Return a junction tree of a field: each factor's scope lies within one clique, cliques are maximal.

    Parameters
    ----------
    field
        The field; its evidence is not looked at.
    order
        How variables are eliminated; see `elimination_order`.
    limit
        Log2 of the joint states of a clique: a tree with a larger one is refused, soon, with `TooLargeError`.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.fields import from_factors
    >>> field = from_factors([[0, 1], [1, 2], [2, 3], [3, 0]], [np.zeros((2, 2))] * 4)
    >>> tree = junction_tree(field)
    >>> tree
    JunctionTree(2 cliques, width 2, largest of 2^3.0 states)
    >>> sorted(map(sorted, tree.cliques))
    [[0, 1, 3], [1, 2, 3]]
    """
    graph = interactions(field)
    found = elimination_order(graph, order, limit=limit)
    if not found.complete:
        raise TooLargeError(
            f"a junction tree of this field has a clique of 2^{found.log2_largest:.0f} joint states or more, and "
            f"2^{limit:.0f} is the most; give evidence, or take smaller clusters: regions='auto' or 'faces'"
        )
    return junction_tree_of(graph, found.order)


def junction_tree_of(
    graph: Interactions, order: Array, *, merge: bool = True, stage: Array | None = None
) -> JunctionTree:
    """Return the junction tree that an elimination order gives.

    Parameters
    ----------
    graph, order
        The interaction graph, and all its variables in the order of elimination.
    merge
        Make one clique of a bucket and its parent where the parent's variables are all in it, so that cliques are
        maximal. Otherwise every variable is eliminated by a clique of its own.
    stage
        Buckets of variables of different stages are not merged.
    """
    count = len(graph.states)
    if len(order) != count:
        raise InputError(f"an elimination order names each of the {count} variables once, got {len(order)}")
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    member_ptr, members, parent = _buckets(graph, order, position)
    stages = np.zeros(count, np.int64) if stage is None else np.asarray(stage, np.int64)[order]
    owner = np.arange(count)
    if merge:
        absorb_parents(member_ptr, parent, stages, owner)
    # A clique is a chain of buckets: it has the variables of the first and hands on the members of the last. Cliques in
    # the order of their last buckets come before their parents.
    last = np.zeros(count, np.int64)
    last[owner] = np.arange(count)
    firsts = np.flatnonzero(owner == np.arange(count))
    firsts = firsts[np.argsort(last[firsts])]
    top = last[firsts]
    number = np.empty(count, np.int64)
    number[firsts] = np.arange(len(firsts))
    clique = number[owner]
    size = np.diff(member_ptr)
    clique_ptr = np.concatenate([[0], np.cumsum(size[firsts] + 1)]).astype(np.int64)
    # The members of the first bucket, then the bucket's own variable.
    held = np.ones(clique_ptr[-1], np.bool_)
    held[clique_ptr[1:] - 1] = False
    shift = np.repeat(member_ptr[firsts] - clique_ptr[:-1], size[firsts])
    variables = np.empty(clique_ptr[-1], np.int64)
    variables[held] = order[members[np.flatnonzero(held) + shift]]
    variables[~held] = order[firsts]
    above = parent[top]
    return JunctionTree(
        clique_ptr,
        variables,
        size[top],
        np.where(above >= 0, clique[above], -1) if count else above,
        clique[position],
        position,
        graph.states,
    )


def _buckets(graph: Interactions, order: Array, position: Array) -> tuple[Array, Array, Array]:
    count = len(order)
    member_ptr, parent = np.zeros(count + 1, np.int64), np.full(count, -1, np.int64)
    status = np.ones(1, np.int64)
    capacity = 2 * len(graph.neighbour) + 64
    while True:
        members = np.empty(capacity, np.int64)
        arrays = (graph.ptr, graph.neighbour, order, position, member_ptr, members, parent, status)
        bucket_members(*arrays, work=100 * capacity)
        if not status[0]:
            return member_ptr, members[: member_ptr[-1]], parent
        capacity *= 4


@compiled
def absorb_parents(member_ptr, parent, stage, owner):  # type: ignore[no-untyped-def]
    """Let a bucket own its parent where it holds all of the parent's variables and nobody owns the parent yet."""
    for at in range(parent.size):
        above = parent[at]
        if above < 0 or owner[above] != above or stage[above] != stage[at]:
            continue
        if member_ptr[above + 1] - member_ptr[above] == member_ptr[at + 1] - member_ptr[at] - 1:
            owner[above] = owner[at]
