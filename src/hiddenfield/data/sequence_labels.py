"""Further labels of sequences: the position of each symbol, and the k-mer around it."""

from __future__ import annotations

from itertools import product

import torch

from hiddenfield.data.columns import structure_name
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Symbol, Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.shapes import Tensor

__all__ = ["with_kmers", "with_positions"]

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
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise InputError(f"k must be an integer of at least 2, got {k!r}")
    labels = structures.node_labels
    if labels is None:
        raise InputError("k-mers are words of labels, and these nodes have none")
    name = f"{k}-mer" if name is None else name
    _check_chains(structures)
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
    return _with_label(structures, name, words, _all_words(letters, k))


def _with_label(structures: Structures, name: str, codes: Tensor, symbols: tuple[Symbol, ...]) -> Structures:
    """Return the structures with one more node label; no other may have its name."""
    if name in [vocabulary.name for vocabulary in structures.node_vocabularies]:
        raise InputError(f"the nodes have a label {name!r} already; choose another name")
    labels, column = structures.node_labels, codes[:, None].to(torch.int32)
    return structures.replace(
        node_labels=column if labels is None else torch.cat([labels, column.to(labels.dtype)], dim=1),
        node_vocabularies=(*structures.node_vocabularies, Vocabulary(name, symbols)),
    )


def _check_chains(structures: Structures) -> None:
    """Refuse the first structure that is not a chain in the order of its nodes."""
    source, target = structures.source.long(), structures.target.long()
    owner = structures.structure_of_node.long()
    apart = owner[target[(source - target).abs() != 1]]
    # Of node i and the one after it, whether an arc joins them; the last of a structure has none after it.
    joined = torch.zeros(structures.total_nodes, dtype=torch.bool, device=source.device)
    joined[torch.minimum(source, target)] = True
    last = structures.node_ptr[owner + 1].long() - 1
    loose = owner[~joined & (torch.arange(structures.total_nodes, device=source.device) < last)]
    wrong = torch.cat([apart, loose])
    if len(wrong):
        where = structure_name(int(wrong.min()), structures.ids)
        raise InputError(
            f"k-mers are words of a sequence, and {where} is none: each node must be joined with the one before it and "
            f"the one after it, and with no other; build chains with from_sequences"
        )


def _all_words(letters: tuple[Symbol, ...], k: int) -> tuple[Symbol, ...]:
    """Return all words in the order of their codes; longer symbols are set apart by blanks."""
    between = "" if all(isinstance(letter, str) and len(letter) == 1 for letter in letters) else " "
    return tuple(between.join(map(str, word)) for word in product(letters, repeat=k))
