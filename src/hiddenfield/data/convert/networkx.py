"""networkx graphs, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.build import from_arcs, from_edges
from hiddenfield.data.convert.named import (
    Names,
    as_names,
    attribute_options,
    label_options,
    names_of,
    target_options,
    target_symbols,
)
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import networkx

__all__ = ["from_networkx", "to_networkx"]

ABSENT = object()


def from_networkx(
    graphs: Any,
    *,
    node_label: str | Sequence[str] | None = None,
    edge_label: str | Sequence[str] | None = None,
    node_attribute: str | Sequence[str] | None = None,
    edge_attribute: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    node_target: str | Sequence[str] | None = None,
    column: str | Sequence[str] | None = None,
    id: str | None = None,
    node_name: str | None = None,
    like: Structures | None = None,
) -> Structures:
    """Build a pack from networkx graphs.

    Nodes are numbered in the order in which the graph has them. An undirected edge becomes two arcs that are
    each other's reverse, parallel ones likewise; a directed one becomes one arc, paired with an opposite one
    if there is one.

    Parameters
    ----------
    graphs
        A graph, or several: Graph and MultiGraph, or DiGraph and MultiDiGraph, but not undirected and directed ones
        together.
    node_label, edge_label
        Names of node and edge attributes that hold symbols (text or integers); each becomes a label column.
    node_attribute, edge_attribute
        Names of node and edge attributes that hold numbers.
    target, column, id
        Names of *graph* attributes (``graph.graph[name]``): targets, further columns, and the one that is the id. Text
        makes a target one of classes; one that is absent, None or NaN is missing.
    node_target
        Names of node attributes that are targets, likewise.
    node_name
        Name of a label column that takes the nodes themselves, which must be text or integers.
    like
        A pack: the names of everything, and the vocabularies, are taken from it, and the options above are not given.

    Returns
    -------
    Structures

    Raises
    ------
    InputError
        Naming the graph and the node or edge that lacks an attribute.

    Examples
    --------
    >>> import networkx
    >>> path = networkx.path_graph(3)
    >>> networkx.set_node_attributes(path, {0: "C", 1: "C", 2: "O"}, "element")
    >>> molecule = from_networkx([path], node_label="element")
    >>> molecule
    Structures(1 structure, 3 nodes, 4 arcs; node labels: element (2))
    >>> to_networkx(molecule)[0].nodes[2]
    {'element': 'O'}
    """
    listed = _checked(graphs)
    directed = bool(listed) and listed[0].is_directed()
    kind = "arc" if directed else "edge"
    names = Names(
        node_labels=as_names(node_label),
        edge_labels=as_names(edge_label),
        node_attributes=as_names(node_attribute),
        edge_attributes=as_names(edge_attribute),
        targets=as_names(target),
        node_targets=as_names(node_target),
        columns=as_names(column),
        id=id,
    )
    if like is not None:
        if names != Names() or node_name is not None:
            raise InputError("give the names of attributes, or a pack as like=, but not both")
        names = names_of(like)
    labels = {name: _node_values(listed, name) for name in names.node_labels}
    if node_name is not None:
        labels[node_name] = list(chain.from_iterable(listed))
    outcomes = {name: _graph_values(listed, name) for name in names.targets}
    node_outcomes = {name: _node_values(listed, name, required=False) for name in names.node_targets}
    if like is None:
        _check_found(outcomes | node_outcomes, bool(listed))
    first, second, node_ptr = _ends(listed)
    return (from_arcs if directed else from_edges)(
        first,
        second,
        node_ptr=node_ptr,
        ids=None if names.id is None else _graph_values(listed, names.id, required=True),
        columns={name: _graph_values(listed, name, required=True) for name in names.columns},
        **label_options("node", labels, names.node_vocabularies),
        **label_options(
            kind, {name: _edge_values(listed, name) for name in names.edge_labels}, names.edge_vocabularies
        ),
        **attribute_options("node", {name: _node_values(listed, name) for name in names.node_attributes}),
        **attribute_options(kind, {name: _edge_values(listed, name) for name in names.edge_attributes}),
        **target_options("target", outcomes, names.target_vocabularies),
        **target_options("node_target", node_outcomes, names.node_target_vocabularies),
    )


def _checked(graphs: Any) -> list[networkx.Graph]:
    import networkx

    listed = [graphs] if isinstance(graphs, networkx.Graph) else list(graphs)
    for at, graph in enumerate(listed):
        if not isinstance(graph, networkx.Graph):
            raise InputError(f"expected networkx graphs, got {type(graph).__name__} as entry {at}")
        if graph.is_directed() != listed[0].is_directed():
            raise InputError(
                "expected all graphs directed or all undirected; "
                f"graph {at} is {'' if graph.is_directed() else 'un'}directed and graph 0 is not: "
                "convert them with to_directed() or to_undirected()"
            )
    return listed


def _ends(graphs: list[networkx.Graph]) -> tuple[Array, Array, Array]:
    """Return both ends of every edge, numbered through the pack, and the bounds of every graph's nodes."""
    node_ptr = np.concatenate([[0], np.cumsum([len(graph) for graph in graphs])]).astype(np.int64)
    first: list[int] = []
    second: list[int] = []
    for graph, offset in zip(graphs, node_ptr.tolist(), strict=False):
        number = {node: position for position, node in enumerate(graph, start=offset)}
        for one, other in graph.edges():
            first.append(number[one])
            second.append(number[other])
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), node_ptr


def _node_values(graphs: list[networkx.Graph], name: str, *, required: bool = True) -> list[Any]:
    values = [data.get(name, ABSENT) for graph in graphs for _, data in graph.nodes(data=True)]
    if required and any(value is ABSENT for value in values):
        at, node = next(
            (at, n) for at, g in enumerate(graphs) for n, d in g.nodes(data=True) if name not in d
        )
        raise InputError(
            f"graph {at}: node {node!r} has no attribute {name!r}; {_has(graphs[at].nodes[node])}"
        )
    return [None if value is ABSENT else value for value in values]


def _edge_values(graphs: list[networkx.Graph], name: str) -> list[Any]:
    values = [data.get(name, ABSENT) for graph in graphs for _, _, data in graph.edges(data=True)]
    if any(value is ABSENT for value in values):
        at, edge = next(
            (at, e) for at, g in enumerate(graphs) for e in g.edges(data=True) if name not in e[2]
        )
        raise InputError(f"graph {at}: edge {edge[:2]!r} has no attribute {name!r}; {_has(edge[2])}")
    return values


def _graph_values(graphs: list[networkx.Graph], name: str, *, required: bool = False) -> list[Any]:
    for at, graph in enumerate(graphs):
        if required and name not in graph.graph:
            raise InputError(f"graph {at} has no graph attribute {name!r}; {_has(graph.graph)}")
    return [graph.graph.get(name) for graph in graphs]


def _has(attributes: Iterable[Any]) -> str:
    listed = ", ".join(repr(name) for name in attributes)
    return f"it has {listed}" if listed else "it has none"


def _check_found(columns: dict[str, list[Any]], needed: bool) -> None:
    """Refuse a target that no graph or node has: the name is wrong rather than every value missing."""
    for name, values in columns.items():
        if needed and all(value is None for value in values):
            raise InputError(f"no graph or node has the target {name!r}; check the name")


def to_networkx(structures: Structures, *, directed: bool | None = None) -> list[networkx.Graph]:
    """Return every structure as a networkx graph; the inverse of `from_networkx`.

    Nodes are 0, 1, ... in the pack's order. Node and edge labels (their symbols) and attributes, targets, columns and
    ids become attributes of the nodes, edges and graphs, under the names of the pack's columns; ids are called
    ``id``, missing targets are left out. ``from_networkx(to_networkx(pack), like=pack)`` equals the pack, as long as
    `reverse` is what `from_arcs` finds by itself.

    Parameters
    ----------
    structures
        Any pack.
    directed
        Whether the graphs are directed. By default they are not if every arc has a reverse with the same labels and
        attributes. All graphs of the pack are of one class, Multi* if any of them has parallel arcs.

    Raises
    ------
    InputError
        If undirected graphs are asked for and arcs differ from their reverse, or two columns share a name.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> to_networkx(hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3], targets=[0.5]))[0].graph
    {'target': 0.5}
    """
    import networkx

    names = names_of(structures)
    names.check_distinct()
    pack = structures.to("cpu")
    different = _one_way(pack)
    if directed is None:
        directed = bool(different.any())
    elif not directed and different.any():
        at = int(np.searchsorted(pack.arc_ptr.numpy(), np.argmax(different), side="right")) - 1
        raise InputError(
            f"{pack.name_of(at)} has an arc without a reverse of the same labels and attributes; use directed=True"
        )
    source, target, reverse = pack.source.numpy(), pack.target.numpy(), pack.reverse.numpy()
    kept = np.arange(len(reverse)) if directed else np.flatnonzero(reverse >= np.arange(len(reverse)))
    parallel = bool(np.any((np.diff(source[kept]) == 0) & (np.diff(target[kept]) == 0)))
    classes = {(0, 0): "Graph", (1, 0): "DiGraph", (0, 1): "MultiGraph", (1, 1): "MultiDiGraph"}
    graph_class = getattr(networkx, classes[int(directed), int(parallel)])
    node_of = np.arange(pack.total_nodes) - pack.node_ptr.numpy()[pack.structure_of_node.numpy()]
    ends = [node_of[end[kept]].tolist() for end in ((source, target) if directed else (target, source))]
    node_data, edge_data = _node_data(pack, names), _edge_data(pack, names, kept)
    node_ptr, edge_ptr = pack.node_ptr.tolist(), np.searchsorted(kept, pack.arc_ptr.numpy()).tolist()
    graphs = []
    for at, data in enumerate(_graph_data(pack, names)):
        nodes, edges = slice(*node_ptr[at : at + 2]), slice(*edge_ptr[at : at + 2])
        graph = graph_class()
        graph.graph.update(data)
        graph.add_nodes_from(zip(range(nodes.stop - nodes.start), node_data[nodes], strict=True))
        graph.add_edges_from(zip(*(end[edges] for end in ends), edge_data[edges], strict=True))
        graphs.append(graph)
    return graphs


def _one_way(pack: Structures) -> Array:
    """Say which arcs have no reverse of the same labels and attributes."""
    reverse = pack.reverse.long()
    different = reverse < 0
    back = reverse.clamp(min=0)
    for values in (pack.arc_labels, pack.arc_attributes):
        if values is not None:
            different = different | (values != values[back]).any(dim=1)
    return different.numpy()


def _node_data(pack: Structures, names: Names) -> list[dict[str, Any]]:
    columns = [v.decode(pack.node_labels[:, k].numpy()) for k, v in enumerate(pack.node_vocabularies)]  # type: ignore[index]
    if pack.node_attributes is not None:
        columns += [column.tolist() for column in pack.node_attributes.numpy().T]
    if pack.node_targets is not None:
        columns += target_symbols(pack.node_targets, pack.node_target_vocabularies)
    optional = len(names.node_labels) + len(names.node_attributes)
    return _dictionaries(
        names.node_labels + names.node_attributes + names.node_targets, columns, optional, pack.total_nodes
    )


def _edge_data(pack: Structures, names: Names, kept: Array) -> list[dict[str, Any]]:
    columns = [v.decode(pack.arc_labels[:, k].numpy()[kept]) for k, v in enumerate(pack.arc_vocabularies)]  # type: ignore[index]
    if pack.arc_attributes is not None:
        columns += [column.tolist() for column in pack.arc_attributes.numpy()[kept].T]
    return _dictionaries(names.edge_labels + names.edge_attributes, columns, len(columns), len(kept))


def _graph_data(pack: Structures, names: Names) -> list[dict[str, Any]]:
    columns = [] if pack.ids is None else [pack.ids.tolist()]
    columns += [values.tolist() for values in pack.columns.values()]
    optional = len(columns)
    if pack.targets is not None:
        columns += target_symbols(pack.targets, pack.target_vocabularies)
    return _dictionaries(as_names(names.id) + names.columns + names.targets, columns, optional, len(pack))


def _dictionaries(
    names: tuple[str, ...], columns: list[list[Any]], optional: int, rows: int
) -> list[dict[str, Any]]:
    """Turn columns into one dictionary a row; from the column `optional` on, None means that there is no entry."""
    if not columns:
        return [{} for _ in range(rows)]
    filled = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for name in names[optional:]:
        for row in filled:
            if row[name] is None:
                del row[name]
    return filled
