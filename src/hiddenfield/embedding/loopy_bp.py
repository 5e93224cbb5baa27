"""Embedded loopy belief propagation."""

from __future__ import annotations

import torch

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Embedding, Prepared, matrix
from hiddenfield.embedding.inputs import ArcKinds, Inputs
from hiddenfield.embedding.members import ALONE, Members, product
from hiddenfield.ops import Topology, arc_sum, gather_sum, send
from hiddenfield.shapes import Float, Tensor

__all__ = ["LoopyBP"]


class LoopyBP(Embedding):
    r"""Loopy belief propagation with learned messages (Algorithm 2 and equations 16 and 17 of Dai et al. 2016).

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 \sum_{k \in N(i) \setminus j}
        \tilde\nu_{ki}\Bigr), \qquad \tilde\nu_{ij}^{(0)} = 0 \\
        \tilde\mu_i &= \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} \tilde\nu_{ki}\Bigr)

    The sum in the second line runs over all neighbours, as in equation 17. On pairwise fields expectation
    propagation has the same updates, hence the same embedding. An isolated node is embedded by its own features.

    Cost: one matrix product of (arcs, dim) by (dim, dim) and one pass over the arcs a round. Where there are labels but
    no attributes the messages of the first round are computed once for each kind of arc, and so is the constant part.

    Parameters
    ----------
    sizes, dim, rounds, activation, bias
        As in `Embedding`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> LoopyBP(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        self.sender = self.node_projection(bias=self.bias)
        self.arcs = self.arc_projection()
        self.messages = matrix(self.dim, self.dim)
        self.own = self.node_projection(bias=self.bias)
        self.received = matrix(self.dim, self.dim)

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False, members: Members = ALONE
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        topology, nodes = structures.topology, self.node_inputs(structures, members)
        own = self.own(nodes)
        constant, kind = self._constant(structures, nodes, members)

        def marginals(total: Tensor) -> Tensor:
            return self.activation(product(total, self.received, members.nodes, own))

        messages = self.activation(constant)
        states = []
        if every_round or self.rounds == 1:
            states.append(marginals(_received(messages, topology, kind)))
        for step in range(2, self.rounds + 1):
            # The first messages depend on the constant alone, so on the kind.
            message_kind = kind if step == 2 else None
            sent = product(messages, self.messages, members.arcs)
            messages = self.cavity(sent, topology, constant, message_kind, kind)
            if every_round or step == self.rounds:
                states.append(marginals(arc_sum(messages, topology)))
        return torch.cat(states, dim=1) if every_round else states[-1]

    def _constant(
        self, structures: Structures, nodes: Inputs, members: Members
    ) -> tuple[Tensor, Tensor | None]:
        """Return what does not change from round to round, a row an arc; or a row a kind, and each arc's kind."""
        kinds = ArcKinds.of(structures, self.sizes, self.dtype) if members is ALONE else None
        if kinds is None:
            constant = send(self.sender(nodes), structures.topology)
            arcs = self.arc_inputs(structures, members)
        else:
            constant, arcs = self.sender(kinds.senders), kinds.arcs
        if self.arcs is not None:
            constant = self.arcs(arcs, constant)
        return constant, None if kinds is None else kinds.kind


def _received(messages: Tensor, topology: Topology, kind: Tensor | None) -> Float[Tensor, "nodes dim"]:
    if kind is None:
        return arc_sum(messages, topology)
    return gather_sum(messages, Topology(kind, topology.in_ptr, num_sources=len(messages)))
