"""Embedded loopy belief propagation."""

from __future__ import annotations

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, MessageEmbedding, Prepared
from hiddenfield.embedding.inputs import ArcKinds, Inputs, kinds_of_rows
from hiddenfield.embedding.members import members_of, product
from hiddenfield.ops import Round, Topology, arc_sum, gather_sum, send
from hiddenfield.ops.rounds import MOST_KINDS
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "loopy_bp",
    summary="a message made of all that arrived, except from where it goes",
    reference="Dai, Dai and Song (2016), algorithm 2",
)
class LoopyBP(MessageEmbedding):
    r"""Loopy belief propagation with learned messages (Algorithm 2 and equations 16 and 17 of Dai et al. 2016).

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij} + W_2 \sum_{k \in N(i) \setminus j}
        \tilde\nu_{ki}\Bigr), \qquad \tilde\nu_{ij}^{(0)} = 0 \\
        \tilde\mu_i &= \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} \tilde\nu_{ki}\Bigr)

    The sum in the second line runs over all neighbours, as in equation 17. On pairwise fields expectation
    propagation has the same updates, hence the same embedding. An isolated node is embedded by its own features.

    Cost per round: one matrix product of (arcs, dim) by (dim, dim) and one pass over the arcs. Where there are labels,
    but no attributes, the first messages and the constant part are computed once per kind of arc.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> LoopyBP(FeatureSizes.of(words), dim=8)(words).shape
    torch.Size([10, 8])
    """

    capturable = True

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        if self.fuses(structures):
            return self.result(self._fused(structures, every_round), every_round)
        topology, nodes = structures.topology, self.node_inputs(structures)
        members = members_of(structures)
        own = self.own(nodes)
        kinds = ArcKinds.of(structures, self.sizes, self.dtype)
        kind, blocks = (None, members.arcs) if kinds is None else (kinds.kind, kinds.senders.blocks)
        constant = self._constant(structures, nodes, kinds)

        def marginals(total: Tensor) -> Tensor:
            return self.activation(product(total, self.received, members.nodes, own))

        messages = self.activation(constant)
        states = []
        if every_round or self.rounds == 1:
            states.append(marginals(_received(messages, topology, kind)))
        for step in range(2, self.rounds + 1):
            # The first messages depend on the constant alone, so on the kind.
            first = step == 2
            sent = product(messages, self.messages, blocks if first else members.arcs)
            messages = self.cavity(sent, topology, constant, kind if first else None, kind)
            if every_round or step == self.rounds:
                states.append(marginals(arc_sum(messages, topology)))
        return self.result(states, every_round)

    def _fused(self, structures: Structures, every_round: bool) -> tuple[Tensor, ...]:
        """Return the node embeddings, with all rounds as one op."""
        rounds: list[Round] = []
        wanted, messages = [], 0
        for step in range(1, self.rounds + 1):
            if step > 1:
                rounds.append(Round("cavity", messages, 0, 0))
                messages = len(rounds)
            if every_round or step == self.rounds:
                rounds.append(Round("arrivals", messages, 1, 1))
                wanted.append(len(rounds))
        weights, constants = [self.messages, self.received], self._constants_by_kind(structures)
        return self.run_rounds(structures, rounds, wanted, weights, constants)

    def _constants_by_kind(self, structures: Structures) -> list[tuple[Tensor, Tensor | None]]:
        """Return the constants of messages and of marginals: one row per kind and the kinds, where they are few."""
        kind, count = kinds_of_rows(structures, "node", self.sizes)
        arc_kind, arc_count = kinds_of_rows(structures, "arc", self.sizes)
        plain = self.arcs is not None and arc_kind is None
        if kind is None or plain or count * max(arc_count, 1) > MOST_KINDS:
            nodes = self.node_inputs(structures)
            return [(self._constant(structures, nodes), None), (self.own(nodes), None)]
        sender, at_sender = self.sender.of_kinds(), kind.index_select(0, structures.source)
        if self.arcs is not None and arc_kind is not None:
            sender = (sender[:, None] + self.arcs.of_kinds()).flatten(0, 1)
            at_sender = at_sender * arc_count + arc_kind
        return [(sender, at_sender), (self.own.of_kinds(), kind)]

    def _constant(
        self, structures: Structures, nodes: Inputs, kinds: ArcKinds | None = None
    ) -> Float[Tensor, "rows dim"]:
        """Return what stays the same in all rounds: one row per arc, or one per kind."""
        if kinds is None:
            constant, arcs = send(self.sender(nodes), structures.topology), self.arc_inputs(structures)
        else:
            constant, arcs = self.sender(kinds.senders), kinds.arcs
        return constant if self.arcs is None else self.arcs(arcs, constant)


def _received(messages: Tensor, topology: Topology, kind: Tensor | None) -> Float[Tensor, "nodes dim"]:
    if kind is None:
        return arc_sum(messages, topology)
    return gather_sum(messages, Topology(kind, topology.in_ptr, num_sources=len(messages)))
