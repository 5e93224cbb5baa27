"""Reading networks for relational models from text files, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.paths import read_text
from hiddenfield.data.readers.delimited import read_table
from hiddenfield.errors import InputError, ReadError, TooLargeError
from hiddenfield.fields.relational import RelationalScheme
from hiddenfield.models.relational.observations import (
    MOST_VERTICES,
    TOO_LARGE,
    Network,
    entity_names,
    network_from_edges,
    pair_attribute,
)
from hiddenfield.registry import choose

HEADERS = {"source", "target", "from", "to", "vertex", "vertex1", "vertex2", "node1", "node2", "tail", "head"}
VALUES = {"1": "edge", "0": "none", "?": "unknown", "": "edge"}


def read_network(
    scheme: RelationalScheme,
    edges: str | Path,
    vertices: str | Path | None = None,
    *,
    size: Mapping[str, int] | int | None = None,
) -> Network:
    r"""Read a network from a list of pairs, and its vertices with their attributes from a table.

    Parameters
    ----------
    scheme
        With one binary attribute of pairs.
    edges
        One pair of names per line, separated by commas, tabs or spaces; ``#`` begins a comment, a first line such as
        ``source,target`` is a header, or one with the names of types. A third column says what is known of the pair: 1
        or more an edge (the default; how often or how strong does not matter), 0 none (as for all pairs that are not
        listed), ? unknown. Of a two-mode network, the first column has entities of the first type.
    vertices
        A CSV table whose first column has all names; other columns are attributes of the scheme by name, empty where
        unknown. By default the vertices are those that pairs name. Of a two-mode network, the column ``type`` says
        of which type each is.
    size
        Number of vertices, where some have no edges and there is no table; of a two-mode network, that of each type.

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
    kinds, two_mode = attribute.type.parts, attribute.type.two_mode
    wanted = _sizes(scheme, size)
    names, values, numbers = (None, {}, {}) if vertices is None else _vertices(scheme, Path(vertices))
    known = None if names is None else {kind: set(found) for kind, found in names.items()}
    found: dict[str, list[tuple[str, str]]] = {"edge": [], "none": [], "unknown": []}
    seen: dict[tuple[str, str], int] = {}
    for line, parts in _lines(Path(edges), HEADERS | {kind.lower() for kind in kinds}):
        if len(parts) not in (2, 3):
            raise ReadError(f"expected two names and perhaps 1, 0 or ?, got {parts}", file=edges, line=line)
        first, second, value = parts[0], parts[1], parts[2] if len(parts) == 3 else "1"
        for name, kind in zip((first, second), kinds, strict=True):
            if not name:
                raise ReadError("expected two names, one is empty", file=edges, line=line)
            if known is not None and name not in known[kind]:
                what = f"{kind} {name!r} is not one in" if two_mode else f"vertex {name!r} is not in"
                raise ReadError(f"the {what} {vertices}", file=edges, line=line)
        if first == second and not two_mode:
            raise ReadError(f"a self-loop at {first!r}; remove it", file=edges, line=line)
        key = (min(first, second), max(first, second)) if attribute.type.unordered else (first, second)
        if key in seen:
            either = " (or declare ordered pairs, if the network is directed)" * attribute.type.unordered
            raise ReadError(
                f"the pair {first!r}, {second!r} is there already in line {seen[key]}; remove one{either}",
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
        names = entity_names(attribute, [pair for pairs in found.values() for pair in pairs])
    for kind, count in wanted.items():
        names[kind] = _padded(names[kind], count, edges, f"{kind} " if two_mode else "")
    if not all(names.values()):
        raise ReadError("there are no vertices: no pairs, and no table of vertices", file=edges)
    return network_from_edges(
        scheme,
        found["edge"],
        vertices=names if two_mode else names[kinds[0]],
        values=values,
        unknown=found["unknown"],
        covariates=numbers,
    )


def _padded(names: list[str], size: int, edges: str | Path, kind: str) -> list[str]:
    if size < len(names):
        what = f"of type {kind.strip()}" if kind else "vertices"
        raise InputError(f"{edges} names {len(names):,} {what}, more than the given size {size:,}")
    taken = set(names)
    extra = (name for name in (f"isolated {kind}{i}" for i in range(1, 2 * size + 1)) if name not in taken)
    return [*names, *(next(extra) for _ in range(size - len(names)))]


def _sizes(scheme: RelationalScheme, size: Any) -> dict[str, int]:
    """Return the numbers of vertices that are given, by type; those of some types may be left out."""
    if size is None:
        return {}
    if not isinstance(size, Mapping):
        if len(scheme.types) > 1:
            raise InputError(f"say how many entities of each type there are: {', '.join(scheme.types)}")
        size = {next(iter(scheme.types)): size}
    for kind, count in size.items():
        choose("type", scheme.types, kind)
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise InputError(f"size is a whole number of vertices, at least 1, got {count!r}")
        if count > MOST_VERTICES:
            raise TooLargeError(TOO_LARGE.format(size=int(count)))
    return dict(size)


def _lines(path: Path, headers: set[str]) -> Iterator[tuple[int, list[str]]]:
    first = True
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        if "," in content or "\t" in content:
            parts = [part.strip().strip('"') for part in re.split("[,\t]", content)]
        else:
            parts = content.split()
        header = first and len(parts) >= 2 and {part.lower() for part in parts[:2]} <= headers
        first = False
        if not header:
            yield number, parts


def _vertices(
    scheme: RelationalScheme, path: Path
) -> tuple[dict[str, list[str]], dict[str, dict[str, str]], dict[str, dict[str, float]]]:
    """Return the names by type, the values of attributes of the scheme, and the numbers that its terms take."""
    table = read_table(path)
    own = {a.name: a for a in scheme.attributes.values() if len(a.type.parts) == 1}
    taken = {
        f.term.covariate for f in scheme.features.values() if f.term is not None and f.term.kind != "edgecov"
    }
    header = table.names[1:]
    numbers: dict[str, dict[str, float]] = {name: {} for name in header if name in taken}
    names: dict[str, list[str]] = {kind: [] for kind in dict.fromkeys(pair_attribute(scheme).type.parts)}
    two_mode = len(names) == 2
    if two_mode and "type" not in header:
        wanted = f"a column 'type' that says which are {' and which are '.join(names)}"
        raise ReadError(f"expected {wanted}", file=path, line=1)
    values: dict[str, dict[str, str]] = {name: {} for name in header if name in own}
    where: dict[tuple[str, str], int] = {}
    columns = [table.entries(place) for place in range(len(table.names))]
    for row, entries in enumerate(zip(*columns, strict=True)):
        name, *texts = (entry.strip() for entry in entries)
        kind = texts[header.index("type")] if two_mode else next(iter(names))
        if kind not in names:
            raise table.refuse(f"the type of {name!r} is {' or '.join(names)}, got {kind!r}", row)
        if (kind, name) in where:
            what = f"{kind if two_mode else 'vertex'} {name!r}"
            raise table.refuse(f"the {what} is there already in line {where[kind, name]}", row)
        where[kind, name] = table.lines[row]
        names[kind].append(name)
        for column, entry in zip(header, texts, strict=True):
            attribute = own.get(column)
            try:
                if attribute is not None and attribute.type.parts[0] == kind and entry:
                    attribute.code(entry)
                    values[column][name] = entry
                if column in numbers and (entry or not two_mode):
                    numbers[column][name] = float(entry)
            except ValueError as error:
                told = f"the covariate {column!r} of {name!r} is a number, got {entry!r}"
                raise table.refuse(str(error) if isinstance(error, InputError) else told, row) from None
    return names, values, numbers
