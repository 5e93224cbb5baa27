"""Label columns as a whole: joining several into one, moving to other vocabularies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, UnknownSymbolError
from hiddenfield.shapes import Tensor

if TYPE_CHECKING:
    from hiddenfield.data.structures import Structures

__all__ = ["distinct_rows", "join_columns", "recode_columns"]


def distinct_rows(labels: Tensor, vocabularies: tuple[Vocabulary, ...]) -> tuple[Tensor, Tensor]:
    """Return the distinct combinations of the label columns, sorted, and for each row the number of its own.

    The columns are read as digits of one number, so that one sort of integers does it.
    """
    number = torch.zeros(labels.shape[0], dtype=torch.int64, device=labels.device)
    size = 1
    for column, vocabulary in enumerate(vocabularies):
        base = max(len(vocabulary), 1)
        if size * base >= 2**62:
            number = torch.unique(number, return_inverse=True)[1]
            size = int(number.max()) + 1 if len(number) else 1
        number = number * base + labels[:, column]
        size *= base
    found, inverse = torch.unique(number, return_inverse=True)
    first = torch.full((len(found),), len(number), dtype=torch.int64, device=labels.device)
    first.scatter_reduce_(0, inverse, torch.arange(len(number), device=labels.device), "amin")
    return labels[first], inverse


def join_columns(
    labels: Tensor | None, vocabularies: tuple[Vocabulary, ...]
) -> tuple[Tensor | None, tuple[Vocabulary, ...]]:
    """Join several label columns into one whose symbols are the combinations that occur."""
    if labels is None or len(vocabularies) == 1:
        return labels, vocabularies
    rows, inverse = distinct_rows(labels, vocabularies)
    words = [
        [str(symbol) for symbol in v.decode(rows[:, k].cpu().numpy())] for k, v in enumerate(vocabularies)
    ]
    symbols = tuple("|".join(parts) for parts in zip(*words, strict=True))
    name = "|".join(vocabulary.name for vocabulary in vocabularies)
    return inverse.to(torch.int32)[:, None], (Vocabulary(name, symbols),)


def recode_columns(
    structures: Structures, kind: Literal["node", "arc"], vocabularies: tuple[Vocabulary, ...]
) -> Tensor | None:
    """Return the label codes in other vocabularies of the same names."""
    labels: Tensor | None = getattr(structures, f"{kind}_labels")
    own: tuple[Vocabulary, ...] = getattr(structures, f"{kind}_vocabularies")
    if [v.name for v in own] != [v.name for v in vocabularies]:
        raise InputError(
            f"expected the {kind} label columns {[v.name for v in vocabularies]}, but the structures have "
            f"{[v.name for v in own]}; read them with the same features"
        )
    if labels is None:
        return None
    result = labels.clone()
    for column, (old, new) in enumerate(zip(own, vocabularies, strict=True)):
        if old == new:
            continue
        mapping = torch.from_numpy(old.recode_to(new)).to(labels.device)
        result[:, column] = mapping[labels[:, column].long()] if len(old) else labels[:, column]
        missing = torch.nonzero(result[:, column] < 0)
        if len(missing):
            raise _unknown(structures, kind, old, new, int(labels[missing[0], column]), int(missing[0]))
    return result


def _unknown(
    structures: Structures, kind: str, old: Vocabulary, new: Vocabulary, code: int, row: int
) -> UnknownSymbolError:
    bounds = structures.node_ptr if kind == "node" else structures.arc_ptr
    owner = int(np.searchsorted(bounds.cpu().numpy(), row, side="right")) - 1
    return UnknownSymbolError(
        f"{structures.name_of(owner)}: {old.name} {old.symbols[code]!r} of {kind} {row - int(bounds[owner])} is not "
        f"among the {len(new)} known symbols; leave the structure out, or fit on data that has this symbol"
    )
