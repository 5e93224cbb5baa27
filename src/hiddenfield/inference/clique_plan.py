"""What exact inference computes, as flat arrays: the terms of every clique, and where they lie."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hiddenfield.errors import InputError
from hiddenfield.fields.elimination_order import EliminationOrder, elimination_order, interactions_of
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.fields.junction_tree import JunctionTree, junction_tree_of
from hiddenfield.ops.compile import kernel
from hiddenfield.shapes import Array

__all__ = ["CliquePlan", "available_memory", "clique_plan", "has_shared_tables"]

BLOCK = 1024
"""Most places of a block: with its offsets it stays in the first-level cache."""

REMEDY = (
    "raise max_memory=, give evidence, or use an approximate method: 'loopy_bp', 'tree_reweighted' (an upper bound) or "
    "'mean_field' (a lower bound)"
)


@dataclass(frozen=True, eq=False)
class CliquePlan:
    """A junction tree and the terms of its cliques; see `clique_kernels`.

    A term is a factor (unary ones included), a child's message, or a clique's own separator, which comes first. It
    lies in a flat array of values from ``term_in`` on with a stride for every axis of its clique; its marginal goes to
    ``term_out`` of another.

    Parameters
    ----------
    tree
        The junction tree over all variables; those with one live state are cliques by themselves.
    order
        What the elimination order cost.
    alive, alive_ptr
        Live states of each variable.
    axis_states, axis_alive
        For every axis of every clique its number of states and where its variable's live states begin.
    split, inner_size, num_blocks
        How many axes of each clique are outer ones, and the size and number of blocks.
    message_base, message_size
        Where each clique's message lies among the values.
    term_ptr, term_kind, term_in, term_out, term_child, term_table, stride_ptr, stride
        Terms, clique after clique. `term_table` numbers the tables of the field; -1 for messages.
    num_values, num_outputs
        Lengths of the two flat arrays.
    """

    tree: JunctionTree
    order: EliminationOrder
    alive: Array
    alive_ptr: Array
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
    term_table: Array
    stride_ptr: Array
    stride: Array
    num_values: int
    num_outputs: int

    @property
    def most_terms(self) -> int:
        """The greatest number of terms of a clique."""
        return int(np.diff(self.term_ptr).max(initial=1))

    @property
    def most_inner(self) -> int:
        """The greatest size of a block."""
        return int(self.inner_size.max(initial=1))


def clique_plan(
    field: FactorGraph,
    live: Array,
    *,
    order: str = "best",
    stage: Array | None = None,
    merge: bool = True,
    max_memory: float | None = None,
) -> CliquePlan:
    """Plan exact inference on the live states of a field, or refuse with `InputError` where it does not fit.

    Parameters
    ----------
    field, live
        The field, and which packed states are possible.
    order, stage, merge
        See `elimination_order` and `junction_tree_of`.
    max_memory
        Most bytes that messages may take; half of what is available by default.
    """
    if not field.is_ground:
        raise InputError(
            "exact inference enumerates assignments, and a field whose variables stand for several has none; "
            "use 'loopy_bp', 'tree_reweighted' or 'mean_field', which run on counts, or ground it"
        )
    limit = available_memory() / 2 if max_memory is None else float(max_memory)
    cards = field.cardinalities.cpu().numpy()
    owner = field.state_variable.cpu().numpy()
    state_ptr = field.state_ptr.cpu().numpy()
    # A variable without a live state keeps its first one, dead: the contradiction then shows in the sums.
    live = live.copy()
    live[state_ptr[:-1][np.bincount(owner[live], minlength=len(cards)) == 0]] = True
    states = np.bincount(owner[live], minlength=len(cards))
    alive_ptr = np.concatenate([[0], np.cumsum(states)]).astype(np.int64)
    alive = (np.flatnonzero(live) - state_ptr[owner[live]]).astype(np.int64)
    scopes = [group.scopes.cpu().numpy() for group in field.groups]
    open_scopes = [np.where(states[scope] > 1, scope, -1) for scope in scopes]
    graph = interactions_of(open_scopes, states)
    found = elimination_order(graph, order, stage=stage, limit=math.log2(max(limit, 8)) + 8)
    if not found.complete:
        raise InputError(_refusal(found, 8 * 2**found.log2_largest, limit, "more than "))
    tree = junction_tree_of(graph, found.order, merge=merge, stage=stage)
    need = _bytes_needed(field, tree)
    if need > limit or tree.log_separator_states.max(initial=0.0) >= math.log(2**31):
        raise InputError(_refusal(found, need, limit, ""))
    return _lay_out(field, tree, found, alive, alive_ptr, open_scopes)


def _refusal(found: EliminationOrder, need: float, limit: float, more: str) -> str:
    return (
        f"exact inference needs {more}{_gigabytes(need)} and may take {_gigabytes(limit)}: the treewidth is up to "
        f"{found.width}, the largest clique has 2^{found.log2_largest:.1f} joint states; {REMEDY}"
    )


def _gigabytes(number: float) -> str:
    return f"{number / 2**30:,.3g} GiB" if number < 2**60 else f"2^{math.log2(number) - 30:.0f} GiB"


def _bytes_needed(field: FactorGraph, tree: JunctionTree) -> float:
    """Predict the memory: messages up and down, tables in two forms, marginals and their logarithms."""
    messages = float(np.exp(tree.log_separator_states).sum())
    tables = field.log_unary.shape[0] + sum(group.log_tables.numel() for group in field.groups)
    outputs = field.log_unary.shape[0]
    outputs += sum(group.num_factors * math.prod(group.states) for group in field.groups)
    return 8 * (2 * messages + 2 * tables + 2 * outputs)


def available_memory() -> float:
    """Return how many bytes could be had without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2


def _lay_out(
    field: FactorGraph,
    tree: JunctionTree,
    found: EliminationOrder,
    alive: Array,
    alive_ptr: Array,
    open_scopes: list[Array],
) -> CliquePlan:
    cliques = tree.num_cliques
    axis_states = tree.states[tree.clique_variables]
    message_size, split, inner_size, num_blocks = (np.empty(cliques, np.int64) for _ in range(4))
    split_axes(
        tree.clique_ptr, tree.separator_size, axis_states, BLOCK, message_size, split, inner_size, num_blocks
    )
    ports = _ports(field, tree, open_scopes, alive, alive_ptr)
    num_tables, num_outputs = ports["tables"], ports["outputs"]
    bounds = np.concatenate([[0], np.cumsum(message_size)]).astype(np.int64)
    children = np.flatnonzero(tree.parent >= 0)
    own, none = np.arange(cliques), np.full(cliques, -1)
    clique = np.concatenate([own, ports["clique"], tree.parent[children]])
    kind = np.repeat([2, 0, 1], [cliques, len(ports["clique"]), len(children)])
    term_in = np.concatenate([0 * own, ports["in"], num_tables + bounds[:-1][children]])
    term_out = np.concatenate([num_outputs + bounds[:-1], ports["out"], num_outputs + bounds[:-1][children]])
    child = np.concatenate([own, np.full(len(ports["clique"]), -1), children])
    table = np.concatenate([none, ports["table"], np.full(len(children), -1)])
    sorted_terms = np.argsort(clique, kind="stable")
    clique, kind, child = clique[sorted_terms], kind[sorted_terms], child[sorted_terms]
    axes = np.diff(tree.clique_ptr)[clique]
    stride_ptr = np.concatenate([[0], np.cumsum(axes)]).astype(np.int64)
    stride = np.zeros(stride_ptr[-1], np.int64)
    # Where the ports of each table begin; other terms take theirs from the separators.
    port = np.concatenate([none, ports["first_port"], np.full(len(children), -1)])[sorted_terms]
    arity = np.concatenate([none, ports["arity"], np.full(len(children), -1)])[sorted_terms]
    find_strides(
        clique, child, port, arity, ports["variable"], ports["stride"], tree.clique_ptr, tree.clique_variables,
        tree.separator_size, axis_states, stride_ptr, stride,
    )  # fmt: skip
    return CliquePlan(
        tree=tree,
        order=found,
        alive=alive,
        alive_ptr=alive_ptr,
        axis_states=axis_states,
        axis_alive=alive_ptr[tree.clique_variables],
        split=split,
        inner_size=inner_size,
        num_blocks=num_blocks,
        message_base=num_tables + bounds[:-1],
        message_size=message_size,
        term_ptr=np.concatenate([[0], np.cumsum(np.bincount(clique, minlength=cliques))]).astype(np.int64),
        term_kind=kind,
        term_in=term_in[sorted_terms],
        term_out=term_out[sorted_terms],
        term_child=child,
        term_table=table[sorted_terms],
        stride_ptr=stride_ptr,
        stride=stride,
        num_values=num_tables + int(bounds[-1]),
        num_outputs=num_outputs + int(bounds[-1]),
    )


def _ports(
    field: FactorGraph, tree: JunctionTree, open_scopes: list[Array], alive: Array, alive_ptr: Array
) -> dict[str, Array]:
    """Describe every table term: its clique, where it lies, and its ports with their strides.

    An observed variable is no port: its state shifts the place where the table begins.
    """
    cards, state_ptr = field.cardinalities.cpu().numpy(), field.state_ptr.cpu().numpy()[:-1]
    observed = np.diff(alive_ptr) == 1
    seen = np.where(observed, alive[alive_ptr[:-1]], 0)
    count = len(cards)
    numbers = np.arange(count)
    parts: dict[str, list[Array]] = {
        "clique": [tree.home],
        "in": [state_ptr],
        "out": [state_ptr],
        "table": [numbers],
        "arity": [np.ones(count, np.int64)],
        "variable": [numbers],
        "stride": [np.ones(count, np.int64)],
    }
    tables = outputs = int(cards.sum())
    rows = count
    for group, scope in zip(field.groups, open_scopes, strict=True):
        size = math.prod(group.states)
        strides = np.array([math.prod(group.states[port + 1 :]) for port in range(group.arity)])
        full = group.scopes.cpu().numpy()
        shift = (np.where(scope < 0, seen[full], 0) * strides).sum(1)
        shared = has_shared_tables(group)
        row = group.table.cpu().numpy() if shared and group.table is not None else np.arange(len(full))
        late = np.where(scope >= 0, tree.position[full], np.iinfo(np.int64).max)
        first = full[np.arange(len(full)), late.argmin(1)]
        parts["clique"].append(tree.home[first])
        parts["in"].append(tables + row * size + shift)
        parts["out"].append(outputs + np.arange(len(full)) * size + shift)
        parts["table"].append(rows + row)
        parts["arity"].append(np.full(len(full), group.arity))
        parts["variable"].append(scope.reshape(-1))
        parts["stride"].append(np.tile(strides, len(full)))
        num_rows = group.log_tables.shape[0] if shared else len(full)
        tables, rows, outputs = tables + num_rows * size, rows + num_rows, outputs + len(full) * size
    joined: dict[str, Array] = {name: np.concatenate(part).astype(np.int64) for name, part in parts.items()}
    joined["first_port"] = np.concatenate([[0], np.cumsum(joined["arity"])[:-1]]).astype(np.int64)[
        : len(joined["arity"])
    ]
    return {**joined, "tables": tables, "outputs": outputs}


def has_shared_tables(group: FactorGroup) -> bool:
    """Whether factors of a group read from common tables; where one counts several times, each has its own."""
    return group.table is not None and bool((group.count == 1).all())


@kernel
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


@kernel
def find_strides(
    clique,
    child,
    port,
    arity,
    variable,
    port_stride,
    clique_ptr,
    axis_variable,
    separator_size,
    states,
    stride_ptr,
    stride,
):  # type: ignore[no-untyped-def]
    """Find each port of a term among the axes of its clique; a separator's axes lie as in the message."""
    for term in range(clique.size):
        begin, end = clique_ptr[clique[term]], clique_ptr[clique[term] + 1]
        at = stride_ptr[term] - begin
        if port[term] >= 0:
            for i in range(port[term], port[term] + arity[term]):
                for axis in range(begin, end):
                    if axis_variable[axis] == variable[i]:
                        stride[at + axis] = port_stride[i]
            continue
        source = clique_ptr[child[term]]
        step = 1
        axis = end - 1
        for i in range(source + separator_size[child[term]] - 1, source - 1, -1):
            while axis_variable[axis] != axis_variable[i]:
                axis -= 1
            stride[at + axis] = step
            step *= states[i]
