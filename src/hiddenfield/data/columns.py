"""Columns: named columns of labels, attributes or targets, and the checks that turn a caller's data into them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

import numpy as np
import torch

from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Int, Shaped, Tensor

# Where a structure stood among all that were to be read, if not all could be: a column that a reader adds.
ROWS = "row in file"

Vocabularies = Sequence[Vocabulary | None]


def chosen_names(wanted: Sequence[Any], known: Sequence[str], beside: Collection[str] = ()) -> list[Any]:
    """Return the names that were asked for: names, lists with commas, and patterns with ``*``, ``?`` or ``[``.

    What is no name, no list of names and no pattern that fits one is returned as it is, for the caller to refuse.

    Parameters
    ----------
    wanted
        Names, lists, patterns, positions.
    known
        All names.
    beside
        Those that no pattern is meant to find.

    Examples
    --------
    >>> chosen_names(["logP", "NR-*", 0], ["smiles", "logP", "NR-AR", "NR-ER"])
    ['logP', 'NR-AR', 'NR-ER', 0]
    >>> chosen_names(["a,b", "c,d"], ["a", "b", "c,d"])
    ['a', 'b', 'c,d']
    """
    found: list[Any] = []
    for name in wanted:
        single = not isinstance(name, str) or name in known
        for part in [name] if single else [part.strip() for part in name.split(",")]:
            if single or part in known or not set(part) & set("*?["):
                found.append(part)
                continue
            fitting = [entry for entry in known if fnmatchcase(entry, part) and entry not in beside]
            found += [entry for entry in fitting or [part] if entry not in found]
    return found


@dataclass(frozen=True, eq=False)
class Columns:
    """Named columns of one kind, one row per node, arc or structure.

    Labels are int32 codes, and every column has a vocabulary. Attributes are finite float32 without vocabularies.
    Targets are float64 with NaN where missing; a column with a vocabulary holds class codes, any other holds numbers.

    Examples
    --------
    >>> columns = Columns.labels([Vocabulary.from_values("base", ["G", "A", "G"])])
    >>> columns.values.flatten().tolist(), columns.names, columns.decoded()
    ([1, 0, 1], ('base',), [['G', 'A', 'G']])
    """

    values: Shaped[Tensor, "rows columns"]
    names: tuple[str, ...]
    vocabularies: tuple[Vocabulary | None, ...]

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.vocabularies) == self.values.shape[1]:
            raise InputError(
                f"{self.values.shape[1]} columns need as many names and vocabularies, got {len(self.names)} and "
                f"{len(self.vocabularies)}"
            )

    @classmethod
    def labels(cls, coded: Sequence[tuple[Vocabulary, Array]], rows: int = 0) -> Columns:
        """Return labels from a vocabulary and codes for each column; `rows` is needed where there is no column."""
        codes = [codes for _, codes in coded]
        matrix = (np.stack(codes, axis=1) if codes else np.zeros((rows, 0))).astype(np.int32, copy=False)
        words = tuple(vocabulary for vocabulary, _ in coded)
        return cls(torch.from_numpy(matrix), tuple(word.name for word in words), words)

    @classmethod
    def targets(cls, columns: Mapping[str, tuple[Array, Vocabulary | None]], rows: int = 0) -> Columns:
        """Return targets from a name, numbers or codes, and a vocabulary or None for each column."""
        parts = [np.asarray(values, dtype=np.float64) for values, _ in columns.values()]
        matrix = np.stack(parts, axis=1) if parts else np.zeros((rows, 0))
        words = tuple(word for _, word in columns.values())
        return cls(torch.from_numpy(np.ascontiguousarray(matrix)), tuple(columns), words)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.values.shape[0]

    def map(self, function: Callable[[Tensor], Tensor]) -> Columns:
        """Return the columns with other rows, or on another device: `function` of the values."""
        return Columns(function(self.values), self.names, self.vocabularies)

    def take(self, rows: Int[Array, " chosen"]) -> Columns:
        """Return the rows of the given numbers, in that order."""
        return self.map(lambda values: values[torch.from_numpy(rows).to(values.device)])

    def recoded(self, vocabularies: Vocabularies) -> Columns:
        """Return the codes in other vocabularies, -1 for a symbol that the new one lacks; NaN stays."""
        new = tuple(vocabularies)
        if new == self.vocabularies:
            return self
        values = self.values.clone()
        for column, (old, other) in enumerate(zip(self.vocabularies, new, strict=True)):
            if old is None or other is None or old == other or not len(old):
                continue
            mapping = torch.from_numpy(old.recode_to(other)).to(values)
            present = ~values[:, column].isnan()
            values[present, column] = mapping[values[present, column].long()]
        return Columns(values, self.names, new)

    def distinct(self) -> tuple[Tensor, Tensor]:
        """Return the distinct rows of labels, sorted, and for each row the number of its own."""
        return distinct_rows(self.values, [len(vocabulary or ()) for vocabulary in self.vocabularies])

    def joined(self) -> Columns:
        """Return the labels as one column whose symbols are the combinations that occur, with ``|`` in between."""
        if len(self.names) == 1:
            return self
        rows, inverse = self.distinct()
        words = [map(str, column) for column in self.map(lambda _: rows).decoded()]
        vocabulary = Vocabulary(
            "|".join(self.names), tuple("|".join(parts) for parts in zip(*words, strict=True))
        )
        return Columns(inverse.to(torch.int32)[:, None], (vocabulary.name,), (vocabulary,))

    def decoded(self) -> list[list[Any]]:
        """Return every column as a list of symbols or numbers, with None where a value is missing."""
        columns: list[list[Any]] = []
        for values, vocabulary in zip(self.values.cpu().numpy().T, self.vocabularies, strict=True):
            missing = np.isnan(values)
            if vocabulary is None:
                plain: list[Any] = values.tolist()
            else:
                plain = [None] * len(values)
                if not missing.all():
                    plain = vocabulary.decode(np.where(missing, 0, values).astype(np.int64))
            if missing.any():
                plain = [None if absent else value for absent, value in zip(missing, plain, strict=True)]
            columns.append(plain)
        return columns

    @staticmethod
    def concatenate(parts: Sequence[Columns]) -> Columns:
        """Put columns of the same names end to end, in the union of their vocabularies, the first one's first."""
        words = tuple(union(column) for column in zip(*(part.vocabularies for part in parts), strict=True))
        return Columns(torch.cat([part.recoded(words).values for part in parts]), parts[0].names, words)

    def __eq__(self, other: object) -> bool:
        """Compare everything, whatever the device; missing values equal each other."""
        if not isinstance(other, Columns):
            return NotImplemented
        named = (self.names, self.vocabularies) == (other.names, other.vocabularies)
        return named and same_values(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


def distinct_rows(
    labels: Int[Tensor, "rows columns"], sizes: Sequence[int]
) -> tuple[Int[Tensor, "distinct columns"], Int[Tensor, " rows"]]:
    """Return the distinct rows of codes, sorted, and for each row the number of its own.

    The columns are read as digits of one number. Where few such numbers are possible, those that occur are marked in a
    table of all; else one sort of integers finds them.

    Parameters
    ----------
    labels, sizes
        Codes from 0 up, and how many there may be in each column.

    Examples
    --------
    >>> distinct_rows(torch.tensor([[1, 0], [0, 1], [1, 0]]), [2, 2])
    (tensor([[0, 1],
            [1, 0]]), tensor([1, 0, 1]))
    """
    number = torch.zeros(len(labels), dtype=torch.int64, device=labels.device)
    size = 1
    for column, base in enumerate(max(size, 1) for size in sizes):
        if size * base >= 2**62:
            number = torch.unique(number, return_inverse=True)[1]
            size = int(number.max()) + 1 if len(number) else 1
        number = number * base + labels[:, column]
        size *= base
    if size <= len(number):
        occurs = torch.zeros(size, dtype=torch.bool, device=labels.device)
        occurs[number] = True
        count, inverse = int(occurs.sum()), (occurs.cumsum(0) - 1)[number]
    else:
        found, inverse = torch.unique(number, return_inverse=True)
        count = len(found)
    rows = labels.new_empty((count, labels.shape[1]))
    rows[inverse] = labels  # equal rows overwrite each other
    return rows, inverse


def union(words: Vocabularies) -> Vocabulary | None:
    """Unite the vocabularies of one column in several packs, the first one's symbols first; None if it has none."""
    first = words[0]
    if first is None:
        return None
    # Almost always all are equal, and one comparison is cheaper than a union.
    others = [word for word in words[1:] if word is not None and word != first]
    return reduce(Vocabulary.union, others, first)


def same_values(left: Any, right: Any) -> bool:
    """Compare arrays or tensors, whatever the device; NaN equals NaN."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        left, right = left.cpu().numpy(), right.cpu().numpy()
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        floats = left.dtype.kind == "f" and right.dtype.kind == "f"
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=floats))
    return left is None and right is None


# -- checking what callers give ----------------------------------------------------------------------------


def structure_name(position: int, ids: Array | None) -> str:
    """Name a structure in a message: its number and, where there is one, its id."""
    return f"structure {position}" + ("" if ids is None else f" ({str(ids[position])!r})")


def structure_error(reason: str, structure: int, ids: Array | None = None) -> InputError:
    """Return the error about one structure of a pack; a reader that has another name for it can say that instead."""
    error = InputError(f"{structure_name(structure, ids)}: {reason}")
    error.reason, error.structure = reason, structure
    return error


# Of a row: what makes the error of its structure, and the name of its node or arc within that.
Placer = Callable[[int], tuple[Callable[[str], InputError], str]]


def as_labels(values: Any, vocabularies: Vocabularies | None, rows: int, kind: str) -> Columns | None:
    """Return labels: from `Columns`, from codes where vocabularies are given, or else from the symbols themselves.

    Examples
    --------
    >>> as_labels(["b", "a", "b"], None, 3, "node").values.flatten()
    tensor([1, 0, 1], dtype=torch.int32)
    """
    what = f"{kind}_labels"
    if values is None:
        if vocabularies:
            raise InputError(f"{kind}_vocabularies were given without {what}")
        return None
    if isinstance(values, Columns):
        return _checked_rows(values, rows, what, kind)
    if vocabularies is not None:
        return _codes(values, tuple(vocabularies), rows, kind)
    names, columns = _split(values, "label", what)
    coded = [
        Vocabulary.from_values(name, _checked_rows(column, rows, what, kind))
        for name, column in zip(names, columns, strict=True)
    ]
    return Columns.labels(coded, rows)


def _codes(values: Any, vocabularies: tuple[Vocabulary | None, ...], rows: int, kind: str) -> Columns:
    array = as_array(values, f"{kind}_labels")
    array = array[:, None] if array.ndim == 1 and len(vocabularies) == 1 else array
    if array.ndim != 2 or array.shape != (rows, len(vocabularies)) or array.dtype.kind not in "iu":
        raise InputError(
            f"{kind}_labels with vocabularies must be integer codes of shape ({rows}, {len(vocabularies)}), "
            f"got shape {array.shape} of {array.dtype}"
        )
    coded = []
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
        coded.append((vocabulary, codes))
    return Columns.labels(coded, rows)


def as_attributes(
    values: Any, names: Sequence[str] | None, rows: int, kind: str, place: Placer
) -> Columns | None:
    """Return float32 attributes, all finite; `place` gives the error of a row, and names its node or arc."""
    what = f"{kind}_attributes"
    if values is None:
        if names:
            raise InputError(f"{kind}_attribute_names were given without {what}")
        return None
    if isinstance(values, Columns):
        return _checked_rows(values, rows, what, kind)
    if isinstance(values, Mapping):
        names, values = list(values), np.stack([as_array(v, what) for v in values.values()], axis=1)
    array = as_array(values, what)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[0] != rows or array.dtype.kind not in "iufb":
        raise InputError(
            f"{what} must be numbers with one row for each of {rows} {kind}s, got shape {array.shape} of {array.dtype}"
        )
    with np.errstate(over="ignore"):
        # A copy: the pack must not change with the caller's array.
        single = np.array(array, dtype=np.float32, order="C")
    finite = np.isfinite(single).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(single[row])))
        error, member = place(row)
        raise error(
            f"attribute {column} of {member} is {array[row, column]}; attributes must be finite: fill in "
            "or remove it first"
        )
    named = _names(names, array.shape[1], "attribute", f"{kind}_attribute_names")
    return Columns(torch.from_numpy(single), named, (None,) * len(named))


def as_targets(
    values: Any,
    names: Sequence[str] | None,
    vocabularies: Vocabularies | None,
    rows: int,
    kind: str,
    ids: Array | None,
) -> Columns | None:
    """Return float64 targets, NaN where missing, from numbers, class symbols or, with vocabularies, class codes.

    Examples
    --------
    >>> as_targets(["yes", None, "no"], ["active"], None, 3, "target", None).values.flatten()
    tensor([1., nan, 0.], dtype=torch.float64)
    """
    if values is None:
        return None
    if isinstance(values, Columns):
        return _checked_rows(values, rows, f"{kind}s", "row")
    found, columns = _split(values, kind, f"{kind}s")
    names = _names(found if names is None else names, len(columns), kind, f"{kind}_names")
    words = vocabularies if vocabularies is not None else [None] * len(columns)
    if len(words) != len(columns):
        raise InputError(
            f"{kind}_vocabularies must have one entry for each of {len(columns)} columns, got {len(words)}"
        )
    results = {
        name: _target(_checked_rows(column, rows, f"{kind}s", "row"), name, word, ids)
        for column, name, word in zip(columns, names, words, strict=True)
    }
    return Columns.targets(results, rows)


def _target(
    column: Any, name: str, words: Vocabulary | None, ids: Array | None
) -> tuple[Array, Vocabulary | None]:
    plain = isinstance(column, np.ndarray) and column.dtype.kind in "iufb"
    array = column if plain else np.asarray(column, dtype=object)
    if array.dtype == object:
        missing = np.array([value is None or value != value for value in array], dtype=bool)
        present = list(array[~missing])
        if words is not None or not all(isinstance(v, (int, float, np.number, np.bool_)) for v in present):
            numbers = np.full(len(array), np.nan)
            if words is None:
                words, numbers[~missing] = Vocabulary.from_values(name, present)
            else:
                numbers[~missing] = words.encode(present)
            return numbers, words
        array = np.where(missing, np.nan, array)
    numbers = array.astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(
            f"{structure_name(row, ids)}: target {name!r} is {numbers[row]}; it must be finite, or NaN if missing"
        )
    if words is not None:
        odd = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= len(words))
        wrong = ~np.isnan(numbers) & odd
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
    texts = ids if isinstance(ids, np.ndarray) else np.array([str(i) for i in ids], np.dtypes.StringDType())
    texts = texts.astype(np.dtypes.StringDType())
    if texts.ndim != 1 or len(texts) != count:
        raise InputError(f"ids must hold one text for each of {count} structures, got shape {texts.shape}")
    return texts


def as_extra(columns: Mapping[str, Any] | None, count: int) -> dict[str, Array]:
    """Return further columns, which merely travel along, as numpy arrays of length N."""
    checked: dict[str, Array] = {}
    for name, values in (columns or {}).items():
        texts = isinstance(values, (list, tuple)) and values and all(isinstance(v, str) for v in values)
        array = np.array(values, np.dtypes.StringDType()) if texts else np.asarray(values)
        array = array.astype(np.dtypes.StringDType()) if array.dtype.kind == "U" else array
        if array.ndim != 1 or len(array) != count or array.dtype.kind not in "iufbT":
            raise InputError(
                f"column {name!r} must hold one number or text for each of {count} structures, "
                f"got shape {array.shape} of {array.dtype}"
            )
        checked[str(name)] = array.copy()
    return checked


def _split(values: Any, default: str, name: str) -> tuple[list[str], list[Any]]:
    """Split what a caller gives for several columns into names and columns."""
    if isinstance(values, Mapping):
        return [str(key) for key in values], list(values.values())
    values = as_array(values, name) if isinstance(values, Tensor) else values
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise InputError(
            f"{name} must be an array, a list or a mapping from names to them, got {values!r}"[:300]
        )
    if isinstance(values, np.ndarray):
        if values.ndim not in (1, 2):
            raise InputError(f"{name} must have one or two axes, got shape {values.shape}")
        columns: list[Any] = [values] if values.ndim == 1 else list(values.T)
    elif len(values) and isinstance(values[0], (list, tuple, np.ndarray)):
        widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else -1 for row in values}
        if len(widths) != 1:
            raise InputError(f"the rows of {name} must be equally long, got lengths {sorted(widths)[:5]}")
        columns = [[row[k] for row in values] for k in range(widths.pop())]
    else:
        columns = [values]
    return list(numbered(default, len(columns))), columns


def _checked_rows(column: Any, rows: int, name: str, unit: str) -> Any:
    if len(column) != rows:
        raise InputError(f"{name} must have one entry for each of {rows} {unit}s, got {len(column)}")
    return column


def _names(names: Sequence[str] | None, width: int, default: str, name: str) -> tuple[str, ...]:
    if names is None:
        return numbered(default, width)
    if len(names) != width or len(set(names)) != width:
        raise InputError(f"{name} must be {width} distinct names, got {list(names)!r}"[:300])
    return tuple(str(entry) for entry in names)


def numbered(name: str, width: int) -> tuple[str, ...]:
    """Return names for columns that came without any: the name itself for one, with 0, 1, ... behind it for more."""
    return (name,) if width == 1 else tuple(f"{name}_{k}" for k in range(width))


def as_array(values: Any, name: str) -> Array:
    """Return an array in host memory."""
    if isinstance(values, Tensor):
        return np.asarray(values.detach().cpu().numpy())
    try:
        return np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} must be an array: {error}") from None
