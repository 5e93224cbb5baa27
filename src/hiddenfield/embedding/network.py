"""Network: embedding, pooling and head, from structures to outputs."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Embedding, Prepared
from hiddenfield.embedding.damped import Damped
from hiddenfield.embedding.double_loop import DoubleLoop
from hiddenfield.embedding.generalized_bp import GeneralizedBP
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.embedding.loopy_bp import LoopyBP
from hiddenfield.embedding.mean_field import MeanField
from hiddenfield.embedding.members import ALONE, Members, product
from hiddenfield.embedding.pooling import POOLINGS
from hiddenfield.embedding.standardise import Standardise
from hiddenfield.embedding.tree_reweighted import TreeReweighted
from hiddenfield.errors import InputError
from hiddenfield.ops import RowBlocks
from hiddenfield.registry import choose
from hiddenfield.shapes import Float, Tensor

__all__ = ["EMBEDDINGS", "Network"]

EMBEDDINGS: dict[str, type[Embedding]] = {
    "mean_field": MeanField,
    "loopy_bp": LoopyBP,
    "double_loop": DoubleLoop,
    "damped": Damped,
    "tree_reweighted": TreeReweighted,
    "generalized_bp": GeneralizedBP,
}


class Network(nn.Module):
    r"""From structures to predictions, trained end to end (equations 23 and 24 of Dai, Dai and Song 2016).

    .. math::
        f(\chi) = U_2\, \sigma\Bigl(U_1\, \sigma\bigl(\mathrm{pool}_i\, \sigma(W_o \tilde\mu_i)\bigr) + u_1\Bigr) + u_2

    where :math:`\sigma(W_o \cdot)` is there only with `node_width`.

    Parameters
    ----------
    sizes
        The features of the structures that will come.
    outputs
        Numbers that are predicted for each structure.
    model
        A name of `EMBEDDINGS`.
    pooling
        ``"sum"``, ``"mean"`` or ``"max"`` over the nodes.
    every_round
        Whether the head sees the embeddings of all rounds, side by side, rather than those of the last.
    node_width
        Width of a layer on every node before pooling; None for none.
    scale
        Number that node vectors are divided by before they are pooled. With the mean number of nodes the sums of large
        structures begin as small as those of small ones, and train as well.
    standardise
        Whether pooled embeddings are standardised, column by column, before the head (`Standardise`).
    hidden
        Width of the head's hidden layer.
    dropout
        Share of the hidden layer that is dropped in training.
    options
        Those of the embedding: ``dim``, ``rounds``, ``activation``, ``bias``, and the model's own.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", ""])
    >>> network = Network(FeatureSizes.of(words), outputs=2, model="mean_field", dim=8)
    >>> network(words).shape, network.embed(words).shape
    (torch.Size([3, 2]), torch.Size([3, 8]))
    """

    def __init__(
        self,
        sizes: FeatureSizes,
        outputs: int,
        *,
        model: str = "loopy_bp",
        pooling: str = "sum",
        every_round: bool = False,
        node_width: int | None = None,
        scale: float = 1.0,
        standardise: bool = False,
        hidden: int = 64,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must lie in [0, 1), got {dropout!r}")
        for name, value in (("outputs", outputs), ("hidden", hidden), ("node_width", node_width)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be an integer of at least 1, got {value!r}")
        if not (isinstance(scale, (int, float)) and 0.0 < scale < math.inf):
            raise InputError(f"scale must be finite and greater than 0, got {scale!r}")
        self.embedding = _build(choose("model", EMBEDDINGS, model), model, sizes, options)
        self.pool = choose("pooling", POOLINGS, pooling)
        self.every_round, self.scale = every_round, float(scale)
        width = self.embedding.dim * (self.embedding.rounds if every_round else 1)
        self.node_layer = _dense(width, node_width) if node_width is not None else None
        self.width = node_width or width
        self.standardise = Standardise(self.width) if standardise else None
        self.hidden_layer, self.output_layer = _dense(self.width, hidden), _dense(hidden, outputs)
        self.dropout = nn.Dropout(dropout)
        self._settings = {
            "outputs": outputs,
            "model": model,
            "pooling": pooling,
            "every_round": every_round,
            "node_width": node_width,
            "scale": float(scale),
            "standardise": standardise,
            "hidden": hidden,
            "dropout": dropout,
            **self.embedding.settings(),
        }

    def prepare(self, structures: Structures) -> tuple[Prepared, ...]:
        """Return what else `forward` needs of the structures; see `Embedding.prepare`."""
        return self.embedding.prepare(structures)

    def nodes(
        self, structures: Structures, *prepared: Prepared, members: Members = ALONE
    ) -> Float[Tensor, "nodes width"]:
        """Return what is pooled: one vector a node."""
        shared = {} if members is ALONE else {"members": members}
        states = self.embedding(structures, *prepared, every_round=self.every_round, **shared)
        if self.node_layer is not None:
            states = self.embedding.activation(_apply(self.node_layer, states, members.nodes))
        return states if self.scale == 1.0 else states / self.scale

    def embed(
        self, structures: Structures, *prepared: Prepared, members: Members = ALONE
    ) -> Float[Tensor, "structures width"]:
        """Return one vector a structure, the pooled node embeddings."""
        return self.pool(self.nodes(structures, *prepared, members=members), structures.node_ptr)

    def head(
        self,
        embeddings: Float[Tensor, "structures width"],
        members: Members = ALONE,
        kept: Float[Tensor, "structures hidden"] | None = None,
    ) -> Float[Tensor, "structures outputs"]:
        """Return the outputs for pooled embeddings; `kept` are factors of the hidden layer instead of dropout."""
        activation, blocks = self.embedding.activation, members.structures
        if self.standardise is not None:
            embeddings = self.standardise(embeddings, blocks)
        hidden = activation(_apply(self.hidden_layer, activation(embeddings), blocks))
        return _apply(self.output_layer, self.dropout(hidden) if kept is None else hidden * kept, blocks)

    def forward(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "structures outputs"]:
        """Return (structures, outputs)."""
        return self.head(self.embed(structures, *prepared))

    def settings(self) -> dict[str, Any]:
        """Return what is needed to build the network again, beside the sizes: plain values."""
        return dict(self._settings)

    @property
    def num_parameters(self) -> int:
        """Number of weights that are trained."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def _build(kind: type[Embedding], model: str, sizes: FeatureSizes, options: dict[str, Any]) -> Embedding:
    import inspect

    accepted = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "sizes")]
    for name in options:
        if name not in accepted:
            raise InputError(
                f"model {model!r} has no option {name!r}; its options are: {', '.join(accepted)}"
            )
    return kind(sizes, **options)


def _apply(layer: nn.Linear, rows: Tensor, blocks: RowBlocks | None) -> Tensor:
    """Apply a layer, or to every block of rows the layer of its network."""
    if blocks is None:
        return layer(rows)
    return product(rows, layer.weight, blocks, layer.bias.index_select(0, blocks.owner))


def _dense(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear layer with Glorot's uniform initial values and bias 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
