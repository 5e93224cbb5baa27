"""Several packs end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hiddenfield.data.columns import Columns
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.errors import InputError
from hiddenfield.shapes import Tensor


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
    packs = [pack.to(first.device) for pack in packs]
    node_at = np.cumsum([0] + [pack.total_nodes for pack in packs]).tolist()
    arc_at = np.cumsum([0] + [pack.total_arcs for pack in packs]).tolist()
    dtype = torch.int32 if max(node_at[-1], arc_at[-1]) < 2**31 else torch.int64

    def shifted(name: str, offsets: list[int]) -> Tensor:
        parts = [getattr(pack, name).to(dtype) for pack in packs]
        return torch.cat([torch.where(p < 0, p, p + at) for p, at in zip(parts, offsets, strict=False)])

    def bounds(name: str, offsets: list[int]) -> Tensor:
        parts = [getattr(pack, name)[:-1].to(dtype) + at for pack, at in zip(packs, offsets, strict=False)]
        return torch.cat([*parts, parts[0].new_full((1,), offsets[-1])])

    return Structures(
        node_ptr=bounds("node_ptr", node_at),
        in_ptr=bounds("in_ptr", arc_at),
        source=shifted("source", node_at),
        reverse=shifted("reverse", arc_at),
        features={
            name: Columns.concatenate([pack.features[name] for pack in packs]) for name in first.features
        },
        ids=None if first.ids is None else np.concatenate([pack.ids for pack in packs]),
        columns={name: np.concatenate([pack.columns[name] for pack in packs]) for name in first.columns},
    )


def _check_same_kind(first: Structures, other: Structures, position: int) -> None:
    def kinds(pack: Structures) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in FEATURES:
            columns, what = pack.features.get(name), name.replace("_", " ")
            found[what] = "none" if columns is None else list(columns.names)
            if name.endswith("targets"):
                words = () if columns is None else columns.vocabularies
                found[f"classes of {what}"] = [word is not None for word in words]
        return found | {"ids": pack.ids is not None, "columns": sorted(pack.columns)}

    mine, theirs = kinds(first), kinds(other)
    for what, expected in mine.items():
        if theirs[what] != expected:
            raise InputError(
                f"packs to concatenate must carry the same features: pack 0 has {what} {expected}, pack {position} has "
                f"{theirs[what]}; use replace() to add or drop what differs"
            )
