"""Sequences of symbols to chains, and back; positions and k-mers as further labels of their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise, product
from typing import Any

import numpy as np
import torch

from hiddenfield.data.build import from_arcs
from hiddenfield.data.columns import as_ids, structure_name
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError, checked_integer
from hiddenfield.shapes import Array, Int, Tensor

DIRECTION = Vocabulary("direction", ("next", "previous"))


def from_sequences(
    sequences: Any,
    *,
    arc_labels: str | None = None,
    name: str = "symbol",
    vocabulary: Vocabulary | None = None,
    ids: Any = None,
    **options: Any,
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
    ids, options
        As in `from_arcs`: `targets`, `node_targets`, `columns`, and the names and vocabularies of these.

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
    hiddenfield.errors.UnknownSymbolError: structure 1: symbol 'R' of node 2 is not among the 4 known symbols; \
leave the structure out, or fit on data that has this symbol
    """
    if arc_labels not in (None, "direction"):
        raise InputError(f"arc_labels of sequences must be 'direction' or None, got {arc_labels!r}")
    sequences = _listed(sequences)
    names = as_ids(ids, len(sequences))
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    own, codes = _encode(sequences, name if vocabulary is None else vocabulary.name, bounds, names)
    source, target = _chain_arcs(bounds)
    arcs = np.arange(len(source))
    chains = from_arcs(
        source,
        target,
        node_ptr=bounds,
        reverse=arcs ^ 1,
        node_labels=codes,
        node_vocabularies=[own],
        arc_labels=((arcs + 1) % 2).astype(np.int32) if arc_labels else None,
        arc_vocabularies=[DIRECTION] if arc_labels else None,
        ids=names,
        **options,
    )
    return chains if vocabulary is None else chains.recode([vocabulary])


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
    other = first_other(structures, both_ways=True)
    if other is not None:
        raise InputError(
            f"{structures.name_of(other)} is not a chain: expected arcs both ways between each node and the next, "
            f"and no others, over {int(structures.num_nodes[other])} nodes; leave it out"
        )
    bounds = structures.node_ptr.tolist()
    symbols = vocabularies[0].symbols
    codes = structures.node_labels[:, 0].cpu().numpy()
    if all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols):
        points = np.array([ord(str(symbol)) for symbol in symbols], dtype="<u4")
        text = points[codes].tobytes().decode("utf-32-le", "surrogatepass") if len(codes) else ""
        return [text[first:last] for first, last in pairwise(bounds)]
    flat = [symbols[code] for code in codes.tolist()]
    return [flat[first:last] for first, last in pairwise(bounds)]


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
        # Every character by its code point, in whose order strings are sorted.
        points = np.frombuffer("".join(sequences).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        present, codes = Vocabulary.from_values(name, points)
        return Vocabulary(name, tuple(chr(int(point)) for point in present.symbols)), codes
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


# -- further labels: the position of each symbol, and the k-mer around it --------------------------------------

END = "-"
MOST_WORDS = 1_000_000


def with_positions(structures: Structures, name: str = "position") -> Structures:
    """Return the structures with each node's number within its structure, from 0, as a further label.

    A chain of symbols looks the same to a model wherever it stands, but for its ends. Where a place has a meaning of
    its own, as in guides, splice sites or promoters of one length, this tells it.

    Parameters
    ----------
    structures
        Any; the order of the nodes is that in which they were given.
    name
        Of the label; no other may have it.

    Returns
    -------
    Structures
        Numbers up to the largest structure's are known to its vocabulary. Cost: linear in the number of nodes.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.with_positions(hf.data.from_sequences(["CAT", "AT"]))
    >>> words
    Structures(2 structures, 5 nodes, 6 arcs; node labels: symbol (3), position (3))
    >>> words.node_labels[:, 1].tolist()
    [0, 1, 2, 0, 1]
    """
    starts = structures.node_ptr[structures.structure_of_node.long()]
    own = torch.arange(structures.total_nodes, device=starts.device) - starts
    longest = int(structures.num_nodes.max()) if len(structures) else 0
    return _with_label(structures, name, own, tuple(range(longest)))


def with_kmers(structures: Structures, k: int = 3, name: str | None = None) -> Structures:
    r"""Return sequences with the k-mer around each symbol as a further label.

    Node i gets the word of the first labels of the nodes :math:`i - \lfloor (k-1)/2 \rfloor, \dots, i + \lfloor k/2
    \rfloor`, in the order in which they were given; ``"-"`` stands where the sequence has ended, and so does a ``"-"``
    of the alphabet itself, such as the gap of an alignment: the two are not told apart. A model then learns one vector
    for each word, where it would have to build words from single symbols by its messages.

    Parameters
    ----------
    structures
        Chains with a label: each node is joined with the one given before it and the one after it, and with no other.
        Molecules, trees and graphs, whose nodes have no such order, are refused.
    k
        Symbols in a word, at least 2.
    name
        Of the label, ``"3-mer"`` for k = 3; no other may have it.

    Returns
    -------
    Structures
        The vocabulary has all words of the symbols, whether they occur or not, so that new sequences of the same
        alphabet have the same ones. Cost: linear in the number of nodes, times k.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.with_kmers(hf.data.from_sequences(["CAT", "AT"]))
    >>> words
    Structures(2 structures, 5 nodes, 6 arcs; node labels: symbol (3), 3-mer (64))
    >>> words.node_vocabularies[1].decode(words.node_labels[:, 1].tolist())
    ['-CA', 'CAT', 'AT-', '-AT', 'AT-']
    """
    k = checked_integer(k, "k", 2)
    labels = structures.node_labels
    if labels is None:
        raise InputError("k-mers are words of labels, and these nodes have none")
    name = f"{k}-mer" if name is None else name
    other = first_other(structures)
    if other is not None:
        raise InputError(
            f"k-mers are words of a sequence, and {structures.name_of(other)} is none: each node must be joined with "
            f"the one before it and the one after it, and with no other; build chains with from_sequences"
        )
    known = structures.node_vocabularies[0].symbols
    letters = known if END in known else (*known, END)
    if len(letters) ** k > MOST_WORDS:
        raise InputError(
            f"{len(letters)} symbols, with {END!r} for the ends, make {len(letters) ** k:,} words of {k}; more than "
            f"{MOST_WORDS:,} are not offered: choose a smaller k"
        )
    structure = structures.structure_of_node.long()
    first, stop = structures.node_ptr[structure], structures.node_ptr[structure + 1]
    own = torch.arange(structures.total_nodes, device=first.device)
    end = letters.index(END)
    words = torch.zeros_like(own)
    for offset in range(-((k - 1) // 2), k // 2 + 1):
        place = own + offset
        within = (place >= first) & (place < stop)
        symbol = torch.where(within, labels[place.clamp(0, max(len(own) - 1, 0)), 0], end)
        words = words * len(letters) + symbol
    # All words in the order of their codes; longer symbols are set apart by blanks.
    between = "" if all(isinstance(letter, str) and len(letter) == 1 for letter in letters) else " "
    symbols = tuple(between.join(map(str, word)) for word in product(letters, repeat=k))
    return _with_label(structures, name, words, symbols)


def _with_label(structures: Structures, name: str, codes: Tensor, symbols: tuple[Symbol, ...]) -> Structures:
    """Return the structures with one more node label; no other may have its name."""
    if name in [vocabulary.name for vocabulary in structures.node_vocabularies]:
        raise InputError(f"the nodes have a label {name!r} already; choose another name")
    labels, column = structures.node_labels, codes[:, None].to(torch.int32)
    return structures.replace(
        node_labels=column if labels is None else torch.cat([labels, column.to(labels.dtype)], dim=1),
        node_vocabularies=(*structures.node_vocabularies, Vocabulary(name, symbols)),
    )


def first_other(structures: Structures, *, both_ways: bool = False) -> int | None:
    """Return the first structure that is not a chain in the order of its nodes; `both_ways`: with one arc each way."""
    source, target = structures.source.long(), structures.target.long()
    owner = structures.structure_of_node.long()
    apart = owner[target[(source - target).abs() != 1]]
    # Of node i and the one after it, whether an arc joins them; the last of a structure has none after it.
    joined = torch.zeros(structures.total_nodes, dtype=torch.bool, device=source.device)
    joined[torch.minimum(source, target)] = True
    last = structures.node_ptr[owner + 1].long() - 1
    loose = owner[~joined & (torch.arange(structures.total_nodes, device=source.device) < last)]
    wrong = [apart, loose]
    if both_ways:
        expected = 2 * (structures.num_nodes - 1).clamp(min=0)
        wrong += [owner[target[structures.reverse < 0]], torch.nonzero(structures.num_arcs != expected)[:, 0]]
    found = torch.cat(wrong)
    return int(found.min()) if len(found) else None
