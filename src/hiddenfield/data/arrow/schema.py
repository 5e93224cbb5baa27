"""How a pack is laid out as an Arrow table: the names of its fields, and what the schema's metadata says of them.

One row is one structure. `Layout` says which field holds what; it travels as JSON under the key ``hiddenfield`` of
the schema's metadata. A table without that key is laid out by the names of its fields alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hiddenfield.data.columns import union
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError

KEY = b"hiddenfield"
VERSION = 1

TOPOLOGY = ("id", "num_nodes", "source", "target", "reverse")
# What the fields of a feature's columns begin with, in the order in which a table has them.
PREFIXES = {
    "node_labels": "node_label_",
    "node_attributes": "node_attribute_",
    "arc_labels": "arc_label_",
    "arc_attributes": "arc_attribute_",
    "targets": "target_",
    "node_targets": "node_target_",
}
ATTRIBUTES = ("node_attributes", "arc_attributes")  # the fields that hold all columns of these features


@dataclass(frozen=True)
class Column:
    """One column of a pack: its name, the table's field that holds it, and its vocabulary where it holds codes."""

    name: str
    field: str
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True)
class Layout:
    """Which fields of a table hold what: the columns of every feature that the pack has, and its further columns.

    `known` says whether the layout comes from metadata; without, vocabularies are made from what the fields hold.
    `shard` is the number of the file within a folder of shards.
    """

    known: bool
    ids: bool = False
    features: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    shard: int | None = None

    def to_json(self) -> bytes:
        """Return the value of the metadata's key."""
        described: dict[str, Any] = {"version": VERSION, "ids": self.ids}
        for part in PREFIXES:
            described[part] = msgspec.to_builtins(self.features.get(part))
        described["columns"] = msgspec.to_builtins(self.columns)
        if self.shard is not None:
            described["shard"] = self.shard
        return json.dumps(described).encode()

    def fields(self) -> set[str]:
        """Return the names of all fields that the layout speaks of, besides those of the topology."""
        return {column.field for part in (*self.features.values(), self.columns) for column in part}


def layout_of_pack(pack: Structures, shard: int | None = None) -> Layout:
    """Return the layout in which a pack is written; every column has a field of its own, whatever it is called.

    Attributes alone share one field for all their columns, a list of vectors.
    """
    taken = {*TOPOLOGY, *ATTRIBUTES}
    features = {}
    for part in (part for part in PREFIXES if part in pack.features):
        columns = pack.features[part]
        features[part] = tuple(
            Column(name, part if part in ATTRIBUTES else _free(PREFIXES[part] + name, taken), vocabulary)
            for name, vocabulary in zip(columns.names, columns.vocabularies, strict=True)
        )
    further = tuple(Column(name, _free(name, taken)) for name in pack.columns)
    return Layout(known=True, ids=pack.ids is not None, features=features, columns=further, shard=shard)


def _free(wanted: str, taken: set[str]) -> str:
    """Return a name that no field has yet, and take it."""
    field, number = wanted, 1
    while field in taken:
        number += 1
        field = f"{wanted}_{number}"
    taken.add(field)
    return field


def layout_of_names(fields: Sequence[str]) -> Layout:
    """Lay out a table that came without metadata by the names of its fields.

    Examples
    --------
    >>> layout = layout_of_names(["source", "target", "node_label_atom", "target_pce", "smiles"])
    >>> layout.features["node_labels"][0].name, layout.features["targets"][0].name, layout.columns[0].name
    ('atom', 'pce', 'smiles')
    """
    found: dict[str, list[Column]] = {part: [] for part in (*PREFIXES, "columns")}
    for name in fields:
        if name in ATTRIBUTES:
            found[name].append(Column("", name))
        elif name not in TOPOLOGY:
            part = next((part for part, prefix in PREFIXES.items() if name.startswith(prefix)), "columns")
            found[part].append(Column(name.removeprefix(PREFIXES.get(part, "")), name))
    further = tuple(found.pop("columns"))
    features = {part: tuple(columns) for part, columns in found.items() if columns}
    return Layout(known=False, ids="id" in fields, features=features, columns=further)


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
        parts = {part: described[part] for part in (*PREFIXES, "columns") if described[part] is not None}
        features = msgspec.convert(parts, dict[str, tuple[Column, ...]])
        layout = Layout(
            known=True,
            ids=msgspec.convert(described["ids"], bool),
            columns=features.pop("columns", ()),
            features=features,
            shard=msgspec.convert(described.get("shard"), int | None),
        )
    except ReadError:
        raise
    except (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
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


def united_words(layouts: Sequence[Layout]) -> dict[str, list[Vocabulary | None]]:
    """Return the vocabularies that the columns of several files have together, by feature, in the files' order.

    Nothing where the files have other columns: putting the packs end to end then says what differs.
    """

    def shape(layout: Layout) -> dict[str, Any]:
        return {
            part: [(c.name, c.vocabulary is None) for c in columns]
            for part, columns in layout.features.items()
        }

    if any(shape(layout) != shape(layouts[0]) for layout in layouts):
        return {}
    return {
        part: [
            union([layout.features[part][k].vocabulary for layout in layouts]) for k in range(len(columns))
        ]
        for part, columns in layouts[0].features.items()
        if any(column.vocabulary is not None for column in columns)
    }
