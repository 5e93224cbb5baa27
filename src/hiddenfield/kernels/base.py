"""What the kernels share: their registry, counts in fitted columns, and Gram matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.kernels.refinement import columns_in, look_up
from hiddenfield.machine import available_memory
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.registry import Registry
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHUNK = 2**22
"""Substructures that are listed at once."""

DENSE, STRIP = 0.25, 1024
"""Share of the rows from which on a column of counts is multiplied as a dense one, and rows and columns at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class Kernel(BaseEstimator):  # type: ignore[misc]
    """Base of the kernels: positive semidefinite similarities of structures.

    Parameters
    ----------
    normalise
        Whether to divide by the lengths of both feature vectors (cosine). A structure without any substructure keeps
        similarity 0 to all, itself included.
    """

    normalise: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {"normalise": ["boolean"]}

    def fit(self, X: Structures, y: Any = None) -> Any:
        """Learn which labels and substructures occur in the structures of a pack; y is not used."""
        self._check()
        self._fit(_pack(X))
        return self

    def fit_gram(self, X: Structures, *, dtype: Any = np.float64) -> Float[Array, "structures structures"]:
        """Return what ``fit(X).gram(X)`` does, sooner: substructures are counted once."""
        self._check()
        return self._gram(_pack(X), None, dtype, learn=True)

    def gram(
        self, X: Structures, Y: Structures | None = None, *, dtype: Any = np.float64
    ) -> Float[Array, "first second"]:
        """Return the kernel of every structure of X with every one of Y, or of X.

        Substructures that did not occur in what was fitted are not counted.

        Parameters
        ----------
        X, Y
            Packs.
        dtype
            float64 or float32.

        Raises
        ------
        TooLargeError
            Where the matrix does not fit into the memory that is free.
        """
        check_is_fitted(self)
        return self._gram(_pack(X), None if Y is None else _pack(Y), dtype)

    def _check(self) -> None:
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise InputError(str(error)) from None

    def _gram(
        self, first: Structures, second: Structures | None, dtype: Any, learn: bool = False
    ) -> Float[Array, "first second"]:
        shape = (len(first), len(first if second is None else second))
        check_memory(shape, dtype)
        out = np.zeros(shape, dtype=dtype)
        own, others = self._add_products(first, second, out, learn)
        if self.normalise:
            out *= _inverse_lengths(own)[:, None].astype(dtype)
            out *= _inverse_lengths(others).astype(dtype)
        return out

    @abstractmethod
    def _fit(self, structures: Structures) -> None:
        """Keep what is to be known of the structures."""

    @abstractmethod
    def _add_products(
        self, first: Structures, second: Structures | None, out: Float[Array, "first second"], learn: bool
    ) -> tuple[Float[Array, " first"], Float[Array, " second"]]:
        """Add the kernel, not normalised, to `out`; return that of every structure with itself.

        Where it is to learn it is fitted to the first.
        """

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X holds structures, not arrays of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


KERNELS: Registry[type[Kernel]] = Registry("kernel", "hiddenfield.kernels")
"""Every kernel by its name."""


def make_kernel(name: str, options: Mapping[str, Any]) -> Kernel:
    """Return the kernel of a name with these parameters, if it has them all.

    Examples
    --------
    >>> make_kernel("wl_subtree", {"rounds": 5})
    WLSubtree(rounds=5)
    >>> make_kernel("spectrum", {"rounds": 5})
    Traceback (most recent call last):
    hiddenfield.errors.InputError: the kernel spectrum has no parameter 'rounds'; its parameters are: both_strands, ...
    """
    kind = KERNELS.choose(name)
    known = kind._get_param_names()
    for option in options:
        if option not in known:
            raise InputError(
                f"the kernel {name} has no parameter {option!r}; its parameters are: {', '.join(known)}"
            )
    return kind(**options)


class PairKernel(Kernel):
    """A kernel that compares structures pair by pair, each as what it is read as."""

    @abstractmethod
    def _read(self, structures: Structures) -> Any:
        """Return the structures in the form that `_compare` takes."""

    @abstractmethod
    def _compare(self, left: Any, right: Any, spans: Int[Array, "first bounds"], out: Array) -> None:
        """Write the kernel of each structure x with those from ``spans[x, 0]`` to before ``spans[x, 1]``.

        That with y goes to ``out[x, y - spans[x, 2]]``.
        """

    def _add_products(
        self, first: Structures, second: Structures | None, out: Float[Array, "first second"], learn: bool
    ) -> tuple[Float[Array, " first"], Float[Array, " second"]]:
        if learn:
            self._fit(first)
        left = self._read(first)
        right = left if second is None else self._read(second)
        found, spans = np.zeros(out.shape), np.zeros((len(out), 3), dtype=np.int64)
        spans[:, 1] = out.shape[1]
        if second is None:
            spans[:, 0] = np.arange(len(out))
        self._compare(left, right, spans, found)
        if second is None:
            found += np.triu(found, 1).T
            own = others = found.diagonal().copy()
        else:
            own, others = (self._alone(*each) for each in ((left, len(first)), (right, len(second))))
        out += found
        return own, others

    def _alone(self, read: Any, count: int) -> Float[Array, " structures"]:
        """Return the kernel of every structure with itself; 1 where nothing is divided by it."""
        if not self.normalise:
            return np.ones(count)
        every, out = np.arange(count), np.zeros((count, 1))
        self._compare(read, read, np.stack([every, every + 1, every], axis=1), out)
        return out[:, 0]


class BlockKernel(Kernel):
    r"""A kernel that adds up inner products of counts, :math:`\sum_b w_b \, \phi_b(x)^\top \phi_b(y)`."""

    @abstractmethod
    def _blocks(
        self, structures: Structures, known: list[Any] | None
    ) -> Iterator[tuple[float, csr_matrix, Any]]:
        """Yield each block's weight, counts and what its columns stand for: what is known, or else all that occurs.

        Where nothing is known, labels are learned too.
        """

    def _counted(self, structures: Structures, learn: bool = False) -> Iterator[tuple[float, csr_matrix]]:
        """Yield each block's weight and counts, in the columns that are known or, once all are seen, will be."""
        learned = []
        for weight, counts, columns in self._blocks(structures, None if learn else self.columns_):
            learned.append(columns)
            yield weight, counts
        self.columns_: list[Any] = learned

    def _fit(self, structures: Structures) -> None:
        for _ in self._counted(structures, learn=True):
            pass

    def _add_products(
        self, first: Structures, second: Structures | None, out: Float[Array, "first second"], learn: bool
    ) -> tuple[Float[Array, " first"], Float[Array, " second"]]:
        own, others = (np.zeros(count) for count in out.shape)
        right = None if second is None else self._counted(second)
        for weight, counts in self._counted(first, learn):
            other = counts if right is None else next(right)[1]
            add_products(counts, other, weight, out)
            own += weight * _squares(counts)
            others += weight * _squares(other)
        return own, others


class FeatureKernel(TransformerMixin, BlockKernel):  # type: ignore[misc]
    """A kernel whose features are counts, so that a linear model on them does what a kernel machine would."""

    compact: ClassVar[bool] = True
    """Whether the features of all structures are small beside their Gram matrix, so that they can be kept."""

    def transform(self, X: Structures) -> csr_matrix:
        """Return the features, (structures, substructures that were fitted), sparse.

        Their inner products are what `gram` returns; substructures that were not fitted are not counted.
        """
        check_is_fitted(self)
        return self._features(self._counted(_pack(X)))

    def occurrence(self, structure: Structures, column: int) -> Int[Array, " own"] | None:
        """Return the nodes of a substructure that a column counts, in one structure; None where there is none."""
        return None

    def fit_transform(self, X: Structures, y: Any = None) -> csr_matrix:
        """Return what ``fit(X).transform(X)`` does, sooner: substructures are counted once."""
        self._check()
        return self._features(self._counted(_pack(X), learn=True))

    def _features(self, blocks: Iterator[tuple[float, csr_matrix]]) -> csr_matrix:
        from scipy import sparse

        parts = [counts if weight == 1 else counts * np.sqrt(weight) for weight, counts in blocks]
        features = parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr")
        return sparse.diags(_inverse_lengths(_squares(features))) @ features if self.normalise else features


def _pack(X: Any) -> Structures:
    if not isinstance(X, Structures):
        raise InputError(
            f"a kernel takes a pack of structures, got {type(X).__name__}; make one with hiddenfield.data, or use "
            "KernelClassifier or KernelRegressor, which take lists too"
        )
    return X


def _squares(counts: csr_matrix) -> Float[Array, " rows"]:
    return np.asarray(counts.multiply(counts).sum(axis=1), dtype=np.float64).reshape(-1)


def _inverse_lengths(squares: Float[Array, " rows"]) -> Float[Array, " rows"]:
    return np.where(squares > 0, 1 / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


def check_memory(shape: tuple[int, int], dtype: Any) -> int:
    """Return how many bytes a Gram matrix takes; more than are free is a `TooLargeError`.

    Examples
    --------
    >>> check_memory((1000, 1000), np.float32)
    4000000
    """
    need = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if need > (free := available_memory()):
        raise TooLargeError(
            f"a Gram matrix of {shape[0]:,} x {shape[1]:,} takes {need / 2**30:,.1f} GiB, and {free / 2**30:,.1f} are "
            "free; use the explicit features, float32, or fewer structures as landmarks "
            "(sklearn.kernel_approximation.Nystroem; KernelClassifier and KernelRegressor do so by themselves)"
        )
    return need


def add_products(
    first: csr_matrix, second: csr_matrix, weight: float, out: Float[Array, "first second"]
) -> None:
    """Add the products of all rows of two sparse matrices, times a weight, to a dense matrix.

    Those of a matrix with itself are computed once for each pair, and what they are added to is symmetric.
    """
    across, same = second.tocsc(), first is second
    # What most rows have is a dense matrix, whose products take a tenth of the time.
    frequent = np.diff(across.indptr) > DENSE * second.shape[0]
    if frequent.any():
        chosen, rest = np.flatnonzero(frequent), np.flatnonzero(~frequent)
        for begin in range(0, len(chosen), STRIP):
            some = chosen[begin : begin + STRIP]
            _add_dense(weight * first[:, some].toarray(), across[:, some].toarray().T, out)
        first, across = first[:, rest], across[:, rest]
    work = first.nnz * max(1.0, across.nnz / max(1, across.shape[1]))
    _add_products(
        first.indptr,
        first.indices,
        first.data * weight,
        across.indptr,
        across.indices,
        across.data,
        same,
        out,
        work=work,
    )


def _add_dense(
    left: Float[Array, "first inner"], right: Float[Array, "inner second"], out: Float[Array, "first second"]
) -> None:
    """Add a product in strips of rows, so that no second matrix of the size of `out` is made."""
    for begin in range(0, len(left), STRIP):
        out[begin : begin + STRIP] += left[begin : begin + STRIP] @ right


def products(first: csr_matrix, second: csr_matrix) -> Float[Array, "first second"]:
    """Return the products of all rows of two sparse matrices, if there is memory for them."""
    shape = (first.shape[0], second.shape[0])
    check_memory(shape, np.float64)
    out = np.zeros(shape)
    add_products(first, second, 1.0, out)
    return out


@compiled
def _add_products(
    ptr: Array,
    columns: Array,
    values: Array,
    bounds: Array,
    rows: Array,
    others: Array,
    symmetric: bool,
    out: Array,
) -> None:
    count = ptr.size - 1
    for turn in prange(count):
        # Of the products of a matrix with itself the first rows have the most to do: long and short ones in turn.
        row = turn // 2 if turn % 2 == 0 else count - 1 - turn // 2
        for entry in range(ptr[row], ptr[row + 1]):
            column, value = columns[entry], values[entry]
            for k in range(bounds[column + 1] - bounds[column]):
                place = bounds[column + 1] - 1 - k
                other = rows[place]
                if symmetric and other < row:
                    break
                out[row, other] += value * others[place]
    if symmetric:
        for row in prange(count):
            for other in range(row):
                out[row, other] = out[other, row]


# -- labels and substructures as numbers ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Labels:
    """The combinations of labels that nodes or arcs have: row k of `rows` are the codes of combination k."""

    vocabularies: tuple[Vocabulary, ...]
    rows: Rows

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    @classmethod
    def number(
        cls, structures: Structures, kind: str, known: Labels | None = None
    ) -> tuple[Int[Array, " rows"], Labels]:
        """Return the number of each node's (or arc's) combination, -1 if it is not known, and what the numbers mean."""
        codes, vocabularies = columns_in(structures, kind, None if known is None else known.vocabularies)
        numbers, rows = look_up(Rows.of_table(codes), None if known is None else known.rows)
        return numbers, known or cls(vocabularies, rows)


def tally(
    parts: Iterable[tuple[Int[Array, " found"], Int[Array, "found width"]]],
    count: int,
    known: Int[Array, "columns own_width"] | None,
) -> tuple[csr_matrix, Int[Array, "columns own_width"]]:
    """Count substructures, each given by the structure it is of and a row that says which it is.

    Parameters
    ----------
    parts
        As many at a time as there is room for. Rows with a negative entry are not counted.
    count
        Number of structures.
    known
        Distinct rows that are the columns of the result; by default those that occur.
    """
    from scipy import sparse

    tables, found = [] if known is None else [known], [(_NONE, _NONE, _NONE)]
    before = 0 if known is None else len(known)
    for owner, keys in parts:
        if keys.min(initial=0) < 0:
            whole = (keys >= 0).all(axis=1)
            owner, keys = owner[whole], keys[whole]
        numbers, first = number_rows(Rows.of_table(_packed(keys)))
        pairs, times = np.unique(owner * np.int64(len(first)) + numbers, return_counts=True)
        owner, place = np.divmod(pairs, max(1, len(first)))
        tables.append(keys[first])
        found.append((owner, place + before, times))
        before += len(first)
    owner, place, times = (np.concatenate(each) for each in zip(*found, strict=True))
    tables = [table for table in tables if len(table)] or [np.zeros((0, 1), dtype=np.int64)]
    table = np.concatenate(tables)
    # Rows that are known are distinct, so that standing first they are numbered 0, 1, ... themselves.
    numbers, first = number_rows(Rows.of_table(_packed(table)))
    rows = table[first] if known is None else known
    columns = numbers[place]
    kept = columns < len(rows)
    entries = (times[kept].astype(np.float64), (owner[kept], columns[kept]))
    return sparse.coo_matrix(entries, shape=(count, len(rows))).tocsr(), rows


_NONE = np.zeros(0, dtype=np.int64)


def _packed(keys: Int[Array, "found width"]) -> Int[Array, "found packed"]:
    """Return rows that are as different, of a single entry if it can hold them: these are numbered sooner."""
    ranges = (keys.max(axis=0, initial=0) + 1).tolist()
    if math.prod(ranges) >= 2**62:
        return keys
    place = np.cumprod([1, *ranges[:-1]]).astype(np.int64) if ranges else np.zeros(0, dtype=np.int64)
    return (keys @ place)[:, None]
