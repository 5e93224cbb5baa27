"""How a pack is laid out as an Arrow table: the names of its fields, and what the schema's metadata says of them.

One row is one structure. `Layout` says which field holds what; it travels as JSON under the key ``hiddenfield`` of
the schema's metadata. A table without that key is laid out by the names of its fields alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError

__all__ = ["KEY", "VERSION", "Column", "Layout", "layout_of_names", "layout_of_pack", "parse_layout", "unite"]

KEY = b"hiddenfield"
VERSION = 1

TOPOLOGY = ("id", "num_nodes", "source", "target", "reverse")
PREFIXES = {
    "node_labels": "node_label_",
    "arc_labels": "arc_label_",
    "node_attributes": "node_attribute_",
    "arc_attributes": "arc_attribute_",
    "targets": "target_",
    "node_targets": "node_target_",
}


@dataclass(frozen=True)
class Column:
    """One column of a pack: its name, the table's field that holds it, and its classes where it holds codes.

    `into` is the vocabulary that the codes are to be translated into when the column is read.
    """

    name: str
    field: str
    vocabulary: Vocabulary | None = None
    into: Vocabulary | None = None


@dataclass(frozen=True)
class Layout:
    """Which fields of a table hold what; None where a pack has no such feature, empty where it has zero columns.

    `known` says whether the layout comes from metadata; without, vocabularies are made from what the fields hold.
    `shard` is the number of the file within a folder of shards.
    """

    known: bool
    ids: bool = False
    node_labels: tuple[Column, ...] | None = None
    arc_labels: tuple[Column, ...] | None = None
    node_attributes: tuple[Column, ...] | None = None
    arc_attributes: tuple[Column, ...] | None = None
    targets: tuple[Column, ...] | None = None
    node_targets: tuple[Column, ...] | None = None
    columns: tuple[Column, ...] = ()
    shard: int | None = None

    def to_json(self) -> bytes:
        """Return the value of the metadata's key."""
        described: dict[str, Any] = {"version": VERSION, "ids": self.ids}
        for part in (*PREFIXES, "columns"):
            columns = getattr(self, part)
            described[part] = None if columns is None else [_describe(column) for column in columns]
        if self.shard is not None:
            described["shard"] = self.shard
        return json.dumps(described).encode()

    def fields(self) -> set[str]:
        """Return the names of all fields that the layout speaks of, besides those of the topology."""
        parts = [getattr(self, part) or () for part in (*PREFIXES, "columns")]
        return {column.field for part in parts for column in part}


def layout_of_pack(structures: Structures, shard: int | None = None) -> Layout:
    """Return the layout in which a pack is written; every column has a field of its own, whatever it is called."""
    taken = {*TOPOLOGY, "node_attributes", "arc_attributes"}

    def place(part: str, names: Sequence[str], words: Sequence[Vocabulary | None], held: Any) -> Any:
        if held is None:
            return None
        columns = []
        for name, vocabulary in zip(names, words, strict=True):
            columns.append(Column(name, _free(PREFIXES.get(part, "") + name, taken), vocabulary))
        return tuple(columns)

    def attributes(kind: str, names: Sequence[str], held: Any) -> Any:
        return None if held is None else tuple(Column(name, f"{kind}_attributes") for name in names)

    pack = structures
    node_words, arc_words = pack.node_vocabularies, pack.arc_vocabularies
    return Layout(
        known=True,
        ids=pack.ids is not None,
        node_labels=place("node_labels", [v.name for v in node_words], node_words, pack.node_labels),
        arc_labels=place("arc_labels", [v.name for v in arc_words], arc_words, pack.arc_labels),
        node_attributes=attributes("node", pack.node_attribute_names, pack.node_attributes),
        arc_attributes=attributes("arc", pack.arc_attribute_names, pack.arc_attributes),
        targets=place("targets", pack.target_names, pack.target_vocabularies, pack.targets),
        node_targets=place(
            "node_targets", pack.node_target_names, pack.node_target_vocabularies, pack.node_targets
        ),
        columns=place("columns", list(pack.columns), [None] * len(pack.columns), pack.columns),
        shard=shard,
    )


def _free(wanted: str, taken: set[str]) -> str:
    """Return a name that no field has yet, and take it."""
    field, number = wanted, 1
    while field in taken:
        number += 1
        field = f"{wanted}_{number}"
    taken.add(field)
    return field


def _describe(column: Column) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "field": column.field}
    if column.vocabulary is not None:
        described["vocabulary"] = {"name": column.vocabulary.name, "symbols": list(column.vocabulary.symbols)}
    return described


def layout_of_names(fields: Sequence[str]) -> Layout:
    """Lay out a table that came without metadata by the names of its fields.

    Examples
    --------
    >>> layout = layout_of_names(["source", "target", "node_label_atom", "target_pce", "smiles"])
    >>> layout.node_labels[0].name, layout.targets[0].name, layout.columns[0].name
    ('atom', 'pce', 'smiles')
    """
    found: dict[str, list[Column]] = {part: [] for part in (*PREFIXES, "columns")}
    for field in fields:
        if field in TOPOLOGY:
            continue
        if field in ("node_attributes", "arc_attributes"):
            found[field].append(Column("", field))
            continue
        part = next((part for part, prefix in PREFIXES.items() if field.startswith(prefix)), "columns")
        found[part].append(Column(field.removeprefix(PREFIXES.get(part, "")), field))
    features: dict[str, Any] = {part: tuple(found[part]) or None for part in PREFIXES}
    return Layout(known=False, ids="id" in fields, columns=tuple(found["columns"]), **features)


def parse_layout(
    metadata: Mapping[bytes, bytes] | None, fields: Sequence[str], file: str | Path | None
) -> Layout:
    """Return the layout that a schema's metadata holds, or the one that follows from the fields' names.

    A version from the future and metadata that are not what `Layout.to_json` writes are refused.
    """
    if not metadata or KEY not in metadata:
        return layout_of_names(fields)
    try:
        described = json.loads(metadata[KEY])
        version = described["version"]
        if isinstance(version, int) and version > VERSION:
            raise ReadError(
                f"written in version {version} of the format, and this library reads up to {VERSION}; upgrade it",
                file=file,
            )
        if version != VERSION:
            raise InputError(f"the version must be an integer from 1, got {version!r}")
        layout = Layout(
            known=True,
            ids=_typed(described["ids"], bool),
            columns=_columns(described["columns"]) or (),
            shard=None if described.get("shard") is None else _typed(described["shard"], int),
            **{part: _columns(described[part]) for part in PREFIXES},
        )
    except ReadError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise ReadError(
            f"its metadata 'hiddenfield' are damaged ({cause}); write it anew", file=file
        ) from None
    missing = sorted((layout.fields() | ({"id"} if layout.ids else set())) - set(fields))
    if missing:
        raise ReadError(
            f"the metadata speak of a column {missing[0]!r} that is not there; write it anew", file=file
        )
    extra = [field for field in fields if field not in layout.fields() and field not in TOPOLOGY]
    columns = (*layout.columns, *(Column(field, field) for field in extra))
    if len({column.name for column in columns}) < len(columns):
        raise ReadError("its metadata 'hiddenfield' name a further column twice; write it anew", file=file)
    return dataclasses.replace(layout, ids="id" in fields, columns=columns)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise InputError(f"expected {kind.__name__}, got {value!r}")
    return value


def _columns(described: Any) -> tuple[Column, ...] | None:
    if described is None:
        return None
    columns = []
    for entry in _typed(described, list):
        words = entry.get("vocabulary")
        vocabulary = None
        if words is not None:
            symbols = _typed(words["symbols"], list)
            vocabulary = Vocabulary(words["name"], tuple(_symbol(symbol) for symbol in symbols))
        columns.append(Column(_typed(entry["name"], str), _typed(entry["field"], str), vocabulary))
    return tuple(columns)


def _symbol(symbol: Any) -> Any:
    return _typed(symbol, int if isinstance(symbol, int) else str)


def unite(layouts: Sequence[Layout]) -> list[Layout]:
    """Let the same columns of several files be read into one vocabulary, the union of theirs in the files' order.

    Layouts with other columns are returned as they are: putting the packs end to end then says what differs.
    """

    def shape(layout: Layout) -> list[Any]:
        parts = [getattr(layout, part) for part in PREFIXES]
        return [part and [(c.name, c.vocabulary is None) for c in part] for part in parts]

    if not layouts or any(shape(layout) != shape(layouts[0]) for layout in layouts):
        return list(layouts)
    united: list[dict[str, Any]] = [{} for _ in layouts]
    for part in PREFIXES:
        versions = [getattr(layout, part) for layout in layouts]
        if not versions[0]:
            continue
        words = [_union([columns[k].vocabulary for columns in versions]) for k in range(len(versions[0]))]
        for changes, columns in zip(united, versions, strict=True):
            changes[part] = tuple(dataclasses.replace(c, into=w) for c, w in zip(columns, words, strict=True))
    return [dataclasses.replace(layout, **changes) for layout, changes in zip(layouts, united, strict=True)]


def _union(words: Sequence[Vocabulary | None]) -> Vocabulary | None:
    first = words[0]
    if first is None:
        return None
    # Almost always all are equal, and one comparison is cheaper than a union.
    others = [word for word in words if word is not None and word != first]
    return reduce(lambda one, other: one.union(other), others, first)
