"""Rows given structure by structure, laid end to end: how converters take labels, attributes and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from hiddenfield.data.features import structure_name
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Int

__all__ = ["end_to_end", "integer_rows", "row_counts"]


def end_to_end(values: Any, sizes: Int[Array, " structures"], name: str, unit: str, ids: Array | None) -> Any:
    """Lay one sequence of rows a structure end to end; a mapping is treated column by column, None stays.

    Examples
    --------
    >>> end_to_end([["a", "b"], ["c"]], np.array([2, 1]), "node_labels", "node", None)
    ['a', 'b', 'c']
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {
            key: end_to_end(column, sizes, f"{name}[{key!r}]", unit, ids) for key, column in values.items()
        }
    counts = row_counts(values, name, len(sizes))
    wrong = np.flatnonzero(counts != sizes)
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"{structure_name(at, ids)}: {name} must have one row for each of {sizes[at]} {unit}s, got {counts[at]}"
        )
    parts = [part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else part for part in values]
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        # An empty structure's array may have any width and type: only the others decide.
        filled = [part for part in parts if len(part)] or parts[:1]
        if len({part.shape[1:] for part in filled}) > 1:
            raise InputError(
                f"{name} must have equally many columns everywhere, got {sorted({p.shape[1:] for p in filled})}"
            )
        return np.concatenate(filled)
    return list(
        chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in parts)
    )


def row_counts(values: Any, name: str, count: int | None = None) -> Int[Array, " structures"]:
    """Return how many rows each structure's part has; refuse what is not one sequence a structure."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(
        values, (Sequence, np.ndarray, torch.Tensor)
    ):
        raise InputError(f"{name} must be a list with one entry a structure, got {values!r:.200}")
    if count is not None and len(values) != count:
        raise InputError(f"{name} must have one entry for each of {count} structures, got {len(values)}")
    for at, part in enumerate(values):
        if isinstance(part, (str, bytes)) or not hasattr(part, "__len__") or getattr(part, "ndim", 1) == 0:
            raise InputError(
                f"structure {at}: {name} must hold one sequence of rows a structure, got {part!r:.200}; "
                "a single structure is a list of one"
            )
    return np.array([len(part) for part in values], dtype=np.int64)


def integer_rows(values: Any, name: str, width: int | None) -> tuple[Array, Int[Array, " structures"]]:
    """Lay integers end to end as one int64 array, (rows,) or (rows, width), with the number of rows of each part."""
    counts = row_counts(values, name)
    shape = (0,) if width is None else (0, width)
    parts = []
    for at, part in enumerate(values):
        if not len(part):
            continue
        part = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else part
        try:
            array = np.asarray(part)
        except (ValueError, OverflowError):
            array = np.asarray(None)
        if array.dtype.kind not in "iu" or array.shape[1:] != shape[1:]:
            raise InputError(
                f"structure {at}: {name} must hold {_expected(width)}, got {_first_odd(part, width)}"
            )
        parts.append(array)
    flat = np.concatenate(parts) if parts else np.zeros(shape, dtype=np.int64)
    if flat.dtype == np.uint64 or flat.dtype.kind not in "iu":
        flat = _narrowed(flat, parts, name)
    return flat.astype(np.int64, copy=False), counts


def _narrowed(flat: Array, parts: list[Array], name: str) -> Array:
    """Numpy mixes signed with 64-bit unsigned integers into floats: convert before joining instead."""
    for part in parts:
        if part.dtype.kind == "u" and part.size and part.max() > np.iinfo(np.int64).max:
            raise InputError(f"{name} must fit 64-bit signed integers, got {part.max()}")
    return np.concatenate([part.astype(np.int64) for part in parts])


def _expected(width: int | None) -> str:
    return "integers" if width is None else f"pairs of integers (rows of {width})"


def _first_odd(part: Any, width: int | None) -> str:
    """Say which row of a part is not as expected."""
    for row, entry in enumerate(part):
        array = np.asarray(entry, dtype=object)
        cells = array.reshape(-1).tolist()
        whole = all(isinstance(cell, (int, np.integer)) and not isinstance(cell, bool) for cell in cells)
        if not whole or array.shape != (() if width is None else (width,)):
            return f"{entry!r:.100} as entry {row}"
    return f"{type(part).__name__} of {getattr(part, 'dtype', 'mixed types')}"
