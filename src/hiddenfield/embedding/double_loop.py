"""Embedded double-loop belief propagation."""

from __future__ import annotations

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, Embedding, Prepared
from hiddenfield.embedding.members import members_of, product
from hiddenfield.ops import arc_sum, reverse_messages, send
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "double_loop",
    summary="as in the convergent double loop: the reverse message and the sender's marginal too",
    reference="Dai, Dai and Song (2016), appendix B.1; Yuille (2002)",
)
class DoubleLoop(Embedding):
    r"""The convergent double loop with learned messages (Dai et al. 2016, section 4.2 and appendix B.1).

    The CCCP updates of Yuille (2002) let a message depend on the reverse message and on the marginal of its sender,
    which is carried along:

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 \sum_{k \in N(i) \setminus j} \tilde\nu_{ki}
        + W_5 \tilde\nu_{ji} + W_6 \tilde\mu_i\Bigr) \\
        \tilde\mu_i &\leftarrow \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} \tilde\nu_{ki} + W_7 \tilde\mu_i\Bigr)

    from zero. Since :math:`W_2 (S_i - \nu_{ji}) + W_5 \nu_{ji} = W_2 S_i - (W_2 - W_5) \nu_{ji}` with :math:`S_i`
    the sum of all messages into i, a round costs one matrix product over the arcs and three over the nodes.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> DoubleLoop(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    stackable = True

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.sender = self.node_projection(bias=self.bias)
        self.arcs = self.arc_projection()
        self.messages = self.matrix()
        self.reverse = self.matrix()
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
        constant = send(sender, topology)
        messages = self.activation(constant if arcs is None else constant + arcs)
        total = arc_sum(messages, topology)
        states = [self.activation(product(total, self.received, members.nodes, own))]
        for _ in range(self.rounds - 1):
            from_node = product(total, self.messages, members.nodes, sender)
            from_node = product(states[-1], self.sender_marginal, members.nodes, from_node)
            back = product(messages, self.reverse - self.messages, members.arcs)
            from_arc = reverse_messages(back, topology)
            sent = send(from_node, topology) + (from_arc if arcs is None else from_arc + arcs)
            messages = self.activation(sent)
            total = arc_sum(messages, topology)
            state = product(total, self.received, members.nodes, own)
            states.append(self.activation(product(states[-1], self.own_marginal, members.nodes, state)))
        return self.result(states, every_round)
