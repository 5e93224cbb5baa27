"""Sequences of symbols to chains, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import as_ids, structure_name
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError, UnknownSymbolError
from hiddenfield.shapes import Array, Int

__all__ = ["from_sequences", "to_sequences"]

DIRECTION = Vocabulary("direction", ("next", "previous"))


def from_sequences(
    sequences: Any,
    *,
    arc_labels: str | None = None,
    name: str = "symbol",
    vocabulary: Vocabulary | None = None,
    targets: Any = None,
    target_names: Sequence[str] | None = None,
    target_vocabularies: Sequence[Vocabulary | None] | None = None,
    ids: Any = None,
    columns: Mapping[str, Any] | None = None,
) -> Structures:
    """Build a pack of chains: a node for each symbol, arcs both ways between neighbours.

    Parameters
    ----------
    sequences
        Strings, whose symbols are their characters, or lists, tuples or arrays of strings or integers. An
        empty one is a structure without nodes.
    arc_labels
        ``"direction"`` labels the arc from each symbol to the one after it ``"next"`` and the arc back
        ``"previous"``, so that a model can tell them apart. By default arcs have no labels.
    name
        Name of the node label; with `vocabulary` it is the vocabulary's own.
    vocabulary
        The symbols that may occur, for example those that a model was fitted on. By default those that do,
        sorted.
    targets, target_names, target_vocabularies, ids, columns
        As in `from_arcs`.

    Returns
    -------
    Structures
        Cost: linear in the number of symbols; with strings there is no Python loop over characters.

    Raises
    ------
    UnknownSymbolError
        If a symbol is not in `vocabulary`, naming the sequence and the position in it.

    Examples
    --------
    >>> words = from_sequences(["GATTACA", "CAT", ""], arc_labels="direction")
    >>> words
    Structures(3 structures, 10 nodes, 16 arcs; node labels: symbol (4); arc labels: direction (2))
    >>> to_sequences(words)
    ['GATTACA', 'CAT', '']
    >>> from_sequences(["CAT", "CAR"], vocabulary=words.node_vocabularies[0])
    Traceback (most recent call last):
    hiddenfield.errors.UnknownSymbolError: structure 1: symbol 'R' at position 2 is not among the 4 \
known symbols 'A', 'C', 'G', 'T'; leave the sequence out, or use a vocabulary that has this symbol
    """
    if arc_labels not in (None, "direction"):
        raise InputError(f"arc_labels of sequences must be 'direction' or None, got {arc_labels!r}")
    sequences = _listed(sequences)
    names = as_ids(ids, len(sequences))
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    own, codes = _encode(sequences, name, bounds, names)
    if vocabulary is not None:
        codes = _recode(own, codes, vocabulary, bounds, names)
    source, target = _chain_arcs(bounds)
    arcs = np.arange(len(source))
    return from_arcs(
        source,
        target,
        node_ptr=bounds,
        reverse=arcs ^ 1,
        node_labels=codes,
        node_vocabularies=[vocabulary if vocabulary is not None else own],
        arc_labels=((arcs + 1) % 2).astype(np.int32) if arc_labels else None,
        arc_vocabularies=[DIRECTION] if arc_labels else None,
        targets=targets,
        target_names=target_names,
        target_vocabularies=target_vocabularies,
        ids=names,
        columns=columns,
    )


def to_sequences(structures: Structures) -> list[str] | list[list[Symbol]]:
    """Return the symbols of chains in order: the inverse of `from_sequences`.

    Parameters
    ----------
    structures
        Chains whose nodes are numbered along them, with one column of node labels.

    Returns
    -------
    list
        Of strings if every symbol of the vocabulary is one character, otherwise of lists of symbols.

    Raises
    ------
    InputError
        If there is not one column of node labels, or naming the first structure that is no such chain.

    Examples
    --------
    >>> to_sequences(from_sequences([["the", "cat"], ["sat"]]))
    [['the', 'cat'], ['sat']]
    """
    vocabularies = structures.node_vocabularies
    if structures.node_labels is None or len(vocabularies) != 1:
        raise InputError(
            f"sequences have one column of node labels, but the structures have {len(vocabularies)}; "
            f"join several with single_labels()"
        )
    bounds = structures.node_ptr.cpu().numpy().astype(np.int64)
    _check_chains(structures, bounds)
    symbols = vocabularies[0].symbols
    codes = structures.node_labels[:, 0].cpu().numpy()
    if all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols):
        points = np.array([ord(str(symbol)) for symbol in symbols], dtype="<u4")
        text = points[codes].tobytes().decode("utf-32-le", "surrogatepass") if len(codes) else ""
        return [text[first:last] for first, last in pairwise(bounds.tolist())]
    flat = [symbols[code] for code in codes.tolist()]
    return [flat[first:last] for first, last in pairwise(bounds.tolist())]


def _listed(sequences: Any) -> list[Any]:
    """Return the sequences as a list, refusing what is one sequence or none."""
    if isinstance(sequences, (str, bytes)) or not isinstance(sequences, Iterable):
        raise InputError(
            f"expected a list of sequences, got {sequences!r}; put a single one into a list"[:300]
        )
    listed = list(sequences)
    for position, sequence in enumerate(listed):
        flat = (
            sequence.ndim == 1
            if isinstance(sequence, np.ndarray)
            else isinstance(sequence, (str, list, tuple))
        )
        if not flat:
            raise InputError(
                f"structure {position}: a sequence must be a string or a list, tuple or one-dimensional array "
                f"of symbols, got {sequence!r}"[:300]
            )
    return listed


def _encode(sequences: list[Any], name: str, bounds: Array, ids: Array | None) -> tuple[Vocabulary, Array]:
    """Return the vocabulary of the symbols that occur, sorted, and the code of every symbol."""
    if all(isinstance(sequence, str) for sequence in sequences):
        return _encode_characters("".join(sequences), name)
    if all(isinstance(sequence, np.ndarray) and sequence.dtype.kind in "iu" for sequence in sequences):
        return Vocabulary.from_values(name, np.concatenate(sequences))
    flat = list(chain.from_iterable(sequences))
    for position, symbol in enumerate(flat):
        if not isinstance(symbol, (str, int, np.integer, np.bool_)):
            owner = int(np.searchsorted(bounds, position, side="right")) - 1
            raise InputError(
                f"{structure_name(owner, ids)}: the symbol at position {position - int(bounds[owner])} must be "
                f"a string or an integer, got {symbol!r} of type {type(symbol).__name__}"[:400]
            )
    return Vocabulary.from_values(name, flat)


def _encode_characters(text: str, name: str) -> tuple[Vocabulary, Int[Array, " nodes"]]:
    """Encode every character of a text; the order of code points is the order of strings."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    present = np.zeros(int(points.max()) + 1 if len(points) else 0, dtype=bool)
    present[points] = True
    codes = np.cumsum(present, dtype=np.int32) - 1
    symbols = tuple(chr(point) for point in np.flatnonzero(present))
    return Vocabulary(name, symbols), codes[points] if len(points) else np.zeros(0, dtype=np.int32)


def _recode(own: Vocabulary, codes: Array, vocabulary: Vocabulary, bounds: Array, ids: Array | None) -> Array:
    """Return the codes in the given vocabulary."""
    result = own.recode_to(vocabulary)[codes]
    if len(result) and result.min() < 0:
        position = int(np.argmax(result < 0))
        owner = int(np.searchsorted(bounds, position, side="right")) - 1
        known = ", ".join(repr(symbol) for symbol in vocabulary.symbols[:8])
        more = ", …" if len(vocabulary) > 8 else ""
        raise UnknownSymbolError(
            f"{structure_name(owner, ids)}: {vocabulary.name} {own.symbols[codes[position]]!r} at position "
            f"{position - int(bounds[owner])} is not among the {len(vocabulary)} known symbols {known}{more}; "
            f"leave the sequence out, or use a vocabulary that has this symbol"
        )
    return result


def _chain_arcs(bounds: Int[Array, " structure_bounds"]) -> tuple[Int[Array, " arcs"], Int[Array, " arcs"]]:
    """Return sources and targets of the arcs of chains, sorted by (target, source).

    The k-th edge of the pack, between nodes i and i + 1, is arc 2k from i + 1 to i and arc 2k + 1 back: node
    i + 1 receives from i before anything else, and node i receives from i + 1 last of all.
    """
    total = int(bounds[-1])
    last = np.zeros(total, dtype=bool)
    ends = bounds[1:][np.diff(bounds) > 0]
    last[ends - 1] = True
    left = np.flatnonzero(~last)
    return np.stack([left + 1, left], axis=1).ravel(), np.stack([left, left + 1], axis=1).ravel()


def _check_chains(structures: Structures, bounds: Array) -> None:
    """Compare the arcs with those of chains; name the first structure that differs."""
    source, target = _chain_arcs(bounds)
    expected = 2 * np.maximum(np.diff(bounds) - 1, 0)
    counts = structures.num_arcs.cpu().numpy()
    # Up to the first structure with a different number of arcs, arcs stand at the same places.
    wrong = [int(np.argmax(counts != expected))] if (counts != expected).any() else []
    aligned = int(expected[: wrong[0]].sum()) if wrong else len(source)
    differs = (structures.source.cpu().numpy()[:aligned] != source[:aligned]) | (
        structures.target.cpu().numpy()[:aligned] != target[:aligned]
    )
    if differs.any():
        node = target[int(np.argmax(differs))]
        wrong = [int(np.searchsorted(bounds, node, side="right")) - 1]
    if wrong:
        raise InputError(
            f"{structures.name_of(wrong[0])} is no chain: expected arcs both ways between each node and the next, "
            f"and no others, over {int(np.diff(bounds)[wrong[0]])} nodes; leave it out"
        )
