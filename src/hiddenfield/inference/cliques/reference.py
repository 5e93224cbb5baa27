"""Exact inference in plain torch, on any device, with any number of derivatives.

Cliques of one level (all messages that they need are there) and one shape (states, separator, which axes each term has)
are one batch: a sum of broadcast tables, then one log-sum-exp.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.inference.cliques.loops import SEPARATOR, TABLE
from hiddenfield.inference.cliques.plan import CliquePlan, Layout
from hiddenfield.machine import available_memory
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.shapes import Array, Float, Tensor


def torch_log_partition(
    field: FactorGraph, plan: CliquePlan, flat: Float[Tensor, " marginals"]
) -> Float[Tensor, " graphs"]:
    """Return the log partition of each graph as a differentiable function of all log tables.

    Parameters
    ----------
    field, plan
        The field and its plan.
    flat
        Every variable's log potentials and every factor's own (times its count), end to end: what the gradient with
        respect to it is laid out as, namely the marginals.
    """
    layout = plan.layout
    need = 3 * flat.element_size() * float(np.exp(plan.tree.log_clique_states).sum())
    limit = available_memory() / 2 if plan.max_memory is None else plan.max_memory
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
    """Return cliques that can be computed together, level after level, and their terms sorted alike."""
    layout, cliques = plan.layout, plan.tree.num_cliques
    level = [0] * cliques
    for clique, above in enumerate(plan.tree.parent.tolist()):  # children come before parents
        if above >= 0:
            level[above] = max(level[above], level[clique] + 1)
    used, _ = number_rows(Rows(layout.stride_ptr, (layout.stride != 0).astype(np.int64)))
    # The separator stays in front; tables and messages are sorted by kind and axes.
    kind = np.where(layout.term_kind == SEPARATOR, -1, layout.term_kind)
    owner = np.repeat(np.arange(cliques), np.diff(layout.term_ptr))
    order = np.lexsort([used, kind, owner])
    terms = np.split(3 * used[order] + kind[order], layout.term_ptr[1:-1])
    states = np.split(layout.axis_states, layout.clique_ptr[1:-1])
    batches: dict[tuple[int, int, bytes, bytes], list[int]] = {}
    for clique, size in enumerate(layout.message_size.tolist()):
        key = level[clique], size, states[clique].tobytes(), terms[clique].tobytes()
        batches.setdefault(key, []).append(clique)
    return [np.array(batches[key]) for key in sorted(batches, key=lambda key: key[0])], order
