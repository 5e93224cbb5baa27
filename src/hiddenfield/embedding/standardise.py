"""Standardise: pooled embeddings of mean 0 and variance 1."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import batch_norm

from hiddenfield.shapes import Float, Tensor

__all__ = ["Standardise"]


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

    def forward(self, rows: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """Return the rows, standardised."""
        training = self.training and len(rows) > 1
        return batch_norm(rows, self.mean, self.variance, self.scale, self.shift, training)
