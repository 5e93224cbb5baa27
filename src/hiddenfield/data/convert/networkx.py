"""networkx graphs, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.build import from_arcs, from_edges
from hiddenfield.data.columns import Columns
from hiddenfield.data.convert.edge_lists import edges_of
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array

if TYPE_CHECKING:
    import networkx

UNITS = {"node": "node", "arc": "edge", "structure": "graph"}


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
    asked = {
        "node_labels": node_label,
        "arc_labels": edge_label,
        "node_attributes": node_attribute,
        "arc_attributes": edge_attribute,
        "targets": target,
        "node_targets": node_target,
    }
    names = {feature: as_names(given) for feature, given in asked.items()}
    further = as_names(column)
    if like is not None:
        if any(names.values()) or further or id is not None or node_name is not None:
            raise InputError("give the names of attributes, or a pack as like=, but not both")
        names = {feature: columns.names for feature, columns in like.features.items()}
        further, id = tuple(like.columns), None if like.ids is None else "id"
    options: dict[str, Any] = {}
    for feature, own in names.items():
        required = not feature.endswith("targets")
        columns = {name: _values(listed, FEATURES[feature], name, required=required) for name in own}
        if feature == "node_labels" and node_name is not None:
            columns[node_name] = list(chain.from_iterable(listed))
        if columns:
            options |= _options(feature, columns, like, directed)
    first, second, node_ptr = _ends(listed)
    return (from_arcs if directed else from_edges)(
        first,
        second,
        node_ptr=node_ptr,
        ids=None if id is None else _values(listed, "structure", id),
        columns={name: _values(listed, "structure", name) for name in further},
        **options,
    )


def as_names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _options(
    feature: str, columns: dict[str, list[Any]], like: Structures | None, directed: bool
) -> dict[str, Any]:
    """Return one feature as `from_arcs` or `from_edges` takes it."""
    option = feature if directed else feature.replace("arc_", "edge_")
    words: Any = None if like is None else like.features[feature].vocabularies
    if feature.endswith("labels"):
        if words is None:
            return {option: columns}
        coded = [(word, word.encode(values)) for word, values in zip(words, columns.values(), strict=True)]
        return {option: Columns.labels(coded)}
    if feature.endswith("attributes"):
        kind = option.partition("_")[0]
        return {option: {name: _numbers(values, name, kind) for name, values in columns.items()}}
    for name, values in columns.items():
        if like is None and values and all(value is None for value in values):
            raise InputError(f"no graph or node has the target {name!r}; check the name")
    return {option: columns, f"{option.removesuffix('s')}_vocabularies": words}


def _numbers(values: list[Any], name: str, kind: str) -> Array:
    try:
        array = np.asarray(values if values else np.zeros(0))
    except ValueError:
        array = np.asarray(None)
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        odd = next((v for v in values if isinstance(v, str) or not np.isscalar(v)), values[:1])
        raise InputError(f"{kind} attribute {name!r} must hold one number for every {kind}, got {odd!r:.100}")
    return array.astype(np.float64)


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
    ends: list[int] = []
    for graph, offset in zip(graphs, node_ptr.tolist(), strict=False):
        number = {node: position for position, node in enumerate(graph, start=offset)}
        ends += [number[node] for edge in graph.edges() for node in edge]
    first, second = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return first, second, node_ptr


def _values(graphs: list[networkx.Graph], unit: str, name: str, *, required: bool = True) -> list[Any]:
    """Return an attribute of all nodes, edges or graphs; None where it is absent, unless it is required."""
    values: list[Any] = []
    for at, graph in enumerate(graphs):
        owners: Iterable[tuple[Any, dict[str, Any]]]
        if unit == "structure":
            owners = [(None, graph.graph)]
        elif unit == "node":
            owners = graph.nodes(data=True)
        else:
            owners = (((one, other), data) for one, other, data in graph.edges(data=True))
        for owner, data in owners:
            if required and name not in data:
                has = ", ".join(repr(other) for other in data) or "none"
                who = " has no graph" if owner is None else f": {UNITS[unit]} {owner!r} has no"
                raise InputError(f"graph {at}{who} attribute {name!r}; it has {has}")
            values.append(data.get(name))
    return values


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

    pack = structures.to("cpu")
    which = "an arc without a reverse of the same labels and attributes"
    kept, pairs, bounds, directed = edges_of(pack, _one_way(pack), directed, which)
    same = [np.diff(end.numpy()[kept]) == 0 for end in (pack.source, pack.target)]
    classes = {(0, 0): "Graph", (1, 0): "DiGraph", (0, 1): "MultiGraph", (1, 1): "MultiDiGraph"}
    graph_class = getattr(networkx, classes[int(directed), int((same[0] & same[1]).any())])
    node_data, edge_data = _data(pack, "node", np.arange(pack.total_nodes)), _data(pack, "arc", kept)
    node_ptr, edge_ptr, ends = pack.node_ptr.tolist(), bounds.tolist(), pairs.T.tolist()
    graphs = []
    for at, data in enumerate(_data(pack, "structure", np.arange(len(pack)))):
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


def _data(pack: Structures, unit: str, rows: Array) -> list[dict[str, Any]]:
    """Return one dictionary per node, arc or structure, without the targets that are missing."""
    found: list[tuple[str, list[Any]]] = []
    if unit == "structure":
        found += [] if pack.ids is None else [("id", pack.ids.tolist())]
        found += [(name, values.tolist()) for name, values in pack.columns.items()]
    for part in (columns for feature, columns in pack.features.items() if FEATURES[feature] == unit):
        found += zip(part.names, part.take(rows).decoded(), strict=True)
    names, columns = [name for name, _ in found], [values for _, values in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"two columns of the {UNITS[unit]}s are called {twice[0]!r}; rename one with replace()"
        )
    if not columns:
        return [{} for _ in rows]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*columns, strict=True)
    ]
