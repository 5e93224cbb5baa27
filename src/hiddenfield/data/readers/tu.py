"""The TU collection's text format: one file for the arcs, one for the nodes, one for each kind of feature."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import torch

from hiddenfield.data.arrow_arrays import to_numpy
from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import Columns, numbered
from hiddenfield.data.formats import FORMATS, Format
from hiddenfield.data.paths import Member, existing, folder_members, names_within, zip_members
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, MergedInputWarning, ReadError
from hiddenfield.ops import counting_sort
from hiddenfield.shapes import Array, Int

Files = dict[str, Member]

PARTS = (
    "A",
    "graph_indicator",
    "graph_labels",
    "graph_attributes",
    "node_labels",
    "node_attributes",
    "edge_labels",
    "edge_attributes",
)
NEEDED = ("A", "graph_indicator")

ATTRIBUTE = "attribute", "it must be finite in single precision: fill in or remove it"
TARGET = "target", "it must be finite, or nan where it is missing"


def read(
    path: str | Path, *, name: str | None = None, repeated: Literal["merge", "keep"] = "merge"
) -> Structures:
    r"""Read a data set in the TU format from a zip archive or a folder.

    Parameters
    ----------
    path
        The archive or folder that holds ``X_A.txt``, ``X_graph_indicator.txt`` and, where there are any,
        ``X_graph_labels.txt``, ``X_graph_attributes.txt``, ``X_node_labels.txt``, ``X_node_attributes.txt``,
        ``X_edge_labels.txt`` and ``X_edge_attributes.txt``.
    name
        X, needed only where there are several data sets.
    repeated
        What becomes of arcs that are listed several times with equal labels and attributes: ``"merge"``, one arc where
        the graphs are undirected (every arc has its reverse), with a warning; or ``"keep"``.

    Returns
    -------
    Structures
        With an arc for every line of ``X_A.txt``: one-way arcs and self-loops stay as they are, and so do repeated arcs
        of directed graphs. Graph labels become the target ``class``, graph attributes numeric targets. A graph without
        nodes is an empty structure. Cost: linear in the bytes.

    Raises
    ------
    ReadError
        Naming the file and line of what is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "TINY_A.txt").write_text("1, 2\n2, 1\n")
    >>> _ = (folder / "TINY_graph_indicator.txt").write_text("1\n1\n2\n")
    >>> _ = (folder / "TINY_graph_labels.txt").write_text("1\n-1\n")
    >>> _ = (folder / "TINY_node_labels.txt").write_text("6\n8\n6\n")
    >>> read(folder)
    Structures(2 structures, 3 nodes, 2 arcs; node labels: label (2); targets: class)
    """
    files = _find_set(Path(path), name)
    indicator = _parse(files["graph_indicator"], np.int64)
    if indicator.shape[1] != 1:
        message = f"expected one number per line, got {indicator.shape[1]}"
        raise files["graph_indicator"].refuse(message, 1)
    indicator = indicator[:, 0]
    targets = _targets(files)
    count = None if targets is None else len(targets)
    order, node_ptr = _group_nodes(indicator, count, files["graph_indicator"])
    arcs = _parse(files["A"], np.int64)
    if arcs.shape[1] != 2:
        raise files["A"].refuse(f"expected two node numbers per line, got {arcs.shape[1]}", 1)
    _check_arcs(arcs, indicator, files["A"])
    arcs -= 1
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        arcs = place[arcs]
    nodes = _features(files, "node", len(indicator), "graph_indicator", "nodes")
    if order is not None:
        nodes = {key: value.take(order) for key, value in nodes.items()}
    edges = _features(files, "edge", len(arcs), "A", "arcs")
    if repeated == "merge" and (kept := _distinct(arcs, edges, len(indicator))) is not None:
        warnings.warn(_merged(files["A"], len(arcs), len(kept)), MergedInputWarning, stacklevel=2)
        arcs, edges = arcs[kept], {key: value.take(kept) for key, value in edges.items()}
    features: dict[str, Any] = {f"node_{key}": value for key, value in nodes.items()}
    features |= {f"arc_{key}": value for key, value in edges.items()}
    return from_arcs(arcs[:, 0], arcs[:, 1], node_ptr=node_ptr, targets=targets, **features)


def _distinct(
    arcs: Int[Array, "arcs 2"], features: Mapping[str, Columns], nodes: int
) -> Int[Array, " kept"] | None:
    """Return the first of all equal arcs of undirected graphs; None where none is repeated, or one has no reverse."""
    number, back = arcs[:, 0] * nodes + arcs[:, 1], arcs[:, 1] * nodes + arcs[:, 0]
    different = np.unique(number)
    if len(different) == len(number) or not np.array_equal(different, np.unique(back)):
        return None
    tables = [number[:, None].astype(np.float64)]
    tables += [
        columns.values.numpy().astype(np.float64).reshape(len(arcs), -1) for columns in features.values()
    ]
    _, first = np.unique(np.concatenate(tables, axis=1), axis=0, return_index=True)
    return np.sort(first) if len(first) < len(arcs) else None


def _merged(file: Member, before: int, after: int) -> str:
    times = f"every arc {before // after} times" if before % after == 0 else "arcs several times"
    return (
        f"{file.label} lists {times}, and its graphs are undirected: {before:,} lines are merged into {after:,} arcs; "
        'keep them with repeated="keep"'
    )


def _group_nodes(
    indicator: Array, count: int | None, file: Member
) -> tuple[Array | None, Int[Array, " bounds"]]:
    """Return the order that puts the nodes of a graph together (None if they are) and the bounds of the graphs."""
    graphs = int(indicator.max()) if count is None else count
    known = f"there are {graphs} graphs" if count is not None else "numbers start at 1"
    bad = np.flatnonzero((indicator < 1) | (indicator > graphs))
    if len(bad):
        message = f"expected the number of a graph, got {indicator[bad[0]]}; {known}"
        raise file.refuse(message, int(bad[0]) + 1)
    if count is None and graphs > len(indicator):
        raise file.refuse(
            f"graph number {graphs} is beyond the number of nodes ({len(indicator)}), so some graph has no node; "
            "add a graph_labels file if that is meant",
            int(np.argmax(indicator)) + 1,
        )
    sizes = np.bincount(indicator, minlength=graphs + 1)[1:]
    if count is None and not sizes.all():
        raise file.refuse(
            f"no node belongs to graph {int(np.argmin(sizes)) + 1} of {graphs}; "
            "add a graph_labels file if an empty graph is meant"
        )
    node_ptr = np.concatenate([[0], np.cumsum(sizes)])
    if bool((indicator[1:] >= indicator[:-1]).all()):
        return None, node_ptr
    order, _ = counting_sort(torch.from_numpy(indicator - 1), graphs)
    return order.numpy(), node_ptr


def _check_arcs(arcs: Int[Array, "arcs 2"], indicator: Array, file: Member) -> None:
    nodes = len(indicator)
    if arcs.min() < 1 or arcs.max() > nodes:
        line = int(np.argmax(((arcs < 1) | (arcs > nodes)).any(axis=1)))
        number = next(int(end) for end in arcs[line] if not 1 <= end <= nodes)
        raise file.refuse(f"expected node numbers from 1 to {nodes}, got {number}", line + 1)
    graphs = indicator[arcs - 1]
    crossing = graphs[:, 0] != graphs[:, 1]
    if crossing.any():
        line = int(np.argmax(crossing))
        raise file.refuse(
            f"the arc goes from node {arcs[line, 0]} of graph {graphs[line, 0]} to node {arcs[line, 1]} of graph "
            f"{graphs[line, 1]}; an arc must stay within one graph",
            line + 1,
        )


def _features(files: Files, kind: str, rows: int, counted_by: str, unit: str) -> dict[str, Columns]:
    """Return labels and attributes of nodes or edges, by what follows ``node_`` or ``arc_`` in their names."""
    found: dict[str, Columns] = {}
    reason = f"{files[counted_by].label} has {rows} {unit}"
    if (labels := files.get(f"{kind}_labels")) is not None:
        values = _parse(labels, np.int64)
        _check_rows(len(values), rows, labels, reason)
        found["labels"] = Columns.labels(
            [Vocabulary.from_values(*column) for column in _named("label", values)]
        )
    if (attributes := files.get(f"{kind}_attributes")) is not None:
        numbers = _parse(attributes, np.float64)
        with np.errstate(over="ignore"):
            single = numbers.astype(np.float32)
        _check_finite(np.isfinite(single), numbers, attributes, *ATTRIBUTE)
        _check_rows(len(numbers), rows, attributes, reason)
        names = numbered("attribute", numbers.shape[1])
        found["attributes"] = Columns(torch.from_numpy(single), names, (None,) * len(names))
    return found


def _check_finite(good: Array, numbers: Array, file: Member, what: str, demand: str) -> None:
    if not good.all():
        line, column = (int(place) for place in np.argwhere(~good)[0])
        raise file.refuse(f"{what} {column + 1} is {numbers[line, column]}; {demand}", line + 1)


def _targets(files: Files) -> Columns | None:
    """Return graph labels as classes and graph attributes as numbers."""
    found: dict[str, tuple[Array, Vocabulary | None]] = {}
    labels, attributes = files.get("graph_labels"), files.get("graph_attributes")
    if labels is not None:
        for name, column in _named("class", _parse(labels, np.int64)):
            vocabulary, codes = Vocabulary.from_values(name, column)
            found[name] = codes, vocabulary
    if attributes is not None:
        numbers = _parse(attributes, np.float64)
        _check_finite(np.isfinite(numbers) | np.isnan(numbers), numbers, attributes, *TARGET)
        if labels is not None:
            _check_rows(len(numbers), len(codes), attributes, f"{labels.label} has {len(codes)} graphs")
        found |= {name: (column, None) for name, column in _named("target", numbers)}
    return Columns.targets(found) if found else None


def _named(name: str, values: Array) -> list[tuple[str, Array]]:
    return list(zip(numbered(name, values.shape[1]), values.T, strict=True))


def _check_rows(rows: int, expected: int, file: Member, reason: str) -> None:
    if rows != expected:
        line = min(rows, expected) + (rows > expected)
        raise file.refuse(f"expected {expected} lines, since {reason}, got {rows}", line)


# -- which files a data set consists of --------------------------------------------------------------------


def _holds_set(path: Path) -> bool:
    """Say whether a folder or zip archive looks like a TU data set; a damaged archive does, to be refused later."""
    names = names_within(path)
    if names is None:
        return path.suffix.lower() == ".zip" and path.is_file()
    return any(name.endswith(tuple(f"_{part}.txt" for part in NEEDED)) for name in names)


def _find_set(path: Path, name: str | None = None) -> Files:
    """Return the files of the one data set, or of the one called `name`, by what follows that name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for part in ("A", "graph_indicator", "graph_labels"):
    ...     _ = (folder / f"X_{part}.txt").write_text("")
    >>> sorted(_find_set(folder))
    ['A', 'graph_indicator', 'graph_labels']
    """
    path = existing(path)
    members = folder_members(path, ".txt") if path.is_dir() else zip_members(path, ".txt")
    prefix = _choose_prefix(path, list(members), name)
    files = {part: members[f"{prefix}_{part}.txt"] for part in PARTS if f"{prefix}_{part}.txt" in members}
    for part in NEEDED:
        if part not in files:
            raise ReadError(f"the data set has no {prefix}_{part}.txt, which it needs", file=path)
    return files


def _choose_prefix(path: Path, members: list[str], name: str | None) -> str:
    """Return what stands before ``_A.txt``, with the folder inside the archive."""
    ending = next(
        (f"_{part}.txt" for part in NEEDED if any(_is_part(m, f"_{part}.txt") for m in members)), None
    )
    if ending is None:
        raise ReadError("there is no file named *_A.txt; expected a data set in the TU format", file=path)
    found = sorted(member.removesuffix(ending) for member in members if _is_part(member, ending))
    chosen = [p for p in found if name is None or name in (p, PurePosixPath(p).name)]
    if len(chosen) == 1:
        return chosen[0]
    choices = ", ".join(found)
    if name is not None and not chosen:
        raise InputError(f"{path}: there is no data set named {name!r}; there are: {choices}")
    raise ReadError(f"holds several data sets ({choices}); choose one with name=", file=path)


def _is_part(member: str, ending: str) -> bool:
    """Whether a member is a part of a data set; copies that macOS adds to archives are not."""
    file = PurePosixPath(member)
    return member.endswith(ending) and not file.name.startswith("._") and "__MACOSX" not in file.parts


# -- numbers from text ---------------------------------------------------------------------------------------
#
# Lines of comma-separated integers or decimals go through pyarrow's CSV reader. A file that pyarrow refuses, or that
# holds other characters than numbers need, is read line by line instead: what is unusual but correct is accepted
# there, and what is wrong is named with its line.

INTEGER = re.compile(rb"[+-]?[0-9]+")
DECIMAL = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE
)
LINE_END = re.compile(rb"\r\n|\r|\n")

# Of these characters pyarrow accepts no number that the patterns above refuse.
USUAL = b"0123456789+-.eE, \t\r\n"
MOST_COLUMNS = 10_000


def _parse(file: Member, dtype: Any) -> Array:
    r"""Parse lines of comma-separated integers or decimals; every line must have as many as the first.

    Blanks around a number are allowed, lines may end with ``\n``, ``\r\n`` or ``\r``, and blank lines may stand at
    the end only. So row r of the result is line r + 1. A decimal becomes the double that ``float`` gives; ``nan`` and
    ``inf`` are read as such: whether they are allowed is for the caller to say.

    Returns
    -------
    (rows, columns), int64 or float64. Cost: one pass over the bytes.

    Raises
    ------
    ReadError
        Naming the file and the first line that is wrong; also if there is no number at all.

    Examples
    --------
    >>> _parse(Member("A.txt", lambda: b"1, 2\n-3, 4\n"), np.int64).tolist()
    [[1, 2], [-3, 4]]
    >>> _parse(Member("A.txt", lambda: b"0.1, 2\n3, x\n"), np.float64)
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: A.txt, line 2: expected a number, got 'x'
    """
    contents = file.read().removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n") + b"\n"
    first = LINE_END.search(contents)
    columns = contents.count(b",", 0, first.start() if first else 0) + 1
    values = None
    if columns <= MOST_COLUMNS and not contents.translate(None, USUAL):
        values = _parse_fast(contents, columns, dtype)
    return _parse_slowly(contents, file, dtype) if values is None else values


def _parse_fast(contents: bytes, columns: int, dtype: Any) -> Array | None:
    import pyarrow
    from pyarrow import csv

    kind = pyarrow.from_numpy_dtype(dtype)
    names = [str(column) for column in range(columns)]
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(contents),
            csv.ReadOptions(use_threads=False, column_names=names),
            csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, kind), null_values=[], strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        return None
    values = np.empty((table.num_rows, columns), dtype=dtype)
    for column in range(columns):
        values[:, column] = to_numpy(table.column(column))
    return values


def _parse_slowly(contents: bytes, file: Member, dtype: Any) -> Array:
    """Parse line by line; the first line that is wrong is named."""
    lines = LINE_END.split(contents[:-1])
    if lines == [b""]:
        raise file.refuse("expected numbers, got an empty file; is it complete?")
    columns, rows = lines[0].count(b",") + 1, []
    pattern, kind = (INTEGER, "an integer") if dtype is np.int64 else (DECIMAL, "a number")
    for number, line in enumerate(lines, start=1):
        if not line.strip(b" \t"):
            where = "" if number == 1 else " before others"
            raise file.refuse(f"expected numbers, got a blank line{where}; remove it", number)
        fields = [field.strip(b" \t") for field in line.split(b",")]
        for field in fields[:columns]:
            shown = field[:40].decode("utf-8", errors="backslashreplace") + "…" * (len(field) > 40)
            if not pattern.fullmatch(field):
                raise file.refuse(f"expected {kind}, got {shown!r}", number)
            # Python refuses to convert thousands of digits, and int64 has nineteen.
            if dtype is np.int64 and not (len(field) < 100 and -(2**63) <= int(field) < 2**63):
                raise file.refuse(f"expected an integer of at most 64 bits, got {shown}", number)
        if len(fields) != columns:
            wanted = f"expected {columns} number{'s' if columns > 1 else ''}, as on the first line"
            came = "more" if len(fields) > columns else len(fields)
            raise file.refuse(f"{wanted}, got {came}", number)
        rows.append(list(map(int if dtype is np.int64 else float, fields)))
    return np.array(rows, dtype=dtype)


FORMAT = FORMATS.add(
    Format("tu", "the TU collection's text files, zipped or in a folder", _holds_set, read, priority=80)
)
