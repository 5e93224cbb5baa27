"""Embedded double-loop belief propagation."""

from __future__ import annotations

from torch import nn

from hiddenfield.embedding.base import EMBEDDINGS, SumEmbedding
from hiddenfield.embedding.members import Members, product
from hiddenfield.shapes import Tensor


@EMBEDDINGS.register(
    "double_loop",
    summary="as in the convergent double loop: the reverse message and the sender's marginal too",
    reference="Dai, Dai and Song (2016), appendix B.1; Yuille (2002)",
)
class DoubleLoop(SumEmbedding):
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

    sent_by, kept_by = ("reverse", "sender_marginal"), ("own_marginal",)
    reverse: nn.Parameter

    def from_reverse(self, messages: Tensor, weight: Tensor | None, members: Members) -> Tensor:
        """Return what the reverse of every message adds."""
        return product(messages, self.reverse - self.messages, members.arcs)
