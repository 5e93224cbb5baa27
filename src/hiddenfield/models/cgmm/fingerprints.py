"""Fingerprints of graphs: how many of their nodes, and of their pairs of neighbours, are in which states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.models.cgmm.context import States
from hiddenfield.ops.compile import as_array
from hiddenfield.registry import choose
from hiddenfield.shapes import Array

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
    layers: Sequence[States],
    num_states: int,
    kind: str = "both",
    *,
    mean: bool = False,
) -> csr_matrix:
    r"""Count states and pairs of states in every graph, layer after layer.

    .. math::

        \phi_i = \sum_u q_{ui}, \qquad \phi_{ij} = \sum_{v \to u} q_{ui} q_{vj}

    Parameters
    ----------
    structures
        The pack.
    layers
        The nodes' states, of each layer that has a part: codes are counted, probabilities added up.
    num_states
        How many there are.
    kind
        One of `FINGERPRINTS`.
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
    >>> fingerprints(path, [np.array([0, 1, 1])], 2).toarray()
    array([[1., 2., 0., 1., 1., 2.]])
    """
    from scipy.sparse import csr_matrix, hstack

    choose("fingerprint", FINGERPRINTS, kind)
    graphs, nodes = len(structures), structures.total_nodes
    node_ptr, arc_ptr = as_array(structures.node_ptr), as_array(structures.arc_ptr)
    source, target = as_array(structures.source), as_array(structures.target)

    def count(bounds: Array, columns: Array, width: int) -> csr_matrix:
        """Add up ones at columns, over what every graph has."""
        entries, shape = (np.ones(len(columns)), columns, bounds), (len(bounds) - 1, width)
        found = csr_matrix(entries, shape=shape, copy=True)  # the bounds of the pack are not to be changed
        found.sum_duplicates()
        return found

    def scaled(counts: Any, bounds: Array) -> csr_matrix:
        lengths = np.maximum(np.diff(bounds), 1)[:, None] if mean else np.ones((graphs, 1))
        return csr_matrix(counts).multiply(1 / lengths)

    parts = []
    for states in layers:
        hard, belongs = states.ndim == 1, count(node_ptr, np.arange(nodes), nodes)
        if kind != "bigram":
            own = count(node_ptr, states, num_states) if hard else belongs @ states
            parts.append(scaled(own, node_ptr))
        if kind != "unigram" and hard:
            pairs = states[target].astype(np.int64) * num_states + states[source]
            parts.append(scaled(count(arc_ptr, pairs, num_states**2), arc_ptr))
        elif kind != "unigram":
            around = count(as_array(structures.in_ptr), source, nodes) @ states
            each = (belongs @ (states[:, [k]] * around) for k in range(num_states))
            parts += [scaled(pairs, arc_ptr) for pairs in each]
    return csr_matrix(hstack(parts, format="csr"))
