"""GraphML files, through networkx."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiddenfield.data.columns import as_ids
from hiddenfield.data.convert.networkx import as_names, from_networkx
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import first_bytes, holds, members
from hiddenfield.data.readers.xml import Document
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError

if TYPE_CHECKING:
    import networkx

DEEPEST = 100  # Levels of elements; GraphML itself has five, what tools put into <data> a few more.


def read(
    path: str | Path,
    *,
    node_label: str | Sequence[str] | None = None,
    edge_label: str | Sequence[str] | None = None,
    node_attribute: str | Sequence[str] | None = None,
    edge_attribute: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    node_target: str | Sequence[str] | None = None,
    node_name: str | None = None,
) -> Structures:
    """Read GraphML graphs: a file is one, a folder or a zip of ``.graphml`` files is many.

    Parameters
    ----------
    path
        A file, which may be compressed, a folder or a zip.
    node_label, edge_label, node_attribute, edge_attribute, target, node_target, node_name
        As in `from_networkx`. If none of the first four is given, all data of nodes and edges are read, but for the
        targets: those of type float or double as attributes, the others as labels. Targets are data of the graph.

    Returns
    -------
    Structures
        Nodes in the order of the file; ids are the file names. Defaults of the file's keys are filled in.

    Raises
    ------
    ReadError
        Naming the file, and the line where the XML itself is at fault. Several graphs in a file, nested
        graphs, hyperedges and ports are refused.

    Examples
    --------
    >>> import networkx, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "house.graphml"
    >>> networkx.write_graphml(networkx.house_graph(), path)
    >>> read(path)
    Structures(1 structure, 5 nodes, 12 arcs)
    """
    names, graphs = [], []
    for name, contents in members(path, ".graphml"):
        names.append(name)
        graphs.append(_graph(contents, Path(path) if name == Path(path).name else Path(path) / name))
    if node_label is edge_label is node_attribute is edge_attribute is None:
        skipped = as_names(node_target)
        node_label, node_attribute = _split((d for g in graphs for _, d in g.nodes(data=True)), skipped)
        edge_label, edge_attribute = _split((d for g in graphs for _, _, d in g.edges(data=True)), ())
    try:
        pack = from_networkx(
            graphs,
            node_label=node_label,
            edge_label=edge_label,
            node_attribute=node_attribute,
            edge_attribute=edge_attribute,
            target=target,
            node_target=node_target,
            node_name=node_name,
        )
    except InputError as error:
        raise ReadError(str(error), file=path) from None
    return pack.replace(ids=as_ids(names, len(names)))


def _graph(contents: bytes, file: Path) -> networkx.Graph:
    """Parse one document, as a multigraph with the keys' defaults filled in."""
    import networkx

    edges = _check(contents, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A key without a type is read as text, as the standard says.
            graph = networkx.read_graphml(io.BytesIO(contents), force_multigraph=True)
    except Exception as error:  # On malformed values networkx raises whatever its conversions raise.
        raise ReadError(f"networkx cannot read it: {type(error).__name__}: {error}", file=file) from None
    if graph.number_of_edges() != edges:
        raise ReadError(
            f"{edges} edges are written, but only {graph.number_of_edges()} have ids of their own", file=file
        )
    for data in (data for _, data in graph.nodes(data=True)):
        data.update(graph.graph["node_default"] | data)
    for data in (data for _, _, data in graph.edges(data=True)):
        data.update(graph.graph["edge_default"] | data)
    return graph


def _check(contents: bytes, file: Path) -> int:
    """Refuse what networkx would pass over in silence; return the number of edges."""
    open_tags: list[str] = []
    nodes: set[str] = set()
    ends: list[tuple[str, str]] = []
    graphs = 0

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal graphs
        tag = tag.rpartition(":")[2]
        if len(open_tags) >= DEEPEST:
            raise InputError(f"elements are nested more than {DEEPEST} levels deep")
        if tag in ("hyperedge", "port") or (tag == "graph" and "graph" in open_tags):
            raise InputError(f"<{tag}>, nested graphs, hyperedges and ports are not read")
        graphs += tag == "graph"
        if graphs > 1:
            raise InputError("expected one graph per file, got a second one; put each into a file of its own")
        if tag == "node" and open_tags[-1:] == ["graph"]:
            name = given.get("id")
            if name is None or name in nodes:
                raise InputError(f"every node needs an id of its own, got {name!r}")
            nodes.add(name)
        if tag == "edge" and open_tags[-1:] == ["graph"]:
            if "source" not in given or "target" not in given:
                raise InputError(f"an edge needs a source and a target, got {given!r}")
            ends.append((given["source"], given["target"]))
        open_tags.append(tag)

    def end(_: str) -> None:
        open_tags.pop()

    Document(file).parse(contents, start=start, end=end)
    if not graphs:
        raise ReadError("expected a <graph> inside <graphml>, got none", file=file)
    for edge, pair in enumerate(ends):
        for name in pair:
            if name not in nodes:
                raise ReadError(f"edge {edge} ends at node {name!r}, which is not declared", file=file)
    return len(ends)


def _split(rows: Iterable[dict[str, Any]], skipped: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of all data that are symbols, and of those that are numbers with a point."""
    kinds: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            kinds[name] = kinds.get(name, True) and isinstance(value, float)
    labels = [name for name, number in kinds.items() if not number and name not in skipped]
    return labels, [name for name, number in kinds.items() if number and name not in skipped]


def _recognises(path: Path) -> bool:
    """Recognise by the suffix, or by the root element of an XML file."""
    return holds(path, ".graphml") or (
        holds(path, ".xml") and not path.is_dir() and b"<graphml" in first_bytes(path)
    )


SUMMARY = "GraphML graphs (a file, a folder or a zip of .graphml)"
FORMAT = FORMATS.add(Format("graphml", SUMMARY, _recognises, read, priority=50))
