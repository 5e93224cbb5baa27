"""How likely an edge is to appear in a random spanning tree."""

from __future__ import annotations

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.shapes import Array, Float, Tensor

__all__ = ["edge_appearance"]

# Dense Laplacians are solved together up to this many matrix entries.
CHUNK = 1 << 22


def edge_appearance(structures: Structures) -> Float[Tensor, " arcs"]:
    r"""Return, for every arc, the probability that its edge is in a uniformly drawn spanning tree.

    By Kirchhoff's theorem it is the effective resistance across the edge,

    .. math:: u_{ij} = L^+_{ii} + L^+_{jj} - 2 L^+_{ij},

    with L the graph Laplacian of the undirected graph (parallel edges count apart, one-way arcs as edges, loops not at
    all). These probabilities lie in the spanning-tree polytope: over the edges of a connected graph they sum to
    the number of nodes less one. A bridge has 1; a self-loop, which is in no tree, gets 1 too, so that it can be used
    as a weight in (0, 1].

    Exact up to rounding. Cost: cubic in the nodes of each structure, in batches of equal size.

    Examples
    --------
    A triangle with a tail: two of the three triangle's edges are in any tree.

    >>> import hiddenfield as hf
    >>> pack = hf.data.from_edges([0, 1, 2, 2], [1, 2, 0, 3], node_ptr=[0, 4])
    >>> edge_appearance(pack).tolist()
    [0.6666, 0.6666, 0.6666, 0.6666, 0.6666, 0.6666, 1.0, 1.0]
    """
    pack = structures.to("cpu")
    sizes = pack.num_nodes.numpy()
    source, target = pack.source.numpy(), pack.target.numpy()
    node_ptr, arc_ptr = pack.node_ptr.numpy(), pack.arc_ptr.numpy()
    reverse = pack.reverse.numpy()
    # An edge is two arcs that each bring half of it; a one-way arc brings all.
    weight = np.where(reverse < 0, 1.0, 0.5) * (source != target)
    result = np.ones(pack.total_arcs)
    for size in np.unique(sizes[sizes > 1]):
        group = np.flatnonzero(sizes == size)
        for chosen in np.array_split(group, max(1, len(group) * int(size) ** 2 // CHUNK)):
            arcs = _ranges(arc_ptr[chosen], arc_ptr[chosen + 1])
            owner = np.repeat(np.arange(len(chosen)), (arc_ptr[chosen + 1] - arc_ptr[chosen]))
            first, second = source[arcs] - node_ptr[chosen][owner], target[arcs] - node_ptr[chosen][owner]
            resistance = _effective_resistance(owner, first, second, weight[arcs], len(chosen), int(size))
            result[arcs] = np.where(first == second, 1.0, resistance)
    return torch.from_numpy(result.clip(1e-6, 1.0).astype(np.float32)).to(structures.device)


def _effective_resistance(
    owner: Array, first: Array, second: Array, weight: Array, count: int, size: int
) -> Array:
    laplacian = np.zeros((count, size, size))
    np.add.at(laplacian, (owner, first, second), -weight)
    np.add.at(laplacian, (owner, second, first), -weight)
    np.add.at(laplacian, (owner, first, first), weight)
    np.add.at(laplacian, (owner, second, second), weight)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    return inverse[owner, first, first] + inverse[owner, second, second] - 2 * inverse[owner, first, second]


def _ranges(starts: Array, stops: Array) -> Array:
    """Return the numbers from each start to its stop, one range after another."""
    lengths = stops - starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(lengths.sum()) + offsets
