"""Ising and Potts models on rectangular grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.pairwise import assemble_pairwise
from hiddenfield.shapes import Array, Int, Tensor


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
