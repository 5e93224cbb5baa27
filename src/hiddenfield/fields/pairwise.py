"""Pairwise fields: on packs of structures, and Ising and Potts models on rectangular grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph, FactorGroup
from hiddenfield.shapes import Array, Float, Int, Tensor


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


def grid_edges(rows: int, columns: int, *, periodic: bool = False) -> Int[Array, "edges 2"]:
    """Return the pairs of neighbours of a grid: row by row to the right, then downwards; each pair once.

    Variables are numbered row by row. With `periodic` the last row and column are joined to the first, where there
    are at least three. Linear in the edges.

    Examples
    --------
    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    if rows < 1 or columns < 1:
        raise InputError(f"a grid has at least one row and one column, got {rows} and {columns}")
    number = np.arange(rows * columns).reshape(rows, columns)
    parts = [np.stack([number[:, :-1], number[:, 1:]], axis=-1)]
    if periodic and columns > 2:
        parts.append(np.stack([number[:, -1:], number[:, :1]], axis=-1))
    horizontal = np.concatenate(parts, axis=1).reshape(-1, 2)
    parts = [np.stack([number[:-1], number[1:]], axis=-1)]
    if periodic and rows > 2:
        parts.append(np.stack([number[-1:], number[:1]], axis=-1))
    vertical = np.concatenate(parts, axis=0).reshape(-1, 2)
    return np.concatenate([horizontal, vertical])


def ising_grid(
    rows: int,
    columns: int,
    coupling: Any = 1.0,
    field: Any = 0.0,
    *,
    periodic: bool = False,
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    r"""Build :math:`p(x) \propto \exp(\sum_{(i,j)} J_{ij} x_i x_j + \sum_i h_i x_i)` with :math:`x_i \in \{-1, +1\}`.

    State 0 is -1, state 1 is +1.

    Parameters
    ----------
    rows, columns
        Of the grid.
    coupling
        J: a number, one for each edge in the order of `grid_edges`, or a function that is called with the number of
        edges, as a generator's methods are made for.
    field
        h: a number, one for each variable, (rows, columns) or flat, or a function of the number of variables.
    periodic
        Join opposite borders: a torus.
    dtype
        Of the potentials.

    Returns
    -------
    FactorGraph
        One graph of rows times columns variables; a (2, 2) table for each edge, or one for all if J is one number.
        Linear in the edges.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> ising_grid(10, 10, lambda size: draw.uniform(-1, 1, size), lambda size: draw.normal(0, 0.05, size))
    FactorGraph(1 graph, 100 variables of 2 states, 180 factors of up to 2 ports)
    """
    edges = grid_edges(rows, columns, periodic=periodic)
    couplings = _numbers("coupling", coupling, len(edges), dtype)
    fields = _numbers("field", field, rows * columns, dtype)
    if couplings.shape not in ((), (len(edges),)):
        raise InputError(f"coupling must be a number or {len(edges)} of them, got {tuple(couplings.shape)}")
    if fields.shape not in ((), (rows * columns,), (rows, columns)):
        raise InputError(f"field must be a number or {rows * columns} of them, got {tuple(fields.shape)}")
    signs = torch.tensor([-1.0, 1.0], dtype=dtype, device=fields.device)
    tables = couplings.reshape(-1, 1, 1) * torch.outer(signs, signs).to(couplings.device)
    unary = fields.reshape(-1, 1).expand(rows * columns if fields.ndim == 0 else -1, 1) * signs
    return _assemble(edges, tables, unary)


def potts_grid(
    rows: int,
    columns: int,
    num_states: int,
    coupling: Any = 1.0,
    field: Any = 0.0,
    *,
    periodic: bool = False,
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    r"""Build :math:`p(x) \propto \exp(\sum_{(i,j)} J_{ij} [x_i = x_j] + \sum_i h_i(x_i))`, or one with any tables.

    Parameters
    ----------
    rows, columns
        Of the grid.
    num_states
        K, at least 1.
    coupling
        J: a number, one for each edge (`grid_edges`), a (K, K) log table for all edges or (edges, K, K) for each; or a
        function of the number of edges that returns one of these.
    field
        h: 0, (K,) for all variables, (variables, K) or (rows, columns, K); or a function of the number of variables
        that returns one of these.
    periodic, dtype
        As of `ising_grid`.

    Returns
    -------
    FactorGraph
        One graph of rows times columns variables; a (K, K) table for each edge, or one for all. Linear in the tables.

    Examples
    --------
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> potts_grid(50, 50, 10, lambda size: draw.normal(size=(size, 10, 10)), periodic=True)
    FactorGraph(1 graph, 2,500 variables of 10 states, 5,000 factors of up to 2 ports)
    """
    if num_states < 1:
        raise InputError(f"num_states must be at least 1, got {num_states}")
    edges = grid_edges(rows, columns, periodic=periodic)
    variables, k = rows * columns, num_states
    couplings = _numbers("coupling", coupling, len(edges), dtype)
    fields = _numbers("field", field, variables, dtype)
    allowed: tuple[tuple[int, ...], ...] = ((), (len(edges),), (k, k), (len(edges), k, k))
    if couplings.shape not in allowed:
        raise InputError(f"coupling must have one of the shapes {allowed}, got {tuple(couplings.shape)}")
    if couplings.ndim < 2:
        tables = couplings.reshape(-1, 1, 1) * torch.eye(k, dtype=dtype, device=couplings.device)
    else:
        tables = couplings.reshape(-1, k, k)
    allowed = ((), (k,), (variables, k), (rows, columns, k))
    if fields.shape not in allowed:
        raise InputError(f"field must have one of the shapes {allowed}, got {tuple(fields.shape)}")
    if fields.ndim == 0:
        fields = fields.expand(k)
    unary = fields.expand(variables, k) if fields.ndim == 1 else fields.reshape(variables, k)
    return _assemble(edges, tables, unary)


def _numbers(
    name: str, given: float | Array | Tensor | Callable[[int], Any], size: int, dtype: torch.dtype
) -> Tensor:
    values = given(size) if callable(given) else given
    try:
        tensor = values.to(dtype) if isinstance(values, Tensor) else torch.as_tensor(values, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None
    if bool((tensor.detach().isnan() | (tensor.detach() == float("inf"))).any()):
        raise InputError(f"{name} must be finite (-inf is allowed in tables), got NaN or +inf")
    return tensor


def _assemble(edges: Int[Array, "edges 2"], tables: Tensor, unary: Tensor) -> FactorGraph:
    """Assemble; tables are one for all edges (leading axis 1) or one each."""
    device, variables = unary.device, unary.shape[0]
    index = torch.zeros(len(edges), dtype=torch.int64, device=device) if tables.shape[0] == 1 else None
    bounds = torch.tensor([0, variables], device=device)
    return assemble_pairwise(unary, torch.from_numpy(edges).to(device), tables.to(device), index, bounds)
