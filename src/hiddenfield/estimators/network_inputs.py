"""Networks as the encoders of nodes take them: their edges and names of nodes, checked, as a sparse matrix."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data import read
from hiddenfield.data.convert.networkx import from_networkx
from hiddenfield.data.formats import FORMATS
from hiddenfield.data.paths import existing, first_bytes
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, SkippedInputWarning
from hiddenfield.models.relational.reading import HEADERS
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FORMS = (
    "a file, a networkx graph, a sparse adjacency matrix, an array or data frame of edges with 2 columns, or 3 with "
    "weights, or Structures of one network"
)


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges or arcs, the names of the nodes that they number, and whether they are in the order in which X has them."""

    names: Array
    source: Int[Array, " edges"]
    target: Int[Array, " edges"]
    weight: Float[Array, " edges"]
    directed: bool
    listed: bool = False

    def described(self, at: int) -> str:
        """Name one of them."""
        one, other = self.names[[self.source[at], self.target[at]]].tolist()
        place = f" in row {at}" if self.listed else ""
        return f"{'arc' if self.directed else 'edge'} ({one!r}, {other!r}){place}"


def read_network(path: str | Path, directed: bool | str = "auto", **options: Any) -> Structures:
    """Read a network from a file; a table or unknown text is a list of edges, of which all are kept.

    The options are those of `hiddenfield.read`. A first line such as ``source,target`` is a header.
    """
    path = existing(path)
    found = FORMATS.recognise(path) if "format" not in options else FORMATS.get(options["format"])
    if "format" not in options and not path.is_dir() and (found is None or found.name == "table"):
        options, found = options | {"format": "edge_list"}, FORMATS["edge_list"]
    if found is not None and found.name == "edge_list":
        options = {"repeated": "keep"} | ({} if directed == "auto" else {"directed": directed}) | options
        line = first_bytes(path).decode("utf-8-sig", errors="replace").split("\n", 1)[0].lower()
        if {word.strip(' "\r') for word in re.split(r"[,\t ]", line)[:2]} <= HEADERS:
            options = {"header": True} | options
    return read(path, **options)


def read_edges(X: Any, directed: bool | str = "auto") -> Edges:
    """Return the edges of a network in any of the accepted forms."""
    from scipy.sparse import issparse

    if isinstance(X, (str, Path)):
        X = read_network(X, directed)
    elif hasattr(X, "is_directed") and hasattr(X, "edges"):
        weighted = any("weight" in data for _, _, data in X.edges(data=True))
        X = from_networkx([X], node_name="name", edge_attribute="weight" if weighted else None)
    if isinstance(X, Structures):
        return _edges_of_structures(X, directed)
    if issparse(X):
        return _edges_of_matrix(X, directed)
    return _edges_of_columns(X, directed is True)


def _edges_of_structures(X: Structures, directed: bool | str) -> Edges:
    if len(X) != 1:
        raise InputError(
            f"expected one network, got {len(X):,} structures; take one of them, as structures[:1]"
        )
    X = X.to("cpu")
    names = np.arange(X.total_nodes)
    for column, words in enumerate(X.node_vocabularies):
        if words.name == "name" and X.node_labels is not None:
            names = np.asarray(words.symbols)[X.node_labels[:, column].numpy()]
    if len(set(names.tolist())) < len(names):
        names = np.arange(X.total_nodes)
    way = not X.symmetric if directed == "auto" else bool(directed)
    reverse = X.reverse.numpy()
    kept = (
        np.arange(len(reverse))
        if way
        else np.flatnonzero((reverse < 0) | (reverse >= np.arange(len(reverse))))
    )
    weight = np.ones(len(kept))
    if X.arc_attributes is not None and "weight" in X.arc_attribute_names:
        weight = X.arc_attributes[:, X.arc_attribute_names.index("weight")].double().numpy()[kept]
    # Of the two arcs of an edge the first is the one into the lower node.
    one, other = (X.source, X.target) if way else (X.target, X.source)
    return Edges(names, one.numpy()[kept], other.numpy()[kept], weight, way)


def _edges_of_matrix(X: Any, directed: bool | str) -> Edges:
    from scipy.sparse import coo_array

    if X.shape[0] != X.shape[1]:
        raise InputError(f"an adjacency matrix is square, got shape {X.shape}")
    symmetric = (abs(X - X.T)).nnz == 0 if X.dtype.kind in "iufb" else False
    if X.dtype.kind not in "iufb":
        raise InputError(f"an adjacency matrix holds numbers, got entries of type {X.dtype}")
    if directed is False and not symmetric:
        raise InputError(
            "directed=False, and the adjacency matrix is not symmetric; give A + A.T, or directed=True"
        )
    way = not symmetric if directed == "auto" else bool(directed)
    X = coo_array(X)
    X.sum_duplicates()
    kept = np.flatnonzero((X.data != 0) if way else (X.data != 0) & (X.row <= X.col))
    return Edges(np.arange(X.shape[0]), X.row[kept], X.col[kept], X.data[kept].astype(np.float64), way)


def _edges_of_columns(X: Any, directed: bool) -> Edges:
    """Read rows of two nodes and perhaps a weight."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [X.iloc[:, k].to_numpy() for k in range(X.shape[1])]
    elif isinstance(X, np.ndarray):
        columns = list(X.T)
    else:
        try:
            columns = [np.array(column, dtype=object) for column in zip(*X, strict=True)]
        except (TypeError, ValueError):
            raise InputError(f"expected {FORMS}; got {type(X).__name__}") from None
    if len(columns) not in (2, 3) or any(np.ndim(column) != 1 for column in columns):
        shape = getattr(X, "shape", f"{len(columns)} columns")
        raise InputError(
            f"expected {FORMS}; got {type(X).__name__} ({shape}). A dense adjacency matrix is "
            "given as scipy.sparse.csr_array(matrix)"
        )
    try:
        weight = np.ones(len(columns[0])) if len(columns) == 2 else columns[2].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the third column of edges has their weights ({error!s:.200})") from None
    ends = [_names(column) for column in columns[:2]]
    if {end.dtype.kind in "US" for end in ends} == {True, False}:
        raise InputError(
            "nodes are named by whole numbers or by texts, got numbers in one column and texts in the other"
        )
    names, codes = np.unique(np.concatenate(ends), return_inverse=True)
    source, target = codes.reshape(2, -1)
    return Edges(names, source, target, weight, directed, listed=True)


def _names(column: Array) -> Array:
    """Return names of nodes as whole numbers or texts."""
    if column.dtype.kind in "iuUS":
        return column
    for row, value in enumerate(column.tolist()):
        whole = isinstance(value, float) and value.is_integer()
        if isinstance(value, bool) or not (whole or isinstance(value, (str, Integral))):
            raise InputError(f"nodes are named by whole numbers or texts, got {value!r:.100} in row {row}")
        if isinstance(value, str) != isinstance(column[0], str):
            raise InputError(
                f"nodes are named by whole numbers or by texts, got {column[0]!r} and {value!r} in row {row}"
            )
    return column.astype(str if len(column) and isinstance(column[0], str) else np.int64)


def checked_adjacency(edges: Edges, *, skip: bool) -> tuple[csr_array, Int[Array, " connected"]]:
    """Return the weights of arcs between nodes that have any, and which nodes these are.

    Self-loops, edges that are listed again and nodes without edges are errors; with `skip` the first are left out, the
    weights of the second are added, the third are not among the nodes, and one warning counts them.
    """
    from scipy.sparse import coo_array

    size, weight = len(edges.names), edges.weight
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))
    if len(wrong):
        raise InputError(
            f"the weight of {edges.described(int(wrong[0]))} is {weight[wrong[0]]}; weights are positive and finite: "
            "leave out what is no edge"
        )
    loops = edges.source == edges.target
    low, high = edges.source.astype(np.int64), edges.target.astype(np.int64)
    if not edges.directed:
        low, high = np.minimum(low, high), np.maximum(low, high)
    order = np.argsort(low * size + high, kind="stable")
    again = np.flatnonzero(np.diff((low * size + high)[order]) == 0)
    matrix = coo_array((weight[~loops], (low[~loops], high[~loops])), shape=(size, size)).tocsr()
    matrix = matrix if edges.directed else (matrix + matrix.T).tocsr()
    degree = np.diff(matrix.indptr) + np.bincount(matrix.indices, minlength=size)
    alone = np.flatnonzero(degree == 0)
    problems = []
    if loops.any():
        at = int(np.argmax(loops))
        problems.append(f"{int(loops.sum()):,} self-loops, first {edges.described(at)}")
    if len(again):
        second = max(order[again[0] : again[0] + 2].tolist())
        problems.append(f"{len(again):,} edges listed again, first {edges.described(second)}")
    if len(alone) and len(alone) < size:
        problems.append(f"{len(alone):,} nodes without edges, first {edges.names[alone[0]].item()!r}")
    if problems and not skip:
        raise InputError(
            f"the network has {'; '.join(problems)}. Remove them, or say on_error='skip': then self-loops are left "
            "out, weights of repeated edges are added, and the vectors of nodes without edges are NaN"
        )
    if problems:
        warnings.warn(
            SkippedInputWarning(f"skipped or merged: {'; '.join(problems)}", alone.tolist()), stacklevel=4
        )
    if not matrix.nnz:
        raise InputError(
            f"expected a network of at least two nodes and an edge, got {size} nodes and no edges"
        )
    kept = np.flatnonzero(degree)
    return (matrix if len(kept) == size else matrix[kept][:, kept]), kept
