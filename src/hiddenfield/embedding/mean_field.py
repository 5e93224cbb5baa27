"""Embedded mean field."""

from __future__ import annotations

import torch

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Embedding, Prepared, matrix
from hiddenfield.embedding.members import ALONE, Members, product
from hiddenfield.ops import gather_sum
from hiddenfield.shapes import Float, Tensor

__all__ = ["MeanField"]


class MeanField(Embedding):
    r"""Mean field with learned messages (Algorithm 1 of Dai, Dai and Song 2016).

    .. math::
        \tilde\mu_i \leftarrow \sigma\Bigl(W_1 x_i + W_2 \sum_{j \to i} \tilde\mu_j + W_3 \sum_{j \to i} x_j
        + W_4 \sum_{j \to i} e_{ji}\Bigr), \qquad \tilde\mu_i^{(0)} = 0

    Everything but the second term stays the same from round to round and is computed once; :math:`W_2` is applied
    before the sum, so that the sum adds straight into the nodes.

    Returns (from `forward`) the embeddings after the given number of rounds. Cost: one matrix product of
    (nodes, dim) by (dim, dim) and one pass over the arcs a round.

    Parameters
    ----------
    sizes, dim, rounds, activation, bias
        As in `Embedding`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> MeanField(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.own = self.node_projection(bias=self.bias)
        self.neighbours = self.node_projection()
        self.arcs = self.arc_projection()
        self.messages = matrix(self.dim, self.dim)

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False, members: Members = ALONE
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        topology, nodes = structures.topology, self.node_inputs(structures, members)
        constant = gather_sum(self.neighbours(nodes), topology, self.own(nodes))
        if self.arcs is not None:
            constant = self.arcs(
                self.arc_inputs(structures, members).summed(topology.in_ptr, members.nodes), constant
            )
        states = [self.activation(constant)]
        for _ in range(self.rounds - 1):
            sent = product(states[-1], self.messages, members.nodes)
            states.append(self.gathered(sent, topology, constant))
        return torch.cat(states, dim=1) if every_round else states[-1]
