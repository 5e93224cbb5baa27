"""Positions as labels: for sequences that are aligned, such as windows around a site."""

from __future__ import annotations

import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError

__all__ = ["with_positions"]


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
    if name in [vocabulary.name for vocabulary in structures.node_vocabularies]:
        raise InputError(f"the nodes have a label {name!r} already; choose another name")
    starts = structures.node_ptr[structures.structure_of_node.long()]
    own = torch.arange(structures.total_nodes, device=starts.device) - starts
    labels = structures.node_labels
    column = own[:, None].to(torch.int32 if labels is None else labels.dtype)
    longest = int(structures.num_nodes.max()) if len(structures) else 0
    return structures.replace(
        node_labels=column if labels is None else torch.cat([labels, column], dim=1),
        node_vocabularies=(*structures.node_vocabularies, Vocabulary(name, tuple(range(longest)))),
    )
