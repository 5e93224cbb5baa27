"""The targets y of an estimator: numbers or classes, one column or several, entries missing; and what is held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hiddenfield.data.columns import chosen_names
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Array, Bool, Float, Int, Shaped

# Whole numbers with at most so many different values are taken for classes where nobody says what they are.
FEW_CLASSES = 10
# Of entries, the first that fits (a truth value is an int, too), and of arrays.
TYPES: dict[str, Any] = {
    "bool": (bool, np.bool_),
    "int": (int, np.integer),
    "float": (float, np.floating),
    "str": str,
}
KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "str", "T": "str"}


@dataclass(frozen=True)
class Answers:
    """One column of y as it was given.

    Parameters
    ----------
    name
        Of the target.
    kind
        ``"bool"``, ``"int"``, ``"float"``, ``"str"`` or ``"mixed"`` (text and numbers).
    values
        The entries; anything where one is missing.
    present
        Which are not missing.
    declared
        Whether they come with a vocabulary, which says that they are classes.
    """

    name: str
    kind: str
    values: Shaped[Array, " structures"]
    present: Bool[Array, " structures"]
    declared: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the entries are text, truth values or whole numbers, as classes are."""
        if self.kind != "float":
            return True
        numbers = self.values[self.present].astype(np.float64)
        return bool(np.all(numbers == np.floor(numbers)) and np.isfinite(numbers).all())

    def first(self, wrong: Bool[Array, " structures"]) -> int:
        """Return the position of the first entry that is present and wrong."""
        return int(np.argmax(wrong & self.present))


def attach(
    structures: Structures, y: Any, rows: Int[Array, " structures"] | None = None, total: int | None = None
) -> tuple[list[Answers], bool]:
    """Return the columns of y, or of the pack's own targets where y is None, and whether they are a single one.

    Where some of `total` entries of X could not be read, `rows` says which the structures are; y has an entry for each
    of X.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> columns, single = attach(hf.data.from_sequences(["A", "B"]), ["yes", None])
    >>> columns[0].kind, columns[0].present.tolist(), single
    ('str', [True, False], True)
    """
    if y is None:
        if structures.targets is None or not structures.target_names:
            raise InputError(
                "there is nothing to learn: y is None and the structures have no targets of their own"
            )
        columns = _own(structures)
        return columns, len(columns) == 1
    columns, single = _given(y)
    expected = len(structures) if rows is None or total is None else total
    for column in columns:
        if len(column.values) != expected:
            raise InputError(
                f"X has {expected} structures and y has {len(column.values)} entries; there must be one for each"
            )
    if rows is not None:
        columns = [replace(c, values=c.values[rows], present=c.present[rows]) for c in columns]
    if not columns:
        raise InputError("there is nothing to learn: y has no columns")
    return columns, single


def _own(structures: Structures) -> list[Answers]:
    assert structures.targets is not None
    result = []
    values = structures.targets.cpu().numpy()
    for k, (name, words) in enumerate(
        zip(structures.target_names, structures.target_vocabularies, strict=True)
    ):
        present = ~np.isnan(values[:, k])
        if words is None:
            result.append(Answers(name, "float", values[:, k], present))
            continue
        decoded = np.empty(len(values), dtype=object)
        decoded[present] = words.decode(values[present, k].astype(np.int64))
        result.append(replace(_column(name, decoded), declared=True))
    return result


def _given(y: Any) -> tuple[list[Answers], bool]:
    """Split y into columns."""
    if isinstance(y, torch.Tensor):
        y = y.detach().cpu().numpy()
    if isinstance(y, Mapping) or (hasattr(y, "columns") and hasattr(y, "iloc")):
        names = list(y.keys())
        return [_column(str(name), _array(y[name])) for name in names], False
    if isinstance(y, (str, bytes)) or not hasattr(y, "__len__"):
        raise InputError(f"y must be an array or a list with an entry for each structure, got {y!r:.100}")
    array = _array(y)
    if array.ndim == 1:
        name = getattr(y, "name", None)
        return [_column(name if isinstance(name, str) else "target", array)], True
    if array.ndim != 2:
        raise InputError(f"y must have one or two axes, got shape {array.shape}")
    names = ["target"] if array.shape[1] == 1 else [f"target_{k}" for k in range(array.shape[1])]
    return [_column(name, array[:, k]) for k, name in enumerate(names)], False


def _array(values: Any) -> Array:
    """Return an array of the entries themselves: a list of text and None must not become text throughout."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    entries = list(values)
    rows = [isinstance(entry, (list, tuple, np.ndarray)) for entry in entries]
    if any(rows) and (not all(rows) or len(set(map(len, entries))) != 1):
        raise InputError("the rows of y must be equally long")
    return np.array(entries, dtype=object)


def _column(name: str, values: Array) -> Answers:
    kind = KINDS.get(values.dtype.kind)
    if kind is not None:
        present = ~np.isnan(values) if kind == "float" else np.ones(len(values), dtype=bool)
        return Answers(name, kind, values, present)
    if values.dtype != object:
        raise InputError(f"y must hold numbers or classes, got an array of {values.dtype}")
    present = np.array([_is_there(value) for value in values], dtype=bool)
    return Answers(name, _kind_of(values[present], name), values, present)


def _is_there(value: Any) -> bool:
    """Say whether an entry is not missing: not None, not NaN, not the missing value of pandas."""
    if value is None or type(value).__name__ == "NAType":
        return False
    return not (isinstance(value, (float, np.floating)) and np.isnan(value))


def _kind_of(values: Iterable[Any], name: str) -> str:
    kinds = set()
    for value in values:
        kind = next((kind for kind, types in TYPES.items() if isinstance(value, types)), None)
        if kind is None:
            raise InputError(
                f"target {name!r}: expected a number, a text or a truth value, got {value!r:.100}"
            )
        kinds.add(kind)
    if kinds <= {"int", "float", "bool"}:
        return next((kind for kind in ("float", "int", "bool") if kind in kinds), "float")
    return "str" if kinds == {"str"} else "mixed"


def looks_like_classes(column: Answers) -> bool:
    """Say whether a column is one of classes: declared, text, truth values, or at most ten different whole numbers."""
    if column.declared or column.kind in ("str", "mixed", "bool"):
        return True
    return column.is_whole and len(np.unique(column.values[column.present].astype(np.float64))) <= FEW_CLASSES


def as_task(structures: Structures, columns: list[Answers], task: str) -> Structures:
    """Return the pack with these columns as targets of a task; ``"auto"``: of classes if all columns look like it."""
    classify = all(map(looks_like_classes, columns)) if task == "auto" else task == "classification"
    return (as_classes if classify else as_numbers)(structures, columns)


def as_numbers(structures: Structures, columns: list[Answers]) -> Structures:
    """Return the pack with these columns as targets that are numbers."""
    for column in columns:
        if column.kind in ("str", "mixed"):
            wrong = np.array([isinstance(value, str) for value in column.values], dtype=bool)
            row = column.first(wrong)
            raise InputError(
                f"{structures.name_of(row)}: target {column.name!r} is the text {column.values[row]!r}, but a "
                f"regressor predicts numbers; use StructureClassifier, or turn the target into numbers"
            )
    values = np.full((len(structures), len(columns)), np.nan)
    for k, column in enumerate(columns):
        values[column.present, k] = column.values[column.present].astype(np.float64)
        if np.isinf(values[:, k]).any():
            row = int(np.argmax(np.isinf(values[:, k])))
            raise InputError(
                f"{structures.name_of(row)}: target {column.name!r} is {values[row, k]}; "
                f"it must be finite, or NaN if missing"
            )
    return _with(structures, values, columns, (None,) * len(columns))


def as_classes(structures: Structures, columns: list[Answers]) -> Structures:
    """Return the pack with these columns as targets that are classes, those that occur, sorted."""
    values = np.full((len(structures), len(columns)), np.nan)
    vocabularies = []
    for k, column in enumerate(columns):
        if not column.is_whole:
            numbers = np.where(column.present, column.values, 0).astype(np.float64)
            row = column.first(numbers != np.floor(numbers))
            raise InputError(
                f"{structures.name_of(row)}: target {column.name!r} is {numbers[row]}, but classes are text, whole "
                f"numbers or truth values; use StructureRegressor"
            )
        symbols = column.values[column.present]
        if column.kind == "mixed" and any(isinstance(symbol, (float, np.floating)) for symbol in symbols):
            raise InputError(
                f"target {column.name!r} holds text and fractions; classes are text, whole numbers or truth values"
            )
        symbols = symbols if column.kind in ("str", "mixed") else symbols.astype(np.int64)
        vocabulary, codes = Vocabulary.from_values(column.name, symbols)
        values[column.present, k] = codes
        vocabularies.append(vocabulary)
    return _with(structures, values, columns, tuple(vocabularies))


def _with(
    structures: Structures, values: Array, columns: list[Answers], vocabularies: tuple[Vocabulary | None, ...]
) -> Structures:
    names = tuple(column.name for column in columns)
    return structures.replace(
        targets=torch.from_numpy(values).to(structures.device),
        target_names=names,
        target_vocabularies=vocabularies,
    )


def select_targets(structures: Structures, names: Sequence[str]) -> Structures:
    """Return the structures with these of their targets alone; patterns and lists as `chosen_names` takes them.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> pack = hf.data.from_sequences(["A", "B"], targets={"a": [1.0, 2.0], "b": [3.0, 4.0]})
    >>> select_targets(pack, ["b"]).targets.flatten().tolist()
    [3.0, 4.0]
    """
    known = structures.target_names
    names = chosen_names(names, known)
    missing = next((name for name in names if name not in known), None)
    if missing is not None or structures.targets is None:
        raise InputError(
            f"the structures have no target {missing!r}; they have: {', '.join(known) or 'none'}"
        )
    places = [known.index(name) for name in names]
    return structures.replace(
        targets=structures.targets[:, places],
        target_names=tuple(names),
        target_vocabularies=tuple(structures.target_vocabularies[place] for place in places),
    )


def checked_weights(weights: Any, total: int) -> Float[Array, " structures"]:
    """Return the weights of structures if there is one for each, finite and not negative.

    Examples
    --------
    >>> checked_weights([1, 2], 3)
    Traceback (most recent call last):
    hiddenfield.errors.InputError: sample_weight must have one entry for each of the 3 structures, got shape (2,)
    """
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"sample_weight must hold numbers, got {weights!r:.100}") from None
    found = np.full(total, float(found)) if found.ndim == 0 else found
    if found.shape != (total,):
        raise InputError(
            f"sample_weight must have one entry for each of the {total} structures, got shape {found.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(wrong):
        raise InputError(
            f"sample_weight of structure {wrong[0]} is {found[wrong[0]]}; weights are finite and at least 0"
        )
    return found


# -- holding out -------------------------------------------------------------------------------------------


def split_held_out(
    structures: Structures,
    fraction: float,
    seed: int,
    chosen: Int[Array, " held_out"] | None = None,
    *,
    members: int = 1,
) -> list[tuple[Int[Array, " kept"], Int[Array, " held_out"]]]:
    """Return for each member the positions that are trained on and those held out, drawn with a seed, each sorted.

    Members hold out different structures, as far as there are enough of them. A single target of classes is stratified,
    where every class has two members and there is a place for each. With fewer than two structures, or a fraction of
    less than one structure, nothing is held out. Where positions were `chosen`, nothing is drawn: it is these.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A"] * 10, targets=["yes", "no"] * 5)
    >>> parts = split_held_out(words, 0.2, seed=0, members=5)
    >>> [sorted(words.targets[held_out, 0].tolist()) for _, held_out in parts]
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    >>> sorted(np.concatenate([held_out for _, held_out in parts]).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    total = len(structures)
    if chosen is not None:
        return [(np.setdiff1d(np.arange(total), chosen), chosen)] * members
    size = min(int(total * fraction), total - 1)
    if size < 1:
        return [(np.arange(total), np.zeros(0, dtype=np.int64))] * members
    order = np.random.default_rng(seed).permutation(total)
    classes = _strata(structures, size)
    if classes is not None:
        # By how far through its class each member stands: any run of neighbours has about the same share of each.
        order = order[np.argsort(classes[order], kind="stable")]
        _, first, count = np.unique(classes[order], return_index=True, return_counts=True)
        place = (np.arange(total) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
        order = order[np.argsort(place, kind="stable")]
    parts = []
    for member in range(members):
        begin = round(member * total * fraction)
        held_out = np.sort(order[np.arange(begin, begin + size) % total])
        parts.append((np.setdiff1d(np.arange(total), held_out), held_out))
    return parts


def check_held_out(held_out: Any, total: int, answered: Int[Array, " answered"]) -> Int[Array, " held_out"]:
    """Check positions that a user holds out; return them among the structures that have a target, sorted.

    Examples
    --------
    >>> check_held_out([3, 0], 4, np.array([0, 1, 3]))
    array([0, 2])
    """
    places = np.unique(np.asarray(held_out, dtype=np.int64))
    if len(places) and not 0 <= places[0] <= places[-1] < total:
        raise InputError(
            f"held_out must hold positions from 0 to {total - 1}, got {places[0] if places[0] < 0 else places[-1]}"
        )
    found = np.flatnonzero(np.isin(answered, places))
    if not len(found) or len(found) == len(answered):
        raise InputError(
            f"of the {len(answered)} structures with a target, {len(found)} would be held out; some must be, "
            f"and some must be left to learn from"
        )
    return found


def _strata(structures: Structures, size: int) -> Int[Array, " structures"] | None:
    """Return the class of every structure if there is one target and it can be stratified, else None."""
    if (
        structures.targets is None
        or len(structures.target_names) != 1
        or structures.target_vocabularies[0] is None
    ):
        return None
    values = structures.targets[:, 0].cpu().numpy()
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    room = min(size, len(values) - size)
    return codes if counts.min() >= 2 and len(counts) <= room else None
