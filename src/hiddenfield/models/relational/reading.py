"""Reading networks for relational models from text files, with errors that name the line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import read_text
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.models.relational.observations import (
    MOST_VERTICES,
    TOO_LARGE,
    Network,
    network_from_edges,
    pair_attribute,
)

HEADERS = {"source", "target", "from", "to", "vertex", "vertex1", "vertex2", "node1", "node2", "tail", "head"}
VALUES = {"1": "edge", "0": "none", "?": "unknown", "": "edge"}


def read_network(
    scheme: RelationalScheme,
    edges: str | Path,
    vertices: str | Path | None = None,
    *,
    size: int | None = None,
) -> Network:
    r"""Read a network from a list of pairs, and its vertices with their attributes from a table.

    Parameters
    ----------
    scheme
        With one binary attribute of pairs.
    edges
        One pair of names per line, separated by commas, tabs or spaces; ``#`` begins a comment, a first line such as
        ``source,target`` is a header. A third column says what is known of the pair: 1 or more an edge (the default;
        how often or how strong does not matter), 0 none (as for all pairs that are not listed), ? unknown.
    vertices
        A CSV table whose first column has all names; other columns are attributes of the scheme by name, empty where
        unknown. By default the vertices are those that pairs name.
    size
        Number of vertices, where some have no edges and there is no table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hiddenfield.fields.relational import graph_scheme
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "edges.csv"
    >>> _ = path.write_text("source,target,value\na,b,1\nb,c,?\n")
    >>> read_network(graph_scheme("edge"), path, size=5)
    Network(5 vertex; exist: 1 of 10, 1 unknown)
    """
    attribute = pair_attribute(scheme)
    if size is not None:
        _check_size(size)
    names, values, numbers = (None, {}, {}) if vertices is None else _vertices(scheme, Path(vertices))
    known = None if names is None else set(names)
    found: dict[str, list[tuple[str, str]]] = {"edge": [], "none": [], "unknown": []}
    seen: dict[tuple[str, str], int] = {}
    for line, parts in _lines(Path(edges)):
        if len(parts) not in (2, 3):
            raise ReadError(f"expected two names and perhaps 1, 0 or ?, got {parts}", file=edges, line=line)
        first, second, value = parts[0], parts[1], parts[2] if len(parts) == 3 else "1"
        for name in (first, second):
            if not name:
                raise ReadError("expected two names, one is empty", file=edges, line=line)
            if known is not None and name not in known:
                raise ReadError(f"the vertex {name!r} is not in {vertices}", file=edges, line=line)
        if first == second:
            raise ReadError(f"a self-loop at {first!r}; remove it", file=edges, line=line)
        key = (min(first, second), max(first, second)) if attribute.type.unordered else (first, second)
        if key in seen:
            raise ReadError(
                f"the pair {first!r}, {second!r} is there already in line {seen[key]}; remove one",
                file=edges,
                line=line,
            )
        if value not in VALUES and not re.fullmatch(r"\d+(\.\d*)?([eE][+-]?\d+)?", value):
            raise ReadError(
                f"the value of a pair is a number of at least 0, or ? where it is unknown, got {value!r}",
                file=edges,
                line=line,
            )
        seen[key] = line
        found[VALUES.get(value) or ("edge" if float(value) > 0 else "none")].append((first, second))
    if names is None:
        names = list(dict.fromkeys(name for pairs in found.values() for pair in pairs for name in pair))
    if size is not None:
        names = _padded(names, size, edges)
    if not names:
        raise ReadError("there are no vertices: no pairs, and no table of vertices", file=edges)
    return network_from_edges(
        scheme, found["edge"], vertices=names, values=values, unknown=found["unknown"], covariates=numbers
    )


def _padded(names: list[str], size: int, edges: str | Path) -> list[str]:
    if size < len(names):
        raise InputError(f"{edges} names {len(names):,} vertices, more than the given size {size:,}")
    taken = set(names)
    extra = (name for name in (f"isolated {i}" for i in range(1, 2 * size + 1)) if name not in taken)
    return [*names, *(next(extra) for _ in range(size - len(names)))]


def _check_size(size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise InputError(f"size is a whole number of vertices, at least 1, got {size!r}")
    if size > MOST_VERTICES:
        raise InputError(TOO_LARGE.format(size=int(size)))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    first = True
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        if "," in content or "\t" in content:
            parts = [part.strip().strip('"') for part in re.split("[,\t]", content)]
        else:
            parts = content.split()
        header = first and len(parts) >= 2 and {part.lower() for part in parts[:2]} <= HEADERS
        first = False
        if not header:
            yield number, parts


def _vertices(
    scheme: RelationalScheme, path: Path
) -> tuple[list[str], dict[str, dict[str, str]], dict[str, dict[str, float]]]:
    """Return the names, the values of attributes of the scheme, and the numbers that its terms take."""
    rows = list(csv.reader(io.StringIO(read_text(path))))
    if not rows or not rows[0]:
        raise ReadError("expected a header and a line for each vertex", file=path)
    header = [name.strip() for name in rows[0]]
    own = {a.name: a for a in scheme.attributes.values() if len(a.type.parts) == 1}
    taken = {
        f.term.covariate for f in scheme.features.values() if f.term is not None and f.term.kind != "edgecov"
    }
    numbers: dict[str, dict[str, float]] = {name: {} for name in header[1:] if name in taken}
    names: list[str] = []
    values: dict[str, dict[str, str]] = {name: {} for name in header[1:] if name in own}
    where: dict[str, int] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not row or not "".join(row).strip():
            continue
        if len(row) != len(header):
            raise ReadError(
                f"expected {len(header)} columns as in the header, got {len(row)}", file=path, line=line
            )
        name = row[0].strip()
        if name in where:
            raise ReadError(
                f"the vertex {name!r} is there already in line {where[name]}", file=path, line=line
            )
        where[name] = line
        names.append(name)
        for column, entry in zip(header[1:], row[1:], strict=True):
            if column in own and entry.strip():
                try:
                    own[column].code(entry.strip())
                except InputError as error:
                    raise ReadError(str(error), file=path, line=line) from None
                values[column][name] = entry.strip()
            if column in numbers:
                try:
                    numbers[column][name] = float(entry)
                except ValueError:
                    raise ReadError(
                        f"the covariate {column!r} of {name!r} is a number, got {entry!r}",
                        file=path,
                        line=line,
                    ) from None
    return names, values, numbers
