"""Embedded damped belief propagation."""

from __future__ import annotations

import torch

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Embedding, Prepared, matrix
from hiddenfield.embedding.members import ALONE, Members, product
from hiddenfield.ops import arc_sum, send
from hiddenfield.shapes import Float, Tensor

__all__ = ["Damped"]


class Damped(Embedding):
    r"""Damped belief propagation with learned messages (Dai et al. 2016, section 4.2 and appendix B.2).

    In the dual of Minka (2001) a message depends on all messages into its sender and on the sender's marginal:

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 \sum_{k \in N(i)} \tilde\nu_{ki}
        + W_6 \tilde\mu_i\Bigr) \\
        \tilde\mu_i &\leftarrow \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} \tilde\nu_{ki} + W_7 \tilde\mu_i\Bigr)

    from zero. Every matrix product is over the nodes, so a round is cheaper than one of `LoopyBP`.

    Parameters
    ----------
    sizes, dim, rounds, activation, bias
        As in `Embedding`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> Damped(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.sender = self.node_projection(bias=self.bias)
        self.arcs = self.arc_projection()
        self.messages = matrix(self.dim, self.dim)
        self.sender_marginal = matrix(self.dim, self.dim)
        self.own = self.node_projection(bias=self.bias)
        self.received = matrix(self.dim, self.dim)
        self.own_marginal = matrix(self.dim, self.dim)

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False, members: Members = ALONE
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        topology, nodes = structures.topology, self.node_inputs(structures, members)
        sender, own = self.sender(nodes), self.own(nodes)
        arcs = None if self.arcs is None else self.arcs(self.arc_inputs(structures, members))
        from_node, carried = sender, own
        states: list[Tensor] = []
        for _ in range(self.rounds):
            sent = send(from_node, topology)
            total = arc_sum(self.activation(sent if arcs is None else sent + arcs), topology)
            states.append(self.activation(carried + product(total, self.received, members.nodes)))
            from_node = product(total, self.messages, members.nodes, sender)
            from_node = product(states[-1], self.sender_marginal, members.nodes, from_node)
            carried = product(states[-1], self.own_marginal, members.nodes, own)
        return torch.cat(states, dim=1) if every_round else states[-1]
