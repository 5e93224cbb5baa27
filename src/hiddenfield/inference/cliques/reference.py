"""Exact inference in plain torch, on any device, any number of derivatives: a clique plan, or every assignment.

Cliques of one level (all messages that they need are there) and one shape (states, separator, which axes each term has)
are one batch: a sum of broadcast tables, then one log-sum-exp.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.cliques.loops import TABLE
from hiddenfield.inference.cliques.plan import CliquePlan, Layout
from hiddenfield.machine import available_memory
from hiddenfield.ops.compile import compiled
from hiddenfield.shapes import Array, Float, Int, Tensor

MOST_NUMBERS = 1 << 26
"""States that may be written down, over all assignments and variables."""


def torch_log_partition(
    field: FactorGraph, plan: CliquePlan, flat: Float[Tensor, " marginals"], max_memory: float | None = None
) -> Float[Tensor, " graphs"]:
    """Return the log partition of each graph as a differentiable function of all log tables.

    Parameters
    ----------
    field, plan
        The field and its plan.
    flat
        Every variable's log potentials and every factor's own (times its count), end to end: what the gradient with
        respect to it is laid out as, namely the marginals.
    max_memory
        Most bytes for the cliques of all batches, which backward needs; half of what is available by default.
    """
    layout = plan.layout
    need = 3 * flat.element_size() * float(np.exp(plan.tree.log_clique_states).sum())
    limit = available_memory() / 2 if max_memory is None else max_memory
    if field.device.type == "cpu" and need > limit:
        raise InputError(
            f"differentiating through all cliques needs about {need / 2**30:.3g} GiB and may take {limit / 2**30:.3g} "
            f"GiB; without unroll=True the gradient of the log partition needs no such memory"
        )
    batches, order = _batches(plan)
    batch_of, row_of = np.empty(plan.tree.num_cliques, np.int64), np.empty(plan.tree.num_cliques, np.int64)
    messages: list[Tensor] = []
    first = plan.tree.clique_variables[plan.tree.clique_ptr[:-1]]
    graph = field.variable_graph.cpu().numpy()[first]
    total = field.log_constant.to(flat.dtype)
    for number, cliques in enumerate(batches):
        batch_of[cliques], row_of[cliques] = number, np.arange(len(cliques))
        axes = np.diff(layout.clique_ptr[cliques[0] : cliques[0] + 2])[0]
        states = layout.axis_states[layout.clique_ptr[cliques[0]] + np.arange(axes)].tolist()
        joint = flat.new_zeros(len(cliques), *(1,) * axes)
        for slot in range(1, layout.term_ptr[cliques[0] + 1] - layout.term_ptr[cliques[0]]):
            terms = order[layout.term_ptr[cliques] + slot]
            index, shape = _places(layout, cliques, terms, states)
            if layout.term_kind[terms[0]] == TABLE:
                source = flat
            else:
                source, index = _from_children(layout.term_child[terms], index, batch_of, row_of, messages)
            values = source[torch.from_numpy(index).to(flat.device)]
            joint = joint + values.reshape(len(cliques), *shape)
        joint = joint.expand(len(cliques), *states)
        separator = int(layout.message_size[cliques[0]])
        message = _log_sum(joint.reshape(len(cliques), separator, -1))
        messages.append(message)
        roots = plan.tree.parent[cliques] < 0
        if roots.any():
            owner = torch.from_numpy(graph[cliques[roots]]).to(flat.device)
            total = total.index_add(0, owner, message[torch.from_numpy(roots).to(flat.device), 0])
    return total


def _log_sum(values: Tensor) -> Tensor:
    """Log-sum-exp over the last axis whose derivatives of any order are zero, not NaN, where all is -inf."""
    top = values.detach().amax(-1, keepdim=True)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    total = (values - top).exp().sum(-1)
    some = total > 0
    logarithm = torch.where(some, total, torch.ones_like(total)).log() + top[..., 0]
    return torch.where(some, logarithm, torch.full_like(logarithm, -math.inf))


def _places(layout: Layout, cliques: Array, terms: Array, states: list[int]) -> tuple[Array, list[int]]:
    """Return where the numbers of a term lie, one row per clique, and its shape among the axes of the clique."""
    is_table = layout.term_kind[terms[0]] == TABLE
    index = (layout.term_out[terms] if is_table else np.zeros(len(terms), np.int64))[:, None]
    shape = []
    for axis, size in enumerate(states):
        step = layout.stride[layout.stride_ptr[terms] + axis]
        used = bool((step != 0).any())
        shape.append(size if used else 1)
        if not used:
            continue
        along = np.broadcast_to(np.arange(size), (len(terms), size))
        if is_table:
            along = layout.alive[layout.axis_alive[layout.clique_ptr[cliques] + axis][:, None] + along]
        index = (index[:, :, None] + (along * step[:, None])[:, None, :]).reshape(len(terms), -1)
    return index, shape


def _from_children(
    children: Array, index: Array, batch_of: Array, row_of: Array, messages: list[Tensor]
) -> tuple[Tensor, Array]:
    """Join the batches that the children's messages are in, and shift the places accordingly."""
    batches, which = np.unique(batch_of[children], return_inverse=True)
    sizes = np.array([messages[batch].numel() for batch in batches])
    widths = np.array([messages[batch].shape[1] for batch in batches])
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    parts = [messages[batch].reshape(-1) for batch in batches]
    source = parts[0] if len(parts) == 1 else torch.cat(parts)
    return source, index + (begin[which] + row_of[children] * widths[which])[:, None]


def _batches(plan: CliquePlan) -> tuple[list[Array], Array]:
    """Return cliques that can be computed together, level after level, and their terms sorted alike.

    Shapes are compared by a hash of 64 bits.
    """
    layout, cliques = plan.layout, plan.tree.num_cliques
    level = np.zeros(cliques, np.int64)
    find_levels(plan.tree.parent, level)
    random = np.random.default_rng(0)
    axes = np.diff(layout.clique_ptr)
    most = int(max(axes.max(initial=1), np.diff(layout.term_ptr).max(initial=1))) + 1
    codes = random.integers(1, 2**63, size=(3, most), dtype=np.uint64)
    term_clique = np.repeat(np.arange(cliques), np.diff(layout.term_ptr))
    axis_of = _within(layout.stride_ptr)
    used = (layout.stride != 0).astype(np.uint64)
    term_hash = np.add.reduceat(used * codes[0][axis_of], layout.stride_ptr[:-1]) if len(used) else used
    # The separator stays in front; tables and messages are sorted by kind and axes.
    kind = np.where(layout.term_kind == 2, -1, layout.term_kind)
    order = np.lexsort([term_hash, kind, term_clique])
    slot = codes[1][_within(layout.term_ptr)]
    mixed = slot * (term_hash[order] ^ (kind[order] + 7).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    clique_axis = codes[2][_within(layout.clique_ptr)]
    shape_hash = np.add.reduceat(layout.axis_states.astype(np.uint64) * clique_axis, layout.clique_ptr[:-1])
    shape_hash += np.add.reduceat(mixed, layout.term_ptr[:-1])
    shape_hash ^= (layout.message_size.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    ranked = np.lexsort([shape_hash, level])
    cuts = np.flatnonzero((np.diff(level[ranked]) != 0) | (np.diff(shape_hash[ranked]) != 0)) + 1
    return [np.sort(batch) for batch in np.split(ranked, cuts)] if cliques else [], order


def _within(ptr: Array) -> Array:
    """Return the place of every member within its segment."""
    return np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))


@compiled
def find_levels(parent, level):  # type: ignore[no-untyped-def]
    """Find how far each clique is from its farthest leaf; children come before parents."""
    for clique in range(parent.size):
        above = parent[clique]
        if above >= 0:
            level[above] = max(level[above], level[clique] + 1)


def assignments(
    field: FactorGraph,
) -> tuple[Int[Tensor, "assignments variables"], Float[Tensor, "assignments graphs"]]:
    """Return all assignments of all graphs side by side with their log values, -inf where a graph has fewer.

    Row i holds the i-th assignment of every graph, the last variable's state running fastest.
    """
    cards, owner = field.cardinalities.cpu(), field.variable_graph.cpu()
    log_states = torch.zeros(field.num_graphs, dtype=torch.float64).index_add(0, owner, cards.double().log())
    most = float(log_states.max()) if field.num_graphs else 0.0
    if most + math.log(max(field.num_variables, 1)) > math.log(MOST_NUMBERS):
        raise InputError(
            f"enumeration would look at {math.exp(min(most, 700.0)):.3g} assignments; use algorithm='junction_tree'"
        )
    period = torch.ones_like(cards)
    sizes = torch.ones(field.num_graphs, dtype=torch.int64)
    for variable in range(field.num_variables - 1, -1, -1):
        period[variable] = sizes[owner[variable]]
        sizes[owner[variable]] *= cards[variable]
    rows = torch.arange(int(sizes.max()) if field.num_graphs else 1)
    states = (rows[:, None] // period) % cards
    states = states.to(field.device)
    beyond = (rows[:, None] >= sizes).to(field.device)
    return states, field.log_value(states).masked_fill(beyond, -math.inf)


def enumerate_assignments(field: FactorGraph) -> tuple[Tensor, Tensor]:
    """Return the log partition of each graph, and all marginals: of variables, then of factors, end to end.

    Plain torch on any device; differentiable. Cost: the number of assignments times the size of the field.
    """
    states, values = assignments(field)
    total = torch.logsumexp(values, 0)
    possible = total > -math.inf
    safe = torch.where(possible, total, torch.zeros_like(total))
    weight = torch.where(possible, (values - safe).exp(), torch.zeros_like(values))
    size = field.log_unary.shape[0]
    places = field.state_ptr[:-1] + states
    parts = [_scattered(size, places, weight[:, field.variable_graph])]
    for group in field.groups:
        place = torch.zeros_like(states[:, :1]).expand(-1, group.num_factors)
        for port in range(group.arity):
            place = place * group.states[port] + states[:, group.scopes[:, port]]
        entries = math.prod(group.states)
        place = place + entries * torch.arange(group.num_factors, device=field.device)
        own = weight[:, field.variable_graph[group.scopes[:, 0]]]
        parts.append(_scattered(entries * group.num_factors, place, own))
    return total, torch.cat(parts)


def _scattered(size: int, places: Tensor, weights: Tensor) -> Tensor:
    return weights.new_zeros(size).index_add(0, places.reshape(-1), weights.reshape(-1))
