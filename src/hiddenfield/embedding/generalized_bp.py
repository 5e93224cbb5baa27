"""Embedded generalized belief propagation."""

from __future__ import annotations

from typing import Any

from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, MessageEmbedding, Prepared
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.embedding.members import members_of, product
from hiddenfield.fields.graphs.cycles import CycleRegions, cycle_regions
from hiddenfield.ops import arc_sum, gather_sum, send
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "generalized_bp",
    summary="as in generalized belief propagation: messages between nodes, edges and short cycles",
    reference="Dai, Dai and Song (2016), equations 21 and 22; Yedidia, Freeman and Weiss (2005)",
)
class GeneralizedBP(MessageEmbedding):
    r"""Generalized belief propagation with learned messages (equations 21 and 22 of Dai et al. 2016).

    Regions are the nodes, the edges and the short chordless cycles; messages go from a region r to a subregion s:

    .. math::
        \tilde\nu_{r s} &\leftarrow \sigma\Bigl(W_1 \sum_{i \in r \setminus s} x_i
        + W_2 \sum_{M(r) \setminus M(s)} \tilde\nu_{r' s'} - W_3 \sum_{M(r, s)} \tilde\nu_{r' s'}\Bigr) \\
        \tilde\mu_i &= \sigma\Bigl(W_4 x_i + W_5 \sum_{M(i)} \tilde\nu_{r' i}\Bigr)

    In each round the messages into the smallest regions go first: edges to nodes, then cycles to edges. Without cycles
    this is `LoopyBP`. With them it tells graphs apart that colour refinement (1-WL), and so every other embedding here,
    takes for the same, for example two triangles and a hexagon. Which messages read which is found once, by `prepare`;
    see `hiddenfield.fields.graphs.cycles`.

    Parameters
    ----------
    longest_cycle
        Most nodes of a cycle that is a region.
    common
        The options of every `Embedding`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> ring = hf.data.from_edges([0, 1, 2, 2], [1, 2, 0, 3], node_ptr=[0, 4], node_labels=list("CCCO"))
    >>> model = GeneralizedBP(FeatureSizes.of(ring), dim=8)
    >>> model(ring, *model.prepare(ring)).shape
    torch.Size([4, 8])
    """

    sent_by = ("overcounted",)
    overcounted: nn.Parameter

    def __init__(self, sizes: FeatureSizes, *, longest_cycle: int = 8, **common: Any) -> None:
        super().__init__(sizes, **common)
        self.longest_cycle = longest_cycle

    def prepare(self, structures: Structures) -> tuple[CycleRegions]:
        """Find the cycles and the messages that each message reads."""
        return (cycle_regions(structures, self.longest_cycle),)

    def forward(
        self, structures: Structures, *prepared: Prepared, every_round: bool = False
    ) -> Float[Tensor, "nodes width"]:
        """Return the node embeddings."""
        (regions,) = prepared or self.prepare(structures)
        assert isinstance(regions, CycleRegions)
        topology, nodes = structures.topology, self.node_inputs(structures)
        members = members_of(structures)
        sender, own = self.sender(nodes), self.own(nodes)
        constant = send(sender, topology)
        if self.arcs is not None:
            constant = self.arcs(self.arc_inputs(structures), constant)
        cycle_constant = gather_sum(sender, regions.cycle_nodes.topology)
        memberships = members.rows(regions.cycle_nodes.row_ptr, len(cycle_constant))

        def cycle_messages(arcs: Tensor, cycles: Tensor | None) -> Float[Tensor, "memberships dim"]:
            sent = product(arcs, self.messages, members.arcs)
            total = gather_sum(sent, regions.cycle_from_arcs.topology, cycle_constant.to(sent.dtype))
            if cycles is not None:
                sent = product(cycles, self.messages, memberships)
                total = gather_sum(sent, regions.cycle_from_cycles.topology, total)
            taken = product(arcs, -self.overcounted, members.arcs)
            return self.gathered(taken, regions.cycle_overcounted.topology, total)

        arcs, cycles = self.activation(constant), None
        states: list[Tensor] = []
        for step in range(1, self.rounds + 1):
            if step > 1:
                assert cycles is not None
                from_cycles = regions.arc_from_cycles.topology
                sent = product(cycles, self.messages, memberships)
                received = gather_sum(sent, from_cycles, constant.to(sent.dtype))
                arcs = self.cavity(product(arcs, self.messages, members.arcs), topology, received)
            if every_round or step == self.rounds:
                total = arc_sum(arcs, topology)
                states.append(self.activation(product(total, self.received, members.nodes, own)))
            if step < self.rounds:
                cycles = cycle_messages(arcs, cycles)
        return self.result(states, every_round)

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same module again, given the sizes."""
        return {**super().settings(), "longest_cycle": self.longest_cycle}
