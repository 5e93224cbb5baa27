"""One network as a text file of pairs: one edge per line, and a second file for the classes of its nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hiddenfield.data.build import from_arcs, from_edges
from hiddenfield.data.columns import Columns
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import existing, first_bytes, inner_suffix, read_text
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary, symbols_of
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def read(
    path: str | Path,
    *,
    directed: bool | None = None,
    delimiter: str | None = None,
    header: bool = False,
    third: Literal["weight", "label"] = "weight",
    repeated: Literal["merge", "keep"] = "merge",
    names: bool = True,
    num_nodes: int | None = None,
    labels: str | Path | None = None,
    labels_header: bool = False,
    missing: Sequence[str] = ("NA",),
) -> Structures:
    r"""Read one network from lines of two or three fields: two nodes, and a weight or a label.

    Blank lines and lines that begin with ``#`` are skipped. Nodes may have any names. They are numbered in the order
    of their names: by value if all are integers, otherwise as text.

    Parameters
    ----------
    path
        The file; it may be compressed.
    directed
        Whether a line is one arc from its first node to its second. By default it is if the file's name says
        ``.arcs``; otherwise a line is an edge, both ways.
    delimiter
        What stands between the fields. By default tabs, or else commas, if the first line has any, or else blanks.
    header
        Whether the first line names the columns.
    third
        What the third field is, if there is one: ``"weight"``, a number, which becomes the arc attribute `weight`,
        or ``"label"``, which becomes an arc label.
    repeated
        ``"merge"``: an edge that is listed several times (if undirected, in whichever direction) is one edge; the third
        fields must then agree. ``"keep"``: each is an edge of its own.
    names
        Whether the names of the nodes become the node label `name`.
    num_nodes
        The number of nodes, where all are named by integers from 0 and some have no edge.
    labels
        A second file: on each line a node and its class, or classes. If every node has at most one, the node
        target `class` holds them. Otherwise there is one node target of 0 and 1 for every class, named after it.
        Nodes that only this file names are nodes without edges.
    labels_header
        Whether the first line of that file names its columns.
    missing
        Classes that mean there is none.

    Returns
    -------
    Structures
        A pack of one.

    Raises
    ------
    ReadError
        Naming file and line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "friends.edges.txt"
    >>> _ = path.write_text("# who knows whom\nann bob 0.5\nbob cid 1\nbob ann 0.5\n")
    >>> network = read(path)
    >>> network
    Structures(1 structure, 3 nodes, 4 arcs; node labels: name (3); arc attributes: 1)
    >>> network.node_vocabularies[0].symbols
    ('ann', 'bob', 'cid')
    """
    path = existing(path)
    if third not in ("weight", "label") or repeated not in ("merge", "keep"):
        raise InputError(
            f"third is 'weight' or 'label', repeated 'merge' or 'keep'; got {third!r} and {repeated!r}"
        )
    directed = ".arcs" in path.name.lower() if directed is None else directed
    numbers, columns = _edge_columns(path, delimiter, header)
    _, lines = ([], []) if labels is None else _lines(existing(labels), labels_header)
    classes = list(map(_splitter(lines, delimiter), lines))
    edges = len(columns[0])
    nodes, codes = _nodes([*columns[0], *columns[1], *(fields[0] for fields in classes)], num_nodes, path)
    pairs = codes[: 2 * edges].reshape(2, -1).T
    pairs = pairs if directed else np.sort(pairs, axis=1)
    kind = "arc" if directed else "edge"
    options = _third_column(columns[2], third, kind, numbers, path) if len(columns) == 3 else {}
    if repeated == "merge":
        pairs, options = _merged(pairs, options, kind, columns, numbers, path)
    if labels is not None:
        options |= _node_targets(classes, codes[2 * edges :], len(nodes), missing)
    if names:
        options |= {"node_labels": np.arange(len(nodes)), "node_vocabularies": [nodes]}
    build = from_arcs if directed else from_edges
    return build(pairs[:, 0], pairs[:, 1], node_ptr=[0, len(nodes)], **options)


def _lines(path: Path, header: bool) -> tuple[list[int], list[str]]:
    """Return number and text of every line that is neither blank nor a comment."""
    lines = read_text(path).split("\n")
    kept = [k for k, line in enumerate(lines) if line and not line.isspace() and line.lstrip()[0] != "#"]
    kept = kept[int(header) :]
    return [k + 1 for k in kept], [lines[k] for k in kept]


def _splitter(lines: list[str], delimiter: str | None) -> Callable[[str], list[str]]:
    """Return how to cut a line into fields: as is said, or as the first line suggests."""
    if delimiter is None and lines:
        delimiter = next((mark for mark in "\t," if mark in lines[0].strip()), None)
    if delimiter is None:
        return str.split
    return lambda line: [field.strip() for field in line.split(delimiter)]


def _edge_columns(path: Path, delimiter: str | None, header: bool) -> tuple[list[int], list[list[str]]]:
    """Return the numbers of the lines, and two or three columns of fields; every line has as many as the first."""
    numbers, lines = _lines(path, header)
    split = _splitter(lines, delimiter)
    width = len(split(lines[0])) if lines else 2
    # One flat list: hundreds of thousands of small ones would keep the garbage collector busy.
    flat: list[str] = []
    for number, line in zip(numbers, lines, strict=True):
        fields = split(line)
        if len(fields) != width or width not in (2, 3) or not all(fields):
            usual = f"{width} fields, as on line {numbers[0]},"
            expected = usual if width in (2, 3) else "two nodes, and perhaps a third field,"
            empty = "" if all(fields) else ", one of them empty"
            raise ReadError(
                f"expected {expected} got {len(fields)}{empty}: {' '.join(fields):.80}",
                file=path,
                line=number,
            )
        flat += fields
    return numbers, [flat[column::width] for column in range(width)]


def _nodes(names: list[str], num_nodes: int | None, path: Path) -> tuple[Vocabulary, Array]:
    """Return the nodes, sorted by name, and for every name in the files the number of its node."""
    symbols: Sequence[str | int] = symbols_of(names)
    # Integers are told apart by a sort of the array, texts by a dictionary.
    values = np.array(symbols, dtype=np.int64) if symbols and isinstance(symbols[0], int) else symbols
    if num_nodes is None:
        nodes, codes = Vocabulary.from_values("name", values)
        return nodes, codes.astype(np.int64)
    for name, symbol in zip(names, symbols, strict=True):
        if isinstance(symbol, str) or not 0 <= symbol < num_nodes:
            raise ReadError(
                f"with num_nodes={num_nodes} the nodes are 0 to {num_nodes - 1}, got {name!r}", file=path
            )
    return Vocabulary("name", tuple(range(num_nodes))), np.array(symbols, dtype=np.int64)


def _third_column(texts: list[str], third: str, kind: str, numbers: list[int], path: Path) -> dict[str, Any]:
    """Return what the third fields become: an attribute or a label of every line, as `from_arcs` takes it."""
    if third == "label":
        vocabulary, codes = Vocabulary.from_values("label", symbols_of(texts))
        return {f"{kind}_labels": codes, f"{kind}_vocabularies": [vocabulary]}
    # By the pattern, since Python's own rule would also take ``1_000``.
    weights = np.array([float(text) if NUMBER.fullmatch(text) else np.nan for text in texts])
    wrong = np.flatnonzero(~(np.abs(weights) <= np.finfo(np.float32).max))
    if len(wrong):
        at = int(wrong[0])
        raise ReadError(
            f"expected a finite number as the weight, got {texts[at]!r}; if it is a label, pass third='label'",
            file=path,
            line=numbers[at],
        )
    return {f"{kind}_attributes": weights, f"{kind}_attribute_names": ["weight"]}


def _merged(
    pairs: Array, options: dict[str, Any], kind: str, columns: list[list[str]], numbers: list[int], path: Path
) -> tuple[Array, dict[str, Any]]:
    """Keep the first line of every pair; the others must say the same."""
    key = pairs[:, 0] * (int(pairs.max(initial=0)) + 1) + pairs[:, 1]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    original = first[inverse]
    kept = np.sort(first)
    result = dict(options)
    for name in (f"{kind}_labels", f"{kind}_attributes"):
        if name not in options:
            continue
        values = options[name]
        other = np.flatnonzero(values != values[original])
        if len(other):
            here, before = int(other[0]), int(original[other[0]])
            one, two, value = (column[here] for column in columns)
            raise ReadError(
                f"the edge between {one} and {two} has {value} here and {columns[2][before]} on line "
                f"{numbers[before]}; to keep both edges, pass repeated='keep'",
                file=path,
                line=numbers[here],
            )
        result[name] = values[kept]
    return pairs[kept], result


def _node_targets(rows: list[list[str]], nodes: Array, count: int, missing: Sequence[str]) -> dict[str, Any]:
    """Return the classes of the nodes as one target, or as one of 0 and 1 for each class where a node has several."""
    given = [[field for field in fields[1:] if field and field not in missing] for fields in rows]
    owner = np.repeat(nodes, [len(fields) for fields in given])
    vocabulary, codes = Vocabulary.from_values("class", symbols_of(list(chain.from_iterable(given))))
    found = np.unique(np.stack([owner, codes.astype(np.int64)], axis=1), axis=0)
    if len(np.unique(found[:, 0])) == len(found):
        column = np.full(count, np.nan)
        column[found[:, 0]] = found[:, 1]
        return {"node_targets": Columns.targets({"class": (column, vocabulary)})}
    table = np.full((count, len(vocabulary)), np.nan)
    table[nodes] = 0.0
    table[found[:, 0], found[:, 1]] = 1.0
    return {"node_targets": table, "node_target_names": [f"class_{symbol}" for symbol in vocabulary.symbols]}


def _recognises(path: Path) -> bool:
    """Recognise by ``.edges``, ``.arcs`` or ``.edgelist`` in the name, or a text whose first lines are all pairs."""
    if path.is_dir():
        return False
    if {suffix.lower() for suffix in path.suffixes} & {".edges", ".arcs", ".edgelist"}:
        return True
    if inner_suffix(path) not in (".txt", ""):
        return False
    start = first_bytes(path)
    try:
        lines = start.decode("utf-8-sig", errors="strict" if len(start) < 4096 else "ignore").split("\n")
    except UnicodeDecodeError:
        return False
    rows = [
        re.split(r"[\t,]|\s+", line.strip()) for line in lines if line.strip() and line.lstrip()[0] != "#"
    ]
    if len(start) == 4096 and rows and len(rows[-1]) <= 3:
        rows.pop()  # It may be cut off.
    widths = {len(row) for row in rows}
    return widths == {2} or (widths == {3} and all(NUMBER.fullmatch(row[2]) for row in rows))


SUMMARY = "one network as lines of two nodes, perhaps with a weight or label"
FORMAT = FORMATS.add(Format("edge_list", SUMMARY, _recognises, read))
