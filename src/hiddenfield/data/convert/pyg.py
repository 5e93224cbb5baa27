"""PyTorch Geometric data, both ways."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import Columns, numbered
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.shapes import Tensor

# Our names of features, against the attributes of a Data object.
FIELDS = {
    "node_attributes": "x",
    "node_labels": "node_labels",
    "node_targets": "node_y",
    "arc_attributes": "edge_attr",
    "arc_labels": "edge_labels",
    "targets": "y",
}
Reading = Literal["auto", "attributes", "labels", "one_hot"]


def to_pyg(structures: Structures, *, batch: bool = False) -> Any:
    """Return every structure as a ``torch_geometric.data.Data``, or all as one ``Batch``.

    | attribute | shape, type | what |
    |---|---|---|
    | edge_index | (2, arcs), int64 | source and target of every arc, in the pack's order |
    | num_nodes | int | nodes |
    | x, edge_attr | (nodes or arcs, columns), float32 | node and arc attributes |
    | node_labels, edge_labels | (nodes or arcs, columns), int64 | label codes; symbols stay with the pack |
    | y | (1, targets), float64 | targets, NaN where missing, classes as codes |
    | node_y | (nodes, targets), float64 | node targets, likewise |
    | id | str | the id |

    What a pack lacks is left out, and its further columns are not carried over. The tensors of the list are views of
    the pack's where the types agree. ``from_pyg(to_pyg(pack), like=pack)`` equals the pack without columns, as long
    as `reverse` is what `from_arcs` finds by itself; `like` brings the names and vocabularies back.

    Parameters
    ----------
    structures
        Any pack, on any device; the data lie on the same.
    batch
        Whether to return one ``Batch``, with `batch` and `ptr`, instead of a list. PyG has none of no graphs.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> to_pyg(hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3], node_labels=["C", "C", "O"]))
    [Data(edge_index=[2, 4], num_nodes=3, node_labels=[3, 1])]
    """
    geometric = _geometric()
    node_ptr, arc_ptr = structures.node_ptr.tolist(), structures.arc_ptr.tolist()
    ends = torch.stack([structures.source, structures.target]).long()
    wide = {name: columns.values for name, columns in structures.features.items()}
    wide |= {name: values.long() for name, values in wide.items() if name.endswith("labels")}
    graphs = []
    for at in range(len(structures)):
        nodes, arcs = slice(node_ptr[at], node_ptr[at + 1]), slice(arc_ptr[at], arc_ptr[at + 1])
        rows = {"node": nodes, "arc": arcs, "structure": slice(at, at + 1)}
        fields: dict[str, Any] = {FIELDS[name]: v[rows[FEATURES[name]]] for name, v in wide.items()}
        if structures.ids is not None:
            fields["id"] = str(structures.ids[at])
        graph = geometric.data.Data(
            edge_index=ends[:, arcs] - node_ptr[at], num_nodes=nodes.stop - nodes.start
        )
        graph.update(fields)
        graphs.append(graph)
    if batch and not graphs:
        raise InputError("PyG has no batch of no graphs; the pack is empty")
    return geometric.data.Batch.from_data_list(graphs) if batch else graphs


def from_pyg(
    data: Any,
    *,
    x: Reading = "auto",
    edge_attr: Reading = "auto",
    y: Literal["graph", "node"] = "graph",
    like: Structures | None = None,
) -> Structures:
    """Build a pack from PyTorch Geometric data.

    Read are ``edge_index``, ``num_nodes``, ``x``, ``edge_attr``, ``y``, and the further attributes that `to_pyg`
    writes. An arc is paired with the opposite one if there is one. Where neither ``num_nodes`` nor anything of the
    nodes is given, there are as many as ``edge_index`` names.

    Parameters
    ----------
    data
        A Data, a list of them, a Batch, or a data set (anything with a length whose items are Data).
    x, edge_attr
        How to read these: ``"attributes"``; ``"labels"``, integers, a column each; ``"one_hot"``, rows of zeros
        and a one, which become one label column. By default attributes if they are floating-point numbers,
        labels if integers.
    y
        What `y` belongs to: the graph (any number of targets) or its nodes (one row each). Integers are classes,
        floating-point numbers with NaN for missing are not.
    like
        A pack: label and class codes are taken to be those of its vocabularies, and all names are its own.

    Returns
    -------
    Structures

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> from_pyg([Data(edge_index=ends, x=torch.eye(3)[[0, 0, 1]], y=torch.tensor([1]))], x="one_hot")
    Structures(1 structure, 3 nodes, 4 arcs; node labels: x (3); targets: y)
    """
    graphs = _listed(data)
    sizes = [_num_nodes(graph, at) for at, graph in enumerate(graphs)]
    ends = [_edge_index(graph, at) for at, graph in enumerate(graphs)]
    arcs = [end.shape[1] for end in ends]
    node_y = "node_y" if y == "graph" else "y"
    with_ids = bool(graphs) if like is None else like.ids is not None
    options: dict[str, Any] = {}
    if with_ids and all(isinstance(graph.get("id"), str) for graph in graphs):
        options["ids"] = [graph.id for graph in graphs]
    if like is not None:
        options |= _like(graphs, sizes, arcs, like)
    else:
        options |= _features(_joined(graphs, "x", sizes), x, "node", "x")
        options |= _features(_joined(graphs, "edge_attr", arcs), edge_attr, "arc", "edge_attr")
        options |= _extra_labels(options, _joined(graphs, "node_labels", sizes), "node")
        options |= _extra_labels(options, _joined(graphs, "edge_labels", arcs), "arc")
        options |= _targets(_joined(graphs, "y", None) if y == "graph" else None, "target")
        options |= _targets(_joined(graphs, node_y, sizes), "node_target")
    flat = torch.cat(ends, dim=1) if ends else torch.zeros(2, 0, dtype=torch.int64)
    return from_arcs(flat[0], flat[1], node_ptr=_bounds(sizes), arc_ptr=_bounds(arcs), **options)


def _geometric() -> Any:
    try:
        import torch_geometric.data
    except ImportError:
        raise MissingDependencyError.for_extra(
            "torch_geometric", "pyg", "converting from and to PyTorch Geometric"
        ) from None
    return torch_geometric


def _listed(data: Any) -> list[Any]:
    geometric = _geometric().data
    if isinstance(data, geometric.Batch):
        graphs = data.to_data_list()
    elif isinstance(data, geometric.Data):
        graphs = [data]
    elif hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, dict)):
        graphs = [data[at] for at in range(len(data))]
    else:
        raise InputError(f"expected Data, a list of them, a Batch or a data set, got {type(data).__name__}")
    for at, graph in enumerate(graphs):
        if not isinstance(graph, geometric.Data):
            raise InputError(f"expected torch_geometric.data.Data, got {type(graph).__name__} as entry {at}")
    return graphs


def _num_nodes(graph: Any, at: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It says that the number is guessed; the docstring says how.
        number = graph.num_nodes
    if number is None:
        raise InputError(f"structure {at}: the number of nodes is unknown; set num_nodes")
    return int(number)


def _edge_index(graph: Any, at: int) -> Tensor:
    ends = graph.get("edge_index")
    if ends is None:
        if graph.get("adj_t") is not None:
            raise InputError(
                f"structure {at} has adj_t instead of edge_index; leave out the transform ToSparseTensor"
            )
        return torch.zeros(2, 0, dtype=torch.int64)
    integers = isinstance(ends, torch.Tensor) and not ends.is_floating_point() and ends.dtype != torch.bool
    if not integers or ends.ndim != 2 or ends.shape[0] != 2:
        shape = tuple(getattr(ends, "shape", ()))
        raise InputError(f"structure {at}: edge_index must hold integers of shape (2, arcs), got {shape}")
    return ends.long().cpu()


def _joined(graphs: list[Any], name: str, sizes: list[int] | None) -> Tensor | None:
    """Lay one attribute of all graphs end to end, (rows, columns); without `sizes` each is one row."""
    parts = [graph.get(name) for graph in graphs]
    if all(part is None for part in parts):
        return None
    rows: list[Tensor] = []
    for at, part in enumerate(parts):
        if part is None:
            raise InputError(f"structure {at} has no {name}, others do")
        try:
            values = torch.as_tensor(part).detach().cpu()
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"structure {at}: {name} must be a tensor, got {part!r:.100}") from None
        expected = 1 if sizes is None else sizes[at]
        if sizes is None or values.ndim < 2:
            values = values.reshape((1, -1) if sizes is None else (-1, 1))
        if values.ndim != 2 or values.shape[0] != expected:
            raise InputError(
                f"structure {at}: {name} must have {expected} rows, got shape {tuple(values.shape)}"
            )
        if rows and values.shape[1] != rows[0].shape[1]:
            raise InputError(
                f"structure {at}: {name} has {values.shape[1]} columns, that of structure 0 has {rows[0].shape[1]}"
            )
        rows.append(values)
    return torch.cat(rows)


def _features(values: Tensor | None, reading: str, kind: str, name: str) -> dict[str, Any]:
    """Return `x` or `edge_attr` as `from_arcs` takes it."""
    if reading not in ("auto", "attributes", "labels", "one_hot"):
        raise InputError(f"{name} must be 'auto', 'attributes', 'labels' or 'one_hot', got {reading!r}")
    if values is None:
        return {}
    if reading == "attributes" or (reading == "auto" and values.is_floating_point()):
        return {f"{kind}_attributes": values}
    if reading == "one_hot":
        if len(values) and not bool((((values == 0) | (values == 1)).all(1) & (values.sum(1) == 1)).all()):
            raise InputError(
                f"{name} is not one-hot: every row must have a single one among zeros; read it as attributes"
            )
        vocabulary = Vocabulary(name, tuple(range(values.shape[1])))
        codes = values.argmax(1) if values.shape[1] else values.new_zeros(0, dtype=torch.int64)
        return {f"{kind}_labels": codes, f"{kind}_vocabularies": [vocabulary]}
    return _label_columns(values, kind, name)


def _label_columns(values: Tensor, kind: str, name: str) -> dict[str, Any]:
    if values.is_floating_point():
        raise InputError(f"{name} must hold integers to be read as labels, got {values.dtype}")
    return {
        f"{kind}_labels": dict(zip(numbered(name, values.shape[1]), values.long().numpy().T, strict=True))
    }


def _extra_labels(options: dict[str, Any], values: Tensor | None, kind: str) -> dict[str, Any]:
    """Return the labels that `to_pyg` writes beside the attributes."""
    if values is None:
        return {}
    if f"{kind}_labels" in options:
        field = "x" if kind == "node" else "edge_attr"
        raise InputError(f"there are labels in {field} and in {kind}_labels; read {field} as 'attributes'")
    return _label_columns(values, kind, "label")


def _targets(values: Tensor | None, kind: str) -> dict[str, Any]:
    """Return targets as `from_arcs` takes them: integers are classes."""
    if values is None:
        return {}
    names = numbered("y", values.shape[1])
    if values.is_floating_point():
        return {f"{kind}s": values.double(), f"{kind}_names": names}
    coded = [Vocabulary.from_values(name, v) for name, v in zip(names, values.long().numpy().T, strict=True)]
    return {f"{kind}s": Columns.targets({word.name: (codes, word) for word, codes in coded}, len(values))}


def _like(graphs: list[Any], sizes: list[int], arcs: list[int], like: Structures) -> dict[str, Any]:
    """Read what the other pack has, under its names and vocabularies."""
    options: dict[str, Any] = {}
    for feature, columns in like.features.items():
        rows = {"node": sizes, "arc": arcs, "structure": None}[FEATURES[feature]]
        values = _joined(graphs, FIELDS[feature], rows)
        if values is None and graphs:
            raise InputError(f"the pack given as like= has {feature}, but the data have no {FIELDS[feature]}")
        options[feature] = columns.values[:0].cpu() if values is None else values
        if feature.endswith("labels"):
            options[feature.replace("labels", "vocabularies")] = columns.vocabularies or None
        else:
            options[f"{feature.removesuffix('s')}_names"] = columns.names
        if feature.endswith("targets"):
            options[f"{feature.removesuffix('s')}_vocabularies"] = columns.vocabularies
    return options


def _bounds(sizes: Sequence[int]) -> Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.tensor(sizes, dtype=torch.int64).cumsum(0)])
