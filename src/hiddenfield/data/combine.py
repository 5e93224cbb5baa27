"""Several packs end to end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch

from hiddenfield.data.structures import ARC_ROWS, NODE_ROWS, Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Tensor

__all__ = ["concatenate"]


def concatenate(packs: Sequence[Structures]) -> Structures:
    """Put packs end to end.

    All must carry the same kinds of features, with the same names. Vocabularies may differ: the result has their
    union, the first one's symbols first, and the codes follow.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> both = concatenate([hf.data.from_sequences(["AC"]), hf.data.from_sequences(["GC", "T"])])
    >>> len(both), both.node_vocabularies[0].symbols
    (3, ('A', 'C', 'G', 'T'))
    """
    packs = list(packs)
    if not packs:
        raise InputError("concatenate needs at least one pack, got none")
    first = packs[0]
    if len(packs) == 1:
        return first
    for position, pack in enumerate(packs[1:], start=1):
        _check_same_kind(first, pack, position)
    device = first.device
    packs = [pack.to(device) for pack in packs]
    nodes, arcs = sum(pack.total_nodes for pack in packs), sum(pack.total_arcs for pack in packs)
    dtype = torch.int32 if max(nodes, arcs) < 2**31 else torch.int64
    node_at = np.cumsum([0] + [pack.total_nodes for pack in packs])
    arc_at = np.cumsum([0] + [pack.total_arcs for pack in packs])
    joined: dict[str, Any] = {
        "node_ptr": _bounds([pack.node_ptr for pack in packs], node_at, dtype),
        "in_ptr": _bounds([pack.in_ptr for pack in packs], arc_at, dtype),
        "source": torch.cat(
            [pack.source.to(dtype) + int(at) for pack, at in zip(packs, node_at, strict=False)]
        ),
        "reverse": torch.cat(
            [_shifted(pack.reverse.to(dtype), int(at)) for pack, at in zip(packs, arc_at, strict=False)]
        ),
    }
    for name in ("node", "arc"):
        words = _unions([getattr(pack, f"{name}_vocabularies") for pack in packs])
        joined[f"{name}_vocabularies"] = words
        packs = [pack.recode(**{f"{name}_vocabularies": words}) for pack in packs]
    for prefix in ("", "node_"):
        field = f"{prefix}target_vocabularies"
        words = _unions([getattr(pack, field) for pack in packs])
        joined[field] = words
        packs = [pack.replace(**{f"{prefix}targets": _recode_targets(pack, prefix, words)}) for pack in packs]
    for name in (*NODE_ROWS, *ARC_ROWS, "targets"):
        values = [getattr(pack, name) for pack in packs]
        joined[name] = None if values[0] is None else torch.cat(values)
    if first.ids is not None:
        joined["ids"] = np.concatenate([pack.ids for pack in packs])
    joined["columns"] = {
        name: np.concatenate([pack.columns[name] for pack in packs]) for name in first.columns
    }
    return first.replace(**joined)


def _check_same_kind(first: Structures, other: Structures, position: int) -> None:
    def kinds(pack: Structures) -> dict[str, object]:
        return {
            "node labels": [v.name for v in pack.node_vocabularies],
            "arc labels": [v.name for v in pack.arc_vocabularies],
            "node attributes": list(pack.node_attribute_names),
            "arc attributes": list(pack.arc_attribute_names),
            "targets": list(pack.target_names),
            "classes of targets": [v is not None for v in pack.target_vocabularies],
            "node targets": list(pack.node_target_names),
            "classes of node targets": [v is not None for v in pack.node_target_vocabularies],
            "ids": pack.ids is not None,
            "columns": sorted(pack.columns),
        }

    mine, theirs = kinds(first), kinds(other)
    for what, expected in mine.items():
        if theirs[what] != expected:
            raise InputError(
                f"packs to concatenate must carry the same features: pack 0 has {what} {expected}, pack {position} has "
                f"{theirs[what]}; use replace() to add or drop what differs"
            )


def _bounds(pointers: list[Tensor], offsets: np.ndarray, dtype: torch.dtype) -> Tensor:
    parts = [ptr[:-1].to(dtype) + int(at) for ptr, at in zip(pointers, offsets, strict=False)]
    return torch.cat([*parts, parts[0].new_full((1,), int(offsets[-1]))])


def _shifted(reverse: Tensor, by: int) -> Tensor:
    return torch.where(reverse < 0, reverse, reverse + by)


def _unions(columns: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Unite, column by column, the vocabularies of all packs; None where a column has none."""

    def unite(column: Sequence[Vocabulary | None]) -> Vocabulary | None:
        return None if column[0] is None else reduce(lambda one, other: one.union(other), column)  # type: ignore[union-attr,arg-type,return-value]

    return tuple(unite(column) for column in zip(*columns, strict=True))


def _recode_targets(pack: Structures, prefix: str, words: tuple[Vocabulary | None, ...]) -> Tensor | None:
    """Return the targets with class codes in the united vocabularies; NaN stays."""
    values: Tensor | None = getattr(pack, f"{prefix}targets")
    own: tuple[Vocabulary | None, ...] = getattr(pack, f"{prefix}target_vocabularies")
    if values is None or own == words:
        return values
    values = values.clone()
    for column, (old, new) in enumerate(zip(own, words, strict=True)):
        if old is None or new is None or old == new or not len(old):
            continue
        mapping = torch.from_numpy(old.recode_to(new)).to(values)
        present = ~values[:, column].isnan()
        values[present, column] = mapping[values[present, column].long()]
    return values
