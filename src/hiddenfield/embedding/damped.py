"""Embedded damped belief propagation."""

from __future__ import annotations

from hiddenfield.embedding.base import EMBEDDINGS, SumEmbedding


@EMBEDDINGS.register(
    "damped",
    summary="as in damped belief propagation: all that arrived, and the sender's marginal",
    reference="Dai, Dai and Song (2016), appendix B.2; Minka (2001)",
)
class Damped(SumEmbedding):
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

    sent_by, kept_by = ("sender_marginal",), ("own_marginal",)
    capturable = True
