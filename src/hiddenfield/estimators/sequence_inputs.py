"""Accepted forms of sequences and trees with observations, and how results go back into the form that came."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from hiddenfield.data.convert.mixed import as_table
from hiddenfield.data.structures import Structures
from hiddenfield.data.table import Table
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.models.hidden_markov.forest import Forest
from hiddenfield.shapes import Array, Int


@dataclass(frozen=True, eq=False)
class SequenceInput:
    """Sequences or trees, read as far as the columns.

    Parameters
    ----------
    source
        The observations of all nodes, as `as_table` reads them.
    forest
        The trees; its order are rows of the source.
    sizes
        The number of nodes of each entry, where results are lists with one entry for each; None for a table.
    restore
        Makes observations of the type that came, of a table.
    """

    source: Any
    forest: Forest
    sizes: Int[Array, " structures"] | None
    restore: Callable[[Table], Any]

    def split(self, nodes: Array) -> Any:
        """Return what belongs to nodes as it is for a table, or as a list for a list of sequences."""
        return nodes if self.sizes is None else np.split(nodes, np.cumsum(self.sizes)[:-1])


def read_sequences(
    X: Any, *, sequence: str | None = None, parent: str | None = None, missing: Collection[str] = ()
) -> SequenceInput:
    """Find what X is.

    Parameters
    ----------
    X
        A pack of sequences or trees; a list with an entry for each sequence (a text, a list or array of symbols or
        numbers, a matrix or data frame with a row for each step); or one table with a row for each step.
    sequence, parent
        Columns of a table: which sequence a row belongs to, rows in their order (by default all are one sequence); and
        for trees the number of each row's parent within its tree, -1 or missing for the root.
    missing
        Symbols of packs and texts that stand for what is not known.
    """
    if isinstance(X, Structures):
        return _structures(X, missing)
    if isinstance(X, (list, tuple)) and not (len(X) and isinstance(X[0], Mapping)):
        return _listed(list(X), missing)
    return _table(X, sequence, parent)


def _structures(pack: Structures, missing: Collection[str]) -> SequenceInput:
    columns: dict[str, Any] = {}
    labels = pack.features.get("node_labels")
    if labels is not None:
        for name, values in zip(labels.names, labels.decoded(), strict=True):
            columns[name] = [None if value in missing else value for value in values] if missing else values
    attributes = pack.features.get("node_attributes")
    if attributes is not None:
        numbers = attributes.values.cpu().numpy().astype(np.float64)
        columns |= dict(zip(attributes.names, numbers.T, strict=True))
    if not columns:
        raise InputError(
            "the structures have neither node labels nor node attributes; there is nothing observed"
        )

    def restore(table: Table) -> Structures:
        words: list[Vocabulary] = []
        codes = []
        for j, column in enumerate(table.columns):
            if column.vocabulary is not None:
                words.append(column.vocabulary)
                codes.append(table.values[:, j].astype(np.int32))
        if not words:
            return pack
        labels = torch.from_numpy(np.stack(codes, axis=1)).to(pack.device)
        return pack.replace(node_labels=labels, node_vocabularies=tuple(words))

    return SequenceInput(columns, Forest.of_structures(pack), pack.num_nodes.cpu().numpy(), restore)


def _listed(entries: list[Any], missing: Collection[str]) -> SequenceInput:
    if not entries:
        raise InputError("Found 0 sample(s) while a minimum of 1 is required: there are no sequences")
    sizes = np.array([len(entry) if hasattr(entry, "__len__") else -1 for entry in entries])
    if (bad := np.flatnonzero(sizes < 0)).size:
        raise InputError(
            f"entry {bad[0]} of X is {entries[bad[0]]!r:.60}; expected a sequence: a text, list or array"
        )
    frames = [hasattr(entry, "columns") for entry in entries]
    matrices = [getattr(entry, "ndim", 1) == 2 for entry in entries]
    forest = Forest.of_lengths(sizes)
    if all(frames):
        import pandas

        source: Any = pandas.concat(entries, ignore_index=True)
    elif any(frames) or (any(matrices) and not all(matrices)):
        odd = next(i for i, one in enumerate(matrices) if one != matrices[0])
        raise InputError(f"entries 0 and {odd} of X are not alike; expected one form throughout")
    elif all(matrices):
        source = np.concatenate(entries)
    else:
        flat = [None if value in missing else value for entry in entries for value in _plain(entry)]
        texts = any(isinstance(value, str) for value in (*entries, *flat))
        source = {"symbol" if texts else "x0": flat}

    def restore(table: Table) -> list[Any]:
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        return [
            _alike(entry, table.take(slice(first, last)))
            for entry, (first, last) in zip(entries, pairwise(bounds), strict=True)
        ]

    return SequenceInput(source, forest, sizes, restore)


def _plain(entry: Any) -> Any:
    return entry.tolist() if isinstance(entry, np.ndarray) else entry


def _alike(entry: Any, table: Table) -> Any:
    """Return observations in the type of a sequence or table."""
    if hasattr(entry, "iloc"):
        return entry.assign(**{name: table.decoded(j) for j, name in enumerate(table.names)})
    if isinstance(entry, str):
        return "".join(table.decoded(0))
    if isinstance(entry, np.ndarray):
        symbols = any(column.vocabulary is not None for column in table.columns)
        values = np.array(table.decoded(0), object)[:, None] if symbols and entry.ndim == 1 else table.values
        return values if entry.ndim == 2 else values[:, 0]
    return table.decoded(0)


def _table(X: Any, sequence: str | None, parent: str | None) -> SequenceInput:
    named = [name for name in (sequence, parent) if name is not None]
    if not named:
        rows = len(as_table(X)) if not hasattr(X, "shape") else X.shape[0]
        return SequenceInput(X, Forest.of_lengths([rows]), None, _restored(X))
    table = as_table(
        X, columns=named, kinds={n: "categorical" if n == sequence else "continuous" for n in named}
    )
    if sequence is None:
        owner = np.zeros(len(table), np.int64)
    else:
        column = table.select([sequence])
        if column.missing.any():
            row = int(np.argmax(column.missing))
            raise InputError(f"row {row} has no {sequence!r}; every row belongs to a sequence")
        # Sequences in the order in which they appear.
        _, first, number = np.unique(column.values[:, 0], return_index=True, return_inverse=True)
        owner = np.argsort(np.argsort(first))[number]
    rows = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner)
    forest = Forest.of_lengths(sizes)
    if parent is not None:
        above = np.nan_to_num(table.select([parent]).values[rows, 0], nan=-1.0).astype(np.int64)
        forest = Forest.of_parents(np.split(above, np.cumsum(sizes)[:-1]))
    forest = Forest(forest.structure_ptr, forest.parent, rows[forest.order])
    return SequenceInput(X, forest, None, _restored(X))


def _restored(X: Any) -> Callable[[Table], Any]:
    return lambda table: _alike(X, table) if hasattr(X, "iloc") else table.restore()
