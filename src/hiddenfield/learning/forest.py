"""Random forests on sparse counts, grown by scikit-learn and kept as plain arrays, which can be saved and checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.ops.compile import compiled, prange
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

LEAF = -1
# Rows from which on trees are grown on several threads.
WORTH_THREADS = 1000
# Rows that a thread takes at a time: it has a whole row as numbers before it.
ROWS = 64


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees laid end to end; prediction is the mean of their leaves.

    Parameters
    ----------
    roots
        First node of each tree.
    column
        Column that a node looks at, -1 for a leaf.
    threshold
        Rows with at most so much go to the left.
    left, right
        Nodes that follow; they come later than their parent.
    values
        Of the leaves: a number, or the share of each class.
    classes
        Whether the values are shares of classes.
    columns
        Number of columns that the features have.
    """

    roots: Int[Array, " trees"]
    column: Int[Array, " nodes"]
    threshold: Float[Array, " nodes"]
    left: Int[Array, " nodes"]
    right: Int[Array, " nodes"]
    values: Float[Array, "nodes outputs"]
    classes: bool
    columns: int

    def predict(self, features: csr_matrix) -> Float[Array, "structures ..."]:
        """Return numbers (N,), or probabilities (N, C)."""
        out = np.zeros((features.shape[0], self.values.shape[1]))
        rows = (features.indptr, features.indices, features.data, self.columns)
        trees = (self.roots, self.column, self.threshold, self.left, self.right, self.values)
        # From a thousand rows on, so that small sets need not have the loop compiled for several threads.
        _fall(*rows, *trees, out, work=features.shape[0] * len(self.roots) // 8)
        return out if self.classes else out[:, 0]


def fit_forest(
    features: csr_matrix,
    y: Float[Array, " structures"],
    classes: int | None = None,
    *,
    trees: int = 50,
    seed: int = 0,
) -> tuple[Forest, Float[Array, "structures ..."]]:
    r"""Grow a random forest on counts, for numbers or for codes of classes.

    Each tree sees as many rows as there are, drawn with replacement, and at each node the square root of the number of
    columns, a third of them for numbers (Breiman 2001). Columns with an entry in one row alone are left out: they tell
    nothing about other rows, and as most colours are of this kind, splits that draw them are mostly wasted.

    Returns
    -------
    The forest, and for every row what the trees predict that did not see it: an estimate of how it predicts new rows.
    The same with any number of threads.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> x = np.arange(20.0)
    >>> forest, unseen = fit_forest(csr_matrix(x[:, None]), (x > 9).astype(float), 2)
    >>> forest.predict(csr_matrix([[3.0], [15.0]])).round(1)
    array([[1., 0.],
           [0., 1.]])
    >>> unseen.shape
    (20, 2)
    """
    import torch
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if classes is None else RandomForestClassifier
    share = 1 / 3 if classes is None else "sqrt"
    threads = torch.get_num_threads() if len(y) >= WORTH_THREADS else 1
    entries = np.bincount(features.indices, minlength=features.shape[1])
    shared = np.flatnonzero(entries > 1) if (entries > 1).any() else np.arange(len(entries))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of so few rows that every tree has seen one, or that a score is undefined
        found = kind(trees, max_features=share, random_state=seed, n_jobs=threads, oob_score=True)
        found.fit(features[:, shared], y)
    parts = [each.tree_ for each in found.estimators_]
    first = np.cumsum([0, *(part.node_count for part in parts)])
    own = [0] if classes is None else found.classes_.astype(np.int64)
    values = np.zeros((first[-1], classes or 1), dtype=np.float32)
    values[:, own] = np.concatenate([part.value[:, 0] for part in parts])
    column = np.concatenate([part.feature for part in parts])
    leaf = column < 0

    if classes is None:
        unseen = found.oob_prediction_
    else:
        unseen = np.zeros((len(y), classes))
        unseen[:, own] = found.oob_decision_function_

    def below(sides: list[Array]) -> Int[Array, " nodes"]:
        moved = [side + begin for side, begin in zip(sides, first, strict=False)]
        return np.where(leaf, LEAF, np.concatenate(moved)).astype(np.int32)

    forest = Forest(
        roots=first[:-1].astype(np.int32),
        column=np.where(leaf, LEAF, shared[np.maximum(column, 0)]).astype(np.int32),
        threshold=np.concatenate([part.threshold for part in parts]).astype(np.float32),
        left=below([part.children_left for part in parts]),
        right=below([part.children_right for part in parts]),
        values=values,
        classes=classes is not None,
        columns=features.shape[1],
    )
    return forest, unseen


@compiled
def _fall(
    indptr: Array,
    indices: Array,
    data: Array,
    columns: int,
    roots: Array,
    column: Array,
    threshold: Array,
    left: Array,
    right: Array,
    values: Array,
    out: Array,
) -> None:
    for piece in prange((out.shape[0] + ROWS - 1) // ROWS):
        dense = np.zeros(columns, dtype=np.float32)
        for row in range(piece * ROWS, min((piece + 1) * ROWS, out.shape[0])):
            for place in range(indptr[row], indptr[row + 1]):
                dense[indices[place]] = data[place]
            for root in roots:
                node = root
                while column[node] >= 0:
                    node = left[node] if dense[column[node]] <= threshold[node] else right[node]
                for output in range(out.shape[1]):
                    out[row, output] += values[node, output]
            for output in range(out.shape[1]):
                out[row, output] /= roots.size
            for place in range(indptr[row], indptr[row + 1]):
                dense[indices[place]] = 0.0
