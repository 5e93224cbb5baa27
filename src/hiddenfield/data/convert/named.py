"""Features that go by a name for each column: what to look for in foreign objects, and what a pack would call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Tensor

__all__ = [
    "Names",
    "as_names",
    "attribute_options",
    "label_options",
    "names_of",
    "target_options",
    "target_symbols",
]

Vocabularies = tuple[Vocabulary | None, ...] | None


@dataclass(frozen=True)
class Names:
    """The names of a pack's columns, by kind; vocabularies where they are already known, else None."""

    node_labels: tuple[str, ...] = ()
    edge_labels: tuple[str, ...] = ()
    node_attributes: tuple[str, ...] = ()
    edge_attributes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    node_targets: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    id: str | None = None
    node_vocabularies: Vocabularies = None
    edge_vocabularies: Vocabularies = None
    target_vocabularies: Vocabularies = None
    node_target_vocabularies: Vocabularies = None

    def check_distinct(self) -> None:
        """Refuse two columns of one name on the same kind of thing: a dictionary could hold only one of them."""
        for thing, names in (
            ("nodes", self.node_labels + self.node_attributes + self.node_targets),
            ("edges", self.edge_labels + self.edge_attributes),
            ("graphs", self.targets + self.columns + (() if self.id is None else (self.id,))),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(
                    f"two columns of the {thing} are called {twice[0]!r}; rename one with replace()"
                )


def names_of(structures: Structures) -> Names:
    """Return the names and vocabularies of a pack; its ids are called ``id``."""
    return Names(
        node_labels=tuple(vocabulary.name for vocabulary in structures.node_vocabularies),
        edge_labels=tuple(vocabulary.name for vocabulary in structures.arc_vocabularies),
        node_attributes=structures.node_attribute_names,
        edge_attributes=structures.arc_attribute_names,
        targets=structures.target_names,
        node_targets=structures.node_target_names,
        columns=tuple(structures.columns),
        id=None if structures.ids is None else "id",
        node_vocabularies=structures.node_vocabularies,
        edge_vocabularies=structures.arc_vocabularies,
        target_vocabularies=structures.target_vocabularies,
        node_target_vocabularies=structures.node_target_vocabularies,
    )


def as_names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def label_options(
    kind: str, columns: Mapping[str, Sequence[Any]], vocabularies: Vocabularies
) -> dict[str, Any]:
    """Return label columns as `from_arcs` takes them: symbols, or codes where the vocabularies are known."""
    if not columns:
        return {}
    if vocabularies is None:
        return {f"{kind}_labels": dict(columns)}
    known = [vocabulary for vocabulary in vocabularies if vocabulary is not None]
    codes = [vocabulary.encode(values) for vocabulary, values in zip(known, columns.values(), strict=True)]
    return {f"{kind}_labels": np.stack(codes, axis=1), f"{kind}_vocabularies": tuple(known)}


def attribute_options(kind: str, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return attribute columns as `from_arcs` takes them: one matrix, with names."""
    if not columns:
        return {}
    arrays = []
    for name, values in columns.items():
        try:
            array = np.asarray(values if len(values) else np.zeros(0))
        except ValueError:
            array = np.asarray(None)
        if array.ndim != 1 or array.dtype.kind not in "iufb":
            odd = next((v for v in values if isinstance(v, str) or not np.isscalar(v)), values[:1])
            raise InputError(
                f"{kind} attribute {name!r} must hold one number for every {kind}, got {odd!r:.100}"
            )
        arrays.append(array.astype(np.float64))
    return {f"{kind}_attributes": np.stack(arrays, axis=1), f"{kind}_attribute_names": list(columns)}


def target_options(
    kind: str, columns: Mapping[str, Sequence[Any]], vocabularies: Vocabularies
) -> dict[str, Any]:
    """Return target columns as `from_arcs` takes them; a value is a number, a class's symbol, or None."""
    if not columns:
        return {}
    options = {f"{kind}s": {name: list(values) for name, values in columns.items()}}
    return options if vocabularies is None else options | {f"{kind}_vocabularies": vocabularies}


def target_symbols(
    values: Float[Tensor, "rows targets"], vocabularies: tuple[Vocabulary | None, ...]
) -> list[list[Any]]:
    """Return every target column as numbers or class symbols, with None where one is missing."""
    columns = []
    for column, vocabulary in zip(_columns(values), vocabularies, strict=True):
        missing = np.isnan(column)
        if vocabulary is None:
            plain: list[Any] = column.tolist()
        else:
            codes = np.where(missing, 0, column).astype(np.int64)
            plain = vocabulary.decode(codes) if len(vocabulary) else [None] * len(column)
        columns.append(
            [None if absent else value for absent, value in zip(missing.tolist(), plain, strict=True)]
        )
    return columns


def _columns(values: Tensor) -> list[Array]:
    return list(values.cpu().numpy().T)
