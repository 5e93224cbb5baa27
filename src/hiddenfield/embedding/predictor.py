"""Predictor: embedding, pooling and head, from structures to outputs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import batch_norm

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import EMBEDDINGS, Embedding, Prepared
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.embedding.members import members_of, product
from hiddenfield.errors import InputError
from hiddenfield.ops import RowBlocks, segment_max, segment_sum
from hiddenfield.registry import choose
from hiddenfield.shapes import Float, Int, Tensor

# Of batch normalisation: added to a variance, and the share of the newest in an average.
SMALL, NEWEST = 1e-5, 0.1


class Predictor(nn.Module):
    r"""From structures to predictions, trained end to end (equations 23 and 24 of Dai, Dai and Song 2016).

    .. math::
        f(\chi) = U_2\, \sigma\Bigl(U_1\, \sigma\bigl(\mathrm{pool}_i\, \sigma(W_o \tilde\mu_i)\bigr) + u_1\Bigr) + u_2

    where :math:`\sigma(W_o \cdot)` is applied only with `node_width`.

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
    >>> network = Predictor(FeatureSizes.of(words), outputs=2, model="mean_field", dim=8)
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
        self.embedding = _build(model, sizes, options)
        self.pool = choose("pooling", POOLINGS, pooling)
        self.every_round, self.scale = every_round, float(scale)
        width = self.embedding.dim * (self.embedding.rounds if every_round else 1)
        self.node_layer = _dense(width, node_width) if node_width is not None else None
        self.width = node_width or width
        self.standardise = Standardise(self.width) if standardise else None
        self.hidden_layer, self.output_layer = _dense(self.width, hidden), _dense(hidden, outputs)
        self.dropout = Dropout(dropout)
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

    def nodes(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "nodes width"]:
        """Return what is pooled: one vector per node."""
        states = self.embedding(structures, *prepared, every_round=self.every_round)
        if self.node_layer is not None:
            states = self.embedding.activation(_apply(self.node_layer, states, members_of(structures).nodes))
        return states if self.scale == 1.0 else states / self.scale

    def embed(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "structures width"]:
        """Return one vector per structure, the pooled node embeddings."""
        return self.pool(self.nodes(structures, *prepared), structures.node_ptr)

    def head(
        self, embeddings: Float[Tensor, "structures width"], blocks: RowBlocks | None = None
    ) -> Float[Tensor, "structures outputs"]:
        """Return the outputs for pooled embeddings; of several networks side by side, block by block."""
        activation = self.embedding.activation
        if self.standardise is not None:
            embeddings = self.standardise(embeddings, blocks)
        hidden = activation(_apply(self.hidden_layer, activation(embeddings), blocks))
        return _apply(self.output_layer, self.dropout(hidden), blocks)

    def forward(self, structures: Structures, *prepared: Prepared) -> Float[Tensor, "structures outputs"]:
        """Return (structures, outputs)."""
        return self.head(self.embed(structures, *prepared))

    def settings(self) -> dict[str, Any]:
        """Return the options that build the same network again, given the sizes; plain values."""
        return dict(self._settings)

    @property
    def num_parameters(self) -> int:
        """Number of weights that are trained."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


# -- pooling and layers ------------------------------------------------------------------------------------


def pool_mean(
    nodes: Float[Tensor, "nodes dim"], node_ptr: Int[Tensor, " structure_bounds"]
) -> Float[Tensor, "structures dim"]:
    r"""Mean over the nodes; 0 for an empty structure."""
    sizes = node_ptr.diff().clamp(min=1).to(nodes.dtype)
    return segment_sum(nodes, node_ptr) / sizes[:, None]


def pool_max(
    nodes: Float[Tensor, "nodes dim"], node_ptr: Int[Tensor, " structure_bounds"]
) -> Float[Tensor, "structures dim"]:
    r"""Elementwise maximum over the nodes; 0 for an empty structure."""
    return torch.where((node_ptr.diff() > 0)[:, None], segment_max(nodes, node_ptr), 0.0)


# 0 for an empty structure; the paper takes the sum.
POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": segment_sum,
    "mean": pool_mean,
    "max": pool_max,
}


class Standardise(nn.Module):
    r"""Shift and scale every column to mean 0 and variance 1, then by learned numbers (batch normalisation).

    .. math:: y_k = \gamma_k \frac{x_k - m_k}{\sqrt{v_k + \epsilon}} + \beta_k

    In training m and v are those of the batch, and their running averages are kept; afterwards, and for a batch of
    one, which has no variance, the averages are used. Cost: one pass over the batch.

    Parameters
    ----------
    width
        Number of columns.

    Notes
    -----
    S. Ioffe and C. Szegedy, Batch normalization: accelerating deep network training by reducing internal covariate
    shift, ICML 2015.

    Examples
    --------
    >>> layer = Standardise(2)
    >>> layer(torch.tensor([[1.0, 10.0], [3.0, 30.0]])).round(decimals=3)
    tensor([[-1., -1.],
            [ 1.,  1.]], grad_fn=<...>)
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(
        self, rows: Float[Tensor, "rows width"], blocks: RowBlocks | None = None
    ) -> Float[Tensor, "rows width"]:
        """Return the rows, standardised; where they belong to several networks, block by block."""
        if blocks is not None:
            return self._by_blocks(rows, blocks)
        training = self.training and len(rows) > 1
        return batch_norm(rows, self.mean, self.variance, self.scale, self.shift, training, NEWEST, SMALL)

    def _by_blocks(self, rows: Tensor, blocks: RowBlocks) -> Tensor:
        """Do the same with (networks, width) numbers; no tool of PyTorch does."""
        mean, variance = self.mean, self.variance
        if self.training:
            count = blocks.ptr.diff().to(rows.dtype)[:, None]
            own = segment_sum(rows, blocks.ptr) / count.clamp(min=1)
            square = segment_sum((rows - own.index_select(0, blocks.owner)) ** 2, blocks.ptr)
            several = count > 1
            with torch.no_grad():
                share = NEWEST * several.to(rows.dtype)
                self.mean.lerp_(own, share)
                self.variance.lerp_(square / (count - 1).clamp(min=1), share)
            mean = torch.where(several, own, mean)
            variance = torch.where(several, square / count.clamp(min=1), variance)
        factor = self.scale * torch.rsqrt(variance + SMALL)
        shift = self.shift - mean * factor
        return torch.addcmul(shift.index_select(0, blocks.owner), rows, factor.index_select(0, blocks.owner))


class Dropout(nn.Dropout):
    """Dropout whose factors can be set from outside, where they are not drawn by this network alone.

    So it is for networks side by side, each of which draws with a seed of its own, and for a part of a batch.
    """

    factors: Float[Tensor, "rows width"] | None = None

    def forward(self, rows: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """Return the rows with some entries 0 and the others enlarged, in training."""
        if self.factors is None or not self.training:
            return super().forward(rows)
        return rows * self.factors


def _build(model: str, sizes: FeatureSizes, options: dict[str, Any]) -> Embedding:
    kind = choose("model", EMBEDDINGS, model)
    own = {**inspect.signature(Embedding).parameters, **inspect.signature(kind).parameters}
    accepted = [name for name, parameter in own.items() if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in accepted:
            known = ", ".join(accepted)
            raise InputError(f"model {model!r} has no option {name!r}; its options are: {known}")
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
