"""Pairwise fields on packs of structures: one variable per node, one factor per edge."""

from __future__ import annotations

import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.shapes import Float, Int, Tensor


def edge_arcs(structures: Structures) -> Int[Tensor, " edges"]:
    """Return the arc that stands for each edge: of two that are each other's reverse the one to the higher node.

    One-way arcs and self-loops stand for themselves. In the order of arcs, that is by target, then by source; linear in
    the arcs.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> triangle = hf.data.from_edges([0, 1, 2], [1, 2, 0], node_ptr=[0, 3])
    >>> arcs = edge_arcs(triangle)
    >>> triangle.source[arcs].tolist(), triangle.target[arcs].tolist()
    ([0, 0, 1], [1, 2, 2])
    """
    reverse = structures.reverse
    own = torch.arange(reverse.shape[0], device=reverse.device, dtype=reverse.dtype)
    return torch.nonzero(reverse <= own).squeeze(1)


def pairwise_field(
    structures: Structures,
    node_log_potentials: Float[Tensor, "nodes states"],
    edge_log_potentials: Float[Tensor, "*tables states states"],
    *,
    arc_label: str | int | None = None,
) -> FactorGraph:
    r"""Put a field on every structure of a pack, as one batch.

    .. math:: p(x) \propto \prod_i \Phi_i(x_i) \prod_{(i, j) \in \mathcal{E}} \Psi_{ij}(x_i, x_j)

    Each undirected edge is one factor over (lower node, higher node), each one-way arc one over (source, target); a
    self-loop is the potential :math:`\Psi_{ii}(x_i, x_i)` of its node. Gradients flow to both arguments; type and
    device are those of the node potentials. Vectorised: no loop over structures.

    Parameters
    ----------
    structures
        The pack; structure n becomes graph n.
    node_log_potentials
        Log potentials of every node.
    edge_log_potentials
        (states, states): one table for all edges. With `arc_label`, (symbols, states, states): one for each symbol of
        that column. Without, (edges, states, states): one for each edge, in the order of `edge_arcs`.
    arc_label
        Position or name of a column of arc labels; of an undirected edge it is that of the arc to the higher node.

    Returns
    -------
    FactorGraph
        One graph per structure and one variable per node, in the same order; linear in nodes and arcs.

    Examples
    --------
    >>> import hiddenfield as hf, torch
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> field = pairwise_field(words, torch.zeros(10, 2), torch.eye(2))
    >>> field
    FactorGraph(2 graphs, 10 variables of 2 states, 8 factors of up to 2 ports)
    """
    nodes, states = _checked_nodes(structures, node_log_potentials)
    device, dtype = nodes.device, nodes.dtype
    tables = edge_log_potentials.to(device, dtype)
    arcs = edge_arcs(structures)
    index = _table_of_edge(structures, arcs, tables, states, arc_label)
    tables = tables.unsqueeze(0) if tables.ndim == 2 else tables
    _check_numbers("edge_log_potentials", tables)
    source = structures.source[arcs].long().to(device)
    target = structures.target[arcs].long().to(device)
    loops = source == target
    if bool(loops.any()):
        diagonal = tables[index[loops]].diagonal(dim1=1, dim2=2)
        nodes = nodes.index_add(0, source[loops], diagonal)
        source, target, index = source[~loops], target[~loops], index[~loops]
    own = not bool(loops.any()) and tables.shape[0] == len(index) and arc_label is None
    scopes = torch.stack([source, target], dim=1)
    return assemble_pairwise(
        nodes, scopes, tables, None if own else index, structures.node_ptr.long().to(device)
    )


def assemble_pairwise(
    unary: Float[Tensor, "variables states"],
    scopes: Int[Tensor, "factors 2"],
    tables: Float[Tensor, "tables states states"],
    index: Int[Tensor, " factors"] | None,
    variable_ptr: Int[Tensor, " graph_bounds"],
) -> FactorGraph:
    """Put together a ground field whose variables all have the same number of states; nothing is checked."""
    group = FactorGroup(scopes, tables, index, unary.new_ones(len(scopes)))
    return FactorGraph(
        variable_ptr.new_full((len(unary),), unary.shape[1]),
        unary.reshape(-1).contiguous(),
        (group,) if len(scopes) else (),
        variable_ptr,
        unary.new_ones(len(unary)),
        unary.new_zeros(len(variable_ptr) - 1),
    )


def _checked_nodes(structures: Structures, nodes: Tensor) -> tuple[Tensor, int]:
    if nodes.ndim != 2 or nodes.shape[0] != structures.total_nodes or nodes.shape[1] < 1:
        raise InputError(
            f"node_log_potentials must have shape ({structures.total_nodes}, states), got {tuple(nodes.shape)}"
        )
    if not nodes.is_floating_point():
        raise InputError(f"node_log_potentials must be floating point numbers, got {nodes.dtype}")
    _check_numbers("node_log_potentials", nodes)
    return nodes, nodes.shape[1]


def _check_numbers(name: str, values: Tensor) -> None:
    bad = values.detach().isnan() | (values.detach() == float("inf"))
    if bool(bad.any()):
        place = tuple(bad.nonzero()[0].tolist())
        raise InputError(f"{name} must be numbers or -inf, got {values[place].item()} at {place}")


def _table_of_edge(
    structures: Structures, arcs: Tensor, tables: Tensor, states: int, arc_label: str | int | None
) -> Int[Tensor, " edges"]:
    """Return which table each edge reads, having checked that there are as many as there must be."""
    wanted: tuple[int, ...] = (states, states)
    labels: Tensor | None = None
    if arc_label is not None:
        column = _column(structures, arc_label)
        wanted = (len(structures.arc_vocabularies[column]), states, states)
        labels = structures.arc_labels[arcs, column].long()  # type: ignore[index]
    elif tables.ndim == 3:
        wanted = (len(arcs), states, states)
    if tuple(tables.shape) != wanted:
        kind = "symbols" if arc_label is not None else "edges"
        shape = wanted if len(wanted) == 3 else f"{wanted} or ({len(arcs)} edges, {states}, {states})"
        named = f" ({kind}, states, states)" if len(wanted) == 3 else ""
        raise InputError(f"edge_log_potentials must have shape {shape}{named}, got {tuple(tables.shape)}")
    if labels is not None:
        return labels.to(tables.device)
    if tables.ndim == 3:
        return torch.arange(len(arcs), device=tables.device)
    return torch.zeros(len(arcs), dtype=torch.int64, device=tables.device)


def _column(structures: Structures, arc_label: str | int) -> int:
    names = [vocabulary.name for vocabulary in structures.arc_vocabularies]
    if arc_label in names:
        return names.index(str(arc_label))
    if isinstance(arc_label, int) and not isinstance(arc_label, bool) and 0 <= arc_label < len(names):
        return arc_label
    raise InputError(f"there is no column {arc_label!r} of arc labels; the columns are: {names or 'none'}")
