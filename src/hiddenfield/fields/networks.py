"""networkx graphs whose nodes and edges carry log potentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.build import from_factors
from hiddenfield.fields.factor_graph import FactorGraph

if TYPE_CHECKING:
    import networkx


def from_networkx(
    graph: networkx.Graph,
    *,
    node_log_potential: str = "log_potential",
    edge_log_potential: str = "log_potential",
    state_names: str = "states",
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    """Build a pairwise field from a networkx graph: one variable per node, one factor per edge.

    Variables are numbered in the order of the nodes and named after them. A self-loop becomes a potential of its node;
    a multigraph has a factor for each of its edges.

    Parameters
    ----------
    graph
        Graph, DiGraph, MultiGraph or MultiDiGraph.
    node_log_potential
        Name of the node attribute with K log potentials. A node without it has zeros, as many as its edges say.
    edge_log_potential
        Name of the edge attribute with the log table. Its axes are (source, target) of a directed edge, and of an
        undirected one the nodes in the order in which the graph has them.
    state_names
        Name of the node attribute with the names of its states, where every node has it.
    dtype
        Of the potentials.

    Returns
    -------
    FactorGraph
        One graph, a variable of K states for each node; linear in nodes, edges and the entries of their tables.

    Examples
    --------
    >>> import networkx, numpy as np
    >>> graph = networkx.Graph()
    >>> graph.add_node("rain", log_potential=np.log([0.8, 0.2]), states=["no", "yes"])
    >>> graph.add_node("wet", states=["no", "yes"])
    >>> graph.add_edge("rain", "wet", log_potential=np.log([[0.9, 0.1], [0.2, 0.8]]))
    >>> field = from_networkx(graph)
    >>> field.variable_names, field.log_unary[:2].exp()
    (('rain', 'wet'), tensor([0.8000, 0.2000], dtype=torch.float64))
    """
    number = {node: position for position, node in enumerate(graph)}
    names = tuple(str(node) for node in graph)
    if len(set(names)) < len(names):
        raise InputError(
            "two nodes have the same name as text; rename them, so that variables can be told apart"
        )
    scopes: list[list[int]] = []
    tables: list[Any] = []
    sizes: dict[int, int] = {}
    for node, attributes in graph.nodes(data=True):
        if node_log_potential in attributes:
            table = _array(attributes[node_log_potential], 1, f"{node_log_potential!r} of node {node!r}")
            scopes.append([number[node]])
            tables.append(table)
            sizes[number[node]] = table.shape[0]
        elif state_names in attributes:
            sizes[number[node]] = len(attributes[state_names])
    for first, second, attributes in graph.edges(data=True):
        where = f"edge ({first!r}, {second!r})"
        if edge_log_potential not in attributes:
            raise InputError(f"{where} has no attribute {edge_log_potential!r}; it holds the log table")
        table = _array(attributes[edge_log_potential], 2, f"{edge_log_potential!r} of {where}")
        scope = [number[first], number[second]]
        if not graph.is_directed():
            scope.sort()
        for variable, size in zip(scope, table.shape, strict=True):
            known = sizes.setdefault(variable, size)
            if known != size:
                raise InputError(
                    f"the table of {where} has {size} states for node {names[variable]!r}, which has {known}"
                )
        if scope[0] == scope[1]:
            scope, table = scope[:1], table.diagonal()
        scopes.append(scope)
        tables.append(table)
    for node, variable in number.items():
        if variable not in sizes:
            raise InputError(
                f"node {node!r} has neither {node_log_potential!r} nor an edge; how many states has it?"
            )
    stated = [attributes.get(state_names) for _, attributes in graph.nodes(data=True)]
    named = [[str(state) for state in states] for states in stated] if None not in stated else []  # type: ignore[union-attr]
    cardinalities = [sizes[variable] for variable in range(len(sizes))]
    return from_factors(scopes, tables, cardinalities, dtype=dtype, variable_names=names, state_names=named)


def _array(value: Any, axes: int, what: str) -> Any:
    """Return an array or tensor with that many axes."""
    array = value if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim != axes:
        raise InputError(f"{what} must have {axes} axes, got shape {tuple(array.shape)}")
    return array
