"""Embedded damped belief propagation."""

from __future__ import annotations

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, Embedding, Prepared
from hiddenfield.embedding.members import members_of, product
from hiddenfield.ops import arc_sum, send
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "damped",
    summary="as in damped belief propagation: all that arrived, and the sender's marginal",
    reference="Dai, Dai and Song (2016), appendix B.2; Minka (2001)",
)
class Damped(Embedding):
    r"""Damped belief propagation with learned messages (Dai et al. 2016, section 4.2 and appendix B.2).

    In the dual of Minka (2001) a message depends on all messages into its sender and on the sender's marginal:

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 \sum_{k \in N(i)} \tilde\nu_{ki}
        + W_6 \tilde\mu_i\Bigr) \\
        \tilde\mu_i &\leftarrow \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} \tilde\nu_{ki} + W_7 \tilde\mu_i\Bigr)

    from zero. Every matrix product is over the nodes, so a round is cheaper than one of `LoopyBP`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> Damped(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    stackable = True

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.sender = self.node_projection(bias=self.bias)
        self.arcs = self.arc_projection()
        self.messages = self.matrix()
        self.sender_marginal = self.matrix()
        self.own = self.node_projection(bias=self.bias)
        self.received = self.matrix()
        self.own_marginal = self.matrix()

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        topology, nodes = structures.topology, self.node_inputs(structures)
        members = members_of(structures)
        sender, own = self.sender(nodes), self.own(nodes)
        arcs = None if self.arcs is None else self.arcs(self.arc_inputs(structures))
        from_node, carried = sender, own
        states: list[Tensor] = []
        for _ in range(self.rounds):
            sent = send(from_node, topology)
            total = arc_sum(self.activation(sent if arcs is None else sent + arcs), topology)
            states.append(self.activation(carried + product(total, self.received, members.nodes)))
            from_node = product(total, self.messages, members.nodes, sender)
            from_node = product(states[-1], self.sender_marginal, members.nodes, from_node)
            carried = product(states[-1], self.own_marginal, members.nodes, own)
        return self.result(states, every_round)
