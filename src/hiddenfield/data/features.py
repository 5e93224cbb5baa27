"""Checked columns: labels, attributes, targets, ids. What `from_arcs` accepts becomes what a pack holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Tensor

__all__ = ["ROWS", "as_attributes", "as_columns", "as_ids", "as_labels", "as_targets", "structure_name"]

# Where a structure stood among all that were to be read, if not all could be: a column that a reader adds.
ROWS = "row in file"


def structure_name(position: int, ids: Array | None) -> str:
    """Name a structure in a message: its number and, where there is one, its id."""
    return f"structure {position}" + ("" if ids is None else f" ({str(ids[position])!r})")


def as_labels(
    values: Any, vocabularies: Sequence[Vocabulary | None] | None, rows: int, kind: str
) -> tuple[Tensor | None, tuple[Vocabulary, ...]]:
    """Return codes (rows, columns) and their vocabularies.

    Examples
    --------
    >>> as_labels(["b", "a", "b"], None, 3, "node")
    (tensor([[1],
            [0],
            [1]], dtype=torch.int32), (Vocabulary('label', 2: 'a', 'b'),))
    """
    if values is None:
        if vocabularies:
            raise InputError(f"{kind}_vocabularies were given without {kind}_labels")
        return None, ()
    if vocabularies is not None:
        return _codes(values, tuple(vocabularies), rows, kind)
    names, columns = _columns(values, "label", f"{kind}_labels")
    pairs = [
        Vocabulary.from_values(name, _row_count(column, rows, f"{kind}_labels", kind))
        for name, column in zip(names, columns, strict=True)
    ]
    codes = np.stack([codes for _, codes in pairs], axis=1) if pairs else np.zeros((rows, 0), dtype=np.int32)
    return torch.from_numpy(codes), tuple(vocabulary for vocabulary, _ in pairs)


def _codes(
    values: Any, vocabularies: tuple[Vocabulary | None, ...], rows: int, kind: str
) -> tuple[Tensor, tuple[Vocabulary, ...]]:
    array = _numpy(values, f"{kind}_labels")
    array = array[:, None] if array.ndim == 1 and len(vocabularies) == 1 else array
    if array.ndim != 2 or array.shape != (rows, len(vocabularies)) or array.dtype.kind not in "iu":
        raise InputError(
            f"{kind}_labels with vocabularies must be integer codes of shape ({rows}, {len(vocabularies)}), "
            f"got shape {array.shape} of {array.dtype}"
        )
    known = []
    for column, vocabulary in enumerate(vocabularies):
        if vocabulary is None:
            raise InputError(f"every column of {kind}_labels needs a vocabulary; column {column} has none")
        codes = array[:, column]
        if rows and (codes.min() < 0 or codes.max() >= len(vocabulary)):
            row = int(np.argmax((codes < 0) | (codes >= len(vocabulary))))
            raise InputError(
                f"{kind} {row}: code {codes[row]} is outside vocabulary {vocabulary.name!r} "
                f"(0 to {len(vocabulary) - 1})"
            )
        known.append(vocabulary)
    return torch.from_numpy(np.array(array, dtype=np.int32, order="C")), tuple(known)


def as_attributes(
    values: Any, names: Sequence[str] | None, bounds: Array, kind: str, ids: Array | None
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Return float32 attributes (rows, columns), all finite, and their names; `bounds` are those of the structures."""
    if values is None:
        if names:
            raise InputError(f"{kind}_attribute_names were given without {kind}_attributes")
        return None, ()
    if isinstance(values, Mapping):
        names, values = (
            list(values),
            np.stack([_numpy(v, f"{kind}_attributes") for v in values.values()], axis=1),
        )
    array = _numpy(values, f"{kind}_attributes")
    array = array[:, None] if array.ndim == 1 else array
    rows = int(bounds[-1])
    if array.ndim != 2 or array.shape[0] != rows or array.dtype.kind not in "iufb":
        raise InputError(
            f"{kind}_attributes must be numbers with one row for each of {rows} {kind}s, got shape {array.shape} "
            f"of {array.dtype}"
        )
    with np.errstate(over="ignore"):
        single = np.array(
            array, dtype=np.float32, order="C"
        )  # a copy: the pack must not change with the caller's array
    finite = np.isfinite(single).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        owner = int(np.searchsorted(bounds, row, side="right")) - 1
        column = int(np.argmin(np.isfinite(single[row])))
        raise InputError(
            f"{structure_name(owner, ids)}: attribute {column} of {kind} {row - int(bounds[owner])} is "
            f"{array[row, column]}; attributes must be finite: fill in or remove it first"
        )
    return torch.from_numpy(single), _names(names, array.shape[1], "attribute", f"{kind}_attribute_names")


def as_targets(
    values: Any,
    names: Sequence[str] | None,
    vocabularies: Sequence[Vocabulary | None] | None,
    rows: int,
    kind: str,
    ids: Array | None,
) -> tuple[Tensor | None, tuple[str, ...], tuple[Vocabulary | None, ...]]:
    """Return float64 targets (rows, columns) with NaN for missing, their names, and the classes of each column.

    Examples
    --------
    >>> as_targets(["yes", None, "no"], ["active"], None, 3, "target", None)[0].flatten()
    tensor([1., nan, 0.], dtype=torch.float64)
    """
    if values is None:
        return None, (), ()
    found, columns = _columns(values, kind, f"{kind}s")
    names = _names(names if names is not None else found, len(columns), kind, f"{kind}_names")
    words: Sequence[Vocabulary | None] = vocabularies if vocabularies is not None else [None] * len(columns)
    if len(words) != len(columns):
        raise InputError(
            f"{kind}_vocabularies must have one entry for each of {len(columns)} columns, got {len(words)}"
        )
    results = [
        _target_column(_row_count(column, rows, f"{kind}s", "row"), name, word, ids)
        for column, name, word in zip(columns, names, words, strict=True)
    ]
    matrix = np.stack([numbers for numbers, _ in results], axis=1) if results else np.zeros((rows, 0))
    return torch.from_numpy(np.ascontiguousarray(matrix)), names, tuple(word for _, word in results)


def _target_column(
    column: Any, name: str, words: Vocabulary | None, ids: Array | None
) -> tuple[Array, Vocabulary | None]:
    array = (
        column
        if isinstance(column, np.ndarray) and column.dtype.kind in "iufb"
        else np.asarray(column, dtype=object)
    )
    if array.dtype == object:
        missing = np.array([value is None or value != value for value in array], dtype=bool)
        if words is None and all(isinstance(v, (int, float, np.number, np.bool_)) for v in array[~missing]):
            array = np.where(missing, np.nan, array).astype(np.float64)
        else:
            present = list(array[~missing])
            if words is None:
                words, codes = Vocabulary.from_values(name, present)
            else:
                codes = words.encode(present)
            numbers = np.full(len(array), np.nan)
            numbers[~missing] = codes
            return numbers, words
    numbers = array.astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(
            f"{structure_name(row, ids)}: target {name!r} is {numbers[row]}; it must be finite, or NaN if missing"
        )
    if words is not None:
        wrong = ~np.isnan(numbers) & (
            (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= len(words))
        )
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{structure_name(row, ids)}: target {name!r} is {numbers[row]}, which is no code of its "
                f"{len(words)} classes (0 to {len(words) - 1})"
            )
    return numbers, words


def as_ids(ids: Any, count: int) -> Array | None:
    """Return N strings as a numpy array of variable-width text, or None."""
    if ids is None:
        return None
    # Not through numpy's fixed-width text, which drops a NUL at the end.
    texts = (
        ids
        if isinstance(ids, np.ndarray)
        else np.array([str(value) for value in ids], np.dtypes.StringDType())
    )
    texts = texts.astype(np.dtypes.StringDType())
    if texts.ndim != 1 or len(texts) != count:
        raise InputError(f"ids must hold one text for each of {count} structures, got shape {texts.shape}")
    return texts


def as_columns(columns: Mapping[str, Any] | None, count: int) -> dict[str, Array]:
    """Return further columns as numpy arrays of length N."""
    checked: dict[str, Array] = {}
    for name, values in (columns or {}).items():
        texts = (
            isinstance(values, (list, tuple))
            and bool(values)
            and all(isinstance(value, str) for value in values)
        )
        array = np.array(values, np.dtypes.StringDType()) if texts else np.asarray(values)
        array = array.astype(np.dtypes.StringDType()) if array.dtype.kind == "U" else array
        if array.ndim != 1 or len(array) != count or array.dtype.kind not in "iufbT":
            raise InputError(
                f"column {name!r} must hold one number or text for each of {count} structures, "
                f"got shape {array.shape} of {array.dtype}"
            )
        checked[str(name)] = array.copy()
    return checked


def _columns(values: Any, default: str, name: str) -> tuple[list[str], list[Any]]:
    """Split what a caller gives for several columns into names and columns."""
    if isinstance(values, Mapping):
        return [str(key) for key in values], list(values.values())
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.ndim == 2:
        columns = list(values.T)
        return [default] if len(columns) == 1 else [f"{default}_{k}" for k in range(len(columns))], columns
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InputError(f"{name} must have one or two axes, got shape {values.shape}")
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise InputError(
            f"{name} must be an array, a list or a mapping from names to them, got {values!r}"[:300]
        )
    if (
        len(values)
        and not isinstance(values, np.ndarray)
        and isinstance(values[0], (list, tuple, np.ndarray))
    ):
        widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else -1 for row in values}
        if len(widths) != 1:
            raise InputError(f"the rows of {name} must be equally long, got lengths {sorted(widths)[:5]}")
        width = widths.pop()
        names = [default] if width == 1 else [f"{default}_{k}" for k in range(width)]
        return names, [[row[k] for row in values] for k in range(width)]
    return [default], [values]


def _row_count(column: Any, rows: int, name: str, unit: str) -> Any:
    if len(column) != rows:
        raise InputError(f"{name} must have one entry for each of {rows} {unit}s, got {len(column)}")
    return column


def _names(names: Sequence[str] | None, width: int, default: str, name: str) -> tuple[str, ...]:
    if names is None:
        return (default,) if width == 1 else tuple(f"{default}_{k}" for k in range(width))
    if len(names) != width or len(set(names)) != width:
        raise InputError(f"{name} must be {width} distinct names, got {list(names)!r}"[:300])
    return tuple(str(entry) for entry in names)


def _numpy(values: Any, name: str) -> Array:
    if isinstance(values, torch.Tensor):
        return np.asarray(values.detach().cpu().numpy())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} must be an array: {error}") from None
