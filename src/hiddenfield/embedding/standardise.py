"""Standardise: pooled embeddings of mean 0 and variance 1."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import batch_norm

from hiddenfield.ops import RowBlocks, segment_sum
from hiddenfield.shapes import Float, Tensor

__all__ = ["Standardise"]

# Of batch normalisation: added to a variance, and the share of the newest in an average.
SMALL, NEWEST = 1e-5, 0.1


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
