"""Fingerprints of graphs: how many of their nodes, and of their pairs of neighbours, are in which states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.ops.compile import as_array
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FINGERPRINTS: Mapping[str, str] = {
    "unigram": "nodes in each state",
    "bigram": "nodes in each state with neighbours in each state",
    "both": "the two side by side",
}
"""What is counted."""


def fingerprints(
    structures: Structures,
    posteriors: Sequence[Float[Array, "nodes states"]],
    kind: str = "both",
    *,
    soft: bool = False,
    mean: bool = False,
) -> csr_matrix:
    r"""Count states and pairs of states in every graph, layer after layer.

    .. math::

        \phi_i = \sum_u q_{ui}, \qquad \phi_{ij} = \sum_{v \to u} q_{ui} q_{vj}

    Parameters
    ----------
    structures
        The pack.
    posteriors
        The probabilities of the nodes' states, of each layer that has a part.
    kind
        One of `FINGERPRINTS`.
    soft
        Whether probabilities are added up, rather than the most likely states counted.
    mean
        Whether counts are divided by the number of nodes, those of pairs by that of arcs.

    Returns
    -------
    csr_matrix
        Graphs by columns: of each layer C, C² or both. The row of a graph without nodes is zero.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> path = hf.data.from_edges([0, 1], [1, 2], node_ptr=[0, 3])
    >>> fingerprints(path, [np.eye(2)[[0, 1, 1]]]).toarray()
    array([[1., 2., 0., 1., 1., 2.]])
    """
    from scipy.sparse import csr_matrix, hstack

    choose("fingerprint", FINGERPRINTS, kind)
    nodes, graphs = structures.total_nodes, len(structures)
    node_ptr, in_ptr = as_array(structures.node_ptr), as_array(structures.in_ptr)
    belongs = csr_matrix((np.ones(nodes), np.arange(nodes), node_ptr), shape=(graphs, nodes))
    source = as_array(structures.source)
    seen = csr_matrix((np.ones(len(source)), source, in_ptr), shape=(nodes, nodes))
    per_node = 1 / np.maximum(np.diff(node_ptr), 1)[:, None] if mean else np.ones((graphs, 1))
    per_arc = 1 / np.maximum(np.diff(in_ptr[node_ptr]), 1)[:, None] if mean else np.ones((graphs, 1))
    parts = [csr_matrix((graphs, 0))]
    for posterior in posteriors:
        states, most_likely = posterior.shape[1], posterior.argmax(axis=1)
        every = [(np.full(nodes, k), posterior[:, k]) for k in range(states)]
        chosen = every if soft else [(most_likely, np.ones(nodes))]
        own = csr_matrix(posterior if soft else np.eye(states)[most_likely])
        if kind != "bigram":
            parts.append((belongs @ own).multiply(per_node))
        if kind != "unigram":
            around = (seen @ own).tocsr()
            degrees, pairs = np.diff(around.indptr), csr_matrix((graphs, states * states))
            for state, weight in chosen:
                columns = np.repeat(states * state, degrees) + around.indices
                entries = (around.data * np.repeat(weight, degrees), columns, around.indptr)
                pairs = pairs + belongs @ csr_matrix(entries, shape=(nodes, states * states))
            parts.append(pairs.multiply(per_arc))
    return csr_matrix(hstack(parts, format="csr"))
