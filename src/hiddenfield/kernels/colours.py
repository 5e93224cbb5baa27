"""The dictionary of colours that a set of structures has, by which other structures are counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.kernels.rows import Rows, number_rows
from hiddenfield.shapes import Array, Int, Tensor

__all__ = ["ColourDictionary", "columns_in", "look_up"]


@dataclass(frozen=True, eq=False)
class ColourDictionary:
    """Every colour of every round as what it stands for, so that the same neighbourhood has the same column for ever.

    Parameters
    ----------
    node_vocabularies, arc_vocabularies
        The labels that it was fitted on; `arc_vocabularies` is None where arc labels do not count.
    arc_labels
        The distinct combinations of arc labels, as rows of codes.
    rounds
        One for every round from 0: the distinct rows that are the round's colours. In round 0 a row holds a
        node's label codes; later its own colour, then for every arc that arrives the colour of the node that
        sends, times the number of combinations of arc labels, plus the number of the arc's own: sorted.
    """

    node_vocabularies: tuple[Vocabulary, ...]
    arc_vocabularies: tuple[Vocabulary, ...] | None
    arc_labels: Rows
    rounds: tuple[Rows, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First column of every round, then the number of columns."""
        return tuple(int(total) for total in np.cumsum([0] + [len(rows) for rows in self.rounds]))

    @property
    def num_features(self) -> int:
        """Number of columns: the colours of all rounds."""
        return self.offsets[-1]

    def __repr__(self) -> str:
        """Colours of every round."""
        sizes = ", ".join(f"{len(rows):,}" for rows in self.rounds)
        return f"ColourDictionary({self.num_features:,} colours; by round: {sizes})"


def look_up(rows: Rows, known: Rows | None) -> tuple[Int[Array, " rows"], Rows]:
    """Find every row among the known ones, -1 where it is not there; without known ones, make them.

    Returns
    -------
    numbers
        (rows,).
    known
        The rows that the numbers stand for.
    """
    if known is None:
        numbers, first = number_rows(rows)
        return numbers, rows.take(first)
    # The known rows are distinct, so that standing first they are numbered 0, 1, ... themselves.
    numbers = number_rows(known.followed_by(rows))[0][len(known) :]
    return np.where(numbers < len(known), numbers, -1), known


def columns_in(
    structures: Structures, kind: str, vocabularies: tuple[Vocabulary, ...] | None
) -> tuple[Int[Array, "rows columns"], tuple[Vocabulary, ...]]:
    """Return the label codes of nodes or arcs, in other vocabularies if wanted: a symbol that these lack is -1."""
    own: tuple[Vocabulary, ...] = getattr(structures, f"{kind}_vocabularies")
    labels: Tensor | None = getattr(structures, f"{kind}_labels")
    count = structures.total_nodes if kind == "node" else structures.total_arcs
    # A copy, for it is written to; torch makes it on several threads.
    codes = np.zeros((count, 0), dtype=np.int64)
    if labels is not None:
        codes = labels.cpu().to(torch.int64, copy=True).numpy()
    if vocabularies is None:
        return codes, own
    if [v.name for v in own] != [v.name for v in vocabularies]:
        raise InputError(
            f"the colours were fitted on the {kind} label columns {[v.name for v in vocabularies]}, and the structures "
            f"have {[v.name for v in own]}; read them with the same features"
        )
    for column, (old, new) in enumerate(zip(own, vocabularies, strict=True)):
        if old != new and len(old):
            codes[:, column] = old.recode_to(new)[codes[:, column]]
    return codes, vocabularies
