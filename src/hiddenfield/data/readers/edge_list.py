"""One network as a text file of pairs: an edge a line, and a second file for the classes of its nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hiddenfield.data.build import from_arcs, from_edges
from hiddenfield.data.files import existing, inner_suffix, read_text
from hiddenfield.data.formats import Format
from hiddenfield.data.members import first_bytes
from hiddenfield.data.nesting import symbols_of
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array

__all__ = ["FORMAT", "read"]

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
Rows = list[tuple[int, list[str]]]  # line number and fields


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
    rows = _rows(path, delimiter, header)
    _check_widths(rows, path)
    classes = [] if labels is None else _rows(existing(labels), delimiter, labels_header)
    edge_names = list(chain.from_iterable(fields[:2] for _, fields in rows))
    nodes, codes = _nodes([*edge_names, *(fields[0] for _, fields in classes)], num_nodes, path)
    pairs = codes[: len(edge_names)].reshape(-1, 2)
    pairs = pairs if directed else np.sort(pairs, axis=1)
    kind = "arc" if directed else "edge"
    options = _third_fields(rows, third, kind, path)
    if repeated == "merge":
        pairs, options = _merged(pairs, options, kind, rows, path)
    if labels is not None:
        options |= _node_targets(classes, codes[len(edge_names) :], len(nodes), missing)
    if names:
        options |= {"node_labels": np.arange(len(nodes)), "node_vocabularies": [nodes]}
    build = from_arcs if directed else from_edges
    return build(pairs[:, 0], pairs[:, 1], node_ptr=[0, len(nodes)], **options)


def _rows(path: Path, delimiter: str | None, header: bool) -> Rows:
    """Return the fields of every line that is neither blank nor a comment."""
    lines = [
        (number, line)
        for number, line in enumerate(read_text(path).split("\n"), start=1)
        if line and not line.isspace() and not line.lstrip().startswith("#")
    ][int(header) :]
    if delimiter is None and lines:
        delimiter = next((mark for mark in "\t," if mark in lines[0][1].strip()), None)
    if delimiter is None:
        return [(number, line.split()) for number, line in lines]
    return [(number, [field.strip() for field in line.split(delimiter)]) for number, line in lines]


def _check_widths(rows: Rows, path: Path) -> None:
    """Every line must have two nodes, and every line or none a third field."""
    width = len(rows[0][1]) if rows else 2
    for number, fields in rows:
        if len(fields) != width or width not in (2, 3) or not all(fields):
            usual = f"{width} fields, as on line {rows[0][0]},"
            expected = usual if width in (2, 3) else "two nodes, and perhaps a third field,"
            raise ReadError(
                f"expected {expected} got {len(fields)}{'' if all(fields) else ', one of them empty'}: "
                f"{' '.join(fields):.80}",
                file=path,
                line=number,
            )


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


def _third_fields(rows: Rows, third: str, kind: str, path: Path) -> dict[str, Any]:
    """Return what the third fields become: an attribute or a label of every line, as `from_arcs` takes it."""
    if not rows or len(rows[0][1]) == 2:
        return {}
    texts = [fields[2] for _, fields in rows]
    if third == "label":
        vocabulary, codes = Vocabulary.from_values("label", symbols_of(texts))
        return {f"{kind}_labels": codes, f"{kind}_vocabularies": [vocabulary]}
    weights = np.array([_number(text) for text in texts])
    wrong = np.flatnonzero(~(np.abs(weights) <= np.finfo(np.float32).max))
    if len(wrong):
        at = int(wrong[0])
        raise ReadError(
            f"expected a finite number as the weight, got {texts[at]!r}; is it a label? Then say third='label'",
            file=path,
            line=rows[at][0],
        )
    return {f"{kind}_attributes": weights, f"{kind}_attribute_names": ["weight"]}


def _merged(
    pairs: Array, options: dict[str, Any], kind: str, rows: Rows, path: Path
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
            line, before = rows[other[0]], rows[original[other[0]]]
            raise ReadError(
                f"{line[1][0]} and {line[1][1]} stand with {line[1][2]} here and with {before[1][2]} on line "
                f"{before[0]}; to have both edges, say repeated='keep'",
                file=path,
                line=line[0],
            )
        result[name] = values[kept]
    return pairs[kept], result


def _node_targets(rows: Rows, nodes: Array, count: int, missing: Sequence[str]) -> dict[str, Any]:
    """Return the classes of the nodes as one target, or as one of 0 and 1 for each class where a node has several."""
    given = [[field for field in fields[1:] if field and field not in missing] for _, fields in rows]
    owner = np.repeat(nodes, [len(fields) for fields in given])
    vocabulary, codes = Vocabulary.from_values("class", symbols_of(list(chain.from_iterable(given))))
    found = np.unique(np.stack([owner, codes.astype(np.int64)], axis=1), axis=0)
    if len(np.unique(found[:, 0])) == len(found):
        column = np.full(count, np.nan)
        column[found[:, 0]] = found[:, 1]
        return {
            "node_targets": column,
            "node_target_names": ["class"],
            "node_target_vocabularies": [vocabulary],
        }
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
    return widths == {2} or (widths == {3} and all(_is_number(row[2]) for row in rows))


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None


def _number(text: str) -> float:
    """Return the number, or NaN where there is none; Python's own rule would also take ``1_000``."""
    return float(text) if NUMBER.fullmatch(text) else np.nan


FORMAT = Format(
    "edge_list", "one network as lines of two nodes, perhaps with a weight or label", _recognises, read
)
