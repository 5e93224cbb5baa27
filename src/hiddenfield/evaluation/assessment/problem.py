"""Problem: checked data with one target, and its outer and inner splits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from hiddenfield.data.columns import ROWS
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.inputs import Reading
from hiddenfield.estimators.targets import Answers, _given, as_task, attach
from hiddenfield.evaluation.assessment.settings import TASKS, AssessmentSettings
from hiddenfield.evaluation.splits.base import Request, Split, make_splits
from hiddenfield.evaluation.splits.drawn import check_groups, hold_out_positions, k_fold, stratified
from hiddenfield.kernels.refinement import copy_classes
from hiddenfield.learning.checkpoint import fingerprint
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int, Shaped


@dataclass(frozen=True, eq=False)
class Problem:
    """Structures or features, with one target that none of them lacks.

    Parameters
    ----------
    X
        `Structures` with the target, or a table of features.
    y
        (N,) the target as an estimator is given it: numbers, or classes as the user wrote them.
    truth
        (N,) the target as metrics take it: numbers, or class codes.
    classes
        What the codes stand for; None where the target is a number.
    target
        Its name.
    positions
        (N,) where the entries stood before those whose target is missing were left out.
    total
        How many there were then.
    copies
        (N,) numbers that equal structures share, where they are known.
    """

    X: Any
    y: Shaped[Array, " structures"]
    truth: Float[Array, " structures"]
    classes: tuple[Any, ...] | None
    target: str
    positions: Int[Array, " structures"]
    total: int
    copies: Int[Array, " structures"] | None = None

    @classmethod
    def of(cls, X: Any, y: Any = None, *, task: str = "auto") -> Problem:
        """Find what X and y are; leave out what has no target.

        Examples
        --------
        >>> import hiddenfield as hf
        >>> words = hf.data.from_sequences(["A", "B", "AB"], targets=["yes", "no", None])
        >>> problem = Problem.of(words)
        >>> problem.task, problem.classes, problem.unanswered
        ('classification', ('no', 'yes'), 1)
        """
        choose("task", dict.fromkeys(TASKS), task)
        if not is_table(X) and not isinstance(X, Structures):
            X = Reading.of(X).convert(X)
        if not isinstance(X, Structures) and y is None:
            raise InputError("there is nothing to predict: X is a table of features and y is None")
        X = X.tocsr() if issparse(X) else X  # of which rows can be taken
        columns = attach(X, y)[0] if isinstance(X, Structures) else _given(y)[0]
        if len(columns) != 1:
            raise InputError(
                f"an assessment is of one target, but there are {len(columns)}; name one of: "
                f"{', '.join(column.name for column in columns)}; or several, or '*', for an assessment of each"
            )
        if len(columns[0].values) != _length(X):
            raise InputError(
                f"X has {_length(X)} entries and y has {len(columns[0].values)}; there must be one each"
            )
        return cls._answered(X, columns[0], task)

    @classmethod
    def _answered(cls, X: Any, column: Answers, task: str) -> Problem:
        present = np.flatnonzero(column.present)
        if not len(present):
            raise InputError(
                f"target {column.name!r} is missing for every structure; there is nothing to learn from"
            )
        # The target's codes are found on a pack that has nothing else, so that tables and structures go one way.
        pack = X if isinstance(X, Structures) else _placeholder(_length(X))
        pack = as_task(pack, [column], task)
        assert pack.targets is not None
        truth = pack.targets[:, 0].cpu().numpy().astype(np.float64)[present]
        words = pack.target_vocabularies[0]
        classes = None if words is None else tuple(words.symbols)
        if classes is not None and len(np.unique(truth)) < 2:
            raise InputError(
                f"all {len(present)} structures are of one class of {column.name!r}, {classes[0]!r}; at least two are "
                f"needed"
            )
        kept = with_row_ids(pack) if isinstance(X, Structures) else X
        kept = kept if len(present) == _length(X) else _take(kept, present)
        y = truth if classes is None else _labels(classes)[truth.astype(np.int64)]
        return cls(kept, y, truth, classes, column.name, present, len(column.values))

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.truth)

    @property
    def unanswered(self) -> int:
        """How many entries were left out because their target is missing."""
        return self.total - len(self)

    @property
    def task(self) -> str:
        """``"regression"`` or ``"classification"``."""
        return "regression" if self.classes is None else "classification"

    @property
    def codes(self) -> Int[Array, " structures"] | None:
        """The class codes as integers; None where the target is a number."""
        return None if self.classes is None else self.truth.astype(np.int64)

    def take(self, positions: Int[Array, " chosen"]) -> Any:
        """Return X at these positions."""
        return _take(self.X, positions)

    def fingerprint(self) -> str:
        """Return a short fingerprint of the data."""
        checksum = hashlib.sha256(self.truth.astype("<f8").tobytes())
        if isinstance(self.X, Structures):
            checksum.update(repr(fingerprint(self.X)).encode())
        else:
            table = self.X.toarray() if hasattr(self.X, "toarray") else np.asarray(self.X)
            checksum.update(
                np.ascontiguousarray(table).tobytes()
                if table.dtype != object
                else repr(table.tolist()).encode()
            )
        checksum.update(repr(self.classes).encode())
        return checksum.hexdigest()[:16]


def is_table(X: Any) -> bool:
    """Return whether X is a table of features: an array, a sparse matrix or a data frame with two axes."""
    return not isinstance(X, Structures) and len(getattr(X, "shape", ())) == 2


def _length(X: Any) -> int:
    return int(X.shape[0])


def _take(X: Any, positions: Int[Array, " chosen"]) -> Any:
    if isinstance(X, Structures):
        return X[positions]
    return X.iloc[positions] if hasattr(X, "iloc") else X[positions]


def _placeholder(count: int) -> Structures:
    import torch

    from hiddenfield.data.build import from_edges

    nothing = torch.zeros(0, dtype=torch.int64)
    return from_edges(nothing, nothing, node_ptr=torch.zeros(count + 1, dtype=torch.int64))


def _labels(classes: tuple[Any, ...]) -> Shaped[Array, " classes"]:
    """Return the classes as an array, of text or numbers where they are all that."""
    mixed = len({isinstance(label, str) for label in classes}) > 1
    return np.array(classes, dtype=object if mixed else None)


def with_row_ids(structures: Structures) -> Structures:
    """Return structures that keep saying where they stood, however they are cut: without ids, by their rows.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> with_row_ids(hf.data.from_sequences(["A", "B", "C"]))[1:].ids.tolist()
    ['row 1', 'row 2']
    """
    if structures.ids is not None:
        return structures
    names = [f"row {row}" for row in range(len(structures))]
    return structures.replace(ids=np.array(names, dtype=np.dtypes.StringDType()))


# -- splits ------------------------------------------------------------------------------------------------


def outer_splits(problem: Problem, settings: AssessmentSettings) -> list[Split]:
    """Return the splits, as positions among the structures that have a target.

    Given positions count all structures. Those of a file count the rows that were read from, also where a reader left
    some out and says so in the column ``"row in file"``. What is drawn, by a splitter of scikit-learn too, is drawn
    from the structures that have a target.
    """
    X = problem.X if isinstance(problem.X, Structures) else None
    of_file = settings.split == "files" or (settings.split == "auto" and settings.split_file is not None)
    rows = _rows(problem) if of_file else None
    listed = not isinstance(settings.split, str) and not hasattr(settings.split, "split")
    everything = rows is not None or ((of_file or listed) and problem.unanswered > 0)
    request = Request(
        len(problem) if not everything else problem.total if rows is None else int(rows.max()) + 1,
        None if everything else problem.codes,
        None if everything else _groups(settings, problem),
        None if X is None or "smiles" not in X.columns else [str(text) for text in X.columns["smiles"]],
        None if X is None or everything else X.num_nodes.cpu().numpy(),
        settings.split_file,
        settings.folds,
        settings.repeats,
        settings.test_fraction,
        settings.seed,
    )
    try:
        splits = make_splits(settings.split, request)
    except InputError as error:
        if rows is None:
            raise
        raise InputError(
            f"{error} (positions count the rows that were read from, of which some were left out; if these are the "
            f"last ones, correct them, or leave them out of the splits too)"
        ) from None
    if not everything:
        return splits
    places = problem.positions if rows is None else rows
    return [_renumbered(split, places, request.total) for split in splits]


def _rows(problem: Problem) -> Int[Array, " structures"] | None:
    """Return where the structures stood in the file; None where that is where they stand."""
    if not isinstance(problem.X, Structures) or ROWS not in problem.X.columns:
        return None
    rows = np.asarray(problem.X.columns[ROWS])
    if rows.dtype.kind not in "iu" or (rows < 0).any() or len(np.unique(rows)) < len(rows):
        raise InputError(
            f"the column {ROWS!r} must hold different whole numbers from 0, to which given splits refer; correct it"
        )
    return rows.astype(np.int64)


def _groups(settings: AssessmentSettings, problem: Problem) -> Any:
    groups = settings.groups
    if groups is not None and not isinstance(groups, str):
        array = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
        if len(array) != problem.total:
            raise InputError(f"there are {problem.total} structures, but {len(array)} groups")
        return check_groups(array[problem.positions], problem.positions)
    if not isinstance(problem.X, Structures):
        if groups is None:
            return None
        raise InputError(f"a table of features has no column {groups!r}; give the groups as an array")
    return groups_of(problem.X, groups, settings.split, problem.positions)


def groups_of(
    structures: Structures, column: str | None, split: Any, positions: Int[Array, " structures"]
) -> Shaped[Array, " structures"] | None:
    """Return the groups by which structures are split, None where they are not.

    Parameters
    ----------
    structures
        Those that are split.
    column
        Name of the column that holds the groups; where there is none, ``"group_hold_out"`` keeps copies together.
    split
        The name of the split.
    positions
        Where the structures stood, for the error.
    """
    if column is None:
        return copy_classes(structures) if split == "group_hold_out" else None
    columns = structures.columns
    if column not in columns:
        raise InputError(
            f"the structures have no column {column!r}; they have: {', '.join(columns) or 'none'} (a table keeps more "
            f"with keep=)"
        )
    return check_groups(columns[column], positions)


def _renumbered(split: Split, places: Int[Array, " structures"], total: int) -> Split:
    """Return a split of places as one of positions; places where nothing is are left out."""
    place = np.full(total, -1, dtype=np.int64)
    place[places] = np.arange(len(places))
    found = split.renumbered(place)
    if not all(len(part) for part in (found.train, found.test, found.validation) if part is not None):
        raise InputError(
            f"{split.name}: the target of all structures of one part is missing, or their rows were left out"
        )
    return found


def inner_splits(
    problem: Problem, splits: Sequence[Split], settings: AssessmentSettings
) -> tuple[tuple[Split, ...], ...]:
    """Return the inner splits of every outer one: `train` to fit on, `test` to validate on."""
    result: list[tuple[Split, ...]] = []
    for fold, split in enumerate(splits):
        if settings.inner == "hold_out" and split.validation is not None:
            rest = np.setdiff1d(split.train, split.validation)
            result.append((Split(split.name, rest, split.validation),))
            continue
        codes = None if problem.codes is None else problem.codes[split.train]
        if settings.inner == "hold_out":
            generator = np.random.default_rng([settings.seed, fold, 2])
            pairs = [hold_out_positions(len(split.train), codes, settings.inner_fraction, generator)]
        else:
            seed = int(np.random.default_rng([settings.seed, fold, 2]).integers(2**31))
            request = Request(len(split.train), codes, folds=settings.inner_folds, seed=seed)
            try:
                drawn = (k_fold if codes is None else stratified)(request)
            except InputError as error:
                raise InputError(f"inner selection of {split.name}: {error}") from None
            pairs = [(part.train, part.test) for part in drawn]
        result.append(
            tuple(Split(split.name, split.train[kept], split.train[held_out]) for kept, held_out in pairs)
        )
    return tuple(result)
