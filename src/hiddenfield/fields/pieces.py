"""Cut a batch of fields into smaller batches."""

from __future__ import annotations

from itertools import pairwise

import torch

from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup


def cut_batch(field: FactorGraph, most_messages: int) -> list[FactorGraph]:
    """Return batches of consecutive graphs whose messages hold at most so many numbers, or one graph each.

    The field itself, alone, where its factors are not in the order of graphs, or where some batch would lack a kind of
    factor that another one has. Variables, and the factors of each group, come in the order of the field. Made once for
    each field.
    """
    kept: dict[int, list[FactorGraph]] = field.__dict__.setdefault("_pieces", {})
    if most_messages not in kept:
        kept[most_messages] = _cut(field, most_messages)
    return kept[most_messages]


def _cut(field: FactorGraph, most_messages: int) -> list[FactorGraph]:
    wiring = field.wiring
    owners = [field.variable_graph[group.scopes[:, 0]] for group in field.groups]
    if not all(bool((owner.diff() >= 0).all()) for owner in owners):
        return [field]
    sizes = torch.zeros(field.num_graphs, dtype=torch.int64, device=field.device)
    sizes = sizes.index_add(0, wiring.port_graph, wiring.port_ptr.diff())
    bounds, held = [0], 0
    for graph, size in enumerate(sizes.tolist()):
        if held and held + size > most_messages:
            bounds.append(graph)
            held = 0
        held += size
    graphs = torch.tensor([*bounds, field.num_graphs], device=field.device)
    factors = [torch.searchsorted(owner, graphs).tolist() for owner in owners]
    if any(begin == end for cuts in factors for begin, end in pairwise(cuts)):
        return [field]
    return [
        _piece(field, int(graphs[n]), int(graphs[n + 1]), [(cuts[n], cuts[n + 1]) for cuts in factors])
        for n in range(len(graphs) - 1)
    ]


def _piece(field: FactorGraph, first: int, last: int, factors: list[tuple[int, int]]) -> FactorGraph:
    begin, end = int(field.variable_ptr[first]), int(field.variable_ptr[last])
    groups = []
    for group, (low, high) in zip(field.groups, factors, strict=True):
        own = group.table is None
        groups.append(
            FactorGroup(
                group.scopes[low:high] - begin,
                group.log_tables[low:high] if own else group.log_tables,
                None if group.table is None else group.table[low:high],
                group.count[low:high],
            )
        )
    return FactorGraph(
        field.cardinalities[begin:end],
        field.log_unary[int(field.state_ptr[begin]) : int(field.state_ptr[end])],
        tuple(groups),
        field.variable_ptr[first : last + 1] - begin,
        field.counts[begin:end],
        field.log_constant[first:last],
    )
