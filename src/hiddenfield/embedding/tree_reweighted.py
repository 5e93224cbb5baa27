"""Embedded tree-reweighted belief propagation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, Prepared, SumEmbedding
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.embedding.members import Members, product
from hiddenfield.errors import InputError
from hiddenfield.fields.graphs.spanning_trees import edge_appearance
from hiddenfield.ops import send
from hiddenfield.shapes import Float, Tensor


@EMBEDDINGS.register(
    "tree_reweighted",
    summary="as in tree-reweighted propagation: messages weighted by the edges' appearance probabilities",
    reference="Dai, Dai and Song (2016), appendix B.3; Wainwright, Jaakkola and Willsky (2003)",
)
class TreeReweighted(SumEmbedding):
    r"""Tree-reweighted belief propagation with learned messages (Dai et al. 2016, section 4.2 and appendix B.3).

    Every edge has a weight :math:`v_{ij}`, the probability that it appears in a random spanning tree (Wainwright,
    Jaakkola and Willsky 2003):

    .. math::
        \tilde\nu_{ij} &\leftarrow \sigma\Bigl(W_1 x_i + W_e e_{ij}
        + W_2 \sum_{k \in N(i) \setminus j} v_{ki} \tilde\nu_{ki}
        + W_5 (1 - v_{ij}) \tilde\nu_{ji}\Bigr) \\
        \tilde\mu_i &= \sigma\Bigl(W_3 x_i + W_4 \sum_{k \in N(i)} v_{ki} \tilde\nu_{ki}\Bigr) \\
        \tilde\eta_{ij} &= \sigma\Bigl(W_6 (x_i + x_j) + W_7 \bigl(\textstyle\sum_{k \in N(i)} v_{ki} \tilde\nu_{ki}
        + \sum_{k \in N(j)} v_{kj} \tilde\nu_{kj}\bigr)\Bigr)

    On a tree every weight is 1 and this is `LoopyBP`. With ``weights="uniform"`` the weights are those of the uniform
    spanning tree (effective resistances); with ``"learned"`` each is moved within (0, 1] from there by a function of
    its effective resistance and of the arc's features, :math:`v = \mathrm{sigmoid}(\mathrm{logit}(u) + a + b \log u
    + c^\top e)`, the same for both directions of an edge where their features are.

    Parameters
    ----------
    weights
        ``"uniform"`` or ``"learned"``.
    common
        The options of every `Embedding`.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "CAT"])
    >>> model = TreeReweighted(FeatureSizes.of(words), dim=8)
    >>> model(words, *model.prepare(words)).shape
    torch.Size([10, 8])
    """

    sent_by = ("reverse",)
    reverse: nn.Parameter

    def __init__(self, sizes: FeatureSizes, *, weights: str = "uniform", **common: Any) -> None:
        super().__init__(sizes, **common)
        if weights not in ("uniform", "learned"):
            raise InputError(f"weights must be 'uniform' or 'learned', got {weights!r}")
        self.weights, learned = weights, weights == "learned"
        self.stackable = not learned  # the parameters of edge weights are numbers, not matrices
        self.weight_shift = nn.Parameter(torch.zeros(2)) if learned else None
        self.weight_arcs = nn.Parameter(torch.zeros(self.dim)) if learned and self.arcs is not None else None

    def make_weights(self) -> None:
        """Make the matrices of the equations."""
        super().make_weights()
        self.edge_ends = self.node_projection(bias=self.bias)
        self.edge_received = self.matrix()

    def prepare(self, structures: Structures) -> tuple[Structures]:
        """Return the pack's topology with one arc attribute, each edge's appearance probability."""
        bare = Structures(structures.node_ptr, structures.in_ptr, structures.source, structures.reverse)
        appearance = edge_appearance(structures)
        return (bare.replace(arc_attributes=appearance[:, None], arc_attribute_names=("appearance",)),)

    def edge_embeddings(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "arcs dim"]:
        r"""Return :math:`\tilde\eta_{ij}` for every arc; the two directions of an edge have the same."""
        _, total = self.run(structures, prepared, False)
        topology = structures.topology
        ends = product(total, self.edge_received, None, self.edge_ends(self.node_inputs(structures)))
        return self.activation(send(ends, topology) + ends.index_select(0, topology.target))

    def from_reverse(self, messages: Tensor, weight: Tensor | None, members: Members) -> Tensor:
        """Return what the reverse of every message adds: it is taken out of the sum, and has its own matrix."""
        assert weight is not None
        taken = product(weight * messages, self.messages, members.arcs)
        return product((1 - weight) * messages, self.reverse, members.arcs) - taken

    def arc_weights(
        self, structures: Structures, prepared: tuple[Prepared, ...], arcs: Tensor | None
    ) -> Float[Tensor, "arcs 1"]:
        """Return the weight of every arc."""
        (weighted,) = prepared or self.prepare(structures)
        assert isinstance(weighted, Structures)
        assert weighted.arc_attributes is not None
        uniform = weighted.arc_attributes.to(self.dtype)
        if self.weight_shift is None:
            return uniform
        shift = self.weight_shift[0] + self.weight_shift[1] * uniform.log()
        if self.weight_arcs is not None and arcs is not None:
            shift = shift + (arcs @ self.weight_arcs)[:, None]
        # sigmoid(logit(u) + s) = u / (u + (1 - u) exp(-s)): a bridge, with u = 1, stays in every tree.
        return uniform / (uniform + (1 - uniform) * torch.exp(-shift))

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same module again, given the sizes."""
        return {**super().settings(), "weights": self.weights}
