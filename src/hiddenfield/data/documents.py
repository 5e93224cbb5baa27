"""`Documents`: how often each word occurs in each document, and the words; read from whatever holds such counts."""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.paths import existing, inner_suffix, read_text
from hiddenfield.errors import InputError, ReadError
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

WORD = re.compile(r"\w\w+")
"""What is a word in a text: two letters or digits or more, in lower case."""

LDAC = ".ldac"


@dataclass(frozen=True, eq=False)
class Documents:
    """Counts of words, a row for each document, without zeros.

    Parameters
    ----------
    counts
        How often each word occurs in each document, as a sparse matrix.
    words
        One for each column.
    ids
        Names or titles of the documents, or None.

    Examples
    --------
    >>> from hiddenfield.data import as_documents
    >>> documents = as_documents(["a cat and a dog", "the dog barks", ""])
    >>> documents
    Documents(3 documents, 5 words, 6 tokens)
    >>> documents.words
    ('and', 'barks', 'cat', 'dog', 'the')
    """

    counts: csr_array
    words: tuple[str, ...]
    ids: Array | None = None

    def __post_init__(self) -> None:
        wide = self.counts.shape[1]
        if wide != len(self.words) or len(set(self.words)) != wide:
            raise InputError(f"{wide:,} columns need as many different words, got {len(self.words):,}")

    def __len__(self) -> int:
        """Return the number of documents."""
        return self.counts.shape[0]

    def __getitem__(self, rows: Any) -> Documents:
        """Return some of the documents: a slice, a mask or their numbers."""
        rows = rows[0] if isinstance(rows, tuple) else rows
        return Documents(self.counts[rows], self.words, None if self.ids is None else self.ids[rows])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of documents and of words."""
        return self.counts.shape

    @cached_property
    def by_word(self) -> csc_array:
        """The same matrix word by word; its data are the places of the entries in `counts`."""
        from scipy.sparse import csr_array

        places = np.arange(self.counts.nnz, dtype=np.int64)
        return csr_array((places, self.counts.indices, self.counts.indptr), self.shape).tocsc()

    @cached_property
    def tokens(self) -> tuple[Int[Array, " bounds"], Int[Array, " tokens"]]:
        """The bounds of the tokens of each word, and the document of each."""
        words = self.by_word
        times = self.counts.data[words.data].astype(np.int64)
        ptr = np.concatenate([[0], np.cumsum(times)])[words.indptr]
        return ptr, np.repeat(words.indices.astype(np.int32), times)

    @cached_property
    def lengths(self) -> Float[Array, " documents"]:
        """The number of tokens of each document."""
        return np.asarray(self.counts.sum(axis=1), np.float64).reshape(-1)

    def halves(self, generator: np.random.Generator) -> tuple[Documents, Documents]:
        """Split the tokens of every document at random into two halves."""
        from scipy.sparse import csr_array

        parts, counts = [], self.counts
        whole = counts.data.astype(np.int64)
        first = np.empty_like(whole)
        for begin, end in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
            own = whole[begin:end]
            first[begin:end] = generator.multivariate_hypergeometric(own, int(own.sum()) // 2)
        for data in (first, whole - first):
            part = csr_array((data.astype(np.float64), counts.indices, counts.indptr), self.shape, copy=True)
            part.eliminate_zeros()
            parts.append(Documents(part, self.words, self.ids))
        return parts[0], parts[1]

    def __repr__(self) -> str:
        """Count documents, words and tokens."""
        documents, words = self.shape
        return f"Documents({documents:,} documents, {words:,} words, {self.lengths.sum():,.0f} tokens)"


def as_documents(source: Any, words: Sequence[str] | None = None) -> Documents:
    """Return counts of words.

    Parameters
    ----------
    source
        A file in the format of LDA-C (``.ldac``, with the words in a file of the same name that ends in ``.vocab`` or
        ``.tokens`` and perhaps titles in one that ends in ``.titles``); a matrix of counts, dense or sparse; a data
        frame whose columns are words; texts; or a list of words for each document.
    words
        The vocabulary. Columns of other names are brought into its order, and words that it does not have are left
        out. Without it, columns without names are words w0, w1, ...

    Examples
    --------
    >>> from hiddenfield.data import as_documents
    >>> as_documents([["b", "a", "b"]], words=["a", "b", "c"]).counts.toarray()
    array([[1., 2., 0.]])
    """
    if isinstance(source, (str, Path)):
        source = read_ldac(source)
    if isinstance(source, Documents):
        return source if words is None or source.words == tuple(words) else _aligned(source, words)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        counts = _checked(source.to_numpy())
        named = Documents(counts, tuple(str(name) for name in source.columns))
        return named if words is None else _aligned(named, words)
    if hasattr(source, "toarray") or isinstance(source, np.ndarray):
        counts = _checked(source)
        if words is not None and counts.shape[1] != len(words):
            raise InputError(
                f"X has {counts.shape[1]:,} columns, and there are {len(words):,} words (features): it must have one "
                "column for each, in that order"
            )
        return Documents(
            counts, tuple(f"w{j}" for j in range(counts.shape[1])) if words is None else tuple(words)
        )
    if isinstance(source, Iterable):
        return _of_tokens([_tokens(each, number) for number, each in enumerate(source)], words)
    raise InputError(
        "documents are a .ldac file, a matrix of counts, a data frame whose columns are words, texts or lists of "
        f"words, got {type(source).__name__}"
    )


def _tokens(document: Any, number: int) -> list[str]:
    if isinstance(document, str):
        return WORD.findall(document.lower())
    if isinstance(document, Iterable):
        found = list(document)
        if all(isinstance(word, str) for word in found):
            return found
    raise InputError(f"document {number} is neither a text nor a list of words: {document!r:.100}")


def _of_tokens(documents: list[list[str]], words: Sequence[str] | None) -> Documents:
    from scipy.sparse import csr_array

    named = sorted({word for each in documents for word in each}) if words is None else words
    number = {word: place for place, word in enumerate(named)}
    tallies = [Counter(number[word] for word in each if word in number) for each in documents]
    ptr = np.cumsum([0, *(len(tally) for tally in tallies)])
    pairs = [pair for tally in tallies for pair in sorted(tally.items())]
    places, data = np.array(pairs, np.int64).reshape(-1, 2).T
    counts = csr_array((data.astype(np.float64), places, ptr), (len(documents), len(named)))
    return Documents(counts, tuple(named))


def _aligned(documents: Documents, words: Sequence[str]) -> Documents:
    """Return the columns of these words, zero where there are none."""
    from scipy.sparse import csr_array

    number = {word: place for place, word in enumerate(words)}
    there = [(place, number[word]) for place, word in enumerate(documents.words) if word in number]
    source, target = np.array(there, np.int64).reshape(-1, 2).T
    move = csr_array((np.ones(len(source)), (source, target)), (len(documents.words), len(words)))
    return Documents((documents.counts @ move).tocsr(), tuple(words), documents.ids)


def _checked(matrix: Any) -> csr_array:
    """Return a matrix of counts as a sparse one in order, without zeros; what is no count is an error."""
    from scipy.sparse import csr_array

    try:
        counts = csr_array(matrix, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"counts of words must be a matrix of numbers: {error}") from None
    if counts.ndim != 2:
        raise InputError(f"counts of words must be a matrix, got an array of shape {np.shape(matrix)}")
    counts.sum_duplicates()
    wrong = ~(np.isfinite(counts.data) & (counts.data >= 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        row = int(np.searchsorted(counts.indptr, place, side="right")) - 1
        raise InputError(
            f"document {row} has {counts.data[place]} of the word in column {counts.indices[place]}; counts are finite "
            "and not negative, and a word that does not occur has 0"
        )
    counts.eliminate_zeros()
    return counts


def read_ldac(path: str | Path) -> Documents:
    """Read a corpus in the format of LDA-C: in each line the number of different words, then ``word:count`` pairs."""
    from scipy.sparse import csr_array

    path = existing(path)
    if LDAC not in path.name.lower():
        raise ReadError(f"expected a corpus whose name has {LDAC} in it, or a matrix of counts", file=path)
    words, ids = _beside(path, ("vocab", "tokens")), _beside(path, ("titles",))
    pairs, ptr = [], [0]
    for line, text in enumerate(read_text(path).splitlines(), start=1):
        if not (fields := text.replace(":", " ").split()):
            continue
        try:
            numbers = np.array(fields, np.int64)
        except (ValueError, OverflowError):
            numbers = np.array([-1])
        if (numbers < 0).any() or len(numbers) != 2 * numbers[0] + 1:
            raise ReadError(
                f"expected the number of different words and as many pairs word:count, got {text!r:.60}",
                file=path,
                line=line,
            )
        if len(numbers) > 1 and words is not None and numbers[1::2].max() >= len(words):
            raise ReadError(
                f"word {numbers[1::2].max()} is not one of the {len(words):,} in the vocabulary beside it",
                file=path,
                line=line,
            )
        pairs.append(numbers[1:].reshape(-1, 2))
        ptr.append(ptr[-1] + int(numbers[0]))
    places, data = np.concatenate([np.empty((0, 2), np.int64), *pairs]).T
    wide = int(places.max(initial=-1)) + 1 if words is None else len(words)
    counts = csr_array((data.astype(np.float64), places, np.array(ptr)), (len(pairs), wide))
    if ids is not None and len(ids) != len(pairs):
        raise ReadError(
            f"has {len(pairs):,} documents, and there are {len(ids):,} titles beside it", file=path
        )
    named = tuple(f"w{j}" for j in range(wide)) if words is None else tuple(words)
    if len(set(named)) < len(named):
        twice = next(word for word, count in Counter(named).items() if count > 1)
        raise ReadError(f"the vocabulary beside it has {twice!r} more than once", file=path)
    return Documents(_checked(counts), named, None if ids is None else np.array(ids))


def _beside(path: Path, kinds: Sequence[str]) -> list[str] | None:
    """Return the lines of the file that goes with a corpus, if there is one."""
    stem = path.name[: path.name.lower().index(LDAC)]
    for kind in kinds:
        for file in sorted(path.parent.glob(f"{glob.escape(stem)}.{kind}*")):
            if inner_suffix(file) in (f".{kind}", ".txt"):
                return read_text(file).splitlines()
    return None
