"""Problem: what is to be predicted from what, checked once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.inputs import Reading
from hiddenfield.estimators.targets import (
    Answers,
    _given,
    as_classes,
    as_numbers,
    attach,
    looks_like_classes,
)
from hiddenfield.evaluation.run import TASKS, with_row_ids
from hiddenfield.learning.checkpoint import fingerprint
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float, Int, Shaped

__all__ = ["Problem"]


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
    """

    X: Any
    y: Shaped[Array, " structures"]
    truth: Float[Array, " structures"]
    classes: tuple[Any, ...] | None
    target: str
    positions: Int[Array, " structures"]
    total: int

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
                f"{', '.join(column.name for column in columns)}"
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
        classify = task == "classification" or (task == "auto" and looks_like_classes(column))
        # The target's codes are found on a pack that has nothing else, so that tables and structures go one way.
        pack = X if isinstance(X, Structures) else _placeholder(_length(X))
        pack = (as_classes if classify else as_numbers)(pack, [column])
        assert pack.targets is not None
        truth = pack.targets[:, 0].cpu().numpy().astype(np.float64)[present]
        words = pack.target_vocabularies[0]
        classes = None if words is None else tuple(words.symbols)
        if classes is not None and len(np.unique(truth)) < 2:
            raise InputError(
                f"all {len(present)} structures are of one class of {column.name!r}, {classes[0]!r}; at least two are "
                f"needed"
            )
        kept = _take(with_row_ids(pack) if isinstance(X, Structures) else X, present)
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
        """Return a short text by which other data are told apart."""
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
    """Say whether X is a table of features: an array, a sparse matrix or a data frame with two axes."""
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
    if all(isinstance(label, str) for label in classes) or not any(
        isinstance(label, str) for label in classes
    ):
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)
    array[:] = classes
    return array
