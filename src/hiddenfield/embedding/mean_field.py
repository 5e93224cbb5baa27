"""Embedded mean field."""

from __future__ import annotations

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, Embedding, Prepared
from hiddenfield.embedding.members import members_of, product
from hiddenfield.ops import Round, gather_sum
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "mean_field",
    summary="the embedding of the node that sends",
    reference="Dai, Dai and Song (2016), algorithm 1",
)
class MeanField(Embedding):
    r"""Mean field with learned messages (Algorithm 1 of Dai, Dai and Song 2016).

    .. math::
        \tilde\mu_i \leftarrow \sigma\Bigl(W_1 x_i + W_2 \sum_{j \to i} \tilde\mu_j + W_3 \sum_{j \to i} x_j
        + W_4 \sum_{j \to i} e_{ji}\Bigr), \qquad \tilde\mu_i^{(0)} = 0

    Everything but the second term stays the same from round to round and is computed once; :math:`W_2` is applied
    before the sum, so that the sum adds straight into the nodes.

    Cost per round: one matrix product of (nodes, dim) by (dim, dim) and one pass over the arcs.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> MeanField(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    stackable = capturable = True

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.own = self.node_projection(bias=self.bias)
        self.neighbours = self.node_projection()
        self.arcs = self.arc_projection()
        self.messages = self.matrix()

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        topology, nodes = structures.topology, self.node_inputs(structures)
        members = members_of(structures)
        constant = gather_sum(self.neighbours(nodes), topology, self.own(nodes))
        if self.arcs is not None:
            constant = self.arcs(self.arc_inputs(structures).summed(topology.in_ptr, members.nodes), constant)
        if self.fuses(structures) and self.rounds > 1:
            rounds = [Round("senders", number, 0, 0) for number in range(self.rounds - 1)]
            wanted = range(0 if every_round else self.rounds - 1, self.rounds)
            weights, constants = [self.messages], [(constant, None)]
            return self.result(self.run_rounds(structures, rounds, wanted, weights, constants), every_round)
        states = [self.activation(constant)]
        for _ in range(self.rounds - 1):
            sent = product(states[-1], self.messages, members.nodes)
            states.append(self.gathered(sent, topology, constant))
        return self.result(states, every_round)
