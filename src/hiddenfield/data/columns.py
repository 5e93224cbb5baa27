"""Columns: named columns of labels, attributes or targets, and the checks that turn a caller's data into them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

import numpy as np
import torch

from hiddenfield.data.arrow_arrays import is_text, to_numpy
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Float, Int, Shaped, Tensor

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


Refuse = Callable[[str, int], InputError]
"""Makes the error of a message and a row, which names the row."""


def refuse_row(reason: str, row: int) -> InputError:
    """Return the error about a row that has no other name than its number."""
    return InputError(f"row {row}: {reason}")


@dataclass(frozen=True)
class Unit:
    """The nodes, arcs, edges or structures that columns are of: their kind, how many there are, and how one is named.

    `place` gives for a row what makes the error of its structure, and the name of the node or arc within that.
    """

    kind: str
    count: int
    place: Callable[[int], tuple[Callable[[str], InputError], str]]

    @classmethod
    def of_structures(cls, count: int, ids: Array | None) -> Unit:
        """Return the structures of a pack."""
        return cls("structure", count, lambda row: (lambda reason: structure_error(reason, row, ids), ""))

    def checked(self, column: Any, name: str) -> Any:
        """Return a column of as many entries as there are rows."""
        if len(column) != self.count:
            raise InputError(
                f"{name} must have one entry for each of {self.count} {self.kind}s, got {len(column)}"
            )
        return column

    def refuse(self, row: int, what: str, reason: str) -> InputError:
        """Return the error about what a row has."""
        error, member = self.place(row)
        return error(f"{what}{' of ' * bool(member)}{member} {reason}")


def as_labels(values: Any, vocabularies: Vocabularies | None, unit: Unit) -> Columns | None:
    """Return labels: from `Columns`, from codes where vocabularies are given, or else from the symbols themselves.

    Examples
    --------
    >>> as_labels(["b", "a", "b"], None, Unit.of_structures(3, None)).values.flatten()
    tensor([1, 0, 1], dtype=torch.int32)
    """
    what = f"{unit.kind}_labels"
    if values is None:
        if vocabularies:
            raise InputError(f"{unit.kind}_vocabularies were given without {what}")
        return None
    if isinstance(values, Columns):
        return unit.checked(values, what)
    if vocabularies is not None:
        return _codes(values, tuple(vocabularies), unit)
    columns = zip(*_split(values, "label", what), strict=True)
    found = [Vocabulary.from_values(name, unit.checked(column, what)) for name, column in columns]
    return Columns.labels(found, unit.count)


def _codes(values: Any, vocabularies: tuple[Vocabulary | None, ...], unit: Unit) -> Columns:
    what, shape = f"{unit.kind}_labels", (unit.count, len(vocabularies))
    array = as_array(values, what)
    array = array[:, None] if array.ndim == 1 and len(vocabularies) == 1 else array
    if array.shape != shape or array.dtype.kind not in "iu":
        raise InputError(
            f"{what} with vocabularies must be integer codes of shape {shape}, "
            f"got shape {array.shape} of {array.dtype}"
        )
    found = []
    for column, (vocabulary, codes) in enumerate(zip(vocabularies, array.T, strict=True)):
        if vocabulary is None:
            raise InputError(f"every column of {what} needs a vocabulary; column {column} has none")
        _check_codes(codes, vocabulary, "label", unit)
        found.append((vocabulary, codes))
    return Columns.labels(found, unit.count)


def _check_codes(codes: Array, vocabulary: Vocabulary, what: str, unit: Unit) -> None:
    """Refuse what is neither a code of the vocabulary nor NaN."""
    if len(codes) and (codes.dtype.kind == "f" or codes.min() < 0 or codes.max() >= len(vocabulary)):
        wrong = (codes < 0) | (codes >= len(vocabulary)) | (codes % 1 > 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            reason = f"is {codes[row]}, which is not one of its {len(vocabulary)} codes (0 to {len(vocabulary) - 1})"
            raise unit.refuse(row, f"{what} {vocabulary.name!r}", reason)


def as_attributes(values: Any, names: Sequence[str] | None, unit: Unit) -> Columns | None:
    """Return float32 attributes, all finite."""
    what = f"{unit.kind}_attributes"
    if values is None:
        if names:
            raise InputError(f"{unit.kind}_attribute_names were given without {what}")
        return None
    if isinstance(values, Columns):
        return unit.checked(values, what)
    if isinstance(values, Mapping):
        names, values = list(values), np.stack([as_array(v, what) for v in values.values()], axis=1)
    array = as_array(values, what)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[0] != unit.count or array.dtype.kind not in "iufb":
        raise InputError(
            f"{what} must be numbers with one row for each of {unit.count} {unit.kind}s, got shape {array.shape} of "
            f"{array.dtype}"
        )
    named = _names(names, array.shape[1], "attribute", f"{unit.kind}_attribute_names")
    with np.errstate(over="ignore"):
        # A copy: the pack must not change with the caller's array.
        single = np.array(array, dtype=np.float32, order="C")
    finite = np.isfinite(single).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(single[row])))
        which = f"attribute {column if names is None else repr(named[column])}"
        reason = "attributes must be finite in single precision: fill in or remove it first"
        raise unit.refuse(row, which, f"is {array[row, column]}; {reason}")
    return Columns(torch.from_numpy(single), named, (None,) * len(named))


def as_targets(
    values: Any, names: Sequence[str] | None, vocabularies: Vocabularies | None, unit: Unit
) -> Columns | None:
    """Return float64 targets, NaN where missing, from numbers, class symbols or, with vocabularies, class codes.

    Examples
    --------
    >>> as_targets(["yes", None, "no"], ["active"], None, Unit.of_structures(3, None)).values.flatten()
    tensor([1., nan, 0.], dtype=torch.float64)
    """
    kind = "target" if unit.kind == "structure" else f"{unit.kind}_target"
    if values is None:
        return None
    if isinstance(values, Columns):
        return unit.checked(values, f"{kind}s")
    found, columns = _split(values, kind, f"{kind}s")
    names = _names(found if names is None else names, len(columns), kind, f"{kind}_names")
    words = vocabularies if vocabularies is not None else [None] * len(columns)
    if len(words) != len(columns):
        raise InputError(
            f"{kind}_vocabularies must have one entry for each of {len(columns)} columns, got {len(words)}"
        )
    results = {
        name: _target(unit.checked(column, f"{kind}s"), name, word, unit)
        for column, name, word in zip(columns, names, words, strict=True)
    }
    return Columns.targets(results, unit.count)


def _target(column: Any, name: str, words: Vocabulary | None, unit: Unit) -> tuple[Array, Vocabulary | None]:
    column = as_array(column, name) if isinstance(column, Tensor) else column
    numeric = isinstance(column, np.ndarray) and column.dtype.kind in "iufb"
    if words is not None and not numeric:
        known = [not is_missing(value) for value in column]
        codes = np.full(len(column), np.nan)
        codes[known] = words.encode([value for value, there in zip(column, known, strict=True) if there])
        return codes, words
    numbers, found = coded(column, name, lambda reason, row: unit.place(row)[0](reason))
    if words is None and np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise unit.refuse(row, f"target {name!r}", f"is {numbers[row]}; it must be finite, or NaN if missing")
    if words is not None:
        _check_codes(numbers, words, "target", unit)
    return numbers, found if words is None else words


def is_missing(entry: Any) -> bool:
    """Say whether an entry is None, NaN or the missing value of pandas."""
    if entry is None:
        return True
    equal = entry == entry
    return not equal if isinstance(equal, (bool, np.bool_)) else True


def coded(
    values: Any, name: str, refuse: Refuse = refuse_row
) -> tuple[Float[Array, " rows"], Vocabulary | None]:
    """Return a column of any type as numbers, or as codes and the vocabulary of its symbols; NaN where it has nothing.

    Examples
    --------
    >>> coded(["b", None, "a"], "kind")
    (array([ 1., nan,  0.]), Vocabulary('kind', 2: 'a', 'b'))
    """
    if hasattr(values, "combine_chunks"):
        return _of_arrow(values, name)
    values = as_array(values, name) if isinstance(values, Tensor) else values
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        return values.astype(np.float64), None
    entries = values.tolist() if isinstance(values, np.ndarray) else list(values)
    result = np.full(len(entries), np.nan)
    present = [row for row, entry in enumerate(entries) if not is_missing(entry)]
    given = [entries[row] for row in present]
    if all(isinstance(entry, (int, float, np.number, np.bool_)) for entry in given):
        result[present] = given
        return result, None
    try:
        vocabulary, result[present] = Vocabulary.from_values(name, given)
    except InputError:
        odd = next(row for row in present if not isinstance(entries[row], (str, int, np.integer, np.bool_)))
        kind = type(entries[odd]).__name__
        raise refuse(
            f"column {name!r}: expected numbers or symbols (texts or integers), got {entries[odd]!r:.60}, a {kind}",
            odd,
        ) from None
    return result, vocabulary


def _of_arrow(values: Any, name: str) -> tuple[Float[Array, " rows"], Vocabulary | None]:
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_null(kind):
        return np.full(len(values), np.nan), None
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(pyarrow.uint8() if types.is_boolean(kind) else kind).cast(
            pyarrow.float64(), safe=False
        )
        return np.array(to_numpy(numbers, np.nan)), None
    if is_text(kind):
        vocabulary, codes = Vocabulary.from_arrow(name, values.cast(pyarrow.large_string()))
    elif types.is_dictionary(kind):  # categories, in the order in which they were declared
        declared = values.unify_dictionaries().combine_chunks()
        symbols = declared.dictionary.to_pylist()
        if any(not isinstance(symbol, (str, int)) for symbol in symbols):
            symbols = [str(symbol) for symbol in symbols]
        vocabulary, codes = Vocabulary(name, tuple(symbols)), to_numpy(declared.indices, -1)
    else:
        raise InputError(
            f"column {name!r} holds {kind}; expected numbers, texts or categories: convert it, or leave it out with "
            f"drop=[{name!r}]"
        )
    return np.where(codes < 0, np.nan, codes), vocabulary


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
