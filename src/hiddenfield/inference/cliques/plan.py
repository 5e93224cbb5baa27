"""What exact inference computes, as flat arrays: the terms of every clique, and where they lie."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.elimination_order import (
    EliminationOrder,
    Interactions,
    elimination_order,
    interactions_of,
)
from hiddenfield.fields.graphs.junction_tree import JunctionTree, junction_tree_of
from hiddenfield.fields.hard_zeros import live_states
from hiddenfield.fields.layout import FlatTables, flat_tables
from hiddenfield.inference.cliques.loops import MESSAGE, SEPARATOR, TABLE
from hiddenfield.limits import check_time
from hiddenfield.machine import available_memory
from hiddenfield.ops.compile import as_array, compiled
from hiddenfield.shapes import Array, Int

BLOCK = 1024
"""Most places of a block: with its offsets it stays in the first-level cache."""

SECONDS = 0.8e-9
"""What multiplying a number into a clique takes on the way up and down, within a factor of three on an idle core."""

BACK = 1.5
"""How much longer the way back to the leaves takes than the way up to the roots."""

REMEDY = (
    "raise max_memory=, give evidence, or use an approximate method: 'loopy_bp', 'tree_reweighted' (an upper bound) or "
    "'mean_field' (a lower bound)"
)


MANY = 12
"""Terms of a clique up to which it is left alone."""

LARGE = 1 << 12
"""Joint states of a clique up to which it is left alone."""

CHUNK = 32
"""Joint states of a chunk of neighbouring axes; a table of two chunks has at most its square."""

MOST_ENTRIES = 1 << 16
"""Entries of the larger tables."""


class Layout(NamedTuple):
    """The flat arrays that the compiled loops read; a tuple, so that compiled code takes it whole.

    A term is a clique's own separator, which comes first, a factor (unary ones included), or a child's message. It
    lies in a flat array of values from ``term_in`` on (-1: it is 1 everywhere) with a stride for every axis of its
    clique; its marginal goes to ``term_out`` of another.

    Parameters
    ----------
    clique_ptr, axis_variable, axis_states, axis_alive
        For every axis of every clique its variable, number of states, and where the variable's live states begin.
    split, inner_size, num_blocks
        How many axes of each clique are outer ones, and the size and number of blocks.
    message_base, message_size
        Where each clique's message lies among the values.
    term_ptr, term_kind, term_in, term_out, term_child, term_range, stride_ptr, stride
        Terms, clique after clique: kind, places, the clique that sends a message, the log of the least positive entry
        against the greatest, strides.
    alive
        Live states of all variables.
    """

    clique_ptr: Array
    axis_variable: Array
    axis_states: Array
    axis_alive: Array
    split: Array
    inner_size: Array
    num_blocks: Array
    message_base: Array
    message_size: Array
    term_ptr: Array
    term_kind: Array
    term_in: Array
    term_out: Array
    term_child: Array
    term_range: Array
    stride_ptr: Array
    stride: Array
    alive: Array


@dataclass(frozen=True, eq=False)
class CliquePlan:
    """A junction tree and the terms of its cliques.

    Parameters
    ----------
    tree
        The junction tree over all variables; those with one live state are cliques by themselves.
    order
        What the elimination order cost.
    alive_ptr
        Bounds of each variable's live states.
    layout
        What the compiled loops read.
    term_table
        The table of every term, -1 where it is a message.
    tables
        The tables themselves; messages follow them, and separators follow the marginals.
    stage
        For every variable whether it is maximised over instead of summed over; None where nothing is.
    max_memory
        Most bytes that it may take, if that was said.
    marginals
        Whether messages go back to the leaves.
    """

    tree: JunctionTree
    order: EliminationOrder
    alive_ptr: Array
    layout: Layout
    term_table: Array
    tables: FlatTables
    stage: Array | None = None
    max_memory: float | None = None
    marginals: bool = True

    @property
    def width(self) -> int:
        """An upper bound on the treewidth."""
        return self.order.width

    @cached_property
    def maximise(self) -> Array:
        """Which cliques maximise."""
        if self.stage is None:
            return np.zeros(self.tree.num_cliques, np.bool_)
        return self.stage[self.tree.clique_variables[self.tree.clique_ptr[1:] - 1]] == 1

    @cached_property
    def num_messages(self) -> int:
        """Numbers in all messages."""
        return int(self.layout.message_size.sum())

    @cached_property
    def scratch(self) -> tuple[int, int, int]:
        """The greatest number of terms of a clique, size of a block, and product of both."""
        terms, inner = np.diff(self.layout.term_ptr), self.layout.inner_size
        return int(terms.max(initial=1)), int(inner.max(initial=1)), int((terms * inner).max(initial=1))

    @cached_property
    def products(self) -> float:
        """How many numbers are multiplied on the way up, and again on the way down."""
        layout = self.layout
        return float((layout.inner_size * layout.num_blocks * (2.0 + np.diff(layout.term_ptr))).sum())

    @cached_property
    def seconds(self) -> float:
        """About how long it takes on one core."""
        return SECONDS * self.products / (1 if self.marginals else 1 + BACK)

    def update(self) -> None:
        """Read the tables again: how far the numbers of each range decides where logarithms are needed."""
        held = self.term_table >= 0
        self.layout.term_range[held] = self.tables.least[self.term_table[held]]


def clique_plan(
    field: FactorGraph,
    *,
    order: str | EliminationOrder = "best",
    stage: Array | None = None,
    max_memory: float | None = None,
    marginals: bool = True,
    loose: Array | None = None,
) -> CliquePlan:
    """Plan exact inference on the live states of a field, or refuse with `TooLargeError` where it does not fit.

    Parameters
    ----------
    field
        The field.
    order
        See `elimination_order`; or an order that is known.
    stage
        If given, every clique eliminates one variable, those of stage 1 last and by maximising: what states are chosen
        on.
    max_memory
        Most bytes that it may take; half of what is available by default.
    marginals
        Whether messages will go back to the leaves.
    loose
        Variables whose potentials are going to change.
    """
    if not field.is_ground:
        raise InputError(
            "exact inference sums over assignments, and a field whose variables stand for several has none; "
            "use 'loopy_bp', 'tree_reweighted' or 'mean_field', which run on counts, or ground it"
        )
    limit = available_memory() / 2 if max_memory is None else float(max_memory)
    tables = flat_tables(field)
    alive, alive_ptr, graph = live_graph(field, tables)
    found, merge = order, stage is None
    if isinstance(found, str):
        found = elimination_order(graph, found, stage=stage, limit=math.log2(max(limit, 8)) + 8)
    if not found.complete:
        raise TooLargeError(_refusal(found, 8 * 2**found.log2_largest, limit, "more than "))
    check_time()
    tree = junction_tree_of(graph, found.order, merge=merge, stage=stage)
    need = 8 * (2 * np.exp(tree.log_separator_states).sum() + 2 * len(tables.logs) + 2 * tables.num_marginals)
    if need > limit or tree.log_separator_states.max(initial=0.0) >= math.log(2**31):
        raise TooLargeError(_refusal(found, need, limit, ""))
    home, shift = np.empty_like(tables.begin), np.empty_like(tables.begin)
    find_homes(tables, tree.states, tree.position, tree.home, alive[alive_ptr[:-1]], home, shift)
    if merge:
        tree, home = relieve(tree, home, tables.port_ptr, tables.port_variable)
    check_time()
    parts = _lay_out(tree, tables, alive, alive_ptr, home, shift, loose)
    return CliquePlan(tree, found, alive_ptr, *parts, tables, stage, max_memory, marginals)


def live_graph(field: FactorGraph, tables: FlatTables) -> tuple[Array, Array, Interactions]:
    """Return the live states of all variables, the bounds of each variable's, and who interacts with whom on them.

    A variable without any keeps its first: the contradiction shows in the sums. One with a single live state interacts
    with nobody.
    """
    live, owner, start = live_states(field), as_array(field.state_variable), as_array(field.state_ptr)
    count = field.num_variables
    live[start[:-1][np.bincount(owner[live], minlength=count) == 0]] = True
    states = np.bincount(owner[live], minlength=count)
    joined = np.where(states[tables.port_variable] > 1, tables.port_variable, -1)
    graph = interactions_of(tables.port_ptr, joined, states)
    ptr = np.concatenate([[0], np.cumsum(states)]).astype(np.int64)
    return np.flatnonzero(live) - start[owner[live]], ptr, graph


def _refusal(found: EliminationOrder, need: float, limit: float, more: str) -> str:
    return (
        f"exact inference needs {more}{_gigabytes(need)} and may take {_gigabytes(limit)}: the treewidth is up to "
        f"{found.width}, the largest clique has 2^{found.log2_largest:.1f} joint states; {REMEDY}"
    )


def _gigabytes(number: float) -> str:
    return f"{number / 2**30:,.3g} GiB" if number < 2**60 else f"2^{math.log2(number) - 30:.0f} GiB"


def _lay_out(
    tree: JunctionTree,
    tables: FlatTables,
    alive: Array,
    alive_ptr: Array,
    home: Array,
    shift: Array,
    loose: Array | None,
) -> tuple[Layout, Array]:
    """Find the strides of every term in its clique; return the arrays, and the table of every term."""
    cliques, terms = tree.num_cliques, len(tables.begin)
    axis_states = tree.states[tree.clique_variables]
    message_size, split, inner_size, num_blocks = (np.empty(cliques, np.int64) for _ in range(4))
    split_axes(
        tree.clique_ptr, tree.separator_size, axis_states, BLOCK, message_size, split, inner_size, num_blocks
    )
    bounds = np.concatenate([[0], np.cumsum(message_size)]).astype(np.int64)[:-1]
    own, children = np.arange(cliques), np.flatnonzero(tree.parent >= 0)
    upwards, downwards = len(tables.logs) + bounds, tables.num_marginals + bounds
    clique = np.concatenate([own, home, tree.parent[children]])
    by_clique = np.argsort(clique, kind="stable")
    clique = clique[by_clique]

    def joined(separators: Array, of_tables: Array, messages: Array) -> Array:
        return np.concatenate([separators, of_tables, messages])[by_clique]

    child = joined(own, np.full(terms, -1), children)
    table = joined(-1 + 0 * own, np.arange(terms), -1 + 0 * children)
    stride_ptr = np.concatenate([[0], np.cumsum(np.diff(tree.clique_ptr)[clique])]).astype(np.int64)
    stride = np.zeros(stride_ptr[-1], np.int64)
    axes = (tree.clique_ptr, tree.clique_variables, tree.separator_size, axis_states)
    find_strides(clique, child, table, tables, *axes, stride_ptr, stride)
    # A table that is 1 on all live states can be left out of products.
    places = np.repeat(tables.begin[: len(alive_ptr) - 1], np.diff(alive_ptr)) + alive
    unary = np.minimum.reduceat(tables.logs[places], alive_ptr[:-1])
    trivial = np.concatenate([unary == 0.0, np.zeros(terms - len(unary), np.bool_)])
    if loose is not None:
        trivial[loose] = False
    layout = Layout(
        clique_ptr=tree.clique_ptr,
        axis_variable=tree.clique_variables,
        axis_states=axis_states,
        axis_alive=alive_ptr[tree.clique_variables],
        split=split,
        inner_size=inner_size,
        num_blocks=num_blocks,
        message_base=upwards,
        message_size=message_size,
        term_ptr=np.concatenate([[0], np.cumsum(np.bincount(clique, minlength=cliques))]).astype(np.int64),
        term_kind=joined(0 * own + SEPARATOR, np.full(terms, TABLE), 0 * children + MESSAGE),
        term_in=joined(0 * own, np.where(trivial, -1, tables.begin + shift), upwards[children]),
        term_out=joined(downwards, tables.marginal_begin + shift, downwards[children]),
        term_child=child,
        term_range=joined(0.0 * own, tables.least, 0.0 * children),
        stride_ptr=stride_ptr,
        stride=stride,
        alive=alive,
    )
    return layout, table


# -- cliques of many terms: these are multiplied into a few larger tables first ------------------------------


def relieve(
    tree: JunctionTree,
    home: Int[Array, " terms"],
    port_ptr: Int[Array, " term_bounds"],
    port_variable: Int[Array, " ports"],
) -> tuple[JunctionTree, Int[Array, " terms"]]:
    """Put cliques that eliminate nothing between a crowded clique and its terms; return tree and home of every table.

    A clique of n joint states and t terms (tables, and messages of children) costs n t. With its axes cut into few
    chunks, terms over the same chunks go to one clique within it, which costs their number times its own few states,
    and only its message is left to the crowded one. A pairwise field in which everything is joined to everything is
    14 times as fast with 18 binary variables and 44 times with 22 (measured with and without).
    """
    children = np.flatnonzero(tree.parent >= 0)
    owner = np.concatenate([home, tree.parent[children]])
    count = np.bincount(owner, minlength=tree.num_cliques)
    crowded = np.flatnonzero((count > MANY) & (tree.log_clique_states > math.log(LARGE)))
    by_owner = np.argsort(owner, kind="stable")
    begin = np.searchsorted(owner[by_owner], np.arange(tree.num_cliques + 1))
    scopes: list[Array] = []
    above: list[int] = []
    for clique in crowded.tolist():
        check_time()
        terms = by_owner[begin[clique] : begin[clique + 1]].tolist()
        axes = tree.clique_variables[tree.clique_ptr[clique] : tree.clique_ptr[clique + 1]]
        held = {}
        for term in terms:
            if term < len(home):
                held[term] = port_variable[port_ptr[term] : port_ptr[term + 1]]
            else:
                child = children[term - len(home)]
                first = tree.clique_ptr[child]
                held[term] = tree.clique_variables[first : first + tree.separator_size[child]]
        for members, scope in _groups(tree, axes, held):
            owner[members] = tree.num_cliques + len(scopes)
            scopes.append(scope)
            above.append(clique)
    if not scopes:
        return tree, home
    parent = tree.parent.copy()
    parent[children] = owner[len(home) :]
    return _with_cliques(tree, parent, scopes, np.array(above, np.int64), owner[: len(home)])


def _with_cliques(
    tree: JunctionTree, parent: Array, scopes: list[Array], above: Array, home: Array
) -> tuple[JunctionTree, Array]:
    """Add new cliques, numbered right before their parents, so that children still come before parents."""
    old = tree.num_cliques
    order = np.argsort(np.concatenate([2 * np.arange(old) + 1, 2 * above]), kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    every = np.split(tree.clique_variables, tree.clique_ptr[1:-1]) + scopes
    sizes = np.array([len(scope) for scope in scopes], np.int64)
    parent = np.concatenate([parent, above])[order]
    relieved = dataclasses.replace(
        tree,
        clique_ptr=np.concatenate([[0], np.cumsum([len(every[at]) for at in order])]).astype(np.int64),
        clique_variables=np.concatenate([every[at] for at in order]),
        separator_size=np.concatenate([tree.separator_size, sizes])[order],
        parent=np.where(parent >= 0, number[parent], -1),
        home=number[tree.home],
    )
    return relieved, number[home]


def _groups(tree: JunctionTree, axes: Array, held: dict[int, Array]) -> list[tuple[list[int], Array]]:
    """Return groups of a clique's terms with the variables that each covers, in the order of the clique's axes."""
    states = tree.states[axes]
    chunk = dict(zip(axes.tolist(), _chunks(states).tolist(), strict=True))
    groups: dict[frozenset[int], list[int]] = {}
    for term, variables in held.items():
        key = frozenset(chunk[v] for v in variables.tolist() if tree.states[v] > 1)
        groups.setdefault(key, []).append(term)
    most = min(_entries(states) // 8, MOST_ENTRIES)
    entries = {key: _entries(states[np.isin(_chunks(states), list(key))]) for key in groups}
    for key in sorted(groups, key=len):
        wider = next((other for other in groups if key < other and entries[other] <= most), None)
        if wider is not None:
            groups[wider] += groups.pop(key)
    found = []
    for members in groups.values():
        scope = axes[np.isin(axes, np.concatenate([held[term] for term in members]))]
        if len(members) > 2 and _entries(tree.states[scope]) <= most:
            found.append((members, scope))
    return found


def _entries(states: Array) -> int:
    return math.prod(states.tolist())


def _chunks(states: Array) -> Array:
    """Return the chunk of every axis, numbered from the last axis on."""
    number, size = 0, 1
    chunk = np.empty(len(states), np.int64)
    for axis in range(len(states) - 1, -1, -1):
        if size * states[axis] > CHUNK and size > 1:
            number, size = number + 1, 1
        size *= int(states[axis])
        chunk[axis] = number
    return chunk


# -- compiled loops -------------------------------------------------------------------------------------------


@compiled
def find_homes(tables, states, position, home_of, seen, home, shift):  # type: ignore[no-untyped-def]
    """Find the clique of every table: that of its first variable to be eliminated.

    A variable of one state is no axis of any clique but its own: its state shifts the place where the table begins.
    """
    for term in range(home.size):
        first, shifted = -1, 0
        begin, end = tables.port_ptr[term], tables.port_ptr[term + 1]
        for port in range(begin, end):
            variable = tables.port_variable[port]
            if states[variable] == 1 and end - begin > 1:
                shifted += seen[variable] * tables.port_stride[port]
            elif first < 0 or position[variable] < position[first]:
                first = variable
        home[term] = home_of[first if first >= 0 else tables.port_variable[begin]]
        shift[term] = shifted


@compiled
def split_axes(clique_ptr, separator_size, states, most, message_size, split, inner_size, num_blocks):  # type: ignore[no-untyped-def]
    """Make blocks of the trailing axes of every clique."""
    for clique in range(clique_ptr.size - 1):
        begin, end = clique_ptr[clique], clique_ptr[clique + 1]
        size, cut = 1, end
        while cut > begin and (cut == end or size * states[cut - 1] <= most):
            cut -= 1
            size *= states[cut]
        blocks, message = 1, 1
        for axis in range(begin, cut):
            blocks *= states[axis]
        for axis in range(begin, begin + separator_size[clique]):
            message *= states[axis]
        message_size[clique], split[clique] = message, cut - begin
        inner_size[clique], num_blocks[clique] = size, blocks


@compiled
def find_strides(  # type: ignore[no-untyped-def]
    clique, child, table, tables, clique_ptr, axis_variable, separator_size, states, stride_ptr, stride
):
    """Find each port of a term among the axes of its clique; a separator's axes lie as in the message."""
    for term in range(clique.size):
        begin, end = clique_ptr[clique[term]], clique_ptr[clique[term] + 1]
        at = stride_ptr[term] - begin
        if table[term] >= 0:
            first, last = tables.port_ptr[table[term]], tables.port_ptr[table[term] + 1]
            for port in range(first, last):
                for axis in range(begin, end):
                    # The state of an observed variable is part of where the table begins.
                    if axis_variable[axis] == tables.port_variable[port] and (
                        states[axis] > 1 or last - first == 1
                    ):
                        stride[at + axis] = tables.port_stride[port]
            continue
        source = clique_ptr[child[term]]
        step = 1
        axis = end - 1
        for i in range(source + separator_size[child[term]] - 1, source - 1, -1):
            while axis_variable[axis] != axis_variable[i]:
                axis -= 1
            stride[at + axis] = step
            step *= states[i]
